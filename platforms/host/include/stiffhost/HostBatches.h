#ifndef STIFFHOST_HOST_BATCHES_H_
#define STIFFHOST_HOST_BATCHES_H_

#include "Backend.h"
#include "Vectors.h"
#include "setup/Blocks.h"
#include "stiffcore/batch/Batches.h"
#include <atomic>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace stiffhost {

/**
 * The blocks of a Context as batches of a kind, see BlockBatch, with the work on them on all threads.
 *
 * @tparam Real   the numbers of small blocks: stiffcore::Lanes for one of the same build in each lane, or double
 */
template <class Real, template <class> class Batch> class HostBatches {
public:
    using Terms = typename Batch<Real>::Terms;

    /** The mobile particles that belong to no block. */
    const std::vector<int>* getFreeParticles() const {
        return &freeParticles;
    }

    /**
     * Work on all blocks, on all threads.
     *
     * @param work   called as work(batch, workspace); returns in which lanes it succeeded, or nothing if it cannot fail
     * @return a description of a block for which it did not, or an empty string; nothing if it cannot fail
     */
    template <class Work> [[nodiscard]] auto forEach(Work&& work) {
        if constexpr (std::is_void_v<decltype(work(system->batches[0], workspaces[0]))>)
            backend.forEachBlock(countBatches(), [&](int index, int thread) { visitBatch(index, thread, work); });
        else {
            const Failed failed = findFailed(work);
            return failed.particles == nullptr ? std::string() : describeMolecule(*failed.particles, failed.numMobile);
        }
    }
    /** A block, or none. */
    struct Failed {
        const std::vector<int>* particles;
        int numMobile;
    };
    /** The same, where work(batch, workspace) can fail: the first block for which it did not succeed. */
    template <class Work> [[nodiscard]] Failed findFailed(Work&& work) {
        // As (index of the batch, lane) in one number.
        const int number = countBatches(), maxLanes = stiffcore::LaneTraits<Real>::count;
        std::atomic<int> failed(number * maxLanes);
        backend.forEachBlock(number, [&](int index, int thread) {
            const int lane = visitBatch(index, thread, [&](const auto& batch, auto& workspace) {
                using Scalar = std::decay_t<decltype(batch.inverseMasses[0])>;
                return stiffcore::findFalse<Scalar>(work(batch, workspace), batch.count);
            });
            if (lane < 0)
                return;
            const int failure = index * maxLanes + lane;
            int first = failed;
            while (failure < first && !failed.compare_exchange_weak(first, failure)) {
            }
        });
        const int index = failed / maxLanes, lane = failed % maxLanes;
        if (index == number)
            return {nullptr, 0};
        return visitBatch(index, 0, [&](const auto& batch, auto&) {
            return Failed{&batch.particles[lane], batch.numMobile};
        });
    }

    /** A description of a block with particles whose vectors are not finite, or an empty string. */
    [[nodiscard]] std::string findNotFinite(const Vectors& vectors) {
        return forEach([&](const auto& batch, auto& work) {
            gather(batch, components(vectors), work.a);
            return areFinite(batch, work.a);
        });
    }

    /** Call visit(batch, workspace) for each batch in a fixed order, on this thread. */
    template <class Visit> void visitInOrder(Visit&& visit) {
        for (const auto& block : system->largeBlocks)
            visit(block, largeWorkspaces[0]);
        for (const auto& batch : system->batches)
            visit(batch, workspaces[0]);
    }

    explicit HostBatches(Backend& backend) : backend(backend) {
    }
    /** The revision of the blocks and terms that have been taken last, 0 before. */
    int getRevision() const {
        return revision;
    }
    /**
     * Put blocks into batches, or hand their parameters on to these if nothing else has changed.
     *
     * @param revision   of blocks and terms: if it is that of the last ones, these are the same
     * @param masses     the masses of all particles [dalton]
     * @return whether they are others
     */
    bool take(int revision, const std::vector<OpenMMStiff::Block>& blocks, const Terms& terms,
              const std::vector<double>& masses) {
        if (revision == this->revision)
            return false;
        this->revision = revision;
        if (system != nullptr && system->takeParameters(blocks, terms))
            return true;
        system = std::make_unique<stiffcore::BatchSystem<Batch, Real>>(blocks, terms, masses);
        workspaces.assign(backend.getNumThreads(), {system->batches, terms});
        largeWorkspaces.assign(backend.getNumThreads(), {system->largeBlocks, terms});
        std::vector<char> isFree(masses.size());
        for (size_t i = 0; i < masses.size(); i++)
            isFree[i] = masses[i] > 0;
        for (const auto& block : blocks)
            for (int i = 0; i < block.numMobile; i++)
                isFree[block.particles[i]] = false;
        freeParticles.clear();
        for (size_t i = 0; i < masses.size(); i++)
            if (isFree[i])
                freeParticles.push_back(i);
        return true;
    }

protected:
    /** Call visit(workspace) for the scratch memory of each thread. */
    template <class Visit> void forEachWorkspace(Visit&& visit) {
        for (auto& work : workspaces)
            visit(work);
        for (auto& work : largeWorkspaces)
            visit(work);
    }

    Backend& backend;

private:
    int countBatches() const {
        return system->largeBlocks.size() + system->batches.size();
    }
    /** Call visit(batch, workspace) with a batch by its index, large blocks first. */
    template <class Visit> auto visitBatch(int index, int thread, Visit&& visit) {
        const int numLarge = system->largeBlocks.size();
        return index < numLarge ? visit(system->largeBlocks[index], largeWorkspaces[thread])
                                : visit(system->batches[index - numLarge], workspaces[thread]);
    }
    std::unique_ptr<stiffcore::BatchSystem<Batch, Real>> system;
    std::vector<typename Batch<Real>::Workspace> workspaces;
    std::vector<typename Batch<double>::Workspace> largeWorkspaces;
    std::vector<int> freeParticles;
    int revision = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_BATCHES_H_ */
