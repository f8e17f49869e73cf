#ifndef STIFFHOST_SHARED_KERNELS_H_
#define STIFFHOST_SHARED_KERNELS_H_

#include "openmm/Vec3.h"
#include "openmmstiff/StiffKernels.h"
#include "stiffcore/model/PenalizedPair.h"
#include <vector>

namespace stiffhost {

/**
 * What a device asks of a kernel in the memory of the host that it shares the work with: the device takes steps, the
 * host does the rest, and is told what the device has done before it goes on.
 */
class SharedKernel {
public:
    using Vectors = std::vector<OpenMM::Vec3>;
    virtual ~SharedKernel() = default;

    /** Steps have been taken since adoptState(): they have led to the state that the Context has now. */
    virtual void stepsHaveBeenTaken() = 0;
    /**
     * A step has failed: put back the state of before, and, if it was the first since adoptState(), what that has
     * changed.
     */
    virtual void stepHasFailed(const Vectors& positions, const Vectors& velocities, bool wasFirst) = 0;
    /** Throw the error of a step that a block has made fail, or the velocity of a particle. */
    [[noreturn]] virtual void refuseBlock(const std::vector<int>& particles) const = 0;
    [[noreturn]] virtual void refuseVelocity(int particle) const = 0;
};

class SharedMassPenaltyKernel : public OpenMMStiff::IntegrateMassPenaltyStepKernel, public SharedKernel {
public:
    using IntegrateMassPenaltyStepKernel::IntegrateMassPenaltyStepKernel;

    /** Whether the pairs that velocities are tied to are still those that the integrator asks for. */
    virtual bool arePairsCurrent(const OpenMMStiff::MassPenaltyIntegrator& integrator) = 0;
    /** Those pairs. */
    virtual const std::vector<stiffcore::PenalizedPair>& getTiedPairs() const = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_SHARED_KERNELS_H_ */
