#ifndef STIFFREFERENCE_SERIAL_BACKEND_H_
#define STIFFREFERENCE_SERIAL_BACKEND_H_

#include "SimTKOpenMMUtilities.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffhost/HostState.h"

namespace stiffreference {

/**
 * The Reference platform's way: one thread, and OpenMM's random numbers in double precision.
 */
class SerialBackend {
public:
    /// One small block at a time.
    using Real = double;
    using State = stiffhost::HostState;
    explicit SerialBackend(OpenMM::ContextImpl&) {
    }
    int getNumThreads() const {
        return 1;
    }
    template <class Function> void forEachPart(int n, Function&& function) {
        function(0, n, 0);
    }
    template <class Function> void forEachBlock(int n, Function&& function) {
        for (int i = 0; i < n; i++)
            function(i, 0);
    }
    void expectSteps(double) {
    }
    void initializeRandom(int seed) {
        OpenMM::SimTKOpenMMUtilities::setRandomNumberSeed((unsigned int) seed);
    }
    double gaussian(int) {
        return OpenMM::SimTKOpenMMUtilities::getNormallyDistributedRandomNumber();
    }
};

} // namespace stiffreference

#endif /* STIFFREFERENCE_SERIAL_BACKEND_H_ */
