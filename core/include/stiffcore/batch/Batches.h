#ifndef STIFFCORE_BATCH_BATCHES_H_
#define STIFFCORE_BATCH_BATCHES_H_

#include "../Geometry.h"
#include "../linear/SymmetricSolve.h"
#include "Lanes.h"
#include "../model/Block.h"
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/**
 * Blocks of the same build (such as all water molecules) side by side, one in each lane of Real. Large blocks come one
 * at a time, with Real = double. Functions of a batch take the Workspace of the calling thread, so that different
 * batches may be worked on at the same time; they take no memory. Arrays of a whole System are indexed by particle and
 * component, [3 particle + component]; those in a Workspace by the place of a particle in its block.
 *
 * Hot functions are [[gnu::flatten]]: in a platform's one large file GCC would leave calls of small templates in their
 * inner loops.
 */
namespace stiffcore {

/**
 * What batches have in common whatever their terms are. A kind of batch is a template Batch<Real> derived from it, with
 *
 *     Pattern, Terms, Workspace   types: what blocks of the same build share (with numParticles, numMobile and
 *                                 isLarge(); describe(block, terms) are numbers that tell builds apart, and
 *                                 describeShared(terms) is what else has to be the same for batches and workspaces to
 *                                 be kept), what describes the terms of a System, and the scratch memory of a thread,
 *                                 made from (batches, terms)
 *     const Pattern* pattern
 *     Batch(pattern, blocks, terms, masses)
 *     setParameters(terms)        takes what is not a matter of the build from terms that otherwise are the same
 */
template <class Real> struct BlockBatch {
    static constexpr int numLanes = LaneTraits<Real>::count;
    /// The number of blocks. Lanes beyond repeat the last one.
    int count;
    /// How many particles of a block are mobile; they come first.
    int numMobile;
    /// The particles of each block, and its terms as they are numbered in the whole System.
    std::array<std::vector<int>, numLanes> particles, terms, otherTerms;
    /// For each particle 1/m, 0 if it never moves [1/dalton].
    std::vector<Real> inverseMasses;

    template <class Pattern>
    BlockBatch(const Pattern& pattern, const std::vector<const Block*>& blocks, const std::vector<double>& masses)
            : count(blocks.size()), numMobile(pattern.numMobile), inverseMasses(pattern.numParticles, Real(0)) {
        for (int lane = 0; lane < numLanes; lane++) {
            const Block& block = *blocks[std::min(lane, count - 1)];
            particles[lane] = block.particles;
            terms[lane] = block.terms;
            otherTerms[lane] = block.otherTerms;
            for (int i = 0; i < numMobile; i++)
                LaneTraits<Real>::lane(inverseMasses[i], lane) = 1 / masses[block.particles[i]];
        }
    }

    int numParticles() const {
        return inverseMasses.size();
    }
    /** See Block. */
    bool isBound() const {
        return !terms[0].empty() || !otherTerms[0].empty();
    }
};

/** The scratch memory of a thread that all kinds of batches have. */
template <class Real> struct BatchWorkspace {
    /// For each particle: positions [nm], velocities [nm/ps] and accelerations [nm/ps^2].
    Vectors3<Real> x, v, a;

protected:
    template <class Batches> explicit BatchWorkspace(const Batches& all) {
        size_t numParticles = 0;
        for (const auto& batch : all)
            numParticles = std::max<size_t>(numParticles, batch.numParticles());
        for (auto* vectors : {&x, &v, &a})
            vectors->resize(numParticles);
    }
};

/** The batches of a System. Real has the lanes of small blocks. */
template <template <class> class Batch, class Real> class BatchSystem {
public:
    using Terms = typename Batch<Real>::Terms;
    /// Small blocks, and large ones. (With a Real of one lane, both are of the same type.)
    std::vector<Batch<Real>> batches;
    std::vector<Batch<double>> largeBlocks;

    BatchSystem(const std::vector<Block>& blocks, const Terms& terms, const std::vector<double>& masses)
            : blocks(blocks), builds(describe(blocks, terms)), shared(Pattern::describeShared(terms)) {
        std::map<std::vector<int>, int> patternOfBuild;
        std::vector<std::vector<const Block*>> blocksOfPattern;
        for (size_t i = 0; i < blocks.size(); i++) {
            const auto [place, isNew] = patternOfBuild.try_emplace(builds[i], blocksOfPattern.size());
            if (isNew)
                blocksOfPattern.emplace_back();
            blocksOfPattern[place->second].push_back(&blocks[i]);
        }
        for (size_t i = 0; i < blocksOfPattern.size(); i++) {
            const std::vector<const Block*>& same = blocksOfPattern[i];
            patterns.push_back(createPattern(*same[0], terms, same.size()));
            if (patterns[i]->isLarge())
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
                  [](const auto& a, const auto& b) { return a.numParticles() > b.numParticles(); });
    }

    /**
     * Take other terms, if they differ from the present ones in their parameters alone.
     *
     * @return whether they do
     */
    bool takeParameters(const std::vector<Block>& blocks, const Terms& terms) {
        if (Pattern::describeShared(terms) != shared || !(blocks == this->blocks) || describe(blocks, terms) != builds)
            return false;
        for (auto& batch : batches)
            batch.setParameters(terms);
        for (auto& batch : largeBlocks)
            batch.setParameters(terms);
        return true;
    }

private:
    using Pattern = typename Batch<Real>::Pattern;
    static std::unique_ptr<Pattern> createPattern(const Block& block, const Terms& terms, int numBlocks) {
        if constexpr (std::is_constructible_v<Pattern, const Block&, const Terms&, int>)
            return std::make_unique<Pattern>(block, terms, MatrixLayout::findLeastSparse(numBlocks));
        else
            return std::make_unique<Pattern>(block, terms);
    }
    /** How each block is built. */
    static std::vector<std::vector<int>> describe(const std::vector<Block>& blocks, const Terms& terms) {
        std::vector<std::vector<int>> builds;
        for (const Block& block : blocks)
            builds.push_back(Pattern::describe(block, terms));
        return builds;
    }

    std::vector<Block> blocks;
    std::vector<std::vector<int>> builds;
    std::vector<std::string> shared;
    std::vector<std::unique_ptr<Pattern>> patterns;
};

/** All lanes of a batch. */
template <class Real> MaskOf<Real> allLanes(const BlockBatch<Real>&) {
    return MaskOf<Real>(true);
}

/** Copy vectors of a batch's particles from an array of the whole System. */
template <class Real>
void gather(const BlockBatch<Real>& batch, const double* array, std::vector<Vector3<Real>>& local) {
    Vector3<Real>* to = local.data();
    const int number = batch.numParticles();
    for (int lane = 0; lane < batch.numLanes; lane++) {
        const int* particles = batch.particles[lane].data();
        for (int i = 0; i < number; i++) {
            const double* from = array + 3 * particles[i];
            for (int j = 0; j < 3; j++)
                LaneTraits<Real>::lane(to[i][j], lane) = from[j];
        }
    }
}

/** Copy velocities, which fixed particles have none of. */
template <class Real>
void gatherVelocities(const BlockBatch<Real>& batch, const double* array, std::vector<Vector3<Real>>& local) {
    gather(batch, array, local);
    for (int i = batch.numMobile; i < batch.numParticles(); i++)
        local[i].setZero();
}

/** Copy vectors of the mobile particles in a lane to an array of the whole System. */
template <class Real>
void scatterLane(const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local, int lane, double* array) {
    const Vector3<Real>* from = local.data();
    const int* particles = batch.particles[lane].data();
    for (int i = 0; i < batch.numMobile; i++) {
        double* to = array + 3 * particles[i];
        for (int j = 0; j < 3; j++)
            to[j] = LaneTraits<Real>::lane(from[i][j], lane);
    }
}
/** The same in all lanes. */
template <class Real>
void scatter(const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local, double* array) {
    for (int lane = 0; lane < batch.count; lane++)
        scatterLane(batch, local, lane, array);
}
/** The same, in the lanes of a mask alone; which is returned. */
template <class Real>
MaskOf<Real> scatter(const MaskOf<Real>& mask, const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local,
                     double* array) {
    for (int lane = 0; lane < batch.count; lane++)
        if (LaneTraits<Real>::lane(mask, lane))
            scatterLane(batch, local, lane, array);
    return mask;
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

/** Copy the vectors of the particles in one lane. */
template <class Real>
void copyLane(const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local, int lane,
              std::vector<Vector3<double>>& ofLane) {
    for (int i = 0; i < batch.numParticles(); i++)
        for (int j = 0; j < 3; j++)
            ofLane[i][j] = LaneTraits<Real>::lane(local[i][j], lane);
}

/** vectors <- vectors + factor others, of mobile particles. */
template <class Real>
void addScaled(const BlockBatch<Real>& batch, const Real& factor, const std::vector<Vector3<Real>>& others,
               std::vector<Vector3<Real>>& vectors) {
    for (int i = 0; i < batch.numMobile; i++)
        vectors[i] += others[i] * factor;
}
/** vectors <- factor vectors + others, of mobile particles. */
template <class Real>
void scaleAndAdd(const BlockBatch<Real>& batch, const Real& factor, const std::vector<Vector3<Real>>& others,
                 std::vector<Vector3<Real>>& vectors) {
    for (int i = 0; i < batch.numMobile; i++)
        vectors[i] = vectors[i] * factor + others[i];
}

/** In which lanes the vectors of a batch's mobile particles are finite. */
template <class Real> MaskOf<Real> areFinite(const BlockBatch<Real>& batch, const std::vector<Vector3<Real>>& local) {
    Vector3<Real> sum = Vector3<Real>::Zero();
    for (int i = 0; i < batch.numMobile; i++)
        sum += local[i];
    return isFinite(Real(sum[0] + sum[1] + sum[2]));
}

} // namespace stiffcore

#endif /* STIFFCORE_BATCH_BATCHES_H_ */
