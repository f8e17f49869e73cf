#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Message.h"
#include "openmmstiff/internal/StepFailure.h"
#include "setup/Thermometer.h"
#include "openmm/Context.h"
#include "openmm/internal/ContextImpl.h"
#include <algorithm>

using namespace OpenMM;
using namespace OpenMMStiff;

/// Collisions are looked back at for so many steps; those of a molecule that are as close as this are one.
static const long long rememberedSteps = 10000, oneCollision = 100;
/// So many are too many.
static const int tooMany = 3;

MassPenaltyLangevinIntegrator::MassPenaltyLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : MassPenaltyIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff), metricCorrection(true),
          numCollisions(0), numStepsNotSampled(0) {
}

void MassPenaltyLangevinIntegrator::initialize(ContextImpl& context) {
    MassPenaltyIntegrator::initialize(context);
    numCollisions = 0;
    collisions.clear();
    thermometer = nullptr;
    numStepsNotSampled = 0;
}

void MassPenaltyLangevinIntegrator::stateChanged(State::DataType changed) {
    MassPenaltyIntegrator::stateChanged(changed);
    if (takesOtherSteps() || (changed != State::Positions && changed != State::Velocities))
        return;
    collisions.clear();
    if (thermometer != nullptr)
        thermometer->forget();
}

int MassPenaltyLangevinIntegrator::getMostSteps() const {
    return Thermometer::getInterval(context->getSystem());
}

void MassPenaltyLangevinIntegrator::stepsHaveBeenTaken(int steps) {
    numStepsNotSampled += steps;
    if (numStepsNotSampled < getMostSteps())
        return;
    if (thermometer == nullptr)
        thermometer = std::make_shared<Thermometer>(context->getSystem(), context->getMolecules());
    std::vector<Vec3> velocities;
    context->getVelocities(velocities);
    const std::string found =
            thermometer->sample(velocities, numStepsNotSampled, getTemperature(), getFriction(), getStepSize());
    numStepsNotSampled = 0;
    if (!found.empty())
        warn(found);
}

bool MassPenaltyLangevinIntegrator::goOnAfter(const StepFailure& failure) {
    if (!getKernel<MassPenaltyQueries>().noteCollision())
        return false;
    const int parts = 4, steps = 8;
    const double h = getStepSize();
    const long long now = context->getStepCount();
    collisions.erase(std::remove_if(collisions.begin(), collisions.end(),
                                    [&](const auto& each) { // or if somebody has set the number of steps back
                                        return each.first < now - rememberedSteps || each.first > now;
                                    }),
                     collisions.end());
    const auto ofSame = [&](const auto& each) { return each.second == failure.culprit; };
    const auto last = std::find_if(collisions.rbegin(), collisions.rend(), ofSame);
    if (last != collisions.rend() && now - last->first < oneCollision)
        last->first = now;
    else
        collisions.push_back({now, failure.culprit});
    const std::string what =
            message("in a step of ", h, " ps ", failure.culprit, " got more than 30 kT, or could not be solved for");
    if (std::count_if(collisions.begin(), collisions.end(), ofSame) >= tooMany)
        throw StepFailure(
                message(getClassName(), ": ", what, ", for the third time within ", rememberedSteps,
                        " steps: the step is too large for it. Use more inertia, setPenalizedPeriod() with",
                        " 20 steps, or a smaller step size; in Python examine() says which. The positions and "
                        "velocities are those before the step"),
                failure.culprit);
    takeOtherSteps(h / parts, steps * parts);
    numCollisions++;
    const bool isAlone = context->getMolecules().size() == 1;
    if (numCollisions == 1 || (int) collisions.size() >= tooMany)
        warn(message(what, isAlone ? ", as where a step is too large." : ", as where molecules collide.",
                     " That step has been undone, and the run goes on after ", steps * parts, " steps of ", h / parts,
                     " ps that are not counted. ",
                     (int) collisions.size() < tooMany
                             ? std::string("getNumCollisions() tells how often that has happened")
                             : message("That has happened ", collisions.size(), " times within ", rememberedSteps,
                                       " steps: use more inertia, setPenalizedPeriod() with 20 steps, or a smaller"
                                       " step size")));
    return true;
}
