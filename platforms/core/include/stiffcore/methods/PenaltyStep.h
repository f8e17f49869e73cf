#ifndef STIFFCORE_METHODS_PENALTY_STEP_H_
#define STIFFCORE_METHODS_PENALTY_STEP_H_

#include "Drift.h"
#include "ExtendedMass.h"

/**
 * The steps of the mass penalty for the pairs of a batch, between two computations of forces. They begin with the
 * accelerations work.a = M^-1 F at work.x, where load() has been called, and end with positions and tied velocities in work.
 */
namespace stiffcore {

/** What a step depends on beside the state, see docs/mass-penalty.md. */
template <class Real> struct PenaltyStep {
    UniformOf<Real> h, tolerance;
    /// The thermal energy [kJ/mol] and exp(-gamma h), if there is a heat bath.
    UniformOf<Real> kT, decay;
    bool metricCorrection;
};

/**
 * Kick, and drift with the heat bath in its middle.
 *
 * @param drawNoise   called before the heat bath, to fill in work.noise and work.pairNoise
 * @return in which lanes lengths could be solved for
 */
template <class Real, class DrawNoise>
auto moveLangevin(const PairBatch<Real>& batch, const PenaltyStep<Real>& step, const BoxFor<Real>& box,
                  PairWorkspace<Real>& work, DrawNoise&& drawNoise) {
    if (step.metricCorrection)
        addMetricForces(batch, step.kT, work);
    spread(batch, work);
    kick(batch, step.h, work);
    auto converged = driftTied(batch, 0.5 * step.h, step.tolerance, box, work);
    drawNoise();
    thermalize(batch, step.decay, work);
    converged = converged & driftTied(batch, 0.5 * step.h, step.tolerance, box, work);
    tieVelocities(batch, work);
    return converged;
}

/** Half the kick of a step. */
template <class Real> void kickVerlet(const PairBatch<Real>& batch, UniformOf<Real> h, PairWorkspace<Real>& work) {
    spread(batch, work);
    kick(batch, 0.5 * h, work);
}

/**
 * The first half of the kick, and the drift, in two halves, so that it takes the same way back. After it come forces
 * and the second half of the kick, kickVerlet().
 *
 * @return in which lanes lengths could be solved for
 */
template <class Real>
auto moveVerlet(const PairBatch<Real>& batch, const PenaltyStep<Real>& step, const BoxFor<Real>& box,
                PairWorkspace<Real>& work) {
    kickVerlet(batch, step.h, work);
    auto converged = driftTied(batch, 0.5 * step.h, step.tolerance, box, work);
    tieVelocities(batch, work);
    converged = converged & driftTied(batch, 0.5 * step.h, step.tolerance, box, work);
    tieVelocities(batch, work);
    return converged;
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_PENALTY_STEP_H_ */
