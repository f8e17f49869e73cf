#ifndef STIFFCORE_DIHEDRAL_H_
#define STIFFCORE_DIHEDRAL_H_

#include "../Geometry.h"
#include <Eigen/Geometry>

namespace stiffcore {

/**
 * The dihedral angle phi between the planes of (x0, x1, x2) and (x1, x2, x3), with OpenMM's sign. With
 *
 *     F = x0 - x1,  G = x1 - x2,  H = x3 - x2,  A = F x G,  B = H x G
 *
 * its gradient (Blondel and Karplus, J. Comput. Chem. 17, 1132, 1996) is free of the singularities at 0 and 180
 * degrees,
 *
 *     dphi/dF = -|G| A/A^2,  dphi/dH = |G| B/B^2,  dphi/dG = p A - q B,   p = F.G/(A^2 |G|),  q = H.G/(B^2 |G|)
 *
 * and so are the second derivatives, which follow with dA = dF x G + F x dG, dB = dH x G + H x dG. Only where three of
 * the atoms are in line is there no dihedral angle: its derivatives are then not finite.
 */
template <class Real> struct Dihedral {
    static constexpr int numAtoms = 4;
    /// phi [rad], -pi to pi.
    Real value;

    Dihedral(const Vector3<Real>& F, const Vector3<Real>& G, const Vector3<Real>& H)
            : F(F), G(G), H(H), A(F.cross(G)), B(H.cross(G)) {
        using std::atan2;
        using std::sqrt;
        length = sqrt(G.squaredNorm());
        inverseA2 = 1 / A.squaredNorm();
        inverseB2 = 1 / B.squaredNorm();
        inverseLength = 1 / length;
        p = F.dot(G) * inverseA2 * inverseLength;
        q = H.dot(G) * inverseB2 * inverseLength;
        value = atan2(-F.dot(B) * length, A.dot(B));
        dF = -length * inverseA2 * A;
        dH = length * inverseB2 * B;
        dG = p * A - q * B;
    }

    Vector3<Real> gradient(int atom) const {
        if (atom == 0)
            return dF;
        if (atom == 1)
            return dG - dF;
        if (atom == 2)
            return -dG - dH;
        return dH;
    }

    /** Add the Hessian of V(phi), see Distance. */
    template <class Add> void addHessian(Real first, Real second, Add&& add) const {
        // The second derivatives by F, G and H, in this order.
        const Vector3<Real> e = G * inverseLength, AxF = A.cross(F), BxH = B.cross(H);
        const Matrix3<Real> AA = A * A.cross(G).transpose(), BB = B * B.cross(G).transpose();
        const Real a4 = length * inverseA2 * inverseA2, b4 = length * inverseB2 * inverseB2;
        const Vector3<Real> dp = inverseA2 * inverseLength * F - 2 * p * inverseA2 * AxF - p * inverseLength * e;
        const Vector3<Real> dq = inverseB2 * inverseLength * H - 2 * q * inverseB2 * BxH - q * inverseLength * e;
        Matrix3<Real> d2[3][3];
        d2[0][0] = -a4 * (AA + AA.transpose());
        d2[0][1] = 2 * a4 * A * AxF.transpose() - inverseA2 * (A * e.transpose() + length * crossing(F));
        d2[0][2] = Matrix3<Real>::Zero();
        d2[1][1] = A * dp.transpose() + p * crossing(F) - B * dq.transpose() - q * crossing(H);
        d2[2][1] = inverseB2 * (B * e.transpose() + length * crossing(H)) - 2 * b4 * B * BxH.transpose();
        d2[2][2] = b4 * (BB + BB.transpose());
        d2[1][0] = d2[0][1].transpose();
        d2[1][2] = d2[2][1].transpose();
        d2[2][0] = d2[0][2];
        const int signs[3][4] = {{1, -1, 0, 0}, {0, 1, -1, 0}, {0, 0, -1, 1}}; // of the atoms in F, G and H
        for (int i = 0; i < numAtoms; i++)
            for (int j = 0; j <= i; j++) {
                Matrix3<Real> h = second * gradient(i) * gradient(j).transpose();
                for (int s = 0; s < 3; s++)
                    for (int t = 0; t < 3; t++)
                        h += (signs[s][i] * signs[t][j] * first) * d2[s][t];
                add(i, j, h);
            }
    }

private:
    Vector3<Real> F, G, H, A, B;
    Real length, inverseA2, inverseB2, inverseLength, p, q;
    Vector3<Real> dF, dG, dH;

    /** The matrix of v <- a x v. */
    static Matrix3<Real> crossing(const Vector3<Real>& a) {
        Matrix3<Real> m;
        m << Real(0), -a[2], a[1], a[2], Real(0), -a[0], -a[1], a[0], Real(0);
        return m;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_DIHEDRAL_H_ */
