#ifndef STIFFCORE_LANES_H_
#define STIFFCORE_LANES_H_

#include <Eigen/Core>
#include <cmath>

namespace stiffcore {

/**
 * Four numbers that are computed with as one, each for another molecule: a scalar type for the numerics. Mixing it with
 * a double means that double in each lane.
 */
class Lanes {
public:
    static constexpr int count = 4;
    using Array = Eigen::Array<double, count, 1>;

    /** Which of the lanes something holds in. */
    class Mask {
    public:
        using Array = Eigen::Array<bool, count, 1>;
        Mask(bool all = false) : values(Array::Constant(all)) {
        }
        template <class Expression> explicit Mask(const Eigen::ArrayBase<Expression>& expression) : values(expression) {
        }
        bool operator[](int lane) const {
            return values[lane];
        }
        friend Mask operator&(const Mask& a, const Mask& b) {
            return Mask(a.values && b.values);
        }
        friend Mask operator!(const Mask& a) {
            return Mask(!a.values);
        }
        Array values;
    };

    Lanes() = default;
    Lanes(double all) : values(Array::Constant(all)) {
    }
    template <class Expression> explicit Lanes(const Eigen::ArrayBase<Expression>& expression) : values(expression) {
    }
    double& operator[](int lane) {
        return values[lane];
    }
    double operator[](int lane) const {
        return values[lane];
    }

    Lanes& operator+=(const Lanes& b) {
        values += b.values;
        return *this;
    }
    Lanes& operator-=(const Lanes& b) {
        values -= b.values;
        return *this;
    }
    Lanes& operator*=(const Lanes& b) {
        values *= b.values;
        return *this;
    }
    Lanes& operator/=(const Lanes& b) {
        values /= b.values;
        return *this;
    }
    friend Lanes operator+(const Lanes& a, const Lanes& b) {
        return Lanes(a.values + b.values);
    }
    friend Lanes operator-(const Lanes& a, const Lanes& b) {
        return Lanes(a.values - b.values);
    }
    friend Lanes operator*(const Lanes& a, const Lanes& b) {
        return Lanes(a.values * b.values);
    }
    friend Lanes operator/(const Lanes& a, const Lanes& b) {
        return Lanes(a.values / b.values);
    }
    friend Lanes operator-(const Lanes& a) {
        return Lanes(-a.values);
    }
    friend Mask operator>(const Lanes& a, const Lanes& b) {
        return Mask(a.values > b.values);
    }
    friend Mask operator<=(const Lanes& a, const Lanes& b) {
        return Mask(a.values <= b.values);
    }
    friend Lanes select(const Mask& condition, const Lanes& ifTrue, const Lanes& ifFalse) {
        return Lanes(condition.values.select(ifTrue.values, ifFalse.values));
    }
    friend Lanes sqrt(const Lanes& a) {
        return Lanes(a.values.sqrt());
    }
    friend Lanes abs(const Lanes& a) {
        return Lanes(a.values.abs());
    }
    friend Lanes floor(const Lanes& a) {
        return Lanes(a.values.floor());
    }

private:
    Array values;
};

/** The lanes of a scalar type, also of double, which has one. */
template <class Real> struct LaneTraits;

template <> struct LaneTraits<double> {
    static constexpr int count = 1;
    static double& lane(double& value, int) {
        return value;
    }
    static double lane(const double& value, int) {
        return value;
    }
    static bool lane(bool mask, int) {
        return mask;
    }
};

template <> struct LaneTraits<Lanes> {
    static constexpr int count = Lanes::count;
    static double& lane(Lanes& value, int i) {
        return value[i];
    }
    static double lane(const Lanes& value, int i) {
        return value[i];
    }
    static bool lane(const Lanes::Mask& mask, int i) {
        return mask[i];
    }
};

/** The first of `count` lanes in which a mask is false, or -1. */
template <class Real, class Mask> int findFalse(const Mask& mask, int count) {
    for (int i = 0; i < count; i++)
        if (!LaneTraits<Real>::lane(mask, i))
            return i;
    return -1;
}

} // namespace stiffcore

namespace Eigen {

template <> struct NumTraits<stiffcore::Lanes> : GenericNumTraits<double> {
    using Real = stiffcore::Lanes;
    using NonInteger = stiffcore::Lanes;
    using Nested = stiffcore::Lanes;
    using Literal = stiffcore::Lanes;
    enum {
        IsInteger = 0,
        IsSigned = 1,
        IsComplex = 0,
        RequireInitialization = 0,
        ReadCost = 2,
        AddCost = 2,
        MulCost = 2
    };
};

} // namespace Eigen

#endif /* STIFFCORE_LANES_H_ */
