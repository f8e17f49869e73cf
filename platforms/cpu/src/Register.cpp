#include "ThreadedBackend.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "stiffhost/KernelFactory.h"
#include <cstdlib>
#include <string>

#ifdef OPENMM_STIFF_AVX2_LIBRARY
#include <dlfcn.h>
#endif

namespace {

using Registration = void (*)();

void registerBaseline() {
    stiffhost::KernelFactory<stiffcpu::ThreadedBackend>::registerFor("CPU");
}

#ifdef OPENMM_STIFF_AVX2_LIBRARY
/**
 * What registers the kernels compiled for this processor; null if there is nothing but the baseline for it, or if the
 * library with them is missing. It is in the folder above that of the plugins, all of which OpenMM loads everywhere.
 */
Registration findAvx2() {
    const char* choice = std::getenv("OPENMM_STIFF_SIMD");
    if (choice != nullptr && std::string(choice) == "baseline")
        return nullptr;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return nullptr;
    // Something that no other library has: all plugins have functions of the same names.
    static const char here = 0;
    Dl_info plugin;
    if (dladdr(&here, &plugin) == 0)
        return nullptr;
    const std::string path = plugin.dli_fname;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    void* library = dlopen((folder + "../" OPENMM_STIFF_AVX2_LIBRARY).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return nullptr;
    return reinterpret_cast<Registration>(dlsym(library, "registerAvx2KernelFactories"));
}
#else
Registration findAvx2() {
    return nullptr;
}
#endif

} // namespace

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    stiffhost::registerProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    const Registration registerAvx2 = findAvx2();
    (registerAvx2 != nullptr ? registerAvx2 : registerBaseline)();
}
