#ifndef STIFFHOST_METHOD_KERNEL_H_
#define STIFFHOST_METHOD_KERNEL_H_

#include "Device.h"
#include "HostParticles.h"
#include "HostState.h"
#include "LastStep.h"
#include "Machine.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/Platform.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/internal/LangevinThermostat.h"
#include "stiffcore/methods/Elementary.h"
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * What every step needs and no method should know: where it is taken, in the memory of the host or on a device; what was
 * before a step that fails; who has the present state; what is remembered, saved and brought back.
 *
 * A method says what its step is made of, once for both, see takeStep(). On the host its phases work on the state, on a
 * device they are kernels. Everything but steps is done on the host.
 *
 * @tparam Backend        see Backend
 * @tparam Base           what the integrator asks of its kernel
 * @tparam Dependencies   see LastStep
 */
template <class Backend, class Base, class Dependencies> class MethodKernel : public Base {
public:
    using Integrator = typename Base::Integrator;

    /** @param hasProgram   whether devices have a program for the method */
    MethodKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                 OpenMM::ContextImpl& context, bool hasProgram)
            : Base(name, platform), ownBackend(std::move(owned)),
              ownState(ownBackend->getResources().makeState(context)),
              device(hasProgram ? ownBackend->getResources().makeDevice(context) : nullptr), context(context),
              backend(*ownBackend), state(*ownState), particles(*ownBackend, *ownState) {
    }

    void initialize(OpenMM::ContextImpl&, const Integrator& integrator) final {
        this->integrator = &integrator;
        thermostat = dynamic_cast<const OpenMMStiff::LangevinThermostat*>(&integrator);
        beforeDeviceIsReady();
        state.initialize();
        if (device != nullptr)
            device->initialize();
        particles.initialize();
        const Turn turn(*this);
        start();
    }
    void initializeRandom(int seed) final {
        backend.getResources().initializeRandom(seed);
        deviceHasRandom = device != nullptr && device->initializeRandom(seed);
    }

    // Steps.

    void prepare(OpenMM::ContextImpl&) final {
        const Turn turn(*this);
        prepare();
    }
    void beginSteps() final {
        // Somebody may have changed the Context without a word.
        if (lead != Lead::Host && !(rememberedThere && device->isAsRemembered())) {
            hear(); // what the steps have led to, not what has been made of that
            lead = Lead::Host;
        }
        inSteps = true;
        countAtBeginning = context.getStepCount();
        state.beginSteps();
    }
    void adoptState(OpenMM::ContextImpl&) final {
        if (lead != Lead::Host && canUseDevice() && isProgramCurrent())
            return goOnThere();
        askForFailure();
        const Turn turn(*this);
        adopt();
        if (device != nullptr) {
            lastStep.forgetThere();
            lead = Lead::Both;
            if (!hasCompiled || !isProgramCurrent())
                hasCompiled = compile();
            if (canUseDevice())
                handOver();
        }
    }
    void forcesHaveActed(bool onPositions) final {
        if (onPositions) {
            askForFailure();
            lastStep.forgetThere();
        }
        state.forcesHaveActed(onPositions);
    }
    void finishSteps(OpenMM::ContextImpl&) final {
        askForFailure();
    }
    void showState(OpenMM::ContextImpl&) final {
        if (lead == Lead::Device) {
            showThere();
            return state.deviceHasActed();
        }
        const Turn turn(*this);
        show();
    }
    void endSteps() final {
        state.endSteps();
        inSteps = false;
    }

    // Changes, and what is saved and brought back.

    void stateChanged(OpenMM::State::DataType changed) final {
        lastStep.forgetThere();
        if (changed == OpenMM::State::Positions || changed == OpenMM::State::Velocities) {
            hear();
            lead = Lead::Host;
        }
        state.haveBeenSet(changed);
        forget(changed);
    }
    void rememberState(OpenMM::ContextImpl&) final {
        rememberedThere = (lead == Lead::Device);
        if (rememberedThere)
            return device->remember();
        const Turn turn(*this);
        remembered.positions = state.positions();
        remembered.velocities = state.velocities();
    }
    void bringBackState(OpenMM::ContextImpl&) final {
        if (!rememberedThere) {
            const Turn turn(*this);
            state.changePositions() = remembered.positions;
            state.changeVelocities() = remembered.velocities;
            return;
        }
        const Device::State there = device->recall();
        context.setPositions(there.positions);
        context.setVelocities(there.velocities);
        device->remember(); // as it is now, rounded
        hear();
        lead = Lead::Host;
    }
    // A run that goes on begins again from what has been saved, to be the same as one that is resumed.
    void createCheckpoint(OpenMM::ContextImpl&, std::ostream& stream) final {
        const Turn turn(*this);
        state.write(stream);
        writeHidden(stream);
        backend.getResources().write(stream);
        lead = Lead::Host;
    }
    void loadCheckpoint(OpenMM::ContextImpl&, std::istream& stream) final {
        const Turn turn(*this);
        state.read(stream);
        readHidden(stream);
        backend.getResources().read(stream);
        lastStep.forget();
        lead = Lead::Host;
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode& node) final {
        const Turn turn(*this);
        writeHidden(node);
        lead = Lead::Host;
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode& node) final {
        const Turn turn(*this);
        readHidden(node);
        lastStep.forget();
        lead = Lead::Host;
    }

private:
    /** Who has what the next step begins with: the device if it has taken steps since. */
    enum class Lead { Host, Both, Device };

    // These go last, the state before what it may be working with.
    const std::unique_ptr<Backend> ownBackend;
    const std::unique_ptr<HostState> ownState;

protected:
    /** A call during which the method works in the memory of the host, and knows of all steps. */
    class Turn {
    public:
        explicit Turn(MethodKernel& kernel) : turn(kernel.hear()) {
        }

    private:
        const HostState::Turn turn;
    };

    // What a method says of itself. A turn is held, but where it is said.

    /** The Context has come into being. */
    virtual void start() = 0;
    /** See StiffStepKernel. */
    virtual void prepare() = 0;
    virtual void adopt() {
    }
    virtual void show() {
    }
    /** What is remembered of the last step may be void, see StiffStepKernel::stateChanged(). No turn is held. */
    virtual void forget(OpenMM::State::DataType changed) = 0;
    /** The hidden state in checkpoints and saved States, see StiffStepKernel. */
    virtual void writeHidden(std::ostream&) {
    }
    virtual void readHidden(std::istream&) {
    }
    virtual void writeHidden(OpenMM::SerializationNode&) {
    }
    virtual void readHidden(const OpenMM::SerializationNode&) {
    }

    /** A step begins: add the numbers of the method. No turn is held. */
    virtual void begin(stiffcore::StepNumbers&) {
    }

    // Of steps on the host. They begin with the positions that the method propagates.

    virtual const Vectors& getPropagated() {
        return state.positions();
    }
    /** A step has ended at positions that it propagates: show what the method shows. */
    virtual void stepHasEnded(const Vectors& /*propagated*/) {
    }

    // Of steps on a device.

    /** The first that is said. No turn is held. */
    virtual void beforeDeviceIsReady() {
    }
    /** Compile the program for what has been prepared; whether the device has one. */
    virtual bool compile() {
        return false;
    }
    /** Whether that is still what the integrator asks for. No turn is held. */
    virtual bool isProgramCurrent() {
        return true;
    }
    /** A step begins with the state that the device has, and one has ended: the same as adopt() and show(), there. */
    virtual void goOnThere() {
    }
    virtual void showThere() {
    }
    /** Give the device what the Context does not have; take what the method chooses for steps that follow. */
    virtual void handOver() {
    }
    /** Steps have been taken since, which have led to a state. No turn is held. */
    virtual void stepsHaveBeenTaken(const Device::State& /*state*/) {
    }
    /** A step has failed, and the Context has the state before it. isFirst: no step of this call has been taken. */
    virtual void stepHasFailedThere(const Device::State& /*before*/, bool /*isFirst*/) {
    }
    /** Throw the error of a step that has failed because of a block, or of the forces on it. No turn is held. */
    [[noreturn]] virtual void refuseBlock(const std::vector<int>& /*particles*/, bool /*forces*/) const {
        throw OpenMM::OpenMMException(this->className + ": this method has no steps on devices");
    }

    /** Whether the present step is taken on the device. */
    bool isOnDevice() const {
        return lead == Lead::Device;
    }
    /** Whether the device has the random numbers of the integrator, if it has a heat bath. */
    bool hasRandomThere() const {
        return thermostat == nullptr || deviceHasRandom;
    }

    /**
     * Take a step, on the device if it can. If the step fails, the Context has the state before it.
     *
     * @param stateModified   whether a force has modified the state just before
     * @param course          the phases of the step: called as course(known), where `known` says that the step begins
     *                        where the last one has ended. On the host, its end propagates the Context's positions.
     */
    template <class Course> void takeStep(const Dependencies& dependencies, bool stateModified, Course&& course) {
        const double h = integrator->getStepSize();
        const stiffcore::StepNumbers numbers = findNumbers();
        if (canUseDevice()) {
            const bool known = lastStep.isContinuedThere(dependencies) && !stateModified;
            device->beginStep(numbers);
            lead = Lead::Device;
            state.deviceHasActed();
            course(known);
            state.advanceTime(h);
            lastStep.endsThere(dependencies);
            if (device->isTimeToAsk())
                askForFailure();
            device->endStep();
            return;
        }
        const Turn turn(*this);
        lead = Lead::Host;
        const bool known = lastStep.isContinuedBy(getPropagated(), dependencies) && !stateModified;
        particles.orRestore(className, [&] {
            course(known);
            particles.requirePossibleVelocities(className, h);
        });
        stepHasEnded(lastStep.endsAt(state.positions(), dependencies));
        state.advanceTime(h);
    }

    /**
     * The course of steps that are made of kicks and of a motion between them, half a kick before it and half after; with a
     * heat bath one kick, and a motion that holds the heat bath.
     *
     * @tparam Method   has the kernels Start, which leaves what the first kick needs, Move and Finish
     */
    template <class Method, class Forces, class Execute>
    void kickAndMove(bool known, Forces&& computeForces, Execute&& execute) {
        if (thermostat != nullptr) {
            computeForces();
            execute(Method::Move);
            return computeVirtualSites();
        }
        if (!known) {
            computeForces();
            execute(Method::Start);
        }
        execute(Method::Move);
        computeVirtualSites();
        computeForces();
        execute(Method::Finish);
    }
    /** Throw the error of blocks for which phases did not succeed, if there are any. */
    void require(const FailedBlock& failed) const {
        if (failed.particles != nullptr)
            refuseBlock(*failed.particles, failed.isPushed);
    }
    /** Execute phases of the method on the host. */
    template <class Machine, class... Phases> void run(Machine& machine, Phases... phases) {
        require(machine.run(std::array<typename Machine::Phase, sizeof...(Phases)>{phases...}));
    }
    /** Execute a kernel of the method on the device. */
    template <class Machine> void executeThere(Machine& machine, int kernel) {
        if (machine.executeThere(kernel))
            askForFailure();
    }

    // Phases that all methods have.

    void computeForces() {
        const int groups = integrator->getIntegrationForceGroups();
        if (isOnDevice())
            context.calcForcesAndEnergy(true, false, groups);
        else
            state.computeForces(groups);
    }
    /** After a motion. On the host, one that has no end is found out before forces are asked for there. */
    void computeVirtualSites() {
        if (isOnDevice())
            return context.computeVirtualSites();
        particles.requireFiniteVelocities(className, integrator->getStepSize());
        state.computeVirtualSites();
    }

    /** kT [kJ/mol], 0 without a heat bath. */
    double getThermalEnergy() const {
        return thermostat == nullptr ? 0 : BOLTZ * thermostat->getTemperature();
    }
    /** Throw the error of a step that has failed on the device, if one has. */
    void askForFailure() {
        if (device == nullptr || !device->hasFailed())
            return;
        const Device::Failure failure = device->recover();
        lead = Lead::Host;
        lastStep.forget();
        state.deviceHasActed();
        {
            const Turn turn(*this);
            state.changePositions() = failure.before.positions;
            state.changeVelocities() = failure.before.velocities;
            state.computeVirtualSites();
            stepHasFailedThere(failure.before, context.getStepCount() == countAtBeginning);
            particles.requireFiniteState(className);
        }
        if (failure.kind == Device::VelocityFailed)
            particles.refuseVelocity(failure.particle, className, integrator->getStepSize());
        refuseBlock(failure.block, failure.kind == Device::ForcesFailed);
    }

    using Base::className;
    const Integrator* integrator = nullptr;
    /// The heat bath of the integrator, or null.
    const OpenMMStiff::LangevinThermostat* thermostat = nullptr;
    const std::unique_ptr<Device> device;
    OpenMM::ContextImpl& context;
    Backend& backend;
    HostState& state;
    HostParticles<Backend> particles;
    LastStep<Dependencies> lastStep;

private:
    stiffcore::StepNumbers findNumbers() {
        using stiffcore::Uniform;
        const double h = integrator->getStepSize(), kT = getThermalEnergy();
        const stiffcore::OrnsteinUhlenbeck heatBath(thermostat == nullptr ? 0 : thermostat->getFriction(), kT, h);
        stiffcore::StepNumbers numbers;
        numbers[Uniform::StepSize] = h;
        numbers[Uniform::Tolerance] = integrator->getConstraintTolerance();
        numbers[Uniform::ThermalEnergy] = kT;
        numbers[Uniform::Decay] = heatBath.decay;
        numbers[Uniform::NoiseAmplitude] = heatBath.amplitude;
        begin(numbers);
        return numbers;
    }
    bool canUseDevice() const {
        return hasCompiled && device->areTogether();
    }
    /** Let the method know what steps of the device have led to. */
    HostState& hear() {
        if (lead == Lead::Device) {
            if (inSteps)
                device->remember();
            lead = Lead::Both;
            stepsHaveBeenTaken(device->recall());
        }
        return state;
    }

    Lead lead = Lead::Host;
    bool inSteps = false;
    /// Whether the device has a program, and random numbers that are the integrator's.
    bool hasCompiled = false, deviceHasRandom = false;
    /// Whether the device, rather than the host, remembers a state.
    bool rememberedThere = false;
    Device::State remembered;
    long long countAtBeginning = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_METHOD_KERNEL_H_ */
