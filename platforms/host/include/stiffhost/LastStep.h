#ifndef STIFFHOST_LAST_STEP_H_
#define STIFFHOST_LAST_STEP_H_

#include "Vectors.h"

namespace stiffhost {

/**
 * Where the last step has ended, here or on a device: what was computed from forces there begins the next one, unless
 * something has changed. Dependencies are what that depends on beside positions and parameters, and what nobody announces
 * a change of.
 */
template <class Dependencies> class LastStep {
public:
    /** Whether a step begins where the last one has ended. From now on that is not known, until the step has ended. */
    bool isContinuedBy(const Vectors& present, const Dependencies& dependencies) {
        return know(false) && areSame(present, positions) && dependencies == this->dependencies;
    }
    bool isContinuedThere(const Dependencies& dependencies) {
        return know(true) && dependencies == this->dependencies;
    }
    /** A step has ended here: at positions that are kept, and returned. */
    const Vectors& endsAt(const Vectors& present, const Dependencies& dependencies) {
        positions = present;
        end(dependencies, false);
        return positions;
    }
    void endsThere(const Dependencies& dependencies) {
        end(dependencies, true);
    }
    /** Something has changed; or something that is noticed here, but not on a device. */
    void forget() {
        known = false;
    }
    void forgetThere() {
        known &= !there;
    }

private:
    bool know(bool there) {
        const bool result = known && this->there == there;
        known = false;
        return result;
    }
    void end(const Dependencies& dependencies, bool there) {
        this->dependencies = dependencies;
        this->there = there;
        known = true;
    }

    Vectors positions;
    Dependencies dependencies = {};
    bool known = false, there = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_LAST_STEP_H_ */
