#include "SimTKOpenMMUtilities.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "stiffhost/InPlaceState.h"
#include "stiffhost/Kernels.h"

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

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (!OpenMMStiff::isOpenMMCompatible())
        return;
    const Kernels kernels = getSerialKernels(makeResources<ReferenceResources>);
    OpenMMStiff::registerKernels("Reference", kernels.factory, kernels.description);
}
