#ifndef STIFFTEST_DENSE_SPOOK_H_
#define STIFFTEST_DENSE_SPOOK_H_

#include "DenseAlgebra.h"
#include "Derivatives.h"
#include <functional>
#include <vector>

namespace stifftest {

/**
 * A step of SPOOK as the paper writes it (Lacoursiere 2007, equation 29): one unsymmetric matrix, its first rows
 * divided by the masses, and gradients by differences.
 */
struct DenseSpook {
    struct Holonomic {
        std::function<double(const Eigen::VectorXd& x)> g;
        double compliance, damping;
    };
    struct OnVelocities {
        std::function<Eigen::VectorXd(const Eigen::VectorXd& x)> A;
        double w, compliance;
    };
    /// 0 for what never moves.
    Eigen::VectorXd inverseMass;
    std::vector<Holonomic> holonomic;
    std::vector<OnVelocities> onVelocities;
    double h;
    /// The matrix A above the matrix G.
    Eigen::MatrixXd J;
    /// The multipliers alpha and lambda of the last step.
    Eigen::VectorXd multipliers;

    /** v' from x, v, and the accelerations by the forces at x. */
    Eigen::VectorXd kick(const Eigen::VectorXd& x, const Eigen::VectorXd& v, const Eigen::VectorXd& a) {
        const int n = x.size(), numA = onVelocities.size(), numRows = numA + holonomic.size();
        J = Eigen::MatrixXd::Zero(numRows, n);
        Eigen::VectorXd diagonal(numRows), rhs(n + numRows);
        rhs.head(n) = v + h * a;
        for (int i = 0; i < numA; i++) {
            J.row(i) = onVelocities[i].A(x).transpose();
            diagonal[i] = onVelocities[i].compliance / h;
            rhs[n + i] = onVelocities[i].w;
        }
        for (int i = 0; i < (int) holonomic.size(); i++) {
            const Holonomic& constraint = holonomic[i];
            auto value = [&](const Eigen::VectorXd& at) {
                return Eigen::VectorXd(Eigen::VectorXd::Constant(1, constraint.g(at)));
            };
            J.row(numA + i) = differentiate(x, 1e-4, value);
            const double upsilon = 1 / (1 + 4 * constraint.damping / h);
            diagonal[numA + i] = 4 / (h * h) * constraint.compliance * upsilon;
            rhs[n + numA + i] = upsilon * (J.row(numA + i).dot(v) - 4 / h * constraint.g(x));
        }
        Eigen::MatrixXd K = Eigen::MatrixXd::Zero(n + numRows, n + numRows);
        K.topLeftCorner(n, n).setIdentity();
        K.topRightCorner(n, numRows) = -(inverseMass.asDiagonal() * J.transpose());
        K.bottomLeftCorner(numRows, n) = J;
        K.bottomRightCorner(numRows, numRows) = diagonal.asDiagonal();
        const Eigen::VectorXd solution = solveDense(K, rhs);
        multipliers = solution.tail(numRows);
        return solution.head(n);
    }
};

} // namespace stifftest

#endif /* STIFFTEST_DENSE_SPOOK_H_ */
