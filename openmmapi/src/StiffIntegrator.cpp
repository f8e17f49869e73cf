#include "openmmstiff/StiffIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/CheckpointTag.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Message.h"
#include "setup/StiffMotion.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/Context.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ForceImpl.h"
#include "openmm/internal/OSRngSeed.h"
#include <cmath>
#include <sstream>
#include <typeinfo>

using namespace OpenMM;
using namespace OpenMMStiff;

namespace {

/** A value that is wrong for any class, even while one is being constructed. */
[[noreturn]] void refuse(const char* what, double value, const char* unit, const char* remedy) {
    throw OpenMMException(message(what, ", not ", value, unit, remedy));
}

/**
 * Drude particles are kept cold by a heat bath of their own, or at the minimum of the energy; no integrator here does
 * either. A DrudeForce is told by the name of its type, as OpenMM's serialization does it: its library is not linked,
 * and what getName() says is for the user to choose.
 */
void refuseDrudeParticles(const System& system, const char* className) {
    for (int f = 0; f < system.getNumForces(); f++) {
        const Force& force = system.getForce(f);
        if (std::string(typeid(force).name()).find("DrudeForce") == std::string::npos)
            continue;
        throw OpenMMException(message(
                className, ": force ", f, " of the System, '", force.getName(), "', is a DrudeForce, whose",
                " particles must be kept at 1 K or at the minimum of the energy. This integrator would heat them to",
                " the temperature of the atoms, or leave them behind if they have no mass. Use OpenMM's",
                " DrudeLangevinIntegrator, DrudeNoseHooverIntegrator or DrudeSCFIntegrator"));
    }
}

} // namespace

StiffIntegrator::StiffIntegrator(double stepSize)
        : examinedStep(0), stepping(false), loadingCheckpoint(false), bringingBack(false) {
    StiffIntegrator::setStepSize(stepSize);
    StiffIntegrator::setConstraintTolerance(1e-5);
}

void StiffIntegrator::setStepSize(double size) {
    if (!(size >= 0) || std::isinf(size))
        refuse("Step size must be a non-negative number", size, " ps", "");
    Integrator::setStepSize(size);
}

void StiffIntegrator::setConstraintTolerance(double tol) {
    if (!(tol > 0) || std::isinf(tol))
        refuse("Constraint tolerance must be a positive number", tol, "", "; the default is 1e-5");
    Integrator::setConstraintTolerance(tol);
}

void StiffIntegrator::setVelocitiesToTemperature(double temperature, int randomSeed) {
    requireContext();
    if (!(temperature >= 0) || std::isinf(temperature))
        refuse("Temperature must be a non-negative number", temperature, " K", "");
    owner->setVelocities(
            getVelocitiesForTemperature(context->getSystem(), temperature, randomSeed == 0 ? osrngseed() : randomSeed));
    owner->applyVelocityConstraints(1e-5);
}

void StiffIntegrator::initialize(ContextImpl& contextRef) {
    if (owner != nullptr && &contextRef.getOwner() != owner)
        throw OpenMMException("This Integrator is already bound to a context");
    refuseDrudeParticles(contextRef.getSystem(), getClassName());
    Context* previousOwner = owner;
    context = &contextRef;
    owner = &contextRef.getOwner();
    remembered = Remembered();
    examinedStep = 0;
    warning.clear();
    try {
        kernel = context->getPlatform().createKernel(getKernelName(), contextRef);
        kernel.getAs<StiffStepKernel>().initialize(*context, *this, getClassName());
        if (const auto* thermostat = dynamic_cast<const LangevinThermostat*>(this))
            kernel.getAs<StiffStepKernel>().initializeRandom(thermostat->getRandomNumberSeed());
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
    return {getKernelName()};
}

std::string StiffIntegrator::describeKernels(const std::string& platformName) {
    return OpenMMStiff::describeKernels(platformName);
}

void StiffIntegrator::cleanup() {
    kernel = Kernel();
}

/** While steps are taken, changes of the Context need not be remembered: the state at their end will be. */
class StiffIntegrator::Stepping {
public:
    explicit Stepping(StiffIntegrator& integrator) : integrator(integrator) {
        integrator.kernel.getAs<StiffStepKernel>().beginSteps();
        integrator.stepping = true;
    }
    ~Stepping() {
        integrator.stepping = false;
        try {
            integrator.kernel.getAs<StiffStepKernel>().showState(*integrator.context);
            integrator.remember(); // the kernel has at hand what that asks for
            integrator.kernel.getAs<StiffStepKernel>().endSteps();
        }
        catch (...) {
            // A device is lost, which the next call will say.
        }
    }

private:
    StiffIntegrator& integrator;
};

void StiffIntegrator::requireContext() const {
    if (context == nullptr)
        throw OpenMMException("This Integrator is not bound to a context!");
}

void StiffIntegrator::prepare() const {
    requireContext();
    refuseDrudeParticles(context->getSystem(), getClassName());
    const_cast<Kernel&>(kernel).getAs<StiffStepKernel>().prepare(*context);
}

void StiffIntegrator::step(int steps) {
    requireContext();
    if (steps > 0 && !(getStepSize() > 0))
        throw OpenMMException(
                std::string(getClassName()) +
                ": the step size must be positive to take a step, but is 0 ps. Set it with setStepSize()");
    const Stepping now(*this);
    try {
        for (int i = 0; i < steps; ++i) {
            if (getStepSize() > examinedStep)
                examineStep();
            kernel.getAs<StiffStepKernel>().adoptState(*context);
            bool stateModified = updateContextState();
            kernel.getAs<StiffStepKernel>().execute(*context, stateModified);
        }
        kernel.getAs<StiffStepKernel>().finishSteps(*context);
    }
    catch (const StepFailure& failure) {
        const std::string known = describeStiffMotion();
        throw OpenMMException(failure.what() + (known.empty() ? "" : ". There are " + known));
    }
}

std::unique_ptr<StiffMotion> StiffIntegrator::findStiffMotion() {
    return nullptr;
}

std::unique_ptr<StiffMotion> StiffIntegrator::examineStiffMotion() {
    std::unique_ptr<StiffMotion> motion = findStiffMotion();
    if (motion == nullptr)
        return nullptr;
    PresentGeometry geometry;
    context->getPositions(geometry.positions);
    Vec3 box[3];
    context->getPeriodicBoxVectors(box[0], box[1], box[2]);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            geometry.box.vectors[i][j] = box[i][j];
    geometry.parameters = context->getParameters();
    motion->findFastest(geometry);
    return motion;
}

std::string StiffIntegrator::describeStiffMotion() {
    requireContext();
    const std::unique_ptr<StiffMotion> motion = examineStiffMotion();
    return motion == nullptr ? "" : motion->describe();
}

void StiffIntegrator::warn(const std::string& text) {
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
        if (isLimitedByStiffMotion() && h >= suspicious && motion->countPeriods(h) > absurd)
            throw OpenMMException(message(
                    getClassName(), ": a step of ", h, " ps holds ", motion->countPeriods(h),
                    " periods of the fastest bonded motion. Were femtoseconds meant? Numbers are picoseconds: ", h,
                    " fs are setStepSize(", h * 1e-3, "), or a Quantity in Python"));
        const std::string text = motion->warn(h);
        if (!text.empty())
            warn(text);
    }
    examinedStep = h;
}

/** What ContextImpl::updateContextState() does; the kernel learns of collisions. */
bool StiffIntegrator::updateContextState() {
    StiffStepKernel& stepKernel = kernel.getAs<StiffStepKernel>();
    bool stateModified = false;
    for (ForceImpl* force : context->getForceImpls()) {
        const bool collides = dynamic_cast<const AndersenThermostat*>(&force->getOwner()) != nullptr;
        if (collides) {
            stepKernel.forcesHaveActed(stateModified);
            stepKernel.beginCollisions(*context);
        }
        force->updateContextState(*context, stateModified);
        if (collides) {
            stepKernel.forcesHaveActed(stateModified);
            stepKernel.endCollisions(*context);
        }
    }
    stepKernel.forcesHaveActed(stateModified);
    return stateModified;
}

void StiffIntegrator::stateChanged(State::DataType changed) {
    if (bringingBack)
        return;
    // After a checkpoint has been loaded, ContextImpl announces everything as changed, Energy last. Only then
    // do new positions and velocities not mean that the hidden state is void: it came with them.
    const bool came = loadingCheckpoint && (changed == State::Positions || changed == State::Velocities);
    if (changed == State::Energy)
        loadingCheckpoint = false;
    if (context == nullptr)
        return;
    if (!came)
        kernel.getAs<StiffStepKernel>().stateChanged(changed);
    if (stepping)
        return;
    if (changed == State::Parameters)
        remembered.parameters = context->getParameters();
    else
        remember();
}

/** Remember the state of the Context, for the case that a checkpoint is refused after OpenMM has loaded its part. */
void StiffIntegrator::remember() {
    kernel.getAs<StiffStepKernel>().rememberState(*context);
    remembered.known = true;
    context->getPeriodicBoxVectors(remembered.box[0], remembered.box[1], remembered.box[2]);
    remembered.parameters = context->getParameters();
    remembered.time = context->getTime();
    remembered.stepCount = context->getStepCount();
}

void StiffIntegrator::bringBack() {
    bringingBack = true; // these are not changes
    if (remembered.known) {
        context->setPeriodicBoxVectors(remembered.box[0], remembered.box[1], remembered.box[2]);
        kernel.getAs<StiffStepKernel>().bringBackState(*context);
        for (const auto& parameter : remembered.parameters)
            context->setParameter(parameter.first, parameter.second);
    }
    context->setTime(remembered.time);
    context->setStepCount(remembered.stepCount);
    bringingBack = false;
}

double StiffIntegrator::computeKineticEnergy() {
    requireContext();
    return kernel.getAs<StiffStepKernel>().computeKineticEnergy(*context);
}

bool StiffIntegrator::kineticEnergyRequiresForce() const {
    // The velocities are those of the present time, and forces that others compute must not be taken for ours.
    return false;
}

void StiffIntegrator::createCheckpoint(std::ostream& stream) const {
    prepare(); // else Context::reinitialize(true) would notice too late to keep the state
    std::stringstream data;
    const_cast<Kernel&>(kernel).getAs<StiffStepKernel>().createCheckpoint(*context, data);
    writeTagged(stream, getClassName(), data.str(), *context);
}

void StiffIntegrator::loadCheckpoint(std::istream& stream) {
    requireContext();
    try {
        std::stringstream data(readTagged(stream, getClassName(), *context));
        kernel.getAs<StiffStepKernel>().loadCheckpoint(*context, data);
    }
    catch (...) {
        bringBack();
        throw;
    }
    loadingCheckpoint = true;
}

void StiffIntegrator::serializeParameters(SerializationNode& node) const {
    if (context == nullptr)
        return;
    prepare();
    const_cast<Kernel&>(kernel).getAs<StiffStepKernel>().serializeState(*context, node);
}

void StiffIntegrator::deserializeParameters(const SerializationNode& node) {
    requireContext();
    kernel.getAs<StiffStepKernel>().deserializeState(*context, node);
}
