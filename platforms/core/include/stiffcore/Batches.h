#ifndef STIFFCORE_BATCHES_H_
#define STIFFCORE_BATCHES_H_

#include "Geometry.h"
#include "Lanes.h"
#include "solve/SchurPattern.h"
#include "solve/SymmetricSolve.h"
#include "openmmstiff/internal/Blocks.h"
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

/**
 * Blocks of the same build (such as all water molecules) side by side, one in each lane of Real, for methods whose
 * terms are rows of a Jacobian G and that solve with G M^-1 G^T. Large blocks come one at a time, with Real = double.
 */
namespace stiffcore {

using OpenMMStiff::Block;

/**
 * What batches have in common whatever their terms are. A kind of batch is a template Batch<Real> derived from it, with
 *
 *     Pattern, Terms, Workspace         types: what blocks of the same build share (with numParticles, numMobile and
 *                                       schur; describe(block, terms) are numbers that tell builds apart), what
 *                                       describes the terms of a System, and the scratch memory of a thread, made
 *                                       from (batches, terms)
 *     const Pattern* pattern
 *     Batch(pattern, blocks, terms, masses)
 */
template <class Real> struct BlockBatch {
    static constexpr int numLanes = LaneTraits<Real>::count;
    /// The number of blocks. Lanes beyond repeat the last one.
    int count;
    /// How many particles of a block are mobile; they come first.
    int numMobile;
    /// The particles of each block, and its terms as they are numbered in the whole System.
    std::array<std::vector<int>, numLanes> particles, terms;
    /// For each particle 1/m, 0 if it never moves [1/dalton].
    std::vector<Real> inverseMasses;
    /// The matrix if it is large. Small ones are a thread's.
    std::unique_ptr<SparseMatrix<Real>> schur;

    template <class Pattern>
    BlockBatch(const Pattern& pattern, const std::vector<const Block*>& blocks, const std::vector<double>& masses)
            : count(blocks.size()), numMobile(pattern.numMobile), inverseMasses(pattern.numParticles, Real(0)) {
        for (int lane = 0; lane < numLanes; lane++) {
            const Block& block = *blocks[std::min(lane, count - 1)];
            particles[lane] = block.particles;
            terms[lane] = block.terms;
            for (int i = 0; i < numMobile; i++)
                LaneTraits<Real>::lane(inverseMasses[i], lane) = 1 / masses[block.particles[i]];
        }
        if constexpr (std::is_same_v<Real, double>)
            if (pattern.schur.layout.isSparse())
                schur = std::make_unique<SparseMatrix<double>>(pattern.schur.layout);
    }

    /** The number of terms of a block: rows of its Jacobian. */
    int size() const {
        return terms[0].size();
    }
};

/** The scratch memory of a thread that all kinds of batches have. */
template <class Real> struct BatchWorkspace {
    /// For each particle: positions, velocities and accelerations.
    std::vector<Vector3<Real>> x, v, a;
    /// A small matrix.
    std::vector<Real> matrix;

    /** The values of the matrix of a batch, small or large. */
    Real* matrixValues(const BlockBatch<Real>& batch) {
        return batch.schur ? batch.schur->values.data() : matrix.data();
    }

protected:
    /// The most terms that a block has, and the values of the largest small matrix.
    size_t numRows = 0, numValues = 0;

    template <class Batches> explicit BatchWorkspace(const Batches& all) {
        size_t numParticles = 0;
        for (const auto& batch : all) {
            numParticles = std::max(numParticles, batch.inverseMasses.size());
            numRows = std::max<size_t>(numRows, batch.size());
            if (!batch.schur)
                numValues = std::max<size_t>(numValues, batch.size() * batch.size());
        }
        for (auto* vectors : {&x, &v, &a})
            vectors->resize(numParticles);
        matrix.resize(numValues);
    }
};

/** The batches of a System. Real has the lanes of small blocks. */
template <template <class> class Batch, class Real> class BatchSystem {
public:
    using Terms = typename Batch<Real>::Terms;
    /// Small blocks, and large ones. (With a Real of one lane, both are of the same type.)
    std::vector<Batch<Real>> batches;
    std::vector<Batch<double>> largeBlocks;

    BatchSystem(const std::vector<Block>& blocks, const Terms& terms, const std::vector<double>& masses) {
        std::map<std::vector<int>, int> patternOfBuild;
        std::vector<std::vector<const Block*>> blocksOfPattern;
        for (const Block& block : blocks) {
            const auto [place, isNew] = patternOfBuild.try_emplace(Pattern::describe(block, terms), patterns.size());
            if (isNew) {
                patterns.push_back(std::make_unique<Pattern>(block, terms));
                blocksOfPattern.emplace_back();
            }
            blocksOfPattern[place->second].push_back(&block);
        }
        for (size_t i = 0; i < patterns.size(); i++) {
            const std::vector<const Block*>& same = blocksOfPattern[i];
            if (patterns[i]->schur.layout.isSparse())
                for (const Block* block : same)
                    largeBlocks.emplace_back(*patterns[i], std::vector<const Block*>{block}, terms, masses);
            else
                for (size_t first = 0; first < same.size(); first += LaneTraits<Real>::count) {
                    const size_t last = std::min(same.size(), first + LaneTraits<Real>::count);
                    batches.emplace_back(*patterns[i],
                                         std::vector<const Block*>(same.begin() + first, same.begin() + last), terms,
                                         masses);
                }
        }
        std::sort(largeBlocks.begin(), largeBlocks.end(),
                  [](const auto& a, const auto& b) { return a.size() > b.size(); });
    }

private:
    using Pattern = typename Batch<Real>::Pattern;
    std::vector<std::unique_ptr<Pattern>> patterns;
};

/** All lanes of a batch. */
template <class Real> auto allLanes(const BlockBatch<Real>&) {
    return typename DenseLdlt<Real>::Mask(true);
}

/** Copy vectors of a batch's particles from an array of the whole System, indexed [3 particle + component]. */
template <class Real>
void gather(const BlockBatch<Real>& batch, const double* array, std::vector<Vector3<Real>>& local) {
    for (int lane = 0; lane < batch.numLanes; lane++)
        for (size_t i = 0; i < batch.particles[lane].size(); i++)
            for (int j = 0; j < 3; j++)
                LaneTraits<Real>::lane(local[i][j], lane) = array[3 * batch.particles[lane][i] + j];
}

/** Copy vectors of a batch's mobile particles to an array of the whole System. */
template <class Real>
void scatter(const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local, double* array) {
    for (int lane = 0; lane < batch.count; lane++)
        for (int i = 0; i < batch.numMobile; i++)
            for (int j = 0; j < 3; j++)
                array[3 * batch.particles[lane][i] + j] = LaneTraits<Real>::lane(local[i][j], lane);
}

/** Copy numbers of a batch's terms from an array of all terms. */
template <class Real> void gatherTerms(const BlockBatch<Real>& batch, const double* array, std::vector<Real>& local) {
    for (int lane = 0; lane < batch.numLanes; lane++)
        for (size_t t = 0; t < batch.terms[lane].size(); t++)
            LaneTraits<Real>::lane(local[t], lane) = array[batch.terms[lane][t]];
}

/** Copy numbers of a batch's terms to an array of all terms. */
template <class Real> void scatterTerms(const BlockBatch<Real>& batch, const std::vector<Real>& local, double* array) {
    for (int lane = 0; lane < batch.count; lane++)
        for (size_t t = 0; t < batch.terms[lane].size(); t++)
            array[batch.terms[lane][t]] = LaneTraits<Real>::lane(local[t], lane);
}

} // namespace stiffcore

#endif /* STIFFCORE_BATCHES_H_ */
