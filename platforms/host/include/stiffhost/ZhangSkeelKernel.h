#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "HostBlocks.h"
#include "HostParticles.h"
#include "PropagatedPositions.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/blocks/ImplicitSolve.h"
#include "stiffcore/blocks/TangentSpace.h"
#include <atomic>
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
            : IntegrateZhangSkeelStepKernel(name, platform), backend(context), particles(backend), blocks(backend) {
    }

    void initialize(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                    const std::string& className) override {
        this->className = className;
        particles.initialize(context.getSystem());
        accelerations.assign(context.getSystem().getNumParticles(), OpenMM::Vec3());
        prepare(context, integrator);
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    void adoptPositions(OpenMM::ContextImpl& context) override {
        if (x.adopt(HostState(context).positions()))
            accelerationsKnown = false;
    }

    void execute(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                 bool stateModified) override {
        HostState state(context);
        if (x.follow(state.positions()) || stateModified)
            accelerationsKnown = false;
        prepare(context, integrator);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        std::vector<OpenMM::Vec3>& positions = state.positions();
        const bool known = accelerationsKnown && Dependencies(state, integrator) == dependencies;
        accelerationsKnown = false;
        particles.orRestore(state, [&] {
            positions = x.get(positions);
            if (!known) {
                context.computeVirtualSites();
                computeAccelerations(context, state, integrator);
            }
            particles.kick(0.5 * h, accelerations, state);
            particles.constrainMotion(h, tolerance, state, [&] { particles.drift(h, particles.getMasses(), state); });
            context.computeVirtualSites();
            computeAccelerations(context, state, integrator);
            particles.kick(0.5 * h, accelerations, state);
            particles.constrainVelocities(tolerance, state);
            particles.requireFiniteVelocities(state, className, h);
        });
        accelerationsKnown = true;
        propagated = positions;
        show(integrator.getBeta() * h * h, positions);
        context.computeVirtualSites();
        x.set(propagated, positions);
        state.advanceTime(h);
    }

    void thermalize(OpenMM::ContextImpl& context,
                    const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator) override {
        if (integrator.getFriction() == 0)
            return;
        HostState state(context);
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck flow(integrator.getFriction(), kT, integrator.getStepSize());
        std::vector<OpenMM::Vec3>& noise = particles.drawNoise(flow);
        if (!integrator.getThermalizeStiffModes())
            projectBlocks(state, noise);
        particles.thermalize(flow, state);
        particles.constrainVelocities(integrator.getConstraintTolerance(), state);
    }

    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        HostState state(context);
        return particles.computeKineticEnergy(state);
    }

    void stateChanged(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            accelerationsKnown = false;
        if (changed == OpenMM::State::Energy)
            blocks.forgetParameters();
    }

    void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) const override {
        x.write(stream, HostState(context).positions());
    }
    void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) override {
        x.read(stream, HostState(context).positions());
        accelerationsKnown = false;
    }
    void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) const override {
        x.write(node, HostState(context).positions());
    }
    void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) override {
        x.read(node, HostState(context).positions());
        accelerationsKnown = false;
    }

    void getPropagatedPositions(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& positions) override {
        positions = x.get(HostState(context).positions());
    }

    void projectOnTangentSpace(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                               std::vector<OpenMM::Vec3>& velocities) override {
        HostState state(context);
        prepare(context, integrator);
        projectBlocks(state, velocities);
    }

    int countStiffCoordinates(OpenMM::ContextImpl& context,
                              const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        HostState state(context);
        prepare(context, integrator);
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        std::atomic<int> count(0);
        blocks.forEach([&](const auto& block, auto& work) {
            count += stiffcore::countCoordinates(block, positions, box, work);
            return true;
        });
        return count;
    }

private:
    /** What the accelerations depend on beside positions and parameters, and what nobody announces a change of. */
    struct Dependencies {
        double stepSize = 0, beta = 0;
        stiffcore::Box box = {};
        Dependencies() = default;
        Dependencies(const HostState& state, const OpenMMStiff::ZhangSkeelIntegrator& integrator)
                : stepSize(integrator.getStepSize()), beta(integrator.getBeta()), box(state.box()) {
        }
        bool operator==(const Dependencies& other) const {
            return stepSize == other.stepSize && beta == other.beta && box == other.box;
        }
    };

    void prepare(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator) {
        if (blocks.prepare(context.getSystem(), particles.getMasses(), integrator.getStiffForceGroups(),
                           integrator.getIntegrationForceGroups(), className))
            accelerationsKnown = false;
    }

    /** Solve (M + b h^2 H1) a = F0 + F1 at the Context's present positions. */
    void computeAccelerations(OpenMM::ContextImpl& context, HostState& state,
                              const OpenMMStiff::ZhangSkeelIntegrator& integrator) {
        context.calcForcesAndEnergy(true, false, integrator.getIntegrationForceGroups());
        dependencies = Dependencies(state, integrator);
        const double h = integrator.getStepSize(), c = integrator.getBeta() * h * h;
        const std::vector<OpenMM::Vec3>&positions = state.positions(), &forces = state.forces();
        particles.divideByMasses(forces, accelerations);
        const int failed = blocks.forEach([&](const auto& block, auto& work) {
            return stiffcore::solveAccelerations(block, components(positions), components(forces), c, dependencies.box,
                                                 work, components(accelerations));
        });
        if (failed < 0)
            return;
        std::stringstream message;
        message << className << ": ";
        if (blocks.areFinite(failed, positions) && blocks.areFinite(failed, forces))
            message << "the matrix M + beta h^2 H1 of " << blocks.describe(failed) << " is not positive definite";
        else
            message << "the forces on " << blocks.describe(failed) << " are not finite";
        message << " (step size h " << h << " ps, beta " << integrator.getBeta()
                << "). Use a smaller step size, softer terms (smaller force constants), or minimize the energy first."
                << " The positions and velocities are those before the step";
        throw OpenMM::OpenMMException(message.str());
    }

    /** Move from x to q = x + b h^2 a; particles bound by constraints stay where these hold. */
    void show(double c, std::vector<OpenMM::Vec3>& positions) {
        backend.forEachPart(positions.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                if (particles.getMasses()[i] > 0 && !particles.isConstrained(i))
                    positions[i] += accelerations[i] * c;
        });
    }

    void projectBlocks(HostState& state, std::vector<OpenMM::Vec3>& velocities) {
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        blocks.forEach([&](const auto& block, auto& work) {
            return stiffcore::projectOnTangentSpace(block, positions, box, work, components(velocities));
        });
    }

    Backend backend;
    HostParticles<Backend> particles;
    HostBlocks<Backend> blocks;
    std::string className;

    // The hidden state, and the accelerations at x.
    PropagatedPositions x;
    std::vector<OpenMM::Vec3> accelerations;
    Dependencies dependencies;
    bool accelerationsKnown = false;

    // Scratch: x after the step.
    std::vector<OpenMM::Vec3> propagated;
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
