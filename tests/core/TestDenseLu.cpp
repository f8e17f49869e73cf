/**
 * The LU factorization without pivoting against dense Eigen.
 */

#include "CoreTest.h"
#include "stiffcore/linear/DenseLu.h"

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <int Size = 0> VectorXd solve(RowMajor A, VectorXd b) {
    DenseLu<double, Size>::factor(A.data(), A.rows());
    DenseLu<double, Size>::solve(A.data(), A.rows(), b.data());
    return b;
}

/** Matrices with a dominant diagonal, not symmetric, have small errors without pivoting. */
CLAIM(testSolutionAgreesWithDenseEigen) {
    Random random(1);
    for (int size : {1, 2, 3, 7, 20}) {
        const MatrixXd A = randomMatrix(random, size, size) + 3.0 * size * MatrixXd::Identity(size, size);
        const VectorXd b = randomVector(random, size), expected = solveDense(A, b);
        ASSERT((solve(A, b) - expected).norm() < 1e-13 * expected.norm());
        ASSERT(size != 3 || (solve<3>(A, b) - expected).norm() < 1e-13 * expected.norm());
    }
}

CHECK_CLAIMS
