#ifndef OPENMM_STIFF_LANGEVIN_THERMOSTAT_H_
#define OPENMM_STIFF_LANGEVIN_THERMOSTAT_H_

#include "windowsExportStiff.h"

namespace OpenMMStiff {

/**
 * The settings of a Langevin heat bath, dv = -gamma v dt + sqrt(2 gamma kT / m) dW, shared by the integrators that
 * have one.
 */
class OPENMM_EXPORT_STIFF LangevinThermostat {
public:
    /**
     * Get the temperature of the heat bath [K].
     */
    double getTemperature() const {
        return temperature;
    }
    /**
     * Set the temperature of the heat bath.
     *
     * @param temperature   the temperature [K]; an OpenMMException if it is negative
     */
    void setTemperature(double temperature);
    /**
     * Get the friction coefficient gamma, which couples the system to the heat bath [1/ps].
     */
    double getFriction() const {
        return friction;
    }
    /**
     * Set the friction coefficient gamma, which couples the system to the heat bath.
     *
     * @param frictionCoeff   the friction coefficient [1/ps]; an OpenMMException if it is negative
     */
    void setFriction(double frictionCoeff);
    /**
     * Get the random number seed. See setRandomNumberSeed() for details.
     */
    int getRandomNumberSeed() const {
        return randomNumberSeed;
    }
    /**
     * Set the random number seed. Two simulations run with the same seed (and the same number of threads) use the
     * same random forces. With 0, the default, a unique seed is chosen when a Context is created. The seed
     * takes effect when a Context is created or reinitialized.
     *
     * @param seed   the random number seed
     */
    void setRandomNumberSeed(int seed) {
        randomNumberSeed = seed;
    }

protected:
    LangevinThermostat(double temperature, double frictionCoeff);
    ~LangevinThermostat() = default;

private:
    double temperature, friction;
    int randomNumberSeed;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_LANGEVIN_THERMOSTAT_H_ */
