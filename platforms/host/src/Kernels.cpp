#include "stiffhost/Kernels.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffhost/KernelFactory.h"
#include <cstdlib>
#include <string>

using namespace stiffhost;

#ifdef OPENMM_STIFF_AVX2_LIBRARY
#include <dlfcn.h>

namespace {

/// The baseline is for x86 processors of before 2013, and for who asks for it.
using BaselineReal = double;

/** The kernels for AVX2 and FMA, from the library beside this one; null if it is missing, or not for this processor. */
OpenMM::KernelFactory* makeAvx2Factory(MakeResources makeResources) {
    const char* choice = std::getenv("OPENMM_STIFF_SIMD");
    if (choice != nullptr && std::string(choice) == "baseline")
        return nullptr;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return nullptr;
    // Something that no other library has.
    static const char here = 0;
    Dl_info own;
    if (dladdr(&here, &own) == 0)
        return nullptr;
    const std::string path = own.dli_fname;
    void* library =
            dlopen((path.substr(0, path.rfind('/') + 1) + OPENMM_STIFF_AVX2_LIBRARY).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return nullptr;
    using Make = OpenMM::KernelFactory* (*) (MakeResources);
    const Make make = reinterpret_cast<Make>(dlsym(library, "makeAvx2KernelFactory"));
    return make == nullptr ? nullptr : make(makeResources);
}

} // namespace
#else
namespace {

using BaselineReal = stiffcore::Lanes;

OpenMM::KernelFactory* makeAvx2Factory(MakeResources) {
    return nullptr;
}

} // namespace
#endif

Kernels stiffhost::getKernels(MakeResources makeResources) {
    OpenMM::KernelFactory* avx2 = makeAvx2Factory(makeResources);
    if (avx2 != nullptr)
        return {avx2, "threads, AVX2"};
    return {new KernelFactory<BaselineReal>(makeResources), "threads, the processor's baseline"};
}

Kernels stiffhost::getSerialKernels(MakeResources makeResources) {
    return {new KernelFactory<double>(makeResources), "one thread, one molecule at a time"};
}
