#include "DenseAlgebra.h"
#include <Eigen/Dense>

namespace stifftest {

Vector solveDense(const Matrix& A, const Vector& b) {
    return A.fullPivLu().solve(b);
}

Vector leastSquares(const Matrix& A, const Vector& b) {
    return A.colPivHouseholderQr().solve(b);
}

Matrix inverseOf(const Matrix& A) {
    return A.inverse();
}

Vector eigenvaluesOf(const Matrix& A) {
    return Eigen::SelfAdjointEigenSolver<Matrix>(A, Eigen::EigenvaluesOnly).eigenvalues();
}

Matrix choleskyFactor(const Matrix& A) {
    return A.llt().matrixL();
}

Matrix orthonormalized(const Matrix& A) {
    return A.householderQr().householderQ() * Matrix::Identity(A.rows(), A.cols());
}

Matrix kernelOf(const Matrix& A, double threshold) {
    Eigen::FullPivLU<Matrix> lu(A);
    return lu.setThreshold(threshold).kernel();
}

SingularValues::SingularValues(const Matrix& A) {
    const Eigen::JacobiSVD<Matrix> svd(A, Eigen::ComputeThinU | Eigen::ComputeThinV);
    values = svd.singularValues();
    V = svd.matrixV();
}

} // namespace stifftest
