#ifndef OPENMM_STIFF_SETUP_CONSTRAINTS_H_
#define OPENMM_STIFF_SETUP_CONSTRAINTS_H_

#include "openmmstiff/SpookIntegrator.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "stiffcore/model/Constraint.h"
#include <string>
#include <vector>

namespace OpenMMStiff {

using stiffcore::Constraint;
using stiffcore::ConstraintSet;

/** The constraints of a System, without compliance and damping. */
OPENMM_EXPORT_STIFF ConstraintSet collectSystemConstraints(const OpenMM::System& system);

/**
 * Collect the constraints of a System and those of an integrator, in the order of
 * SpookIntegrator::computeViolations(), with their compliance and damping.
 *
 * @param ofSystem           those of the System
 * @param className          the integrator's class, for error messages
 * @throws OpenMMException   if a constraint is impossible, or an expression has mistakes
 */
OPENMM_EXPORT_STIFF ConstraintSet collectConstraints(const OpenMM::System& system, const ConstraintSet& ofSystem,
                                                     const SpookIntegrator& integrator, const std::string& className);

/** Particles with mass that constraints connect, where those of the System alone leave them in parts. */
OPENMM_EXPORT_STIFF std::vector<std::vector<int>> findDivided(const OpenMM::System& system, const ConstraintSet& set);

/**
 * Refuse constraints between molecules if the System has a barostat, which moves molecules apart.
 *
 * @param molecules   the particles of each
 */
OPENMM_EXPORT_STIFF void requireWithinMolecules(const OpenMM::System& system, const ConstraintSet& set,
                                                const std::vector<std::vector<int>>& molecules,
                                                const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_CONSTRAINTS_H_ */
