#ifndef STIFFHOST_SPOOK_KERNEL_H_
#define STIFFHOST_SPOOK_KERNEL_H_

#include "ConstraintBatches.h"
#include "StepSession.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/OpenMMException.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Message.h"
#include "setup/Kept.h"
#include "stiffcore/methods/Spook.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace stiffhost {

/**
 * The steps of SPOOK. There is no hidden state: a step starts from the positions and velocities of the Context alone.
 */
template <class Real> class SpookKernel : public StepSession, public OpenMMStiff::SpookQueries {
public:
    using Integrator = OpenMMStiff::SpookIntegrator;

    SpookKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<PlatformResources> owned,
                OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, false),
              ofSystem(OpenMMStiff::collectSystemConstraints(context.getSystem())), batches(backend) {
    }

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override {
        StepSession::initialize(integrator, className);
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        update();
    }

    std::vector<double> computeViolations() override {
        const Turn turn(*this);
        state.requirePositions();
        update();
        // Velocities belong to the time half a step ago.
        const double time = state.time() - 0.5 * integrator->getStepSize();
        std::vector<double> violations(constraints().size(), 0.0);
        evaluate(time, [&](const auto& batch, auto& work) {
            stiffcore::computeViolations(batch, work);
            scatterTerms(batch, work.multipliers, violations.data());
        });
        return violations;
    }

    int countDegreesOfFreedom() override {
        const Turn turn(*this);
        state.requirePositions();
        update();
        int number = 0;
        for (double mass : particles.getMasses())
            number += (mass > 0 ? 3 : 0);
        std::atomic<int> held(0);
        const std::string failed = evaluate(state.time(), [&](const auto& batch, auto& work) {
            const auto factored = factorRigidly(batch, work);
            for (int lane = 0; lane < batch.count; lane++)
                held += countIndependent(batch, lane, work);
            return factored;
        });
        requireSolution(failed, state.time());
        return number - held;
    }

    std::vector<double> getMultipliers() const override {
        if (constraints().size() > 0 && multipliers.empty())
            throw OpenMM::OpenMMException(className + ": there are no multipliers before the first step");
        return multipliers;
    }

    void prepareVelocities(Vectors& velocities) override {
        const Turn turn(*this);
        update();
        const double h = integrator->getStepSize(), time = state.time() - 0.5 * h;
        particles.orRestore(className, [&] {
            state.computeForces(integrator->getIntegrationForceGroups());
            particles.divideByMasses(state.forces(), accelerations);
            particles.requireFiniteForces(className, accelerations);
            state.changeVelocities().swap(velocities);
            particles.kick(-0.5 * h, accelerations);
            double* v = components(state.changeVelocities());
            const std::string failed = evaluate(time, [&](const auto& batch, auto& work) {
                const auto succeeded = projectVelocities(batch, work);
                scatter(batch, work.v, v);
                return succeeded;
            });
            requireSolution(failed, time);
            particles.requirePossibleVelocities(className, h);
        });
        state.changeVelocities().swap(velocities);
    }

protected:
    bool prepare() override {
        const OpenMM::System& system = state.getSystem();
        kept.update(getConstraintRevision(settings()), [&](int) {
            OpenMMStiff::ConstraintSet set = OpenMMStiff::collectConstraints(system, ofSystem, settings(), className);
            OpenMMStiff::requireWithinMolecules(system, set, context.getMolecules(), className);
            divided = OpenMMStiff::findDivided(system, set);
            return set;
        });
        return batches.take(kept.getRevision(), system, kept.get(), particles.getMasses());
    }
    /**
     * An AndersenThermostat draws what constraints of the System hold together as one; what others do must not keep old
     * velocities beside new ones. Random numbers follow from those that it has drawn.
     */
    void haveCollided(const Turn&, const Vectors& before) override {
        const std::vector<double>& masses = particles.getMasses();
        for (const std::vector<int>& group : divided) {
            const Vectors& drawn = state.velocities();
            if (std::none_of(group.begin(), group.end(), [&](int i) { return drawn[i] != before[i]; }))
                continue;
            std::vector<std::uint32_t> bits(6 * group.size());
            for (size_t k = 0; k < group.size(); k++)
                std::memcpy(&bits[6 * k], &drawn[group[k]], sizeof(OpenMM::Vec3));
            std::seed_seq seed(bits.begin(), bits.end());
            std::mt19937 random(seed);
            std::normal_distribution<double> gaussian;
            const double kT = BOLTZ * context.getParameter(OpenMM::AndersenThermostat::Temperature());
            for (int i : group)
                for (int axis = 0; axis < 3; axis++)
                    state.changeVelocities()[i][axis] = std::sqrt(kT / masses[i]) * gaussian(random);
        }
    }
    void takeStep(bool) override {
        computeForces();
        kick();
        particles.drift(integrator->getStepSize());
        arrive();
    }
    void stepHasEnded() override {
        multipliers.swap(lambda);
        for (double& multiplier : multipliers)
            multiplier /= integrator->getStepSize();
    }

    /**
     * That of the mean of the velocities before and after the present time; of those before if a step from here would
     * fail. To say so is left to the step: who looks for the reason asks for the energy, maybe of one term at a time.
     */
    double computeKineticEnergy() override {
        const Turn turn(*this);
        update();
        // The forces that are there have just been computed, but maybe for other groups, which are then to come back.
        const int groups = integrator->getIntegrationForceGroups(), present = state.getLastForceGroups();
        before = state.velocities();
        double energy;
        try {
            if (groups != present)
                state.computeForces(groups);
            kick();
            particles.requirePossibleVelocities(className, integrator->getStepSize());
            Vectors& velocities = state.changeVelocities();
            for (size_t i = 0; i < before.size(); i++)
                velocities[i] = (before[i] + velocities[i]) * 0.5;
            energy = particles.computeKineticEnergy();
            velocities = before;
        }
        catch (const std::exception&) {
            state.changeVelocities() = before;
            energy = particles.computeKineticEnergy();
        }
        if (groups != present)
            state.computeForces(present);
        return energy;
    }

    // The multipliers are no state, but a run resumed shows those of the run that went on.

    HiddenState getHidden(const Turn&) override {
        return {{}, multipliers};
    }
    void setHidden(const Turn&, const HiddenState& hidden) override {
        multipliers = hidden.numbers;
        if (multipliers.size() != constraints().size())
            multipliers.clear(); // they are of other constraints
    }

private:
    const Integrator& settings() const {
        return static_cast<const Integrator&>(*integrator);
    }
    /** Work on all batches, with the constraints evaluated at the present positions and a time. */
    template <class Work> [[nodiscard]] auto evaluate(double time, Work&& work) {
        const double *x = components(state.positions()), *v = components(state.velocities());
        const stiffcore::Box box = state.box();
        return batches.forEach([&](const auto& batch, auto& workspace) {
            gather(batch, x, workspace.x);
            gather(batch, v, workspace.v);
            for (size_t i = batch.numMobile; i < batch.inverseMasses.size(); i++)
                workspace.v[i].setZero();
            evaluateConstraints(batch, time, box, workspace);
            return work(batch, workspace);
        });
    }

    /** Advance the velocities by a step under the forces that are there; `lambda` is written. */
    void kick() {
        const double h = integrator->getStepSize(), time = state.time() + 0.5 * h;
        const double damping = settings().getDamping();
        lambda.assign(constraints().size(), 0.0);
        particles.divideByMasses(state.forces(), accelerations);
        particles.kick(h, accelerations, batches.getFreeParticles());
        double* v = components(state.changeVelocities());
        const std::string failed = evaluate(time, [&](const auto& batch, auto& work) {
            gather(batch, components(accelerations), work.a);
            auto succeeded = kickSpook(batch, h, damping, work);
            succeeded = succeeded & hasShortWays(batch, h, work);
            scatter(batch, work.v, v);
            scatterTerms(batch, work.multipliers, lambda.data());
            return succeeded;
        });
        requireSolution(failed, time);
        for (double multiplier : lambda)
            if (!std::isfinite(multiplier))
                requireFiniteConstraints(time);
    }

    void requireSolution(const std::string& failed, double time) {
        if (failed.empty())
            return;
        requireFiniteConstraints(time);
        requireShortWays();
        throw OpenMM::OpenMMException(OpenMMStiff::message(
                className, ": the constraints of ", failed, " cannot be solved for in a step of ",
                integrator->getStepSize(),
                " ps: they depend on each other more than their compliance can bear. Use setCompliance() with a"
                " larger value. The positions and velocities are those before the step"));
    }

    /** If the way of a step makes a constrained distance grow out of bounds, say which. */
    void requireShortWays() const {
        const double h = integrator->getStepSize();
        for (const OpenMMStiff::Constraint& constraint : constraints()) {
            if (constraint.kind != OpenMMStiff::Constraint::Kind::Distance)
                continue;
            const int i = constraint.particles[0], j = constraint.particles[1];
            const OpenMM::Vec3 before = state.positions()[j] - state.positions()[i],
                               after = before + (state.velocities()[j] - state.velocities()[i]) * h;
            const double bound = stiffcore::maxGrowth * stiffcore::maxGrowth *
                                 (before.dot(before) + constraint.value * constraint.value);
            if (!(after.dot(after) > bound))
                continue;
            throw OpenMMStiff::StepFailure(OpenMMStiff::message(
                    className, ": in a step of ", h, " ps ", constraint.describe(), ", a distance of ",
                    constraint.value, " nm between particles ", i, " and ", j, ", would grow to ",
                    std::sqrt(after.dot(after)),
                    " nm. Use a smaller step size (were femtoseconds meant? Numbers are picoseconds). The positions"
                    " and velocities are those before the step"));
        }
    }

    /** If a constraint or its gradient is not finite at the present positions, say which. */
    void requireFiniteConstraints(double time) {
        std::vector<double> finite(constraints().size(), 1.0);
        evaluate(time, [&](const auto& batch, auto& work) {
            using stiffcore::select;
            using Scalar = std::decay_t<decltype(work.values[0])>;
            for (int p = 0; p < batch.numRows(); p++)
                work.multipliers[p] = select(isFinite(p, work), Scalar(1), Scalar(0));
            scatterTerms(batch, work.multipliers, finite.data());
        });
        const auto place = std::find(finite.begin(), finite.end(), 0.0);
        if (place == finite.end())
            return;
        throw OpenMM::OpenMMException(
                className + ": " + constraints()[place - finite.begin()].describe() +
                ", or its gradient, is not finite at the present positions. Change the expression, or the positions."
                " The positions and velocities are those before the step");
    }

    const std::vector<OpenMMStiff::Constraint>& constraints() const {
        return kept.get().constraints;
    }

    /// As OpenMM has read them, too: the System may have others by now.
    const OpenMMStiff::ConstraintSet ofSystem;
    OpenMMStiff::Kept<int, OpenMMStiff::ConstraintSet> kept;
    std::vector<std::vector<int>> divided; // see findDivided()
    ConstraintBatches<Real> batches;
    Vectors accelerations;
    // Of the last step, empty before it; and h times those of a kick.
    std::vector<double> multipliers, lambda;
    Vectors before; // velocities
};

} // namespace stiffhost

#endif /* STIFFHOST_SPOOK_KERNEL_H_ */
