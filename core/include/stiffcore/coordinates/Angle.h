#ifndef STIFFCORE_ANGLE_H_
#define STIFFCORE_ANGLE_H_

#include "../Geometry.h"
#include <Eigen/Geometry>

namespace stiffcore {

/**
 * Pass on the Hessian of a function of two legs a = x0 - x1 and b = x2 - x1 as that of their three atoms.
 *
 * @param add   called as add(a, b, h) with the 3x3 block h of atoms a >= b
 */
template <class Real, class Add>
void addHessianOfLegs(const Matrix3<Real>& haa, const Matrix3<Real>& hbb, const Matrix3<Real>& hba, Add&& add) {
    add(0, 0, haa);
    add(2, 2, hbb);
    add(2, 0, hba);
    add(1, 0, -(haa + hba));
    add(2, 1, -(hba + hbb));
    add(1, 1, haa + hbb + hba + hba.transpose());
}

/**
 * The angle theta between a = x0 - x1 and b = x2 - x1, with its derivatives. With the unit vectors ea and eb, n the
 * unit normal of their plane, and ta = ea x n, tb = n x eb the directions in the plane that open the angle,
 *
 *     dtheta/da = ta / |a|,                dtheta/db = tb / |b|
 *     d2theta/da da = [cot(theta) n n^T - ea ta^T - ta ea^T] / |a|^2
 *     d2theta/db db = [cot(theta) n n^T - eb tb^T - tb eb^T] / |b|^2
 *     d2theta/da db = -n n^T / (|a| |b| sin(theta)),
 *
 * and the vertex takes the negative sums. Only motion out of the plane (n n^T) is singular at 0 and 180 degrees; it
 * is always multiplied by V'/sin(theta), for which a potential with its minimum there has a finite limit. At 0 and
 * 180 degrees the plane is undefined, and close to them the cross product is all rounding, not even perpendicular to
 * a: below minBend any n perpendicular to a is taken, which is exact in the limit, where all directions around the
 * line are alike.
 */
template <class Real> struct Angle {
    static constexpr int numAtoms = 3;
    /// Below this sine, V'/sin(theta) is capped where it has no finite limit.
    static constexpr double minSine = 1e-6;
    /// Below this sine, n is chosen: the error of the computed one, roundoff/sine, exceeds that of the limit, sine.
    static constexpr double minBend = 1e-8;
    /// The angle [rad], its sine and its cosine.
    Real value, sine, cosine;

    Angle(const Vector3<Real>& a, const Vector3<Real>& b) {
        using std::atan2;
        using std::sqrt;
        inverseA = inverseNorm(a);
        inverseB = inverseNorm(b);
        ea = a * inverseA;
        eb = b * inverseB;
        normal = ea.cross(eb);
        sine = sqrt(normal.squaredNorm());
        cosine = ea.dot(eb);
        value = atan2(sine, cosine);
        const auto bent = sine > minBend;
        const Vector3<Real> anyNormal = perpendicular(ea);
        const Real inverseSine = 1 / select(bent, sine, Real(1));
        for (int i = 0; i < 3; i++)
            n[i] = select(bent, normal[i] * inverseSine, anyNormal[i]);
        ta = ea.cross(n);
        tb = n.cross(eb);
    }

    /** The supplement pi - theta, accurate where the angle is close to pi [rad]. */
    Real supplement() const {
        using std::atan2;
        return atan2(sine, -cosine);
    }

    Vector3<Real> gradient(int atom) const {
        if (atom == 0)
            return ta * inverseA;
        if (atom == 2)
            return tb * inverseB;
        return -(ta * inverseA + tb * inverseB);
    }

    /** sin(theta) times the gradient, which is smooth at 0 and 180 degrees too. */
    Vector3<Real> sineGradient(int atom) const {
        const Vector3<Real> ga = ea.cross(normal) * inverseA, gb = normal.cross(eb) * inverseB;
        return atom == 0 ? ga : atom == 2 ? gb : Vector3<Real>(-(ga + gb));
    }

    /**
     * theta or its supplement, whichever is less, over the sine. As a function of w = sin(theta)^2 it is smooth,
     * arcsin(w^1/2) / w^1/2 = 1 + w/6 + 3/40 w^2 + ..., which for small w is more accurate than the quotient, and has
     * derivatives.
     */
    Real arcOverSine() const {
        const int numTerms = 8; // enough for w < 0.01
        const Real w = normal.squaredNorm();
        Real series = 1.0 / (2 * numTerms + 1);
        for (int n = numTerms; n > 0; n--)
            series = 1.0 / (2 * n - 1) + w * ((2 * n - 1.0) / (2 * n)) * series;
        const Real arc = select(cosine >= 0, value, supplement());
        return select(w < 0.01, series, arc / select(sine > 0, sine, Real(1)));
    }

    /**
     * Add the Hessian of V(theta).
     *
     * @param first           V' [kJ/mol/rad]
     * @param second          V'' [kJ/mol/rad^2]
     * @param firstOverSine   V'/sin(theta), finite
     * @param add             called as add(a, b, h) with the 3x3 block h of atoms a >= b
     */
    template <class Add> void addHessian(Real first, Real second, Real firstOverSine, Add&& add) const {
        const Vector3<Real> ga = ta * inverseA, gb = tb * inverseB;
        const Vector3<Real> ra = ea * inverseA, rb = eb * inverseB;
        const Vector3<Real> na = n * inverseA, nb = n * inverseB;
        const Real outOfPlane = firstOverSine * cosine;
        const Matrix3<Real> haa = second * ga * ga.transpose() + outOfPlane * na * na.transpose() -
                                  first * (ra * ga.transpose() + ga * ra.transpose());
        const Matrix3<Real> hbb = second * gb * gb.transpose() + outOfPlane * nb * nb.transpose() -
                                  first * (rb * gb.transpose() + gb * rb.transpose());
        const Matrix3<Real> hba = second * gb * ga.transpose() - firstOverSine * nb * na.transpose();
        addHessianOfLegs(haa, hbb, hba, add);
    }

private:
    Real inverseA, inverseB;
    Vector3<Real> ea, eb, normal, n, ta, tb;
};

} // namespace stiffcore

#endif /* STIFFCORE_ANGLE_H_ */
