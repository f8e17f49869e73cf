#ifndef STIFFHOST_IMPULSE_KERNEL_H_
#define STIFFHOST_IMPULSE_KERNEL_H_

#include "HostStiffTerms.h"
#include "Machine.h"
#include "StepSession.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Checks.h"
#include "stiffcore/methods/ImpulseMethod.h"
#include "stiffcore/methods/Manifold.h"
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace stiffhost {

/**
 * The steps of the impulse methods.
 */
template <class Real> class ImpulseKernel : public StepSession, public OpenMMStiff::ImpulseQueries {
    using Method = stiffcore::ImpulseMethod;

public:
    using Integrator = OpenMMStiff::ImpulseIntegrator;

    ImpulseKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<PlatformResources> owned,
                  OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, false), blocks(backend),
              machine(state, particles, blocks, refusal()) {
    }

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override {
        StepSession::initialize(integrator, className);
        machine.initialize();
        update();
    }

    int computeNumMicroSteps() override {
        const Turn turn(*this);
        state.requirePositions();
        update();
        return chooseNumMicroSteps();
    }

protected:
    bool prepare() override {
        const OpenMMStiff::TermSelection selection(settings());
        if (!blocks.prepare(state.getSystem(), particles.getMasses(), selection, className))
            return false;
        frequency = unknown;
        return true;
    }
    /** Half a kick, the motion, and half a kick; with a heat bath one kick, and a motion that holds the heat bath. */
    void takeStep(bool goesOn) override {
        machine.setNumber(stiffcore::Uniform::NumMicroSteps, chooseNumMicroSteps() / getNumFlows());
        if (thermostat != nullptr) {
            kick();
            move({Method::Flow, Method::Thermalize, Method::Flow});
            return arrive();
        }
        if (!goesOn)
            machine.run({accelerate()});
        move({Method::Recall, Method::Kick, Method::Flow});
        arrive();
        kick();
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            frequency = unknown;
        StepSession::forget(changed);
        if (changed == OpenMM::State::Energy)
            blocks.forgetParameters();
    }

    // The bound of the frequency decides on the number of micro-steps, so it has to be that of the run resumed, unless
    // the masses or the terms have become others.

    HiddenState getHidden(const Turn&) override {
        return {{}, {frequency, sumSquaredMasses(), blocks.sumHarmonic()}};
    }
    void setHidden(const Turn&, const HiddenState& hidden) override {
        const bool isOfThese = hidden.numbers.size() == 3 && hidden.numbers[1] == sumSquaredMasses() &&
                               hidden.numbers[2] == blocks.sumHarmonic();
        frequency = isOfThese ? hidden.numbers[0] : unknown;
    }
    double sumSquaredMasses() const {
        const std::vector<double>& masses = particles.getMasses();
        return std::inner_product(masses.begin(), masses.end(), masses.begin(), 0.0);
    }

    SettingNumbers begin(stiffcore::StepNumbers& numbers) override {
        machine.begin({thermostat != nullptr}, numbers);
        return {double(settings().getKick()), double(integrator->getIntegrationForceGroups())};
    }
    [[noreturn]] void refuseMolecule(const std::string& molecule, bool forces) const override {
        forces ? refuseForces(molecule) : refuseMotion(molecule);
    }

private:
    /// The frequency before it has been computed.
    static constexpr double unknown = -1;
    /// The largest product of frequency and micro-step, if the number of micro-steps is ours to choose, and at all.
    static constexpr double accuratePhase = 0.35, stablePhase = 2;
    /// More micro-steps than this, 56 periods of the fastest vibration, have to be asked for.
    static constexpr int maxChosenMicroSteps = 1000;

    const Integrator& settings() const {
        return static_cast<const Integrator&>(*integrator);
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
        const bool chosen = settings().getUseDefaultNumMicroSteps();
        if (chosen && !(needed <= maxChosenMicroSteps))
            refuseStepSize(h, needed);
        const int number = (chosen ? int(needed) : settings().getNumMicroSteps());
        const int numInFlow = std::max(1, (number + numFlows - 1) / numFlows);
        OpenMMStiff::require(!(h * frequency > stablePhase * numFlows * numInFlow), className, ": ", number,
                             " micro-steps in a step of ", h, " ps are too few. The stiffest terms vibrate at up to ",
                             frequency, " rad/ps, for which micro-steps must not exceed ", stablePhase / frequency,
                             " ps. Call setNumMicroSteps() with ", needed,
                             " or more, or setUseDefaultNumMicroSteps(true) to have the number chosen");
        return numFlows * numInFlow;
    }

    /** Say that a step holds more vibrations than anybody is likely to have meant. */
    [[noreturn]] void refuseStepSize(double h, double needed) const {
        using OpenMMStiff::message;
        const std::string step = message(className, ": a step of ", h, " ps ");
        if (std::isfinite(needed))
            throw OpenMM::OpenMMException(message(
                    step, "would take ", needed, " micro-steps, as the stiffest terms vibrate at up to ", frequency,
                    " rad/ps: it holds ", h * frequency / (2 * M_PI),
                    " of their periods. Step sizes are in ps; were femtoseconds meant? (4 are 0.004 ps.) If not,",
                    " call setNumMicroSteps() with the number"));
        throw OpenMM::OpenMMException(
                message(step, "cannot be divided into micro-steps: the frequency of the stiffest terms is ", frequency,
                        " rad/ps. Use a smaller step size and force constants, and positions that are finite"));
    }

    bool isMollified() const {
        return settings().getKick() == Integrator::Mollified;
    }

    // Phases, with the constraints of the System between them.

    /** The phase by which blocks get their accelerations. */
    Method::Phase accelerate() {
        if (!isMollified()) {
            computeForces();
            return Method::Accelerate;
        }
        computeMollified();
        return Method::Recall;
    }
    void kick() {
        machine.run({accelerate(), Method::Kick});
        particles.constrainVelocities(integrator->getConstraintTolerance());
    }
    void move(std::initializer_list<Method::Phase> phases) {
        particles.constrainMotion(integrator->getStepSize(), integrator->getConstraintTolerance(),
                                  [&] { machine.run(phases); });
    }

    [[noreturn]] void refuseMotion(const std::string& molecule) const {
        fail("the motion of " + molecule + " under its stiff terms is not finite",
             "Use a smaller step size, more micro-steps, or minimize the energy first");
    }
    [[noreturn]] void refuseForces(const std::string& molecule) const {
        fail("the forces on " + molecule + " are not finite", "Use a smaller step size, or minimize the energy first");
    }

    void computeMollified() {
        Vectors& accelerations = machine.getAccelerations();
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

    HostStiffTerms<Real> blocks;
    Machine<Method, HostStiffTerms<Real>> machine;
    /// A bound of the angular frequency of the stiffest mode [1/ps], the hidden state.
    double frequency = unknown;
    // Scratch: positions, and those with the stiff coordinates at their equilibrium values.
    Vectors actual, nearest;
};

} // namespace stiffhost

#endif /* STIFFHOST_IMPULSE_KERNEL_H_ */
