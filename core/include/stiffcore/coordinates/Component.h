#ifndef STIFFCORE_COMPONENT_H_
#define STIFFCORE_COMPONENT_H_

#include "../Geometry.h"

namespace stiffcore {

/**
 * A Cartesian component of the position of one atom, x, y or z.
 */
template <class Real> struct Component {
    static constexpr int numAtoms = 1;
    Real value;

    Component(const Vector3<Real>& position, int axis) : value(position[axis]), axis(axis) {
    }

    Vector3<Real> gradient(int) const {
        return Vector3<Real>::Unit(axis);
    }

    /** Add the Hessian of V(value), see Distance. */
    template <class Add> void addHessian(Real, Real second, Add&& add) const {
        Matrix3<Real> h = Matrix3<Real>::Zero();
        h(axis, axis) = second;
        add(0, 0, h);
    }

private:
    int axis;
};

} // namespace stiffcore

#endif /* STIFFCORE_COMPONENT_H_ */
