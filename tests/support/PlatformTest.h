#ifndef STIFF_TEST_PLATFORM_TEST_H_
#define STIFF_TEST_PLATFORM_TEST_H_

#include "Claims.h"
#include "openmm/Platform.h"

namespace stifftest {

/**
 * The main program of a test of integrators: check all claims on the platform named by the first argument.
 */
inline int checkOnPlatform(int argc, char* argv[], std::initializer_list<Claim<OpenMM::Platform>> claims) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " Reference|CPU" << std::endl;
        return 2;
    }
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_PLUGIN_DIR);
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_STIFF_PLUGIN_DIR);
    return checkClaims(claims, OpenMM::Platform::getPlatformByName(argv[1]));
}

} // namespace stifftest

#endif /* STIFF_TEST_PLATFORM_TEST_H_ */
