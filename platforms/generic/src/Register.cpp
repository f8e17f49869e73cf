#include "stiffgeneric/GenericHost.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "stiffthreaded/ThreadedKernels.h"
#include <memory>
#include <string>

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

/** Register the kernels with a platform, in the place of others if it has any: for tests, with one that has. */
extern "C" OPENMM_EXPORT_STIFF void registerGenericKernels(OpenMM::Platform& platform) {
    const auto kernels =
            stiffthreaded::getThreadedKernels([](OpenMM::ContextImpl& context) -> std::unique_ptr<stiffthreaded::Host> {
                return std::make_unique<stiffgeneric::GenericHost>(context);
            });
    OpenMMStiff::registerKernels(platform, kernels.factory,
                                 std::string("through the host's memory: threads, ") + kernels.instructions);
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (OpenMMStiff::isOpenMMCompatible())
        OpenMMStiff::provideForAnyPlatform([](OpenMM::Platform& platform) { registerGenericKernels(platform); });
}
