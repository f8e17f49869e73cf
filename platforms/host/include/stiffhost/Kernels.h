#ifndef STIFFHOST_KERNELS_H_
#define STIFFHOST_KERNELS_H_

#include "PlatformResources.h"
#include "openmm/KernelFactory.h"
#include "openmmstiff/internal/windowsExportStiff.h"

namespace stiffhost {

/** A factory for the kernels of all integrators, and how these work, see StiffIntegrator::describeKernels(). */
struct Kernels {
    OpenMM::KernelFactory* factory;
    const char* description;
};

/**
 * Get the kernels of the build that is best on this processor: that with AVX2 and FMA where there is one, unless the
 * environment variable OPENMM_STIFF_SIMD is "baseline".
 *
 * @param makeResources   makes what the platform of a Context gives to them
 */
OPENMM_EXPORT_STIFF Kernels getKernels(MakeResources makeResources);
/** Those that work on one molecule at a time, with double. */
OPENMM_EXPORT_STIFF Kernels getSerialKernels(MakeResources makeResources);

} // namespace stiffhost

#endif /* STIFFHOST_KERNELS_H_ */
