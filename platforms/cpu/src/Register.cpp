#include "ThreadedBackend.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "stiffhost/KernelFactory.h"

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    stiffhost::registerProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    stiffhost::KernelFactory<stiffcpu::ThreadedBackend>::registerFor("CPU");
}
