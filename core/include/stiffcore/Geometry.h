#ifndef STIFFCORE_GEOMETRY_H_
#define STIFFCORE_GEOMETRY_H_

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <vector>

/**
 * The numerics of this plugin are templates over the scalar type Real: double, or Lanes, with one molecule in each.
 * They therefore mask with select() instead of branching on values, and leave it to their caller to look at the results
 * and throw.
 */
namespace stiffcore {

template <class Real> using Vector3 = Eigen::Matrix<Real, 3, 1>;
template <class Real> using Matrix3 = Eigen::Matrix<Real, 3, 3>;
/// A vector for each particle of a block, or for each gradient.
template <class Real> using Vectors3 = std::vector<Vector3<Real>>;

inline double select(bool condition, double ifTrue, double ifFalse) {
    return condition ? ifTrue : ifFalse;
}

/** Whether a number is finite, in which lanes. */
template <class Real> auto isFinite(const Real& x) {
    const Real difference = x - x; // of what is finite it is 0, else it is not a number
    return difference <= Real(0);
}

/** The type of what all lanes of a Real have in common, such as the step size. */
template <class Real> struct UniformTraits { using Type = double; };
template <class Real> using UniformOf = typename UniformTraits<Real>::Type;

/**
 * Displacements in the periodic box, by the minimum image convention for OpenMM's reduced triclinic boxes.
 */
template <class Number> struct BasicBox {
    /// The box vectors [nm], one a row; lower triangular.
    Number vectors[3][3];

    bool operator==(const BasicBox& other) const {
        return std::equal(&vectors[0][0], &vectors[0][0] + 9, &other.vectors[0][0]);
    }

    template <class Real> Vector3<Real> minimumImage(Vector3<Real> delta) const {
        using std::floor;
        for (int i = 2; i >= 0; i--) {
            const Real shift = floor(delta[i] * (1 / vectors[i][i]) + 0.5);
            for (int j = 0; j <= i; j++)
                delta[j] -= shift * vectors[i][j];
        }
        return delta;
    }
};
using Box = BasicBox<double>;
/** The box that goes with positions of a type. */
template <class Real> using BoxFor = BasicBox<UniformOf<Real>>;

/** The displacement from one of some positions to another. */
template <class Scalar>
Vector3<Scalar> displacement(const std::vector<Vector3<Scalar>>& positions, int from, int to, bool periodic,
                             const BoxFor<Scalar>& box) {
    const Vector3<Scalar> d = positions[to] - positions[from];
    return periodic ? box.minimumImage(d) : d;
}

/** 1/|v|; 0 for a vector of length 0. */
template <class Real> Real inverseNorm(const Vector3<Real>& v) {
    using std::sqrt;
    const Real norm = sqrt(v.squaredNorm());
    return select(norm > 0, 1 / select(norm > 0, norm, Real(1)), Real(0));
}

/** A unit vector perpendicular to the unit vector e, built without cancellation (Duff et al. 2017). */
template <class Real> Vector3<Real> perpendicular(const Vector3<Real>& e) {
    const Real sign = select(e[2] >= 0, Real(1), Real(-1));
    const Real p = -1 / (sign + e[2]);
    return Vector3<Real>(1 + sign * e[0] * e[0] * p, sign * e[0] * e[1] * p, -sign * e[0]);
}

} // namespace stiffcore

#endif /* STIFFCORE_GEOMETRY_H_ */
