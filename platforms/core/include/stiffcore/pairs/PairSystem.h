#ifndef STIFFCORE_PAIR_SYSTEM_H_
#define STIFFCORE_PAIR_SYSTEM_H_

#include "../Geometry.h"
#include "../Lanes.h"
#include "../solve/SchurPattern.h"
#include "../solve/SymmetricSolve.h"
#include "openmmstiff/internal/Blocks.h"
#include "openmmstiff/internal/PenalizedPairs.h"
#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

/**
 * Pairs of particles whose distances s_p carry an extra inertia kappa_p, or are constrained, which is an infinite one:
 * the extended system of methods with a mass penalty. Connected pairs form blocks; what the headers of this folder
 * compute, they compute for a batch of blocks of the same build, one in each lane of Real. Large blocks come one at a
 * time, with Real = double. Functions take the Workspace of the calling thread, and no memory.
 */
namespace stiffcore {

using OpenMMStiff::Block;
using OpenMMStiff::PenalizedPair;

/** A pair by the places of its particles in their block. */
struct PatternPair {
    std::array<int, 2> atoms;
    bool periodic, constrained;

    bool operator==(const PatternPair& other) const {
        return atoms == other.atoms && periodic == other.periodic && constrained == other.constrained;
    }
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

    /** Whether a block has this pattern. */
    bool matches(const Block& block, const std::vector<PenalizedPair>& allPairs) const {
        return (int) block.particles.size() == numParticles && block.numMobile == numMobile &&
               block.terms.size() == pairs.size() && localPairs(block, allPairs) == pairs;
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

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct PairBatch {
    static constexpr int numLanes = LaneTraits<Real>::count;
    const PairPattern* pattern;
    /// The number of blocks. Lanes beyond repeat the last one.
    int count;
    /// The particles of each block, and its pairs as they are numbered in the whole System.
    std::array<std::vector<int>, numLanes> particles, pairs;
    /// For each particle 1/m, 0 if it never moves [1/dalton].
    std::vector<Real> inverseMasses;
    /// For each pair 1/kappa, 0 if it is constrained [1/dalton]; and the length it is constrained to [nm].
    std::vector<Real> compliances, lengths;
    /// For each coupling of two pairs by an atom, 1/m with the sign of the product of their directions.
    std::vector<Real> couplings;
    /// The matrix A if it is large, and the positions at which it was factored last.
    std::unique_ptr<SparseMatrix<Real>> schur;
    std::unique_ptr<std::vector<Vector3<Real>>> factoredAt;

    int size() const {
        return pattern->pairs.size();
    }
};

/** The scratch memory of one thread: the state of a batch, and what is computed from it. */
template <class Real> struct PairWorkspace {
    using Vectors = std::vector<Vector3<Real>>;
    /// For each particle: positions, velocities, accelerations, random numbers, and positions where a solve starts.
    Vectors x, v, a, noise, start;
    /// For each pair: its direction, the one before a motion, and a sum of neighbours' directions.
    Vectors u, u0, y;
    /// For each pair: its length, the auxiliary coordinate z and its velocity w, noise, and Lagrange multipliers.
    std::vector<Real> r, z, w, pairNoise, multipliers, correction;
    /// Small matrices A, one that is not symmetric, and the inverse.
    std::vector<Real> matrix, newtonMatrix, inverse;

    Real* values(const PairBatch<Real>& batch) {
        return batch.schur ? batch.schur->values.data() : matrix.data();
    }
};

/** The batches of a System. Real has the lanes of small blocks. */
template <class Real> class PairSystem {
public:
    /// Small blocks, and large ones. (With a Real of one lane, both are of the same type.)
    std::vector<PairBatch<Real>> batches;
    std::vector<PairBatch<double>> largeBlocks;
    /// All pairs, of which some may be in no block: those without a mobile particle.
    int numPairs;

    PairSystem(const std::vector<Block>& blocks, const std::vector<PenalizedPair>& pairs,
               const std::vector<double>& masses)
            : numPairs(pairs.size()) {
        std::vector<std::vector<const Block*>> blocksOfPattern;
        for (const Block& block : blocks) {
            size_t i = 0;
            while (i < patterns.size() && !patterns[i]->matches(block, pairs))
                i++;
            if (i == patterns.size()) {
                patterns.push_back(std::make_unique<PairPattern>(block, pairs));
                blocksOfPattern.emplace_back();
            }
            blocksOfPattern[i].push_back(&block);
        }
        for (size_t i = 0; i < patterns.size(); i++) {
            const std::vector<const Block*>& same = blocksOfPattern[i];
            if (patterns[i]->schur.layout.isSparse())
                for (const Block* block : same)
                    largeBlocks.push_back(makeBatch<double>(*patterns[i], {block}, pairs, masses));
            else
                for (size_t first = 0; first < same.size(); first += LaneTraits<Real>::count) {
                    const size_t last = std::min(same.size(), first + LaneTraits<Real>::count);
                    batches.push_back(
                            makeBatch<Real>(*patterns[i], {same.begin() + first, same.begin() + last}, pairs, masses));
                }
        }
        std::sort(largeBlocks.begin(), largeBlocks.end(),
                  [](const auto& a, const auto& b) { return a.size() > b.size(); });
    }

    /** A workspace for the batches of one of the two types. */
    template <class Scalar> static PairWorkspace<Scalar> createWorkspace(const std::vector<PairBatch<Scalar>>& all) {
        size_t numParticles = 0, numRows = 0, numValues = 0;
        for (const auto& batch : all) {
            numParticles = std::max<size_t>(numParticles, batch.pattern->numParticles);
            numRows = std::max<size_t>(numRows, batch.size());
            if (!batch.schur)
                numValues = std::max<size_t>(numValues, batch.size() * batch.size());
        }
        PairWorkspace<Scalar> work;
        for (auto* vectors : {&work.x, &work.v, &work.a, &work.noise, &work.start})
            vectors->resize(numParticles);
        for (auto* vectors : {&work.u, &work.u0, &work.y})
            vectors->resize(numRows);
        for (auto* values : {&work.r, &work.z, &work.w, &work.pairNoise, &work.multipliers, &work.correction})
            values->resize(numRows);
        for (auto* values : {&work.matrix, &work.newtonMatrix, &work.inverse})
            values->resize(numValues);
        // The entries of the inverse of a large matrix are as many as its own.
        for (const auto& batch : all)
            if (batch.schur && batch.schur->values.size() > work.inverse.size())
                work.inverse.resize(batch.schur->values.size());
        return work;
    }

private:
    template <class Scalar>
    static PairBatch<Scalar> makeBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks,
                                       const std::vector<PenalizedPair>& pairs, const std::vector<double>& masses) {
        PairBatch<Scalar> batch = {};
        batch.pattern = &pattern;
        batch.count = blocks.size();
        batch.inverseMasses.assign(pattern.numParticles, 0);
        batch.compliances.resize(pattern.pairs.size());
        batch.lengths.resize(pattern.pairs.size());
        for (int lane = 0; lane < batch.numLanes; lane++) {
            const Block& block = *blocks[std::min(lane, batch.count - 1)];
            batch.particles[lane] = block.particles;
            batch.pairs[lane] = block.terms;
            for (int i = 0; i < pattern.numMobile; i++)
                LaneTraits<Scalar>::lane(batch.inverseMasses[i], lane) = 1 / masses[block.particles[i]];
            for (size_t p = 0; p < pattern.pairs.size(); p++) {
                const PenalizedPair& pair = pairs[block.terms[p]];
                LaneTraits<Scalar>::lane(batch.compliances[p], lane) = 1 / pair.inertia;
                LaneTraits<Scalar>::lane(batch.lengths[p], lane) = pair.distance;
            }
        }
        for (const Coupling& coupling : pattern.schur.couplings) {
            const Scalar inverseMass = batch.inverseMasses[pattern.pairs[coupling.p].atoms[coupling.a]];
            batch.couplings.push_back(coupling.a == coupling.b ? inverseMass : -inverseMass);
        }
        if constexpr (std::is_same_v<Scalar, double>)
            if (pattern.schur.layout.isSparse()) {
                batch.schur = std::make_unique<SparseMatrix<double>>(pattern.schur.layout);
                batch.factoredAt = std::make_unique<std::vector<Vector3<double>>>();
                batch.factoredAt->reserve(pattern.numParticles);
            }
        return batch;
    }

    std::vector<std::unique_ptr<PairPattern>> patterns;
};

/** Copy vectors of a batch's particles from an array of the whole System, indexed [3 particle + component]. */
template <class Real>
void gather(const PairBatch<Real>& batch, const double* array, std::vector<Vector3<Real>>& local) {
    for (int lane = 0; lane < batch.numLanes; lane++)
        for (int i = 0; i < batch.pattern->numParticles; i++)
            for (int j = 0; j < 3; j++)
                LaneTraits<Real>::lane(local[i][j], lane) = array[3 * batch.particles[lane][i] + j];
}

/** Copy vectors of a batch's mobile particles to an array of the whole System. */
template <class Real>
void scatter(const PairBatch<Real>& batch, const std::vector<Vector3<Real>>& local, double* array) {
    for (int lane = 0; lane < batch.count; lane++)
        for (int i = 0; i < batch.pattern->numMobile; i++)
            for (int j = 0; j < 3; j++)
                array[3 * batch.particles[lane][i] + j] = LaneTraits<Real>::lane(local[i][j], lane);
}

/** Copy numbers of a batch's pairs from an array of all pairs. */
template <class Real> void gatherPairs(const PairBatch<Real>& batch, const double* array, std::vector<Real>& local) {
    for (int lane = 0; lane < batch.numLanes; lane++)
        for (int p = 0; p < batch.size(); p++)
            LaneTraits<Real>::lane(local[p], lane) = array[batch.pairs[lane][p]];
}

} // namespace stiffcore

#endif /* STIFFCORE_PAIR_SYSTEM_H_ */
