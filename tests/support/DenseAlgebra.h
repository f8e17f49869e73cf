#ifndef STIFF_TEST_DENSE_ALGEBRA_H_
#define STIFF_TEST_DENSE_ALGEBRA_H_

#include <Eigen/Core>

/** What tests compare with: Eigen's factors of dense matrices, which take long to compile, and are compiled once. */
namespace stifftest {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/** x of A x = b, by complete pivoting. */
Vector solveDense(const Matrix& A, const Vector& b);
/** x of the least |A x - b|. */
Vector leastSquares(const Matrix& A, const Vector& b);
Matrix inverseOf(const Matrix& A);
/** Those of a symmetric matrix, the least one first. */
Vector eigenvaluesOf(const Matrix& A);
/** The lower triangular L of A = L L^T. */
Matrix choleskyFactor(const Matrix& A);
/** An orthonormal basis of the columns of A, which are independent. */
Matrix orthonormalized(const Matrix& A);
/** A basis of the vectors that A makes zero, or less than a threshold of the largest. */
Matrix kernelOf(const Matrix& A, double threshold);

/** A = U S V^T. */
struct SingularValues {
    Vector values;
    Matrix V;

    explicit SingularValues(const Matrix& A);
};

} // namespace stifftest

#endif /* STIFF_TEST_DENSE_ALGEBRA_H_ */
