/**
 * The threaded kernels once more, compiled for processors with AVX2 and FMA: src/ThreadedKernels.cpp calls this where
 * there is one. Nothing but this function may be seen from outside, as code that others come to share would not run
 * elsewhere: visibility is hidden, and the library is loaded with RTLD_LOCAL.
 */

#include "../src/ThreadedBackend.h"
#include "openmmstiff/internal/windowsExportStiff.h"

extern "C" OPENMM_EXPORT_STIFF OpenMM::KernelFactory* makeAvx2KernelFactory(stiffthreaded::MakeHost makeHost) {
    return stiffthreaded::makeFactory(makeHost);
}
