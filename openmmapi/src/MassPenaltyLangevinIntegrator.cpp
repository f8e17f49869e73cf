#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/internal/ContextImpl.h"

using namespace OpenMMStiff;

MassPenaltyLangevinIntegrator::MassPenaltyLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : MassPenaltyIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff), metricCorrection(true) {
}

void MassPenaltyLangevinIntegrator::advance(bool) {
    kernel.getAs<IntegrateMassPenaltyStepKernel>().executeLangevin(*context, *this);
}
