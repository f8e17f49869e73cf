#ifndef STIFFTEST_DERIVATIVES_H_
#define STIFFTEST_DERIVATIVES_H_

#include "Assertions.h"
#include <Eigen/Core>
#include <string>

/**
 * Derivatives by differences.
 */
namespace stifftest {

/** The derivative at 0 of a function of one number, at(t), by differences of fourth order. */
template <class Function> Eigen::VectorXd slopeAtZero(double d, Function&& at) {
    const Eigen::VectorXd near = at(d), back = at(-d), far = at(2 * d), behind = at(-2 * d);
    return (8 * (near - back) - (far - behind)) / (12 * d);
}

/** Derivatives of a function of x, one column for each component of x. */
template <class Function> Eigen::MatrixXd differentiate(const Eigen::VectorXd& x, double d, Function&& function) {
    Eigen::MatrixXd result;
    for (int i = 0; i < x.size(); i++) {
        const Eigen::VectorXd column = slopeAtZero(d, [&](double shift) {
            Eigen::VectorXd moved = x;
            moved[i] += shift;
            return Eigen::VectorXd(function(moved));
        });
        result.conservativeResize(column.size(), x.size());
        result.col(i) = column;
    }
    return result;
}

/** Assert that the norm of a difference is at most the tolerance times a scale. */
inline void assertClose(const Eigen::MatrixXd& expected, const Eigen::MatrixXd& found, double scale, double tolerance) {
    const double error = (expected - found).norm();
    if (!(error <= tolerance * scale))
        throwException(__FILE__, __LINE__,
                       "Error " + std::to_string(error / scale / tolerance) + " times the tolerance");
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
