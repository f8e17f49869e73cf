#ifndef STIFFTEST_DERIVATIVES_H_
#define STIFFTEST_DERIVATIVES_H_

#include <Eigen/Dense>

/**
 * Derivatives by differences.
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

} // namespace stifftest

#endif /* STIFFTEST_DERIVATIVES_H_ */
