#ifndef STIFFHOST_HMM_KERNEL_H_
#define STIFFHOST_HMM_KERNEL_H_

#include "MicroIntegration.h"
#include "StepSession.h"
#include "openmmstiff/StiffKernels.h"
#include <functional>
#include <memory>
#include <string>

namespace stiffhost {

/**
 * The macro-steps of the heterogeneous multiscale method. There is no hidden state.
 */
template <class Real> class HMMKernel : public StepSession {
public:
    using Integrator = OpenMMStiff::HMMIntegrator;

    HMMKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<PlatformResources> owned,
              OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, false), micro(backend, state, particles) {
    }

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override {
        StepSession::initialize(integrator, className);
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        micro.initialize(context.getForceImpls(), settings(), className);
    }

protected:
    bool prepare() override {
        micro.prepare(settings());
        return false;
    }
    void takeStep(bool goesOn) override {
        const double H = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
        micro.requireMicroSteps(settings());
        if (!goesOn)
            micro.average(settings(), true, accelerations);
        particles.kick(0.5 * H, accelerations);
        particles.requirePossibleVelocities(className, H);
        particles.constrainMotion(H, tolerance, [&] { particles.drift(H); });
        arrive();
        micro.average(settings(), false, accelerations);
        particles.kick(0.5 * H, accelerations);
        if (settings().getMacroMethod() == Integrator::RATTLE)
            particles.constrainVelocities(tolerance);
    }
    SettingNumbers begin(stiffcore::StepNumbers&) override {
        return {settings().getAngularFrequency(),
                double(settings().getFilter()),
                double(settings().getNumMicroStepsPerPeriod()),
                double(settings().getNumPeriods()),
                double(settings().getVibratedForceGroups()),
                double(integrator->getIntegrationForceGroups()),
                double(std::hash<std::string>()(settings().getPhaseParameter()))};
    }
    void forget(OpenMM::State::DataType changed) override {
        // The phase is a parameter that the micro-integration changes itself.
        if (!micro.isRunning())
            StepSession::forget(changed);
    }

private:
    const Integrator& settings() const {
        return static_cast<const Integrator&>(*integrator);
    }

    MicroIntegration<Real> micro;
    Vectors accelerations; // averaged
};

} // namespace stiffhost

#endif /* STIFFHOST_HMM_KERNEL_H_ */
