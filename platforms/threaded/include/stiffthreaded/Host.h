#ifndef STIFFTHREADED_HOST_H_
#define STIFFTHREADED_HOST_H_

#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ThreadPool.h"
#include "stiffhost/HostState.h"
#include <iosfwd>
#include <memory>

namespace stiffthreaded {

/**
 * What a platform gives to the threaded kernels of a Context.
 */
class Host {
public:
    virtual ~Host() = default;
    virtual OpenMM::ThreadPool& getThreads() = 0;
    virtual std::unique_ptr<stiffhost::HostState> makeState(OpenMM::ContextImpl& context) = 0;
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
using MakeHost = std::unique_ptr<Host> (*)(OpenMM::ContextImpl& context);

} // namespace stiffthreaded

#endif /* STIFFTHREADED_HOST_H_ */
