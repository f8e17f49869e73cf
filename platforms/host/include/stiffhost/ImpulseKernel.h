#ifndef STIFFHOST_IMPULSE_KERNEL_H_
#define STIFFHOST_IMPULSE_KERNEL_H_

#include "Checkpoints.h"
#include "HostKernel.h"
#include "HostStiffTerms.h"
#include "LastStep.h"
#include "SharedKernels.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/OpenMMException.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "stiffcore/methods/FastFlow.h"
#include "stiffcore/methods/Manifold.h"
#include "stiffcore/methods/TangentSpace.h"
#include <algorithm>
#include <cmath>
#include <sstream>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace stiffhost {

/**
 * The steps of the impulse methods in the memory of the host. See HostParticles for the
 * Backend.
 */
template <class Backend> class ImpulseKernel : public HostKernel<Backend, SharedImpulseKernel> {
    using Base = HostKernel<Backend, SharedImpulseKernel>;
    using Base::backend, Base::className, Base::particles, Base::state;
    using typename Base::Turn;

public:
    using Integrator = OpenMMStiff::ImpulseIntegrator;

    ImpulseKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                  OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context), blocks(backend) {
    }

    void initialize(OpenMM::ContextImpl&, const Integrator& integrator) override {
        this->integrator = &integrator;
        particles.initialize();
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        prepare(integrator);
    }

    void prepare(OpenMM::ContextImpl&) override {
        prepare(*integrator);
    }

    std::string adoptState(OpenMM::ContextImpl&) override {
        // execute() compares positions: there is no hidden state that others could leave behind.
        return {};
    }

    void execute(OpenMM::ContextImpl&, const Integrator& integrator, bool stateModified) override {
        const Turn turn(state);
        prepare(integrator);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const int numMicroSteps = chooseNumMicroSteps(integrator, 1);
        const bool known = lastStep.isContinuedBy(state.positions(), findDependencies(integrator)) && !stateModified;
        particles.orRestore(className, [&] {
            if (!known)
                computeAccelerations(integrator);
            particles.kick(0.5 * h, accelerations);
            particles.constrainMotion(h, tolerance, [&] { flow(h, numMicroSteps, h); });
            state.computeVirtualSites();
            computeAccelerations(integrator);
            particles.kick(0.5 * h, accelerations);
            particles.constrainVelocities(tolerance);
            particles.requirePossibleVelocities(className, h);
        });
        lastStep.endsAt(state.positions(), dependencies);
        state.advanceTime(h);
    }

    void executeLangevin(OpenMM::ContextImpl&, const OpenMMStiff::ImpulseLangevinIntegrator& integrator) override {
        const Turn turn(state);
        prepare(integrator);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck heatBath(integrator.getFriction(), kT, h);
        const int numMicroSteps = chooseNumMicroSteps(integrator, 2);
        particles.orRestore(className, [&] {
            computeAccelerations(integrator);
            particles.kick(h, accelerations);
            particles.constrainVelocities(tolerance);
            particles.constrainMotion(h, tolerance, [&] {
                flow(0.5 * h, numMicroSteps / 2, h);
                particles.drawNoise(heatBath);
                particles.thermalize(heatBath);
                flow(0.5 * h, numMicroSteps / 2, h);
            });
            state.computeVirtualSites();
            particles.requirePossibleVelocities(className, h);
        });
        state.advanceTime(h);
    }

    int computeNumMicroSteps(OpenMM::ContextImpl&, const Integrator& integrator, int numFlows) override {
        const Turn turn(state);
        prepare(integrator);
        return chooseNumMicroSteps(integrator, numFlows);
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        return particles.computeKineticEnergy();
    }

    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            frequency = unknown;
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
        if (changed == OpenMM::State::Energy)
            blocks.forgetParameters();
    }

    // The bound of the frequency decides on the number of micro-steps, so it has to be that of the run resumed.

    void writeHidden(std::ostream& stream) const override {
        writeCheckpoint(stream, frequency);
    }
    void readHidden(std::istream& stream) override {
        readCheckpoint(stream, &frequency, 1);
        lastStep.forget();
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode& node) const override {
        node.createChildNode("FastMotion").setDoubleProperty("frequency", frequency);
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode& node) override {
        for (const OpenMM::SerializationNode& child : node.getChildren())
            if (child.getName() == "FastMotion")
                frequency = child.getDoubleProperty("frequency");
        lastStep.forget();
    }

    // What a device asks for that takes the steps.

    void stepsHaveBeenTaken(const SharedKernel::State&) override {
        lastStep.forget();
    }
    void stepHasFailed(const SharedKernel::State& before, bool) override {
        const Turn turn(state);
        state.changePositions() = before.positions;
        state.changeVelocities() = before.velocities;
        state.computeVirtualSites();
        lastStep.forget();
        particles.requireFiniteState(className);
    }
    void refuseBlock(const std::vector<int>& block, bool forces) const override {
        const std::string molecule = describeMolecule(block, particles.countMobile(block));
        forces ? refuseForces(molecule, integrator->getStepSize()) : refuseMotion(molecule, integrator->getStepSize());
    }
    void refuseVelocity(int particle) const override {
        particles.refuseVelocity(particle, className, integrator->getStepSize());
    }

private:
    /// The frequency before it has been computed.
    static constexpr double unknown = -1;
    /// The largest product of frequency and micro-step, if the number of micro-steps is ours to choose, and at all.
    static constexpr double accuratePhase = 0.35, stablePhase = 2;
    /// More micro-steps than this, 56 periods of the fastest vibration, have to be asked for.
    static constexpr int maxChosenMicroSteps = 1000;

    /** What the accelerations depend on beside positions and parameters, and what nobody announces a change of. */
    using Dependencies = std::tuple<Integrator::KickMethod, int, stiffcore::Box>;
    Dependencies findDependencies(const Integrator& integrator) const {
        return {integrator.getKick(), integrator.getIntegrationForceGroups(), state.box()};
    }

    void prepare(const Integrator& integrator) {
        if (!blocks.prepare(state.getSystem(), particles.getMasses(), selectTerms(integrator), className))
            return;
        lastStep.forget();
        frequency = unknown;
    }

    int chooseNumMicroSteps(const Integrator& integrator, int numFlows) {
        const double h = integrator.getStepSize();
        if (frequency == unknown) {
            const stiffcore::Box box = state.box();
            double largest = 0;
            blocks.visitInOrder([&](const auto& batch, auto& work) {
                gather(batch, components(state.positions()), work.x);
                const auto bound = boundFrequency(batch, box, work);
                for (int lane = 0; lane < batch.count; lane++)
                    largest = std::max(largest, stiffcore::laneOf(bound, lane));
            });
            frequency = largest;
        }
        const double needed = std::ceil(h * frequency / accuratePhase);
        if (integrator.getNumMicroSteps() == 0 && !(needed <= maxChosenMicroSteps))
            refuseStepSize(h, needed);
        const int number = (integrator.getNumMicroSteps() > 0 ? integrator.getNumMicroSteps() : int(needed));
        const int numInFlow = std::max(1, (number + numFlows - 1) / numFlows);
        if (h * frequency > stablePhase * numFlows * numInFlow) {
            std::stringstream message;
            message << className << ": " << number << " micro-steps in a step of " << h
                    << " ps are too few. The stiffest terms vibrate at up to " << frequency
                    << " rad/ps, for which micro-steps must not exceed " << stablePhase / frequency
                    << " ps. Call setNumMicroSteps() with " << needed
                    << " or more, or with 0 to have the number chosen";
            throw OpenMM::OpenMMException(message.str());
        }
        return numFlows * numInFlow;
    }

    /** Say that a step holds more vibrations than anybody is likely to have meant. */
    [[noreturn]] void refuseStepSize(double h, double needed) const {
        std::stringstream message;
        message << className << ": a step of " << h << " ps ";
        if (std::isfinite(needed))
            message << "would take " << needed << " micro-steps, as the stiffest terms vibrate at up to " << frequency
                    << " rad/ps: it holds " << h * frequency / (2 * M_PI)
                    << " of their periods. Step sizes are in ps; were femtoseconds meant? (4 are 0.004 ps.) If not,"
                    << " call setNumMicroSteps() with the number";
        else
            message << "cannot be divided into micro-steps: the frequency of the stiffest terms is " << frequency
                    << " rad/ps. Use a smaller step size and force constants, and positions that are finite";
        throw OpenMM::OpenMMException(message.str());
    }

    /** The motion over a time t without the slow forces. */
    void flow(double t, int numMicroSteps, double stepSize) {
        const stiffcore::Box box = state.box();
        particles.drift(t, blocks.getFreeParticles());
        double *x = components(state.changePositions()), *v = components(state.changeVelocities());
        const std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            gather(batch, x, work.x);
            gatherVelocities(batch, v, work.v);
            flowFast(batch, t, numMicroSteps, box, work);
            scatter(batch, work.x, x);
            scatter(batch, work.v, v);
            return areFinite(batch, work.x) & areFinite(batch, work.v);
        });
        if (!failed.empty())
            refuseMotion(failed, stepSize);
    }

    /** Compute what the slow forces do to the velocities, at the Context's present positions. */
    void computeAccelerations(const Integrator& integrator) {
        dependencies = findDependencies(integrator);
        if (integrator.getKick() == Integrator::Mollified)
            computeMollified(integrator);
        else
            computeAtPositions(integrator);
    }

    void computeAtPositions(const Integrator& integrator) {
        state.computeForces(integrator.getIntegrationForceGroups());
        particles.divideByMasses(state.forces(), accelerations);
        const double *x = components(state.positions()), *F = components(state.forces());
        const stiffcore::Box box = state.box();
        const std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            computeSlowAccelerations(batch, x, F, box, work);
            const auto projected = projectOnTangentSpace(batch, box, work, work.a);
            return scatter(projected & areFinite(batch, work.a), batch, work.a, components(accelerations));
        });
        if (!failed.empty())
            refuseForces(failed, integrator.getStepSize());
    }

    [[noreturn]] void refuseMotion(const std::string& molecule, double stepSize) const {
        fail("the motion of " + molecule + " under its stiff terms is not finite", stepSize,
             "Use a smaller step size, more micro-steps, or minimize the energy first");
    }
    [[noreturn]] void refuseForces(const std::string& molecule, double stepSize) const {
        fail("the forces on " + molecule + " are not finite", stepSize,
             "Use a smaller step size, or minimize the energy first");
    }

    void computeMollified(const Integrator& integrator) {
        actual = nearest = state.positions();
        const stiffcore::Box box = state.box();
        std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            return findNearestPoint(batch, components(actual), box, work, components(nearest));
        });
        if (!failed.empty()) {
            // If the positions have not been set, OpenMM says so.
            state.computeForces(integrator.getIntegrationForceGroups());
            fail("the stiff coordinates of " + failed +
                         " cannot all be brought to their equilibrium"
                         " values: either the molecule is too distorted, or the values contradict each other, as they "
                         "often do"
                         " in rings and where many bonds meet",
                 integrator.getStepSize(),
                 "Use setKick() with Projected, which needs no such values, choose fewer coordinates with"
                 " setProjectedPeriod(), use a smaller step size, or minimize the energy first");
        }
        state.changePositions() = nearest;
        state.computeVirtualSites();
        state.computeForces(integrator.getIntegrationForceGroups());
        state.changePositions() = actual;
        particles.divideByMasses(state.forces(), accelerations);
        failed = blocks.forEach([&](const auto& batch, auto& work) {
            return pullBack(batch, components(actual), components(nearest), components(state.forces()), box, work,
                            components(accelerations));
        });
        if (failed.empty())
            return;
        const std::string notFinite = blocks.findNotFinite(state.forces());
        fail(notFinite.empty() ? failed + " is too distorted for the mollified forces"
                               : "the forces on " + notFinite + " are not finite",
             integrator.getStepSize(), "Use a smaller step size, or minimize the energy first");
    }

    [[noreturn]] void fail(const std::string& what, double stepSize, const std::string& remedy) const {
        std::stringstream message;
        message << className << ": " << what << " (step size " << stepSize << " ps). " << remedy
                << ". The positions and velocities are those before the step";
        throw OpenMMStiff::StepFailure(message.str());
    }

    HostStiffTerms<Backend> blocks;
    const Integrator* integrator = nullptr;

    /// A bound of the angular frequency of the stiffest mode [1/ps], the hidden state.
    double frequency = unknown;

    // The kick at the end of the last step, which is that at the beginning of the next unless something has changed.
    Vectors accelerations;
    Dependencies dependencies = {};
    LastStep<Dependencies> lastStep;

    // Scratch: positions, and those with the stiff coordinates at their equilibrium values.
    Vectors actual, nearest;
};

} // namespace stiffhost

#endif /* STIFFHOST_IMPULSE_KERNEL_H_ */
