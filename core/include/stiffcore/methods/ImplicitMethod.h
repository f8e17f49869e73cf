#ifndef STIFFCORE_METHODS_IMPLICIT_METHOD_H_
#define STIFFCORE_METHODS_IMPLICIT_METHOD_H_

#include "ImplicitSolve.h"
#include "Phases.h"
#include "TangentSpace.h"

namespace stiffcore {

/**
 * The Zhang-Skeel family: half a kick with a(x), a drift, and half a kick with a at its end, and the heat bath, whose noise
 * may be projected. (M + c H1(x)) a = F, c = beta h^2; other methods of the family compute a for the whole System. Between
 * steps the Context shows q = x + c a: what is kept are the offset q - x, and a. See docs/zhang-skeel.md.
 */
struct ImplicitMethod {
    template <class Real> using Batch = StiffBatch<Real>;
    enum Phase { Leave, Recall, Solve, Kick, Thermalize, Drift, Show };
    /// A step that begins without a goes to x first, where forces are computed.
    enum Kernels { Begin, FirstMove, Move, Finish };

    static constexpr Phase takesForces = Solve;

    bool langevin, projectsNoise;
    /// Whether M + c H1 need not be positive definite; on a device it must be.
    bool mayBeIndefinite = false;

    std::vector<PhaseList<Phase>> getKernels() const {
        PhaseList<Phase> finish = {"finish", {Solve, Kick, Show}};
        if (langevin)
            finish.phases = {Solve, Kick, Thermalize, Show};
        return {{"begin", {Leave}, true},
                {"firstMove", {Solve, Kick, Drift}},
                {"move", {Leave, Recall, Kick, Drift}, true},
                finish};
    }
    static Effect getEffect(Phase phase) {
        return phase == Recall || phase == Solve      ? Effect::Nothing
               : phase == Kick || phase == Thermalize ? Effect::Velocities
                                                      : Effect::Positions;
    }
    static Place getPlace(const Block& block, const StiffTerms&) {
        return 3 * block.numMobile <= 18 && block.otherTerms.empty() ? Place::Thread : Place::Outside;
    }

    template <class Real, class Port>
    void execute(Phase phase, const StiffBatch<Real>& batch, StiffWorkspace<Real>& work, Port& port) const {
        const UniformOf<Real> h = port.uniform(Uniform::StepSize), c = port.uniform(Uniform::HessianFactor);
        Vectors3<Real>&offset = work.residual, &noise = work.residual;
        switch (phase) {
        case Leave: // from what is shown to x, which is what is shown while forces are computed
            port.load(batch, KeptVector::Offset, offset);
            port.keep(batch, KeptVector::OffsetBefore, offset);
            for (int i = 0; i < batch.numMobile; i++) {
                work.x[i] -= offset[i];
                offset[i].setZero();
            }
            return port.keep(batch, KeptVector::Offset, offset);
        case Recall:
            return port.load(batch, KeptVector::Acceleration, work.a);
        case Solve:
            port.loadForces(batch, work.forces);
            port.require(solveImplicitly(batch, c, mayBeIndefinite, port.box(), work));
            return port.keep(batch, KeptVector::Acceleration, work.a);
        case Kick:
            return addScaled(batch, Real(0.5 * h), work.a, work.v);
        case Thermalize:
            port.drawNoise(batch, noise);
            if (projectsNoise)
                port.require(projectOnTangentSpace(batch, port.box(), work, noise));
            return scaleAndAdd(batch, Real(port.uniform(Uniform::Decay)), noise, work.v);
        case Drift:
            return addScaled(batch, Real(h), work.v, work.x);
        case Show:
            for (int i = 0; i < batch.numMobile; i++) {
                offset[i] = work.a[i] * Real(c);
                work.x[i] += offset[i];
            }
            return port.keep(batch, KeptVector::Offset, offset);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_IMPLICIT_METHOD_H_ */
