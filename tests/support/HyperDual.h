#ifndef STIFF_TEST_HYPER_DUAL_H_
#define STIFF_TEST_HYPER_DUAL_H_

#include <Eigen/Core>
#include <array>
#include <cmath>

namespace stifftest {

/**
 * A hyper-dual number f + f1 e1 + f2 e2 + f12 e1 e2 with e1^2 = e2^2 = 0 (Fike & Alonso 2011). A function of x +
 * e1 u + e2 w has f1 = u . grad, f2 = w . grad and f12 = u . Hess . w, exact but for rounding. In the extended
 * precision of long double, where there is one, even these roundings are far below those of the code under test.
 */
struct HyperDual {
    using Real = long double;
    Real f, f1, f2, f12;

    HyperDual(Real f = 0, Real f1 = 0, Real f2 = 0, Real f12 = 0) : f(f), f1(f1), f2(f2), f12(f12) {
    }
};

inline HyperDual operator+(const HyperDual& x, const HyperDual& y) {
    return {x.f + y.f, x.f1 + y.f1, x.f2 + y.f2, x.f12 + y.f12};
}

inline HyperDual operator-(const HyperDual& x) {
    return {-x.f, -x.f1, -x.f2, -x.f12};
}

inline HyperDual operator-(const HyperDual& x, const HyperDual& y) {
    return x + -y;
}

inline HyperDual operator*(const HyperDual& x, const HyperDual& y) {
    return {x.f * y.f, x.f1 * y.f + x.f * y.f1, x.f2 * y.f + x.f * y.f2,
            x.f12 * y.f + x.f1 * y.f2 + x.f2 * y.f1 + x.f * y.f12};
}

inline HyperDual operator/(const HyperDual& x, const HyperDual& y) {
    const HyperDual::Real first = -1 / (y.f * y.f), second = -2 * first / y.f;
    return x * HyperDual(1 / y.f, first * y.f1, first * y.f2, first * y.f12 + second * y.f1 * y.f2);
}

inline HyperDual sqrt(const HyperDual& x) {
    const HyperDual::Real g = std::sqrt(x.f), first = 1 / (2 * g), second = -first / (2 * x.f);
    return {g, first * x.f1, first * x.f2, first * x.f12 + second * x.f1 * x.f2};
}

inline HyperDual atan2(const HyperDual& y, const HyperDual& x) {
    const HyperDual::Real r2 = x.f * x.f + y.f * y.f, gx = -y.f / r2, gy = x.f / r2;
    const HyperDual::Real gxx = -2 * gx * gy, gyy = -gxx, gxy = gx * gx - gy * gy;
    return {std::atan2(y.f, x.f), gx * x.f1 + gy * y.f1, gx * x.f2 + gy * y.f2,
            gx * x.f12 + gy * y.f12 + gxx * x.f1 * x.f2 + gxy * (x.f1 * y.f2 + y.f1 * x.f2) + gyy * y.f1 * y.f2};
}

using DualVector = std::array<HyperDual, 3>;

inline DualVector operator+(const DualVector& a, const DualVector& b) {
    return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}

inline DualVector operator-(const DualVector& a, const DualVector& b) {
    return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

inline DualVector operator*(const HyperDual& s, const DualVector& a) {
    return {s * a[0], s * a[1], s * a[2]};
}

inline HyperDual norm(const DualVector& a) {
    return sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
}

/**
 * The angle between two vectors by Kahan's formula, which is accurate at all angles, as its derivatives are.
 */
inline HyperDual angleBetween(const DualVector& a, const DualVector& b) {
    const HyperDual lengthA = norm(a), lengthB = norm(b);
    const DualVector u = lengthB * a, v = lengthA * b;
    return HyperDual(2) * atan2(norm(u - v), norm(u + v));
}

/** The value, gradient and Hessian of a function at a point. */
struct Derivatives {
    double value;
    Eigen::VectorXd gradient;
    Eigen::MatrixXd hessian;
};

/**
 * Differentiate function(x), which takes an array of N HyperDual numbers and returns one.
 */
template <int N, class Function> Derivatives differentiate(const std::array<double, N>& point, Function&& function) {
    Derivatives result = {0, Eigen::VectorXd(N), Eigen::MatrixXd(N, N)};
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            std::array<HyperDual, N> x;
            for (int k = 0; k < N; k++)
                x[k] = HyperDual(point[k], k == i, k == j);
            const HyperDual y = function(x);
            result.value = y.f;
            result.gradient[i] = y.f1;
            result.hessian(i, j) = result.hessian(j, i) = y.f12;
        }
    return result;
}

} // namespace stifftest

#endif /* STIFF_TEST_HYPER_DUAL_H_ */
