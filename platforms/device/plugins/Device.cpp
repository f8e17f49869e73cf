/**
 * The plugin for a platform with devices. It is compiled for each, with PLATFORM_NAME, PLATFORM_CLASS and the header
 * of this class, PLATFORM_HEADER.
 */

#include PLATFORM_HEADER
#include "ComputeDevice.h"
#include "openmm/common/ComputeContext.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffhost/AnyPlatform.h"
#include "stiffhost/Plugin.h"
#include <memory>

using namespace OpenMM;
using namespace stiffhost;

namespace {

/** What a platform with a device gives: what any does, and the device, the first of them if a Context has several. */
class DeviceResources final : public AnyPlatform {
public:
    using AnyPlatform::AnyPlatform;

    /**
     * The device is found by the data of the platform, which every platform with devices has in the same form. The
     * headers that define a DeviceContext are those of vendors; what matters here is that ComputeContext is its one base
     * class.
     */
    std::unique_ptr<Device> makeDevice(ContextImpl& context) override {
        auto* data = reinterpret_cast<PLATFORM_CLASS::PlatformData*>(context.getPlatformData());
        auto* first = reinterpret_cast<ComputeContext*>(data->contexts[0]);
        return std::make_unique<stiffdevice::ComputeDevice>(context, *first);
    }
};

} // namespace

void registerKernels() {
    const Kernels kernels = getKernels(makeResources<DeviceResources>);
    OpenMMStiff::registerKernels(PLATFORM_NAME, kernels.factory,
                                 std::string("on the device; large molecules on the processor's threads; Systems that"
                                             " the device leaves out through the host's memory: ") +
                                         kernels.description);
}
