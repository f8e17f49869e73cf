#ifndef STIFFCORE_BLOCKS_BLOCK_PATTERN_H_
#define STIFFCORE_BLOCKS_BLOCK_PATTERN_H_

#include "openmmstiff/internal/Blocks.h"
#include "../solve/SparseLdlt.h"
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace stiffcore {

using OpenMMStiff::Block;
using OpenMMStiff::StiffTerm;

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

/**
 * A stiff term by the places of its particles in their block, with the slots of what it adds to the block's matrices.
 */
struct PatternTerm {
    StiffTerm::Coordinate coordinate;
    bool periodic;
    /// The places of the term's particles in the block.
    std::array<int, 3> atoms;
    /// Where the 3x3 Hessian block of the term's atoms a >= b goes, [a(a+1)/2 + b][3 row + column].
    std::array<std::array<int, 9>, 6> hessianSlots;

    int getNumAtoms() const {
        return coordinate == StiffTerm::Coordinate::Distance ? 2 : 3;
    }
};

/**
 * Two terms p >= q that share a mobile atom, atom a of p and b of q: it contributes g_pa . g_qb / m to the
 * matrix G M^-1 G^T.
 */
struct Coupling {
    int slot, p, a, q, b;
};

/**
 * What all blocks of the same build (such as all water molecules) have in common.
 */
class BlockPattern {
public:
    BlockPattern(const Block& block, const std::vector<StiffTerm>& allTerms)
            : numParticles(block.particles.size()), numMobile(block.numMobile), terms(localTerms(block, allTerms)),
              hessian(3 * numMobile, hessianEntries()), schur(terms.size(), schurEntries()) {
        for (PatternTerm& term : terms)
            for (int a = 0; a < term.getNumAtoms(); a++)
                for (int b = 0; b <= a; b++)
                    for (int row = 0; row < 3; row++)
                        for (int column = 0; column < 3; column++)
                            term.hessianSlots[a * (a + 1) / 2 + b][3 * row + column] =
                                    hessianSlot(term, a, b, row, column);
        for (int i = 0; i < 3 * numMobile; i++)
            diagonalSlots.push_back(hessian.slot(i, i));
        forEachCoupling([&](int p, int a, int q, int b) {
            if (p != q)
                couplings.push_back({schur.slot(p, q), p, a, q, b});
        });
        for (int p = 0; p < (int) terms.size(); p++)
            schurDiagonalSlots.push_back(schur.slot(p, p));
    }

    /** Whether a block has this pattern. */
    bool matches(const Block& block, const std::vector<StiffTerm>& allTerms) const {
        if ((int) block.particles.size() != numParticles || block.numMobile != numMobile ||
            block.terms.size() != terms.size())
            return false;
        const std::vector<PatternTerm> others = localTerms(block, allTerms);
        return std::equal(terms.begin(), terms.end(), others.begin(), [](const auto& s, const auto& t) {
            return s.coordinate == t.coordinate && s.periodic == t.periodic && s.atoms == t.atoms;
        });
    }

    int numParticles, numMobile;
    std::vector<PatternTerm> terms;
    /// The matrix M + c H1, 3 numMobile rows, and the matrix G M^-1 G^T, one row a term.
    MatrixLayout hessian, schur;
    std::vector<int> diagonalSlots, schurDiagonalSlots;
    std::vector<Coupling> couplings;

private:
    static std::vector<PatternTerm> localTerms(const Block& block, const std::vector<StiffTerm>& allTerms) {
        const auto begin = block.particles.begin(), mobileEnd = begin + block.numMobile, end = block.particles.end();
        std::vector<PatternTerm> local;
        for (int t : block.terms) {
            const StiffTerm& term = allTerms[t];
            PatternTerm result = {term.coordinate, term.periodic, {-1, -1, -1}, {}};
            for (int a = 0; a < term.getNumParticles(); a++) {
                auto place = std::lower_bound(begin, mobileEnd, term.particles[a]);
                if (place == mobileEnd || *place != term.particles[a])
                    place = std::lower_bound(mobileEnd, end, term.particles[a]);
                result.atoms[a] = place - begin;
            }
            local.push_back(result);
        }
        return local;
    }

    std::vector<std::pair<int, int>> hessianEntries() const {
        std::vector<std::pair<int, int>> entries;
        for (const PatternTerm& term : terms)
            for (int a = 0; a < term.getNumAtoms(); a++)
                for (int b = 0; b <= a; b++)
                    if (term.atoms[a] < numMobile && term.atoms[b] < numMobile)
                        for (int row = 0; row < 3; row++)
                            for (int column = 0; column < 3; column++)
                                entries.push_back({3 * term.atoms[a] + row, 3 * term.atoms[b] + column});
        return entries;
    }

    int hessianSlot(const PatternTerm& term, int a, int b, int row, int column) const {
        const bool fixed = term.atoms[a] >= numMobile || term.atoms[b] >= numMobile;
        const bool repeated = (a == b && row < column);
        if (fixed || repeated)
            return hessian.unusedSlot();
        return hessian.slot(3 * term.atoms[a] + row, 3 * term.atoms[b] + column);
    }

    /** Call visit(p, a, q, b) for all terms p >= q that share a mobile atom, atom a of p and b of q. */
    template <class Visit> void forEachCoupling(Visit&& visit) const {
        std::vector<std::vector<std::pair<int, int>>> termsOfAtom(numMobile);
        for (int p = 0; p < (int) terms.size(); p++)
            for (int a = 0; a < terms[p].getNumAtoms(); a++)
                if (terms[p].atoms[a] < numMobile) {
                    termsOfAtom[terms[p].atoms[a]].push_back({p, a});
                    for (const auto& [q, b] : termsOfAtom[terms[p].atoms[a]])
                        visit(p, a, q, b);
                }
    }

    std::vector<std::pair<int, int>> schurEntries() const {
        std::vector<std::pair<int, int>> entries;
        forEachCoupling([&](int p, int, int q, int) { entries.push_back({p, q}); });
        return entries;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_BLOCK_PATTERN_H_ */
