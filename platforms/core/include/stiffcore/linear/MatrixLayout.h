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
    /// From this size on, a matrix is held sparse. Measured (Xeon 2.5 GHz, one thread, 20000 atoms in all), dense and
    /// sparse solve with M + c H1 in microseconds: united-atom alkane chains of 24 rows 7.2 and 4.8, 36 rows 17 and
    /// 7.6, 60 rows 41 and 13; all-atom alkanes of 24 rows 5.8 and 7.4, 33 rows 11 and 11, 42 rows 18 and 14, 60 rows
    /// 46 and 20. The projection's matrices break even at about the same sizes. Sparse matrices stay with their
    /// blocks, which takes more memory; at equal speed dense ones are the better choice.
    static constexpr int minSparseSize = 32;

    MatrixLayout(int size, const std::vector<std::pair<int, int>>& entries) : size(size) {
        if (size >= minSparseSize) {
            this->entries = entries;
            sparse = createSparse();
        }
    }
    int getSize() const {
        return size;
    }
    bool isSparse() const {
        return size >= minSparseSize;
    }
    /** A sparse solver of this layout, with the symbolic factorization done. */
    std::shared_ptr<SparseLdlt> createSparse() const {
        return std::make_shared<SparseLdlt>(size, entries);
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
    std::vector<std::pair<int, int>> entries;
    std::shared_ptr<SparseLdlt> sparse;
};

} // namespace stiffcore

#endif /* STIFFCORE_MATRIX_LAYOUT_H_ */
