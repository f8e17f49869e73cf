#ifndef STIFFCORE_METHODS_PENALTY_METHOD_H_
#define STIFFCORE_METHODS_PENALTY_METHOD_H_

#include "../pairs/PairBatch.h"
#include "Drift.h"
#include "ExtendedMass.h"
#include "Phases.h"

namespace stiffcore {

/**
 * The mass penalty: kicks, and the motion of the extended system, which is tied to the particles' by w = G(x) v and
 * z = s(x) wherever it begins. The motion is in two halves: between them is the heat bath, or velocities are tied, so that
 * it takes the same way back. See docs/mass-penalty.md.
 */
struct PenaltyMethod {
    enum Phase { Begin, Recall, Accelerate, CorrectMetric, Kick, Drift, Thermalize, Tie };
    /// Show and Propagate are those of the velocities, see MassRoot.h.
    enum Kernels { Start, Move, Finish, Show, Propagate };

    static constexpr Phase takesForces = Accelerate;

    bool langevin, metricCorrection;

    /** The lists between phases of the whole System. */
    std::vector<PhaseList<Phase>> getKernels() const {
        if (langevin)
            return {{},
                    {"moveLangevin", {Begin, Accelerate, CorrectMetric, Kick, Drift, Thermalize, Drift, Tie}, true},
                    {}};
        return {{"start", {Accelerate}, true},
                {"move", {Begin, Recall, Kick, Drift, Tie, Drift, Tie}, true},
                {"kick", {Begin, Accelerate, Kick}}};
    }
    static Effect getEffect(Phase phase) {
        return phase == Drift ? Effect::Positions : phase < Kick ? Effect::Nothing : Effect::Velocities;
    }

    template <class Real, class Port>
    void execute(Phase phase, const PairBatch<Real>& batch, PairWorkspace<Real>& work, Port& port) const {
        const UniformOf<Real> h = port.uniform(Uniform::StepSize);
        switch (phase) {
        case Begin:
            beginTied(batch, port.box(), work);
            return factorThere(batch, work);
        case Recall:
            return port.recall(batch, work.a);
        case Accelerate: // a = M^-1 F
            port.loadForces(batch, work.a);
            for (int i = 0; i < batch.numMobile; i++)
                work.a[i] = work.a[i] * batch.inverseMasses[i];
            if (!langevin)
                port.keep(batch, work.a);
            return;
        case CorrectMetric:
            if (metricCorrection)
                addMetricForces(batch, port.uniform(Uniform::ThermalEnergy), work);
            return;
        case Kick:
            spread(batch, work);
            if (!langevin)
                return kick(batch, 0.5 * h, work);
            std::copy_n(work.v.begin(), batch.numMobile, work.start.begin());
            kick(batch, h, work);
            return port.require(!hasCollided(batch, port.uniform(Uniform::CollisionEnergy), work.start, work.v));
        case Drift:
            return port.require(driftTied(batch, 0.5 * h, port.uniform(Uniform::Tolerance), port.box(), work));
        case Thermalize:
            port.drawNoise(batch, work.noise);
            port.drawTermNoise(batch, work.pairNoise);
            return thermalize(batch, port.uniform(Uniform::Decay), work);
        case Tie:
            return tieVelocities(batch, work);
        }
    }

private:
    /** Whether a particle has more kinetic energy than is left to chance, and a kick has given it a quarter of that. */
    template <class Real>
    static MaskOf<Real> hasCollided(const PairBatch<Real>& batch, UniformOf<Real> energy, const Vectors3<Real>& before,
                                    const Vectors3<Real>& v) {
        MaskOf<Real> collided(false);
        for (int i = 0; i < batch.numMobile; i++) {
            const Real most = Real(2 * energy) * batch.inverseMasses[i], now = v[i].squaredNorm();
            collided = collided | ((now > most) & (now - before[i].squaredNorm() > Real(0.25) * most));
        }
        return collided;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_PENALTY_METHOD_H_ */
