#include "stiffhost/AnyPlatform.h"
#include "CopiedState.h"
#include "openmm/internal/hardware.h"
#include <algorithm>
#include <cstdlib>

using namespace OpenMM;
using namespace stiffhost;

namespace {

int chooseNumThreads(const System& system) {
    // A loop over fewer particles than this takes no longer than waking another thread for it.
    const int minParticlesPerThread = 500;
    const char* asked = std::getenv("OPENMM_CPU_THREADS");
    int number = (asked == nullptr ? 0 : std::atoi(asked));
    if (number <= 0)
        number = getNumProcessors();
    return std::max(1, std::min(number, system.getNumParticles() / minParticlesPerThread));
}

} // namespace

AnyPlatform::AnyPlatform(ContextImpl& context) : threads(chooseNumThreads(context.getSystem())) {
}

ThreadPool* AnyPlatform::getThreads() {
    return &threads;
}

std::unique_ptr<HostState> AnyPlatform::makeState(ContextImpl& context) {
    return std::make_unique<CopiedState>(context);
}

int AnyPlatform::getNumStreams() {
    return RandomStreams::count;
}

void AnyPlatform::initializeRandom(int seed) {
    random.initialize(seed);
}

double AnyPlatform::gaussian(int stream) {
    return random(stream);
}

void AnyPlatform::write(std::ostream& stream) {
    random.write(stream);
}

void AnyPlatform::read(std::istream& stream) {
    random.read(stream);
}
