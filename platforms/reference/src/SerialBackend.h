#ifndef STIFFREFERENCE_SERIAL_BACKEND_H_
#define STIFFREFERENCE_SERIAL_BACKEND_H_

#include "SimTKOpenMMUtilities.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffhost/InPlaceState.h"
#include <iosfwd>
#include <memory>

namespace stiffreference {

/**
 * The Reference platform's way: one thread, and OpenMM's random numbers in double precision, which its checkpoints
 * hold.
 */
class SerialBackend {
public:
    /// One small block at a time.
    using Real = double;
    std::unique_ptr<stiffhost::HostState> makeState(OpenMM::ContextImpl& context) {
        return std::make_unique<stiffhost::InPlaceState>(context);
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
    void write(std::ostream&) {
    }
    void read(std::istream&) {
    }
};

} // namespace stiffreference

#endif /* STIFFREFERENCE_SERIAL_BACKEND_H_ */
