#ifndef STIFFCORE_HARMONIC_H_
#define STIFFCORE_HARMONIC_H_

#include "../coordinates/Angle.h"

namespace stiffcore {

/**
 * The potential V(s) = k/2 (s - s0)^2 of an internal coordinate s, with its derivatives.
 */
template <class Real> struct Harmonic {
    Real k, s0;

    Real first(Real s) const {
        return k * (s - s0);
    }

    Real second() const {
        return k;
    }

    /**
     * V'(theta) / sin(theta) of an angle. It is split as k (theta/sin) - k s0/sin for acute angles and, with the
     * supplement, as k (pi - s0)/sin - k (supplement/sin) for obtuse ones: the limit at 0 and 180 degrees is then exact
     * for a minimum there. For any other minimum the potential has a cone at 0 and 180 degrees, and the
     * quotient is capped by Angle::minSine.
     */
    Real firstOverSine(const Angle<Real>& angle) const {
        const auto acute = angle.cosine >= 0;
        const Real arcOverSine = angle.arcOverSine();
        const Real cappedSine = select(angle.sine > Angle<Real>::minSine, angle.sine, Real(Angle<Real>::minSine));
        const Real pi = 3.14159265358979323846;
        const Real distance = select(acute, s0, pi - s0) / cappedSine;
        return k * select(acute, arcOverSine - distance, distance - arcOverSine);
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_HARMONIC_H_ */
