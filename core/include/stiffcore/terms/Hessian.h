#ifndef STIFFCORE_TERMS_HESSIAN_H_
#define STIFFCORE_TERMS_HESSIAN_H_

#include "../coordinates/Angle.h"
#include "../coordinates/Component.h"
#include "../coordinates/Dihedral.h"
#include "../coordinates/Distance.h"

/**
 * Derivatives of a potential V(s) of an internal coordinate s, by the chain rule. A Potential has first(s) = V',
 * second() = V'' and, for angles, firstOverSine(angle) = V'/sin(theta), which must be finite. add(a, b, h) is called
 * with the 3x3 block h of atoms a >= b.
 */
namespace stiffcore {

template <class Potential, template <class> class Coordinate, class Real, class Add>
void addHessian(const Potential& v, const Coordinate<Real>& s, Add&& add) {
    s.addHessian(v.first(s.value), v.second(), add);
}

template <class Potential, class Real, class Add>
void addHessian(const Potential& v, const Angle<Real>& theta, Add&& add) {
    theta.addHessian(v.first(theta.value), v.second(), v.firstOverSine(theta), add);
}

/** The gradient of V(s) with respect to an atom; of an angle in the smooth form, as its Hessian is. */
template <class Potential, template <class> class Coordinate, class Real>
Vector3<Real> gradientOf(const Potential& v, const Coordinate<Real>& s, int atom) {
    return v.first(s.value) * s.gradient(atom);
}

template <class Potential, class Real>
Vector3<Real> gradientOf(const Potential& v, const Angle<Real>& theta, int atom) {
    return v.firstOverSine(theta) * theta.sineGradient(atom);
}

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_HESSIAN_H_ */
