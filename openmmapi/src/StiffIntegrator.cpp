#include "openmmstiff/StiffIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/AtEnd.h"
#include "openmmstiff/internal/CheckpointTag.h"
#include "openmmstiff/internal/Checks.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "setup/StiffMotion.h"
#include "openmm/Context.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ATMForceImpl.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/CustomCVForceImpl.h"
#include "openmm/internal/OSRngSeed.h"
#include <algorithm>
#include <cmath>
#include <sstream>
#include <typeinfo>

using namespace OpenMM;
using namespace OpenMMStiff;

namespace {

/**
 * Drude particles are kept cold by a heat bath of their own, or at the minimum of the energy; no integrator here does
 * either. A DrudeForce is told by the name of its type, as OpenMM's serialization does it: its library is not linked,
 * and what getName() says is for the user to choose.
 */
void refuseDrudeParticles(const System& system, const char* className) {
    for (int f = 0; f < system.getNumForces(); f++) {
        const Force& force = system.getForce(f);
        require(std::string(typeid(force).name()).find("DrudeForce") == std::string::npos, className, ": force ", f,
                " of the System, '", force.getName(), "', is a DrudeForce, whose particles must be kept at 1 K or at",
                " the minimum of the energy. This integrator would heat them to the temperature of the atoms, or leave",
                " them behind if they have no mass. Use OpenMM's DrudeLangevinIntegrator, DrudeNoseHooverIntegrator or",
                " DrudeSCFIntegrator");
    }
}

} // namespace

StiffIntegrator::StiffIntegrator(double stepSize, const char* kernelName) : nameOfKernel(kernelName), examinedStep(0) {
    StiffIntegrator::setStepSize(stepSize);
    StiffIntegrator::setConstraintTolerance(1e-5);
}

void StiffIntegrator::setStepSize(double size) {
    require(size >= 0 && std::isfinite(size), "Step size must be a non-negative number, not ", size, " ps");
    Integrator::setStepSize(size);
}

void StiffIntegrator::setConstraintTolerance(double tol) {
    require(tol > 0 && std::isfinite(tol), "Constraint tolerance must be a positive number, not ", tol,
            "; the default is 1e-5");
    Integrator::setConstraintTolerance(tol);
}

void StiffIntegrator::setVelocitiesToTemperature(double temperature, int randomSeed) {
    requireContext();
    require(temperature >= 0 && std::isfinite(temperature), "Temperature must be a non-negative number, not ",
            temperature, " K");
    owner->setVelocities(
            getVelocitiesForTemperature(context->getSystem(), temperature, randomSeed == 0 ? osrngseed() : randomSeed));
    owner->applyVelocityConstraints(1e-5);
}

void StiffIntegrator::initialize(ContextImpl& contextRef) {
    require(owner == nullptr || &contextRef.getOwner() == owner, "This Integrator is already bound to a context");
    refuseDrudeParticles(contextRef.getSystem(), getClassName());
    Context* previousOwner = owner;
    context = &contextRef;
    owner = &contextRef.getOwner();
    examinedStep = 0;
    warning.clear();
    try {
        kernel = context->getPlatform().createKernel(nameOfKernel, contextRef);
        getKernel<StiffStepKernel>().initialize(*this, getClassName());
    }
    catch (...) {
        // No Context comes into being: leave the integrator as it was, free to be used once the cause is mended.
        kernel = Kernel();
        context = nullptr;
        owner = previousOwner;
        throw;
    }
}

std::vector<std::string> StiffIntegrator::getKernelNames() {
    // OpenMM asks for them just before it looks which platforms have them.
    completePlatforms();
    return {nameOfKernel};
}

std::string StiffIntegrator::describeKernels(const std::string& platformName) {
    return OpenMMStiff::describeKernels(platformName);
}

void StiffIntegrator::cleanup() {
    kernel = Kernel();
}

void StiffIntegrator::requireContext() const {
    require(context != nullptr, "This Integrator is not bound to a context!");
}

void StiffIntegrator::requirePossible() const {
    requireContext();
    refuseDrudeParticles(context->getSystem(), getClassName());
    getKernel<StiffStepKernel>().requirePossible();
}

void StiffIntegrator::step(int steps) {
    requireContext();
    require(steps <= 0 || getStepSize() > 0, getClassName(),
            ": the step size must be positive to take a step, but is 0 ps. Set it with setStepSize()");
    const long long last = context->getStepCount() + steps;
    try {
        while (context->getStepCount() < last) {
            try {
                const int number = std::min<long long>(getMostSteps(), last - context->getStepCount());
                takeSteps(number);
                stepsHaveBeenTaken(number);
            }
            catch (const StepFailure& failure) {
                if (!goOnAfter(failure))
                    throw;
            }
        }
    }
    catch (const StepFailure& failure) {
        const std::string known = describeStiffMotion();
        throw OpenMMException(failure.what() + (known.empty() ? "" : ". There are " + known));
    }
}

void StiffIntegrator::takeSteps(int steps) {
    StiffStepKernel& stepKernel = getKernel<StiffStepKernel>();
    stepKernel.beginSteps();
    const AtEnd end([&] {
        try {
            stepKernel.endSteps();
        }
        catch (...) {
            // A device is lost, which the next call will say.
        }
    });
    for (int i = 0; i < steps; ++i) {
        if (getStepSize() > examinedStep)
            examineStep();
        stepKernel.takeStep();
    }
    stepKernel.finishSteps();
}

std::unique_ptr<StiffMotion> StiffIntegrator::findStiffMotion() {
    return nullptr;
}

std::unique_ptr<StiffMotion> StiffIntegrator::examineStiffMotion() {
    std::unique_ptr<StiffMotion> motion = findStiffMotion();
    if (motion == nullptr)
        return nullptr;
    std::vector<Vec3> positions;
    context->getPositions(positions);
    motion->findFastest(positions);
    for (const ForceImpl* impl : context->getForceImpls())
        if (dynamic_cast<const CustomCVForceImpl*>(impl) != nullptr ||
            dynamic_cast<const ATMForceImpl*>(impl) != nullptr)
            motion->addHiddenBonds(impl->getOwner(), impl->getBondedParticles(), positions);
    return motion;
}

std::string StiffIntegrator::describeStiffMotion() {
    requireContext();
    const std::unique_ptr<StiffMotion> motion = examineStiffMotion();
    return motion == nullptr ? "" : motion->describe();
}

void StiffIntegrator::warn(const std::string& text) {
    const size_t longest = 10000; // if nobody takes them
    if (warning.size() < longest)
        warning += (warning.empty() ? "" : "\n") + std::string(getClassName()) + ": " + text;
}

std::string StiffIntegrator::takeWarning() {
    std::string taken;
    taken.swap(warning);
    return taken;
}

/** Before the first step of a size, or a larger one: may somebody want it, and will it do what he thinks? */
void StiffIntegrator::examineStep() {
    const double h = getStepSize();
    const std::unique_ptr<StiffMotion> motion = examineStiffMotion();
    if (motion != nullptr) {
        // Femtoseconds taken for picoseconds. Other worlds have other units, but not so many periods in a step.
        const double suspicious = 0.1, absurd = 40;
        require(!(isLimitedByStiffMotion() && h >= suspicious && motion->countPeriods(h) > absurd), getClassName(),
                ": a step of ", h, " ps holds ", motion->countPeriods(h),
                " periods of the fastest bonded motion. Were femtoseconds meant? Numbers are picoseconds: ", h,
                " fs are setStepSize(", h * 1e-3, "), or a Quantity in Python");
        const std::string text = motion->warn(h);
        if (!text.empty())
            warn(text);
    }
    examinedStep = h;
}

void StiffIntegrator::stateChanged(State::DataType changed) {
    if (context != nullptr)
        getKernel<StiffStepKernel>().stateChanged(changed);
}

double StiffIntegrator::computeKineticEnergy() {
    requireContext();
    return getKernel<StiffStepKernel>().computeKineticEnergy();
}

bool StiffIntegrator::kineticEnergyRequiresForce() const {
    // The velocities are taken as they are, and forces that others compute must not be taken for ours.
    return false;
}

void StiffIntegrator::createCheckpoint(std::ostream& stream) const {
    requirePossible(); // else Context::reinitialize(true) would notice too late to keep the state
    std::stringstream data;
    getKernel<StiffStepKernel>().createCheckpoint(data);
    writeTagged(stream, getClassName(), data.str());
}

void StiffIntegrator::loadCheckpoint(std::istream& stream) {
    requireContext();
    try {
        std::stringstream data(readTagged(stream, getClassName()));
        getKernel<StiffStepKernel>().loadCheckpoint(data);
    }
    catch (const std::exception& refusal) {
        // OpenMM has loaded its part, and would announce it now: by this to all integrators of a CompoundIntegrator.
        context->systemChanged();
        for (State::DataType changed : {State::Positions, State::Velocities, State::Parameters})
            stateChanged(changed);
        throw OpenMMException(message(
                refusal.what(),
                ". OpenMM has loaded its part of it already: positions, velocities, time, number of steps,",
                " box and parameters of the Context are no longer what they were. Set them anew, or load the right",
                " checkpoint"));
    }
}

void StiffIntegrator::serializeParameters(SerializationNode& node) const {
    if (context == nullptr)
        return;
    requirePossible();
    getKernel<StiffStepKernel>().serializeState(node);
}

void StiffIntegrator::deserializeParameters(const SerializationNode& node) {
    requireContext();
    getKernel<StiffStepKernel>().deserializeState(node);
}
