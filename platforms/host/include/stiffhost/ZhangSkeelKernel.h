#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "HostKernel.h"
#include "ImplicitAccelerations.h"
#include "PropagatedPositions.h"
#include "SharedKernels.h"
#include "SimTKOpenMMRealType.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/methods/TangentSpace.h"
#include <atomic>
#include <sstream>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The Zhang-Skeel step in the memory of the host. See HostParticles for the Backend.
 */
template <class Backend> class ZhangSkeelKernel : public HostKernel<Backend, SharedZhangSkeelKernel> {
    using Base = HostKernel<Backend, SharedZhangSkeelKernel>;
    using Base::backend, Base::className, Base::particles, Base::state;
    using typename Base::Turn;

public:
    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                     OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context), accelerations(backend, state, particles) {
    }

    void initialize(OpenMM::ContextImpl&, const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        this->integrator = &integrator;
        particles.initialize();
        accelerations.initialize(integrator, className);
    }

    void prepare(OpenMM::ContextImpl&) override {
        accelerations.prepare(*integrator);
    }

    std::string adoptState(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        x.adopt(state.positions());
        return {};
    }

    void execute(OpenMM::ContextImpl&, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                 bool stateModified) override {
        takeStep(integrator, stateModified, [] {});
    }

    void executeLangevin(OpenMM::ContextImpl&, const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator,
                         bool stateModified) override {
        takeStep(integrator, stateModified, [&] { thermalize(integrator); });
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        return particles.computeKineticEnergy();
    }

    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            accelerations.forget();
        if (changed == OpenMM::State::Energy)
            accelerations.forgetParameters();
    }

    void writeHidden(std::ostream& stream) const override {
        x.write(stream, state.positions());
    }
    void readHidden(std::istream& stream) override {
        x.read(stream, state.positions());
        adoptHiddenState();
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode& node) const override {
        const Turn turn(state);
        x.write(node, state.positions());
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode& node) override {
        const Turn turn(state);
        x.read(node, state.positions());
        adoptHiddenState();
    }

    void getPropagatedPositions(OpenMM::ContextImpl&, Vectors& positions) override {
        const Turn turn(state);
        positions = x.get(state.positions());
    }

    int getNumNewtonIterations() const override {
        return accelerations.getNumIterations();
    }

    void projectOnTangentSpace(OpenMM::ContextImpl&, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                               Vectors& velocities) override {
        const Turn turn(state);
        accelerations.prepare(integrator);
        projectBlocks(integrator, velocities);
    }

    int countStiffCoordinates(OpenMM::ContextImpl&, const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        const Turn turn(state);
        accelerations.prepare(integrator);
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        std::atomic<int> count(0);
        const std::string failed = accelerations.getBlocks().forEach([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            const auto factored = factorTangentSpace(batch, box, work);
            for (int lane = 0; lane < batch.count; lane++)
                count += countCoordinates(batch, lane, work);
            return factored & areFinite(batch, work.x);
        });
        if (!failed.empty())
            accelerations.refuse("the positions of " + failed + " are not finite", integrator);
        return count;
    }

    // What a device asks for that takes the steps.

    void stepsHaveBeenTaken(const SharedKernel::State& after) override {
        x.set(after.propagated, after.positions);
        accelerations.forget();
    }
    void stepHasFailed(const SharedKernel::State& before, bool) override {
        const Turn turn(state);
        state.changePositions() = before.positions;
        state.changeVelocities() = before.velocities;
        state.computeVirtualSites();
        x.set(before.propagated, state.positions());
        accelerations.forget();
        particles.requireFiniteState(className);
    }
    void refuseBlock(const std::vector<int>& block, bool forces) const override {
        const std::string molecule = describeMolecule(block, particles.countMobile(block));
        forces ? accelerations.refuseForces(molecule, *integrator) : accelerations.refuseMatrix(molecule, *integrator);
    }
    void refuseVelocity(int particle) const override {
        particles.refuseVelocity(particle, className, integrator->getStepSize());
    }

private:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;

    /** The deterministic step, and then the heat bath. */
    template <class HeatBath> void takeStep(const Integrator& integrator, bool stateModified, HeatBath&& heatBath) {
        const Turn turn(state);
        x.follow(state.positions());
        if (stateModified)
            accelerations.forget();
        accelerations.prepare(integrator);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        particles.orRestore(className, [&] {
            state.changePositions() = x.get(state.positions());
            accelerations.update(integrator);
            particles.kick(0.5 * h, accelerations.get(integrator));
            particles.constrainMotion(h, tolerance, [&] { drift(integrator); });
            accelerations.update(integrator);
            particles.kick(0.5 * h, accelerations.get(integrator));
            particles.constrainVelocities(tolerance);
            heatBath();
            particles.requirePossibleVelocities(className, h);
        });
        const Vectors& propagated = accelerations.keep();
        accelerations.show(integrator);
        state.computeVirtualSites();
        x.set(propagated, state.positions());
        state.advanceTime(h);
    }

    /** The Ornstein-Uhlenbeck flow over one step size. */
    void thermalize(const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator) {
        if (integrator.getFriction() == 0)
            return;
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck flow(integrator.getFriction(), kT, integrator.getStepSize());
        Vectors& noise = particles.drawNoise(flow);
        if (!integrator.getThermalizeStiffModes())
            projectBlocks(integrator, noise);
        particles.thermalize(flow);
        particles.constrainVelocities(integrator.getConstraintTolerance());
    }

    /** The saved state may be that of another System. What has no offset here shows x itself. */
    void adoptHiddenState() {
        const OpenMM::System& system = state.getSystem();
        x.tie([&](int i) {
            return (particles.getMasses()[i] == 0 && !system.isVirtualSite(i)) || particles.isConstrained(i);
        });
        accelerations.forget();
    }

    void drift(const Integrator& integrator) {
        const double h = integrator.getStepSize();
        if (integrator.getMethod() != Integrator::NewmarkOneIteration)
            return particles.drift(h);
        // The one iteration for the new positions begins at the old ones: (M + b h^2 H1(x)) dx = M (h v + h^2/2 a(x)).
        const Vectors& filtered = accelerations.filterVelocities(integrator);
        Vectors& positions = state.changePositions();
        for (size_t i = 0; i < filtered.size(); i++)
            if (particles.getMasses()[i] > 0)
                positions[i] += filtered[i] * h;
    }

    void projectBlocks(const Integrator& integrator, Vectors& velocities) {
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        const std::string failed = accelerations.getBlocks().forEach([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            gatherVelocities(batch, components(velocities), work.v);
            const auto projected = stiffcore::projectOnTangentSpace(batch, box, work, work.v);
            return scatter(projected & areFinite(batch, work.v), batch, work.v, components(velocities));
        });
        if (!failed.empty())
            accelerations.refuse("the velocities of " + failed +
                                         " cannot be projected on its tangent space: they are not finite",
                                 integrator);
    }

    const Integrator* integrator = nullptr;
    ImplicitAccelerations<Backend> accelerations;

    // The hidden state.
    PropagatedPositions x;
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
