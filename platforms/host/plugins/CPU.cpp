#include "CpuPlatform.h"
#include "stiffhost/InPlaceState.h"
#include "stiffhost/Plugin.h"
#include <algorithm>
#include <cmath>

using namespace OpenMM;
using namespace stiffhost;

namespace {

/** What the CPU platform gives: its state, its threads, and random numbers, a stream each, which its checkpoints hold. */
class CpuResources final : public PlatformResources {
public:
    explicit CpuResources(ContextImpl& context)
            : data(CpuPlatform::getPlatformData(context)), system(context.getSystem()) {
    }
    ThreadPool* getThreads() override {
        return &data.threads;
    }
    std::unique_ptr<HostState> makeState(ContextImpl& context) override {
        return std::make_unique<InPlaceState>(context);
    }
    /**
     * Have OpenMM's neighbour list padded as long steps need it. It is built again once particles have moved by half
     * the padding p, after a time that goes as p, while pairs to go through become more with p: so that the best p
     * should grow about as the square root of the step. Its factor is measured at 8 fs: PME water (895 and 3000, one
     * and two threads) was fastest with 0.32 to 0.45 nm, and with 0.37 nm made 5 to 8 % more ns/day than with OpenMM's
     * own quarter of the cutoff of 0.9 nm; at 5 fs, with 0.30 nm, 2 to 6 %. OpenMM's own remains where it is more, with
     * that cutoff at steps below 3 fs.
     *
     * The list must not have been built yet; so later changes of the step have no influence. In a triclinic box it may
     * miss pairs beyond half a width.
     */
    void expectSteps(double stepSize) override {
        if (data.neighborList == nullptr || data.cutoff == 0)
            return;
        double padding = std::min(0.37 * std::sqrt(stepSize / 0.008), 0.5 * data.cutoff);
        Vec3 a, b, c;
        system.getDefaultPeriodicBoxVectors(a, b, c);
        if (b[0] != 0 || c[0] != 0 || c[1] != 0)
            padding = std::min(padding, std::min({a[0], b[1], c[2]}) / 2 - data.cutoff);
        data.requestNeighborList(data.cutoff, padding, false, data.exclusions);
    }
    int getNumStreams() override {
        return data.threads.getNumThreads();
    }
    void initializeRandom(int seed) override {
        data.random.initialize(seed, data.threads.getNumThreads());
    }
    double gaussian(int stream) override {
        return data.random.getGaussianRandom(stream);
    }

private:
    CpuPlatform::PlatformData& data;
    const System& system;
};

} // namespace

void registerKernels() {
    const Kernels kernels = getKernels(makeResources<CpuResources>);
    OpenMMStiff::registerKernels("CPU", kernels.factory, kernels.description);
}
