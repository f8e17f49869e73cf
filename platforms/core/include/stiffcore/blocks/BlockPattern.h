#ifndef STIFFCORE_BLOCKS_BLOCK_PATTERN_H_
#define STIFFCORE_BLOCKS_BLOCK_PATTERN_H_

#include "openmmstiff/internal/Blocks.h"
#include "../solve/SchurPattern.h"
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace stiffcore {

using OpenMMStiff::Block;
using OpenMMStiff::StiffTerm;

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
 * What all blocks of the same build (such as all water molecules) have in common.
 */
class BlockPattern {
public:
    BlockPattern(const Block& block, const std::vector<StiffTerm>& allTerms)
            : numParticles(block.particles.size()), numMobile(block.numMobile), terms(localTerms(block, allTerms)),
              hessian(3 * numMobile, hessianEntries()), schur(atomsOfTerms(), numMobile) {
        for (PatternTerm& term : terms)
            for (int a = 0; a < term.getNumAtoms(); a++)
                for (int b = 0; b <= a; b++)
                    for (int row = 0; row < 3; row++)
                        for (int column = 0; column < 3; column++)
                            term.hessianSlots[a * (a + 1) / 2 + b][3 * row + column] =
                                    hessianSlot(term, a, b, row, column);
        for (int i = 0; i < 3 * numMobile; i++)
            diagonalSlots.push_back(hessian.slot(i, i));
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
    /// The matrix M + c H1, 3 numMobile rows, and where its diagonal is.
    MatrixLayout hessian;
    std::vector<int> diagonalSlots;
    /// The matrix G M^-1 G^T, one row a term.
    SchurPattern schur;

private:
    static std::vector<PatternTerm> localTerms(const Block& block, const std::vector<StiffTerm>& allTerms) {
        std::vector<PatternTerm> local;
        for (int t : block.terms) {
            const StiffTerm& term = allTerms[t];
            PatternTerm result = {term.coordinate, term.periodic, {-1, -1, -1}, {}};
            for (int a = 0; a < term.getNumParticles(); a++)
                result.atoms[a] = block.findPlace(term.particles[a]);
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

    std::vector<std::vector<int>> atomsOfTerms() const {
        std::vector<std::vector<int>> atoms;
        for (const PatternTerm& term : terms)
            atoms.emplace_back(term.atoms.begin(), term.atoms.begin() + term.getNumAtoms());
        return atoms;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_BLOCK_PATTERN_H_ */
