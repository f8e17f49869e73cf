#ifndef STIFFHOST_SHARED_KERNELS_H_
#define STIFFHOST_SHARED_KERNELS_H_

#include "openmm/Vec3.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/model/PenalizedPair.h"
#include <vector>

namespace stiffhost {

/**
 * What a device asks of a kernel in the memory of the host that it shares the work with: the device takes steps, the
 * host does the rest, and is told what the device has done before it goes on. The classes are exported, as libraries ask
 * each other's kernels for them.
 */
class OPENMM_EXPORT_STIFF SharedKernel {
public:
    using Vectors = std::vector<OpenMM::Vec3>;
    virtual ~SharedKernel() = default;

    /** A state of the Context, and, if the method has them, the positions that it propagates. */
    struct State {
        Vectors positions, velocities, propagated;
    };

    /** Steps have been taken since adoptState(), which have led to a state. */
    virtual void stepsHaveBeenTaken(const State& state) = 0;
    /**
     * A step has failed: put back the state of before, and, if it was the first since adoptState(), what that has
     * changed.
     */
    virtual void stepHasFailed(const State& state, bool wasFirst) = 0;
    /** Throw the error of a step that has failed because of a block, or of the forces on it, or of a velocity. */
    [[noreturn]] virtual void refuseBlock(const std::vector<int>& particles, bool forces) const = 0;
    [[noreturn]] virtual void refuseVelocity(int particle) const = 0;
};

class OPENMM_EXPORT_STIFF SharedMassPenaltyKernel : public OpenMMStiff::IntegrateMassPenaltyStepKernel, public SharedKernel {
public:
    using IntegrateMassPenaltyStepKernel::IntegrateMassPenaltyStepKernel;

    /** Whether the pairs that velocities are tied to are still those that the integrator asks for. */
    virtual bool arePairsCurrent(const OpenMMStiff::MassPenaltyIntegrator& integrator) = 0;
    /** Those pairs. */
    virtual const std::vector<stiffcore::PenalizedPair>& getTiedPairs() const = 0;
};

class OPENMM_EXPORT_STIFF SharedZhangSkeelKernel : public OpenMMStiff::IntegrateZhangSkeelStepKernel, public SharedKernel {
public:
    using IntegrateZhangSkeelStepKernel::IntegrateZhangSkeelStepKernel;
};

class OPENMM_EXPORT_STIFF SharedImpulseKernel : public OpenMMStiff::IntegrateImpulseStepKernel, public SharedKernel {
public:
    using IntegrateImpulseStepKernel::IntegrateImpulseStepKernel;
};

} // namespace stiffhost

#endif /* STIFFHOST_SHARED_KERNELS_H_ */
