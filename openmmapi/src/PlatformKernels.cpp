#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/KernelFactory.h"
#include "openmm/OpenMMException.h"
#include <map>
#include <mutex>
#include <string>
#include <vector>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;

namespace {

/** What is known of the platforms of this process. */
struct Registry {
    std::mutex lock;
    std::map<string, string> descriptions; // by the name of the platform
    void (*provide)(Platform&) = nullptr;
};

Registry& getRegistry() {
    static Registry registry;
    return registry;
}

const std::vector<string>& getKernelNames() {
    static const std::vector<string> names = {StepKernel<HMMIntegrator>::Name(), IntegrateImpulseStepKernel::Name(),
                                              IntegrateMassPenaltyStepKernel::Name(), IntegrateSpookStepKernel::Name(),
                                              IntegrateZhangSkeelStepKernel::Name()};
    return names;
}

/** The platforms with a library of their own are not given other kernels in its place, which are slower there. */
bool hasOwnLibrary(const Platform& platform) {
    return platform.getName() == "Reference" || platform.getName() == "CPU";
}

/** Stands where there are no kernels. */
class Explanation : public KernelFactory {
public:
    KernelImpl* createKernelImpl(string, const Platform& platform, ContextImpl&) const override {
        const string& name = platform.getName();
        string message = "The integrators of OpenMM-Stiff have no kernels for the platform " + name +
                         ": the library libOpenMMStiff" + (hasOwnLibrary(platform) ? name : "Generic") +
                         " has not been loaded";
        for (const string& failure : Platform::getPluginLoadFailures())
            if (failure.find("OpenMMStiff") != string::npos)
                message += ". " + failure;
        throw OpenMMException(message + ". Load it with Platform::loadPluginLibrary(), install OpenMM-Stiff again, or"
                                        " choose another platform for the Context");
    }
};

void registerFactory(Platform& platform, KernelFactory* factory) {
    for (const string& name : getKernelNames())
        platform.registerKernelFactory(name, factory);
}

string describe(const string& platformName) {
    const std::lock_guard<std::mutex> guard(getRegistry().lock);
    const auto& descriptions = getRegistry().descriptions;
    const auto place = descriptions.find(platformName);
    return place == descriptions.end() ? "" : place->second;
}

/** Call visit(platform) for those without kernels. */
template <class Visit> void forEachWithoutKernels(Visit&& visit) {
    for (int i = 0; i < Platform::getNumPlatforms(); i++) {
        Platform& platform = Platform::getPlatform(i);
        if (describe(platform.getName()).empty())
            visit(platform);
    }
}

} // namespace

void OpenMMStiff::registerKernels(Platform& platform, KernelFactory* factory, const string& description) {
    registerFactory(platform, factory);
    const std::lock_guard<std::mutex> guard(getRegistry().lock);
    getRegistry().descriptions[platform.getName()] = description;
}

void OpenMMStiff::registerKernels(const string& platformName, KernelFactory* factory, const string& description) {
    for (int i = 0; i < Platform::getNumPlatforms(); i++)
        if (Platform::getPlatform(i).getName() == platformName)
            return registerKernels(Platform::getPlatform(i), factory, description);
    delete factory;
}

void OpenMMStiff::provideForAnyPlatform(void (*provide)(Platform&)) {
    getRegistry().provide = provide;
    forEachWithoutKernels([&](Platform& platform) {
        if (!hasOwnLibrary(platform))
            provide(platform);
    });
}

void OpenMMStiff::completePlatforms() {
    const auto provide = getRegistry().provide;
    forEachWithoutKernels([&](Platform& platform) {
        if (provide != nullptr && !hasOwnLibrary(platform))
            provide(platform);
        else if (!platform.supportsKernels(getKernelNames()))
            registerFactory(platform, new Explanation());
    });
}

string OpenMMStiff::describeKernels(const string& platformName) {
    completePlatforms();
    return describe(Platform::getPlatformByName(platformName).getName());
}
