#ifndef STIFFCPU_THREADED_BACKEND_H_
#define STIFFCPU_THREADED_BACKEND_H_

#include "CpuPlatform.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ThreadPool.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffhost/HostState.h"
#include <algorithm>
#include <atomic>
#include <cmath>

namespace stiffcpu {

/**
 * The CPU platform's way: OpenMM's thread pool, and its random numbers, one stream a thread.
 */
class ThreadedBackend {
public:
    /// Small blocks of the same build, one in each lane.
    using Real = stiffcore::Lanes;
    using State = stiffhost::HostState;
    explicit ThreadedBackend(OpenMM::ContextImpl& context) : data(OpenMM::CpuPlatform::getPlatformData(context)) {
    }
    int getNumThreads() const {
        return data.threads.getNumThreads();
    }
    /** The parts depend on nothing but n and the number of threads, so that a seed always gives the same noise. */
    template <class Function> void forEachPart(int n, Function&& function) {
        const int numThreads = getNumThreads();
        auto part = [&](int thread) {
            function((long long) n * thread / numThreads, (long long) n * (thread + 1) / numThreads, thread);
        };
        if (n < minParallelSize) {
            for (int thread = 0; thread < numThreads; thread++)
                part(thread);
            return;
        }
        onAllThreads(part);
    }
    /** Threads take the next few blocks when they are done with the last ones: blocks differ in size. */
    template <class Function> void forEachBlock(int n, Function&& function) {
        if (n == 1 || data.numParticles < minParallelBlocks) {
            for (int i = 0; i < n; i++)
                function(i, 0);
            return;
        }
        const int chunk = std::max(1, std::min(16, n / (4 * getNumThreads())));
        std::atomic<int> next(0);
        auto takeChunks = [&](int thread) {
            for (int begin = next.fetch_add(chunk); begin < n; begin = next.fetch_add(chunk))
                for (int i = begin; i < std::min(n, begin + chunk); i++)
                    function(i, thread);
        };
        onAllThreads(takeChunks);
    }
    /**
     * Have OpenMM's neighbour list padded as long steps need it. It is built again once particles have moved by half
     * the padding p, after a time that goes as p, while pairs to go through become more with p: so that the best p
     * should grow about as the square root of the step. Its factor is measured at 8 fs: PME water (895 and 3000, one
     * and two threads) was fastest with 0.32 to 0.45 nm, and with 0.37 nm made 5 to 8 % more ns/day than with OpenMM's
     * own quarter of the cutoff of 0.9 nm; at 5 fs, with 0.30 nm, 2 to 6 %. OpenMM's own remains where it is more, with
     * that cutoff at steps below 3 fs.
     *
     * The list must not have been built yet; so later changes of the step have no influence.
     */
    void expectSteps(double stepSize) {
        if (data.neighborList == nullptr || data.cutoff == 0)
            return;
        const double padding = std::min(0.37 * std::sqrt(stepSize / 0.008), 0.5 * data.cutoff);
        data.requestNeighborList(data.cutoff, padding, false, data.exclusions);
    }
    void initializeRandom(int seed) {
        data.random.initialize(seed, getNumThreads());
    }
    double gaussian(int thread) {
        return data.random.getGaussianRandom(thread);
    }

private:
    /** Call function(thread) on each thread. A Task takes no memory, which a std::function would. */
    template <class Function> void onAllThreads(Function& function) {
        struct : OpenMM::ThreadPool::Task {
            Function* function;
            void execute(OpenMM::ThreadPool&, int thread) override {
                (*function)(thread);
            }
        } task;
        task.function = &function;
        data.threads.execute(task);
        data.threads.waitForThreads();
    }

    /// Below these numbers of particles a loop over them, or over their blocks, takes less time than waking the
    /// threads.
    static constexpr int minParallelSize = 10000, minParallelBlocks = 150;
    OpenMM::CpuPlatform::PlatformData& data;
};

} // namespace stiffcpu

#endif /* STIFFCPU_THREADED_BACKEND_H_ */
