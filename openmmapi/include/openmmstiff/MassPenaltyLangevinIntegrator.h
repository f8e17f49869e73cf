#ifndef OPENMM_STIFF_MASS_PENALTY_LANGEVIN_INTEGRATOR_H_
#define OPENMM_STIFF_MASS_PENALTY_LANGEVIN_INTEGRATOR_H_

#include "MassPenaltyIntegrator.h"
#include "internal/LangevinThermostat.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace OpenMMStiff {

class Thermometer;

/**
 * The Langevin form of MassPenaltyIntegrator, for simulations at constant temperature: flexible molecules, sampled as
 * with a small step, at the steps of rigid ones. In the order of OpenMM's LangevinMiddleIntegrator, with velocities
 * tied (w = G(x) v) after each line and positions (z = s(x)) after each motion,
 *
 *     v <- v + h M'^-1 (F(x) + F_metric(x))
 *     (x, z) <- (x, z) + h/2 (v, w)
 *     v <- exp(-gamma h) v + sqrt((1 - exp(-2 gamma h)) kT / M') xi,
 *     w <- exp(-gamma h) w + sqrt((1 - exp(-2 gamma h)) kT / kappa) xi
 *     (x, z) <- (x, z) + h/2 (v, w)
 *
 * The metric force, F_metric = -kT/2 grad ln det A with A = G M'^-1 G^T + 1/kappa, undoes the bias that an inertia
 * which depends on the positions gives to their distribution; what is sampled is exp(-V / kT), in the limit of small
 * steps. Constraints of the System keep the distribution that they have with other integrators.
 *
 * A run that is hot says so: every 100 steps (less often in Systems of more than 100,000 particles) the kinetic energy
 * of each kind of molecule is looked at, and a warning names those that are hotter than the heat bath by more than 5 %
 * and six standard errors, in 10,000 steps, or in more of few molecules. See also getNumCollisions().
 */
class OPENMM_EXPORT_STIFF MassPenaltyLangevinIntegrator : public MassPenaltyIntegrator, public LangevinThermostat {
public:
    /**
     * Create a MassPenaltyLangevinIntegrator.
     *
     * @param temperature     the temperature of the heat bath [K]
     * @param frictionCoeff   the friction coefficient which couples the system to the heat bath [1/ps]
     * @param stepSize        the step size with which to integrate the system [ps]
     */
    MassPenaltyLangevinIntegrator(double temperature, double frictionCoeff, double stepSize);
    /**
     * Get how many collisions the present Context has seen. At large steps molecules may come so near to each other
     * within a step that they leave with an energy that heats others, until one cannot be solved for. So a step in which
     * a particle comes to more than 30 kT, or which fails, is undone, and the motion of eight steps is gone through in
     * quarter steps, which change neither the time nor the number of steps. The first time leaves a warning, and so
     * does each from the third within 10,000 steps on. That is done once in a hundred steps, three times in a row at most;
     * beyond that, in the first hundred steps after new positions, and if the same molecule needs it for the third time
     * within 10,000 steps, it is an error.
     *
     * @return the number of collisions
     */
    int getNumCollisions() const {
        return numCollisions;
    }
    /**
     * Get whether the metric force acts. For research: see setMetricCorrection() for details.
     */
    bool getMetricCorrection() const {
        return metricCorrection;
    }
    /**
     * Set whether the metric force acts, which is the default. For research: without it, as a control, the distribution
     * of positions is too wide by the factor sqrt(det(M' + G^T kappa G)); water's mean angle energy is then 2.5 % too
     * high.
     *
     * @param correct   whether the metric force acts
     */
    void setMetricCorrection(bool correct) {
        metricCorrection = correct;
    }

protected:
    const char* getClassName() const override {
        return "MassPenaltyLangevinIntegrator";
    }
    void initialize(OpenMM::ContextImpl& context) override;
    void stateChanged(OpenMM::State::DataType changed) override;
    int getMostSteps() const override;
    void stepsHaveBeenTaken(int steps) override;
    bool goOnAfter(const StepFailure& failure) override;

private:
    bool metricCorrection;
    int numCollisions;
    /// Of the last steps: when, and by which molecule.
    std::vector<std::pair<long long, std::string>> collisions;
    std::shared_ptr<Thermometer> thermometer;
    int numStepsNotSampled;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_MASS_PENALTY_LANGEVIN_INTEGRATOR_H_ */
