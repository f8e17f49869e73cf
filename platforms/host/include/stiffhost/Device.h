#ifndef STIFFHOST_DEVICE_H_
#define STIFFHOST_DEVICE_H_

#include "Vectors.h"
#include "stiffcore/methods/ImplicitMethod.h"
#include "stiffcore/methods/ImpulseMethod.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include <array>
#include <variant>
#include <vector>

namespace stiffhost {

/**
 * A device that takes the steps of molecules that are small enough for a thread, or for a team of threads, without a
 * transfer.
 *
 * What it is told to do is done later, so that whether a step has failed is asked for now and then only. From the failure
 * on it does nothing; what the particles were before it is kept.
 */
class Device {
public:
    /** The methods that it takes steps of, and what binds their blocks. */
    using Method = std::variant<stiffcore::PenaltyMethod, stiffcore::ImpulseMethod, stiffcore::ImplicitMethod>;
    using Terms = std::variant<const stiffcore::PairTerms*, const stiffcore::StiffTerms*>;
    using Blocks = std::vector<stiffcore::Block>;
    /** A state of the Context, and, if the method has them, the positions and velocities that it propagates. */
    struct State {
        Vectors positions, velocities, propagated, propagatedVelocities;
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

    /**
     * Compile the kernels of a method.
     *
     * @param outside   blocks that somebody else moves, see getOutside()
     * @param terms     those of the method's batches
     */
    virtual void compile(const Method& method, const Blocks& blocks, const Blocks& outside, Terms terms,
                         const std::vector<double>& masses) = 0;
    /** Whether the particles of each block lie together: OpenMM has not moved some of them through the box. */
    virtual bool areTogether() const = 0;

    /** Begin and end a step. Particles may be given another order at its end. */
    virtual void beginStep(const stiffcore::StepNumbers& numbers) = 0;
    virtual void endStep() = 0;
    /** Execute a kernel of the method with the forces that have been computed last. */
    virtual void execute(int kernel) = 0;
    /** Get the state of the particles that somebody else moves, and the forces on them, not finite if they are too large. */
    virtual void getOutside(Vectors& positions, Vectors& velocities, Vectors& forces) = 0;
    /**
     * Give them other positions and velocities.
     *
     * @param isFirst   whether the step begins with what they were
     */
    virtual void setOutside(int kernel, bool isFirst, const Vectors& positions, const Vectors& velocities) = 0;
    /** The step has failed in this kernel because of one of them, or its block. */
    virtual void failOutside(int kernel, FailureKind kind, int particle) = 0;

    /** Whether it should be asked for failures now, rather than after more steps. */
    virtual bool isTimeToAsk() const = 0;
    /** Wait for all that it has been told; true if a step has failed. */
    virtual bool hasFailed() = 0;
    /** After a failure: put back the time and the box of before, and get the rest of the state. */
    virtual Failure recover() = 0;

    /** Remember the present state; get it; find out, at little cost, whether it is still that of the Context. */
    virtual void remember() = 0;
    virtual State recall() const = 0;
    virtual bool isAsRemembered() = 0;

    /** The kinetic energy of the Context's velocities. */
    virtual double computeKineticEnergy() = 0;
    /** Set what positions have that are shown, beyond those that are propagated; what else is kept is void. */
    virtual void setOffsets(const Vectors& offsets) = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_DEVICE_H_ */
