#include "stiffhost/StepSession.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/internal/AndersenThermostatImpl.h"
#include "openmm/internal/CMMotionRemoverImpl.h"
#include "openmmstiff/internal/Checks.h"
#include "stiffhost/Checkpoints.h"
#include "stiffcore/methods/Elementary.h"
#include <iostream>

using namespace OpenMM;
using namespace stiffhost;
using OpenMMStiff::StiffIntegrator;

std::unique_ptr<Device> PlatformResources::makeDevice(ContextImpl&) {
    return nullptr;
}

StepSession::StepSession(const std::string& name, const Platform& platform, std::unique_ptr<PlatformResources> owned,
                         ContextImpl& context, bool useDevice)
        : StiffStepKernel(name, platform), context(context), backend(std::move(owned), context),
          ownState(backend.getResources().makeState(context)),
          device(useDevice ? backend.getResources().makeDevice(context) : nullptr), state(*ownState),
          particles(backend, state) {
}

void StepSession::initialize(const StiffIntegrator& integrator, const std::string& className) {
    this->integrator = &integrator;
    this->className = className;
    thermostat = dynamic_cast<const OpenMMStiff::LangevinThermostat*>(&integrator);
    state.initialize();
    if (device != nullptr)
        device->initialize();
    particles.initialize();
    if (thermostat == nullptr)
        return;
    backend.getResources().initializeRandom(thermostat->getRandomNumberSeed());
    if (device != nullptr && !device->initializeRandom(thermostat->getRandomNumberSeed()))
        device.reset();
}

void StepSession::update() {
    if (!prepare())
        return;
    lastStep.forget();
    program = Program::Outdated;
}

// Steps.

void StepSession::requirePossible() {
    const int present = context.getSystem().getNumParticles(), number = particles.getMasses().size();
    OpenMMStiff::require(present == number, className, ": the System has ", present, " particles, the Context ", number,
                         ". Call reinitialize() without preserveState, and setPositions()");
    update();
}

void StepSession::beginSteps() {
    // Somebody may have changed the Context without a word.
    if (lead != Lead::Host && !device->isAsRemembered()) {
        hear(); // what the steps have led to, not what has been made of that
        lead = Lead::Host;
    }
    countAtBeginning = context.getStepCount();
    state.beginSteps();
    activity = Activity::Steps;
}

void StepSession::takeStep() try {
    adoptState();
    const bool stateModified = updateContextState();
    const double h = integrator->getStepSize();
    stiffcore::StepNumbers numbers = findNumbers();
    Dependencies dependencies = {begin(numbers), state.box(), state.time()};
    if (canUseDevice()) {
        const bool goesOn = lastStep.isContinuedThere(dependencies) && !stateModified;
        device->beginStep(numbers);
        lead = Lead::Device;
        state.deviceHasActed();
        takeStep(goesOn);
        departure.reset();
        dependencies.time = state.time();
        lastStep.endsThere(dependencies);
        if (device->isTimeToAsk())
            askForFailure();
        device->endStep();
        return;
    }
    const Turn turn(*this);
    lead = Lead::Host;
    const bool goesOn = lastStep.isContinuedBy(state.positions(), dependencies) && !stateModified;
    particles.orRestore(className, [&] {
        takeStep(goesOn);
        particles.requirePossibleVelocities(className, h);
    });
    dependencies.time = state.time();
    stepHasEnded();
    lastStep.endsAt(state.positions(), dependencies);
    departure.reset();
}
catch (...) {
    if (departure)
        state.setTime(*departure, context.getStepCount() - 1);
    departure.reset();
    if (lead == Lead::Device) { // a force has thrown: maybe because a step has failed, and nobody has asked
        askForFailure();
        if (device->isHalfDone())
            undo(device->recallBefore());
    }
    throw;
}

/** Notice what somebody else has set since the last step, such as another integrator of a CompoundIntegrator. */
void StepSession::adoptState() {
    update();
    if (lead != Lead::Host && canUseDevice()) {
        if (form == Form::Shown)
            device->execute(stiffcore::PenaltyMethod::Propagate);
        begunThere |= form == Form::Shown;
        form = Form::Propagated;
        return;
    }
    askForFailure();
    const Turn turn(*this);
    if (form == Form::Shown)
        beginPropagating(turn);
    if (device == nullptr)
        return;
    lastStep.forgetThere();
    lead = Lead::Both;
    if (program == Program::Outdated)
        program = compile() ? Program::Ready : Program::Impossible;
}

void StepSession::beginPropagating(const Turn& turn) {
    turnInto(Form::Propagated, turn);
    form = Form::Propagated;
    begunThere = false;
}

/** What ContextImpl::updateContextState() does; collisions are told apart. (A Force may be gone, its ForceImpl is not.) */
bool StepSession::updateContextState() {
    bool stateModified = false;
    const CommonMotion common = getCommonMotion();
    for (ForceImpl* force : context.getForceImpls()) {
        const bool isRemover = dynamic_cast<const CMMotionRemoverImpl*>(force) != nullptr;
        const bool collides =
                dynamic_cast<const AndersenThermostatImpl*>(force) != nullptr || (common.ofShown && isRemover);
        if (collides) {      // the velocities that are shown
            askForFailure(); // while what is known of velocities is that of the last step that has not failed
            forcesHaveActed(stateModified);
            turnInto(Form::Shown, Turn(*this));
            form = Form::Shown;
            beforeCollision = state.velocities();
        }
        force->updateContextState(context, stateModified);
        if (collides) {
            forcesHaveActed(stateModified);
            haveCollided(Turn(*this), beforeCollision);
            beginPropagating(Turn(*this));
        }
        else if (isRemover && common.masses != nullptr)
            removeMotion(*common.masses);
    }
    forcesHaveActed(stateModified);
    return stateModified;
}

/**
 * Take out the momentum that steps conserve, where it is not that of the System's masses, of which OpenMM thinks. At each
 * step, as OpenMM's devices do whatever the frequency is.
 */
void StepSession::removeMotion(const std::vector<double>& masses) {
    if (canUseDevice()) {
        device->removeMotion();
        lead = Lead::Device;
        state.deviceHasActed();
    }
    else {
        const Turn turn(*this);
        particles.removeMotion(masses);
    }
}

void StepSession::forcesHaveActed(bool onPositions) {
    if (onPositions) {
        askForFailure();
        lastStep.forgetThere();
    }
    state.forcesHaveActed(onPositions);
}

stiffcore::StepNumbers StepSession::findNumbers() {
    using stiffcore::Uniform;
    const double h = integrator->getStepSize(), kT = getThermalEnergy();
    const stiffcore::OrnsteinUhlenbeck heatBath(thermostat == nullptr ? 0 : thermostat->getFriction(), kT, h);
    stiffcore::StepNumbers numbers;
    numbers[Uniform::StepSize] = h;
    numbers[Uniform::Tolerance] = integrator->getConstraintTolerance();
    numbers[Uniform::ThermalEnergy] = kT;
    numbers[Uniform::Decay] = heatBath.decay;
    numbers[Uniform::NoiseAmplitude] = heatBath.amplitude;
    return numbers;
}

void StepSession::finishSteps() {
    askForFailure();
}

void StepSession::endSteps() {
    activity = Activity::None;
    if (lead == Lead::Device) {
        if (form == Form::Propagated)
            device->execute(stiffcore::PenaltyMethod::Show);
        state.deviceHasActed();
        device->remember();
    }
    else {
        const Turn turn(*this);
        if (form == Form::Propagated)
            turnInto(Form::Shown, turn);
        lead = Lead::Host;
    }
    form = Form::Shown;
    begunThere = false;
    state.endSteps();
}

void StepSession::computeForces() {
    const int groups = integrator->getIntegrationForceGroups();
    if (isOnDevice())
        context.calcForcesAndEnergy(true, false, groups);
    else
        state.computeForces(groups);
}

void StepSession::arrive() {
    const double h = integrator->getStepSize();
    if (isOnDevice())
        context.computeVirtualSites();
    else {
        particles.requireFiniteVelocities(className, h);
        state.computeVirtualSites();
    }
    departure = state.time();
    state.setTime(*departure + h, context.getStepCount() + 1);
}

double StepSession::getThermalEnergy() const {
    return thermostat == nullptr ? 0 : BOLTZ * thermostat->getTemperature();
}

double StepSession::computeKineticEnergy() {
    if (lead != Lead::Host && activity == Activity::None)
        return device->computeKineticEnergy();
    const Turn turn(*this);
    return particles.computeKineticEnergy();
}

// Failures.

void StepSession::askForFailure() {
    if (device == nullptr || !device->hasFailed())
        return;
    const Device::Failure failure = device->recover();
    undo(failure.before);
    if (failure.kind == Device::VelocityFailed)
        particles.refuseVelocity(failure.particle, className, integrator->getStepSize());
    refuseBlock(failure.block, failure.kind == Device::ForcesFailed);
}

/** Back to the state before a step that the device has taken, or a part of it. */
void StepSession::undo(const Device::State& before) {
    lead = Lead::Host;
    lastStep.forget();
    state.deviceHasActed();
    const Turn turn(*this);
    state.changePositions() = before.positions;
    state.changeVelocities() = before.velocities;
    state.computeVirtualSites();
    if (context.getStepCount() == countAtBeginning) {
        if (begunThere)
            know(device->recall());
        state.changeVelocities() = lastVelocities.propagated; // before they were rounded
    }
    particles.requireFiniteState(className);
}

void StepSession::refuseBlock(const std::vector<int>& block, bool forces) const {
    refuseMolecule(describeMolecule(block, particles.countMobile(block)), forces);
}

void StepSession::refuseMolecule(const std::string& molecule, bool) const {
    throw OpenMMException(className + ": a step has failed because of " + molecule);
}

// Changes, and what is saved and brought back.

HostState& StepSession::hear() {
    if (lead == Lead::Device) {
        if (activity == Activity::Steps)
            device->remember();
        lead = Lead::Both;
        if (form == Form::Shown)
            know(device->recall());
    }
    return state;
}

void StepSession::know(const Device::State& there) {
    lastVelocities = {there.velocities, there.propagated};
}

void StepSession::stateChanged(State::DataType changed) {
    // Where a checkpoint is loaded, new positions and velocities do not mean that the hidden state is void: it came too.
    const bool came =
            activity == Activity::LoadingCheckpoint && (changed == State::Positions || changed == State::Velocities);
    if (activity == Activity::LoadingCheckpoint && changed == State::Energy)
        activity = Activity::None;
    if (came)
        return;
    lastStep.forgetThere();
    if (changed == State::Positions || changed == State::Velocities) {
        hear();
        lead = Lead::Host;
    }
    state.haveBeenSet(changed);
    forget(changed);
}

void StepSession::forget(State::DataType changed) {
    if (changed == State::Parameters || changed == State::Energy)
        lastStep.forget();
}

// A run that goes on begins again from what has been saved, to be the same as one that is resumed.

void StepSession::createCheckpoint(std::ostream& stream) {
    const Turn turn(*this);
    state.write(stream);
    const HiddenState hidden = getHidden(turn);
    writeCheckpoint(stream, hidden.vectors);
    writeCheckpoint(stream, hidden.numbers);
    backend.getResources().write(stream);
    lead = Lead::Host;
}

void StepSession::loadCheckpoint(std::istream& stream) {
    const Turn turn(*this);
    state.read(stream);
    HiddenState hidden;
    readCheckpoint(stream, hidden.vectors);
    readCheckpoint(stream, hidden.numbers);
    backend.getResources().read(stream);
    setHidden(turn, hidden);
    lastStep.forget();
    lead = Lead::Host;
    activity = Activity::LoadingCheckpoint;
}

// By the name of the kernel: a State may be one of another method.

void StepSession::serializeState(SerializationNode& node) {
    const Turn turn(*this);
    const HiddenState hidden = getHidden(turn);
    SerializationNode& all = node.createChildNode(getName());
    for (const Vec3& vector : hidden.vectors)
        all.createChildNode("Vector")
                .setDoubleProperty("x", vector[0])
                .setDoubleProperty("y", vector[1])
                .setDoubleProperty("z", vector[2]);
    for (double number : hidden.numbers)
        all.createChildNode("Number").setDoubleProperty("value", number);
    lead = Lead::Host;
}

void StepSession::deserializeState(const SerializationNode& node) {
    const Turn turn(*this);
    HiddenState hidden;
    for (const SerializationNode& all : node.getChildren()) {
        if (all.getName() != getName())
            continue;
        for (const SerializationNode& each : all.getChildren())
            if (each.getName() == "Vector")
                hidden.vectors.emplace_back(each.getDoubleProperty("x"), each.getDoubleProperty("y"),
                                            each.getDoubleProperty("z"));
            else
                hidden.numbers.push_back(each.getDoubleProperty("value"));
    }
    const size_t given = hidden.vectors.size(), number = particles.getMasses().size();
    OpenMMStiff::require(given == 0 || given == number, className, ": the State is one of ", given,
                         " particles, and the System has ", number);
    setHidden(turn, hidden);
    lastStep.forget();
    lead = Lead::Host;
}
