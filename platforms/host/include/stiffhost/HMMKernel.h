#ifndef STIFFHOST_HMM_KERNEL_H_
#define STIFFHOST_HMM_KERNEL_H_

#include "HostKernel.h"
#include "LastStep.h"
#include "MicroIntegration.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/StiffKernels.h"
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace stiffhost {

/**
 * The macro-steps of the heterogeneous multiscale method in the memory of the host. See
 * HostParticles for the Backend. There is no hidden state.
 */
template <class Backend>
class HMMKernel : public HostKernel<Backend, OpenMMStiff::StepKernel<OpenMMStiff::HMMIntegrator>> {
    using Base = HostKernel<Backend, OpenMMStiff::StepKernel<OpenMMStiff::HMMIntegrator>>;
    using Base::backend, Base::className, Base::particles, Base::state;
    using typename Base::Turn;

public:
    using Integrator = OpenMMStiff::HMMIntegrator;

    HMMKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
              OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context), micro(backend, state, particles) {
    }

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator) override {
        this->integrator = &integrator;
        particles.initialize();
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        micro.initialize(context.getForceImpls(), integrator, className);
        lastStep.forget();
    }

    void prepare(OpenMM::ContextImpl&) override {
        micro.prepare(*integrator);
    }

    std::string adoptState(OpenMM::ContextImpl&) override {
        // execute() compares positions: there is no hidden state that others could leave behind.
        return {};
    }

    void execute(OpenMM::ContextImpl&, const Integrator& integrator, bool stateModified) override {
        const Turn turn(state);
        const double H = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const Dependencies dependencies = findDependencies(integrator);
        const bool known = lastStep.isContinuedBy(state.positions(), dependencies) && !stateModified;
        micro.requireMicroSteps(integrator);
        particles.orRestore(className, [&] {
            if (!known)
                micro.average(integrator, true, accelerations);
            particles.kick(0.5 * H, accelerations);
            particles.requirePossibleVelocities(className, H);
            particles.constrainMotion(H, tolerance, [&] { particles.drift(H); });
            state.computeVirtualSites();
            micro.average(integrator, false, accelerations);
            particles.kick(0.5 * H, accelerations);
            if (integrator.getMacroMethod() == Integrator::RATTLE)
                particles.constrainVelocities(tolerance);
            particles.requirePossibleVelocities(className, H);
        });
        lastStep.endsAt(state.positions(), dependencies);
        state.advanceTime(H);
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        return particles.computeKineticEnergy();
    }

    void forget(OpenMM::State::DataType changed) override {
        // The phase is a parameter that the micro-integration changes itself.
        if (!micro.isRunning() && (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy))
            lastStep.forget();
    }

    void writeHidden(std::ostream&) const override {
    }
    void readHidden(std::istream&) override {
        lastStep.forget();
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode&) const override {
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode&) override {
        lastStep.forget();
    }

private:
    /** What the averaged force depends on beside positions and parameters, and what nobody announces a change of. */
    using Dependencies = std::tuple<double, int, int, int, int, int, std::string, stiffcore::Box>;
    Dependencies findDependencies(const Integrator& integrator) const {
        return {integrator.getFrequency(),           integrator.getFilter(),
                integrator.getNumMicroSteps(),       integrator.getNumPeriods(),
                integrator.getVibratedForceGroups(), integrator.getIntegrationForceGroups(),
                integrator.getPhaseParameter(),      state.box()};
    }

    const Integrator* integrator = nullptr;
    MicroIntegration<Backend> micro;
    Vectors accelerations; // averaged
    LastStep<Dependencies> lastStep;
};

} // namespace stiffhost

#endif /* STIFFHOST_HMM_KERNEL_H_ */
