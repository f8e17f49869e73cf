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
    /// From this size on, a matrix is held sparse. Measured (AMD EPYC at 4.2 GHz, one thread, SSE2), a factorization
    /// and a solve in microseconds, dense alone, dense with a molecule in each lane (for one of them), and sparse:
    /// Hessians of united-atom alkanes of 24 rows 1.6, 0.50, 0.61, of 30 rows 2.4, 0.85, 0.76; of all-atom alkanes of
    /// 24 rows 1.6, 0.49, 0.82, of 33 rows 3.0, 1.08, 1.27, of 42 rows 4.9, 2.1, 1.7; the pairs of the mass penalty of
    /// 21 rows 1.2, 0.34, 0.38, of 28 rows 2.1, 0.71, 0.55. Entries of the inverse are much cheaper sparse. Sparse
    /// matrices stay with their blocks, which takes more memory.
    static constexpr int minSparseSize = 24;

    MatrixLayout(int size, const std::vector<std::pair<int, int>>& entries) : size(size) {
        if (size >= minSparseSize)
            sparse = std::make_shared<SparseLdlt>(size, entries);
    }
    int getSize() const {
        return size;
    }
    bool isSparse() const {
        return size >= minSparseSize;
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
