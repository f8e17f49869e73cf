#ifndef STIFF_TEST_PLATFORM_TEST_H_
#define STIFF_TEST_PLATFORM_TEST_H_

#include "Claims.h"
#include "openmm/Platform.h"
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace stifftest {

/** Give a platform the kernels for any platform, in the place of its own. */
inline void useGenericKernels(OpenMM::Platform& platform) {
    void* library = dlopen(OPENMM_STIFF_PLUGIN_DIR "/libOpenMMStiffGeneric.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr)
        throw std::runtime_error("the library with the kernels for any platform has not been loaded");
    reinterpret_cast<void (*)(OpenMM::Platform&)>(dlsym(library, "registerGenericKernels"))(platform);
}

/**
 * The main program of a test of integrators: check all claims on the platform named by the first argument. After a
 * colon comes its precision, or "generic" for the kernels for any platform in the place of its own.
 */
inline int checkOnPlatform(int argc, char* argv[], std::initializer_list<Claim<OpenMM::Platform>> claims) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " Reference|Reference:generic|CPU|OpenCL:mixed|OpenCL:double|..."
                  << std::endl;
        return 2;
    }
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_PLUGIN_DIR);
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_STIFF_PLUGIN_DIR);
    const std::string argument = argv[1], name = argument.substr(0, argument.find(':')),
                      option = (name == argument ? "" : argument.substr(name.size() + 1));
    OpenMM::Platform& platform = OpenMM::Platform::getPlatformByName(name);
    if (option == "generic")
        useGenericKernels(platform);
    else if (!option.empty())
        platform.setPropertyDefaultValue("Precision", option);
    return checkClaims(claims, platform);
}

/** Whether all forces are computed in double precision. */
inline bool hasPreciseForces(const OpenMM::Platform& platform) {
    return platform.getName() == "Reference" ||
           (platform.getName() != "CPU" && platform.getPropertyDefaultValue("Precision") == "double");
}

} // namespace stifftest

#endif /* STIFF_TEST_PLATFORM_TEST_H_ */
