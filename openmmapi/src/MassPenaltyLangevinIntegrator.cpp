#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Message.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmm/Context.h"
#include "openmm/internal/ContextImpl.h"

using namespace OpenMM;
using namespace OpenMMStiff;

MassPenaltyLangevinIntegrator::MassPenaltyLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : MassPenaltyIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff), metricCorrection(true),
          numCollisions(0) {
}

void MassPenaltyLangevinIntegrator::initialize(ContextImpl& context) {
    MassPenaltyIntegrator::initialize(context);
    numCollisions = 0;
}

bool MassPenaltyLangevinIntegrator::goOnAfter(const StepFailure& failure) {
    if (!getKernel<MassPenaltyQueries>().noteCollision())
        return false;
    const int parts = 4, steps = 8;
    const double h = getStepSize();
    takeOtherSteps(h / parts, steps * parts);
    if (numCollisions++ == 0)
        warn(message("in a step of ", h, " ps ", failure.culprit, " got more than 30 kT, or could not be solved for,",
                     " as where molecules collide. That step has been undone, and the run goes on after ",
                     steps * parts, " steps of ", h / parts, " ps that are not counted. getNumCollisions() tells how",
                     " often that has happened; where it is once in 1000 steps, use a smaller step size"));
    return true;
}
