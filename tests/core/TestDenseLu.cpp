/**
 * The LU factorization without pivoting against dense Eigen.
 */

#include "Claims.h"
#include "RandomMatrix.h"
#include "stiffcore/linear/DenseLu.h"
#include <vector>

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/** Matrices with a dominant diagonal, not symmetric, have small errors without pivoting. */
void testSolutionAgreesWithDenseEigen() {
    Random random(1);
    for (int size : {1, 2, 3, 7, 20}) {
        Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> A(size, size);
        VectorXd b(size);
        for (int i = 0; i < size; i++) {
            b[i] = random.gaussian();
            for (int j = 0; j < size; j++)
                A(i, j) = random.gaussian() + (i == j ? 3.0 * size : 0);
        }
        const VectorXd expected = solveDense(A, b);
        auto factors = A;
        VectorXd x = b;
        DenseLu<double>::factor(factors.data(), size);
        DenseLu<double>::solve(factors.data(), size, x.data());
        ASSERT((x - expected).norm() < 1e-13 * expected.norm());
        if (size == 3) {
            factors = A;
            x = b;
            DenseLu<double, 3>::factor(factors.data(), size);
            DenseLu<double, 3>::solve(factors.data(), size, x.data());
            ASSERT((x - expected).norm() < 1e-13 * expected.norm());
        }
    }
}

int main() {
    return checkClaims({CLAIM(testSolutionAgreesWithDenseEigen)});
}
