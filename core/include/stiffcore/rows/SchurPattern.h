#ifndef STIFFCORE_ROWS_SCHUR_PATTERN_H_
#define STIFFCORE_ROWS_SCHUR_PATTERN_H_

#include "../linear/MatrixLayout.h"
#include <utility>
#include <vector>

namespace stiffcore {

/**
 * Two different rows p > q of a Jacobian G that share a mobile atom, atom a of p and b of q: it contributes
 * g_pa . g_qb / m to the matrix G M^-1 G^T. (Or a group of atoms whose masses are coupled.)
 */
struct Coupling {
    int p, a, q, b;
};

/**
 * Find the couplings of rows.
 *
 * @param numMobile   atoms from this number on are fixed and contribute nothing
 */
template <class RowType> std::vector<Coupling> findCouplings(const std::vector<RowType>& rows, int numMobile) {
    std::vector<Coupling> couplings;
    std::vector<std::vector<std::pair<int, int>>> rowsOfAtom(numMobile);
    for (int p = 0; p < (int) rows.size(); p++) {
        const std::vector<int>& atoms = rows[p].coupledBy();
        for (int a = 0; a < (int) atoms.size(); a++) {
            if (atoms[a] >= numMobile)
                continue;
            auto& others = rowsOfAtom[atoms[a]];
            for (const auto& [q, b] : others)
                if (p != q)
                    couplings.push_back({p, a, q, b});
            others.push_back({p, a});
        }
    }
    return couplings;
}

/**
 * Where the entries of the matrix G M^-1 G^T + D come from and go to, D diagonal: the matrix that every method solves
 * with which moves atoms along the gradients of some coordinates. For the three distances of a water, O-H1, O-H2 and
 * H1-H2, whose rows act on (O, H1), (O, H2) and (H1, H2),
 *
 *           O-H1   O-H2   H1-H2
 *     O-H1   d0     O      H1          d0, d1, d2: the diagonal
 *     O-H2   .      d1     H2          O, H1, H2: the atom by which two rows are coupled
 *     H1-H2  .      .      d2          .: by symmetry
 *
 * (see the reduced camera matrix of Ceres Solver for the same in another field).
 */
struct SchurPattern {
    std::vector<Coupling> couplings;
    MatrixLayout layout;
    /// Where the diagonal entries are among the values of the matrix, and where that of each coupling is.
    std::vector<int> diagonalSlots, slots;

    template <class RowType>
    SchurPattern(const std::vector<RowType>& rows, int numMobile, int numFirst, int leastSparse)
            : couplings(findCouplings(rows, numMobile)), layout(rows.size(), findEntries(), numFirst, leastSparse) {
        for (const Coupling& coupling : couplings)
            slots.push_back(layout.slot(coupling.p, coupling.q));
        for (size_t p = 0; p < rows.size(); p++)
            diagonalSlots.push_back(layout.slot(p, p));
    }

private:
    std::vector<std::pair<int, int>> findEntries() const {
        std::vector<std::pair<int, int>> entries;
        for (const Coupling& coupling : couplings)
            entries.push_back({coupling.p, coupling.q});
        return entries;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_ROWS_SCHUR_PATTERN_H_ */
