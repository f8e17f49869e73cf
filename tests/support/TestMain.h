#ifndef STIFFTEST_TEST_MAIN_H_
#define STIFFTEST_TEST_MAIN_H_

#include "openmm/Platform.h"
#include "openmm/internal/AssertionUtilities.h"
#include <exception>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace stifftest {

using Claims = std::vector<std::pair<std::string, std::function<void(OpenMM::Platform&)>>>;

/** Every claim of a test program by its name. */
#define CLAIM(function)                                                                                                \
    { #function, function }

/**
 * The main program of a test of integrators: run all claims on the platform named by the first argument.
 */
inline int runClaims(int argc, char* argv[], const Claims& claims) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " Reference|CPU" << std::endl;
        return 2;
    }
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_PLUGIN_DIR);
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_STIFF_PLUGIN_DIR);
    OpenMM::Platform& platform = OpenMM::Platform::getPlatformByName(argv[1]);
    int numFailed = 0;
    for (const auto& [name, claim] : claims)
        try {
            claim(platform);
        }
        catch (const std::exception& e) {
            numFailed++;
            std::cout << "FAILED " << name << ": " << e.what() << std::endl;
        }
    std::cout << claims.size() - numFailed << " passed, " << numFailed << " failed" << std::endl;
    return numFailed == 0 ? 0 : 1;
}

/** Assert that an action throws an exception whose message contains each of some words. */
inline void assertThrows(const std::function<void()>& action, const std::vector<std::string>& words) {
    std::string message;
    try {
        action();
    }
    catch (const std::exception& e) {
        message = e.what();
    }
    if (message.empty())
        OpenMM::throwException(__FILE__, __LINE__, "No exception was thrown");
    for (const std::string& word : words)
        if (message.find(word) == std::string::npos)
            OpenMM::throwException(__FILE__, __LINE__, "No '" + word + "' in the message: " + message);
}

} // namespace stifftest

#endif /* STIFFTEST_TEST_MAIN_H_ */
