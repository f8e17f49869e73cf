#include "SerialBackend.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "stiffhost/KernelFactory.h"

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (!OpenMMStiff::isOpenMMCompatible())
        return;
    auto makeBackend = [](OpenMM::ContextImpl&) { return std::make_unique<stiffreference::SerialBackend>(); };
    OpenMMStiff::registerKernels(
            "Reference",
            new stiffhost::KernelFactory<stiffreference::SerialBackend, decltype(makeBackend)>(makeBackend),
            "one thread, one molecule at a time");
}
