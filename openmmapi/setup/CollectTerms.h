#ifndef OPENMM_STIFF_SETUP_COLLECT_TERMS_H_
#define OPENMM_STIFF_SETUP_COLLECT_TERMS_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "stiffcore/model/StiffTerms.h"
#include <string>

namespace OpenMMStiff {

using stiffcore::StiffTerms;

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
OPENMM_EXPORT_STIFF StiffTerms collectTerms(const OpenMM::System& system, TermScope scope, int stiffForceGroups,
                                            int integrationGroups, const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_COLLECT_TERMS_H_ */
