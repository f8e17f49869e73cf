#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "HostParticles.h"
#include "ImplicitAccelerations.h"
#include "PropagatedPositions.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/methods/TangentSpace.h"
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The Zhang-Skeel step on a platform that keeps its state in host memory. See HostParticles for the Backend.
 */
template <class Backend> class ZhangSkeelKernel : public OpenMMStiff::IntegrateZhangSkeelStepKernel {
public:
    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& context)
            : IntegrateZhangSkeelStepKernel(name, platform), backend(context), particles(backend),
              accelerations(backend, particles) {
    }

    void initialize(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        particles.initialize(context.getSystem());
        accelerations.initialize(context, integrator, className);
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    void adoptState(OpenMM::ContextImpl& context) override {
        if (x.adopt(HostState(context).positions()))
            accelerations.forget();
    }

    void execute(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                 bool stateModified) override {
        takeStep(context, integrator, stateModified, [](HostState&) {});
    }

    void executeLangevin(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator,
                         bool stateModified) override {
        takeStep(context, integrator, stateModified, [&](HostState& state) { thermalize(state, integrator); });
    }

    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        HostState state(context);
        return particles.computeKineticEnergy(state);
    }

    void stateChanged(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            accelerations.forget();
        if (changed == OpenMM::State::Energy)
            accelerations.forgetParameters();
    }

    void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) const override {
        x.write(stream, HostState(context).positions());
    }
    void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) override {
        x.read(stream, HostState(context).positions());
        adoptHiddenState(context);
    }
    void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) const override {
        x.write(node, HostState(context).positions());
    }
    void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) override {
        x.read(node, HostState(context).positions());
        adoptHiddenState(context);
    }

    void getPropagatedPositions(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& positions) override {
        positions = x.get(HostState(context).positions());
    }

    int getNumNewtonIterations() const override {
        return accelerations.getNumIterations();
    }

    void projectOnTangentSpace(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                               std::vector<OpenMM::Vec3>& velocities) override {
        HostState state(context);
        accelerations.prepare(context, integrator);
        projectBlocks(state, integrator, velocities);
    }

    int countStiffCoordinates(OpenMM::ContextImpl& context,
                              const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        HostState state(context);
        accelerations.prepare(context, integrator);
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        int count = 0;
        accelerations.getBlocks().visitInOrder([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            factorTangentSpace(batch, box, work);
            for (int lane = 0; lane < batch.count; lane++)
                count += countCoordinates(batch, lane, work);
        });
        return count;
    }

private:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;

    /** The deterministic step, and then the heat bath. */
    template <class HeatBath>
    void takeStep(OpenMM::ContextImpl& context, const Integrator& integrator, bool stateModified, HeatBath&& heatBath) {
        HostState state(context);
        if (x.follow(state.positions()) || stateModified)
            accelerations.forget();
        accelerations.prepare(context, integrator);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        std::vector<OpenMM::Vec3>& positions = state.positions();
        particles.orRestore(state, className, [&] {
            positions = x.get(positions);
            accelerations.update(context, state, integrator);
            particles.kick(0.5 * h, accelerations.get(integrator), state);
            particles.constrainMotion(h, tolerance, state, [&] { drift(context, state, integrator); });
            accelerations.update(context, state, integrator);
            particles.kick(0.5 * h, accelerations.get(integrator), state);
            particles.constrainVelocities(tolerance, state);
            heatBath(state);
            particles.requireFiniteVelocities(state, className, h);
        });
        accelerations.keep();
        propagated = positions;
        accelerations.show(integrator, positions);
        context.computeVirtualSites();
        x.set(propagated, positions);
        state.advanceTime(h);
    }

    /** The Ornstein-Uhlenbeck flow over one step size. */
    void thermalize(HostState& state, const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator) {
        if (integrator.getFriction() == 0)
            return;
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck flow(integrator.getFriction(), kT, integrator.getStepSize());
        std::vector<OpenMM::Vec3>& noise = particles.drawNoise(flow);
        if (!integrator.getThermalizeStiffModes())
            projectBlocks(state, integrator, noise);
        particles.thermalize(flow, state);
        particles.constrainVelocities(integrator.getConstraintTolerance(), state);
    }

    /** The saved state may be that of another System. What has no offset here shows x itself. */
    void adoptHiddenState(OpenMM::ContextImpl& context) {
        const OpenMM::System& system = context.getSystem();
        x.tie([&](int i) {
            return (particles.getMasses()[i] == 0 && !system.isVirtualSite(i)) || particles.isConstrained(i);
        });
        accelerations.forget();
    }

    void drift(OpenMM::ContextImpl& context, HostState& state, const Integrator& integrator) {
        const double h = integrator.getStepSize();
        if (integrator.getMethod() != Integrator::NewmarkOneIteration)
            return particles.drift(h, particles.getMasses(), state);
        // The one iteration for the new positions begins at the old ones: (M + b h^2 H1(x)) dx = M (h v + h^2/2 a(x)).
        const std::vector<OpenMM::Vec3>& filtered = accelerations.filterVelocities(context, state, integrator);
        for (size_t i = 0; i < filtered.size(); i++)
            if (particles.getMasses()[i] > 0)
                state.positions()[i] += filtered[i] * h;
    }

    void projectBlocks(HostState& state, const Integrator& integrator, std::vector<OpenMM::Vec3>& velocities) {
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

    Backend backend;
    HostParticles<Backend> particles;
    ImplicitAccelerations<Backend> accelerations;

    // The hidden state.
    PropagatedPositions x;

    // Scratch: x after the step.
    std::vector<OpenMM::Vec3> propagated;
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
