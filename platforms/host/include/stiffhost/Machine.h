#ifndef STIFFHOST_MACHINE_H_
#define STIFFHOST_MACHINE_H_

#include "Device.h"
#include "HostParticles.h"
#include "HostPort.h"
#include "HostState.h"
#include <algorithm>
#include <cmath>
#include <vector>

namespace stiffhost {

/** The particles of a block for which phases did not succeed, or null; and whether forces on it are not finite. */
struct FailedBlock {
    const std::vector<int>* particles;
    bool isPushed;
};

/**
 * What executes the phases of a method that work on one block at a time (see stiffcore/methods/Phases.h): on the host for
 * all blocks, or on a device for those that are small enough; the particles of others go to the host and back.
 *
 * @tparam Batches   the blocks of the System, see HostBatches
 */
template <class Method, class Batches> class Machine {
public:
    using Phase = typename Method::Phase;

    /** @param device   null if there is none */
    Machine(HostState& state, HostParticles& particles, Batches& batches, Device* device)
            : state(state), particles(particles), batches(batches), device(device) {
    }
    void initialize(const Method& method) {
        kernels = method.getKernels();
        for (Vectors* vectors : {&x, &v, &F})
            vectors->assign(particles.getMasses().size(), OpenMM::Vec3());
        for (Vectors& vectors : kept)
            vectors = x;
    }
    /** A step of a method begins, with the numbers that are the same for all blocks. */
    void begin(const Method& method, const stiffcore::StepNumbers& numbers) {
        this->method = method;
        this->numbers = numbers;
    }
    Vectors& getKept(stiffcore::KeptVector which) {
        return kept[int(which)];
    }

    /** Execute phases on the host. */
    template <class Phases> [[nodiscard]] FailedBlock run(const Phases& phases) {
        const stiffcore::Effect effect = stiffcore::getEffectOf<Method>(phases);
        const HostArrays arrays = {
                components(state.positions()),
                components(state.velocities()),
                takesForces(phases) ? components(state.forces()) : nullptr,
                effect == stiffcore::Effect::Positions ? components(state.changePositions()) : nullptr,
                effect != stiffcore::Effect::Nothing ? components(state.changeVelocities()) : nullptr,
                kept,
                nullptr,
                nullptr,
                numbers,
                state.box()};
        return run(phases, arrays, nullptr, nullptr);
    }
    [[nodiscard]] FailedBlock run(int kernel) {
        return run(kernels[kernel].phases);
    }

    // On a device.

    /** Compile the kernels of a method. */
    template <class Terms>
    void compile(const Method& method, const std::vector<stiffcore::Block>& blocks, const Terms& terms) {
        Device::Blocks small, large;
        largeParticles.clear();
        largeTerms.clear();
        isParticleLarge.assign(particles.getMasses().size(), false);
        for (const stiffcore::Block& block : blocks) {
            const bool fits = Method::getPlace(block, terms) != stiffcore::Place::Outside;
            (fits ? small : large).push_back(block);
            if (fits)
                continue;
            isParticleLarge[block.particles[0]] = true;
            largeParticles.insert(largeParticles.end(), block.particles.begin(), block.particles.end());
            largeTerms.insert(largeTerms.end(), block.terms.begin(), block.terms.end());
        }
        device->compile(method, small, large, &terms, particles.getMasses());
    }
    /** Whether the device does not take the blocks of a batch, and whether there are any such. */
    template <class Batch> bool isLarge(const Batch& batch) const {
        return isParticleLarge[batch.particles[0][0]];
    }
    bool hasLarge() const {
        return !largeParticles.empty();
    }
    const std::vector<int>& getLargeParticles() const {
        return largeParticles;
    }
    /**
     * Execute a kernel there.
     *
     * @return whether the step has failed because of a block that the device does not take
     */
    [[nodiscard]] bool executeThere(int kernel) {
        if (!hasLarge()) {
            device->execute(kernel);
            return false;
        }
        device->getOutside(x, v, F);
        device->execute(kernel);
        const stiffcore::PhaseList<Phase>& list = kernels[kernel];
        const HostArrays arrays = {components(x), components(v), components(F), components(x), components(v),
                                   kept,          nullptr,       nullptr,       numbers,       state.box()};
        const FailedBlock failed = run(list.phases, arrays, &largeParticles, &largeTerms);
        if (list.begins || stiffcore::getEffectOf<Method>(list.phases) != stiffcore::Effect::Nothing)
            device->setOutside(kernel, list.begins, x, v);
        const int fast = findFasterThan(stiffcore::speedOfLight, v, largeParticles);
        if (failed.particles != nullptr)
            device->failOutside(kernel, failed.isPushed ? Device::ForcesFailed : Device::BlockFailed,
                                failed.particles->front());
        else if (fast >= 0)
            device->failOutside(kernel, Device::VelocityFailed, fast);
        return failed.particles != nullptr || fast >= 0;
    }
    /** Execute a kernel with work(x, v) in place of the host's phases: what becomes of the velocities of large blocks. */
    template <class Work> void executeThere(int kernel, Work&& work) {
        device->execute(kernel);
        if (!hasLarge())
            return;
        device->getOutside(x, v, F);
        work(x, v);
        device->setOutside(kernel, false, x, v);
    }

private:
    template <class Phases> static bool takesForces(const Phases& phases) {
        return std::any_of(phases.begin(), phases.end(), [](Phase phase) { return phase == Method::takesForces; });
    }
    template <class Phases>
    FailedBlock run(const Phases& phases, HostArrays arrays, const std::vector<int>* ofParticles,
                    const std::vector<int>* ofTerms) {
        if (std::find(phases.begin(), phases.end(), Method::Thermalize) != phases.end()) {
            const double amplitude = numbers[stiffcore::Uniform::NoiseAmplitude];
            arrays.noise = components(particles.drawNoise(amplitude, ofParticles));
            arrays.termNoise = batches.drawNoise(amplitude, ofTerms);
        }
        auto isHere = [&](const auto& batch) { return ofParticles == nullptr || isLarge(batch); };
        const std::vector<int>* failed = batches.forEachOf(isHere, [&](const auto& batch, auto& work) {
            using Real = std::decay_t<decltype(batch.inverseMasses[0])>;
            return HostPort<Real>(arrays).execute(method, phases, batch, work);
        });
        const double* a = arrays.F != nullptr ? arrays.F : components(getKept(stiffcore::KeptVector::Acceleration));
        auto isNotFinite = [&](int i) { return !std::isfinite(a[3 * i] + a[3 * i + 1] + a[3 * i + 2]); };
        return {failed, failed != nullptr && std::any_of(failed->begin(), failed->end(), isNotFinite)};
    }

    HostState& state;
    HostParticles& particles;
    Batches& batches;
    Device* const device;
    Method method = {};
    stiffcore::StepNumbers numbers;
    KeptVectors kept;
    std::vector<stiffcore::PhaseList<Phase>> kernels;

    /// Of blocks that the device does not take: their particles and terms; and the state of these, others' is 0.
    std::vector<int> largeParticles, largeTerms;
    /// Whether a particle is the first of such a block.
    std::vector<char> isParticleLarge;
    Vectors x, v, F;
};

} // namespace stiffhost

#endif /* STIFFHOST_MACHINE_H_ */
