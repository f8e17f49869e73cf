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
 * What StiffIntegrator asks of every kernel of this plugin: to take steps, and to keep the method's hidden state (what
 * a step needs beyond the positions and velocities of the Context) in agreement with a Context that others modify too.
 */
class OPENMM_EXPORT_STIFF StiffStepKernel : public OpenMM::KernelImpl {
public:
    using KernelImpl::KernelImpl;
    /**
     * Initialize the kernel, and seed the platform's random numbers if the integrator has a heat bath.
     *
     * @param integrator   the integrator this kernel will be used for, and no other
     * @param className    the name of the integrator's class, for error messages
     */
    virtual void initialize(const StiffIntegrator& integrator, const std::string& className) = 0;
    /**
     * Throw an exception if no step can be taken with the present settings and System.
     */
    virtual void requirePossible() = 0;
    /**
     * Called before the first and after the last of steps that follow one another, and after one that has failed: in
     * between nobody else changes the Context, but for forces. At the end the Context gets what the method shows.
     */
    virtual void beginSteps() = 0;
    virtual void endSteps() = 0;
    /**
     * Notice what somebody else has set since the last step, let forces act on the Context, and take a step, with the
     * heat bath if the integrator has one.
     */
    virtual void takeStep() = 0;
    /**
     * Called after the last step, before endSteps(): what a device has not said yet about them is thrown now.
     */
    virtual void finishSteps() = 0;
    /**
     * The user has changed the Context: see OpenMM::Integrator::stateChanged().
     */
    virtual void stateChanged(OpenMM::State::DataType changed) = 0;
    /**
     * Compute the kinetic energy of the present velocities [kJ/mol].
     */
    virtual double computeKineticEnergy() = 0;
    /**
     * Write the hidden state to a checkpoint, bit for bit.
     */
    virtual void createCheckpoint(std::ostream& stream) = 0;
    /**
     * Restore the hidden state from a checkpoint. The positions are those of the checkpoint already. If that is not
     * possible, throw an exception: positions, velocities and parameters then count as set anew.
     */
    virtual void loadCheckpoint(std::istream& stream) = 0;
    /**
     * Write the hidden state to a State that is being saved; restore it. The positions are those of the State already.
     */
    virtual void serializeState(OpenMM::SerializationNode& node) = 0;
    virtual void deserializeState(const OpenMM::SerializationNode& node) = 0;
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

// What the integrators of a method ask of their kernel beside steps.

class OPENMM_EXPORT_STIFF ZhangSkeelQueries {
public:
    virtual ~ZhangSkeelQueries() = default;
    /**
     * Get the positions x that the method propagates [nm].
     */
    virtual void getPropagatedPositions(std::vector<OpenMM::Vec3>& positions) = 0;
    /**
     * Get the number of iterations of Newton's method that the last step took; 0 for methods without.
     */
    virtual int getNumNewtonIterations() const = 0;
    /**
     * Project velocities on the tangent space of the stiff coordinates, orthogonally in the metric of the masses.
     */
    virtual void projectOnTangentSpace(std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Count the independent stiff coordinates at the present positions: the rank of their Jacobian.
     */
    virtual int countStiffCoordinates() = 0;
};

class OPENMM_EXPORT_STIFF ImpulseQueries {
public:
    virtual ~ImpulseQueries() = default;
    /**
     * Compute the number of micro-steps in a step.
     */
    virtual int computeNumMicroSteps() = 0;
};

class OPENMM_EXPORT_STIFF MassPenaltyQueries {
public:
    virtual ~MassPenaltyQueries() = default;
    /**
     * Get the pairs that carry an inertia, constraints, and the bonds with an inertia.
     */
    virtual stiffcore::PairTerms getPairs() = 0;
    /**
     * Make velocities that have been drawn for the present time those of the constraints and, with a heat bath, of
     * half a step earlier [nm/ps].
     */
    virtual void prepareVelocities(std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Shift velocities by a time [ps], with the present forces.
     */
    virtual void shiftVelocities(double time, std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Note that a step has failed, and tell whether so many have not before it that molecules must have collided.
     */
    virtual bool noteCollision() = 0;
    /**
     * Whether steps of another size are taken with the present inertias, in which particles may get any energy: after a
     * collision, the small ones that go through it.
     */
    virtual void takeOtherSteps(bool other) = 0;
};

class OPENMM_EXPORT_STIFF SpookQueries {
public:
    virtual ~SpookQueries() = default;
    /**
     * Make velocities of the present time those of half a step earlier that the constraints allow [nm/ps].
     */
    virtual void prepareVelocities(std::vector<OpenMM::Vec3>& velocities) = 0;
    /**
     * Compute by how much each constraint is violated at the present positions and velocities.
     */
    virtual std::vector<double> computeViolations() = 0;
    /**
     * Count the degrees of freedom that the constraints leave at the present positions.
     */
    virtual int countDegreesOfFreedom() = 0;
    /**
     * Get the multiplier of each constraint in the last step, the force along its gradient.
     */
    virtual std::vector<double> getMultipliers() const = 0;
};

/**
 * Get a number that is another one after each change of the pairs that a user has added and what chooses others, but
 * for period and inertia, which may follow the step; or of the constraints and their parameters.
 */
OPENMM_EXPORT_STIFF int getPairRevision(const MassPenaltyIntegrator& integrator);
OPENMM_EXPORT_STIFF int getConstraintRevision(const SpookIntegrator& integrator);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_KERNELS_H_ */
