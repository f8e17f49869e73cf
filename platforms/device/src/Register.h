#ifndef STIFFDEVICE_REGISTER_H_
#define STIFFDEVICE_REGISTER_H_

#include "ComputeDevice.h"
#include "openmm/common/ComputeContext.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "stiffhost/AnyPlatform.h"
#include "stiffhost/Kernels.h"
#include <memory>
#include <string>

namespace stiffdevice {

/** What a platform with a device gives: what any does, and the device, the first of them if a Context has several. */
template <class Platform> class DeviceResources final : public stiffhost::AnyPlatform {
public:
    using AnyPlatform::AnyPlatform;

    /**
     * The device is found by the data of the platform, which every platform with devices has in the same form. The
     * headers that define a DeviceContext are those of vendors; what matters here is that ComputeContext is its one base
     * class.
     */
    std::unique_ptr<stiffhost::Device> makeDevice(OpenMM::ContextImpl& context) override {
        auto* data = reinterpret_cast<typename Platform::PlatformData*>(context.getPlatformData());
        return std::make_unique<ComputeDevice>(context, *reinterpret_cast<OpenMM::ComputeContext*>(data->contexts[0]));
    }
};

/** Register the kernels with the platform of a name. */
template <class Platform> void registerKernels(const char* platformName) {
    const stiffhost::Kernels kernels = stiffhost::getKernels(stiffhost::makeResources<DeviceResources<Platform>>);
    OpenMMStiff::registerKernels(platformName, kernels.factory,
                                 std::string("on the device; large molecules on the processor's threads; Systems that"
                                             " the device leaves out through the host's memory: ") +
                                         kernels.description);
}

} // namespace stiffdevice

#endif /* STIFFDEVICE_REGISTER_H_ */
