#ifndef OPENMM_STIFF_STIFF_TERMS_H_
#define OPENMM_STIFF_STIFF_TERMS_H_

#include "FunctionTerms.h"
#include "windowsExportStiff.h"
#include "openmm/System.h"
#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * A stiff internal coordinate s(x), the length of a bond or an angle, with its potential: k/2 (s - s0)^2, or one that
 * is among the FunctionTerms.
 */
struct StiffTerm {
    enum class Coordinate { Distance, Angle };
    Coordinate coordinate;
    /// The particles, in the order of the Force: two for a distance; three for an angle, its vertex in the middle.
    std::array<int, 3> particles;
    /// Force constant [kJ/mol/nm^2 or kJ/mol/rad^2] and equilibrium value [nm or rad]; 0 if the potential is among
    /// the FunctionTerms.
    double k, s0;
    /// Whether displacements follow the minimum image convention.
    bool periodic;
    /// Where the term comes from: index of the Force in the System, and of the term in the Force.
    int force, index;
    /// Whether the potential is k/2 (s - s0)^2.
    bool harmonic = true;
    /// What of it is a row of the Jacobian that the method imposes: nothing, the coordinate, or both bends of a straight
    /// angle.
    enum class Use { None, Coordinate, Bends };
    Use use = Use::None;

    int getNumParticles() const {
        return coordinate == Coordinate::Distance ? 2 : 3;
    }
    bool operator==(const StiffTerm& other) const {
        return coordinate == other.coordinate && particles == other.particles && k == other.k && s0 == other.s0 &&
               periodic == other.periodic && force == other.force && index == other.index &&
               harmonic == other.harmonic && use == other.use;
    }
    /**
     * Whether it is an angle with its minimum at 180 degrees, give or take the rounding of force field files (Amber's
     * have 3.141594): it bends in two directions alike.
     */
    bool isStraight() const {
        return coordinate == Coordinate::Angle && harmonic && std::abs(s0 - 3.14159265358979323846) < 1e-5;
    }
};

/**
 * The terms of the potential whose Hessian an integrator uses.
 */
struct StiffTerms {
    std::vector<StiffTerm> coordinates;
    std::vector<FunctionTerm> functionTerms;
    std::vector<TermFunction> functions;
    /// What the method asks of them: the matrix M + c H1, third derivatives, the frequency of the stiffest mode.
    bool needsHessian = false, needsThirdDerivatives = false, needsFrequency = false;

    bool operator==(const StiffTerms& other) const {
        return coordinates == other.coordinates && functionTerms == other.functionTerms &&
               functions == other.functions && needsHessian == other.needsHessian &&
               needsThirdDerivatives == other.needsThirdDerivatives && needsFrequency == other.needsFrequency;
    }
};

/// The name of the Force that ConstraintPenalties add; it is stiff by its kind.
constexpr const char* penaltyForceName = "ConstraintPenalties";

/**
 * Which terms are collected. Terms on virtual sites are slow, as there is no Hessian for them here; where the potential
 * of a Force may not be divided like that, they are collected, and findBlocks() refuses them.
 */
enum class TermScope {
    /// Those of HarmonicBondForce and HarmonicAngleForce, whatever else there is.
    HarmonicForces,
    /// Those of the stiff force groups; only HarmonicBondForce and HarmonicAngleForce may be there.
    Harmonic,
    /// Those of the stiff force groups, where any Force with a Hessian may be.
    Stiff,
    /// The same, of undivided Forces.
    WholeStiffForces,
    /// Those of every Force, undivided.
    Everything
};

class ZhangSkeelIntegrator;

/** Which terms the method of an integrator needs. */
OPENMM_EXPORT_STIFF TermScope findTermScope(const ZhangSkeelIntegrator& integrator);

/**
 * Collect the stiff terms of a System.
 *
 * A term whose particles are held at fixed distances by the System's constraints has nothing left to do and is left out
 * (createSystem() with flexibleConstraints=True makes such terms), as are terms with the same particle twice and, see
 * TermScope, terms on virtual sites (Amber's files bind those of TIP4P to their oxygens).
 *
 * @param system              the System
 * @param scope               which terms are collected
 * @param stiffForceGroups    bit flags of the force groups that are stiff; 0 for every HarmonicBondForce,
 *                            HarmonicAngleForce and ConstraintPenalties
 * @param integrationGroups   bit flags of the force groups that are integrated: others exert no force
 * @param className           the integrator's class, for error messages
 * @throws OpenMMException    if a Force that is asked for has no Hessian, or if there is none in the stiff groups
 */
OPENMM_EXPORT_STIFF StiffTerms collectStiffTerms(const OpenMM::System& system, TermScope scope, int stiffForceGroups,
                                                 int integrationGroups, const std::string& className);

/** Which coordinates a method imposes on velocities or positions. */
struct RowSelection {
    /// Those that vibrate with a period shorter than this [ps] when all others are held at equilibrium: infinity for all
    /// that have a potential, 0 for none. Angles have a period if the lengths of their legs are known: those of stiff
    /// bonds.
    double period = 0;
    /// Whether a straight angle is represented by its two bends, which are smooth there, and not by itself.
    bool bends = false;

    bool operator==(const RowSelection& other) const {
        return period == other.period && bends == other.bends;
    }
};

/** Choose the coordinates that are rows of the Jacobian. */
OPENMM_EXPORT_STIFF void chooseRows(StiffTerms& terms, const OpenMM::System& system, const RowSelection& selection);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_TERMS_H_ */
