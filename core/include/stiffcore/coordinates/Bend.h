#ifndef STIFFCORE_BEND_H_
#define STIFFCORE_BEND_H_

#include "Angle.h"

namespace stiffcore {

/**
 * How far the angle between a = x0 - x1 and b = x2 - x1 is bent from 180 degrees in a direction u across them, with the
 * unit vectors ea and eb,
 *
 *     p = u . (ea + eb),     dp/da = (u - ea (ea.u)) / |a|,
 *     d2p/da da = -[(ea.u) (1 - 3 ea ea^T) + u ea^T + ea u^T] / |a|^2,
 *
 * and the same of b. The angle itself has no derivatives at 180 degrees; two bends, in perpendicular directions, have,
 * and vanish where it is straight. In a molecule that is folded by more than 90 degrees p is 2, its farthest.
 */
template <class Real> struct Bend {
    static constexpr int numAtoms = 3;
    Real value;

    /** @param u   a unit vector, about perpendicular to the legs; it counts as constant */
    Bend(const Vector3<Real>& a, const Vector3<Real>& b, const Vector3<Real>& u)
            : u(u), inverseA(inverseNorm(a)), inverseB(inverseNorm(b)), ea(a * inverseA), eb(b * inverseB) {
        value = select(ea.dot(eb) > 0, Real(2), u.dot(ea + eb));
    }

    Vector3<Real> gradient(int atom) const {
        const Vector3<Real> ga = gradientOfLeg(ea, inverseA), gb = gradientOfLeg(eb, inverseB);
        return atom == 0 ? ga : atom == 2 ? gb : Vector3<Real>(-(ga + gb));
    }

    /** Add the Hessian of V(p), see Distance. */
    template <class Add> void addHessian(Real first, Real second, Add&& add) const {
        const Vector3<Real> ga = gradientOfLeg(ea, inverseA), gb = gradientOfLeg(eb, inverseB);
        addHessianOfLegs<Real>(second * ga * ga.transpose() + first * hessianOfLeg(ea, inverseA),
                               second * gb * gb.transpose() + first * hessianOfLeg(eb, inverseB),
                               second * gb * ga.transpose(), add);
    }

private:
    Vector3<Real> u;
    Real inverseA, inverseB;
    Vector3<Real> ea, eb;

    Vector3<Real> gradientOfLeg(const Vector3<Real>& e, Real inverse) const {
        return (u - e * e.dot(u)) * inverse;
    }
    Matrix3<Real> hessianOfLeg(const Vector3<Real>& e, Real inverse) const {
        const Real along = e.dot(u);
        Matrix3<Real> h = 3 * along * e * e.transpose() - u * e.transpose() - e * u.transpose();
        for (int i = 0; i < 3; i++)
            h(i, i) -= along;
        return h * (inverse * inverse);
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_BEND_H_ */
