#ifndef STIFF_TEST_STIFF_FIXTURE_H_
#define STIFF_TEST_STIFF_FIXTURE_H_

#include "Claims.h"
#include "ModelSystem.h"
#include "stiffcore/terms/StiffBatch.h"
#include <algorithm>
#include <map>
#include <thread>
#include <type_traits>
#include <vector>

namespace stifftest {

using stiffcore::Lanes;
using stiffcore::LaneTraits;
using stiffcore::MaskOf;
using stiffcore::StiffBatch;
using stiffcore::StiffWorkspace;

/** The scalar type of a batch. */
template <class Batch> using RealOf = std::decay_t<decltype(Batch::inverseMasses[0])>;

/** What a batch holds in one lane for its first `count` particles, as one vector. */
template <class Real>
Eigen::VectorXd laneOfVectors(const std::vector<stiffcore::Vector3<Real>>& vectors, int count, int lane) {
    Eigen::VectorXd result(3 * count);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 3; j++)
            result[3 * i + j] = stiffcore::laneOf(vectors[i][j], lane);
    return result;
}

/**
 * The batches of a ModelSystem with what it takes to work on them. Real has the lanes of small blocks; blocks are known
 * by their numbers in the model.
 */
template <class Real> struct StiffFixture {
    const ModelSystem model;
    const std::vector<Block> blocks;
    stiffcore::BatchSystem<StiffBatch, Real> system;
    StiffWorkspace<Real> work;
    StiffWorkspace<double> largeWork;
    std::vector<double> x;

    /** @param bends   whether straight angles are represented by their bends */
    explicit StiffFixture(const ModelSystem& model, bool bends = false)
            : StiffFixture(model, model.getStiffTerms(bends)) {
    }
    StiffFixture(const ModelSystem& model, const stiffcore::StiffTerms& terms)
            : model(model), blocks(model.getBlocks()), system(blocks, terms, model.masses), work(system.batches, terms),
              largeWork(system.largeBlocks, terms), x(model.getPositions()) {
        for (int block = 0; block < size(); block++)
            blockOf[blocks[block].particles[0]] = block;
    }

    int size() const {
        return blocks.size();
    }
    template <class Batch> int findBlock(const Batch& batch, int lane) const {
        return blockOf.at(batch.particles[lane][0]);
    }
    /** Call visit(batch, workspace) for all batches. */
    template <class Visit> void forEachBatch(Visit&& visit) {
        for (const auto& batch : system.batches)
            visit(batch, work);
        for (const auto& batch : system.largeBlocks)
            visit(batch, largeWork);
    }
    /** Call visit(batch, workspace, lane, block) for each block, after work(batch, workspace) for its batch. */
    template <class Work, class Visit> void forEachBlock(Work&& work, Visit&& visit) {
        forEachBatch([&](const auto& batch, auto& workspace) {
            work(batch, workspace);
            for (int lane = 0; lane < batch.count; lane++)
                visit(batch, workspace, lane, findBlock(batch, lane));
        });
    }
    /**
     * Work on all batches.
     *
     * @param work   called as work(batch, workspace); returns in which lanes it succeeded
     * @return the blocks for which it did not
     */
    template <class Work> std::vector<int> findFailures(Work&& work) {
        std::vector<int> failed;
        forEachBatch([&](const auto& batch, auto& workspace) {
            using Scalar = RealOf<std::decay_t<decltype(batch)>>;
            const MaskOf<Scalar> succeeded = work(batch, workspace);
            for (int lane = 0; lane < batch.count; lane++)
                if (!LaneTraits<Scalar>::lane(succeeded, lane))
                    failed.push_back(findBlock(batch, lane));
        });
        std::sort(failed.begin(), failed.end());
        return failed;
    }

    /** The same as forEachBatch(), shared by threads that have workspaces of their own. */
    template <class Visit> void forEachBatchOnThreads(Visit&& visit) {
        const int numThreads = 2, numSmall = system.batches.size(), numAll = numSmall + system.largeBlocks.size();
        std::vector<StiffWorkspace<Real>> works(numThreads, work);
        std::vector<StiffWorkspace<double>> largeWorks(numThreads, largeWork);
        std::vector<std::thread> threads;
        for (int thread = 0; thread < numThreads; thread++)
            threads.emplace_back([&, thread] {
                for (int i = thread; i < numAll; i += numThreads)
                    if (i < numSmall)
                        visit(system.batches[i], works[thread]);
                    else
                        visit(system.largeBlocks[i - numSmall], largeWorks[thread]);
            });
        for (std::thread& thread : threads)
            thread.join();
    }

private:
    std::map<int, int> blockOf; // by the first particle
};

} // namespace stifftest

#endif /* STIFF_TEST_STIFF_FIXTURE_H_ */
