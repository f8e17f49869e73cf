#ifndef STIFFCORE_METHODS_IMPULSE_METHOD_H_
#define STIFFCORE_METHODS_IMPULSE_METHOD_H_

#include "FastFlow.h"
#include "Phases.h"
#include "TangentSpace.h"

namespace stiffcore {

/**
 * The impulse methods: kicks of the slow forces, plain or projected, and the motion under the stiff terms; with a heat bath
 * one kick, and the heat bath in the middle of the motion. See docs/impulse.md.
 */
struct ImpulseMethod {
    enum Phase { Recall, Accelerate, Kick, Flow, Thermalize };

    static constexpr Phase takesForces = Accelerate;

    bool langevin;

    static Effect getEffect(Phase phase) {
        return phase == Flow ? Effect::Positions : phase < Kick ? Effect::Nothing : Effect::Velocities;
    }

    template <class Real, class Port>
    void execute(Phase phase, const StiffBatch<Real>& batch, StiffWorkspace<Real>& work, Port& port) const {
        const double h = port.uniform(Uniform::StepSize);
        switch (phase) {
        case Recall:
            return port.recall(batch, work.a);
        case Accelerate: // a = M^-1 (F + grad V1), maybe projected
            port.loadForces(batch, work.a);
            leaveSlowAccelerations(batch, port.box(), work);
            port.require(projectOnTangentSpace(batch, port.box(), work, work.a) & areFinite(batch, work.a));
            if (!langevin)
                port.keep(batch, work.a);
            return;
        case Kick:
            return addScaled(batch, Real((langevin ? 1 : 0.5) * h), work.a, work.v);
        case Flow:
            flowFast(batch, (langevin ? 0.5 : 1) * h, (int) port.uniform(Uniform::NumMicroSteps), port.box(), work);
            return port.require(areFinite(batch, work.x) & areFinite(batch, work.v));
        case Thermalize:
            port.drawNoise(batch, work.residual);
            return scaleAndAdd(batch, Real(port.uniform(Uniform::Decay)), work.residual, work.v);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_IMPULSE_METHOD_H_ */
