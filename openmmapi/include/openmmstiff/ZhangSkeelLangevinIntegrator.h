#ifndef OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_H_
#define OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_H_

#include "ZhangSkeelIntegrator.h"
#include "internal/LangevinThermostat.h"

namespace OpenMMStiff {

/**
 * The Langevin form of ZhangSkeelIntegrator, for simulations at constant temperature: the geometric Langevin
 * algorithm of Tao and Owhadi (2014, Section 4.3), which composes one step of the deterministic method with the
 * exact Ornstein-Uhlenbeck flow
 *
 *     v <- exp(-gamma h) v + sqrt((1 - exp(-2 gamma h)) kT / m) xi,  xi normally distributed
 *
 * For a harmonic stiff mode at b = 1/4 the sampled positions and velocities have the exact Boltzmann variance at
 * any step size.
 */
class OPENMM_EXPORT_STIFF ZhangSkeelLangevinIntegrator : public ZhangSkeelIntegrator, public LangevinThermostat {
public:
    /**
     * Create a ZhangSkeelLangevinIntegrator.
     *
     * @param temperature     the temperature of the heat bath [K]
     * @param frictionCoeff   the friction coefficient which couples the system to the heat bath [1/ps]
     * @param stepSize        the step size with which to integrate the system [ps]
     */
    ZhangSkeelLangevinIntegrator(double temperature, double frictionCoeff, double stepSize);
    /**
     * Get whether the noise of the heat bath acts on the stiff modes. See setThermalizeStiffModes() for details.
     */
    bool getThermalizeStiffModes() const {
        return thermalizeStiffModes;
    }
    /**
     * Set whether the noise of the heat bath acts on the stiff modes. With true, the default, every degree of
     * freedom is thermalized: right for physical bonds and angles. With false, the noise (and the velocities drawn by
     * Context::setVelocitiesToTemperature()) are projected on the tangent space of the stiff coordinates,
     * which leaves the stiff modes cold: right for penalty springs, which stand in for constraints. Bonds and angles
     * beside them are stiff modes, too, unless setStiffForceGroups() names the group of the springs alone. The
     * temperature is then that of the remaining degrees of freedom; see computeSystemTemperature().
     *
     * @param thermalize   whether the stiff modes are thermalized
     */
    void setThermalizeStiffModes(bool thermalize) {
        thermalizeStiffModes = thermalize;
    }
    /**
     * Compute the instantaneous temperature of the System, from its kinetic energy and the degrees of freedom that
     * the heat bath acts on: three for each particle with mass, less the constraints, less three if there is
     * a CMMotionRemover, and less the independent stiff coordinates if these are not thermalized.
     *
     * @return the temperature [K]
     */
    double computeSystemTemperature();

protected:
    const char* getClassName() const override {
        return "ZhangSkeelLangevinIntegrator";
    }
    std::vector<OpenMM::Vec3> getVelocitiesForTemperature(const OpenMM::System& system, double temperature,
                                                          int randomSeed) const override;

private:
    bool thermalizeStiffModes;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_H_ */
