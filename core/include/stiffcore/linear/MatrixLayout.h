#ifndef STIFFCORE_MATRIX_LAYOUT_H_
#define STIFFCORE_MATRIX_LAYOUT_H_

#include "SparseLdlt.h"
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace stiffcore {

/**
 * How a symmetric matrix is stored, dense or sparse: where each of its entries stands in an array of values. Assembly
 * writes through such slots and need not know which of the two it is.
 */
class MatrixLayout {
public:
    /// From this size on, a matrix is held sparse. Measured (AMD EPYC at 4.2 GHz, one thread), a factorization and a
    /// solve for a molecule in microseconds, dense with one in each lane and sparse: with SSE2, Hessians of united-atom
    /// alkanes of 24 rows 0.49 and 0.63, of 30 rows 0.88 and 0.80; of all-atom alkanes of 33 rows 1.1 and 1.3, of 42
    /// rows 2.1 and 1.8; pairs of the mass penalty of 21 rows 0.34 and 0.39, of 28 rows 0.73 and 0.58. With AVX2 they
    /// break even at 36 and 46 rows and, for pairs, at 32. A molecule alone in its lanes is better off sparse from 10
    /// rows on, and so are inverses, but sparse matrices stay with their blocks, which takes more memory,
    /// and lengths are solved for less exactly than with small ones: alone they are sparse from 16 rows on.
    static constexpr int minSparseSize = 32, minSparseAlone = 16, fewBlocks = 2;

    /** From which size on the matrices of so many equal blocks are sparse. */
    static int findLeastSparse(int numBlocks) {
        return numBlocks > fewBlocks ? minSparseSize : minSparseAlone;
    }

    /** @param numFirst   rows below this number come before all others in the order of elimination */
    MatrixLayout(int size, const std::vector<std::pair<int, int>>& entries, int numFirst = 0,
                 int leastSparse = minSparseSize)
            : size(size) {
        if (size >= leastSparse)
            sparse = std::make_shared<SparseLdlt>(size, entries, numFirst);
    }
    int getSize() const {
        return size;
    }
    bool isSparse() const {
        return sparse != nullptr;
    }
    /** A sparse solver of this layout, with the symbolic factorization done. */
    std::shared_ptr<SparseLdlt> createSparse() const {
        return std::make_shared<SparseLdlt>(*sparse);
    }
    /** The number of values; one more follows them, for writes that do not count. */
    int getNumValues() const {
        return isSparse() ? sparse->getNumValues() : size * size;
    }
    int slot(int i, int j) const {
        return isSparse() ? sparse->slot(i, j) : std::max(i, j) * size + std::min(i, j);
    }
    int unusedSlot() const {
        return getNumValues();
    }

private:
    int size;
    std::shared_ptr<const SparseLdlt> sparse;
};

} // namespace stiffcore

#endif /* STIFFCORE_MATRIX_LAYOUT_H_ */
