#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "stiffhost/AnyPlatform.h"
#include "stiffhost/Kernels.h"
#include <string>

using namespace stiffhost;

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

/** Register the kernels with a platform, instead of others if it has any: for tests, with one that has. */
extern "C" OPENMM_EXPORT_STIFF void registerGenericKernels(OpenMM::Platform& platform) {
    const Kernels kernels = getKernels(makeResources<AnyPlatform>);
    OpenMMStiff::registerKernels(platform, kernels.factory,
                                 std::string("through the host's memory: ") + kernels.description);
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (OpenMMStiff::isOpenMMCompatible())
        OpenMMStiff::provideForAnyPlatform([](OpenMM::Platform& platform) { registerGenericKernels(platform); });
}
