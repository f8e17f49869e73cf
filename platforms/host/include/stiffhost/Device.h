#ifndef STIFFHOST_DEVICE_H_
#define STIFFHOST_DEVICE_H_

#include "Vectors.h"
#include "stiffcore/model/Block.h"
#include "stiffcore/model/PenalizedPair.h"
#include "stiffcore/model/StiffTerms.h"
#include <array>
#include <vector>

namespace stiffhost {

// The programs that devices have, each with its phases: the kernels that a step is made of, between which are forces.

/**
 * A step of the mass penalty. With a heat bath Move is all of it. Show and Propagate come after and before some steps:
 * from the velocities that move particles to those that are shown, and back to what they were.
 */
struct PenaltyProgram {
    enum Phase { Start, Move, Kick, Show, Propagate };
    bool langevin, metricCorrection;
};
/** A step of the impulse methods, with a kick that is plain or projected. With a heat bath Move is all of it. */
struct ImpulseProgram {
    enum Phase { Start, Move, Kick };
    bool langevin;
};
/** A step of the method StiffHessian of the Zhang-Skeel family. */
struct ImplicitProgram {
    enum Phase { Begin, Start, Move, Finish };
    bool langevin, projectsNoise;
};

/** What a step depends on that is the same for all molecules. */
struct StepNumbers {
    double stepSize = 0, tolerance = 0;
    /// kT, and of the heat bath exp(-gamma h) and the amplitude of the noise.
    double thermalEnergy = 0, decay = 1, noiseAmplitude = 0;
    /// beta h^2 of implicit methods, the number of micro-steps of a flow of impulse methods.
    double hessianFactor = 0, numMicroSteps = 0;
};

/**
 * A device that takes the steps of molecules that are small enough for one of its threads, without a transfer.
 *
 * What it is told to do is done later, so that whether a step has failed is asked for now and then only. From the failure
 * on it does nothing; what the particles were before it is kept.
 */
class Device {
public:
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
     * Compile a program, for blocks and for the particles without one.
     *
     * @param outside   blocks that somebody else moves, see getOutside()
     */
    virtual void compile(const PenaltyProgram& program, const Blocks& blocks, const Blocks& outside,
                         const stiffcore::PairTerms& pairs, const std::vector<double>& masses) = 0;
    virtual void compile(const ImpulseProgram& program, const Blocks& blocks, const stiffcore::StiffTerms& terms,
                         const std::vector<double>& masses) = 0;
    virtual void compile(const ImplicitProgram& program, const Blocks& blocks, const stiffcore::StiffTerms& terms,
                         const std::vector<double>& masses) = 0;
    /** Whether the particles of each block lie together: OpenMM has not moved some of them through the box. */
    virtual bool areTogether() const = 0;

    /** Begin and end a step. Particles may be given another order at its end. */
    virtual void beginStep(const StepNumbers& numbers) = 0;
    virtual void endStep() = 0;
    /** Execute a phase with the forces that have been computed last. */
    virtual void execute(int phase) = 0;
    /** Get the state of the particles that somebody else moves, and the forces on them, not finite if they are too large. */
    virtual void getOutside(Vectors& positions, Vectors& velocities, Vectors& forces) = 0;
    /**
     * Give them other positions and velocities.
     *
     * @param isFirst   whether the step begins with what they were
     */
    virtual void setOutside(int phase, bool isFirst, const Vectors& positions, const Vectors& velocities) = 0;
    /** The step has failed in this phase because of one of them, or its block. */
    virtual void failOutside(int phase, FailureKind kind, int particle) = 0;

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

    /** Set what positions have that are shown, beyond those that are propagated; what else is kept is void. */
    virtual void setOffsets(const Vectors& offsets) = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_DEVICE_H_ */
