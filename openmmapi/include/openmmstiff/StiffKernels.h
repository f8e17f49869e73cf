#ifndef OPENMM_STIFF_KERNELS_H_
#define OPENMM_STIFF_KERNELS_H_

#include "OpenMMStiff.h"
#include "openmm/KernelImpl.h"
#include "openmm/Platform.h"
#include "openmm/State.h"
#include "openmm/System.h"
#include <iosfwd>
#include <string>
#include <vector>

namespace stiffcore {
struct PairTerms;
}

namespace OpenMMStiff {

/**
 * What StiffIntegrator asks of every kernel of this plugin: to keep the method's hidden state (what a step needs
 * beyond the positions and velocities of the Context) in agreement with a Context that others modify too.
 */
class OPENMM_EXPORT_STIFF StiffStepKernel : public OpenMM::KernelImpl {
public:
    StiffStepKernel(const std::string& name, const OpenMM::Platform& platform) : KernelImpl(name, platform) {
    }
    /**
     * Initialize the kernel.
     *
     * @param context      the Context that the integrator is bound to
     * @param integrator   the integrator this kernel will be used for, and no other
     * @param className    the name of the integrator's class, for error messages
     */
    virtual void initialize(OpenMM::ContextImpl& context, const StiffIntegrator& integrator,
                            const std::string& className) = 0;
    /**
     * Seed the platform's random numbers, if the integrator has a heat bath.
     */
    virtual void initializeRandom(int) {
    }
    /**
     * Execute a step, with the heat bath if the integrator has one.
     *
     * @param stateModified   whether a Force modified the Context's state just before this step
     */
    virtual void execute(OpenMM::ContextImpl& context, bool stateModified) = 0;
    /**
     * Bring what is taken from the System up to date with it and with the settings; throw an exception if no step can
     * be taken with them.
     */
    virtual void prepare(OpenMM::ContextImpl& context) = 0;
    /**
     * Called at the start of each step: notice positions and velocities that somebody else has set since the last one,
     * such as another integrator of a CompoundIntegrator.
     */
    virtual void adoptState(OpenMM::ContextImpl& context) = 0;
    /**
     * Called before the first and after the last of steps that follow one another: in between nobody else changes the
     * Context, but for forces.
     */
    virtual void beginSteps() = 0;
    virtual void endSteps() = 0;
    /**
     * Called after the last of these steps: what a device has not said yet about them is thrown now.
     */
    virtual void finishSteps(OpenMM::ContextImpl&) {
    }
    /**
     * Called after it, and after a step that has failed: let the Context have what the method shows between calls.
     */
    virtual void showState(OpenMM::ContextImpl&) {
    }
    /**
     * Called when forces have acted on the Context before a step: velocities may have changed.
     *
     * @param onPositions   whether positions or box vectors have changed
     */
    virtual void forcesHaveActed(bool onPositions) = 0;
    /**
     * Remember the present positions and velocities, as exactly as a step takes them.
     */
    virtual void rememberState(OpenMM::ContextImpl& context) = 0;
    /**
     * Put back what has been remembered last, without a word to anybody.
     */
    virtual void bringBackState(OpenMM::ContextImpl& context) = 0;
    /**
     * Called before and after an AndersenThermostat draws velocities of some particles.
     */
    virtual void beginCollisions(OpenMM::ContextImpl&) {
    }
    virtual void endCollisions(OpenMM::ContextImpl&) {
    }
    /**
     * The user has changed the Context: see OpenMM::Integrator::stateChanged().
     */
    virtual void stateChanged(OpenMM::State::DataType changed) = 0;
    /**
     * Compute the kinetic energy of the present velocities [kJ/mol].
     */
    virtual double computeKineticEnergy(OpenMM::ContextImpl& context) = 0;
    /**
     * Write the hidden state to a checkpoint, bit for bit.
     */
    virtual void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) = 0;
    /**
     * Restore the hidden state from a checkpoint. The positions are those of the checkpoint already. If that is not
     * possible, throw an exception and leave the hidden state as it was.
     */
    virtual void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) = 0;
    /**
     * Write the hidden state to a State that is being saved.
     */
    virtual void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) = 0;
    /**
     * Restore the hidden state from a saved State. The positions are those of the State already.
     */
    virtual void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) = 0;
};

/**
 * The name by which a platform knows its kernel for an integrator, and for the same with a heat bath.
 */
template <class Integrator> constexpr const char* kernelName = nullptr;
template <> inline constexpr const char* kernelName<HMMIntegrator> = "IntegrateHMMStep";
template <> inline constexpr const char* kernelName<ImpulseIntegrator> = "IntegrateImpulseStep";
template <> inline constexpr const char* kernelName<MassPenaltyIntegrator> = "IntegrateMassPenaltyStep";
template <> inline constexpr const char* kernelName<SpookIntegrator> = "IntegrateSpookStep";
template <> inline constexpr const char* kernelName<ZhangSkeelIntegrator> = "IntegrateZhangSkeelStep";

/**
 * What is asked of every kernel, in the terms of its own integrator. Integrators that ask for more have a subclass
 * below.
 */
template <class IntegratorType> class OPENMM_EXPORT_STIFF StepKernel : public StiffStepKernel {
public:
    using Integrator = IntegratorType;
    using StiffStepKernel::StiffStepKernel;

    static std::string Name() {
        static_assert(kernelName<Integrator> != nullptr, "the kernel of this integrator has no name above");
        return kernelName<Integrator>;
    }
    void initialize(OpenMM::ContextImpl& context, const StiffIntegrator& integrator,
                    const std::string& className) final {
        this->className = className;
        initialize(context, static_cast<const Integrator&>(integrator));
    }

protected:
    /** See StiffStepKernel. The name of the class is known already. */
    virtual void initialize(OpenMM::ContextImpl& context, const Integrator& integrator) = 0;

    std::string className; // the integrator's
};

/**
 * This kernel is invoked by ZhangSkeelIntegrator and ZhangSkeelLangevinIntegrator to take one time step.
 */
class OPENMM_EXPORT_STIFF IntegrateZhangSkeelStepKernel : public StepKernel<ZhangSkeelIntegrator> {
public:
    using StepKernel::StepKernel;

    /**
     * Get the positions x that the method propagates [nm].
     */
    virtual void getPropagatedPositions(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& positions) = 0;
    /**
     * Get the number of iterations of Newton's method that the last step took; 0 for methods without.
     */
    virtual int getNumNewtonIterations() const = 0;
    /**
     * Project velocities on the tangent space of the stiff coordinates, orthogonally in the metric of the masses.
     */
    virtual void projectOnTangentSpace(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Count the independent stiff coordinates at the present positions: the rank of their Jacobian.
     */
    virtual int countStiffCoordinates(OpenMM::ContextImpl& context) = 0;
};

/**
 * This kernel is invoked by ImpulseIntegrator and ImpulseLangevinIntegrator to take one time step.
 */
class OPENMM_EXPORT_STIFF IntegrateImpulseStepKernel : public StepKernel<ImpulseIntegrator> {
public:
    using StepKernel::StepKernel;

    /**
     * Compute the number of micro-steps in a step.
     */
    virtual int computeNumMicroSteps(OpenMM::ContextImpl& context) = 0;
};

/**
 * This kernel is invoked by MassPenaltyIntegrator and MassPenaltyLangevinIntegrator to take one time step.
 */
class OPENMM_EXPORT_STIFF IntegrateMassPenaltyStepKernel : public StepKernel<MassPenaltyIntegrator> {
public:
    using StepKernel::StepKernel;

    /**
     * Get the pairs that carry an inertia, constraints, and the bonds with an inertia.
     */
    virtual stiffcore::PairTerms getPairs(OpenMM::ContextImpl& context) = 0;
    /**
     * Make velocities that have been drawn for the present time those of the constraints and, with a heat bath, of half a
     * step earlier.
     *
     * @param velocities    the velocities [nm/ps]
     */
    virtual void prepareVelocities(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& velocities) = 0;
};

/**
 * Get a number that is another one after each change of the constraints and their parameters.
 */
OPENMM_EXPORT_STIFF int getConstraintRevision(const SpookIntegrator& integrator);

/**
 * This kernel is invoked by SpookIntegrator to take one time step.
 */
class OPENMM_EXPORT_STIFF IntegrateSpookStepKernel : public StepKernel<SpookIntegrator> {
public:
    using StepKernel::StepKernel;

    /**
     * Make velocities of the present time those of half a step earlier that the constraints allow.
     */
    virtual void prepareVelocities(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Compute by how much each constraint is violated at the present positions and velocities.
     */
    virtual std::vector<double> computeViolations(OpenMM::ContextImpl& context) = 0;
    /**
     * Get the multiplier of each constraint in the last step, the force along its gradient.
     */
    virtual std::vector<double> getMultipliers() const = 0;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_KERNELS_H_ */
