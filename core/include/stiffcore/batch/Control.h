#ifndef STIFFCORE_BATCH_CONTROL_H_
#define STIFFCORE_BATCH_CONTROL_H_

#include "Lanes.h"

namespace stiffcore {

/**
 * Loops and branches that depend on numbers, for functions that may also be recorded rather than executed (see Traced):
 * these name what an iteration hands on to the next, or a branch to what follows it, as `carried`: numbers, or arrays
 * of them. Everything else that is written inside must not be read outside.
 */
template <class Real> struct Control {
    /** A condition that holds for all lanes together. */
    using Condition = bool;

    static Condition all(const MaskOf<Real>& mask, int count) {
        return findFalse<Real>(mask, count) < 0;
    }
    /** Call body() until it returns true. */
    template <class Body, class... Carried> static void repeat(Body&& body, Carried&...) {
        while (!body()) {
        }
    }
    /** Call body() if the condition holds. */
    template <class Body, class... Carried> static void when(Condition condition, Body&& body, Carried&...) {
        if (condition)
            body();
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_BATCH_CONTROL_H_ */
