#ifndef STIFFHOST_SPOOK_KERNEL_H_
#define STIFFHOST_SPOOK_KERNEL_H_

#include "HostConstraints.h"
#include "HostParticles.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/constraints/Spook.h"
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The steps of SPOOK on a platform that keeps its state in host memory. See HostParticles for the Backend. There is no
 * hidden state: a step starts from the positions and velocities of the Context alone.
 */
template <class Backend> class SpookKernel : public OpenMMStiff::IntegrateSpookStepKernel {
public:
    using Integrator = OpenMMStiff::SpookIntegrator;

    SpookKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& context)
            : IntegrateSpookStepKernel(name, platform), backend(context), particles(backend), constraints(backend) {
    }

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator, const std::string& className) override {
        this->className = className;
        this->integrator = &integrator;
        particles.initialize(context.getSystem());
        accelerations.assign(context.getSystem().getNumParticles(), OpenMM::Vec3());
        multipliers.clear();
        prepare(context);
    }

    void adoptPositions(OpenMM::ContextImpl&) override {
    }

    void execute(OpenMM::ContextImpl& context) override {
        HostState state(context);
        prepare(context);
        const double h = integrator->getStepSize();
        particles.orRestore(state, [&] {
            context.calcForcesAndEnergy(true, false, integrator->getIntegrationForceGroups());
            kick(context, state, lastLambda);
            particles.drift(h, particles.getMasses(), state);
            context.computeVirtualSites();
            particles.requireFiniteVelocities(state, className, h);
        });
        multipliers.swap(lastLambda);
        for (double& lambda : multipliers)
            lambda /= h;
        state.advanceTime(h);
    }

    std::vector<double> computeViolations(OpenMM::ContextImpl& context) override {
        requirePositions(context);
        HostState state(context);
        prepare(context);
        // Velocities belong to the time half a step ago.
        const double time = context.getTime() - 0.5 * integrator->getStepSize();
        const stiffcore::Box box = state.box();
        std::vector<double> violations(constraints.size(), 0.0);
        constraints.forEach([&](const auto& batch, auto& work) {
            load(batch, state, work);
            evaluateConstraints(batch, time, box, work);
            stiffcore::computeViolations(batch, work);
            scatterTerms(batch, work.multipliers, violations.data());
            return all(batch);
        });
        return violations;
    }

    std::vector<double> getMultipliers() const override {
        if (constraints.size() > 0 && multipliers.empty())
            throw OpenMM::OpenMMException(className + ": there are no multipliers before the first step");
        return multipliers;
    }

    void prepareVelocities(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& velocities) override {
        HostState state(context);
        prepare(context);
        const double h = integrator->getStepSize(), time = context.getTime() - 0.5 * h;
        const stiffcore::Box box = state.box();
        particles.orRestore(state, [&] {
            context.calcForcesAndEnergy(true, false, integrator->getIntegrationForceGroups());
            particles.divideByMasses(state.forces(), accelerations);
            state.velocities().swap(velocities);
            particles.kick(-0.5 * h, accelerations, state);
            requireSolution(constraints.forEach([&](const auto& batch, auto& work) {
                load(batch, state, work);
                evaluateConstraints(batch, time, box, work);
                const auto succeeded = projectVelocities(batch, work);
                scatter(batch, work.v, components(state.velocities()));
                return succeeded;
            }));
        });
        state.velocities().swap(velocities);
    }

    /** That of the mean of the velocities before and after the present time. */
    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        HostState state(context);
        prepare(context);
        // The forces that are there have just been computed, but maybe for other groups, which are then to come back.
        const int groups = integrator->getIntegrationForceGroups(), present = context.getLastForceGroups();
        const std::vector<OpenMM::Vec3> before = state.velocities();
        double energy;
        particles.orRestore(state, [&] {
            if (groups != present)
                context.calcForcesAndEnergy(true, false, groups);
            kick(context, state, lastLambda);
            for (size_t i = 0; i < before.size(); i++)
                state.velocities()[i] = (before[i] + state.velocities()[i]) * 0.5;
            energy = particles.computeKineticEnergy(state);
        });
        state.velocities() = before;
        if (groups != present)
            context.calcForcesAndEnergy(true, false, present);
        return energy;
    }

    void stateChanged(OpenMM::State::DataType) override {
    }

    // The multipliers are no state, but a run resumed shows those of the run that went on.

    void createCheckpoint(OpenMM::ContextImpl&, std::ostream& stream) const override {
        const size_t number = multipliers.size();
        stream.write((const char*) &number, sizeof(number));
        stream.write((const char*) multipliers.data(), sizeof(double) * number);
    }
    void loadCheckpoint(OpenMM::ContextImpl&, std::istream& stream) override {
        size_t number;
        readCheckpoint(stream, &number, 1);
        multipliers.resize(number);
        readCheckpoint(stream, multipliers.data(), number);
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode&) const override {
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode&) override {
        multipliers.clear();
    }

private:
    void prepare(OpenMM::ContextImpl& context) {
        constraints.prepare(context.getSystem(), *integrator, particles.getMasses(), className);
    }

    template <class Batch, class Workspace> static void load(const Batch& batch, HostState& state, Workspace& work) {
        gather(batch, components(state.positions()), work.x);
        gather(batch, components(state.velocities()), work.v);
        for (size_t i = batch.numMobile; i < batch.inverseMasses.size(); i++)
            work.v[i].setZero();
    }

    /** Advance the velocities by a step under the forces that are there; lambda is written, h times the multipliers. */
    void kick(OpenMM::ContextImpl& context, HostState& state, std::vector<double>& lambda) {
        const double h = integrator->getStepSize(), time = context.getTime() + 0.5 * h;
        const stiffcore::Box box = state.box();
        lambda.assign(constraints.size(), 0.0);
        particles.divideByMasses(state.forces(), accelerations);
        particles.kick(h, accelerations, constraints.getFreeMasses(), state);
        requireSolution(constraints.forEach([&](const auto& batch, auto& work) {
            load(batch, state, work);
            gather(batch, components(accelerations), work.a);
            evaluateConstraints(batch, time, box, work);
            const auto succeeded = kickSpook(batch, h, work);
            scatter(batch, work.v, components(state.velocities()));
            scatterTerms(batch, work.multipliers, lambda.data());
            return succeeded;
        }));
    }

    void requireSolution(const std::string& failed) const {
        if (failed.empty())
            return;
        std::stringstream message;
        message << className << ": the constraints of " << failed << " cannot be solved for in a step of "
                << integrator->getStepSize()
                << " ps: they depend on each other more than their compliance can bear, or are not finite."
                << " Use setCompliance() with a larger value, or a smaller step size. The positions and velocities are"
                   " those before the step";
        throw OpenMM::OpenMMException(message.str());
    }

    /** That nothing has failed. */
    template <class Real> static auto all(const stiffcore::ConstraintBatch<Real>&) {
        return typename stiffcore::DenseLdlt<Real>::Mask(true);
    }

    Backend backend;
    HostParticles<Backend> particles;
    HostConstraints<Backend> constraints;
    const Integrator* integrator = nullptr;
    std::string className;
    std::vector<OpenMM::Vec3> accelerations;
    // Of the last step, empty before it; and scratch.
    std::vector<double> multipliers, lastLambda;
};

} // namespace stiffhost

#endif /* STIFFHOST_SPOOK_KERNEL_H_ */
