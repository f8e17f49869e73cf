#ifndef STIFFHOST_MASS_PENALTY_KERNEL_H_
#define STIFFHOST_MASS_PENALTY_KERNEL_H_

#include "Checkpoints.h"
#include "PairBatches.h"
#include "ShownVelocities.h"
#include "StepSession.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Message.h"
#include "openmmstiff/internal/StepFailure.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stiffhost {

/**
 * The steps of the mass penalty.
 *
 * Between steps the auxiliary velocities are w = G(x) v and the auxiliary coordinates z = s(x), so that a step starts
 * from positions and velocities alone. Between calls of step() the Context shows other velocities, see ShownVelocities.
 */
template <class Real> class MassPenaltyKernel : public StepSession, public OpenMMStiff::MassPenaltyQueries {
    using Method = stiffcore::PenaltyMethod;

public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;

    MassPenaltyKernel(const std::string& name, const OpenMM::Platform& platform,
                      std::unique_ptr<PlatformResources> owned, OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, true),
              pairs(context.getSystem(), context.getParameters()), batches(backend),
              machine(state, particles, batches, device.get()), velocities(backend) {
    }

    OpenMMStiff::PairTerms getPairs() override {
        const Turn turn(*this);
        return pairs.getNextPairs(settings());
    }
    void prepareVelocities(Vectors& drawn) override {
        const Turn turn(*this);
        state.requirePositions();
        update();
        velocities.constrain(state.positions(), drawn, state.box());
        if (thermostat != nullptr)
            shiftVelocities(-0.5 * integrator->getStepSize(), drawn);
    }
    void shiftVelocities(double time, Vectors& shown) override {
        const Turn turn(*this);
        update();
        computeForces();
        Vectors& accelerations = machine.getKept(stiffcore::KeptVector::Acceleration);
        particles.divideByMasses(state.forces(), accelerations);
        lastStep.forget();
        velocities.shift(time, getThermalEnergy(), particles.getMasses(), state.positions(), accelerations, shown,
                         state.box());
    }
    bool noteCollision() override {
        if (!isAlert())
            return false;
        calmSince = std::max(calmSince, context.getStepCount() - 3 * calmSteps) + calmSteps; // three in a row
        return true;
    }
    void takeOtherSteps(bool other) override {
        allowsAnyEnergy = other;
        pairs.hold(other);
    }

protected:
    void start() override {
        backend.getResources().expectSteps(integrator->getStepSize());
        machine.initialize(getMethod());
        pairs.initialize(settings(), className);
        const Vectors atRest(particles.getMasses().size());
        velocities.set(atRest, atRest);
    }
    void prepare() override {
        pairs.requirePossible(settings());
    }
    void takeStep(bool known) override {
        kickAndMove<Method>(known, true, [&](int kernel) {
            if (isOnDevice())
                executeThere(machine, kernel);
            else
                require(machine.run(kernel));
        });
    }
    void beginCollisions() override {
        const Turn turn(*this);
        show();
    }
    void endCollisions() override {
        const Turn turn(*this);
        propagate();
    }
    bool hasAnchors() const override {
        return pairs.hasAnchors();
    }
    void adopt() override {
        update();
        if (!propagates)
            propagate();
    }
    void show() override {
        if (propagates)
            velocities.show(state.positions(), state.changeVelocities(), state.box(), [](const auto&) { return true; });
        propagates = false;
    }
    SettingNumbers getSettings() const override {
        return {double(integrator->getIntegrationForceGroups())};
    }
    void forget(OpenMM::State::DataType changed) override {
        StepSession::forget(changed);
        if (changed == OpenMM::State::Energy)
            pairs.parametersMayHaveChanged();
        if (changed == OpenMM::State::Positions)
            calmSince = context.getStepCount();
    }

    void writeHidden(std::ostream& stream) override {
        writeCheckpoint(stream, velocities.getPropagated());
    }
    void readHidden(std::istream& stream) override {
        Vectors propagated;
        readCheckpoint(stream, propagated);
        velocities.set(state.velocities(), propagated);
    }
    void writeHidden(OpenMM::SerializationNode& node) override {
        writeVectors(node, "PropagatedVelocities", "Velocity", velocities.getPropagated());
    }
    void readHidden(const OpenMM::SerializationNode& node) override {
        Vectors propagated;
        if (readVectors(node, "PropagatedVelocities", particles.getMasses().size(), propagated))
            velocities.set(state.velocities(), propagated);
    }

    // On a device. Molecules that are too large for it are moved by the host: their particles alone go there and back.

    void beforeDeviceIsReady() override {
        if (device == nullptr)
            return;
        std::vector<std::array<int, 2>> together;
        const int numParticles = state.getSystem().getNumParticles();
        for (const auto& added : {getExplicitPairs(settings()), getExplicitBonds(settings())})
            for (const OpenMMStiff::PairInertia& pair : added)
                if (std::min(pair.particle1, pair.particle2) >= 0 &&
                    std::max(pair.particle1, pair.particle2) < numParticles)
                    together.push_back({pair.particle1, pair.particle2}); // others are refused later
        device->keepTogether(together);
    }
    Program getProgram() override {
        return {pairs.getRevision(), isMetricCorrected()};
    }
    void compile() override {
        machine.compile(getMethod(), pairs.getBlocks(), pairs.getPairs());
    }
    bool isUpToDate() override {
        return pairs.areCurrent(settings());
    }
    void goOnThere() override {
        if (propagates)
            return;
        propagates = begunThere = true;
        machine.executeThere(Method::Propagate, [&](Vectors&, Vectors& v) {
            for (int particle : machine.getLargeParticles())
                v[particle] = velocities.getPropagated()[particle];
        });
    }
    void showThere() override {
        if (!propagates)
            return;
        propagates = false;
        machine.executeThere(Method::Show, [&](const Vectors& x, Vectors& v) {
            velocities.show(x, v, state.box(), [&](const auto& batch) { return machine.isLarge(batch); });
        });
    }
    void begin(stiffcore::StepNumbers& numbers) override {
        const double unlikely = 30, impossible = 1e30; // kT: chance has 5e-13 of the former; kJ/mol
        const double kT = getThermalEnergy();
        calmSince = std::min(calmSince, context.getStepCount()); // which somebody may have set
        numbers[stiffcore::Uniform::CollisionEnergy] = (isAlert() && kT > 0 ? unlikely * kT : impossible);
        machine.begin(getMethod(), numbers);
    }
    void stepsHaveBeenTaken(const Device::State& after) override {
        if (!propagates)
            know(after);
    }
    void stepHasFailedThere(const Device::State&, bool isFirst) override {
        if (!isFirst)
            return;
        if (begunThere)
            know(device->recall());
        state.changeVelocities() = velocities.getPropagated(); // before they were rounded
    }
    [[noreturn]] void refuseMolecule(const std::string& molecule, bool forces) const override {
        throw OpenMMStiff::StepFailure(OpenMMStiff::message(
                className, ": the ",
                (forces ? "forces on " + molecule + " are not finite in"
                        : "bond lengths and constraints of " + molecule + " cannot be solved for after"),
                " a step of ", integrator->getStepSize(),
                " ps. Use a smaller step size, or minimize the energy first. The positions and velocities are those"
                " before the step"), molecule);
    }

private:
    const Integrator& settings() const {
        return static_cast<const Integrator&>(*integrator);
    }
    bool isMetricCorrected() const {
        const auto* langevin = dynamic_cast<const OpenMMStiff::MassPenaltyLangevinIntegrator*>(integrator);
        return langevin != nullptr && langevin->getMetricCorrection();
    }
    /** Whether too much energy must come of a collision, and not of how the run began, or of too large a step. */
    bool isAlert() const {
        return thermostat != nullptr && !allowsAnyEnergy && context.getStepCount() >= calmSince + calmSteps;
    }
    Method getMethod() const {
        return {thermostat != nullptr, isMetricCorrected()};
    }

    void update() {
        if (pairs.update(settings()))
            lastStep.forget();
        batches.follow(pairs, particles.getMasses());
        velocities.follow(pairs, particles.getMasses());
    }

    // The velocities.

    void propagate() {
        velocities.propagate(state.positions(), state.changeVelocities(), state.box());
        propagates = true;
        begunThere = false;
    }
    /** Take over what the device has ended with; of large molecules that is known. */
    void know(const Device::State& there) {
        Vectors propagated = there.propagatedVelocities;
        for (int particle : machine.getLargeParticles())
            propagated[particle] = velocities.getPropagated()[particle];
        velocities.set(there.velocities, propagated);
    }

    OpenMMStiff::KeptPairs pairs;
    PairBatches<Real> batches;
    Machine<Method, PairBatches<Real>> machine;
    ShownVelocities<Real> velocities;
    /// Whether the Context has the velocities that move the particles; and whether the device has taken them up by
    /// itself.
    bool propagates = false, begunThere = false;
    /// The step at which the run has begun; later by so many for each collision, but for those that are long past.
    static constexpr int calmSteps = 100;
    long long calmSince = 0;
    bool allowsAnyEnergy = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
