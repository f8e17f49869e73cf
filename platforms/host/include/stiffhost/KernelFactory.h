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

namespace stiffhost {

/**
 * Creates the kernels of some classes for one platform.
 */
template <class... Kernels> class FactoryOf : public OpenMM::KernelFactory {
public:
    OpenMM::KernelImpl* createKernelImpl(std::string name, const OpenMM::Platform& platform,
                                         OpenMM::ContextImpl& context) const override {
        OpenMM::KernelImpl* kernel = nullptr;
        ((name == Kernels::Name() && (kernel = new Kernels(name, platform, context)) != nullptr) || ...);
        if (kernel == nullptr)
            throw OpenMM::OpenMMException("Tried to create kernel with illegal kernel name '" + name + "'");
        return kernel;
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
            auto* factory = new FactoryOf();
            (platform.registerKernelFactory(Kernels::Name(), factory), ...);
        }
    }
};

/** The kernels of all integrators. */
template <class Backend>
using KernelFactory = FactoryOf<HMMKernel<Backend>, ImpulseKernel<Backend>, MassPenaltyKernel<Backend>,
                                SpookKernel<Backend>, ZhangSkeelKernel<Backend>>;

/** Register what no platform is needed for, as soon as a library of the plugin has been loaded. */
inline void registerProxies() {
    if (OpenMMStiff::isOpenMMCompatible())
        registerOpenMMStiffSerializationProxies();
}

} // namespace stiffhost

#endif /* STIFFHOST_KERNEL_FACTORY_H_ */
