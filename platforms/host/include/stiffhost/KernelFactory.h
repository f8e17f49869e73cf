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
#include <memory>
#include <string>

namespace stiffhost {

/**
 * Creates the kernels of all integrators.
 *
 * MakeBackend is called as makeBackend(context) and returns a unique_ptr to a Backend, see HostParticles.
 */
template <class Backend, class MakeBackend> class KernelFactory : public OpenMM::KernelFactory {
public:
    explicit KernelFactory(MakeBackend makeBackend) : makeBackend(makeBackend) {
    }
    OpenMM::KernelImpl* createKernelImpl(std::string name, const OpenMM::Platform& platform,
                                         OpenMM::ContextImpl& context) const override {
        return createFrom<HMMKernel<Backend>, ImpulseKernel<Backend>, MassPenaltyKernel<Backend>, SpookKernel<Backend>,
                          ZhangSkeelKernel<Backend>>(name, platform, context);
    }

private:
    template <class... Kernels>
    OpenMM::KernelImpl* createFrom(const std::string& name, const OpenMM::Platform& platform,
                                   OpenMM::ContextImpl& context) const {
        OpenMM::KernelImpl* kernel = nullptr;
        ((name == Kernels::Name() &&
          (kernel = new Kernels(name, platform, makeBackend(context), context)) != nullptr) ||
         ...);
        if (kernel == nullptr)
            throw OpenMM::OpenMMException("Tried to create kernel with illegal kernel name '" + name + "'");
        return kernel;
    }

    const MakeBackend makeBackend;
};

} // namespace stiffhost

#endif /* STIFFHOST_KERNEL_FACTORY_H_ */
