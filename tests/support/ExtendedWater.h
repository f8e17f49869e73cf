#ifndef STIFF_TEST_EXTENDED_WATER_H_
#define STIFF_TEST_EXTENDED_WATER_H_

#include "Derivatives.h"
#include "Systems.h"

namespace stifftest {

/** What the period makes of a force constant: kappa = k (period / 2 pi)^2 - mu. */
inline double inertia(double k, double mass1, double mass2, double period) {
    return k * period * period / (4 * M_PI * M_PI) - 1 / (1 / mass1 + 1 / mass2);
}

/** The extended system of a flexible water, written down for one molecule: pairs 01, 02 and 12. */
struct ExtendedWater {
    /// M + sum lambda (e_i - e_j) (e_i - e_j)^T for the bonds 01 and 02.
    Eigen::MatrixXd mass;
    Eigen::Vector3d kappa;

    explicit ExtendedWater(double period, double bondInertia = 0) {
        Eigen::VectorXd ofAtoms(9);
        ofAtoms << oxygenMass, oxygenMass, oxygenMass, Eigen::VectorXd::Constant(6, hydrogenMass);
        mass = ofAtoms.asDiagonal();
        for (int hydrogen : {3, 6})
            for (int axis = 0; axis < 3; axis++) {
                Eigen::VectorXd relative = Eigen::VectorXd::Zero(9);
                relative[hydrogen + axis] = 1;
                relative[axis] = -1;
                mass += bondInertia * relative * relative.transpose();
            }
        kappa[0] = kappa[1] = inertia(bondConstant, oxygenMass, hydrogenMass, period);
        // k of the H-H distance, k_theta / (dr/dtheta)^2
        const double slope = bondLength * std::cos(0.5 * waterAngle);
        kappa[2] = inertia(angleConstant / (slope * slope), hydrogenMass, hydrogenMass, period);
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
};

} // namespace stifftest

#endif /* STIFF_TEST_EXTENDED_WATER_H_ */
