#ifndef STIFFTHREADED_THREADED_KERNELS_H_
#define STIFFTHREADED_THREADED_KERNELS_H_

#include "Host.h"
#include "openmm/KernelFactory.h"
#include "openmmstiff/internal/windowsExportStiff.h"

namespace stiffthreaded {

/** A factory for the kernels of all integrators, and the instructions that they are compiled for. */
struct ThreadedKernels {
    OpenMM::KernelFactory* factory;
    const char* instructions;
};

/**
 * Get the threaded kernels of the build that is best on this processor: that with AVX2 and FMA where there is one,
 * unless the environment variable OPENMM_STIFF_SIMD is "baseline".
 *
 * @param makeHost   makes what the platform of a Context gives to them
 */
OPENMM_EXPORT_STIFF ThreadedKernels getThreadedKernels(MakeHost makeHost);

} // namespace stiffthreaded

#endif /* STIFFTHREADED_THREADED_KERNELS_H_ */
