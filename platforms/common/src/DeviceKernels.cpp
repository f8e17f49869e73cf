#include "stiffcommon/DeviceKernels.h"
#include "DeviceImpulseKernel.h"
#include "DeviceMassPenaltyKernel.h"
#include "DeviceZhangSkeelKernel.h"
#include "openmm/KernelFactory.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "stiffgeneric/GenericHost.h"
#include "stiffthreaded/ThreadedKernels.h"
#include <memory>
#include <string>

using namespace OpenMM;
using namespace stiffcommon;

namespace {

/** Creates kernels that work on a device, and those for any platform for integrators that have none. */
class DeviceKernelFactory : public KernelFactory {
public:
    DeviceKernelFactory(FindDevice findDevice, KernelFactory* anyPlatform)
            : findDevice(findDevice), anyPlatform(anyPlatform) {
    }
    KernelImpl* createKernelImpl(std::string name, const Platform& platform, ContextImpl& context) const override {
        OpenMM::KernelImpl* kernel = nullptr;
        createFrom<DeviceImpulseKernel, DeviceMassPenaltyKernel, DeviceZhangSkeelKernel>(name, platform, context,
                                                                                         kernel);
        return kernel != nullptr ? kernel : anyPlatform->createKernelImpl(name, platform, context);
    }

private:
    template <class... Kernels>
    void createFrom(const std::string& name, const Platform& platform, ContextImpl& context,
                    KernelImpl*& kernel) const {
        ((name == Kernels::Name() &&
          (kernel = new Kernels(name, platform, context, findDevice(context), *anyPlatform)) != nullptr) ||
         ...);
    }

    const FindDevice findDevice;
    const std::unique_ptr<KernelFactory> anyPlatform;
};

} // namespace

void stiffcommon::registerDeviceKernels(const char* platformName, FindDevice findDevice) {
    const auto kernels = stiffthreaded::getThreadedKernels([](ContextImpl& context) {
        return std::unique_ptr<stiffthreaded::Host>(std::make_unique<stiffgeneric::GenericHost>(context));
    });
    OpenMMStiff::registerKernels(platformName, new DeviceKernelFactory(findDevice, kernels.factory),
                                 std::string("on the device; large molecules on the processor's threads; Systems that"
                                             " the device leaves out through the host's memory: threads, ") +
                                         kernels.instructions);
}
