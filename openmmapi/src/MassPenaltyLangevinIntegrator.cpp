#include "openmmstiff/MassPenaltyLangevinIntegrator.h"

using namespace OpenMMStiff;

MassPenaltyLangevinIntegrator::MassPenaltyLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : MassPenaltyIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff), metricCorrection(true) {
}
