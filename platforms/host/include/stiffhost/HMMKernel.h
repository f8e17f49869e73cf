#ifndef STIFFHOST_HMM_KERNEL_H_
#define STIFFHOST_HMM_KERNEL_H_

#include "HostParticles.h"
#include "LastStep.h"
#include "MicroIntegration.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/StiffKernels.h"
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The macro-steps of the heterogeneous multiscale method on a platform that keeps its state in host memory. See
 * HostParticles for the Backend. There is no hidden state.
 */
template <class Backend> class HMMKernel : public OpenMMStiff::StepKernel<OpenMMStiff::HMMIntegrator> {
public:
    using Integrator = OpenMMStiff::HMMIntegrator;

    HMMKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& context)
            : StepKernel(name, platform), backend(context), particles(backend), micro(backend, particles) {
    }

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator) override {
        particles.initialize(context.getSystem());
        accelerations.assign(context.getSystem().getNumParticles(), OpenMM::Vec3());
        micro.initialize(context, integrator, className);
        lastStep.forget();
    }

    void adoptState(OpenMM::ContextImpl&) override {
        // execute() compares positions: there is no hidden state that others could leave behind.
    }

    void execute(OpenMM::ContextImpl& context, const Integrator& integrator, bool stateModified) override {
        HostState state(context);
        const double H = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const MicroSettings settings(integrator, state);
        const bool known = lastStep.isContinuedBy(state, settings) && !stateModified;
        micro.requireMicroSteps(integrator);
        particles.orRestore(state, className, [&] {
            if (!known)
                micro.average(context, integrator, true, accelerations);
            particles.kick(0.5 * H, accelerations, state);
            particles.requireFiniteVelocities(state, className, H);
            particles.constrainMotion(H, tolerance, state, [&] { particles.drift(H, particles.getMasses(), state); });
            context.computeVirtualSites();
            micro.average(context, integrator, false, accelerations);
            particles.kick(0.5 * H, accelerations, state);
            if (integrator.getMacroMethod() == Integrator::RATTLE)
                particles.constrainVelocities(tolerance, state);
            particles.requireFiniteVelocities(state, className, H);
        });
        lastStep.endsAt(state, settings);
        state.advanceTime(H);
    }

    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        HostState state(context);
        return particles.computeKineticEnergy(state);
    }

    void stateChanged(OpenMM::State::DataType changed) override {
        // The phase is a parameter that the micro-integration changes itself.
        if (!micro.isRunning() && (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy))
            lastStep.forget();
    }

    void createCheckpoint(OpenMM::ContextImpl&, std::ostream&) const override {
    }
    void loadCheckpoint(OpenMM::ContextImpl&, std::istream&) override {
        lastStep.forget();
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode&) const override {
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode&) override {
        lastStep.forget();
    }

private:
    Backend backend;
    HostParticles<Backend> particles;
    MicroIntegration<Backend> micro;
    std::vector<OpenMM::Vec3> accelerations; // averaged
    LastStep<MicroSettings> lastStep;
};

} // namespace stiffhost

#endif /* STIFFHOST_HMM_KERNEL_H_ */
