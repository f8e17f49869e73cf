#ifndef STIFFHOST_PLATFORM_RESOURCES_H_
#define STIFFHOST_PLATFORM_RESOURCES_H_

#include "HostState.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ThreadPool.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include <iosfwd>
#include <memory>

namespace stiffhost {

class Device;

/**
 * What a platform gives to the kernels of a Context.
 */
class OPENMM_EXPORT_STIFF PlatformResources {
public:
    virtual ~PlatformResources() = default;
    virtual std::unique_ptr<HostState> makeState(OpenMM::ContextImpl& context) = 0;
    /** The device that takes steps by itself; null if there is none, as by default. */
    virtual std::unique_ptr<Device> makeDevice(OpenMM::ContextImpl& context);
    /** The threads; null if there is but the present one. */
    virtual OpenMM::ThreadPool* getThreads() {
        return nullptr;
    }
    /** The steps will be of a size [ps], for which forces may get ready. */
    virtual void expectSteps(double) {
    }

    // Random numbers, in streams that threads can draw from at the same time.

    virtual int getNumStreams() = 0;
    virtual void initializeRandom(int seed) = 0;
    /** A normally distributed number. */
    virtual double gaussian(int stream) = 0;
    /** The streams, in checkpoints, unless OpenMM keeps them. */
    virtual void write(std::ostream&) {
    }
    virtual void read(std::istream&) {
    }
};

/// Makes what the platform of a Context gives.
using MakeResources = std::unique_ptr<PlatformResources> (*)(OpenMM::ContextImpl& context);
template <class Resources> std::unique_ptr<PlatformResources> makeResources(OpenMM::ContextImpl& context) {
    return std::make_unique<Resources>(context);
}

} // namespace stiffhost

#endif /* STIFFHOST_PLATFORM_RESOURCES_H_ */
