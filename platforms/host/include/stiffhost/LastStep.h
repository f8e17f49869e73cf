#ifndef STIFFHOST_LAST_STEP_H_
#define STIFFHOST_LAST_STEP_H_

#include "Vectors.h"

namespace stiffhost {

/**
 * Where the last step has ended: the accelerations computed there begin the next one, unless something has changed.
 * Dependencies are what they depend on beside positions and parameters, and what nobody announces a change of.
 * (PenalizedVelocities remembers other positions: velocities are tied anew between steps too, and their tie is undone
 * with a step that fails.)
 */
template <class Dependencies> class LastStep {
public:
    /** Whether a step begins where the last one has ended. From now on that is not known, until the step has ended. */
    bool isContinuedBy(const Vectors& present, const Dependencies& dependencies) {
        const bool continued = known && areSame(present, positions) && dependencies == this->dependencies;
        known = false;
        return continued;
    }
    /** A step has ended here: at positions that are kept, and returned. */
    const Vectors& endsAt(const Vectors& present, const Dependencies& dependencies) {
        positions = present;
        this->dependencies = dependencies;
        known = true;
        return positions;
    }
    /** Something has changed. */
    void forget() {
        known = false;
    }

private:
    Vectors positions;
    Dependencies dependencies = {};
    bool known = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_LAST_STEP_H_ */
