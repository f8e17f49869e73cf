#ifndef STIFFCORE_BATCH_LANES_H_
#define STIFFCORE_BATCH_LANES_H_

#include <Eigen/Core>
#include <cmath>

namespace stiffcore {

/**
 * Eight numbers that are computed with as one, each for another molecule: a scalar type for the numerics. Mixing it
 * with a double means that double in each lane. They take several registers: the solves of small molecules are chains
 * of operations that wait for each other, and of two or four such chains one works while others wait.
 *
 * They are kept in vectors of the size of a register (an extension of GCC and Clang), and comparisons are masks of the
 * same size, so that nothing goes through memory one lane at a time: a register that is loaded just after has to wait
 * for such writes, the longer the wider it is.
 */
class Lanes {
#ifdef __AVX__
    static constexpr int registerSize = 32;
#else
    static constexpr int registerSize = 16;
#endif
    typedef double Part __attribute__((vector_size(registerSize)));
    static constexpr int partCount = registerSize / sizeof(double), numParts = 8 / partCount;

public:
    static constexpr int count = numParts * partCount;

    /** Which of the lanes something holds in. */
    class Mask {
    public:
        using Part = decltype(Lanes::Part() > Lanes::Part()); // integers, all of whose bits are set or none

        Mask(bool all = false) {
            for (Part& part : parts)
                part = (all ? Part() == Part() : Part() != Part());
        }
        bool operator[](int lane) const {
            return parts[lane / partCount][lane % partCount] != 0;
        }
        friend Mask operator&(const Mask& a, const Mask& b) {
            return Mask::each([&](int i) { return a.parts[i] & b.parts[i]; });
        }
        friend Mask operator|(const Mask& a, const Mask& b) {
            return Mask::each([&](int i) { return a.parts[i] | b.parts[i]; });
        }
        friend Mask operator!(const Mask& a) {
            return Mask::each([&](int i) { return ~a.parts[i]; });
        }
        /** With the parts compute(0), compute(1), ... */
        template <class Compute> static Mask each(Compute&& compute) {
            Mask result;
            for (int i = 0; i < numParts; i++)
                result.parts[i] = compute(i);
            return result;
        }

        Part parts[numParts];
    };

    Lanes() = default;
    Lanes(double all) {
        for (Part& part : parts)
            part = all - Part(); // which keeps the sign of a zero
    }
    double& operator[](int lane) {
        return reinterpret_cast<double*>(parts)[lane];
    }
    double operator[](int lane) const {
        return parts[lane / partCount][lane % partCount];
    }

    Lanes& operator+=(const Lanes& b) {
        return *this = *this + b;
    }
    Lanes& operator-=(const Lanes& b) {
        return *this = *this - b;
    }
    Lanes& operator*=(const Lanes& b) {
        return *this = *this * b;
    }
    Lanes& operator/=(const Lanes& b) {
        return *this = *this / b;
    }
    friend Lanes operator+(const Lanes& a, const Lanes& b) {
        return Lanes::each([&](int i) { return a.parts[i] + b.parts[i]; });
    }
    friend Lanes operator-(const Lanes& a, const Lanes& b) {
        return Lanes::each([&](int i) { return a.parts[i] - b.parts[i]; });
    }
    friend Lanes operator*(const Lanes& a, const Lanes& b) {
        return Lanes::each([&](int i) { return a.parts[i] * b.parts[i]; });
    }
    friend Lanes operator/(const Lanes& a, const Lanes& b) {
        return Lanes::each([&](int i) { return a.parts[i] / b.parts[i]; });
    }
    friend Lanes operator-(const Lanes& a) {
        return Lanes::each([&](int i) { return -a.parts[i]; });
    }
    friend Mask operator>(const Lanes& a, const Lanes& b) {
        return Mask::each([&](int i) { return a.parts[i] > b.parts[i]; });
    }
    friend Mask operator>=(const Lanes& a, const Lanes& b) {
        return Mask::each([&](int i) { return a.parts[i] >= b.parts[i]; });
    }
    friend Mask operator<=(const Lanes& a, const Lanes& b) {
        return Mask::each([&](int i) { return a.parts[i] <= b.parts[i]; });
    }
    friend Mask operator<(const Lanes& a, const Lanes& b) {
        return Mask::each([&](int i) { return a.parts[i] < b.parts[i]; });
    }
    friend Lanes select(const Mask& condition, const Lanes& ifTrue, const Lanes& ifFalse) {
        return Lanes::each([&](int i) { return condition.parts[i] ? ifTrue.parts[i] : ifFalse.parts[i]; });
    }
    friend Lanes max(const Lanes& a, const Lanes& b) {
        return select(a < b, b, a);
    }
    friend Lanes sqrt(const Lanes& a) {
        return Lanes(a.array().sqrt());
    }
    friend Lanes abs(const Lanes& a) {
        return Lanes(a.array().abs());
    }
    friend Lanes floor(const Lanes& a) {
        return Lanes(a.array().floor());
    }
    /**
     * The angle of the vector (x, y), -pi to pi. That of the first octant comes from one quotient t, |t| <= tan(pi/8),
     * and a polynomial in t^2 that minimizes the largest relative error of arctan(t), 1e-17.
     */
    friend Lanes atan2(const Lanes& y, const Lanes& x) {
        constexpr double c[] = {-0.019175404711104933678, 0.039230447784793095235,  -0.050854078345894842573,
                                0.058581409048663282818,  -0.066645105255089365988, 0.076921831253768920895,
                                -0.090909045753064890845, 0.11111111015187018721,   -0.14285714284665680761,
                                0.19999999999995516545,   -0.33333333333333330156};
        constexpr double pi = 3.14159265358979323846, tanOfPi8 = 0.41421356237309504880;
        const Lanes a = abs(y), b = abs(x);
        const Mask steep = a > b;
        const Lanes less = select(steep, b, a), more = select(steep, a, b);
        const Mask beyond = less > tanOfPi8 * more; // then by arctan(u) = pi/4 + arctan((u - 1) / (u + 1))
        const Lanes above = select(beyond, less - more, less), below = select(beyond, less + more, more);
        const Lanes t = above / select(below > 0, below, Lanes(1)), w = t * t;
        Lanes series = c[0];
        for (int i = 1; i < 11; i++)
            series = series * w + c[i];
        Lanes angle = t + t * w * series;
        angle = select(beyond, 0.25 * pi + angle, angle);
        angle = select(steep, 0.5 * pi - angle, angle);
        angle = select(x >= 0, angle, pi - angle);
        angle = select(y >= 0, angle, -angle);
        return select(below >= 0, angle, below); // not a number if they are not
    }

private:
    using Array = Eigen::Array<double, count, 1>;
    /** With the parts compute(0), compute(1), ... */
    template <class Compute> static Lanes each(Compute&& compute) {
        Lanes result;
        for (int i = 0; i < numParts; i++)
            result.parts[i] = compute(i);
        return result;
    }
    template <class Expression> explicit Lanes(const Eigen::ArrayBase<Expression>& expression) {
        Eigen::Map<Array>(&(*this)[0]) = expression;
    }
    /** For functions that vectors do not have. */
    Eigen::Map<const Array> array() const {
        return Eigen::Map<const Array>(reinterpret_cast<const double*>(parts));
    }
    Part parts[numParts];
};

/** The lanes of a scalar type, also of double, which has one. */
template <class Real> struct LaneTraits;

template <> struct LaneTraits<double> {
    static constexpr int count = 1;
    using Mask = bool;
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
    using Mask = Lanes::Mask;
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

/** The type of comparisons. */
template <class Real> using MaskOf = typename LaneTraits<Real>::Mask;

/** The number in a lane. */
template <class Real> double laneOf(const Real& value, int lane) {
    return LaneTraits<Real>::lane(value, lane);
}

/** The first of `count` lanes in which a mask is false, or -1. */
template <class Real> int findFalse(const MaskOf<Real>& mask, int count) {
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

#endif /* STIFFCORE_BATCH_LANES_H_ */
