#ifndef STIFFHOST_HMM_KERNEL_H_
#define STIFFHOST_HMM_KERNEL_H_

#include "MethodKernel.h"
#include "MicroIntegration.h"
#include "openmmstiff/StiffKernels.h"
#include <memory>
#include <string>
#include <tuple>

namespace stiffhost {

/// What the averaged force depends on beside positions and parameters: frequency, filter, micro-steps, periods, vibrated
/// and integrated force groups, the parameter that is the phase, the box.
using HMMDependencies = std::tuple<double, int, int, int, int, int, std::string, stiffcore::Box>;

/**
 * The macro-steps of the heterogeneous multiscale method. There is no hidden state.
 */
template <class Backend>
class HMMKernel : public MethodKernel<Backend, OpenMMStiff::StepKernel<OpenMMStiff::HMMIntegrator>, HMMDependencies> {
    using Base = MethodKernel<Backend, OpenMMStiff::StepKernel<OpenMMStiff::HMMIntegrator>, HMMDependencies>;
    using Base::backend, Base::className, Base::integrator, Base::lastStep, Base::particles, Base::state;
    using typename Base::Turn;

public:
    HMMKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
              OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context, false), micro(backend, state, particles) {
    }

    void execute(OpenMM::ContextImpl&, bool stateModified) override {
        const double H = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
        const HMMDependencies dependencies = {
                integrator->getAngularFrequency(),       integrator->getFilter(),
                integrator->getNumMicroStepsPerPeriod(), integrator->getNumPeriods(),
                integrator->getVibratedForceGroups(),    integrator->getIntegrationForceGroups(),
                integrator->getPhaseParameter(),         state.box()};
        micro.requireMicroSteps(*integrator);
        this->takeStep(dependencies, stateModified, [&](bool known) {
            if (!known)
                micro.average(*integrator, true, accelerations);
            particles.kick(0.5 * H, accelerations);
            particles.requirePossibleVelocities(className, H);
            particles.constrainMotion(H, tolerance, [&] { particles.drift(H); });
            this->computeVirtualSites();
            micro.average(*integrator, false, accelerations);
            particles.kick(0.5 * H, accelerations);
            if (integrator->getMacroMethod() == OpenMMStiff::HMMIntegrator::RATTLE)
                particles.constrainVelocities(tolerance);
        });
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        return particles.computeKineticEnergy();
    }

protected:
    void start() override {
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        micro.initialize(this->context.getForceImpls(), *integrator, className);
    }
    void prepare() override {
        micro.prepare(*integrator);
    }
    void forget(OpenMM::State::DataType changed) override {
        // The phase is a parameter that the micro-integration changes itself.
        if (!micro.isRunning() && (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy))
            lastStep.forget();
    }

private:
    MicroIntegration<Backend> micro;
    Vectors accelerations; // averaged
};

} // namespace stiffhost

#endif /* STIFFHOST_HMM_KERNEL_H_ */
