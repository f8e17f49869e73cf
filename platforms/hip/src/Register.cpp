#include "openmm/hip/HipPlatform.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include "stiffcommon/DeviceKernels.h"

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (OpenMMStiff::isOpenMMCompatible())
        stiffcommon::registerDeviceKernels("HIP", stiffcommon::findDevice<OpenMM::HipPlatform>);
}
