#ifndef STIFFCORE_SYMMETRIC_SOLVE_H_
#define STIFFCORE_SYMMETRIC_SOLVE_H_

#include "../batch/Lanes.h"
#include "DenseLdlt.h"
#include "MatrixLayout.h"
#include <cmath>
#include <memory>
#include <type_traits>
#include <vector>

/**
 * Solves with a symmetric positive definite matrix of either MatrixLayout.
 */
namespace stiffcore {

/** A large matrix of one block, with its solver. Only double has large matrices. */
template <class Real> struct SparseMatrix {
    std::vector<Real> values;
    std::shared_ptr<SparseLdlt> solver;
    explicit SparseMatrix(const MatrixLayout& layout)
            : values(layout.getNumValues() + 1), solver(layout.createSparse()) {
    }
};

/** Call solve with the solver of small matrices of a size. Water's are known to the compiler. */
template <class Real, class Solve> auto callDense(int size, Solve&& solve) {
    switch (size) {
    case 3:
        return solve(DenseLdlt<Real, 3>());
    case 9:
        return solve(DenseLdlt<Real, 9>());
    default:
        return solve(DenseLdlt<Real>());
    }
}

/**
 * Factor an assembled matrix in place.
 *
 * @param sparse   the large matrix that the values are those of, or null if it is small
 * @return whether it is positive definite
 */
template <class Real>
MaskOf<Real> factorMatrix([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, Real* values) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return sparse->solver->factor(values);
    return callDense<Real>(size, [&](auto dense) { return dense.factor(values, size); });
}

/** Solve with a factored matrix, in place. */
template <class Real>
void solveMatrix([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, const Real* values, Real* rhs) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return sparse->solver->solve(rhs);
    callDense<Real>(size, [&](auto dense) { dense.solve(values, size, rhs); });
}

/**
 * Solve (L + S) x = b, or (L + S)^T x = b, with the triangular factor L and a diagonal S, in place.
 */
template <class Real>
void solveLower([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, const Real* values, const Real* S,
                Real* b) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return sparse->solver->solveLower(S, b);
    DenseLdlt<Real>::solveLower(values, S, size, b);
}
template <class Real>
void solveUpper([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, const Real* values, const Real* S,
                Real* b) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return sparse->solver->solveUpper(S, b);
    DenseLdlt<Real>::solveUpper(values, S, size, b);
}
/** The inverse 1/D of a pivot of a factored matrix. */
template <class Real>
Real getInversePivot([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, const Real* values, int row) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return 1 / sparse->solver->pivot(row);
    return values[row * size + row];
}

/**
 * Compute the inverse of a factored matrix: the entries that its layout has a slot for.
 *
 * @param inverse   as many values as the matrix has, written
 */
template <class Real>
void invertMatrix([[maybe_unused]] const SparseMatrix<Real>* sparse, int size, const Real* values, Real* inverse) {
    if constexpr (std::is_same_v<Real, double>)
        if (sparse != nullptr)
            return sparse->solver->invertOnPattern(inverse);
    DenseLdlt<Real>::invert(values, size, inverse);
}

} // namespace stiffcore

#endif /* STIFFCORE_SYMMETRIC_SOLVE_H_ */
