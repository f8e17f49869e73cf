#ifndef STIFFCORE_METHODS_IMPLICIT_METHOD_H_
#define STIFFCORE_METHODS_IMPLICIT_METHOD_H_

#include "ImplicitSolve.h"
#include "Phases.h"
#include "TangentSpace.h"

namespace stiffcore {

/**
 * The Zhang-Skeel family: half a kick with a(x), a drift, and half a kick with a at its end, and the heat bath, whose noise
 * may be projected. (M + c H1(x)) a = F, c = beta h^2; other methods of the family compute a for the whole System. Between
 * steps the Context shows q = x + c a. See docs/zhang-skeel.md.
 */
struct ImplicitMethod {
    enum Phase { Recall, Solve, Kick, Thermalize, Drift };

    static constexpr Phase takesForces = Solve;

    bool langevin, projectsNoise;
    /// Whether M + c H1 need not be positive definite.
    bool mayBeIndefinite = false;

    static Effect getEffect(Phase phase) {
        return phase == Drift ? Effect::Positions : phase < Kick ? Effect::Nothing : Effect::Velocities;
    }

    template <class Real, class Port>
    void execute(Phase phase, const StiffBatch<Real>& batch, StiffWorkspace<Real>& work, Port& port) const {
        const double h = port.uniform(Uniform::StepSize), c = port.uniform(Uniform::HessianFactor);
        Vectors3<Real>& noise = work.residual;
        switch (phase) {
        case Recall:
            return port.recall(batch, work.a);
        case Solve:
            port.loadForces(batch, work.forces);
            port.require(solveImplicitly(batch, c, mayBeIndefinite, port.box(), work));
            return port.keep(batch, work.a);
        case Kick:
            return addScaled(batch, Real(0.5 * h), work.a, work.v);
        case Thermalize:
            port.drawNoise(batch, noise);
            if (projectsNoise)
                port.require(projectOnTangentSpace(batch, port.box(), work, noise));
            return scaleAndAdd(batch, Real(port.uniform(Uniform::Decay)), noise, work.v);
        case Drift:
            return addScaled(batch, Real(h), work.v, work.x);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_IMPLICIT_METHOD_H_ */
