#ifndef STIFFHOST_LAST_STEP_H_
#define STIFFHOST_LAST_STEP_H_

#include "HostState.h"
#include "openmm/Vec3.h"
#include <vector>

namespace stiffhost {

/**
 * Where the last step has ended: the accelerations computed there begin the next one, unless something has changed.
 * Dependencies are what they depend on beside positions and parameters, and what nobody announces a change of.
 */
template <class Dependencies> class LastStep {
public:
    /** Whether a step begins where the last one has ended. From now on that is not known, until the step has ended. */
    bool isContinuedBy(HostState& state, const Dependencies& present) {
        const bool continued = known && state.positions() == positions && present == dependencies;
        known = false;
        return continued;
    }
    /** A step has ended here. */
    void endsAt(HostState& state, const Dependencies& present) {
        positions = state.positions();
        dependencies = present;
        known = true;
    }
    /** Something has changed. */
    void forget() {
        known = false;
    }

private:
    std::vector<OpenMM::Vec3> positions;
    Dependencies dependencies = {};
    bool known = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_LAST_STEP_H_ */
