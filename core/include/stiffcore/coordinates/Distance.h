#ifndef STIFFCORE_DISTANCE_H_
#define STIFFCORE_DISTANCE_H_

#include "../Geometry.h"

namespace stiffcore {

/**
 * The distance r = |d|, d = x1 - x0, with its derivatives. With u = d/r,
 *
 *     dr/dx1 = u = -dr/dx0,     d2r/dx1 dx1 = (1 - u u^T) / r.
 *
 * At r = 0, where the direction is undefined, the derivatives are taken as 0.
 */
template <class Real> struct Distance {
    static constexpr int numAtoms = 2;
    Real value;

    explicit Distance(const Vector3<Real>& d) {
        using std::sqrt;
        value = sqrt(d.squaredNorm());
        inverse = select(value > 0, 1 / select(value > 0, value, Real(1)), Real(0));
        u = d * inverse;
    }

    Vector3<Real> gradient(int atom) const {
        return atom == 0 ? Vector3<Real>(-u) : u;
    }

    /**
     * Add the Hessian of V(r), V'' u u^T + V' (1 - u u^T) / r on each atom and its negative between the two.
     *
     * @param first    V' [kJ/mol/nm]
     * @param second   V'' [kJ/mol/nm^2]
     * @param add      called as add(a, b, h) with the 3x3 block h of atoms a >= b
     */
    template <class Add> void addHessian(Real first, Real second, Add&& add) const {
        const Real tension = first * inverse;
        Matrix3<Real> h = (second - tension) * u * u.transpose();
        for (int i = 0; i < 3; i++)
            h(i, i) += tension;
        add(0, 0, h);
        add(1, 1, h);
        add(1, 0, -h);
    }

private:
    Real inverse;
    Vector3<Real> u;
};

} // namespace stiffcore

#endif /* STIFFCORE_DISTANCE_H_ */
