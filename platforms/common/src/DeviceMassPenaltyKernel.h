#ifndef STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_
#define STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_

#include "DeviceKernel.h"
#include "stiffhost/SharedKernels.h"
#include <memory>
#include <string>
#include <vector>

namespace stiffcommon {

/**
 * The steps of the mass penalty on a device, see DeviceKernel.
 */
class DeviceMassPenaltyKernel
        : public DeviceKernel<OpenMMStiff::IntegrateMassPenaltyStepKernel, stiffhost::SharedMassPenaltyKernel> {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;
    using DeviceKernel::DeviceKernel;

    void initialize(OpenMM::ContextImpl& contextImpl, const Integrator& integrator) override;
    void execute(OpenMM::ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) override;
    void executeLangevin(OpenMM::ContextImpl& contextImpl,
                         const OpenMMStiff::MassPenaltyLangevinIntegrator& integrator) override;
    std::vector<stiffcore::PenalizedPair> getPairs(OpenMM::ContextImpl& contextImpl) override;
    void prepareVelocities(OpenMM::ContextImpl& contextImpl, Vectors& velocities, double temperature) override;

protected:
    bool arrange() override;
    bool isCurrent() override;

private:
    /** In the order of the kernels: a Langevin step is one; others are two, with forces in between. */
    enum { Move, Kick };
    void setUniform(double kT, double friction);

    const Integrator* integrator = nullptr;
    const OpenMMStiff::MassPenaltyLangevinIntegrator* langevin = nullptr;
    // What the device is ready for.
    std::vector<stiffcore::PenalizedPair> pairs;
    bool metricCorrection = false;
    /// The forces at the end of the last step, and of which groups.
    OpenMM::ComputeArray forces;
    int forceGroups = 0;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_ */
