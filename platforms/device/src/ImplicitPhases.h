#ifndef STIFFDEVICE_IMPLICIT_PHASES_H_
#define STIFFDEVICE_IMPLICIT_PHASES_H_

#include "FreePhases.h"
#include "ImpulsePhases.h"
#include "stiffcore/methods/ImplicitSolve.h"

/**
 * The kernels of the method StiffHessian of the Zhang-Skeel family. Between steps the Context shows q = x + c a,
 * c = beta h^2; what is kept are the offset q - x, and a.
 */
namespace stiffdevice {

/** Bring a particle from q back to x; what it was is kept. */
inline BlockText::Vector leaveShown(BlockText& text, int i) {
    const BlockText::Vector offset = text.kept(i, KeptVector::Offset);
    text.keep(i, KeptVector::OffsetBefore, offset);
    return text.position(i) - offset;
}
/** Show q, with an acceleration a, which is kept. */
inline void show(BlockText& text, int i, const BlockText::Vector& x, const BlockText::Vector& a) {
    const BlockText::Vector offset = a * text.uniform(Uniform::HessianFactor);
    text.keep(i, KeptVector::Offset, offset);
    text.keep(i, KeptVector::Acceleration, a);
    text.place(i, x + offset);
}

/** Half a kick and a drift, from x; they end at x, which the Context shows while forces are computed. */
inline void moveParticle(BlockText& text, int i) {
    const Traced h = text.uniform(Uniform::StepSize);
    const BlockText::Vector v = text.velocity(i) + text.kept(i, KeptVector::Acceleration) * Traced(0.5 * h),
                            x = leaveShown(text, i);
    text.keep(i, KeptVector::Offset, BlockText::Vector::Zero());
    text.move(i, x + v * h, v);
}
/** Where a is not known: go to x. */
inline void goToPropagated(BlockText& text, int i) {
    const BlockText::Vector x = leaveShown(text, i);
    text.move(i, x, text.velocity(i));
}

/** (M + c H1(x)) a = F at the present positions, into work.a. */
inline void solveBlock(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    for (int i = 0; i < batch.numParticles(); i++)
        work.x[i] = text.position(i);
    for (int i = 0; i < batch.numMobile; i++)
        work.forces[i] = text.force(i);
    const Traced::Mask definite = solveImplicitly(batch, text.uniform(Uniform::HessianFactor), text.box(), work);
    text.require(definite & areFinite(batch, work.a));
}

/** In the order of a step that begins without accelerations. */
inline void recordImplicitBegin(BlockText& text, const TracedTerms& batch, TermScratch&) {
    for (int i = 0; i < batch.numMobile; i++)
        goToPropagated(text, i);
}
inline void recordImplicitStart(BlockText& text, const TracedTerms& batch, TermScratch& work) {
    solveBlock(text, batch, work);
    for (int i = 0; i < batch.numMobile; i++) {
        text.keep(i, KeptVector::Acceleration, work.a[i]);
        text.place(i, work.x[i] + text.kept(i, KeptVector::Offset));
    }
}
inline void recordImplicitMove(BlockText& text, const TracedTerms& batch, TermScratch&) {
    for (int i = 0; i < batch.numMobile; i++)
        moveParticle(text, i);
}
/** The second half of the kick, and the heat bath, whose noise may be projected. */
inline void recordImplicitFinish(BlockText& text, const TracedTerms& batch, TermScratch& work, bool langevin,
                                 bool projects) {
    solveBlock(text, batch, work);
    stiffcore::Vectors3<Traced> noise(batch.numParticles(), BlockText::Vector::Zero());
    if (langevin)
        for (int i = 0; i < batch.numMobile; i++)
            noise[i] = drawNoise(text, batch.inverseMasses[i]);
    if (projects)
        text.require(projectOnTangentSpace(batch, text.box(), work, noise));
    for (int i = 0; i < batch.numMobile; i++) {
        BlockText::Vector v = text.velocity(i) + work.a[i] * Traced(0.5 * text.uniform(Uniform::StepSize));
        if (langevin)
            v = v * text.uniform(Uniform::Decay) + noise[i];
        text.accelerate(i, v);
        show(text, i, work.x[i], work.a[i]);
    }
}

// The same for free particles.

inline void recordFreeImplicitBegin(BlockText& text) {
    goToPropagated(text, 0);
}
inline void recordFreeImplicitStart(BlockText& text) {
    recordFreeStart(text);
    text.place(0, text.position(0) + text.kept(0, KeptVector::Offset));
}
inline void recordFreeImplicitMove(BlockText& text) {
    moveParticle(text, 0);
}
inline void recordFreeImplicitFinish(BlockText& text, bool langevin) {
    const BlockText::Vector a = readAcceleration(text);
    BlockText::Vector v = text.velocity(0) + a * Traced(0.5 * text.uniform(Uniform::StepSize));
    if (langevin)
        v = v * text.uniform(Uniform::Decay) + drawNoise(text, text.inverseMass(0));
    text.accelerate(0, v);
    show(text, 0, text.position(0), a);
}

} // namespace stiffdevice

#endif /* STIFFDEVICE_IMPLICIT_PHASES_H_ */
