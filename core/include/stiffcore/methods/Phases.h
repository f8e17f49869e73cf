#ifndef STIFFCORE_METHODS_PHASES_H_
#define STIFFCORE_METHODS_PHASES_H_

#include <algorithm>
#include <array>
#include <vector>

/**
 * A step is a list of phases. Some are of the whole System: forces, virtual sites, the System's constraints. The others
 * work on one block at a time, and are written once, in the struct of their method:
 *
 *     Phase                                  their names; Thermalize is the one that draws noise
 *     langevin                               whether there is a heat bath
 *     takesForces, getEffect(phase)          the phase that loads them; what a phase changes of the Context
 *     execute(phase, batch, work, port)
 *
 * A particle that nothing binds is a block without terms. Lists of phases are executed on the host for batches of blocks
 * (stiffhost::Machine), and those of the mass penalty on a device: for one block a thread, for which they are recorded once
 * (stiffdevice::BlockText), or a team of threads, whose text is written by hand (stiffdevice::TeamText). Before the
 * first phase work.x and work.v are the block's positions and velocities, and after the last they are what becomes of
 * them. All else goes through a Port:
 *
 *     uniform(which), box()                  numbers that are the same for all blocks
 *     loadForces(batch, vectors)             the forces that have been computed last
 *     keep, recall(batch, vectors)           accelerations, from one list to others
 *     drawNoise(batch, vectors)              the noise of the heat bath, for the masses
 *     drawTermNoise(batch, numbers)          the same for the inertia of each term
 *     require(mask)                          fails the step where it is false
 */
namespace stiffcore {

/** The numbers that are the same for all blocks. */
enum class Uniform {
    StepSize,
    Tolerance,
    /// kT, and of the heat bath exp(-gamma h) and the amplitude of the noise.
    ThermalEnergy,
    Decay,
    NoiseAmplitude,
    /// beta h^2 of implicit methods, the number of micro-steps of a flow of impulse methods.
    HessianFactor,
    NumMicroSteps,
    /// The kinetic energy of a particle beyond which a kick of the mass penalty has failed.
    CollisionEnergy,
    Count
};

/** Their values. */
struct StepNumbers {
    std::array<double, int(Uniform::Count)> values = {};

    double& operator[](Uniform which) {
        return values[int(which)];
    }
    double operator[](Uniform which) const {
        return values[int(which)];
    }
};

/** What a phase changes of the Context; positions change together with velocities. */
enum class Effect { Nothing, Velocities, Positions };

/** A list of phases that a device executes as one kernel; empty if a method has none in its place. */
template <class PhaseType> struct PhaseList {
    const char* name = "";
    std::vector<PhaseType> phases;
    /// Whether the Context still has the state that the step began with, which is kept for the case that the step fails.
    bool begins = false;
};

/** The largest effect of some phases. */
template <class Method, class Phases> Effect getEffectOf(const Phases& phases) {
    Effect effect = Effect::Nothing;
    for (typename Method::Phase phase : phases)
        effect = std::max(effect, Method::getEffect(phase));
    return effect;
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_PHASES_H_ */
