#ifndef STIFFHOST_IMPULSE_KERNEL_H_
#define STIFFHOST_IMPULSE_KERNEL_H_

#include "Checkpoints.h"
#include "HostStiffTerms.h"
#include "KickMoveKernel.h"
#include "openmm/OpenMMException.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Message.h"
#include "stiffcore/methods/FastFlow.h"
#include "stiffcore/methods/Manifold.h"
#include "stiffcore/methods/TangentSpace.h"
#include <algorithm>
#include <cmath>
#include <sstream>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stiffhost {

/// What accelerations depend on beside positions and parameters: the kick, the force groups and the box.
using ImpulseDependencies = std::tuple<OpenMMStiff::ImpulseIntegrator::KickMethod, int, stiffcore::Box>;

/**
 * The steps of the impulse methods. On a device the kick is plain or projected, and the System without constraints.
 */
template <class Backend>
class ImpulseKernel
        : public KickMoveKernel<Backend, OpenMMStiff::IntegrateImpulseStepKernel, ImpulseDependencies, ImpulseProgram> {
    using Program = ImpulseProgram;
    using Base = KickMoveKernel<Backend, OpenMMStiff::IntegrateImpulseStepKernel, ImpulseDependencies, Program>;
    using Base::backend, Base::className, Base::device, Base::integrator, Base::lastStep, Base::particles, Base::state,
            Base::thermostat;
    using typename Base::Turn;

public:
    using Integrator = OpenMMStiff::ImpulseIntegrator;

    ImpulseKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                  OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context, true), blocks(backend) {
    }

    int computeNumMicroSteps(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        prepare();
        return chooseNumMicroSteps();
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        return particles.computeKineticEnergy();
    }

protected:
    void start() override {
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        prepare();
    }
    void prepare() override {
        if (!blocks.prepare(state.getSystem(), particles.getMasses(), OpenMMStiff::TermSelection(*integrator),
                            className))
            return;
        lastStep.forget();
        frequency = unknown;
        compiled = false;
    }
    void adopt() override {
        prepare();
        numMicroSteps = chooseNumMicroSteps();
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            frequency = unknown;
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
        if (changed == OpenMM::State::Energy)
            blocks.forgetParameters();
    }

    // The bound of the frequency decides on the number of micro-steps, so it has to be that of the run resumed, unless
    // the masses have become others.

    void writeHidden(std::ostream& stream) override {
        writeCheckpoint(stream, frequency);
        writeCheckpoint(stream, sumSquaredMasses());
    }
    void readHidden(std::istream& stream) override {
        double sum;
        readCheckpoint(stream, &frequency, 1);
        readCheckpoint(stream, &sum, 1);
        if (sum != sumSquaredMasses())
            frequency = unknown;
    }
    void writeHidden(OpenMM::SerializationNode& node) override {
        node.createChildNode("FastMotion")
                .setDoubleProperty("frequency", frequency)
                .setDoubleProperty("masses", sumSquaredMasses());
    }
    void readHidden(const OpenMM::SerializationNode& node) override {
        for (const OpenMM::SerializationNode& child : node.getChildren())
            if (child.getName() == "FastMotion" && child.getDoubleProperty("masses", 0) == sumSquaredMasses())
                frequency = child.getDoubleProperty("frequency");
    }
    double sumSquaredMasses() const {
        const std::vector<double>& masses = particles.getMasses();
        return std::inner_product(masses.begin(), masses.end(), masses.begin(), 0.0);
    }

    // On a device.

    bool compile() override {
        chosenFor = getChoice();
        if (integrator->getKick() == Integrator::Mollified || !this->hasRandomThere() ||
            state.getSystem().getNumConstraints() > 0)
            return false;
        for (const stiffcore::Block& block : blocks.getBlocks())
            if ((int) block.terms.size() > maxTermsThere)
                return false;
        if (!compiled)
            device->compile(Program{thermostat != nullptr}, blocks.getBlocks(), blocks.getTerms(),
                            particles.getMasses());
        compiled = true;
        return true;
    }
    bool isProgramCurrent() override {
        return compiled && blocks.areUpToDate(OpenMMStiff::TermSelection(*integrator)) && getChoice() == chosenFor;
    }
    void addNumbers(StepNumbers& numbers) override {
        numbers.numMicroSteps = numMicroSteps / getNumFlows();
    }
    [[noreturn]] void refuseBlock(const std::vector<int>& block, bool forces) const override {
        const std::string molecule = describeMolecule(block, particles.countMobile(block));
        forces ? refuseForces(molecule) : refuseMotion(molecule);
    }

private:
    /// The frequency before it has been computed.
    static constexpr double unknown = -1;
    /// The largest product of frequency and micro-step, if the number of micro-steps is ours to choose, and at all.
    static constexpr double accuratePhase = 0.35, stablePhase = 2;
    /// More micro-steps than this, 56 periods of the fastest vibration, have to be asked for.
    static constexpr int maxChosenMicroSteps = 1000;

    /// Molecules with more terms than this are left to the host.
    static constexpr int maxTermsThere = 20;

    /** What the number of micro-steps is chosen for. */
    std::pair<double, int> getChoice() const {
        return {integrator->getStepSize(), integrator->getNumMicroSteps()};
    }
    /** The number of equal parts into which a step divides the motion under the stiff terms. */
    int getNumFlows() const {
        return thermostat == nullptr ? 1 : 2;
    }
    /** The number of micro-steps in a step. */
    int chooseNumMicroSteps() {
        const int numFlows = getNumFlows();
        const double h = integrator->getStepSize();
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
        const bool chosen = integrator->getUseDefaultNumMicroSteps();
        if (chosen && !(needed <= maxChosenMicroSteps))
            refuseStepSize(h, needed);
        const int number = (chosen ? int(needed) : integrator->getNumMicroSteps());
        const int numInFlow = std::max(1, (number + numFlows - 1) / numFlows);
        if (h * frequency > stablePhase * numFlows * numInFlow)
            throw OpenMM::OpenMMException(
                    OpenMMStiff::message(className, ": ", number, " micro-steps in a step of ", h,
                                         " ps are too few. The stiffest terms vibrate at up to ", frequency,
                                         " rad/ps, for which micro-steps must not exceed ", stablePhase / frequency,
                                         " ps. Call setNumMicroSteps() with ", needed,
                                         " or more, or setUseDefaultNumMicroSteps(true) to have the number chosen"));
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

    // The phases.

    ImpulseDependencies findDependencies() final {
        return {integrator->getKick(), integrator->getIntegrationForceGroups(), state.box()};
    }
    void computeAccelerations() final {
        if (this->isOnDevice())
            return this->computeForces();
        if (integrator->getKick() == Integrator::Mollified)
            computeMollified();
        else
            computeAtPositions();
    }
    void moveLangevin() final {
        if (this->isOnDevice())
            return device->execute(Program::Move);
        const stiffcore::OrnsteinUhlenbeck heatBath = this->makeHeatBath();
        const double h = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
        particles.kick(h, accelerations);
        particles.constrainVelocities(tolerance);
        particles.constrainMotion(h, tolerance, [&] {
            flow(0.5 * h, numMicroSteps / 2);
            particles.drawNoise(heatBath);
            particles.thermalize(heatBath);
            flow(0.5 * h, numMicroSteps / 2);
        });
    }

    void moveVerlet() final {
        if (this->isOnDevice())
            return device->execute(Program::Move);
        const double h = integrator->getStepSize();
        particles.kick(0.5 * h, accelerations);
        particles.constrainMotion(h, integrator->getConstraintTolerance(), [&] { flow(h, numMicroSteps); });
    }
    void kick() final {
        if (this->isOnDevice())
            return device->execute(Program::Kick);
        particles.kick(0.5 * integrator->getStepSize(), accelerations);
        particles.constrainVelocities(integrator->getConstraintTolerance());
    }

    /** The motion over a time t without the slow forces. */
    void flow(double t, int numMicroSteps) {
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
            refuseMotion(failed);
    }

    void computeAtPositions() {
        state.computeForces(integrator->getIntegrationForceGroups());
        particles.divideByMasses(state.forces(), accelerations);
        const double *x = components(state.positions()), *F = components(state.forces());
        const stiffcore::Box box = state.box();
        const std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            computeSlowAccelerations(batch, x, F, box, work);
            const auto projected = projectOnTangentSpace(batch, box, work, work.a);
            return scatter(projected & areFinite(batch, work.a), batch, work.a, components(accelerations));
        });
        if (!failed.empty())
            refuseForces(failed);
    }

    [[noreturn]] void refuseMotion(const std::string& molecule) const {
        fail("the motion of " + molecule + " under its stiff terms is not finite",
             "Use a smaller step size, more micro-steps, or minimize the energy first");
    }
    [[noreturn]] void refuseForces(const std::string& molecule) const {
        fail("the forces on " + molecule + " are not finite", "Use a smaller step size, or minimize the energy first");
    }

    void computeMollified() {
        actual = nearest = state.positions();
        const stiffcore::Box box = state.box();
        std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            return findNearestPoint(batch, components(actual), box, work, components(nearest));
        });
        if (!failed.empty()) {
            // If the positions have not been set, OpenMM says so.
            state.computeForces(integrator->getIntegrationForceGroups());
            fail("the stiff coordinates of " + failed +
                         " cannot all be brought to their equilibrium"
                         " values: either the molecule is too distorted, or the values contradict each other, as they "
                         "often do"
                         " in rings and where many bonds meet",
                 "Use setKick() with Projected, which needs no such values, choose fewer coordinates with"
                 " setProjectedPeriod(), use a smaller step size, or minimize the energy first");
        }
        state.changePositions() = nearest;
        state.computeVirtualSites();
        state.computeForces(integrator->getIntegrationForceGroups());
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
             "Use a smaller step size, or minimize the energy first");
    }

    [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
        throw OpenMMStiff::StepFailure(
                OpenMMStiff::message(className, ": ", what, " (step size ", integrator->getStepSize(), " ps). ", remedy,
                                     ". The positions and velocities are those before the step"));
    }

    HostStiffTerms<Backend> blocks;
    /// A bound of the angular frequency of the stiffest mode [1/ps], the hidden state.
    double frequency = unknown;

    /// Of the steps that follow; and what it was chosen for.
    int numMicroSteps = 0;
    std::pair<double, int> chosenFor;
    /// Whether the device has been given the present terms.
    bool compiled = false;
    Vectors accelerations;

    // Scratch: positions, and those with the stiff coordinates at their equilibrium values.
    Vectors actual, nearest;
};

} // namespace stiffhost

#endif /* STIFFHOST_IMPULSE_KERNEL_H_ */
