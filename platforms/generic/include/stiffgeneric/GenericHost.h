#ifndef STIFFGENERIC_GENERIC_HOST_H_
#define STIFFGENERIC_GENERIC_HOST_H_

#include "CopiedState.h"
#include "RandomStreams.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ThreadPool.h"
#include "openmm/internal/hardware.h"
#include "stiffthreaded/Host.h"
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

namespace stiffgeneric {

/**
 * What any platform gives: copies of its state, and the processor's threads, which are not its own. As many as the
 * environment variable OPENMM_CPU_THREADS says, which OpenMM's own platforms look at, or as there are processors; but
 * no more than have something to do.
 */
class GenericHost final : public stiffthreaded::Host {
public:
    explicit GenericHost(OpenMM::ContextImpl& context) : threads(chooseNumThreads(context.getSystem())) {
    }
    OpenMM::ThreadPool& getThreads() override {
        return threads;
    }
    std::unique_ptr<stiffhost::HostState> makeState(OpenMM::ContextImpl& context) override {
        return std::make_unique<CopiedState>(context);
    }
    int getNumStreams() override {
        return RandomStreams::count;
    }
    void initializeRandom(int seed) override {
        random.initialize(seed);
    }
    double gaussian(int stream) override {
        return random(stream);
    }
    void write(std::ostream& stream) override {
        random.write(stream);
    }
    void read(std::istream& stream) override {
        random.read(stream);
    }

private:
    static int chooseNumThreads(const OpenMM::System& system) {
        // A loop over fewer particles than this takes no longer than waking another thread for it.
        const int minParticlesPerThread = 500;
        const char* asked = std::getenv("OPENMM_CPU_THREADS");
        int number = (asked == nullptr ? 0 : std::atoi(asked));
        if (number <= 0)
            number = getNumProcessors();
        return std::max(1, std::min(number, system.getNumParticles() / minParticlesPerThread));
    }

    OpenMM::ThreadPool threads;
    RandomStreams random;
};

} // namespace stiffgeneric

#endif /* STIFFGENERIC_GENERIC_HOST_H_ */
