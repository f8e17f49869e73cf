#ifndef STIFFCORE_TERMS_EXPANSION_H_
#define STIFFCORE_TERMS_EXPANSION_H_

#include "../coordinates/Angle.h"

namespace stiffcore {

/**
 * A potential V(s) of an internal coordinate s by its derivatives at the present value. With a second derivative of 0
 * it is a force of constant size along s, such as that of a Lagrange multiplier.
 */
template <class Real> struct Expansion {
    Real slope, curvature;

    Real first(Real) const {
        return slope;
    }

    Real second() const {
        return curvature;
    }

    /** V'(theta) / sin(theta) of an angle, capped by Angle::minSine: at 0 and 180 degrees it has no finite limit. */
    Real firstOverSine(const Angle<Real>& angle) const {
        return slope / select(angle.sine > Angle<Real>::minSine, angle.sine, Real(Angle<Real>::minSine));
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_EXPANSION_H_ */
