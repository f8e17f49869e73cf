/**
 * The stiff terms: gradient and Hessian against automatic differentiation of formulas written here, and their
 * limits.
 */

#include "CoreTest.h"
#include "HyperDual.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffcore/coordinates/Bend.h"
#include "stiffcore/terms/Harmonic.h"
#include "stiffcore/terms/Hessian.h"
#include "stiffcore/terms/Taylor.h"
#include <tuple>

using Eigen::Vector3d;

namespace {

const double pi = 3.14159265358979323846;
const double roundoff = 0x1p-53;

/** Something of a term, computed in one lane while others hold what has been there before; each lane in turn. */
template <class Real> class LaneByLane {
public:
    static Real put(double value) {
        static Random random(99);
        Real result(0);
        for (int i = 0; i < LaneTraits<Real>::count; i++)
            LaneTraits<Real>::lane(result, i) = (i == lane ? value : random.integer(9) == 0 ? NAN : random.gaussian());
        return result;
    }
    static Vector3<Real> put(const Vector3d& v) {
        return {put(v[0]), put(v[1]), put(v[2])};
    }
    static Harmonic<Real> put(const Harmonic<double>& potential) {
        return {put(potential.k), put(potential.s0)};
    }
    static int next() {
        return lane = (lane + 1) % LaneTraits<Real>::count;
    }

private:
    static inline int lane = 0;
};

/** The gradient and Hessian of a term as the plugin computes them: of a length, the angle of two vectors, or a bend. */
template <class Real, class... Vectors>
Derivatives evaluate(const Harmonic<double>& potential, const Vectors&... vectors) {
    using Coordinates = std::tuple<Distance<Real>, Angle<Real>, Bend<Real>>;
    using Coordinate = std::tuple_element_t<sizeof...(Vectors) - 1, Coordinates>;
    using Put = LaneByLane<Real>;
    const int lane = Put::next(), n = 3 * Coordinate::numAtoms;
    const Harmonic<Real> v = Put::put(potential);
    const Coordinate s(Put::put(vectors)...);
    Derivatives result = {0, VectorXd(n), MatrixXd::Constant(n, n, NAN)};
    for (int a = 0; a < Coordinate::numAtoms; a++) {
        const Vector3<Real> gradient = s.gradient(a) * v.first(s.value);
        for (int i = 0; i < 3; i++)
            result.gradient[3 * a + i] = laneOf(gradient[i], lane);
    }
    addHessian(v, s, [&](int a, int b, const Matrix3<Real>& h) {
        ASSERT(a >= b);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                result.hessian(3 * a + i, 3 * b + j) = result.hessian(3 * b + j, 3 * a + i) = laneOf(h(i, j), lane);
    });
    return result;
}

/** An angle, in numbers. */
struct PlainAngle {
    double value, supplement, sine, firstOverSine;
};
template <class Real>
PlainAngle evaluateAngle(const Vector3d& a, const Vector3d& b, const Harmonic<double>& potential = {0, 0}) {
    using Put = LaneByLane<Real>;
    const int lane = Put::next();
    const Angle<Real> angle(Put::put(a), Put::put(b));
    return {laneOf(angle.value, lane), laneOf(angle.supplement(), lane), laneOf(angle.sine, lane),
            laneOf(Put::put(potential).firstOverSine(angle), lane)};
}

Derivatives expectedDistance(const Harmonic<double>& potential, const Vector3d& d) {
    return differentiate<6>({0, 0, 0, d[0], d[1], d[2]}, [&](const std::array<HyperDual, 6>& x) {
        const DualVector first = {x[0], x[1], x[2]}, second = {x[3], x[4], x[5]};
        const HyperDual stretch = norm(second - first) - HyperDual(potential.s0);
        return HyperDual(0.5 * potential.k) * stretch * stretch;
    });
}

/** Of a coordinate s(a, b) of two legs. */
template <class Function>
Derivatives expectedOfLegs(const Harmonic<double>& potential, const Vector3d& a, const Vector3d& b, Function&& s) {
    return differentiate<9>({a[0], a[1], a[2], 0, 0, 0, b[0], b[1], b[2]}, [&](const std::array<HyperDual, 9>& x) {
        const DualVector first = {x[0], x[1], x[2]}, vertex = {x[3], x[4], x[5]}, last = {x[6], x[7], x[8]};
        const HyperDual bend = s(first - vertex, last - vertex) - HyperDual(potential.s0);
        return HyperDual(0.5 * potential.k) * bend * bend;
    });
}

Derivatives expectedAngle(const Harmonic<double>& potential, const Vector3d& a, const Vector3d& b) {
    return expectedOfLegs(potential, a, b, angleBetween);
}

Derivatives expectedBend(const Harmonic<double>& potential, const Vector3d& a, const Vector3d& b, const Vector3d& u) {
    return expectedOfLegs(potential, a, b, [&](const DualVector& first, const DualVector& last) {
        HyperDual p = 0;
        for (int i = 0; i < 3; i++)
            p = p + HyperDual(u[i]) * (first[i] / norm(first) + last[i] / norm(last));
        return p;
    });
}

void assertSymmetric(const MatrixXd& hessian) {
    assertClose(hessian, hessian.transpose(), hessian.norm(), 4 * roundoff);
}

void assertDerivatives(const Derivatives& expected, const Derivatives& found, double gradientScale, double hessianScale,
                       double tolerance) {
    assertClose(expected.gradient, found.gradient, gradientScale, tolerance);
    assertClose(expected.hessian, found.hessian, hessianScale, tolerance);
    assertSymmetric(found.hessian);
}

/** Two vectors of the lengths of bonds with a given angle between them; at 0 and pi they are exactly in a line. */
struct Legs {
    Vector3d a, b;

    Legs(Random& random, double theta) {
        const Vector3d e = random.direction(), across = random.directionAcross(e);
        a = random.uniform(0.09, 0.2) * e;
        b = random.uniform(0.09, 0.2) * (std::cos(theta) * e + (theta == pi ? 0 : std::sin(theta)) * across);
    }
};

/**
 * The Hessian at exactly 0 or 180 degrees of a potential with its minimum there: V = k/2 |p|^2 with p the
 * components of (x0-x1)/|a| -+ (x2-x1)/|b| across the line, the same in all directions around it.
 */
MatrixXd limitOfBending(double k, const Vector3d& a, const Vector3d& b) {
    const Vector3d e = a.normalized();
    const double sign = (a.dot(b) > 0 ? -1 : 1);
    const double weights[] = {1 / a.norm(), -1 / a.norm() - sign / b.norm(), sign / b.norm()};
    MatrixXd hessian(9, 9);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            hessian.block<3, 3>(3 * i, 3 * j) =
                    k * weights[i] * weights[j] * (Eigen::Matrix3d::Identity() - e * e.transpose());
    return hessian;
}

CLAIM_WITH_LANES(testDistanceAgreesWithAutomaticDifferentiation) {
    // About 20 roundings, each relative to the largest term; the gradient's relative error grows as r0/(r - r0),
    // so that it is compared with k r.
    Random random(1);
    for (int i = 0; i < 500; i++) {
        const Vector3d d = random.uniform(0.05, 0.5) * random.direction();
        const Harmonic<double> potential = {random.uniform(1e4, 5e5), random.uniform(0.05, 0.5)};
        const Derivatives expected = expectedDistance(potential, d);
        assertDerivatives(expected, evaluate<Real>(potential, d), potential.k * (d.norm() + potential.s0),
                          expected.hessian.norm(), 20 * roundoff);
    }
}

CLAIM_WITH_LANES(testAngleAgreesWithAutomaticDifferentiation) {
    // The cross product of two unit vectors has an absolute error of some roundings. The normal of the plane, and
    // with it everything, has therefore a relative error of some roundings / sin(theta): the condition number of
    // the normal. With 100 roundings that is below 1e-10 for all angles from 0.01 to 179.99 degrees.
    Random random(2);
    std::vector<double> degrees = {0.1, 1, 5, 90, 175, 179, 179.9, 179.999};
    for (int i = 0; i < 20; i++)
        degrees.push_back(random.uniform(1, 179));
    for (double degree : degrees)
        for (int i = 0; i < 100; i++) {
            const double theta = degree * pi / 180, tolerance = 100 * roundoff / std::sin(theta);
            ASSERT(tolerance < 1e-10 || degree > 179.99);
            const Legs bend(random, theta);
            const double minima[] = {random.uniform(0.5, 3), theta + random.uniform(-0.2, 0.2), theta, pi};
            for (double s0 : minima) {
                const Harmonic<double> potential = {random.uniform(100, 1000), s0};
                const Derivatives expected = expectedAngle(potential, bend.a, bend.b);
                const double scale = potential.k * (theta + std::abs(s0)) * (1 / bend.a.norm() + 1 / bend.b.norm());
                assertDerivatives(expected, evaluate<Real>(potential, bend.a, bend.b), scale, expected.hessian.norm(),
                                  tolerance);
            }
        }
}

CLAIM_WITH_LANES(testAngleAndSupplementAreAccurateAtBothEnds) {
    Random random(3);
    for (int i = 0; i < 500; i++) {
        const double small = std::pow(10, random.uniform(-7, 0));
        const Legs acute(random, small), obtuse(random, pi - small);
        // The construction of the geometry has an absolute error of some roundings itself.
        ASSERT_EQUAL_TOL(1.0, evaluateAngle<Real>(acute.a, acute.b).value / small, 20 * roundoff / small);
        ASSERT_EQUAL_TOL(1.0, evaluateAngle<Real>(obtuse.a, obtuse.b).supplement / small, 20 * roundoff / small);
        const PlainAngle angle = evaluateAngle<Real>(obtuse.a, obtuse.b);
        ASSERT_EQUAL_TOL(pi, angle.value + angle.supplement, 4 * roundoff);
    }
}

CLAIM_WITH_LANES(testTranslationAndRotationLeaveEnergyUnchanged) {
    // V(x + t) = V(x): forces and the rows of the Hessian sum to zero. V(R x) = V(x), differentiated twice: no
    // torque, and sum_j H_ij (w x x_j) = w x g_i for any w.
    Random random(4);
    auto check = [&](const std::vector<Vector3d>& x, const Derivatives& found, double forceScale, double tolerance) {
        const int n = x.size();
        const Vector3d w = random.direction();
        Vector3d force = Vector3d::Zero(), torque = Vector3d::Zero();
        VectorXd turned(3 * n), turnedGradient(3 * n), shifted(3 * n);
        for (int i = 0; i < n; i++) {
            const Vector3d g = found.gradient.segment<3>(3 * i);
            force += g;
            torque += x[i].cross(g);
            turned.segment<3>(3 * i) = w.cross(x[i]);
            turnedGradient.segment<3>(3 * i) = w.cross(g);
            shifted.segment<3>(3 * i) = w;
        }
        const double scale = found.hessian.norm() * turned.norm() + forceScale;
        assertClose(Vector3d::Zero(), force, forceScale, tolerance);
        assertClose(Vector3d::Zero(), torque, forceScale * turned.norm(), tolerance);
        assertClose(VectorXd::Zero(3 * n), found.hessian * shifted, found.hessian.norm(), tolerance);
        assertClose(turnedGradient, found.hessian * turned, scale, tolerance);
    };
    for (int i = 0; i < 300; i++) {
        const Harmonic<double> stretch = {random.uniform(1e4, 5e5), random.uniform(0.05, 0.5)};
        const Vector3d d = random.uniform(0.05, 0.5) * random.direction();
        check({Vector3d::Zero(), d}, evaluate<Real>(stretch, d), stretch.k * (d.norm() + stretch.s0), 50 * roundoff);

        const Harmonic<double> bending = {random.uniform(100, 1000), random.uniform(0.5, 3)};
        const double theta = random.uniform(0.05, pi - 0.05);
        const Legs bend(random, theta);
        check({bend.a, Vector3d::Zero(), bend.b}, evaluate<Real>(bending, bend.a, bend.b),
              bending.k * (theta + bending.s0) * (1 / bend.a.norm() + 1 / bend.b.norm()),
              50 * roundoff / std::sin(theta));
    }
}

CLAIM_WITH_LANES(testBendAgreesWithAutomaticDifferentiation) {
    // The direction u need not be perpendicular to the legs.
    Random random(4);
    for (int i = 0; i < 300; i++) {
        const Legs legs(random, random.uniform(0.6, 1) * pi);
        const Vector3d u = random.direction();
        const Harmonic<double> potential = {random.uniform(100, 1000), random.uniform(0, 0.5)};
        const Derivatives expected = expectedBend(potential, legs.a, legs.b, u);
        const Derivatives found = evaluate<Real>(potential, legs.a, legs.b, u);
        const double shorter = std::min(legs.a.norm(), legs.b.norm()), scale = potential.k / shorter;
        assertDerivatives(expected, found, 3 * scale, scale / shorter, 50 * roundoff);
    }
}

CLAIM_WITH_LANES(testBendingOfAnglesInALineIsIsotropic) {
    auto check = [](const Harmonic<double>& potential, const Vector3d& a, const Vector3d& b) {
        // The force vanishes: V' is 0 to some roundings.
        const MatrixXd limit = limitOfBending(potential.k, a, b);
        assertDerivatives({0, VectorXd::Zero(9), limit}, evaluate<Real>(potential, a, b), potential.k * pi / 0.09,
                          limit.norm(), 20 * roundoff);
    };
    // Rounding leaves a line with random direction bent by some 1e-16 rad in a random direction.
    Random random(5);
    for (double theta : {0.0, pi})
        for (int i = 0; i < 1000; i++) {
            const Legs line(random, theta);
            check({random.uniform(100, 1000), theta}, line.a, line.b);
        }
    // Exactly straight, without rounding, along each axis.
    for (int axis = 0; axis < 3; axis++)
        for (double sign : {-1.0, 1.0})
            check({500, pi}, 0.12 * sign * Vector3d::Unit(axis), -0.15 * sign * Vector3d::Unit(axis));
}

CLAIM(testThirdDerivativesOfTheStraightAngle) {
    // Of a minimum at 180 degrees, against differences of the exact Hessian along a direction d, which leave out the
    // straight angle itself: of fourth order, at 1e-3 of the bond lengths, and thus right to some 1e-10.
    Random random(13);
    std::vector<double> bends = {0, 0, 0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.05, 0.09, 0.11, 0.5, 2};
    for (double bend : bends)
        for (int i = 0; i < 100; i++) {
            const Harmonic<double> potential = {random.uniform(100, 1000), pi};
            const Legs bent(random, pi - bend);
            const Vector3d &a = bent.a, &b = bent.b;
            const Vector3d directions[3] = {random.vector(1), random.vector(1), random.vector(1)};
            const Vector3d da = directions[0] - directions[1], db = directions[2] - directions[1];
            VectorXd d(9);
            d << directions[0], directions[1], directions[2];
            Vector3<Taylor> lineA, lineB;
            for (int j = 0; j < 3; j++) {
                lineA[j] = Taylor(a[j], da[j]);
                lineB[j] = Taylor(b[j], db[j]);
            }
            const Angle<Taylor> theta(lineA, lineB);
            VectorXd found(9);
            for (int atom = 0; atom < 3; atom++) {
                const Vector3<Taylor> gradient = gradientOf(Harmonic<Taylor>{potential.k, potential.s0}, theta, atom);
                for (int j = 0; j < 3; j++)
                    found[3 * atom + j] = 2 * gradient[j].c2;
            }
            const VectorXd expected = slopeAtZero(1e-4, [&](double t) {
                return VectorXd(expectedAngle(potential, a + t * da, b + t * db).hessian * d);
            });
            assertClose(expected, found, potential.k / std::pow(0.09, 3), 1e-7);
        }
}

CLAIM(testThirdDerivativesOfAConeAreThoseOfTheCappedOne) {
    // Where the Hessian takes a cone for round, so do the third derivatives, which would not be finite.
    for (double s0 : {1.9, 3.14159265, 3.141594}) {
        const Vector3<Taylor> a(Taylor(0.1, 0.2), Taylor(0, -0.3), Taylor(0, 0.1));
        const Vector3<Taylor> b(Taylor(-0.12), Taylor(0), Taylor(0));
        const Vector3<Taylor> gradient = gradientOf(Harmonic<Taylor>{500.0, s0}, Angle<Taylor>(a, b), 0);
        for (int j = 0; j < 3; j++)
            ASSERT(std::isfinite(gradient[j].c2));
    }
}

CLAIM_WITH_LANES(testHessianIsContinuousTowardsTheStraightAngle) {
    // The Hessian of a minimum at 180 degrees deviates from the limit by a term linear in the bend d (the bonds
    // turn by d) and, from rounding, by the error of the normal, roundoff/d: together at most some 1e-8, at d =
    // 1e-8.
    Random random(7);
    for (int i = 0; i < 2000; i++) {
        const double d = std::pow(10, random.uniform(-17, -4));
        const Legs bend(random, pi - d);
        const Harmonic<double> potential = {random.uniform(100, 1000), pi};
        const MatrixXd limit = limitOfBending(potential.k, bend.a, bend.b);
        assertClose(limit, evaluate<Real>(potential, bend.a, bend.b).hessian, limit.norm(), 2 * d + 1e-7);
        // The normal is perpendicular to both bonds, so that the gradient of theta has the length 1/r; V' is theta.
        const VectorXd gradient = evaluate<Real>(Harmonic<double>{1, 0}, bend.a, bend.b).gradient / (pi - d);
        ASSERT_EQUAL_TOL(1.0, gradient.head<3>().norm() * bend.a.norm(), 1e-7);
        ASSERT_EQUAL_TOL(1.0, gradient.tail<3>().norm() * bend.b.norm(), 1e-7);
    }
}

/** A minimum elsewhere makes V' jump at 0 and 180 degrees: V'/sin(theta) is infinite there, and capped by k/minSine. */
CLAIM_WITH_LANES(testConesAreCapped) {
    Random random(8);
    for (double d : {0.0, 1e-15, 1e-9, 1e-7})
        for (bool straight : {false, true})
            for (int i = 0; i < 300; i++) {
                const Legs legs(random, straight ? pi - d : d);
                for (double s0 : {0.0, 1.0, 1.9, 3.0, 3.5}) {
                    const Harmonic<double> potential = {500, s0};
                    const Derivatives found = evaluate<Real>(potential, legs.a, legs.b);
                    ASSERT(found.hessian.allFinite() && found.gradient.allFinite());
                    assertSymmetric(found.hessian);
                    const double away = std::abs(straight ? pi - s0 : s0);
                    const double most = potential.k * (1 + away / Angle<double>::minSine);
                    const double firstOverSine = evaluateAngle<Real>(legs.a, legs.b, potential).firstOverSine;
                    ASSERT(away == 0 || std::abs(firstOverSine) <= most * (1 + 4 * roundoff)); // else it is no cone
                    // Curved downwards around the line if the minimum is on its other side.
                    ASSERT((firstOverSine > 0) == (straight ? s0 < pi : s0 == 0));
                }
            }
}

CLAIM_WITH_LANES(testHessianIsExactAboveTheCap) {
    Random random(9);
    for (double d : {1.01e-6, 1e-5})
        for (int i = 0; i < 300; i++) {
            const Legs bend(random, pi - d);
            for (double s0 : {0.5, 1.9, 3.0, pi}) {
                const Harmonic<double> potential = {500, s0};
                const PlainAngle angle = evaluateAngle<Real>(bend.a, bend.b);
                const Derivatives expected = expectedAngle(potential, bend.a, bend.b);
                const Derivatives found = evaluate<Real>(potential, bend.a, bend.b);
                ASSERT(angle.sine > Angle<double>::minSine);
                assertClose(expected.hessian, found.hessian, expected.hessian.norm(), 20 * roundoff / d);
            }
        }
}

CLAIM_WITH_LANES(testCoincidentAtomsGiveFiniteDerivatives) {
    const Vector3d zero = Vector3d::Zero(), b(0.1, -0.05, 0.02);
    const Derivatives distance = evaluate<Real>(Harmonic<double>{4e5, 0.1}, zero);
    ASSERT(distance.gradient.isZero(0) && distance.hessian.isZero(0));
    for (double s0 : {0.0, 1.9, pi}) {
        const Harmonic<double> potential = {500, s0};
        using Legs = std::pair<Vector3d, Vector3d>;
        for (const auto& [first, second] : {Legs(zero, zero), Legs(zero, b), Legs(b, zero)}) {
            const Derivatives found = evaluate<Real>(potential, first, second);
            ASSERT(found.gradient.allFinite() && found.hessian.allFinite());
            assertSymmetric(found.hessian);
        }
    }
}

CLAIM_WITH_LANES(testNotANumberIsPassedOn) {
    // A position that is not a number must not be hidden by the guards against division by zero.
    const Vector3d b(0.1, -0.05, 0.02);
    for (int component = 0; component < 3; component++)
        for (double bad : {(double) NAN, (double) INFINITY}) {
            Vector3d d(0.1, 0.1, 0.1);
            d[component] = bad;
            const Harmonic<double> potential = {500, 1.9};
            ASSERT(!evaluate<Real>(potential, d).hessian.allFinite());
            ASSERT(!evaluate<Real>(potential, d, b).hessian.allFinite());
            ASSERT(!evaluate<Real>(potential, b, d).hessian.allFinite());
        }
}

/** The box vectors, one a row. */
Eigen::Matrix3d vectorsOf(const Box& box) {
    return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(box.vectors[0]);
}

/** The minimum image has components of at most half the box; if it is short enough, no other image is shorter. */
CLAIM(testMinimumImageIsTheShortestImage) {
    Random random(11);
    for (int i = 0; i < 1000; i++) {
        const Box box = random.box();
        const Eigen::Matrix3d vectors = vectorsOf(box);
        const Vector3d far = random.vector(20), near = box.minimumImage(far);
        const Vector3d apart = vectors.transpose().inverse() * (far - near);
        for (int j = 0; j < 3; j++) {
            ASSERT(std::abs(apart[j] - std::round(apart[j])) < 1e-12);
            ASSERT(std::abs(near[j]) <= 0.5 * vectors(j, j) * (1 + 1e-12));
        }
        // In a reduced box each lattice vector is at least as long as the smallest diagonal element D. If |d| < D/2,
        // all other images of d are longer than D - |d| > |d|; and the convention finds d, as its components are below
        // half of each diagonal element.
        const Vector3d d = random.uniform(0, 0.5 * vectors.diagonal().minCoeff()) * random.direction();
        const Vector3d cells(random.integer(7) - 3, random.integer(7) - 3, random.integer(7) - 3);
        const Vector3d image = box.minimumImage(Vector3d(d + vectors.transpose() * cells));
        Vector3d shortest = Vector3d::Constant(100);
        for (int a = -6; a <= 6; a++)
            for (int b = -6; b <= 6; b++)
                for (int c = -6; c <= 6; c++) {
                    const Vector3d other = d + vectors.transpose() * (cells + Vector3d(a, b, c));
                    if (other.norm() < shortest.norm())
                        shortest = other;
                }
        // Roundings relative to the vector's length, at most 3 * 3 nm in each of three directions.
        assertClose(d, image, 1.0, 200 * roundoff);
        assertClose(shortest, image, 1.0, 200 * roundoff);
    }
}

/** The arctangent of lanes is std::atan2 up to two roundings, wherever the vector points. */
CLAIM(testArctangentOfLanes) {
    Random random(14);
    std::vector<std::pair<double, double>> vectors; // (y, x)
    const double special[] = {0.0,  1e-300, 1e-20, 0.4142135623730950, 0.4142135623730951, 1, 2.414213562373095,
                              1e20, 1e300};
    for (double y : special)
        for (double x : special)
            vectors.push_back({y, x});
    for (int i = 0; i < 100000; i++) {
        vectors.push_back({std::pow(10, random.uniform(-3, 3)), 1});
        const double phi = random.uniform(0, 0.5 * pi), r = std::pow(10, random.uniform(-5, 5));
        vectors.push_back({r * std::sin(phi), r * std::cos(phi)});
    }
    int lane = 0;
    for (const auto& [y, x] : vectors)
        for (double signY : {1, -1})
            for (double signX : {1, -1}) {
                Lanes ys(random.gaussian()), xs(random.gaussian());
                lane = (lane + 1) % Lanes::count;
                ys[lane] = signY * y;
                xs[lane] = signX * x;
                const double expected = std::atan2(ys[lane] + 0.0, xs[lane] + 0.0), found = atan2(ys, xs)[lane];
                ASSERT(std::abs(found - expected) <= 4e-16 * std::abs(expected));
            }
    // What is not a number stays in its lane.
    for (double bad : {(double) NAN, (double) INFINITY})
        for (int which : {0, 1}) {
            Lanes ys(0.3), xs(-0.2);
            (which == 0 ? ys : xs)[2] = bad;
            const Lanes found = atan2(ys, xs);
            ASSERT(!std::isnan(bad) || std::isnan(found[2]));
            for (int i : {0, 1, 3})
                ASSERT_EQUAL_TOL(std::atan2(0.3, -0.2), found[i], 4e-16 * pi);
        }
    const Lanes none = atan2(Lanes(NAN), Lanes(NAN));
    ASSERT(std::isnan(none[0]));
}

} // namespace

CHECK_CLAIMS
