#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "ImplicitAccelerations.h"
#include "Machine.h"
#include "PropagatedPositions.h"
#include "StepSession.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "setup/PenalizedPairs.h"
#include "stiffcore/methods/ImplicitMethod.h"
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The steps of the Zhang-Skeel family.
 */
template <class Real> class ZhangSkeelKernel : public StepSession, public OpenMMStiff::ZhangSkeelQueries {
public:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;

    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform,
                     std::unique_ptr<PlatformResources> owned, OpenMM::ContextImpl& context)
            : StepSession(name, platform, std::move(owned), context, false), accelerations(backend, state, particles),
              machine(state, particles, accelerations.getBlocks(), refusal()) {
    }

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override {
        StepSession::initialize(integrator, className);
        accelerations.initialize(settings(), className);
        machine.initialize();
        update();
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
        update();
        projectBlocks(velocities);
    }
    int countStiffCoordinates() override {
        const Turn turn(*this);
        update();
        const double* positions = components(x.get(state.positions()));
        const stiffcore::Box box = state.box();
        std::atomic<int> count(0);
        const std::string failed = accelerations.getBlocks().forEach([&](const auto& batch, auto& work) {
            gather(batch, positions, work.x);
            const auto factored = factorTangentSpace(batch, box, work);
            for (int lane = 0; lane < batch.count; lane++)
                count += countIndependent(batch, lane, work);
            return factored & areFinite(batch, work.x);
        });
        if (!failed.empty())
            accelerations.refuse("the positions of " + failed + " are not finite");
        return count;
    }

protected:
    bool prepare() override {
        return accelerations.prepare();
    }
    /** Another integrator may have set positions between calls of step(); those that forces move carry x along. */
    void turnInto(Form form, const Turn&) override {
        form == Form::Propagated ? x.acceptShown(state.positions()) : x.follow(state.positions());
    }
    void takeStep(bool goesOn) override {
        kickAndDrift(leaveShown(goesOn));
        kickAndThermalize();
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions) {
            x.reset();
            lastStep.forget(); // positions that are shown, set again, are others
        }
        StepSession::forget(changed);
        if (changed == OpenMM::State::Energy)
            accelerations.getBlocks().forgetParameters();
    }
    void stepHasEnded() override {
        x.setPropagated(state.positions());
        accelerations.show(machine.getAccelerations());
        state.computeVirtualSites();
        x.setShown(state.positions());
    }

    // With a measure of how far the positions are that are shown: a State may have come without its own.

    HiddenState getHidden(const Turn&) override {
        const Vectors& propagated = x.get(state.positions());
        return {propagated, {sumSquaredOffsets(propagated)}};
    }
    void setHidden(const Turn&, const HiddenState& hidden) override {
        const double rounding = 0.01, least = 1e-10; // where positions have single precision, relative and nm^2
        if (hidden.vectors.size() == state.positions().size() && hidden.numbers.size() == 1 &&
            std::abs(sumSquaredOffsets(hidden.vectors) - hidden.numbers[0]) <= rounding * hidden.numbers[0] + least)
            x.set(hidden.vectors, state.positions());
        tieHidden();
    }
    /** How far positions that are shown, and may have been moved into the box, are from those that are propagated. */
    double sumSquaredOffsets(const Vectors& propagated) {
        const bool periodic = OpenMMStiff::isPeriodic(state.getSystem());
        const stiffcore::Box box = state.box();
        double sum = 0;
        for (size_t i = 0; i < propagated.size(); i++) {
            const OpenMM::Vec3 d = propagated[i] - state.positions()[i];
            const stiffcore::Vector3<double> offset(d[0], d[1], d[2]);
            sum += (periodic ? box.minimumImage(offset) : offset).squaredNorm();
        }
        return sum;
    }

    SettingNumbers begin(stiffcore::StepNumbers& numbers) override {
        numbers[stiffcore::Uniform::HessianFactor] = accelerations.getFactor();
        machine.begin(getMethod(), numbers);
        return {integrator->getStepSize(),
                settings().getBeta(),
                settings().getNewtonTolerance(),
                double(settings().getMethod()),
                double(settings().getStiffForceGroups()),
                double(integrator->getIntegrationForceGroups())};
    }
    [[noreturn]] void refuseMolecule(const std::string& molecule, bool forces) const override {
        forces ? accelerations.refuseForces(molecule) : accelerations.refuseMatrix(molecule);
    }

private:
    using Method = stiffcore::ImplicitMethod;

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
    // The phases.

    /** From the positions that are shown to those that are propagated. */
    Method::Phase leaveShown(bool goesOn) {
        x.follow(state.positions());
        state.changePositions() = x.get(state.positions());
        if (goesOn)
            return Method::Recall;
        state.computeVirtualSites();
        return accelerate();
    }
    void kickAndDrift(Method::Phase accelerate) {
        particles.constrainMotion(integrator->getStepSize(), integrator->getConstraintTolerance(), [&] {
            if (settings().getMethod() != Integrator::NewmarkOneIteration)
                return machine.run({accelerate, Method::Kick, Method::Drift});
            machine.run({accelerate, Method::Kick});
            driftOnce();
        });
    }
    /** The other half of the kick, with the accelerations at the new positions, and the heat bath. */
    void kickAndThermalize() {
        const double tolerance = integrator->getConstraintTolerance();
        arrive();
        if (thermostat != nullptr &&
            !particles.hasConstraints()) // which would come in between: once through all blocks
            return machine.run({accelerate(), Method::Kick, Method::Thermalize});
        machine.run({accelerate(), Method::Kick});
        particles.constrainVelocities(tolerance);
        if (thermostat == nullptr)
            return;
        machine.run({Method::Thermalize});
        particles.constrainVelocities(tolerance);
    }

    /** The phase by which blocks get their accelerations. */
    Method::Phase accelerate() {
        accelerations.compute(machine.getAccelerations());
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
