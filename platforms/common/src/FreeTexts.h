#ifndef STIFFCOMMON_FREE_TEXTS_H_
#define STIFFCOMMON_FREE_TEXTS_H_

#include "BlockText.h"

/**
 * What the kernels of all methods begin and end with; and those for particles without a block, which are of blocks with
 * one particle.
 */
namespace stiffcommon {

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

/** Half a kick, drift; and, with other forces, half a kick. */
inline void recordFreeMove(BlockText& text) {
    const Traced h = text.uniform(Uniform::StepSize);
    const BlockText::Vector v = text.velocity(0) + readAcceleration(text) * Traced(0.5 * h);
    text.move(0, v * h, v);
}
inline void recordFreeKick(BlockText& text) {
    text.accelerate(0, text.velocity(0) + readAcceleration(text) * Traced(0.5 * text.uniform(Uniform::StepSize)));
}

} // namespace stiffcommon

#endif /* STIFFCOMMON_FREE_TEXTS_H_ */
