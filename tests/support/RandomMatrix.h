#ifndef STIFF_TEST_RANDOM_MATRIX_H_
#define STIFF_TEST_RANDOM_MATRIX_H_

#include "DenseAlgebra.h"
#include "RandomGeometry.h"

namespace stifftest {

inline Eigen::MatrixXd randomMatrix(Random& random, int rows, int columns) {
    Eigen::MatrixXd matrix(rows, columns);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++)
            matrix(i, j) = random.gaussian();
    return matrix;
}

inline Eigen::VectorXd randomVector(Random& random, int size) {
    return randomMatrix(random, size, 1);
}

/** A symmetric matrix with given eigenvalues and random eigenvectors. */
inline Eigen::MatrixXd randomSymmetric(Random& random, const Eigen::VectorXd& eigenvalues) {
    const int n = eigenvalues.size();
    const Eigen::MatrixXd vectors = orthonormalized(randomMatrix(random, n, n));
    const Eigen::MatrixXd matrix = vectors * eigenvalues.asDiagonal() * vectors.transpose();
    return 0.5 * (matrix + matrix.transpose());
}

} // namespace stifftest

#endif /* STIFF_TEST_RANDOM_MATRIX_H_ */
