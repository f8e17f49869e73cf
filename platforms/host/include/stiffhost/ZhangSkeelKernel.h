#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "ImplicitAccelerations.h"
#include "MethodKernel.h"
#include "PropagatedPositions.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "stiffcore/methods/ImplicitMethod.h"
#include <atomic>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stiffhost {

/// What accelerations depend on beside positions and parameters: h, beta, Newton's tolerance, the method, the stiff
/// and the integrated force groups, the box.
using ZhangSkeelDependencies =
        std::tuple<double, double, double, OpenMMStiff::ZhangSkeelIntegrator::Method, int, int, stiffcore::Box>;

/**
 * The steps of the Zhang-Skeel family. On a device the method is StiffHessian, in a System without constraints.
 */
template <class Backend>
class ZhangSkeelKernel
        : public MethodKernel<Backend, OpenMMStiff::IntegrateZhangSkeelStepKernel, ZhangSkeelDependencies> {
    using Base = MethodKernel<Backend, OpenMMStiff::IntegrateZhangSkeelStepKernel, ZhangSkeelDependencies>;
    using Base::backend, Base::className, Base::device, Base::integrator, Base::lastStep, Base::particles, Base::state,
            Base::thermostat;
    using typename Base::Turn;

public:
    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                     OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context, true), accelerations(backend, state, particles),
              machine(state, particles, accelerations.getBlocks(), device.get()) {
    }

    void execute(OpenMM::ContextImpl&, bool stateModified) override {
        const ZhangSkeelDependencies dependencies = {integrator->getStepSize(),
                                                     integrator->getBeta(),
                                                     integrator->getNewtonTolerance(),
                                                     integrator->getMethod(),
                                                     integrator->getStiffForceGroups(),
                                                     integrator->getIntegrationForceGroups(),
                                                     state.box()};
        this->takeStep(dependencies, stateModified, [&](bool known) {
            if (this->isOnDevice())
                return executeThere(known);
            kickAndDrift(leaveShown(known));
            kickAndThermalize();
        });
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        return particles.computeKineticEnergy();
    }
    void getPropagatedPositions(OpenMM::ContextImpl&, Vectors& positions) override {
        const Turn turn(*this);
        positions = x.get(state.positions());
    }
    int getNumNewtonIterations() const override {
        return accelerations.getNumIterations();
    }
    void projectOnTangentSpace(OpenMM::ContextImpl&, Vectors& velocities) override {
        const Turn turn(*this);
        prepare();
        projectBlocks(velocities);
    }
    int countStiffCoordinates(OpenMM::ContextImpl&) override {
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
        accelerations.initialize(*integrator, className);
        machine.initialize(getMethod());
        prepare();
    }
    void prepare() override {
        if (accelerations.prepare()) {
            lastStep.forget();
            compiled = false;
        }
    }
    void adopt() override {
        prepare();
        x.acceptShown(state.positions());
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
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

    bool compile() override {
        HostStiffTerms<Backend>& blocks = accelerations.getBlocks();
        const std::pair<Integrator::Method, bool> choice = getChoice();
        compiled &= (choice == compiledFor);
        compiledFor = choice;
        if (choice.first != Integrator::StiffHessian || !this->hasRandomThere() ||
            state.getSystem().getNumConstraints() > 0)
            return false;
        if (!compiled)
            machine.compile(getMethod(), blocks.getBlocks(), blocks.getTerms());
        compiled = true;
        return true;
    }
    bool isProgramCurrent() override {
        return compiled && accelerations.getBlocks().areUpToDate(OpenMMStiff::TermSelection(*integrator)) &&
               getChoice() == compiledFor;
    }
    void handOver() override {
        Vectors offsets;
        this->context.getPositions(offsets); // as the device has rounded them
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
    [[noreturn]] void refuseBlock(const std::vector<int>& block, bool forces) const override {
        const std::string molecule = describeMolecule(block, particles.countMobile(block));
        forces ? accelerations.refuseForces(molecule) : accelerations.refuseMatrix(molecule);
    }

private:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;
    using Method = stiffcore::ImplicitMethod;
    using KeptVector = stiffcore::KeptVector;

    /** What the program is chosen by, beside the terms. */
    std::pair<Integrator::Method, bool> getChoice() const {
        return {integrator->getMethod(), projectsNoise()};
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
        auto execute = [&](int kernel) { Base::executeThere(machine, kernel); };
        auto computeForces = [&] {
            this->computeVirtualSites();
            this->computeForces();
        };
        if (accelerationsKnown)
            execute(Method::Move);
        else {
            execute(Method::Begin);
            computeForces();
            execute(Method::FirstMove);
        }
        computeForces();
        execute(Method::Finish);
        this->computeVirtualSites();
        if (machine.hasLarge())
            this->askForFailure(); // from a later step on, what the host keeps of them is another
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
            if (integrator->getMethod() != Integrator::NewmarkOneIteration)
                return this->run(machine, accelerate, Method::Kick, Method::Drift);
            this->run(machine, accelerate, Method::Kick);
            driftOnce();
        });
    }
    /** The other half of the kick, with the accelerations at the new positions, and the heat bath. */
    void kickAndThermalize() {
        const double tolerance = integrator->getConstraintTolerance();
        this->computeVirtualSites();
        if (thermostat != nullptr &&
            !particles.hasConstraints()) // which would come in between: once through all blocks
            return this->run(machine, accelerate(), Method::Kick, Method::Thermalize);
        this->run(machine, accelerate(), Method::Kick);
        particles.constrainVelocities(tolerance);
        if (thermostat == nullptr)
            return;
        this->run(machine, Method::Thermalize);
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

    ImplicitAccelerations<Backend> accelerations;
    Machine<Backend, Method, HostStiffTerms<Backend>> machine;
    // The hidden state.
    PropagatedPositions x;
    /// Whether the device has been given the present terms, and for which choice.
    bool compiled = false;
    std::pair<Integrator::Method, bool> compiledFor;
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
