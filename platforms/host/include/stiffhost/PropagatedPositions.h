#ifndef STIFFHOST_PROPAGATED_POSITIONS_H_
#define STIFFHOST_PROPAGATED_POSITIONS_H_

#include "Vectors.h"
#include <vector>

namespace stiffhost {

/**
 * The positions x that a method propagates while the Context shows others, q. Both are kept, so that x is known to
 * the last bit and a change of the Context's positions by somebody else is noticed:
 *
 *  - positions that a user or another integrator has set are new positions x = q;
 *  - positions that a Force has moved between steps (a barostat) carry x along: the offset q - x is kept.
 */
class PropagatedPositions {
public:
    /** Forget x: the Context's positions have been set. */
    void reset() {
        shown.clear();
    }
    /** A step has ended at x; then the Context shows q. */
    void setPropagated(const Vectors& x) {
        propagated = x;
    }
    void setShown(const Vectors& q) {
        shown = q;
    }
    void set(const Vectors& x, const Vectors& q) {
        setPropagated(x);
        setShown(q);
    }
    /** Get x, if the Context holds q. */
    const Vectors& get(const Vectors& q) const {
        return areSame(q, shown) ? propagated : q;
    }
    /** Take positions that do not come from the last step. */
    void acceptShown(const Vectors& q) {
        if (q != shown)
            set(q, q);
    }
    /** Let x be what is shown for the particles for which showsX(particle). */
    template <class ShowsX> void tie(ShowsX&& showsX) {
        for (size_t i = 0; i < shown.size(); i++)
            if (showsX(i))
                propagated[i] = shown[i];
    }
    /** Follow positions that a Force has moved. */
    void follow(const Vectors& q) {
        if (shown.empty() || areSame(q, shown))
            return; // x is not known yet, and will be q
        for (size_t i = 0; i < q.size(); i++)
            propagated[i] += q[i] - shown[i];
        shown = q;
    }

private:
    Vectors propagated, shown;
};

} // namespace stiffhost

#endif /* STIFFHOST_PROPAGATED_POSITIONS_H_ */
