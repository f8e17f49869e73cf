#include "openmm/cuda/CudaPlatform.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "Register.h"

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (OpenMMStiff::isOpenMMCompatible())
        stiffdevice::registerKernels<OpenMM::CudaPlatform>("CUDA");
}
