#ifndef STIFFCORE_SCHUR_PATTERN_H_
#define STIFFCORE_SCHUR_PATTERN_H_

#include "MatrixLayout.h"
#include <utility>
#include <vector>

namespace stiffcore {

/**
 * Two rows p >= q of a Jacobian G that share a mobile atom, atom a of p and b of q: it contributes g_pa . g_qb / m to
 * the matrix G M^-1 G^T.
 */
struct Coupling {
    int slot, p, a, q, b;
};

/**
 * Where the entries of G M^-1 G^T come from and go to: the matrix that every method solves with which moves atoms along
 * the gradients of some coordinates. G has a row for each coordinate; it acts on a few atoms.
 */
struct SchurPattern {
    MatrixLayout layout;
    /// Where the diagonal is, and the pairs of different rows that share atoms.
    std::vector<int> diagonalSlots;
    std::vector<Coupling> couplings;

    /**
     * @param atoms       for each row, the atoms that it acts on
     * @param numMobile   atoms from this number on are fixed and contribute nothing
     */
    SchurPattern(const std::vector<std::vector<int>>& atoms, int numMobile)
            : layout(atoms.size(), findEntries(atoms, numMobile)) {
        forEachCoupling(atoms, numMobile, [&](int p, int a, int q, int b) {
            if (p != q)
                couplings.push_back({layout.slot(p, q), p, a, q, b});
        });
        for (int p = 0; p < (int) atoms.size(); p++)
            diagonalSlots.push_back(layout.slot(p, p));
    }

private:
    /** Call visit(p, a, q, b) for all rows p >= q that share a mobile atom, atom a of p and b of q. */
    template <class Visit>
    static void forEachCoupling(const std::vector<std::vector<int>>& atoms, int numMobile, Visit&& visit) {
        std::vector<std::vector<std::pair<int, int>>> rowsOfAtom(numMobile);
        for (int p = 0; p < (int) atoms.size(); p++)
            for (int a = 0; a < (int) atoms[p].size(); a++)
                if (atoms[p][a] < numMobile) {
                    rowsOfAtom[atoms[p][a]].push_back({p, a});
                    for (const auto& [q, b] : rowsOfAtom[atoms[p][a]])
                        visit(p, a, q, b);
                }
    }

    static std::vector<std::pair<int, int>> findEntries(const std::vector<std::vector<int>>& atoms, int numMobile) {
        std::vector<std::pair<int, int>> entries;
        forEachCoupling(atoms, numMobile, [&](int p, int, int q, int) { entries.push_back({p, q}); });
        return entries;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_SCHUR_PATTERN_H_ */
