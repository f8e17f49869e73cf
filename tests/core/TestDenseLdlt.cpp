/**
 * The dense solver against Eigen's, which pivots.
 */

#include "CoreTest.h"
#include "stiffcore/linear/DenseLdlt.h"

const double roundoff = 0x1p-53;

/** The lower triangle, as the solver takes it. What is above the diagonal must not matter: it is NaN. */
std::vector<double> lowerTriangle(const MatrixXd& matrix) {
    const int n = matrix.rows();
    std::vector<double> values(n * n, NAN);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            values[i * n + j] = matrix(i, j);
    return values;
}

template <int Size> bool factor(const MatrixXd& matrix) {
    std::vector<double> values = lowerTriangle(matrix);
    return DenseLdlt<double, Size>::factor(values.data(), matrix.rows());
}

/** Whether a matrix has factors; where the compiler knows its size, it has to say the same. */
bool isDefinite(const MatrixXd& matrix) {
    const bool definite = factor<0>(matrix);
    ASSERT(matrix.rows() != 3 || factor<3>(matrix) == definite);
    ASSERT(matrix.rows() != 9 || factor<9>(matrix) == definite);
    return definite;
}

template <int Size = 0> VectorXd solve(const MatrixXd& matrix, const VectorXd& b) {
    std::vector<double> values = lowerTriangle(matrix);
    ASSERT((DenseLdlt<double, Size>::factor(values.data(), matrix.rows())));
    VectorXd x = b;
    DenseLdlt<double, Size>::solve(values.data(), matrix.rows(), x.data());
    return x;
}

/** Positive eigenvalues whose quotients are at most `condition`. */
VectorXd positiveSpectrum(Random& random, int size, double condition) {
    VectorXd eigenvalues(size);
    for (int i = 0; i < size; i++)
        eigenvalues[i] = std::pow(condition, random.uniform(-1, 0));
    return eigenvalues;
}

CLAIM(testSolutionAgreesWithEigen) {
    // Cholesky's method is backward stable: the error is at most n^2 roundoff times the condition number (Higham,
    // Accuracy and Stability of Numerical Algorithms, section 10.1), and about as much for Eigen.
    Random random(1);
    for (int size = 1; size <= 60; size++)
        for (double condition : {1.0, 1e3, 1e6}) {
            const MatrixXd A = randomSymmetric(random, positiveSpectrum(random, size, condition));
            const VectorXd b = randomVector(random, size), expected = solveDense(A, b);
            vector<VectorXd> solutions = {solve(A, b)};
            if (size == 3)
                solutions.push_back(solve<3>(A, b));
            if (size == 9)
                solutions.push_back(solve<9>(A, b));
            for (const VectorXd& x : solutions) {
                ASSERT((x - expected).norm() <= 2 * (size * size + 4) * roundoff * condition * expected.norm());
                ASSERT((A * x - b).norm() <= 2 * (size * size + 4) * roundoff * A.norm() * x.norm());
            }
        }
}

CLAIM(testDefinitenessIsThatOfTheEigenvalues) {
    // Signs are decided right if the least eigenvalue is not lost in roundings; here it is 1e-9 at least, in
    // absolute value.
    Random random(4);
    int numDefinite = 0;
    for (int i = 0; i < 2000; i++) {
        const int size = 1 + i % 20;
        VectorXd eigenvalues = positiveSpectrum(random, size, 1e3);
        const int numNegative = (i % 3 == 0 ? 1 : i % 3 == 1 ? random.integer(size + 1) : 0);
        for (int j = 0; j < numNegative; j++)
            eigenvalues[j] *= -std::pow(10, random.uniform(-6, 0));
        const MatrixXd A = randomSymmetric(random, eigenvalues);
        ASSERT_EQUAL(numNegative == 0, eigenvaluesOf(A)[0] > 0);
        ASSERT_EQUAL(numNegative == 0, isDefinite(A));
        numDefinite += (numNegative == 0);
    }
    ASSERT(numDefinite > 500 && numDefinite < 1500);
}

CLAIM(testSingularMatrixIsNotDefinite) {
    // Numbers that are exact in binary, so that the pivot is exactly zero.
    ASSERT(!isDefinite(MatrixXd::Zero(1, 1)) && !isDefinite(MatrixXd::Zero(9, 9)));
    ASSERT(!isDefinite(Eigen::Matrix2d{{4, 2}, {2, 1}}));
    ASSERT(!isDefinite(Eigen::Matrix2d{{0, 1}, {1, 0}}));
    ASSERT(!isDefinite(Eigen::Matrix2d{{1, 1}, {1, 0}}));
    ASSERT(!isDefinite(Eigen::Matrix3d{{4, 2, 8}, {2, 2, 6}, {8, 6, 20}})); // rank 2
}

CLAIM(testNotANumberIsNotDefinite) {
    Random random(5);
    for (int size : {1, 2, 3, 9, 20}) {
        const MatrixXd A = randomSymmetric(random, positiveSpectrum(random, size, 10));
        for (int i = 0; i < size; i++)
            for (int j = 0; j <= i; j++) {
                MatrixXd bad = A;
                bad(i, j) = NAN;
                ASSERT(!isDefinite(bad));
            }
    }
}

CHECK_CLAIMS
