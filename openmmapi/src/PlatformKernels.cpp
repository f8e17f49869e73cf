#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/KernelFactory.h"
#include "openmm/OpenMMException.h"
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;

namespace {

/** What is known of the platforms of this process. */
class Registry {
public:
    using Provide = void (*)(Platform&);

    static Registry& get() {
        static Registry registry;
        return registry;
    }
    /** Of a platform that has kernels; empty for others. */
    string getDescription(const string& platformName) const {
        const std::lock_guard<std::mutex> guard(lock);
        const auto place = descriptions.find(platformName);
        return place == descriptions.end() ? "" : place->second;
    }
    void setDescription(const string& platformName, const string& description) {
        const std::lock_guard<std::mutex> guard(lock);
        descriptions[platformName] = description;
    }
    Provide getProvide() const {
        return provide;
    }
    void setProvide(Provide next) {
        provide = next;
    }

private:
    mutable std::mutex lock;
    std::map<string, string> descriptions;
    std::atomic<Provide> provide = nullptr;
};

const std::vector<string>& getKernelNames() {
    static const std::vector<string> names = {kernelName<HMMIntegrator>, kernelName<ImpulseIntegrator>,
                                              kernelName<MassPenaltyIntegrator>, kernelName<SpookIntegrator>,
                                              kernelName<ZhangSkeelIntegrator>};
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

/** Call visit(platform) for those without kernels. */
template <class Visit> void forEachWithoutKernels(Visit&& visit) {
    for (int i = 0; i < Platform::getNumPlatforms(); i++) {
        Platform& platform = Platform::getPlatform(i);
        if (Registry::get().getDescription(platform.getName()).empty())
            visit(platform);
    }
}

} // namespace

void OpenMMStiff::registerKernels(Platform& platform, KernelFactory* factory, const string& description) {
    registerFactory(platform, factory);
    Registry::get().setDescription(platform.getName(), description);
}

void OpenMMStiff::registerKernels(const string& platformName, KernelFactory* factory, const string& description) {
    for (int i = 0; i < Platform::getNumPlatforms(); i++)
        if (Platform::getPlatform(i).getName() == platformName)
            return registerKernels(Platform::getPlatform(i), factory, description);
    delete factory;
}

void OpenMMStiff::provideForAnyPlatform(void (*provide)(Platform&)) {
    Registry::get().setProvide(provide);
    forEachWithoutKernels([&](Platform& platform) {
        if (!hasOwnLibrary(platform))
            provide(platform);
    });
}

void OpenMMStiff::completePlatforms() {
    const auto provide = Registry::get().getProvide();
    forEachWithoutKernels([&](Platform& platform) {
        if (provide != nullptr && !hasOwnLibrary(platform))
            provide(platform);
        else if (!platform.supportsKernels(getKernelNames()))
            registerFactory(platform, new Explanation());
    });
}

string OpenMMStiff::describeKernels(const string& platformName) {
    completePlatforms();
    return Registry::get().getDescription(Platform::getPlatformByName(platformName).getName());
}
