#ifndef STIFFDEVICE_PENALTY_PHASES_H_
#define STIFFDEVICE_PENALTY_PHASES_H_

#include "BlockText.h"
#include "FreePhases.h"
#include "stiffcore/methods/PenaltyStep.h"
#include "stiffcore/pairs/MassRoot.h"

/**
 * The kernels of the mass penalty, recorded from the steps that the host takes too.
 */
namespace stiffdevice {

using TracedPairs = stiffcore::PairBatch<Traced>;
using PairScratch = stiffcore::PairWorkspace<Traced>;

inline stiffcore::PenaltyStep<Traced> readPenaltyStep(BlockText& text, bool metricCorrection) {
    return {text.uniform(Uniform::StepSize), text.uniform(Uniform::Tolerance), text.uniform(Uniform::ThermalEnergy),
            text.uniform(Uniform::Decay), metricCorrection};
}

inline void beginPenaltyStep(BlockText& text, const TracedPairs& batch, PairScratch& work,
                             const stiffcore::BoxFor<Traced>& box) {
    loadState(text, batch, work);
    beginTied(batch, box, work);
    factorThere(batch, work);
}

inline void recordPenaltyLangevin(BlockText& text, const TracedPairs& batch, PairScratch& work, bool metricCorrection) {
    const auto box = text.box();
    beginPenaltyStep(text, batch, work, box);
    loadForces(text, batch, work);
    const auto converged = moveLangevin(batch, readPenaltyStep(text, metricCorrection), box, work, [&] {
        const Traced amplitude = text.uniform(Uniform::NoiseAmplitude);
        for (int i = 0; i < batch.numMobile; i++)
            work.noise[i] = drawNoise(text, batch.inverseMasses[i]);
        for (int p = 0; p < batch.numRows(); p++)
            work.pairNoise[p] =
                    (batch.row(p).constrained ? Traced(0) : text.normal() * amplitude * sqrt(batch.inverseInertias[p]));
    });
    storeState(text, batch, work);
    text.require(converged);
}

inline void recordPenaltyStart(BlockText& text, const TracedPairs& batch, PairScratch& work) {
    loadForces(text, batch, work);
    keepAccelerations(text, batch, work);
    text.require(true);
}
inline void recordPenaltyMove(BlockText& text, const TracedPairs& batch, PairScratch& work) {
    const auto box = text.box();
    beginPenaltyStep(text, batch, work, box);
    loadKept(text, batch, work);
    const auto converged = moveVerlet(batch, readPenaltyStep(text, false), box, work);
    storeState(text, batch, work);
    text.require(converged);
}
inline void recordPenaltyKick(BlockText& text, const TracedPairs& batch, PairScratch& work) {
    beginPenaltyStep(text, batch, work, text.box());
    loadForces(text, batch, work);
    keepAccelerations(text, batch, work);
    kickVerlet(batch, text.uniform(Uniform::StepSize), work);
    for (int i = 0; i < batch.numMobile; i++)
        text.accelerate(i, work.v[i]);
    text.require(true);
}

inline void recordPenaltyShow(BlockText& text, const stiffcore::RootBatch<Traced>& batch,
                              stiffcore::RootWorkspace<Traced>& work) {
    loadState(text, batch, work);
    factorRoot(batch, text.box(), work);
    for (int i = 0; i < batch.numMobile; i++)
        text.keep(i, KeptVector::Velocity, work.v[i]);
    applyInverseRoot(batch, work);
    for (int i = 0; i < batch.numMobile; i++)
        text.setVelocity(i, work.v[i]);
}
inline void recordPenaltyPropagate(BlockText& text, const stiffcore::RootBatch<Traced>& batch,
                                   stiffcore::RootWorkspace<Traced>&) {
    for (int i = 0; i < batch.numMobile; i++)
        text.setVelocity(i, text.kept(i, KeptVector::Velocity));
}

} // namespace stiffdevice

#endif /* STIFFDEVICE_PENALTY_PHASES_H_ */
