#ifndef STIFFTHREADED_THREADED_BACKEND_H_
#define STIFFTHREADED_THREADED_BACKEND_H_

#include "openmm/System.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffhost/KernelFactory.h"
#include "stiffthreaded/Host.h"
#include <algorithm>
#include <atomic>
#include <iosfwd>
#include <memory>

namespace stiffthreaded {

/**
 * Loops on OpenMM's thread pool, and small blocks in the lanes of a batch.
 */
class ThreadedBackend {
public:
    /// Small blocks of the same build, one in each lane.
    using Real = stiffcore::Lanes;

    ThreadedBackend(std::unique_ptr<Host> owned, const OpenMM::System& system)
            : host(std::move(owned)), threads(host->getThreads()), numParticles(system.getNumParticles()) {
    }
    std::unique_ptr<stiffhost::HostState> makeState(OpenMM::ContextImpl& context) {
        return host->makeState(context);
    }
    int getNumThreads() const {
        return threads.getNumThreads();
    }
    /** The parts, one for a stream, depend on nothing but n, so that a seed always gives the same noise. */
    template <class Function> void forEachPart(int n, Function&& function) {
        const int numParts = host->getNumStreams(), numThreads = getNumThreads();
        auto execute = [&](int part) {
            function((long long) n * part / numParts, (long long) n * (part + 1) / numParts, part);
        };
        if (n < minParallelSize) {
            for (int part = 0; part < numParts; part++)
                execute(part);
            return;
        }
        auto takeParts = [&](int thread) {
            for (int part = thread; part < numParts; part += numThreads)
                execute(part);
        };
        onAllThreads(takeParts);
    }
    /** Threads take the next few blocks when they are done with the last ones: blocks differ in size. */
    template <class Function> void forEachBlock(int n, Function&& function) {
        if (n == 1 || numParticles < minParallelBlocks) {
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
    void expectSteps(double stepSize) {
        host->expectSteps(stepSize);
    }
    void initializeRandom(int seed) {
        host->initializeRandom(seed);
    }
    double gaussian(int part) {
        return host->gaussian(part);
    }
    void write(std::ostream& stream) {
        host->write(stream);
    }
    void read(std::istream& stream) {
        host->read(stream);
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
        threads.execute(task);
        threads.waitForThreads();
    }

    /// Below these numbers of particles a loop over them, or over their blocks, takes less time than waking the
    /// threads.
    static constexpr int minParallelSize = 10000, minParallelBlocks = 150;
    const std::unique_ptr<Host> host;
    OpenMM::ThreadPool& threads;
    const int numParticles;
};

/** A factory for the threaded kernels, in the build that this is compiled in. */
inline OpenMM::KernelFactory* makeFactory(MakeHost makeHost) {
    auto makeBackend = [makeHost](OpenMM::ContextImpl& context) {
        return std::make_unique<ThreadedBackend>(makeHost(context), context.getSystem());
    };
    return new stiffhost::KernelFactory<ThreadedBackend, decltype(makeBackend)>(makeBackend);
}

} // namespace stiffthreaded

#endif /* STIFFTHREADED_THREADED_BACKEND_H_ */
