#ifndef STIFFCOMMON_DEVICE_ZHANG_SKEEL_KERNEL_H_
#define STIFFCOMMON_DEVICE_ZHANG_SKEEL_KERNEL_H_

#include "DeviceKernel.h"
#include "stiffhost/KeptStiffTerms.h"
#include "stiffhost/SharedKernels.h"
#include <vector>

namespace stiffcommon {

/**
 * The steps of the Zhang-Skeel family on a device, see DeviceKernel: of the method SimplifiedStiff, with harmonic stiff
 * terms, in a System without constraints.
 */
class DeviceZhangSkeelKernel
        : public DeviceKernel<OpenMMStiff::IntegrateZhangSkeelStepKernel, stiffhost::SharedZhangSkeelKernel> {
public:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;
    using DeviceKernel::DeviceKernel;

    void initialize(OpenMM::ContextImpl& contextImpl, const Integrator& integrator) override;
    void execute(OpenMM::ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) override;
    void executeLangevin(OpenMM::ContextImpl& contextImpl, const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator,
                         bool stateModified) override;
    void stateChanged(OpenMM::State::DataType changed) override;
    void getPropagatedPositions(OpenMM::ContextImpl& contextImpl, Vectors& positions) override;
    int getNumNewtonIterations() const override;
    void projectOnTangentSpace(OpenMM::ContextImpl& contextImpl, const Integrator& integrator,
                               Vectors& velocities) override;
    int countStiffCoordinates(OpenMM::ContextImpl& contextImpl, const Integrator& integrator) override;

protected:
    bool arrange() override;
    bool isCurrent() override;
    void takeAdopted() override;

private:
    /** In the order that they have in a step that begins without accelerations. */
    enum { Begin, Start, Move, Finish };
    void takeStep(double kT, double friction, bool stateModified);

    const Integrator* integrator = nullptr;
    const OpenMMStiff::ZhangSkeelLangevinIntegrator* langevin = nullptr;
    // What the device is ready for.
    stiffhost::KeptStiffTerms terms;
    bool compiled = false;
    Integrator::Method method = {};
    // What the accelerations depend on that are known.
    double hessianFactor = 0;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_ZHANG_SKEEL_KERNEL_H_ */
