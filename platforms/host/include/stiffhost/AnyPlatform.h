#ifndef STIFFHOST_ANY_PLATFORM_H_
#define STIFFHOST_ANY_PLATFORM_H_

#include "PlatformResources.h"
#include "RandomStreams.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ThreadPool.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include <iosfwd>
#include <memory>

namespace stiffhost {

/**
 * What any platform gives: copies of its state, and the processor's threads, which are not its own. As many as the
 * environment variable OPENMM_CPU_THREADS says, which OpenMM's own platforms look at, or as there are processors; but
 * no more than have something to do.
 */
class OPENMM_EXPORT_STIFF AnyPlatform : public PlatformResources {
public:
    explicit AnyPlatform(OpenMM::ContextImpl& context);
    OpenMM::ThreadPool* getThreads() override;
    std::unique_ptr<HostState> makeState(OpenMM::ContextImpl& context) override;
    int getNumStreams() override;
    void initializeRandom(int seed) override;
    double gaussian(int stream) override;
    void write(std::ostream& stream) override;
    void read(std::istream& stream) override;

private:
    OpenMM::ThreadPool threads;
    RandomStreams random;
};

} // namespace stiffhost

#endif /* STIFFHOST_ANY_PLATFORM_H_ */
