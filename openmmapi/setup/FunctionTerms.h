#ifndef OPENMM_STIFF_SETUP_FUNCTION_TERMS_H_
#define OPENMM_STIFF_SETUP_FUNCTION_TERMS_H_

#include "expressions/Expressions.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "stiffcore/model/FunctionTerm.h"
#include "stiffcore/model/TermFunction.h"
#include <optional>
#include <string>
#include <vector>

namespace OpenMM {
class CustomAngleForce;
class CustomBondForce;
class CustomCompoundBondForce;
class CustomExternalForce;
} // namespace OpenMM

namespace OpenMMStiff {

using stiffcore::FunctionTerm;
using stiffcore::TermFunctions;

/** Whether a Force is of one of some types. */
template <class... ForceTypes> bool isOneOf(const OpenMM::Force& force) {
    return ((dynamic_cast<const ForceTypes*>(&force) != nullptr) || ...);
}

/** The energy of a bond or an angle as a function of its length or angle. */
ParsedFunction parseEnergy(const OpenMM::CustomBondForce& force);
ParsedFunction parseEnergy(const OpenMM::CustomAngleForce& force);
/** Where periodicdistance() is the distance from a point, whatever the box. */
ParsedFunction parseEnergy(const OpenMM::CustomExternalForce& force);
/** The energy of a term as a function of an angle between two of its particles, if it depends on nothing else. */
std::optional<PointAngle> parsePointAngle(const OpenMM::CustomCompoundBondForce& force);

/**
 * Append the terms of a Force that has a Hessian: one of the bonded forces (other than the harmonic ones), a
 * CustomExternalForce, or a NonbondedForce without a cutoff.
 *
 * @param system      the System
 * @param force       the index of the Force
 * @param functions   the functions so far
 * @param terms       the terms so far
 * @return empty, or the reason why there is no Hessian, to follow the name of the Force
 */
OPENMM_EXPORT_STIFF std::string appendFunctionTerms(const OpenMM::System& system, int force, TermFunctions& functions,
                                                    std::vector<FunctionTerm>& terms);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_FUNCTION_TERMS_H_ */
