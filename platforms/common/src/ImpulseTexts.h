#ifndef STIFFCOMMON_IMPULSE_TEXTS_H_
#define STIFFCOMMON_IMPULSE_TEXTS_H_

#include "FreeTexts.h"
#include "stiffcore/methods/FastFlow.h"
#include "stiffcore/methods/TangentSpace.h"

/**
 * The kernels of the impulse methods, with a kick that is plain or projected.
 */
namespace stiffcommon {

using TracedTerms = stiffcore::StiffBatch<Traced>;
using TermScratch = stiffcore::StiffWorkspace<Traced>;

/** The accelerations of the slow forces at work.x, into work.a. */
inline Traced::Mask readSlowAccelerations(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    const auto box = text.box();
    for (int i = 0; i < batch.numMobile; i++)
        work.a[i] = text.force(i);
    leaveSlowAccelerations(batch, box, work);
    return projectOnTangentSpace(batch, box, work, work.a);
}

inline void loadMotion(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    for (int i = 0; i < batch.numParticles(); i++) {
        work.x[i] = text.position(i);
        work.v[i] = i < batch.numMobile ? text.velocity(i) : BlockText::Vector::Zero();
        work.a[i] = BlockText::Vector::Zero();
    }
}

inline void flow(BlockText& text, const TracedTerms& batch, const Traced& time, TermScratch& work) {
    flowFast(batch, time, text.uniform(Uniform::NumMicroSteps), text.box(), work);
}

inline void kickBlock(const TracedTerms& batch, const Traced& time, TermScratch& work) {
    for (int i = 0; i < batch.numMobile; i++)
        work.v[i] += work.a[i] * time;
}

inline void recordImpulseLangevin(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    const Traced h = text.uniform(Uniform::StepSize);
    loadMotion(text, batch, work);
    const Traced::Mask projected = readSlowAccelerations(text, batch, work);
    kickBlock(batch, h, work);
    flow(text, batch, 0.5 * h, work);
    for (int i = 0; i < batch.numMobile; i++)
        work.v[i] = work.v[i] * text.uniform(Uniform::Decay) + drawNoise(text, batch.inverseMasses[i]);
    flow(text, batch, 0.5 * h, work);
    storeState(text, batch, work);
    text.require(projected & areFinite(batch, work.x) & areFinite(batch, work.v));
}

/** The slow accelerations, which the step after this one begins with. */
inline void recordImpulseStart(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    loadMotion(text, batch, work);
    text.require(readSlowAccelerations(text, batch, work));
    for (int i = 0; i < batch.numMobile; i++)
        text.keep(i, Kept::Acceleration, work.a[i]);
}
inline void recordImpulseMove(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    const Traced h = text.uniform(Uniform::StepSize);
    loadMotion(text, batch, work);
    for (int i = 0; i < batch.numMobile; i++)
        work.a[i] = text.kept(i, Kept::Acceleration);
    kickBlock(batch, 0.5 * h, work);
    flow(text, batch, h, work);
    storeState(text, batch, work);
    text.require(areFinite(batch, work.x) & areFinite(batch, work.v));
}
inline void recordImpulseKick(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    loadMotion(text, batch, work);
    text.require(readSlowAccelerations(text, batch, work));
    kickBlock(batch, 0.5 * text.uniform(Uniform::StepSize), work);
    for (int i = 0; i < batch.numMobile; i++) {
        text.keep(i, Kept::Acceleration, work.a[i]);
        text.accelerate(i, work.v[i]);
    }
}

// The same for free particles.

inline void recordFreeImpulseStart(BlockText& text) {
    text.keep(0, Kept::Acceleration, readAcceleration(text));
}
inline void recordFreeImpulseMove(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    const BlockText::Vector v = text.velocity(0) + text.kept(0, Kept::Acceleration) * Traced(0.5 * h);
    text.move(0, v * h, v);
}
inline void recordFreeImpulseKick(BlockText& text) {
    const BlockText::Vector a = readAcceleration(text);
    text.keep(0, Kept::Acceleration, a);
    text.accelerate(0, text.velocity(0) + a * Traced(0.5 * text.uniform(Uniform::StepSize)));
}

} // namespace stiffcommon

#endif /* STIFFCOMMON_IMPULSE_TEXTS_H_ */
