#ifndef STIFFCORE_PAIRS_PAIR_BATCH_H_
#define STIFFCORE_PAIRS_PAIR_BATCH_H_

#include "../batch/Batches.h"
#include "../model/PenalizedPair.h"
#include "../rows/Rows.h"
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

/**
 * Pairs of particles whose distances s_p carry an extra inertia kappa_p, or are constrained, which is an infinite one:
 * the extended system of methods with a mass penalty. Connected pairs form blocks.
 */
namespace stiffcore {

/** A pair by the places of its particles in their block. */
struct PatternPair : DistanceRow {
    bool periodic, constrained;
};

/** What all blocks of the same build have in common. */
struct PairPattern {
    int numParticles, numMobile;
    /// The rows of the matrix A = G M^-1 G^T + 1/kappa.
    RowPattern<PatternPair> rows;
    bool hasPenalized = false, hasConstrained = false, hasPeriodic = false;

    PairPattern(const Block& block, const std::vector<PenalizedPair>& allPairs)
            : numParticles(block.particles.size()), numMobile(block.numMobile),
              rows(localPairs(block, allPairs), numMobile) {
        for (const PatternPair& pair : rows.rows) {
            hasPenalized |= !pair.constrained;
            hasConstrained |= pair.constrained;
            hasPeriodic |= pair.periodic;
        }
    }

    bool isLarge() const {
        return rows.isLarge();
    }

    static std::vector<std::string> describeShared(const std::vector<PenalizedPair>&) {
        return {};
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
            const int p = local.size();
            local.push_back({{{block.findPlace(pair.particle1), block.findPlace(pair.particle2)}, p},
                             pair.periodic,
                             pair.isConstrained()});
        }
        return local;
    }
};

template <class Real> struct PairWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct PairBatch : RowBatch<Real, PatternPair> {
    using Pattern = PairPattern;
    using Terms = std::vector<PenalizedPair>;
    using Workspace = PairWorkspace<Real>;
    const PairPattern* pattern;
    /// For each pair 1/kappa, 0 if it is constrained [1/dalton]; and the length it is constrained to [nm].
    std::vector<Real> inverseInertias, lengths;
    /// D, which is 1/kappa or, for a constraint, the regularization; and the diagonal of G M^-1 G^T [1/dalton].
    std::vector<Real> added, inverseReducedMasses;
    /// The positions at which a large matrix was factored last.
    std::unique_ptr<std::vector<Vector3<double>>> factoredAt;

    PairBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks,
              const std::vector<PenalizedPair>& pairs, const std::vector<double>& masses)
            : RowBatch<Real, PatternPair>(pattern, pattern.rows, blocks, masses), pattern(&pattern) {
        for (auto* numbers : {&inverseInertias, &lengths})
            numbers->resize(this->numRows());
        if (this->sparse) {
            factoredAt = std::make_unique<std::vector<Vector3<double>>>();
            factoredAt->reserve(pattern.numParticles);
        }
        setParameters(pairs);
    }

    void setParameters(const std::vector<PenalizedPair>& pairs) {
        for (int p = 0; p < this->numRows(); p++) {
            for (int lane = 0; lane < this->numLanes; lane++) {
                const PenalizedPair& pair = pairs[this->terms[lane][p]];
                LaneTraits<Real>::lane(inverseInertias[p], lane) = 1 / pair.inertia;
                LaneTraits<Real>::lane(lengths[p], lane) = pair.distance;
            }
        }
        derive();
        if (factoredAt)
            factoredAt->clear();
    }

    /** Call visit with each number in which blocks of the same build may differ. Those that follow are derive()d. */
    template <class Visit> void visitParameters(Visit&& visit) {
        for (int i = 0; i < this->numMobile; i++)
            visit(this->inverseMasses[i]);
        for (int p = 0; p < this->numRows(); p++)
            visit(this->row(p).constrained ? lengths[p] : inverseInertias[p]);
    }
    void derive() {
        this->deriveCouplings();
        inverseReducedMasses.clear();
        added.clear();
        for (int p = 0; p < this->numRows(); p++) {
            const PatternPair& pair = this->row(p);
            inverseReducedMasses.push_back(this->inverseMasses[pair.atoms[0]] + this->inverseMasses[pair.atoms[1]]);
            added.push_back(pair.constrained ? Real(getRowRegularization<Real>() * inverseReducedMasses[p])
                                             : inverseInertias[p]);
        }
    }
};

/** The scratch memory of one thread. */
template <class Real> struct PairWorkspace : RowWorkspace<Real> {
    /// For each particle: random numbers, and positions where a solve starts [nm].
    Vectors3<Real> noise, start;
    /// For each pair: its direction before a motion (after it, it is its gradient), and a sum of neighbours'
    /// directions.
    Vectors3<Real> gradientsBefore, y;
    /// For each pair: its length [nm], the auxiliary coordinate z [nm] and its velocity w [nm/ps], the noise of that,
    /// and a correction of the multipliers.
    std::vector<Real> r, z, w, pairNoise, correction;
    /// A small matrix that is not symmetric, and the inverse of A.
    std::vector<Real> newtonMatrix, inverse;

    PairWorkspace(const std::vector<PairBatch<Real>>& all, const std::vector<PenalizedPair>&)
            : RowWorkspace<Real>(all) {
        for (auto* vectors : {&noise, &start})
            vectors->resize(this->x.size());
        for (auto* vectors : {&gradientsBefore, &y})
            vectors->resize(this->numRows);
        for (auto* values : {&r, &z, &w, &pairNoise, &correction})
            values->resize(this->numRows);
        for (auto* values : {&newtonMatrix, &inverse})
            values->resize(this->numValues);
        // The entries of the inverse of a large matrix are as many as its own.
        for (const auto& batch : all)
            if (batch.sparse && batch.sparse->values.size() > inverse.size())
                inverse.resize(batch.sparse->values.size());
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_PAIR_BATCH_H_ */
