#ifndef STIFFCORE_SPARSE_LDLT_H_
#define STIFFCORE_SPARSE_LDLT_H_

#include <Eigen/OrderingMethods>
#include <Eigen/SparseCholesky>
#include <algorithm>
#include <utility>
#include <vector>

namespace stiffcore {

static_assert(EIGEN_WORLD_VERSION == 3 && EIGEN_MAJOR_VERSION == 4,
              "SparseLdlt uses protected members of the solvers of Eigen 3.4: look whether they are the same here");

/**
 * The factorization A = L D L^T of a large sparse symmetric positive definite matrix whose pattern never changes.
 * Rows and columns are put into a fill-reducing (approximate minimum degree) order once, in the constructor, together
 * with the symbolic factorization. The matrix is held in that order, which spares Eigen the permuted copy that it
 * would otherwise allocate in each factorization.
 */
class SparseLdlt {
public:
    /**
     * @param size      the number of rows
     * @param entries   the positions (i, j) that may be nonzero; either triangle, repetitions allowed. The diagonal
     *                  is always part of the pattern.
     */
    SparseLdlt(int size, const std::vector<std::pair<int, int>>& entries) : rhs(size) {
        std::vector<Eigen::Triplet<double>> symmetric;
        for (int i = 0; i < size; i++)
            symmetric.emplace_back(i, i, 1.0);
        for (const auto& [i, j] : entries)
            if (i != j) {
                symmetric.emplace_back(i, j, 1.0);
                symmetric.emplace_back(j, i, 1.0);
            }
        Matrix pattern(size, size);
        pattern.setFromTriplets(symmetric.begin(), symmetric.end());
        Eigen::PermutationMatrix<Eigen::Dynamic> order;
        Eigen::AMDOrdering<int>()(pattern, order);
        place.assign(size, 0);
        for (int i = 0; i < size; i++)
            place[order.indices()[i]] = i;
        std::vector<Eigen::Triplet<double>> upper;
        for (const auto& entry : symmetric) {
            const int row = place[entry.row()], column = place[entry.col()];
            if (row <= column)
                upper.emplace_back(row, column, 1.0);
        }
        matrix.resize(size, size);
        matrix.setFromTriplets(upper.begin(), upper.end());
        solver.analyze(matrix);
    }

    int getSize() const {
        return matrix.rows();
    }
    /**
     * Get where the value of entry (i, j) of the pattern stands among the values given to factor().
     */
    int slot(int i, int j) const {
        const int row = std::min(place[i], place[j]), column = std::max(place[i], place[j]);
        const int* first = matrix.innerIndexPtr() + matrix.outerIndexPtr()[column];
        const int* last = matrix.innerIndexPtr() + matrix.outerIndexPtr()[column + 1];
        return std::lower_bound(first, last, row) - matrix.innerIndexPtr();
    }
    int getNumValues() const {
        return matrix.nonZeros();
    }
    /**
     * Factor a matrix.
     *
     * @param values   the values of the pattern's entries, one triangle
     * @return whether it is positive definite; false too if it contains NaN
     */
    bool factor(const double* values) {
        std::copy(values, values + getNumValues(), matrix.valuePtr());
        solver.refactor(matrix);
        return solver.info() == Eigen::Success && (solver.pivots().array() > 0).all();
    }
    /**
     * Count the pivots above a threshold: for a positive semi-definite matrix, its numerical rank.
     */
    int countPivots(double threshold) const {
        return (solver.pivots().array() > threshold).count();
    }
    /** The pivot of the caller's row i. */
    double pivot(int i) const {
        return solver.pivots()[place[i]];
    }
    /** The logarithm of the determinant, from the factors of a positive definite matrix. */
    double logDeterminant() const {
        return solver.pivots().array().log().sum();
    }
    /**
     * Solve A x = b with the factors.
     *
     * @param b   the right side, replaced by x
     */
    void solve(double* b) {
        for (int i = 0; i < getSize(); i++)
            rhs[place[i]] = b[i];
        solver.matrixL().solveInPlace(rhs);
        rhs.array() /= solver.pivots().array();
        solver.matrixU().solveInPlace(rhs);
        for (int i = 0; i < getSize(); i++)
            b[i] = rhs[place[i]];
    }

    /**
     * Compute the entries of A^-1 on the pattern, from the factors, by Takahashi's recurrence (Takahashi, Fagan and
     * Chin 1973): with A = L D L^T and Z = A^-1,
     *
     *     Z_ij = delta_ij / D_j - sum_{k > j} Z_ik L_kj,    i >= j,
     *
     * from the last column to the first. An entry of Z that L has a place for takes only others of this kind. The cost
     * is about that of two factorizations; the first call takes memory.
     *
     * @param inverse   the entries, in the order of the values given to factor(); written
     */
    void invertOnPattern(double* inverse) {
        const Matrix& L = solver.lower();
        const int *begin = L.outerIndexPtr(), *row = L.innerIndexPtr();
        const double* l = L.valuePtr();
        const int n = getSize();
        inverseLower.resize(L.nonZeros());
        inverseDiagonal.resize(n);
        column.assign(n, 0);
        sum.assign(n, 0);
        for (int j = n - 1; j >= 0; j--) {
            const int first = begin[j], last = begin[j + 1];
            for (int p = first; p < last; p++)
                column[row[p]] = l[p];
            // sum_i = sum_k Z_ik L_kj, each entry of Z below the diagonal standing for two.
            for (int p = first; p < last; p++) {
                const int i = row[p];
                double s = inverseDiagonal[i] * l[p];
                for (int q = begin[i]; q < begin[i + 1]; q++) {
                    const int k = row[q];
                    s += inverseLower[q] * column[k];
                    sum[k] += inverseLower[q] * l[p];
                }
                sum[i] += s;
            }
            double diagonal = 1 / solver.pivots()[j];
            for (int p = first; p < last; p++) {
                inverseLower[p] = -sum[row[p]];
                diagonal -= inverseLower[p] * l[p];
            }
            inverseDiagonal[j] = diagonal;
            // Row i of L's pattern contains what was added to: every k > i of column i is in column j too, or got 0.
            for (int p = first; p < last; p++) {
                column[row[p]] = 0;
                sum[row[p]] = 0;
                for (int q = begin[row[p]]; q < begin[row[p] + 1]; q++)
                    sum[row[q]] = 0;
            }
        }
        // Row and column of the upper triangle that is held are column and row of the lower one.
        for (int j = 0; j < n; j++)
            for (int p = matrix.outerIndexPtr()[j]; p < matrix.outerIndexPtr()[j + 1]; p++) {
                const int i = matrix.innerIndexPtr()[p];
                if (i == j)
                    inverse[p] = inverseDiagonal[j];
                else {
                    const int* place = std::lower_bound(row + begin[i], row + begin[i + 1], j);
                    inverse[p] = inverseLower[place - row];
                }
            }
    }

private:
    using Matrix = Eigen::SparseMatrix<double>;
    /**
     * Eigen's solver without the memory that it takes in each call: factorize() for a matrix that it may not need,
     * and vectorD() for a copy of the pivots. (Left is scratch of 16 bytes a row, on the stack if that suffices.)
     */
    struct Solver : Eigen::SimplicialLDLT<Matrix, Eigen::Upper, Eigen::NaturalOrdering<int>> {
        void analyze(const Matrix& pattern) {
            analyzePattern(pattern);
            m_diag.setZero(pattern.rows());
        }
        void refactor(const Matrix& m) {
            this->template factorize_preordered<true>(m);
        }
        const Eigen::VectorXd& pivots() const {
            return m_diag;
        }
        const Matrix& lower() const {
            return m_matrix;
        }
    };
    /// Where row i of the caller stands in the fill-reducing order.
    std::vector<int> place;
    Matrix matrix;
    Eigen::VectorXd rhs;
    Solver solver;
    // For invertOnPattern(): A^-1 where L has entries, and a column of L and of the sums.
    std::vector<double> inverseLower, inverseDiagonal, column, sum;
};

} // namespace stiffcore

#endif /* STIFFCORE_SPARSE_LDLT_H_ */
