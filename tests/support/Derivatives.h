#ifndef STIFFTEST_DERIVATIVES_H_
#define STIFFTEST_DERIVATIVES_H_

#include "openmm/Vec3.h"
#include <Eigen/Dense>
#include <vector>

/**
 * Vectors of OpenMM as those of Eigen, and derivatives by differences.
 */
namespace stifftest {

/** Derivatives of a function of x by differences of fourth order, one column for each component of x. */
template <class Function> Eigen::MatrixXd differentiate(const Eigen::VectorXd& x, double d, Function&& function) {
    Eigen::MatrixXd result;
    for (int i = 0; i < x.size(); i++) {
        auto at = [&](double shift) {
            Eigen::VectorXd moved = x;
            moved[i] += shift;
            return Eigen::VectorXd(function(moved));
        };
        const Eigen::VectorXd column = (8 * (at(d) - at(-d)) - (at(2 * d) - at(-2 * d))) / (12 * d);
        result.conservativeResize(column.size(), x.size());
        result.col(i) = column;
    }
    return result;
}

/** How far a step with the Jacobian J in (q, p) is from symplectic: the largest entry of J^T Omega J - Omega. */
inline double symplecticDefect(const Eigen::MatrixXd& J) {
    const int n = J.rows() / 2;
    Eigen::MatrixXd Omega = Eigen::MatrixXd::Zero(2 * n, 2 * n);
    Omega.topRightCorner(n, n).setIdentity();
    Omega.bottomLeftCorner(n, n) = -Eigen::MatrixXd::Identity(n, n);
    return (J.transpose() * Omega * J - Omega).cwiseAbs().maxCoeff();
}

inline Eigen::VectorXd toVector(const std::vector<OpenMM::Vec3>& vectors) {
    Eigen::VectorXd result(3 * vectors.size());
    for (size_t i = 0; i < vectors.size(); i++)
        for (int j = 0; j < 3; j++)
            result[3 * i + j] = vectors[i][j];
    return result;
}

inline std::vector<OpenMM::Vec3> toVec3s(const Eigen::VectorXd& values) {
    std::vector<OpenMM::Vec3> result;
    for (int i = 0; i < values.size(); i += 3)
        result.push_back(OpenMM::Vec3(values[i], values[i + 1], values[i + 2]));
    return result;
}

} // namespace stifftest

#endif /* STIFFTEST_DERIVATIVES_H_ */
