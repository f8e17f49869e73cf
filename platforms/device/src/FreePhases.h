#ifndef STIFFDEVICE_FREE_PHASES_H_
#define STIFFDEVICE_FREE_PHASES_H_

#include "BlockText.h"

/**
 * What the kernels of all methods begin and end with; and those for particles without a block, which are of blocks with
 * one particle.
 */
namespace stiffdevice {

/** Positions and velocities of a block; accelerations are 0. */
template <class Batch, class Workspace> void loadState(BlockText& text, const Batch& batch, Workspace& work) {
    for (int i = 0; i < batch.numParticles(); i++) {
        work.x[i] = text.position(i);
        work.v[i] = i < batch.numMobile ? text.velocity(i) : BlockText::Vector::Zero();
        work.a[i] = BlockText::Vector::Zero();
    }
}
/** Accelerations by the forces, and those that are kept from one step to the next. */
template <class Batch, class Workspace> void loadForces(BlockText& text, const Batch& batch, Workspace& work) {
    for (int i = 0; i < batch.numMobile; i++)
        work.a[i] = text.force(i) * batch.inverseMasses[i];
}
template <class Batch, class Workspace> void loadKept(BlockText& text, const Batch& batch, Workspace& work) {
    for (int i = 0; i < batch.numMobile; i++)
        work.a[i] = text.kept(i, KeptVector::Acceleration);
}
template <class Batch, class Workspace>
void keepAccelerations(BlockText& text, const Batch& batch, const Workspace& work) {
    for (int i = 0; i < batch.numMobile; i++)
        text.keep(i, KeptVector::Acceleration, work.a[i]);
}
/** Positions and velocities go back. */
template <class Batch, class Workspace> void storeState(BlockText& text, const Batch& batch, const Workspace& work) {
    for (int i = 0; i < batch.numMobile; i++)
        text.move(i, work.x[i], work.v[i]);
}

/** a = M^-1 F of a free particle. */
inline BlockText::Vector readAcceleration(BlockText& text) {
    return text.force(0) * text.inverseMass(0);
}
/** The noise of the heat bath for a particle. */
inline BlockText::Vector drawNoise(BlockText& text, const Traced& inverseMass) {
    return text.normalVector() * Traced(text.uniform(Uniform::NoiseAmplitude) * sqrt(inverseMass));
}

/** Kick, drift, heat bath, drift. */
inline void recordFreeLangevin(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    BlockText::Vector v = text.velocity(0) + readAcceleration(text) * h;
    BlockText::Vector x = v * Traced(0.5 * h);
    v = v * text.uniform(Uniform::Decay) + drawNoise(text, text.inverseMass(0));
    x += v * Traced(0.5 * h);
    text.move(0, x, v);
}

/** The acceleration, which the step after this one begins with; half a kick, drift; with other forces half a kick. */
inline void recordFreeStart(BlockText& text) {
    text.keep(0, KeptVector::Acceleration, readAcceleration(text));
}
inline void recordFreeMove(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    const BlockText::Vector v = text.velocity(0) + text.kept(0, KeptVector::Acceleration) * Traced(0.5 * h);
    text.move(0, v * h, v);
}
inline void recordFreeKick(BlockText& text) {
    const BlockText::Vector a = readAcceleration(text);
    text.keep(0, KeptVector::Acceleration, a);
    text.accelerate(0, text.velocity(0) + a * Traced(0.5 * text.uniform(Uniform::StepSize)));
}

} // namespace stiffdevice

#endif /* STIFFDEVICE_FREE_PHASES_H_ */
