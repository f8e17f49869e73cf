#ifndef STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_
#define STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_

#include "DeviceKernel.h"
#include "LargePairs.h"
#include "stiffhost/SharedKernels.h"
#include <functional>
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

    void initializeRandom(int seed) override;
    void initialize(OpenMM::ContextImpl& contextImpl, const Integrator& integrator) override;
    void execute(OpenMM::ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) override;
    void executeLangevin(OpenMM::ContextImpl& contextImpl,
                         const OpenMMStiff::MassPenaltyLangevinIntegrator& integrator) override;
    std::vector<stiffcore::PenalizedPair> getPairs(OpenMM::ContextImpl& contextImpl) override;
    void prepareVelocities(OpenMM::ContextImpl& contextImpl, Vectors& velocities) override;

protected:
    bool arrange() override;
    bool isCurrent() override;
    void writeHidden(std::ostream& stream) const override;
    void readHidden(std::istream& stream) override;

private:
    /** In the order of the kernels: a Langevin step is one; others are two, with forces in between. */
    enum { Move, Kick };
    void setUniform(double kT, double friction);
    /** Let the host move the large molecules in place of a kernel. */
    void moveLarge(int kernel, OpenMM::ArrayInterface& forces,
                   const std::function<LargePairs::Failure(const stiffcore::Box&)>& move);
    void createLargePairs();

    const Integrator* integrator = nullptr;
    const OpenMMStiff::MassPenaltyLangevinIntegrator* langevin = nullptr;
    // What the device is ready for.
    std::vector<stiffcore::PenalizedPair> pairs;
    bool metricCorrection = false;
    /// Molecules that are too large for the device, whose particles alone go through the memory of the host.
    std::unique_ptr<LargePairs> largePairs;
    bool hasLarge = false;
    int seed = 0;
    Vectors x, v, F;
    /// The forces at the end of the last step.
    OpenMM::ComputeArray forces;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_MASS_PENALTY_KERNEL_H_ */
