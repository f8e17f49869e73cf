#include "SimTKOpenMMUtilities.h"
#include "stiffhost/InPlaceState.h"
#include "stiffhost/Plugin.h"

using namespace OpenMM;
using namespace stiffhost;

namespace {

/** What the Reference platform gives: its state, and OpenMM's random numbers, which its checkpoints hold. */
class ReferenceResources final : public PlatformResources {
public:
    explicit ReferenceResources(ContextImpl&) {
    }
    std::unique_ptr<HostState> makeState(ContextImpl& context) override {
        return std::make_unique<InPlaceState>(context);
    }
    int getNumStreams() override {
        return 1;
    }
    void initializeRandom(int seed) override {
        SimTKOpenMMUtilities::setRandomNumberSeed((unsigned int) seed);
    }
    double gaussian(int) override {
        return SimTKOpenMMUtilities::getNormallyDistributedRandomNumber();
    }
};

} // namespace

void registerKernels() {
    const Kernels kernels = getSerialKernels(makeResources<ReferenceResources>);
    OpenMMStiff::registerKernels("Reference", kernels.factory, kernels.description);
}
