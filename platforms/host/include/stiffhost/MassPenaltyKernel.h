#ifndef STIFFHOST_MASS_PENALTY_KERNEL_H_
#define STIFFHOST_MASS_PENALTY_KERNEL_H_

#include "Checkpoints.h"
#include "KickMoveKernel.h"
#include "PairBatches.h"
#include "ShownVelocities.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Message.h"
#include "openmmstiff/internal/StepFailure.h"
#include "stiffcore/methods/ExtendedMass.h"
#include "stiffcore/methods/PenaltyStep.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stiffhost {

/// What accelerations depend on beside positions and parameters: the box and the force groups.
using PenaltyDependencies = std::tuple<stiffcore::Box, int>;

/**
 * The steps of the mass penalty.
 *
 * Between steps the auxiliary velocities are w = G(x) v and the auxiliary coordinates z = s(x), so that a step starts
 * from positions and velocities alone. Between calls of step() the Context shows other velocities, see ShownVelocities.
 */
template <class Backend>
class MassPenaltyKernel : public KickMoveKernel<Backend, OpenMMStiff::IntegrateMassPenaltyStepKernel,
                                                PenaltyDependencies, PenaltyProgram> {
    using Program = PenaltyProgram;
    using Base = KickMoveKernel<Backend, OpenMMStiff::IntegrateMassPenaltyStepKernel, PenaltyDependencies, Program>;
    using Base::backend, Base::className, Base::context, Base::device, Base::integrator, Base::lastStep,
            Base::particles, Base::state, Base::thermostat;
    using typename Base::Turn;

public:
    MassPenaltyKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> owned,
                      OpenMM::ContextImpl& context)
            : Base(name, platform, std::move(owned), context, true),
              pairs(context.getSystem(), [this] { return getGeometry(); }), batches(backend), velocities(backend) {
    }

    void beginCollisions(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        show();
    }
    void endCollisions(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        propagate();
    }

    OpenMMStiff::PairTerms getPairs(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        return pairs.getNextPairs(*integrator);
    }
    void prepareVelocities(OpenMM::ContextImpl&, Vectors& drawn) override {
        const Turn turn(*this);
        state.requirePositions();
        update();
        velocities.constrain(state.positions(), drawn, state.box());
        if (thermostat == nullptr)
            return;
        this->computeForces();
        particles.divideByMasses(state.forces(), accelerations);
        lastStep.forget();
        velocities.shift(-0.5 * integrator->getStepSize(), this->getThermalEnergy(), particles.getMasses(),
                         state.positions(), accelerations, drawn, state.box());
    }
    double computeKineticEnergy(OpenMM::ContextImpl&) override {
        const Turn turn(*this);
        return particles.computeKineticEnergy();
    }

protected:
    void start() override {
        const std::vector<double>& masses = particles.getMasses();
        backend.getResources().expectSteps(integrator->getStepSize());
        for (Vectors* vectors : {&accelerations, &x, &v, &F})
            vectors->assign(masses.size(), OpenMM::Vec3());
        pairs.initialize(*integrator, className);
        velocities.set(v, v); // a new Context is at rest
    }
    void prepare() override {
        pairs.requirePossible(*integrator);
    }
    void adopt() override {
        update();
        if (!propagates)
            propagate();
    }
    void show() override {
        if (propagates)
            velocities.show(state.positions(), state.changeVelocities(), state.box());
        propagates = false;
    }
    void forget(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
        if (changed == OpenMM::State::Energy)
            pairs.parametersMayHaveChanged(*integrator);
    }

    // Stiffnesses that were taken from positions decide on the inertias, so they have to be those of the run resumed.

    void writeHidden(std::ostream& stream) override {
        writeCheckpoint(stream, pairs.getStiffness());
        writeCheckpoint(stream, velocities.getPropagated());
    }
    void readHidden(std::istream& stream) override {
        std::vector<double> stiffness;
        Vectors propagated;
        readCheckpoint(stream, stiffness);
        readCheckpoint(stream, propagated);
        pairs.restoreStiffness(stiffness);
        velocities.set(state.velocities(), propagated);
    }
    void writeHidden(OpenMM::SerializationNode& node) override {
        OpenMM::SerializationNode& child = node.createChildNode("BondedStiffness");
        for (double k : pairs.getStiffness())
            child.createChildNode("Pair").setDoubleProperty("k", k);
        writeVectors(node, "PropagatedVelocities", "Velocity", velocities.getPropagated());
    }
    void readHidden(const OpenMM::SerializationNode& node) override {
        std::vector<double> stiffness;
        for (const OpenMM::SerializationNode& child : node.getChildren()) {
            if (child.getName() == "TiedPairs")
                throw OpenMM::OpenMMException(
                        className + ": the State was saved by OpenMM-Stiff 0.2, whose velocities are not those of the" +
                        " masses. Take its positions alone, and draw velocities: setPositions(state.getPositions())," +
                        " setVelocitiesToTemperature()");
            if (child.getName() == "BondedStiffness")
                for (const OpenMM::SerializationNode& pair : child.getChildren())
                    stiffness.push_back(pair.getDoubleProperty("k"));
        }
        pairs.restoreStiffness(stiffness);
        Vectors propagated;
        if (readVectors(node, "PropagatedVelocities", particles.getMasses().size(), propagated))
            velocities.set(state.velocities(), propagated);
    }

    // On a device. Molecules that are too large for it are moved by the host: their particles alone go there and back.

    void beforeDeviceIsReady() override {
        if (device == nullptr)
            return;
        std::vector<std::array<int, 2>> together;
        const int numParticles = state.getSystem().getNumParticles();
        for (const auto& added : {getExplicitPairs(*integrator), getExplicitBonds(*integrator)})
            for (const OpenMMStiff::ExplicitPair& pair : added)
                if (std::min(pair.particle1, pair.particle2) >= 0 &&
                    std::max(pair.particle1, pair.particle2) < numParticles)
                    together.push_back({pair.particle1, pair.particle2}); // others are refused later
        device->keepTogether(together);
    }
    bool compile() override {
        compiled = {pairs.getRevision(), isMetricCorrected()};
        largeParticles.clear();
        largePairs.clear();
        if (!this->hasRandomThere())
            return false;
        Device::Blocks small, large;
        for (const stiffcore::Block& block : pairs.getBlocks()) {
            const bool isLarge = (int) block.terms.size() > Base::maxRowsThere;
            (isLarge ? large : small).push_back(block);
            if (!isLarge)
                continue;
            largeParticles.insert(largeParticles.end(), block.particles.begin(), block.particles.end());
            largePairs.insert(largePairs.end(), block.terms.begin(), block.terms.end());
        }
        device->compile(Program{thermostat != nullptr, isMetricCorrected()}, small, large, pairs.getPairs(),
                        particles.getMasses());
        return true;
    }
    bool isProgramCurrent() override {
        return pairs.areCurrent(*integrator) && compiled == std::pair(pairs.getRevision(), isMetricCorrected());
    }
    void goOnThere() override {
        if (propagates)
            return;
        propagates = begunThere = true;
        device->execute(Program::Propagate);
        if (largeParticles.empty())
            return;
        getLarge();
        for (int particle : largeParticles)
            v[particle] = velocities.getPropagated()[particle];
        device->setOutside(Program::Propagate, false, x, v);
    }
    void showThere() override {
        if (!propagates)
            return;
        propagates = false;
        device->execute(Program::Show);
        if (largeParticles.empty())
            return;
        getLarge();
        velocities.show(x, v, state.box(), Base::maxRowsThere + 1);
        device->setOutside(Program::Show, false, x, v);
    }
    void stepsHaveBeenTaken(const Device::State& after) override {
        if (!propagates)
            know(after);
    }
    void stepHasFailedThere(const Device::State&, bool isFirst) override {
        if (!isFirst)
            return;
        if (begunThere)
            know(device->recall());
        state.changeVelocities() = velocities.getPropagated(); // before they were rounded
    }
    [[noreturn]] void refuseBlock(const std::vector<int>& block, bool forces) const override {
        refuse(describeMolecule(block, particles.countMobile(block)), forces);
    }

private:
    OpenMMStiff::PresentGeometry getGeometry() {
        state.requirePositions();
        return {state.positions(), state.box(), state.getParameters()};
    }
    bool isMetricCorrected() const {
        const auto* langevin = dynamic_cast<const OpenMMStiff::MassPenaltyLangevinIntegrator*>(integrator);
        return langevin != nullptr && langevin->getMetricCorrection();
    }

    void update() {
        if (pairs.update(*integrator))
            lastStep.forget();
        batches.follow(pairs, particles.getMasses());
        velocities.follow(pairs, particles.getMasses());
    }

    // The velocities.

    void propagate() {
        velocities.propagate(state.positions(), state.changeVelocities(), state.box());
        propagates = true;
        begunThere = false;
    }
    /** Take over what the device has ended with; of large molecules that is known. */
    void know(const Device::State& there) {
        Vectors propagated = there.propagatedVelocities;
        for (int particle : largeParticles)
            propagated[particle] = velocities.getPropagated()[particle];
        velocities.set(there.velocities, propagated);
    }

    // The phases.

    PenaltyDependencies findDependencies() final {
        return {state.box(), integrator->getIntegrationForceGroups()};
    }
    void computeAccelerations() final {
        this->computeForces();
        const bool there = this->isOnDevice();
        if (there)
            getLarge();
        particles.divideByMasses(there ? F : state.forces(), accelerations, there ? &largeParticles : nullptr);
    }
    void moveLangevin() final {
        const stiffcore::OrnsteinUhlenbeck heatBath = this->makeHeatBath();
        const double h = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
        const bool there = this->isOnDevice(), metricCorrection = isMetricCorrected();
        if (there)
            device->execute(Program::Move);
        const double* noise = components(particles.drawNoise(heatBath, there ? &largeParticles : nullptr));
        const double* pairNoise = batches.drawNoise(heatBath, there ? &largePairs : nullptr);
        if (!there) {
            const std::vector<int>* free = batches.getFreeParticles();
            particles.kick(h, accelerations, free);
            particles.drift(0.5 * h, free);
            particles.thermalize(heatBath, free);
            particles.drift(0.5 * h, free);
        }
        const stiffcore::Box box = state.box();
        moveBlocks(Program::Move, [&](const auto& batch, auto& work) {
            return stiffcore::moveLangevin(
                    batch, {h, tolerance, this->getThermalEnergy(), heatBath.decay, metricCorrection}, box, work, [&] {
                        gather(batch, noise, work.noise);
                        gatherTerms(batch, pairNoise, work.pairNoise);
                    });
        });
    }

    void moveVerlet() final {
        const double h = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
        if (this->isOnDevice()) {
            getLarge();
            device->execute(Program::Move);
        }
        else {
            particles.kick(0.5 * h, accelerations, batches.getFreeParticles());
            particles.drift(h, batches.getFreeParticles());
        }
        const stiffcore::Box box = state.box();
        moveBlocks(Program::Move, [&](const auto& batch, auto& work) {
            return stiffcore::moveVerlet(batch, {h, tolerance, 0, 0, false}, box, work);
        });
    }
    void kick() final {
        const double h = integrator->getStepSize();
        if (this->isOnDevice())
            device->execute(Program::Kick);
        else
            particles.kick(0.5 * h, accelerations, batches.getFreeParticles());
        moveBlocks(Program::Kick, [&](const auto& batch, auto& work) {
            kickVerlet(batch, h, work);
            return allLanes(batch);
        });
    }

    /** Load each batch that is not the device's, do the work, and store positions and velocities. */
    template <class Work> void moveBlocks(Program::Phase phase, Work&& work) {
        const bool there = this->isOnDevice();
        if (there && largeParticles.empty())
            return;
        const bool moves = (phase != Program::Kick);
        const double* positions = components(there ? x : state.positions());
        double *moved = moves ? components(there ? x : state.changePositions()) : nullptr,
               *velocities = components(there ? v : state.changeVelocities());
        const stiffcore::Box box = state.box();
        auto isHere = [&](const auto& batch) { return !there || batch.numRows() > Base::maxRowsThere; };
        const std::vector<int>* failed = batches.forEachOf(isHere, [&](const auto& batch, auto& workspace) {
            load(batch, positions, velocities, box, workspace);
            gather(batch, components(accelerations), workspace.a);
            const auto succeeded = work(batch, workspace);
            if (moves)
                scatter(batch, workspace.x, moved);
            scatter(batch, workspace.v, velocities);
            return succeeded;
        });
        if (there)
            setLarge(phase, failed);
        else if (failed != nullptr)
            refuse(describeMolecule(*failed, particles.countMobile(*failed)), findNotFinite(accelerations) >= 0);
    }

    // Molecules that are too large for the device.

    void getLarge() {
        if (!largeParticles.empty())
            device->getOutside(x, v, F);
    }
    /** @param failed   the particles of one that could not be moved, or null */
    void setLarge(Program::Phase phase, const std::vector<int>* failed) {
        device->setOutside(phase, phase == Program::Move, x, v);
        const auto isNotFinite = [&](int i) { return !std::isfinite(accelerations[i].dot(accelerations[i])); };
        const auto pushed = std::find_if(largeParticles.begin(), largeParticles.end(), isNotFinite);
        const int fast = findFasterThan(stiffcore::speedOfLight, v);
        if (pushed != largeParticles.end())
            device->failOutside(phase, Device::ForcesFailed, *pushed);
        else if (failed != nullptr)
            device->failOutside(phase, Device::BlockFailed, failed->front());
        else if (fast >= 0)
            device->failOutside(phase, Device::VelocityFailed, fast);
        else
            return;
        this->askForFailure();
    }

    [[noreturn]] void refuse(const std::string& molecule, bool forces) const {
        throw OpenMMStiff::StepFailure(OpenMMStiff::message(
                className, ": the ",
                (forces ? "forces on " + molecule + " are not finite in"
                        : "bond lengths and constraints of " + molecule + " cannot be solved for after"),
                " a step of ", integrator->getStepSize(),
                " ps. Use a smaller step size, or minimize the energy first. The positions and velocities are those"
                " before the step"));
    }

    OpenMMStiff::KeptPairs pairs;
    PairBatches<Backend> batches;
    ShownVelocities<Backend> velocities;
    /// Whether the Context has the velocities that move the particles; and whether the device has taken them up by itself.
    bool propagates = false, begunThere = false;
    Vectors accelerations;

    /// What the device's program was compiled for: the revision of the pairs, and whether the metric is corrected.
    std::pair<int, bool> compiled;
    /// Of molecules that are too large for it: their particles and pairs; and the state of these, others' is 0.
    std::vector<int> largeParticles, largePairs;
    Vectors x, v, F;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
