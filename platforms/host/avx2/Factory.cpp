/**
 * The kernels once more, compiled for processors with AVX2 and FMA: src/Kernels.cpp calls this where there is one.
 * Nothing but this function may be seen from outside, as code that others come to share would not run elsewhere:
 * visibility is hidden, and the library is loaded with RTLD_LOCAL.
 */

#include "openmmstiff/internal/windowsExportStiff.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffhost/KernelFactory.h"

extern "C" OPENMM_EXPORT_STIFF OpenMM::KernelFactory* makeAvx2KernelFactory(stiffhost::MakeResources makeResources) {
    return new stiffhost::KernelFactory<stiffcore::Lanes>(makeResources);
}
