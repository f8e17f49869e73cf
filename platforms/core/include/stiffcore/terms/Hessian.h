#ifndef STIFFCORE_TERMS_HESSIAN_H_
#define STIFFCORE_TERMS_HESSIAN_H_

#include "../coordinates/Angle.h"
#include "../coordinates/Distance.h"

/**
 * The Hessian of a potential V(s) of an internal coordinate s, by the chain rule. A Potential has first(s) = V',
 * second() = V'' and, for angles, firstOverSine(angle) = V'/sin(theta), which must be finite. add(a, b, h) is called
 * with the 3x3 block h of atoms a >= b.
 */
namespace stiffcore {

template <class Potential, class Real, class Add>
void addHessian(const Potential& v, const Distance<Real>& r, Add&& add) {
    r.addHessian(v.first(r.value), v.second(), add);
}

template <class Potential, class Real, class Add>
void addHessian(const Potential& v, const Angle<Real>& theta, Add&& add) {
    theta.addHessian(v.first(theta.value), v.second(), v.firstOverSine(theta), add);
}

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_HESSIAN_H_ */
