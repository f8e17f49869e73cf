#ifndef STIFF_TEST_EXTENDED_WATER_H_
#define STIFF_TEST_EXTENDED_WATER_H_

#include "DenseAlgebra.h"
#include "Derivatives.h"
#include "Systems.h"

namespace stifftest {

/** What the period makes of a force constant: kappa = k (period / 2 pi)^2 - mu. */
inline double inertia(double k, double mass1, double mass2, double period) {
    return k * period * period / (4 * M_PI * M_PI) - 1 / (1 / mass1 + 1 / mass2);
}

/** The extended system of a flexible water, written down for one molecule: pairs 01, 02 and 12. */
struct ExtendedWater {
    /// M, and M + sum lambda (e_i - e_j) (e_i - e_j)^T for the bonds 01 and 02.
    Eigen::MatrixXd massOfAtoms, mass;
    Eigen::Vector3d kappa;
    double bondInertia;

    explicit ExtendedWater(double period, double bondInertia = 0) : bondInertia(bondInertia) {
        Eigen::VectorXd ofAtoms(9);
        ofAtoms << oxygenMass, oxygenMass, oxygenMass, Eigen::VectorXd::Constant(6, hydrogenMass);
        mass = massOfAtoms = ofAtoms.asDiagonal();
        forEachBond([&](const Eigen::VectorXd& relative) { mass += bondInertia * relative * relative.transpose(); });
        kappa[0] = kappa[1] = inertia(bondConstant, oxygenMass, hydrogenMass, period);
        // k of the H-H distance, k_theta / (dr/dtheta)^2
        const double slope = bondLength * std::cos(0.5 * waterAngle);
        kappa[2] = inertia(angleConstant / (slope * slope), hydrogenMass, hydrogenMass, period);
    }
    /** Call visit with the gradients of the axes of the bonds. */
    template <class Visit> static void forEachBond(Visit&& visit) {
        for (int hydrogen : {3, 6})
            for (int axis = 0; axis < 3; axis++)
                visit(Eigen::VectorXd(Eigen::VectorXd::Unit(9, hydrogen + axis) - Eigen::VectorXd::Unit(9, axis)));
    }
    static Eigen::VectorXd lengths(const Eigen::VectorXd& x) {
        const int pairs[3][2] = {{0, 3}, {0, 6}, {3, 6}};
        Eigen::Vector3d s;
        for (int p = 0; p < 3; p++)
            s[p] = (x.segment<3>(pairs[p][1]) - x.segment<3>(pairs[p][0])).norm();
        return s;
    }
    static Eigen::MatrixXd jacobian(const Eigen::VectorXd& x) {
        return differentiate(x, 2e-5, lengths);
    }
    /** M' + G^T kappa G */
    Eigen::MatrixXd extendedMass(const Eigen::VectorXd& x) const {
        const Eigen::MatrixXd G = jacobian(x);
        return mass + G.transpose() * kappa.asDiagonal() * G;
    }
    /** N of v = N u, where u are the velocities that the Context shows: inertias are added one after the other. */
    Eigen::MatrixXd root(const Eigen::VectorXd& x) const {
        Eigen::MatrixXd N = Eigen::MatrixXd::Identity(9, 9), present = massOfAtoms;
        auto add = [&](const Eigen::VectorXd& g, double inertia) {
            const Eigen::VectorXd y = solveDense(present, g);
            const double gy = g.dot(y), s = 1 / std::sqrt(1 + inertia * gy);
            N -= (1 - s) / gy * y * (g.transpose() * N);
            present += inertia * g * g.transpose();
        };
        forEachBond([&](const Eigen::VectorXd& g) { add(g, bondInertia); });
        const Eigen::MatrixXd G = jacobian(x);
        for (int p = 0; p < 3; p++)
            add(G.row(p).transpose(), kappa[p]);
        return N;
    }
};

} // namespace stifftest

#endif /* STIFF_TEST_EXTENDED_WATER_H_ */
