#ifndef STIFFCORE_BLOCKS_BLOCK_PATTERN_H_
#define STIFFCORE_BLOCKS_BLOCK_PATTERN_H_

#include "openmmstiff/internal/Blocks.h"
#include "../solve/SchurPattern.h"
#include "../terms/LocalFunction.h"
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace stiffcore {

using OpenMMStiff::StiffTerm;
using OpenMMStiff::StiffTerms;

/**
 * Where the 3x3 blocks of a term's Hessian go: for its atoms a >= b, [a(a+1)/2 + b][3 row + column].
 */
using HessianSlots = std::vector<std::array<int, 9>>;

/**
 * A stiff coordinate by the places of its particles in their block, with the slots of what it adds to the matrices.
 */
struct PatternTerm {
    StiffTerm::Coordinate coordinate;
    /// See StiffTerm.
    bool periodic, straight;
    /// The places of the term's particles in the block.
    std::array<int, 3> atoms;
    HessianSlots hessianSlots;

    int getNumAtoms() const {
        return coordinate == StiffTerm::Coordinate::Distance ? 2 : 3;
    }
};

/**
 * A row of the Jacobian G of the stiff coordinates. A term has one; a straight angle has two more, its bends in two
 * directions (see Bend), which take the place of the angle where that has no derivatives.
 */
struct PatternRow {
    int term;
    /// Which of the two; -1 for the coordinate of the term itself.
    int bend;
    /// Whether it belongs to the coordinates that are smooth at equilibrium: any but a straight angle itself.
    bool smooth;
};

/**
 * A function term by the places of its particles in their block, likewise.
 */
struct PatternFunction : LocalFunction {
    using LocalFunction::LocalFunction;
    HessianSlots hessianSlots;
};

/**
 * What all blocks of the same build (such as all water molecules) have in common.
 */
class BlockPattern {
public:
    BlockPattern(const Block& block, const StiffTerms& all)
            : numParticles(block.particles.size()), numMobile(block.numMobile), terms(localTerms(block, all)),
              functions(localFunctions(block, all)), rows(findRows()), hessian(3 * numMobile, hessianEntries()),
              schur(atomsOfRows(), numMobile) {
        for (PatternTerm& term : terms)
            term.hessianSlots = hessianSlots(&term.atoms[0], term.getNumAtoms());
        for (PatternFunction& term : functions)
            term.hessianSlots = hessianSlots(term.atoms.data(), term.atoms.size());
        for (int i = 0; i < 3 * numMobile; i++)
            diagonalSlots.push_back(hessian.slot(i, i));
    }

    /** Whether a block has this pattern. */
    bool matches(const Block& block, const StiffTerms& all) const {
        if ((int) block.particles.size() != numParticles || block.numMobile != numMobile ||
            block.terms.size() != terms.size() || block.functionTerms.size() != functions.size())
            return false;
        const std::vector<PatternTerm> otherTerms = localTerms(block, all);
        const std::vector<PatternFunction> otherFunctions = localFunctions(block, all);
        return std::equal(terms.begin(), terms.end(), otherTerms.begin(),
                          [](const auto& s, const auto& t) {
                              return s.coordinate == t.coordinate && s.periodic == t.periodic &&
                                     s.straight == t.straight && s.atoms == t.atoms;
                          }) &&
               std::equal(functions.begin(), functions.end(), otherFunctions.begin());
    }

    const PatternTerm& termOfRow(int p) const {
        return terms[rows[p].term];
    }

    int numParticles, numMobile;
    std::vector<PatternTerm> terms;
    std::vector<PatternFunction> functions;
    std::vector<PatternRow> rows;
    /// The matrix M + c H1, 3 numMobile rows, and where its diagonal is.
    MatrixLayout hessian;
    std::vector<int> diagonalSlots;
    /// The matrix G M^-1 G^T.
    SchurPattern schur;

private:
    static std::vector<PatternTerm> localTerms(const Block& block, const StiffTerms& all) {
        std::vector<PatternTerm> local;
        for (int t : block.terms) {
            const StiffTerm& term = all.coordinates[t];
            PatternTerm result = {term.coordinate, term.periodic, term.isStraight(), {-1, -1, -1}, {}};
            for (int a = 0; a < term.getNumParticles(); a++)
                result.atoms[a] = block.findPlace(term.particles[a]);
            local.push_back(result);
        }
        return local;
    }

    static std::vector<PatternFunction> localFunctions(const Block& block, const StiffTerms& all) {
        std::vector<PatternFunction> local;
        for (int t : block.functionTerms) {
            const FunctionTerm& term = all.functionTerms[t];
            local.emplace_back(term, term.getParticles(), block);
        }
        return local;
    }

    std::vector<std::pair<int, int>> hessianEntries() const {
        std::vector<std::pair<int, int>> entries;
        auto append = [&](const int* atoms, int count) {
            for (int a = 0; a < count; a++)
                for (int b = 0; b <= a; b++)
                    if (atoms[a] < numMobile && atoms[b] < numMobile)
                        for (int row = 0; row < 3; row++)
                            for (int column = 0; column < 3; column++)
                                entries.push_back({3 * atoms[a] + row, 3 * atoms[b] + column});
        };
        for (const PatternTerm& term : terms)
            append(&term.atoms[0], term.getNumAtoms());
        for (const PatternFunction& term : functions)
            append(term.atoms.data(), term.atoms.size());
        return entries;
    }

    HessianSlots hessianSlots(const int* atoms, int count) const {
        HessianSlots slots;
        for (int a = 0; a < count; a++)
            for (int b = 0; b <= a; b++) {
                slots.emplace_back();
                const bool fixed = atoms[a] >= numMobile || atoms[b] >= numMobile;
                for (int row = 0; row < 3; row++)
                    for (int column = 0; column < 3; column++) {
                        const bool repeated = (a == b && row < column);
                        slots.back()[3 * row + column] =
                                (fixed || repeated ? hessian.unusedSlot()
                                                   : hessian.slot(3 * atoms[a] + row, 3 * atoms[b] + column));
                    }
            }
        return slots;
    }

    std::vector<PatternRow> findRows() const {
        std::vector<PatternRow> found;
        for (int t = 0; t < (int) terms.size(); t++) {
            found.push_back({t, -1, !terms[t].straight});
            for (int bend = 0; bend < 2 && terms[t].straight; bend++)
                found.push_back({t, bend, true});
        }
        return found;
    }

    std::vector<std::vector<int>> atomsOfRows() const {
        std::vector<std::vector<int>> atoms;
        for (const PatternRow& row : rows) {
            const PatternTerm& term = terms[row.term];
            atoms.emplace_back(term.atoms.begin(), term.atoms.begin() + term.getNumAtoms());
        }
        return atoms;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_BLOCK_PATTERN_H_ */
