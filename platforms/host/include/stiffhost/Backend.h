#ifndef STIFFHOST_BACKEND_H_
#define STIFFHOST_BACKEND_H_

#include "PlatformResources.h"
#include "openmm/internal/ContextImpl.h"
#include <algorithm>
#include <atomic>
#include <memory>

namespace stiffhost {

/** How kernels work on particles and blocks with what a platform gives. */
class Backend {
public:
    Backend(std::unique_ptr<PlatformResources> owned, OpenMM::ContextImpl& context)
            : resources(std::move(owned)), threads(resources->getThreads()),
              numParticles(context.getSystem().getNumParticles()) {
    }
    PlatformResources& getResources() {
        return *resources;
    }
    int getNumThreads() const {
        return threads == nullptr ? 1 : threads->getNumThreads();
    }
    double gaussian(int part) {
        return resources->gaussian(part);
    }
    /**
     * Call function(begin, end, part) for parts of [0, n), one for a stream of random numbers. They depend on n and the
     * number of streams alone, so that a seed gives the same noise again: on CPU with the same number of threads.
     */
    template <class Function> void forEachPart(int n, Function&& function) {
        const int numParts = resources->getNumStreams(), numThreads = getNumThreads();
        auto execute = [&](int part) {
            function((long long) n * part / numParts, (long long) n * (part + 1) / numParts, part);
        };
        auto takeParts = [&](int thread) {
            for (int part = thread; part < numParts; part += numThreads)
                execute(part);
        };
        if (numThreads > 1 && n >= minParallelSize)
            return onAllThreads(takeParts);
        for (int part = 0; part < numParts; part++)
            execute(part);
    }
    /**
     * Call function(i, thread) for each i in [0, n), in any order. Threads take the next few when they are done with the
     * last ones: blocks differ in size.
     */
    template <class Function> void forEachBlock(int n, Function&& function) {
        if (threads == nullptr || n == 1 || numParticles < minParallelBlocks) {
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
        threads->execute(task);
        threads->waitForThreads();
    }

    /// Below these numbers of particles a loop over them, or over their blocks, takes less time than waking the
    /// threads.
    static constexpr int minParallelSize = 10000, minParallelBlocks = 150;
    const std::unique_ptr<PlatformResources> resources;
    OpenMM::ThreadPool* const threads;
    const int numParticles;
};

} // namespace stiffhost

#endif /* STIFFHOST_BACKEND_H_ */
