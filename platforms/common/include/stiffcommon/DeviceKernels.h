#ifndef STIFFCOMMON_DEVICE_KERNELS_H_
#define STIFFCOMMON_DEVICE_KERNELS_H_

#include "openmm/common/ComputeContext.h"
#include "openmm/internal/ContextImpl.h"

namespace stiffcommon {

/** The device of a Context: the first of them, if it has several. */
using FindDevice = OpenMM::ComputeContext& (*) (OpenMM::ContextImpl& context);

/**
 * Register the kernels that work on a device with the platform of a name. They share their work with those for any
 * platform, see DeviceMassPenaltyKernel.
 */
void registerDeviceKernels(const char* platformName, FindDevice findDevice);

/**
 * Find the device of a Context by the data of its platform, which every platform with devices has in the same form. The
 * headers that define a DeviceContext are those of vendors; what matters here is that ComputeContext is its one base
 * class.
 */
template <class Platform> OpenMM::ComputeContext& findDevice(OpenMM::ContextImpl& context) {
    auto* data = reinterpret_cast<typename Platform::PlatformData*>(context.getPlatformData());
    return *reinterpret_cast<OpenMM::ComputeContext*>(data->contexts[0]);
}

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_KERNELS_H_ */
