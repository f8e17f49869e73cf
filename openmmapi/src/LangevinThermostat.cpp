#include "openmmstiff/internal/LangevinThermostat.h"
#include "openmmstiff/internal/Checks.h"
#include <cmath>

using namespace OpenMMStiff;

namespace {
/** Written so that NaN is refused too. */
double requireNonNegative(double value, const char* what, const char* unit) {
    require(value >= 0 && std::isfinite(value), what, " must be a non-negative number, not ", value, " ", unit);
    return value;
}
} // namespace

LangevinThermostat::LangevinThermostat(double temperature, double frictionCoeff) : randomNumberSeed(0) {
    setTemperature(temperature);
    setFriction(frictionCoeff);
}

void LangevinThermostat::setTemperature(double temperature) {
    this->temperature = requireNonNegative(temperature, "Temperature", "K");
}

void LangevinThermostat::setFriction(double frictionCoeff) {
    friction = requireNonNegative(frictionCoeff, "Friction", "1/ps");
}
