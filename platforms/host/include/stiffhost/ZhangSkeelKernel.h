#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "ImplicitAccelerations.h"
#include "PropagatedPositions.h"
#include "StepSession.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "stiffcore/methods/ImplicitMethod.h"
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The steps of the Zhang-Skeel family. On a device the method is StiffHessian, in a System without constraints.
 */
template <class Real> class ZhangSkeelKernel : public StepSession, public OpenMMStiff::ZhangSkeelQueries {
public:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;

    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform,
                     std::unique_ptr<PlatformResources> owned, OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, true), accelerations(backend, state, particles),
              machine(state, particles, accelerations.getBlocks(), device.get()) {
    }

    void getPropagatedPositions(Vectors& positions) override {
        const Turn turn(*this);
        positions = x.get(state.positions());
    }
    int getNumNewtonIterations() const override {
        return accelerations.getNumIterations();
    }
    void projectOnTangentSpace(Vectors& velocities) override {
        const Turn turn(*this);
        prepare();
        projectBlocks(velocities);
    }
    int countStiffCoordinates() override {
        const Turn turn(*this);
        prepare();
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        std::atomic<int> count(0);
        const std::string failed = accelerations.getBlocks().forEach([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            const auto factored = factorTangentSpace(batch, box, work);
            for (int lane = 0; lane < batch.count; lane++)
                count += countCoordinates(batch, lane, work);
            return factored & areFinite(batch, work.x);
        });
        if (!failed.empty())
            accelerations.refuse("the positions of " + failed + " are not finite");
        return count;
    }

protected:
    void start() override {
        accelerations.initialize(settings(), className);
        machine.initialize(getMethod());
        prepare();
    }
    void prepare() override {
        if (accelerations.prepare())
            lastStep.forget();
    }
    void takeStep(bool known) override {
        if (isOnDevice())
            return executeThere(known);
        kickAndDrift(leaveShown(known));
        kickAndThermalize();
    }
    void adopt() override {
        prepare();
        x.acceptShown(state.positions());
    }
    SettingNumbers getSettings() const override {
        return {integrator->getStepSize(),
                settings().getBeta(),
                settings().getNewtonTolerance(),
                double(settings().getMethod()),
                double(settings().getStiffForceGroups()),
                double(integrator->getIntegrationForceGroups())};
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        StepSession::forget(changed);
        if (changed == OpenMM::State::Energy)
            accelerations.getBlocks().forgetParameters();
    }
    const Vectors& getPropagated() override {
        x.follow(state.positions());
        return x.get(state.positions());
    }
    void stepHasEnded(const Vectors& propagated) override {
        accelerations.show(machine.getKept(KeptVector::Acceleration));
        state.computeVirtualSites();
        x.set(propagated, state.positions());
    }

    void writeHidden(std::ostream& stream) override {
        x.write(stream, state.positions());
    }
    void readHidden(std::istream& stream) override {
        x.read(stream, state.positions());
        tieHidden();
    }
    void writeHidden(OpenMM::SerializationNode& node) override {
        x.write(node, state.positions());
    }
    void readHidden(const OpenMM::SerializationNode& node) override {
        x.read(node, state.positions());
        tieHidden();
    }

    // On a device.

    Program getProgram() override {
        const bool takesSteps = settings().getMethod() == Integrator::StiffHessian && !particles.hasConstraints();
        return {accelerations.getBlocks().getRevision(), takesSteps ? projectsNoise() : Program::none};
    }
    void compile() override {
        const HostStiffTerms<Real>& blocks = accelerations.getBlocks();
        machine.compile(getMethod(), blocks.getBlocks(), blocks.getTerms());
    }
    bool isUpToDate() override {
        return accelerations.getBlocks().areUpToDate(OpenMMStiff::TermSelection(settings()));
    }
    void handOver() override {
        Vectors offsets;
        context.getPositions(offsets); // as the device has rounded them
        const Vectors& propagated = x.get(state.positions());
        for (size_t i = 0; i < offsets.size(); i++)
            offsets[i] -= propagated[i];
        device->setOffsets(offsets);
        machine.getKept(KeptVector::Offset) = offsets;
    }
    void begin(stiffcore::StepNumbers& numbers) override {
        numbers[stiffcore::Uniform::HessianFactor] = accelerations.getFactor();
        machine.begin(getMethod(), numbers);
    }
    void stepsHaveBeenTaken(const Device::State& after) override {
        x.set(leave(after.propagated, KeptVector::Offset), after.positions);
    }
    void stepHasFailedThere(const Device::State& before, bool) override {
        x.set(leave(before.propagated, KeptVector::OffsetBefore), state.positions());
    }
    [[noreturn]] void refuseMolecule(const std::string& molecule, bool forces) const override {
        forces ? accelerations.refuseForces(molecule) : accelerations.refuseMatrix(molecule);
    }

private:
    using Method = stiffcore::ImplicitMethod;
    using KeptVector = stiffcore::KeptVector;

    const Integrator& settings() const {
        return static_cast<const Integrator&>(*integrator);
    }
    bool projectsNoise() const {
        const auto* langevin = dynamic_cast<const OpenMMStiff::ZhangSkeelLangevinIntegrator*>(integrator);
        return langevin != nullptr && !langevin->getThermalizeStiffModes();
    }

    Method getMethod() const {
        return {thermostat != nullptr, projectsNoise(), accelerations.mayBeIndefinite()};
    }
    /** The positions that the method propagates, with those of molecules that the device does not take. */
    Vectors leave(Vectors shown, KeptVector offset) {
        for (int particle : machine.getLargeParticles())
            shown[particle] -= machine.getKept(offset)[particle];
        return shown;
    }

    // The phases.

    void executeThere(bool accelerationsKnown) {
        if (machine.hasLarge())
            accelerations.getBlocks().setGlobals(state.getParameters());
        auto execute = [&](int kernel) { StepSession::executeThere(machine, kernel); };
        auto computeForcesHere = [&] {
            computeVirtualSites();
            computeForces();
        };
        if (accelerationsKnown)
            execute(Method::Move);
        else {
            execute(Method::Begin);
            computeForcesHere();
            execute(Method::FirstMove);
        }
        computeForcesHere();
        execute(Method::Finish);
        computeVirtualSites();
        if (machine.hasLarge())
            askForFailure(); // from a later step on, what the host keeps of them is another
    }

    /** From the positions that are shown to those that are propagated. */
    Method::Phase leaveShown(bool accelerationsKnown) {
        state.changePositions() = x.get(state.positions());
        if (accelerationsKnown)
            return Method::Recall;
        state.computeVirtualSites();
        return accelerate();
    }
    void kickAndDrift(Method::Phase accelerate) {
        particles.constrainMotion(integrator->getStepSize(), integrator->getConstraintTolerance(), [&] {
            if (settings().getMethod() != Integrator::NewmarkOneIteration)
                return run(machine, accelerate, Method::Kick, Method::Drift);
            run(machine, accelerate, Method::Kick);
            driftOnce();
        });
    }
    /** The other half of the kick, with the accelerations at the new positions, and the heat bath. */
    void kickAndThermalize() {
        const double tolerance = integrator->getConstraintTolerance();
        computeVirtualSites();
        if (thermostat != nullptr &&
            !particles.hasConstraints()) // which would come in between: once through all blocks
            return run(machine, accelerate(), Method::Kick, Method::Thermalize);
        run(machine, accelerate(), Method::Kick);
        particles.constrainVelocities(tolerance);
        if (thermostat == nullptr)
            return;
        run(machine, Method::Thermalize);
        particles.constrainVelocities(tolerance);
    }

    /** The phase by which blocks get their accelerations. */
    Method::Phase accelerate() {
        accelerations.compute(machine.getKept(KeptVector::Acceleration));
        return accelerations.isSimplified() ? Method::Solve : Method::Recall;
    }

    /** The one iteration for the new positions begins at the old ones: (M + b h^2 H1(x)) dx = M (h v + h^2/2 a(x)). */
    void driftOnce() {
        const double h = integrator->getStepSize();
        const Vectors& filtered = accelerations.filterVelocities();
        Vectors& positions = state.changePositions();
        for (size_t i = 0; i < filtered.size(); i++)
            if (particles.getMasses()[i] > 0)
                positions[i] += filtered[i] * h;
    }

    void projectBlocks(Vectors& velocities) {
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        const std::string failed = accelerations.getBlocks().forEach([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            gatherVelocities(batch, components(velocities), work.v);
            const auto projected = stiffcore::projectOnTangentSpace(batch, box, work, work.v);
            return scatter(projected & areFinite(batch, work.v), batch, work.v, components(velocities));
        });
        if (!failed.empty())
            accelerations.refuse("the velocities of " + failed +
                                 " cannot be projected on its tangent space: they are not finite");
    }

    /** The saved state may be that of another System. What has no offset here shows x itself. */
    void tieHidden() {
        const OpenMM::System& system = state.getSystem();
        x.tie([&](int i) {
            return (particles.getMasses()[i] == 0 && !system.isVirtualSite(i)) || particles.isConstrained(i);
        });
    }

    ImplicitAccelerations<Real> accelerations;
    Machine<Method, HostStiffTerms<Real>> machine;
    PropagatedPositions x; // the hidden state
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
