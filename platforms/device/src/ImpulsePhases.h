#ifndef STIFFDEVICE_IMPULSE_PHASES_H_
#define STIFFDEVICE_IMPULSE_PHASES_H_

#include "FreePhases.h"
#include "stiffcore/methods/FastFlow.h"
#include "stiffcore/methods/TangentSpace.h"

/**
 * The kernels of the impulse methods, with a kick that is plain or projected.
 */
namespace stiffdevice {

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

inline void flow(BlockText& text, const TracedTerms& batch, const Traced& time, TermScratch& work) {
    flowFast(batch, time, text.uniform(Uniform::NumMicroSteps), text.box(), work);
}

inline void kickBlock(const TracedTerms& batch, const Traced& time, TermScratch& work) {
    for (int i = 0; i < batch.numMobile; i++)
        work.v[i] += work.a[i] * time;
}

inline void recordImpulseLangevin(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    const Traced h = text.uniform(Uniform::StepSize);
    loadState(text, batch, work);
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
    loadState(text, batch, work);
    text.require(readSlowAccelerations(text, batch, work));
    keepAccelerations(text, batch, work);
}
inline void recordImpulseMove(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    const Traced h = text.uniform(Uniform::StepSize);
    loadState(text, batch, work);
    loadKept(text, batch, work);
    kickBlock(batch, 0.5 * h, work);
    flow(text, batch, h, work);
    storeState(text, batch, work);
    text.require(areFinite(batch, work.x) & areFinite(batch, work.v));
}
inline void recordImpulseKick(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    loadState(text, batch, work);
    text.require(readSlowAccelerations(text, batch, work));
    kickBlock(batch, 0.5 * text.uniform(Uniform::StepSize), work);
    keepAccelerations(text, batch, work);
    for (int i = 0; i < batch.numMobile; i++)
        text.accelerate(i, work.v[i]);
}

} // namespace stiffdevice

#endif /* STIFFDEVICE_IMPULSE_PHASES_H_ */
