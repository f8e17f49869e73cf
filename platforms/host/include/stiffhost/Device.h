#ifndef STIFFHOST_DEVICE_H_
#define STIFFHOST_DEVICE_H_

#include "Vectors.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include <array>
#include <vector>

namespace stiffhost {

/**
 * A device that takes the steps of a mass penalty without a transfer. Other methods, and Systems with molecules that are
 * too large for it, have their steps in the memory of the host.
 *
 * What it is told to do is done later, so that whether a step has failed is asked for now and then only. From the failure
 * on it does nothing; what the particles were before it is kept.
 */
class Device {
public:
    using Blocks = std::vector<stiffcore::Block>;
    /** A state of the Context, and the velocities that the method propagates. */
    struct State {
        Vectors positions, velocities, propagated;
    };
    /** Why a step has failed: because of a block, or of the forces on it, or of the velocity of a particle. */
    enum FailureKind { BlockFailed, ForcesFailed, VelocityFailed };
    struct Failure {
        FailureKind kind;
        std::vector<int> block;
        int particle;
        State before;
    };
    virtual ~Device() = default;

    /** OpenMM must not move these through the box one by one. To be said before OpenMM gets the device ready. */
    virtual void keepTogether(const std::vector<std::array<int, 2>>& pairs) = 0;
    /** OpenMM has got the device ready. */
    virtual void initialize() = 0;
    /** The random numbers of OpenMM's generator; false if somebody else has seeded it with another number. */
    virtual bool initializeRandom(int seed) = 0;

    /** Compile the kernels of a method; false if a block is too large for any. */
    virtual bool compile(const stiffcore::PenaltyMethod& method, const Blocks& blocks,
                         const stiffcore::PairTerms& terms, const std::vector<double>& masses) = 0;
    /** Whether the particles of each block lie together: OpenMM has not moved some of them through the box. */
    virtual bool areTogether() const = 0;

    /** Take out what all particles have in common, with their masses and inertias. */
    virtual void removeMotion() = 0;
    /** Begin and end a step. Particles may be given another order at its end. */
    virtual void beginStep(const stiffcore::StepNumbers& numbers) = 0;
    virtual void endStep() = 0;
    /** Execute a kernel of the method with the forces that have been computed last. */
    virtual void execute(int which) = 0;

    /** Whether it should be asked for failures now, rather than after more steps. */
    virtual bool isTimeToAsk() const = 0;
    /** Wait for all that it has been told; true if a step has failed. */
    virtual bool hasFailed() = 0;
    /** After a failure: put back the time and the box of before, and get the rest of the state. */
    virtual Failure recover() = 0;
    /** Whether particles have moved in a step that has not ended; and the state before it, but for what is propagated. */
    virtual bool isHalfDone() const = 0;
    virtual State recallBefore() const = 0;

    /** Remember the present state; get it; find out, at little cost, whether it is still that of the Context. */
    virtual void remember() = 0;
    virtual State recall() const = 0;
    virtual bool isAsRemembered() = 0;

    /** The kinetic energy of the Context's velocities. */
    virtual double computeKineticEnergy() = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_DEVICE_H_ */
