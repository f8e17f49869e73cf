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
 * Creates the kernels of all integrators, with small blocks in the numbers of a type.
 */
template <class Real> class KernelFactory : public OpenMM::KernelFactory {
public:
    explicit KernelFactory(MakeResources makeResources) : makeResources(makeResources) {
    }
    OpenMM::KernelImpl* createKernelImpl(std::string name, const OpenMM::Platform& platform,
                                         OpenMM::ContextImpl& context) const override {
        return createFrom<HMMKernel<Real>, ImpulseKernel<Real>, MassPenaltyKernel<Real>, SpookKernel<Real>,
                          ZhangSkeelKernel<Real>>(name, platform, context);
    }

private:
    template <class... Kernels>
    OpenMM::KernelImpl* createFrom(const std::string& name, const OpenMM::Platform& platform,
                                   OpenMM::ContextImpl& context) const {
        OpenMM::KernelImpl* kernel = nullptr;
        ((name == OpenMMStiff::kernelName<typename Kernels::Integrator> &&
          (kernel = new Kernels(name, platform, makeResources(context), context))) ||
         ...);
        if (kernel == nullptr)
            throw OpenMM::OpenMMException("Tried to create kernel with illegal kernel name '" + name + "'");
        return kernel;
    }

    const MakeResources makeResources;
};

} // namespace stiffhost

#endif /* STIFFHOST_KERNEL_FACTORY_H_ */
