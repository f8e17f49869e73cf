#ifndef STIFFCORE_PAIR_SYSTEM_H_
#define STIFFCORE_PAIR_SYSTEM_H_

#include "../Batches.h"
#include "openmmstiff/internal/PenalizedPairs.h"
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

/**
 * Pairs of particles whose distances s_p carry an extra inertia kappa_p, or are constrained, which is an infinite one:
 * the extended system of methods with a mass penalty. Connected pairs form blocks; what the headers of this folder
 * compute, they compute for a batch of blocks of the same build, one in each lane of Real. Large blocks come one at a
 * time, with Real = double. Functions take the Workspace of the calling thread, and no memory.
 */
namespace stiffcore {

using OpenMMStiff::PenalizedPair;

/** A pair by the places of its particles in their block. */
struct PatternPair {
    std::array<int, 2> atoms;
    bool periodic, constrained;
};

/** What all blocks of the same build have in common. */
struct PairPattern {
    int numParticles, numMobile;
    std::vector<PatternPair> pairs;
    bool hasPenalized, hasConstrained, hasPeriodic;
    /// The matrix A = G M^-1 G^T + 1/kappa, one row a pair.
    SchurPattern schur;

    PairPattern(const Block& block, const std::vector<PenalizedPair>& allPairs)
            : numParticles(block.particles.size()), numMobile(block.numMobile), pairs(localPairs(block, allPairs)),
              hasPenalized(false), hasConstrained(false), hasPeriodic(false), schur(atomsOfPairs(), numMobile) {
        for (const PatternPair& pair : pairs) {
            hasPenalized |= !pair.constrained;
            hasConstrained |= pair.constrained;
            hasPeriodic |= pair.periodic;
        }
    }

    /** The build of a block. */
    static std::vector<int> describe(const Block& block, const std::vector<PenalizedPair>& allPairs) {
        std::vector<int> build = {(int) block.particles.size(), block.numMobile};
        for (const PatternPair& pair : localPairs(block, allPairs))
            build.insert(build.end(), {pair.atoms[0], pair.atoms[1], pair.periodic, pair.constrained});
        return build;
    }

private:
    static std::vector<PatternPair> localPairs(const Block& block, const std::vector<PenalizedPair>& allPairs) {
        std::vector<PatternPair> local;
        for (int t : block.terms) {
            const PenalizedPair& pair = allPairs[t];
            local.push_back({{block.findPlace(pair.particle1), block.findPlace(pair.particle2)},
                             pair.periodic,
                             pair.isConstrained()});
        }
        return local;
    }

    std::vector<std::vector<int>> atomsOfPairs() const {
        std::vector<std::vector<int>> atoms;
        for (const PatternPair& pair : pairs)
            atoms.emplace_back(pair.atoms.begin(), pair.atoms.end());
        return atoms;
    }
};

template <class Real> struct PairWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct PairBatch : BlockBatch<Real> {
    using Pattern = PairPattern;
    using Terms = std::vector<PenalizedPair>;
    using Workspace = PairWorkspace<Real>;
    const PairPattern* pattern;
    /// For each pair 1/kappa, 0 if it is constrained [1/dalton]; and the length it is constrained to [nm].
    std::vector<Real> compliances, lengths;
    /// For each coupling of two pairs by an atom, 1/m with the sign of the product of their directions.
    std::vector<Real> couplings;
    /// The positions at which a large matrix was factored last.
    std::unique_ptr<std::vector<Vector3<double>>> factoredAt;

    PairBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks,
              const std::vector<PenalizedPair>& pairs, const std::vector<double>& masses)
            : BlockBatch<Real>(pattern, blocks, masses), pattern(&pattern), compliances(pattern.pairs.size()),
              lengths(pattern.pairs.size()) {
        for (int lane = 0; lane < this->numLanes; lane++)
            for (int p = 0; p < this->size(); p++) {
                const PenalizedPair& pair = pairs[this->terms[lane][p]];
                LaneTraits<Real>::lane(compliances[p], lane) = 1 / pair.inertia;
                LaneTraits<Real>::lane(lengths[p], lane) = pair.distance;
            }
        for (const Coupling& coupling : pattern.schur.couplings) {
            const Real inverseMass = this->inverseMasses[pattern.pairs[coupling.p].atoms[coupling.a]];
            couplings.push_back(coupling.a == coupling.b ? inverseMass : -inverseMass);
        }
        if (this->schur) {
            factoredAt = std::make_unique<std::vector<Vector3<double>>>();
            factoredAt->reserve(pattern.numParticles);
        }
    }
};

/** The scratch memory of one thread: the state of a batch, and what is computed from it. */
template <class Real> struct PairWorkspace : BatchWorkspace<Real> {
    using Vectors = std::vector<Vector3<Real>>;
    /// For each particle: random numbers, and positions where a solve starts.
    Vectors noise, start;
    /// For each pair: its direction, the one before a motion, and a sum of neighbours' directions.
    Vectors u, u0, y;
    /// For each pair: its length, the auxiliary coordinate z and its velocity w, noise, and Lagrange multipliers.
    std::vector<Real> r, z, w, pairNoise, multipliers, correction;
    /// A small matrix that is not symmetric, and the inverse of A.
    std::vector<Real> newtonMatrix, inverse;

    PairWorkspace(const std::vector<PairBatch<Real>>& all, const std::vector<PenalizedPair>&)
            : BatchWorkspace<Real>(all) {
        for (auto* vectors : {&noise, &start})
            vectors->resize(this->x.size());
        for (auto* vectors : {&u, &u0, &y})
            vectors->resize(this->numRows);
        for (auto* values : {&r, &z, &w, &pairNoise, &multipliers, &correction})
            values->resize(this->numRows);
        for (auto* values : {&newtonMatrix, &inverse})
            values->resize(this->numValues);
        // The entries of the inverse of a large matrix are as many as its own.
        for (const auto& batch : all)
            if (batch.schur && batch.schur->values.size() > inverse.size())
                inverse.resize(batch.schur->values.size());
    }
};

template <class Real> using PairSystem = BatchSystem<PairBatch, Real>;

} // namespace stiffcore

#endif /* STIFFCORE_PAIR_SYSTEM_H_ */
