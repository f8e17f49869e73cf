#ifndef STIFFHOST_MASS_PENALTY_KERNEL_H_
#define STIFFHOST_MASS_PENALTY_KERNEL_H_

#include "Machine.h"
#include "PairBatches.h"
#include "ShownVelocities.h"
#include "StepSession.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
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
              machine(state, particles, batches, refusal()), velocities(backend, lastVelocities) {
    }

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override {
        if (device != nullptr)
            keepTogether(static_cast<const Integrator&>(integrator));
        StepSession::initialize(integrator, className);
        backend.getResources().expectSteps(integrator.getStepSize());
        kernels = getMethod().getKernels();
        machine.initialize();
        pairs.initialize(settings(), className);
        const Vectors atRest(particles.getMasses().size());
        lastVelocities = {atRest, atRest};
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
        Vectors& accelerations = machine.getAccelerations();
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
    bool prepare() override {
        pairs.update(settings());
        batches.follow(pairs, particles.getMasses());
        velocities.follow(pairs, particles.getMasses());
        const std::pair<int, bool> before = std::exchange(prepared, {pairs.getRevision(), isMetricCorrected()});
        if (prepared == before)
            return false;
        findInertias();
        return true;
    }
    void turnInto(Form form, const Turn&) override {
        if (form == Form::Shown)
            return velocities.show(state.positions(), state.changeVelocities(), state.box());
        noticeVelocities();
        velocities.propagate(state.positions(), state.changeVelocities(), state.box());
    }
    /** Half a kick, the motion, and half a kick; with a heat bath one kick, and a motion that holds the heat bath. */
    void takeStep(bool goesOn) override {
        if (thermostat != nullptr) {
            computeForces();
            execute(Method::Move);
            return arrive();
        }
        if (!goesOn) {
            computeForces();
            execute(Method::Start);
        }
        execute(Method::Move);
        arrive();
        computeForces();
        execute(Method::Finish);
    }
    CommonMotion getCommonMotion() const override {
        return {pairs.hasAnchors(), inertias.empty() ? nullptr : &inertias};
    }
    void forget(OpenMM::State::DataType changed) override {
        StepSession::forget(changed);
        if (changed == OpenMM::State::Energy)
            pairs.parametersMayHaveChanged();
        if (changed == OpenMM::State::Positions)
            calmSince = context.getStepCount();
        if (changed == OpenMM::State::Velocities && !allowsAnyEnergy)
            areVelocitiesNew = true;
    }

    HiddenState getHidden(const Turn& turn) override {
        noticeVelocities();
        return {StepSession::getHidden(turn).vectors, {warmest}};
    }
    void setHidden(const Turn& turn, const HiddenState& hidden) override {
        StepSession::setHidden(turn, hidden);
        if (hidden.numbers.size() == 1) {
            warmest = hidden.numbers[0];
            areVelocitiesNew = false;
        }
    }
    bool compile() override {
        return device->compile(getMethod(), pairs.getBlocks(), pairs.getPairs(), particles.getMasses());
    }
    SettingNumbers begin(stiffcore::StepNumbers& numbers) override {
        const double unlikely = 30, impossible = 1e30; // kT: chance has 5e-13 of the former; kJ/mol
        const double coldest = 100 * BOLTZ;            // what is left to relax in a minimum is no collision
        // Particles follow a bath that is colder all at once by its friction, more slowly where vibrations lend energy.
        const double kT = getThermalEnergy();
        warmest = std::max(kT, std::sqrt(numbers[stiffcore::Uniform::Decay]) * warmest);
        calmSince = std::min(calmSince, context.getStepCount()); // which somebody may have set
        numbers[stiffcore::Uniform::CollisionEnergy] = (isAlert() && kT > 0 ? unlikely * std::max(warmest, coldest) : impossible);
        machine.begin(getMethod(), numbers);
        return {double(integrator->getIntegrationForceGroups())};
    }
    [[noreturn]] void refuseMolecule(const std::string& molecule, bool forces) const override {
        throw OpenMMStiff::StepFailure(OpenMMStiff::message(
                className, ": the ",
                (forces ? "forces on " + molecule + " are not finite in"
                        : "bond lengths and constraints of " + molecule + " cannot be solved for after"),
                " a step of ", integrator->getStepSize(),
                " ps. Use a smaller step size, more inertia (setPenalizedPeriod() with 20 steps), or minimize the energy"
                " first. The positions and velocities are those"
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
    /** Remember how warm velocities are that somebody has set. */
    void noticeVelocities() {
        if (!areVelocitiesNew)
            return;
        const double own = 2 * particles.computeKineticEnergy() / (3 * particles.getMasses().size());
        if (std::isfinite(own))
            warmest = std::max(warmest, own);
        areVelocitiesNew = false;
    }
    /** Whether too much energy must come of a collision, and not of how the run began, or of too large a step. */
    bool isAlert() const {
        return thermostat != nullptr && !allowsAnyEnergy && context.getStepCount() >= calmSince + calmSteps;
    }
    Method getMethod() const {
        return {thermostat != nullptr, isMetricCorrected()};
    }

    /** In large Systems three degrees of freedom more or less count for nothing. */
    void findInertias() {
        const size_t large = 5000;
        inertias.clear();
        if (particles.getMasses().size() < large)
            inertias = stiffcore::addInertias(pairs.getPairs(), particles.getMasses());
    }
    /** Execute a list of phases. */
    void execute(int kernel) {
        if (isOnDevice())
            device->execute(kernel);
        else
            machine.run(kernels[kernel].phases);
    }
    /** The particles of pairs that are added by hand. */
    void keepTogether(const Integrator& integrator) {
        std::vector<std::array<int, 2>> together;
        const int numParticles = context.getSystem().getNumParticles();
        for (const auto& added : {getExplicitPairs(integrator), getExplicitBonds(integrator)})
            for (const OpenMMStiff::PairInertia& pair : added)
                if (std::min(pair.particle1, pair.particle2) >= 0 &&
                    std::max(pair.particle1, pair.particle2) < numParticles)
                    together.push_back({pair.particle1, pair.particle2}); // others are refused later
        device->keepTogether(together);
    }

    OpenMMStiff::KeptPairs pairs;
    PairBatches<Real> batches;
    Machine<Method, PairBatches<Real>> machine;
    ShownVelocities<Real> velocities;
    std::vector<stiffcore::PhaseList<Method::Phase>> kernels;
    std::pair<int, bool> prepared = {-1, false}; // the revision of the pairs, and the variant of the method
    std::vector<double> inertias;                // see getCommonMotion()
    /// The step at which the run has begun; later by so many for each collision, but for those that are long past.
    static constexpr int calmSteps = 100;
    long long calmSince = 0;
    double warmest = 0; // kJ/mol, of the thermal energies until now, and of velocities that have been set
    bool allowsAnyEnergy = false, areVelocitiesNew = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
