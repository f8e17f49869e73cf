#ifndef OPENMM_STIFF_STEP_FAILURE_H_
#define OPENMM_STIFF_STEP_FAILURE_H_

#include "windowsExportStiff.h"
#include "openmm/OpenMMException.h"
#include <string>

namespace OpenMMStiff {

/**
 * The exception of a kernel for a step in which the motion was too fast for the method. StiffIntegrator adds what was
 * treated as stiff and what was not.
 */
class OPENMM_EXPORT_STIFF StepFailure : public OpenMM::OpenMMException {
public:
    /** @param culprit   the particle or molecule whose motion that was, if it is known */
    explicit StepFailure(const std::string& message, const std::string& culprit = "")
            : OpenMMException(message), culprit(culprit) {
    }
    const std::string culprit;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STEP_FAILURE_H_ */
