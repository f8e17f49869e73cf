#ifndef STIFFCORE_TAYLOR_H_
#define STIFFCORE_TAYLOR_H_

#include "../Geometry.h"
#include <cmath>

namespace stiffcore {

/**
 * A Taylor polynomial c0 + c1 t + c2 t^2 in one variable, for automatic differentiation. With the positions x + t a,
 * the gradient of V(x + t a) has the coefficients
 *
 *     c0 = grad V,   c1 = Hess V . a,   c2 = 1/2 a . V''' . a
 */
struct Taylor {
    double c0, c1, c2;

    Taylor(double c0 = 0, double c1 = 0, double c2 = 0) : c0(c0), c1(c1), c2(c2) {
    }

    Taylor operator-() const {
        return {-c0, -c1, -c2};
    }
    friend Taylor operator+(const Taylor& x, const Taylor& y) {
        return {x.c0 + y.c0, x.c1 + y.c1, x.c2 + y.c2};
    }
    friend Taylor operator-(const Taylor& x, const Taylor& y) {
        return {x.c0 - y.c0, x.c1 - y.c1, x.c2 - y.c2};
    }
    friend Taylor operator*(const Taylor& x, const Taylor& y) {
        return {x.c0 * y.c0, x.c0 * y.c1 + x.c1 * y.c0, x.c0 * y.c2 + x.c1 * y.c1 + x.c2 * y.c0};
    }
    friend Taylor operator/(const Taylor& x, const Taylor& y) {
        const double z0 = x.c0 / y.c0, z1 = (x.c1 - z0 * y.c1) / y.c0;
        return {z0, z1, (x.c2 - z0 * y.c2 - z1 * y.c1) / y.c0};
    }
    Taylor& operator+=(const Taylor& x) {
        return *this = *this + x;
    }
    Taylor& operator-=(const Taylor& x) {
        return *this = *this - x;
    }
    Taylor& operator*=(const Taylor& x) {
        return *this = *this * x;
    }
    friend bool operator>(const Taylor& x, const Taylor& y) {
        return x.c0 > y.c0;
    }
    friend bool operator<(const Taylor& x, const Taylor& y) {
        return x.c0 < y.c0;
    }
    friend bool operator>=(const Taylor& x, const Taylor& y) {
        return x.c0 >= y.c0;
    }
    friend Taylor select(bool condition, const Taylor& ifTrue, const Taylor& ifFalse) {
        return condition ? ifTrue : ifFalse;
    }
    friend Taylor floor(const Taylor& x) {
        return std::floor(x.c0);
    }
    friend Taylor sqrt(const Taylor& x) {
        const double y0 = std::sqrt(x.c0), y1 = x.c1 / (2 * y0);
        return {y0, y1, (x.c2 - y1 * y1) / (2 * y0)};
    }
    friend Taylor atan2(const Taylor& y, const Taylor& x) {
        // The rate is (x y' - y x') / (x^2 + y^2).
        const double r0 = x.c0 * x.c0 + y.c0 * y.c0, r1 = 2 * (x.c0 * x.c1 + y.c0 * y.c1);
        const double z1 = (x.c0 * y.c1 - y.c0 * x.c1) / r0;
        return {std::atan2(y.c0, x.c0), z1, (x.c0 * y.c2 - y.c0 * x.c2 - z1 * r1 / 2) / r0};
    }
};

} // namespace stiffcore

namespace Eigen {

template <> struct NumTraits<stiffcore::Taylor> : NumTraits<double> {
    using Real = stiffcore::Taylor;
    using NonInteger = stiffcore::Taylor;
    using Nested = stiffcore::Taylor;
    enum { RequireInitialization = 1 };
};

} // namespace Eigen

#endif /* STIFFCORE_TAYLOR_H_ */
