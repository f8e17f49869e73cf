#ifndef STIFFCORE_DENSE_LU_H_
#define STIFFCORE_DENSE_LU_H_

namespace stiffcore {

/**
 * The factorization A = L U of a small matrix, without pivoting and without branches on values, in place: A is an n x n
 * row-major array, which is replaced by L below the diagonal, U above it and 1/U on it. It is for matrices that
 * are close to symmetric positive definite ones. What a vanishing pivot leads to is not finite, or far from a solution:
 * the caller looks at the result.
 *
 * Size is n if the compiler is to know it, or 0.
 */
template <class Real, int Size = 0> struct DenseLu {
    static void factor(Real* A, int size) {
        const int n = (Size > 0 ? Size : size);
        for (int k = 0; k < n; k++) {
            A[k * n + k] = 1 / A[k * n + k];
            for (int i = k + 1; i < n; i++) {
                const Real l = A[i * n + k] * A[k * n + k];
                A[i * n + k] = l;
                for (int j = k + 1; j < n; j++)
                    A[i * n + j] -= l * A[k * n + j];
            }
        }
    }

    /**
     * Solve A x = b with the factors.
     *
     * @param b   the right side, replaced by x
     */
    static void solve(const Real* factors, int size, Real* b) {
        const int n = (Size > 0 ? Size : size);
        for (int i = 1; i < n; i++)
            for (int k = 0; k < i; k++)
                b[i] -= factors[i * n + k] * b[k];
        for (int i = n - 1; i >= 0; i--) {
            for (int k = i + 1; k < n; k++)
                b[i] -= factors[i * n + k] * b[k];
            b[i] *= factors[i * n + i];
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_DENSE_LU_H_ */
