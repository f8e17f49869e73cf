#ifndef STIFFCOMMON_DEVICE_IMPULSE_KERNEL_H_
#define STIFFCOMMON_DEVICE_IMPULSE_KERNEL_H_

#include "DeviceKernel.h"
#include "stiffhost/KeptStiffTerms.h"
#include "stiffhost/SharedKernels.h"

namespace stiffcommon {

/**
 * The steps of the impulse methods on a device, see DeviceKernel: with a kick that is plain or projected, in a System
 * without constraints.
 */
class DeviceImpulseKernel
        : public DeviceKernel<OpenMMStiff::IntegrateImpulseStepKernel, stiffhost::SharedImpulseKernel> {
public:
    using Integrator = OpenMMStiff::ImpulseIntegrator;
    using DeviceKernel::DeviceKernel;

    void initialize(OpenMM::ContextImpl& contextImpl, const Integrator& integrator) override;
    void execute(OpenMM::ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) override;
    void executeLangevin(OpenMM::ContextImpl& contextImpl,
                         const OpenMMStiff::ImpulseLangevinIntegrator& integrator) override;
    int computeNumMicroSteps(OpenMM::ContextImpl& contextImpl, const Integrator& integrator, int numFlows) override;
    void stateChanged(OpenMM::State::DataType changed) override;

protected:
    bool arrange() override;
    bool isCurrent() override;
    void takeAdopted() override;

private:
    /** A Langevin step is one kernel. Of others, in the order that they have in the first step: */
    enum { Start, Move, Kick };
    /** Molecules with more terms than this are left to the host. */
    static constexpr int maxTerms = 20;
    void setUniform(double kT, double friction);

    const Integrator* integrator = nullptr;
    bool isLangevin = false;
    // What the device is ready for.
    stiffhost::KeptStiffTerms terms;
    bool compiled = false;
    double stepSize = 0;
    int numMicroStepsAsked = 0, numMicroSteps = 0;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_IMPULSE_KERNEL_H_ */
