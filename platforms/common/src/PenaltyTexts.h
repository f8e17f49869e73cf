#ifndef STIFFCOMMON_PENALTY_TEXTS_H_
#define STIFFCOMMON_PENALTY_TEXTS_H_

#include "BlockText.h"
#include "stiffcore/methods/PenaltyStep.h"

/**
 * The kernels of the mass penalty, recorded from the steps that the host takes too. Those of free particles are of
 * blocks with one particle and no pair.
 */
namespace stiffcommon {

using TracedPairs = stiffcore::PairBatch<Traced>;
using PairScratch = stiffcore::PairWorkspace<Traced>;

/** Positions, velocities and accelerations of a block. */
template <class Batch, class Workspace> void loadState(BlockText& text, const Batch& batch, Workspace& work) {
    for (int i = 0; i < batch.numParticles(); i++) {
        work.x[i] = text.position(i);
        work.v[i] = BlockText::Vector::Zero();
        work.a[i] = BlockText::Vector::Zero();
    }
    for (int i = 0; i < batch.numMobile; i++) {
        work.v[i] = text.velocity(i);
        work.a[i] = text.force(i) * batch.inverseMasses[i];
    }
}
/** Positions and velocities go back. */
template <class Batch, class Workspace> void storeState(BlockText& text, const Batch& batch, const Workspace& work) {
    for (int i = 0; i < batch.numMobile; i++)
        text.move(i, work.x[i], work.v[i]);
}

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
    const auto converged = moveLangevin(batch, readPenaltyStep(text, metricCorrection), box, work, [&] {
        const Traced amplitude = text.uniform(Uniform::NoiseAmplitude);
        for (int i = 0; i < batch.numMobile; i++)
            work.noise[i] = text.normalVector() * Traced(amplitude * sqrt(batch.inverseMasses[i]));
        for (int p = 0; p < batch.numRows(); p++)
            work.pairNoise[p] =
                    (batch.row(p).constrained ? Traced(0) : text.normal() * amplitude * sqrt(batch.inverseInertias[p]));
    });
    storeState(text, batch, work);
    text.require(converged);
}

inline void recordPenaltyMove(BlockText& text, const TracedPairs& batch, PairScratch& work) {
    const auto box = text.box();
    beginPenaltyStep(text, batch, work, box);
    const auto converged = moveVerlet(batch, readPenaltyStep(text, false), box, work);
    storeState(text, batch, work);
    text.require(converged);
}

inline void recordPenaltyKick(BlockText& text, const TracedPairs& batch, PairScratch& work) {
    beginPenaltyStep(text, batch, work, text.box());
    stiffcore::kick(batch, 0.5 * text.uniform(Uniform::StepSize), work);
    for (int i = 0; i < batch.numMobile; i++)
        text.accelerate(i, work.v[i]);
}

// Free particles.

inline void recordFreeLangevin(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize), inverseMass = text.inverseMass(0);
    BlockText::Vector v = text.velocity(0) + text.force(0) * Traced(h * inverseMass);
    BlockText::Vector x = v * Traced(0.5 * h);
    v = v * text.uniform(Uniform::Decay) +
        text.normalVector() * Traced(text.uniform(Uniform::NoiseAmplitude) * sqrt(inverseMass));
    x += v * Traced(0.5 * h);
    text.move(0, x, v);
}

inline void recordFreeMove(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    const BlockText::Vector v = text.velocity(0) + text.force(0) * Traced(0.5 * h * text.inverseMass(0));
    text.move(0, v * h, v);
}

inline void recordFreeKick(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    text.accelerate(0, text.velocity(0) + text.force(0) * Traced(0.5 * h * text.inverseMass(0)));
}

} // namespace stiffcommon

#endif /* STIFFCOMMON_PENALTY_TEXTS_H_ */
