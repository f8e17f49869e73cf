#include "openmmstiff/ImpulseLangevinIntegrator.h"

using namespace OpenMMStiff;

ImpulseLangevinIntegrator::ImpulseLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : ImpulseIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff) {
}
