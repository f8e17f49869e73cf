#include "openmmstiff/ImpulseLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/internal/ContextImpl.h"

using namespace OpenMMStiff;

ImpulseLangevinIntegrator::ImpulseLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : ImpulseIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff) {
}

int ImpulseLangevinIntegrator::computeNumMicroSteps() {
    requireContext();
    return kernel.getAs<IntegrateImpulseStepKernel>().computeNumMicroSteps(*context, *this, 2);
}

void ImpulseLangevinIntegrator::advance(bool) {
    kernel.getAs<IntegrateImpulseStepKernel>().executeLangevin(*context, *this);
}
