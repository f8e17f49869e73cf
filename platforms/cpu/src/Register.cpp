#include "CpuHost.h"
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

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (!OpenMMStiff::isOpenMMCompatible())
        return;
    const auto kernels =
            stiffthreaded::getThreadedKernels([](OpenMM::ContextImpl& context) -> std::unique_ptr<stiffthreaded::Host> {
                return std::make_unique<stiffcpu::CpuHost>(context);
            });
    OpenMMStiff::registerKernels("CPU", kernels.factory, std::string("threads, ") + kernels.instructions);
}
