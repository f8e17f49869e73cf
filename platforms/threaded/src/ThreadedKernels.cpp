#include "stiffthreaded/ThreadedKernels.h"
#include "ThreadedBackend.h"
#include <cstdlib>
#include <string>

#ifdef OPENMM_STIFF_AVX2_LIBRARY
#include <dlfcn.h>
#endif

namespace {

using MakeFactory = OpenMM::KernelFactory* (*) (stiffthreaded::MakeHost);

#ifdef OPENMM_STIFF_AVX2_LIBRARY
/** The same for AVX2 and FMA, from the library beside this one; null if it is missing, or not for this processor. */
MakeFactory findAvx2() {
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
    return reinterpret_cast<MakeFactory>(dlsym(library, "makeAvx2KernelFactory"));
}
#else
MakeFactory findAvx2() {
    return nullptr;
}
#endif

} // namespace

stiffthreaded::ThreadedKernels stiffthreaded::getThreadedKernels(MakeHost makeHost) {
    const MakeFactory makeAvx2 = findAvx2();
    if (makeAvx2 != nullptr)
        return {makeAvx2(makeHost), "AVX2"};
    return {makeFactory(makeHost), "the processor's baseline"};
}
