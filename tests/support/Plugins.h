#ifndef STIFF_TEST_PLUGINS_H_
#define STIFF_TEST_PLUGINS_H_

#include "openmm/Platform.h"
#include <algorithm>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace stifftest {

/**
 * Load OpenMM's plugins, and those of this build. One that is installed among OpenMM's would take its place: libraries
 * of the same name are loaded once.
 */
inline void loadPlugins() {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(OPENMM_PLUGIN_DIR))
        if (file.path().filename().string().find("OpenMMStiff") == std::string::npos)
            names.push_back(file.path().string());
    // Short names first, as OpenMM does it: those of platforms, and then what is for these.
    std::sort(names.begin(), names.end(), [](const std::string& one, const std::string& other) {
        return one.size() != other.size() ? one.size() < other.size() : one < other;
    });
    for (const std::string& name : names)
        try {
            OpenMM::Platform::loadPluginLibrary(name);
        }
        catch (const std::exception&) {
            // It is for a device whose driver is not there.
        }
    OpenMM::Platform::loadPluginsFromDirectory(OPENMM_STIFF_PLUGIN_DIR);
}

} // namespace stifftest

#endif /* STIFF_TEST_PLUGINS_H_ */
