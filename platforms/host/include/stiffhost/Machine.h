#ifndef STIFFHOST_MACHINE_H_
#define STIFFHOST_MACHINE_H_

#include "HostParticles.h"
#include "HostPort.h"
#include "HostState.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace stiffhost {

/**
 * What executes the phases of a method that work on one block at a time on the host, see stiffcore/methods/Phases.h.
 *
 * @tparam Batches   the blocks of the System, see HostBatches
 */
template <class Method, class Batches> class Machine {
public:
    using Phase = typename Method::Phase;
    /** Throws the error of a block for which phases do not succeed, maybe because forces on it are not finite. */
    using Refuse = std::function<void(const std::vector<int>& block, bool forces)>;

    Machine(HostState& state, HostParticles& particles, Batches& batches, Refuse refuse)
            : state(state), particles(particles), batches(batches), refuse(std::move(refuse)) {
    }
    void initialize() {
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
    }
    /** A step of a method begins, with the numbers that are the same for all blocks. */
    void begin(const Method& method, const stiffcore::StepNumbers& numbers) {
        this->method = method;
        this->numbers = numbers;
    }
    /** One that is known only in the course of the step. */
    void setNumber(stiffcore::Uniform which, double value) {
        numbers[which] = value;
    }
    /** Those that phases keep and recall. */
    Vectors& getAccelerations() {
        return accelerations;
    }

    template <class Phases = std::initializer_list<Phase>> void run(const Phases& phases) {
        auto has = [&](Phase wanted) { return std::find(phases.begin(), phases.end(), wanted) != phases.end(); };
        const stiffcore::Effect effect = stiffcore::getEffectOf<Method>(phases);
        const double amplitude = numbers[stiffcore::Uniform::NoiseAmplitude];
        const bool draws = has(Method::Thermalize);
        const HostArrays arrays = {
                components(state.positions()),
                components(state.velocities()),
                has(Method::takesForces) ? components(state.forces()) : nullptr,
                effect == stiffcore::Effect::Positions ? components(state.changePositions()) : nullptr,
                effect != stiffcore::Effect::Nothing ? components(state.changeVelocities()) : nullptr,
                components(accelerations),
                draws ? components(particles.drawNoise(amplitude)) : nullptr,
                draws ? batches.drawNoise(amplitude) : nullptr,
                numbers,
                state.box()};
        auto execute = [&](const auto& batch, auto& work) {
            HostPort<std::decay_t<decltype(batch.inverseMasses[0])>> port(arrays);
            gather(batch, arrays.x, work.x);
            gatherVelocities(batch, arrays.v, work.v);
            for (Phase phase : phases)
                method.execute(phase, batch, work, port);
            if (arrays.newX != nullptr)
                stiffcore::scatter(batch, work.x, arrays.newX);
            if (arrays.newV != nullptr)
                stiffcore::scatter(batch, work.v, arrays.newV);
            return port.haveSucceeded();
        };
        const std::vector<int>* failed = batches.findFailed(execute).particles;
        if (failed == nullptr)
            return;
        const double* a = arrays.F != nullptr ? arrays.F : arrays.a;
        auto isNotFinite = [&](int i) { return !std::isfinite(a[3 * i] + a[3 * i + 1] + a[3 * i + 2]); };
        refuse(*failed, std::any_of(failed->begin(), failed->end(), isNotFinite));
    }

private:
    HostState& state;
    HostParticles& particles;
    Batches& batches;
    const Refuse refuse;
    Method method = {};
    stiffcore::StepNumbers numbers;
    Vectors accelerations;
};

} // namespace stiffhost

#endif /* STIFFHOST_MACHINE_H_ */
