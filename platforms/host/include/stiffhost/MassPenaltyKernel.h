#ifndef STIFFHOST_MASS_PENALTY_KERNEL_H_
#define STIFFHOST_MASS_PENALTY_KERNEL_H_

#include "HostKernel.h"
#include "HostPairs.h"
#include "LastStep.h"
#include "PenalizedVelocities.h"
#include "SharedKernels.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/OpenMMException.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "stiffcore/methods/ExtendedMass.h"
#include "stiffcore/methods/PenaltyStep.h"
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

namespace stiffhost {

/**
 * The steps of the mass penalty in the memory of the host. See HostParticles for the Backend.
 *
 * Between steps the auxiliary velocities are w = G(x) v and the auxiliary coordinates z = s(x), so that a step starts
 * from the positions and velocities of the Context alone.
 */
template <class Backend> class MassPenaltyKernel : public HostKernel<Backend, SharedMassPenaltyKernel> {
    using Base = HostKernel<Backend, SharedMassPenaltyKernel>;
    using Base::backend, Base::className, Base::particles, Base::state;
    using typename Base::Turn;

public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;

    MassPenaltyKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                      OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context), pairs(backend, state),
              velocities(state, pairs) {
    }

    void initialize(OpenMM::ContextImpl&, const Integrator& integrator) override {
        const Turn turn(state);
        this->integrator = &integrator;
        backend.expectSteps(integrator.getStepSize());
        particles.initialize();
        accelerations.assign(particles.getMasses().size(), OpenMM::Vec3());
        pairs.initialize(integrator, particles.getMasses(), className);
        velocities.initialize(particles.getMasses(), className);
    }

    void prepare(OpenMM::ContextImpl&) override {
        pairs.requirePossible(*integrator);
    }

    std::string adoptState(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        std::string remark;
        if (velocities.follow(*integrator, remark))
            lastStep.forget();
        return remark;
    }

    void beginCollisions(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        velocities.beginCollisions();
    }
    void endCollisions(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        velocities.endCollisions();
    }

    void execute(OpenMM::ContextImpl&, const Integrator& integrator, bool stateModified) override {
        const Turn turn(state);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const stiffcore::Box box = state.box();
        const std::vector<int>* free = pairs.getFreeParticles();
        const Dependencies dependencies = {box, integrator.getIntegrationForceGroups()};
        const bool known = lastStep.isContinuedBy(state.positions(), dependencies) && !stateModified;
        orUndo([&] {
            if (!known)
                computeAccelerations();
            particles.kick(0.5 * h, accelerations, free);
            particles.drift(h, free);
            move([&](const auto& batch, auto& work) {
                gather(batch, components(accelerations), work.a);
                return moveVerlet(batch, {h, tolerance, 0, 0, false}, box, work);
            });
            state.computeVirtualSites();
            computeAccelerations();
            particles.kick(0.5 * h, accelerations, free);
            kickPairs(0.5 * h);
            particles.requirePossibleVelocities(className, h);
        });
        lastStep.endsAt(state.positions(), dependencies);
        velocities.areTied();
        state.advanceTime(h);
    }

    void executeLangevin(OpenMM::ContextImpl&, const OpenMMStiff::MassPenaltyLangevinIntegrator& integrator) override {
        const Turn turn(state);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck heatBath(integrator.getFriction(), kT, h);
        const bool metricCorrection = integrator.getMetricCorrection();
        const stiffcore::Box box = state.box();
        const std::vector<int>* free = pairs.getFreeParticles();
        orUndo([&] {
            computeAccelerations();
            const double* noise = components(particles.drawNoise(heatBath));
            const double* pairNoise = pairs.drawNoise(heatBath);
            particles.kick(h, accelerations, free);
            particles.drift(0.5 * h, free);
            particles.thermalize(heatBath, free);
            particles.drift(0.5 * h, free);
            move([&](const auto& batch, auto& work) {
                gather(batch, components(accelerations), work.a);
                return moveLangevin(batch, {h, tolerance, kT, heatBath.decay, metricCorrection}, box, work, [&] {
                    gather(batch, noise, work.noise);
                    gatherTerms(batch, pairNoise, work.pairNoise);
                });
            });
            state.computeVirtualSites();
            particles.requirePossibleVelocities(className, h);
        });
        velocities.areTied();
        state.advanceTime(h);
    }

    std::vector<OpenMMStiff::PenalizedPair> getPairs(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        return pairs.getNextPairs(*integrator);
    }

    void prepareVelocities(OpenMM::ContextImpl&, Vectors& drawn) override {
        const Turn turn(state);
        state.requirePositions();
        if (velocities.prepareDrawn(*integrator, drawn))
            lastStep.forget();
    }

    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(state);
        return velocities.computeEnergy(*integrator);
    }

    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Velocities)
            velocities.haveBeenSet();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
        if (changed == OpenMM::State::Energy)
            pairs.parametersMayHaveChanged(*integrator);
    }

    // What a device asks for that takes the steps.

    bool arePairsCurrent(const Integrator& integrator) override {
        return pairs.areCurrent(integrator);
    }
    const std::vector<OpenMMStiff::PenalizedPair>& getTiedPairs() const override {
        return pairs.getPairs();
    }
    void stepsHaveBeenTaken(const SharedKernel::State& after) override {
        velocities.areTied(after.positions, after.velocities);
        lastStep.forget();
    }
    void stepHasFailed(const SharedKernel::State& before, bool wasFirst) override {
        const Turn turn(state);
        state.changePositions() = before.positions;
        state.changeVelocities() = before.velocities;
        state.computeVirtualSites();
        lastStep.forget();
        if (wasFirst)
            velocities.undoFollow();
        else
            velocities.areTied();
        particles.requireFiniteState(className);
    }
    void refuseBlock(const std::vector<int>& block, bool forces) const override {
        refuse(describeMolecule(block, particles.countMobile(block)), forces);
    }
    void refuseVelocity(int particle) const override {
        particles.refuseVelocity(particle, className, integrator->getStepSize());
    }

    // Stiffnesses that were taken from positions decide on the inertias, so they have to be those of the run resumed.

    void writeHidden(std::ostream& stream) const override {
        writeCheckpoint(stream, pairs.getStiffness());
        velocities.write(stream);
    }
    void readHidden(std::istream& stream) override {
        std::vector<double> stiffness;
        readCheckpoint(stream, stiffness);
        pairs.restoreStiffness(stiffness);
        velocities.read(stream);
        lastStep.forget();
    }
    void serializeState(OpenMM::ContextImpl&, OpenMM::SerializationNode& node) const override {
        const Turn turn(state);
        OpenMM::SerializationNode& child = node.createChildNode("BondedStiffness");
        for (double k : pairs.getStiffness())
            child.createChildNode("Pair").setDoubleProperty("k", k);
        velocities.write(node);
    }
    void deserializeState(OpenMM::ContextImpl&, const OpenMM::SerializationNode& node) override {
        const Turn turn(state);
        std::vector<double> stiffness;
        bool ofThisMethod = false;
        for (const OpenMM::SerializationNode& child : node.getChildren())
            if (child.getName() == "BondedStiffness") {
                ofThisMethod = true;
                for (const OpenMM::SerializationNode& pair : child.getChildren())
                    stiffness.push_back(pair.getDoubleProperty("k"));
            }
        pairs.restoreStiffness(stiffness);
        velocities.read(node, ofThisMethod);
        lastStep.forget();
    }

private:
    using Dependencies = std::tuple<stiffcore::Box, int>;

    void computeAccelerations() {
        state.computeForces(integrator->getIntegrationForceGroups());
        particles.divideByMasses(state.forces(), accelerations);
    }

    /** Execute a step. If it throws, all is as it was before follow(), and velocities are whose they were. */
    template <class Step> void orUndo(Step&& step) {
        try {
            particles.orRestore(className, step);
        }
        catch (...) {
            velocities.undoFollow();
            throw;
        }
    }

    /** Kick the particles of pairs. */
    void kickPairs(double t) {
        const double* x = components(state.positions());
        double* v = components(state.changeVelocities());
        const stiffcore::Box box = state.box();
        pairs.forEach([&](const auto& batch, auto& work) {
            load(batch, x, v, box, work);
            gather(batch, components(accelerations), work.a);
            stiffcore::kick(batch, t, work);
            scatter(batch, work.v, v);
        });
    }

    /** Load each batch, do the work, and store positions and velocities. */
    template <class Work> void move(Work&& work) {
        double *x = components(state.changePositions()), *v = components(state.changeVelocities());
        const stiffcore::Box box = state.box();
        const std::string failed = pairs.forEach([&](const auto& batch, auto& workspace) {
            load(batch, x, v, box, workspace);
            const auto succeeded = work(batch, workspace);
            scatter(batch, workspace.x, x);
            scatter(batch, workspace.v, v);
            return succeeded;
        });
        if (!failed.empty())
            refuse(failed, findNotFinite(accelerations) >= 0);
    }

    [[noreturn]] void refuse(const std::string& molecule, bool forces) const {
        std::stringstream message;
        message << className << ": the "
                << (forces ? "forces on " + molecule + " are not finite in"
                           : "bond lengths and constraints of " + molecule + " cannot be solved for after")
                << " a step of " << integrator->getStepSize()
                << " ps. Use a smaller step size, or minimize the energy first. The positions and velocities are those"
                   " before the step";
        throw OpenMMStiff::StepFailure(message.str());
    }

    HostPairs<Backend> pairs;
    PenalizedVelocities<HostPairs<Backend>> velocities;
    const Integrator* integrator = nullptr;

    Vectors accelerations;
    LastStep<Dependencies> lastStep;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
