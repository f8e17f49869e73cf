#ifndef OPENMM_STIFF_STIFF_TERMS_H_
#define OPENMM_STIFF_STIFF_TERMS_H_

#include "windowsExportStiff.h"
#include "openmm/System.h"
#include <array>
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * One stiff term of the potential: k/2 (s - s0)^2 in an internal coordinate s(x) of a few particles.
 */
struct StiffTerm {
    enum class Coordinate { Distance, Angle };
    Coordinate coordinate;
    /// The particles, in the order of the Force: two for a distance; three for an angle, its vertex in the middle.
    std::array<int, 3> particles;
    /// Force constant [kJ/mol/nm^2 or kJ/mol/rad^2] and equilibrium value [nm or rad].
    double k, s0;
    /// Whether displacements follow the minimum image convention.
    bool periodic;
    /// Where the term comes from: index of the Force in the System, and of the term in the Force.
    int force, index;

    int getNumParticles() const {
        return coordinate == Coordinate::Distance ? 2 : 3;
    }
};

/**
 * Collect the stiff terms of a System. This is the only place that knows OpenMM's bonded Forces.
 *
 * A term whose particles are held at fixed distances by the System's constraints has nothing left to do and is left out
 * (createSystem() with flexibleConstraints=True makes such terms), as are terms with the same particle twice.
 *
 * @param system              the System
 * @param stiffForceGroups    bit flags of the force groups that are stiff; 0 for every HarmonicBondForce and
 *                            HarmonicAngleForce
 * @param integrationGroups   bit flags of the force groups that are integrated: others exert no force
 * @param className           the integrator's class, for error messages
 * @throws OpenMMException    if a Force in a stiff group has no Hessian, or if the stiff groups hold no Force with one
 */
OPENMM_EXPORT_STIFF std::vector<StiffTerm> collectStiffTerms(const OpenMM::System& system, int stiffForceGroups,
                                                             int integrationGroups, const std::string& className);

/**
 * Read the parameters of the terms again, after OpenMM's updateParametersInContext().
 *
 * @return whether any has changed
 */
OPENMM_EXPORT_STIFF bool updateStiffTermParameters(const OpenMM::System& system, std::vector<StiffTerm>& terms);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_TERMS_H_ */
