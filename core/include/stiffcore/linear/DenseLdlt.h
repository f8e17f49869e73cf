#ifndef STIFFCORE_DENSE_LDLT_H_
#define STIFFCORE_DENSE_LDLT_H_

namespace stiffcore {

/**
 * The factorization A = L D L^T of a small symmetric positive definite matrix, without pivoting and without branches on
 * values, in place: A is given by the lower triangle of an n x n row-major array, which is replaced by L below the
 * diagonal and 1/D on it. A is positive definite if and only if all of D is positive.
 *
 * Size is n if the compiler is to know it, or 0. A factorization takes n^3/6 multiplications and n divisions.
 */
template <class Real, int Size = 0> struct DenseLdlt {
    using Mask = decltype(Real() > Real());

    /**
     * Factor the matrix.
     *
     * @return whether it is positive definite; false too if it contains NaN. If false, the factors mean nothing.
     */
    static Mask factor(Real* A, int size) {
        const int n = (Size > 0 ? Size : size);
        if (n == 0)
            return Mask(true);
        Mask positive = A[0] > Real(0);
        A[0] = 1 / A[0];
        for (int i = 1; i < n; i++) {
            // Row i of L: first (L D)_ij = A_ij - sum_k (L D)_ik L_jk, then divided by D.
            Real* row = A + i * n;
            for (int j = 1; j < i; j++) {
                Real sum = row[j];
                for (int k = 0; k < j; k++)
                    sum -= row[k] * A[j * n + k];
                row[j] = sum;
            }
            Real pivot = row[i];
            for (int j = 0; j < i; j++) {
                const Real l = row[j] * A[j * n + j];
                pivot -= l * row[j];
                row[j] = l;
            }
            positive = positive & (pivot > Real(0));
            row[i] = 1 / pivot;
        }
        return positive;
    }

    /**
     * Solve A x = b with the factors.
     *
     * @param b   the right side, replaced by x
     */
    static void solve(const Real* factors, int size, Real* b) {
        const int n = (Size > 0 ? Size : size);
        for (int i = 1; i < n; i++) {
            Real sum = b[i];
            for (int k = 0; k < i; k++)
                sum -= factors[i * n + k] * b[k];
            b[i] = sum;
        }
        for (int i = 0; i < n; i++)
            b[i] *= factors[i * n + i];
        for (int i = n - 1; i > 0; i--) {
            const Real x = b[i];
            for (int k = 0; k < i; k++)
                b[k] -= factors[i * n + k] * x;
        }
    }

    /**
     * Solve (L + S) x = b, or (L + S)^T x = b, with a diagonal S.
     *
     * @param b   the right side, replaced by x
     */
    static void solveLower(const Real* factors, const Real* S, int size, Real* b) {
        const int n = (Size > 0 ? Size : size);
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < i; k++)
                b[i] -= factors[i * n + k] * b[k];
            b[i] /= 1 + S[i];
        }
    }
    static void solveUpper(const Real* factors, const Real* S, int size, Real* b) {
        const int n = (Size > 0 ? Size : size);
        for (int i = n - 1; i >= 0; i--) {
            b[i] /= 1 + S[i];
            for (int k = 0; k < i; k++)
                b[k] -= factors[i * n + k] * b[i];
        }
    }

    /**
     * Compute A^-1 from the factors.
     *
     * @param inverse   an n x n row-major array, written in full
     */
    static void invert(const Real* factors, int size, Real* inverse) {
        const int n = (Size > 0 ? Size : size);
        for (int column = 0; column < n; column++) {
            // A column of A^-1 is a row too.
            Real* x = inverse + column * n;
            for (int i = 0; i < n; i++)
                x[i] = (i == column ? 1 : 0);
            solve(factors, size, x);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_DENSE_LDLT_H_ */
