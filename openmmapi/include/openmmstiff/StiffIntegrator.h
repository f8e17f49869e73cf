#ifndef OPENMM_STIFF_STIFF_INTEGRATOR_H_
#define OPENMM_STIFF_STIFF_INTEGRATOR_H_

#include "internal/windowsExportStiff.h"
#include "openmm/Integrator.h"
#include "openmm/Kernel.h"
#include <iosfwd>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace OpenMMStiff {

class StepFailure;
class StiffMotion;

/**
 * The common base of this plugin's integrators. It does for each of them what an OpenMM Integrator owes to its
 * Context: binding, the order of a step, notification of changes, checkpoints and saved states. A subclass holds the
 * settings of its method, and names its kernel.
 */
class OPENMM_EXPORT_STIFF StiffIntegrator : public OpenMM::Integrator {
public:
    /**
     * Advance a simulation through time by taking a series of time steps.
     *
     * If a step fails, an OpenMMException says why, and the positions and velocities of the Context are those from
     * before the failed step.
     *
     * @param steps   the number of time steps to take
     */
    void step(int steps) override;
    /**
     * Set the size of each time step.
     *
     * @param size   the step size [ps]; an OpenMMException if it is negative, infinite or not a number
     */
    void setStepSize(double size) override;
    /**
     * Set the distance tolerance within which constraints are maintained, as a fraction of the constrained distance.
     *
     * @param tol   the tolerance (dimensionless); an OpenMMException if it is not positive, or infinite
     */
    void setConstraintTolerance(double tol) override;
    /**
     * Draw velocities for a temperature as this integrator needs them, and set them in the Context. That is what
     * Context::setVelocitiesToTemperature() does, except in a CompoundIntegrator, whose Context draws velocities of the
     * present time, whatever integrator is current; those of SpookIntegrator belong to half a step earlier.
     *
     * @param temperature   the temperature [K]; an OpenMMException if it is negative, infinite or not a number
     * @param randomSeed    the random number seed; 0 for one that is chosen
     */
    void setVelocitiesToTemperature(double temperature, int randomSeed = 0);
    /**
     * Describe what this integrator treats as stiff in the present Context: how many terms (pairs, constraints), of
     * which forces, in how many molecules, and the fastest bonded motion that is not among them.
     *
     * @return the description; empty if the method has no such terms
     */
    std::string describeStiffMotion();
    /**
     * Take the warnings that steps have left: that nothing was found to be stiff, that a motion which is not treated is
     * too fast for the step, or what MassPenaltyLangevinIntegrator says of collisions and of molecules that are hot.
     * Python issues them by itself.
     *
     * @return the warnings, a line each; empty if there are none, or if they have been taken
     */
    std::string takeWarning();
    /**
     * Describe the kernels that a platform has for the integrators of this plugin: how they work, and for which
     * instructions they are compiled.
     *
     * @param platformName   the name of the platform, such as CUDA; an OpenMMException if there is none of this name
     * @return the description; empty if there are none, and then a Context on this platform is refused with the reason
     */
    static std::string describeKernels(const std::string& platformName);

protected:
    /**
     * @param stepSize     the size of each time step [ps]
     * @param kernelName   the name by which platforms know the kernel, see StiffKernels.h
     */
    StiffIntegrator(double stepSize, const char* kernelName);
    /**
     * Get the name of the subclass, as it stands in error messages.
     */
    virtual const char* getClassName() const = 0;
    std::vector<std::string> getKernelNames() final;
    /**
     * Find what is treated as stiff in the present Context; null if the method has no such terms.
     */
    virtual std::unique_ptr<StiffMotion> findStiffMotion();
    /**
     * Whether a step of many periods of the stiffest motion must be a mistake.
     */
    virtual bool isLimitedByStiffMotion() const {
        return false;
    }

    void initialize(OpenMM::ContextImpl& context) override;
    void cleanup() override;
    void stateChanged(OpenMM::State::DataType changed) override;
    double computeKineticEnergy() override;
    bool kineticEnergyRequiresForce() const override;
    void createCheckpoint(std::ostream& stream) const override;
    void loadCheckpoint(std::istream& stream) override;
    void serializeParameters(OpenMM::SerializationNode& node) const override;
    void deserializeParameters(const OpenMM::SerializationNode& node) override;
    /**
     * Take steps, without a second try where one fails.
     */
    void takeSteps(int steps);
    /**
     * After how many steps stepsHaveBeenTaken() is to be called at the latest.
     */
    virtual int getMostSteps() const {
        return std::numeric_limits<int>::max();
    }
    /**
     * Steps of step() have been taken, and the Context shows their velocities.
     */
    virtual void stepsHaveBeenTaken(int /*steps*/) {
    }
    /**
     * A step has failed. Bring the Context to a state from which steps may go on, and return true, or leave it alone.
     */
    virtual bool goOnAfter(const StepFailure& /*failure*/) {
        return false;
    }
    /**
     * Leave a warning, see takeWarning().
     */
    void warn(const std::string& text);
    /**
     * Throw an exception unless this integrator is bound to a Context.
     */
    void requireContext() const;
    /**
     * Throw an exception if no step can be taken with the present settings and System.
     */
    void requirePossible() const;

    /**
     * Get the kernel as what it answers, one of those in StiffKernels.h.
     */
    template <class Queries> Queries& getKernel() const {
        return const_cast<OpenMM::Kernel&>(kernel).getAs<Queries>();
    }

private:
    std::unique_ptr<StiffMotion> examineStiffMotion();
    void examineStep();

    const char* const nameOfKernel;
    OpenMM::Kernel kernel;
    double examinedStep; // the largest step size that has been examined; 0 if none has
    std::string warning;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_INTEGRATOR_H_ */
