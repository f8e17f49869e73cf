#ifndef OPENMM_STIFF_IMPULSE_LANGEVIN_INTEGRATOR_H_
#define OPENMM_STIFF_IMPULSE_LANGEVIN_INTEGRATOR_H_

#include "ImpulseIntegrator.h"
#include "internal/LangevinThermostat.h"

namespace OpenMMStiff {

/**
 * The Langevin form of ImpulseIntegrator, for simulations at constant temperature. Its parts are those of the
 * impulse methods of Lubich and Weiss (2014), in the order of OpenMM's LangevinMiddleIntegrator:
 *
 *     v <- v + h a0(x)
 *     (x, v) <- the motion over h/2 under the stiff terms alone
 *     v <- exp(-gamma h) v + sqrt((1 - exp(-2 gamma h)) kT / M) xi,  xi normally distributed
 *     (x, v) <- the motion over h/2 under the stiff terms alone
 *
 * The heat bath acts on every degree of freedom. With the default kick the slow forces do not stretch the bonds: the
 * averages are those of molecules with constraints, around which bonds and angles vibrate at the given temperature.
 * As with LangevinMiddleIntegrator, the velocities of the Context are those from before the next kick.
 */
class OPENMM_EXPORT_STIFF ImpulseLangevinIntegrator : public ImpulseIntegrator, public LangevinThermostat {
public:
    /**
     * Create an ImpulseLangevinIntegrator.
     *
     * @param temperature     the temperature of the heat bath [K]
     * @param frictionCoeff   the friction coefficient which couples the system to the heat bath [1/ps]
     * @param stepSize        the step size with which to integrate the system [ps]
     */
    ImpulseLangevinIntegrator(double temperature, double frictionCoeff, double stepSize);

protected:
    const char* getClassName() const override {
        return "ImpulseLangevinIntegrator";
    }
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_IMPULSE_LANGEVIN_INTEGRATOR_H_ */
