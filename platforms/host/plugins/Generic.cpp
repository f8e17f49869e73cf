#include "stiffhost/AnyPlatform.h"
#include "stiffhost/Plugin.h"

using namespace stiffhost;

/** Register the kernels with a platform, instead of others if it has any: for tests, with one that has. */
extern "C" OPENMM_EXPORT_STIFF void registerGenericKernels(OpenMM::Platform& platform) {
    const Kernels kernels = getKernels(makeResources<AnyPlatform>);
    OpenMMStiff::registerKernels(platform, kernels.factory,
                                 std::string("through the host's memory: ") + kernels.description);
}

void registerKernels() {
    OpenMMStiff::provideForAnyPlatform([](OpenMM::Platform& platform) { registerGenericKernels(platform); });
}
