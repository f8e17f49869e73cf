#ifndef STIFFHOST_KERNEL_FACTORY_H_
#define STIFFHOST_KERNEL_FACTORY_H_

#include "HMMKernel.h"
#include "ImpulseKernel.h"
#include "MassPenaltyKernel.h"
#include "SpookKernel.h"
#include "ZhangSkeelKernel.h"
#include "openmm/KernelFactory.h"
#include "openmm/OpenMMException.h"
#include "openmm/Platform.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Creates the kernels of all integrators for one platform. A new kernel needs a line in each of the two functions.
 */
template <class Backend> class KernelFactory : public OpenMM::KernelFactory {
public:
    static std::vector<std::string> getKernelNames() {
        return {OpenMMStiff::IntegrateZhangSkeelStepKernel::Name(), OpenMMStiff::IntegrateImpulseStepKernel::Name(),
                OpenMMStiff::IntegrateMassPenaltyStepKernel::Name(), OpenMMStiff::IntegrateSpookStepKernel::Name(),
                OpenMMStiff::IntegrateHMMStepKernel::Name()};
    }

    OpenMM::KernelImpl* createKernelImpl(std::string name, const OpenMM::Platform& platform,
                                         OpenMM::ContextImpl& context) const override {
        if (name == OpenMMStiff::IntegrateZhangSkeelStepKernel::Name())
            return new ZhangSkeelKernel<Backend>(name, platform, context);
        if (name == OpenMMStiff::IntegrateImpulseStepKernel::Name())
            return new ImpulseKernel<Backend>(name, platform, context);
        if (name == OpenMMStiff::IntegrateMassPenaltyStepKernel::Name())
            return new MassPenaltyKernel<Backend>(name, platform, context);
        if (name == OpenMMStiff::IntegrateSpookStepKernel::Name())
            return new SpookKernel<Backend>(name, platform, context);
        if (name == OpenMMStiff::IntegrateHMMStepKernel::Name())
            return new HMMKernel<Backend>(name, platform, context);
        throw OpenMM::OpenMMException("Tried to create kernel with illegal kernel name '" + name + "'");
    }

    /**
     * Register the kernels for the platform of a name. The name must be the same to the letter: CpuPlatform is derived
     * from ReferencePlatform, and a cast would let the one factory overwrite the other's kernels.
     */
    static void registerFor(const std::string& platformName) {
        if (!OpenMMStiff::isOpenMMCompatible())
            return;
        for (int i = 0; i < OpenMM::Platform::getNumPlatforms(); i++) {
            OpenMM::Platform& platform = OpenMM::Platform::getPlatform(i);
            if (platform.getName() != platformName)
                continue;
            auto* factory = new KernelFactory();
            for (const std::string& name : getKernelNames())
                platform.registerKernelFactory(name, factory);
        }
    }
};

/** Register what no platform is needed for, as soon as a library of the plugin has been loaded. */
inline void registerProxies() {
    if (OpenMMStiff::isOpenMMCompatible())
        registerOpenMMStiffSerializationProxies();
}

} // namespace stiffhost

#endif /* STIFFHOST_KERNEL_FACTORY_H_ */
