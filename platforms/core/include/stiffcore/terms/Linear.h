#ifndef STIFFCORE_TERMS_LINEAR_H_
#define STIFFCORE_TERMS_LINEAR_H_

#include "../coordinates/Angle.h"

namespace stiffcore {

/**
 * The potential V(s) = slope s of an internal coordinate s: a force of constant size along it, such as that of a
 * Lagrange multiplier.
 */
template <class Real> struct Linear {
    Real slope;

    Real first(Real) const {
        return slope;
    }

    Real second() const {
        return 0;
    }

    /** V'(theta) / sin(theta) of an angle, capped by Angle::minSine: at 0 and 180 degrees it has no finite limit. */
    Real firstOverSine(const Angle<Real>& angle) const {
        return slope / select(angle.sine > Angle<Real>::minSine, angle.sine, Real(Angle<Real>::minSine));
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_LINEAR_H_ */
