#ifndef STIFFHOST_MASS_PENALTY_KERNEL_H_
#define STIFFHOST_MASS_PENALTY_KERNEL_H_

#include "HostPairs.h"
#include "HostParticles.h"
#include "LastStep.h"
#include "PenalizedVelocities.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/StepFailure.h"
#include "stiffcore/pairs/Drift.h"
#include "stiffcore/pairs/ExtendedMass.h"
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The steps of the mass penalty on a platform that keeps its state in host memory. See HostParticles for the Backend.
 *
 * Between steps the auxiliary velocities are w = G(x) v and the auxiliary coordinates z = s(x), so that a step starts
 * from the positions and velocities of the Context alone.
 */
template <class Backend> class MassPenaltyKernel : public OpenMMStiff::IntegrateMassPenaltyStepKernel {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;

    MassPenaltyKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& context)
            : IntegrateMassPenaltyStepKernel(name, platform), backend(context), particles(backend), pairs(backend),
              velocities(particles, pairs) {
    }

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator, const std::string& className) override {
        this->className = className;
        this->integrator = &integrator;
        particles.initialize(context.getSystem());
        accelerations.assign(context.getSystem().getNumParticles(), OpenMM::Vec3());
        pairs.initialize(context, integrator, particles.getMasses(), className);
        velocities.initialize(context.getSystem());
        hasHeatBath = dynamic_cast<const OpenMMStiff::LangevinThermostat*>(&integrator) != nullptr;
        for (int i = 0; i < context.getSystem().getNumForces(); i++)
            hasHeatBath |= dynamic_cast<const OpenMM::AndersenThermostat*>(&context.getSystem().getForce(i)) != nullptr;
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    /**
     * Bring the pairs up to date, and let the velocities follow them and the positions. Those that somebody has set,
     * drawn for the masses alone, become the method's own if there is a heat bath.
     */
    void adoptState(OpenMM::ContextImpl& context) override {
        HostState state(context);
        const stiffcore::Box box = state.box();
        const bool own = velocities.areOwn(state);
        std::vector<OpenMM::Vec3> free; // velocities of the masses alone, if there are any to be adopted
        double kinetic = 0;
        auto take = [&](double energy) {
            if (energy > 0 && std::isfinite(energy)) { // else they are at rest, or the step will fail
                kinetic = energy;
                free = state.velocities();
            }
        };
        unadopted = Unadopted();
        auto release = [&] {
            if (!own || !free.empty())
                return;
            unadopted.pairs = pairs.getPairs();
            const std::vector<OpenMM::Vec3>& tiedAt = velocities.getTiedPositions(state);
            take(velocities.computeEnergy(tiedAt, state.velocities(), box));
            if (!free.empty())
                velocities.release(tiedAt, box, velocities.computeThermalEnergy(kinetic), free);
        };
        if (own && !velocities.areTiedAtPresent(state))
            release();
        prepare(context, release);
        if (!own && velocities.areForeign(state, requiredEvidence())) {
            take(particles.computeKineticEnergy(state));
            if (!free.empty())
                requireHeatBath();
        }
        if (!free.empty()) {
            velocities.adopt(state.positions(), box, velocities.computeThermalEnergy(kinetic), free);
            velocities.scaleToEnergy(state.positions(), box, kinetic, free);
            unadopted.velocities.swap(state.velocities());
            unadopted.own = own;
            unadopted.known = velocities.getKnowledge();
            state.velocities() = free;
        }
        velocities.areTied(state);
    }

    void beginCollisions(OpenMM::ContextImpl& context) override {
        HostState state(context);
        velocities.beginCollisions(state);
    }
    void endCollisions(OpenMM::ContextImpl& context) override {
        HostState state(context);
        velocities.endCollisions(state, BOLTZ * context.getParameter(OpenMM::AndersenThermostat::Temperature()));
    }

    void execute(OpenMM::ContextImpl& context, const Integrator& integrator, bool stateModified) override {
        HostState state(context);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const stiffcore::Box box = state.box();
        const std::vector<double>& free = pairs.getFreeMasses();
        const Dependencies dependencies = {box, integrator.getIntegrationForceGroups()};
        const bool known = lastStep.isContinuedBy(state, dependencies) && !stateModified;
        orRestore(context, state, [&] {
            if (!known)
                computeAccelerations(context, state);
            particles.kick(0.5 * h, accelerations, free, state);
            particles.drift(h, free, state);
            move(state, [&](const auto& batch, auto& work) {
                gather(batch, components(accelerations), work.a);
                kick(batch, 0.5 * h, work);
                auto converged = drift(batch, 0.5 * h, tolerance, box, work);
                stiffcore::tieVelocities(batch, work);
                converged = converged & drift(batch, 0.5 * h, tolerance, box, work);
                stiffcore::tieVelocities(batch, work);
                return converged;
            });
            context.computeVirtualSites();
            computeAccelerations(context, state);
            particles.kick(0.5 * h, accelerations, free, state);
            move(state, [&](const auto& batch, auto& work) {
                gather(batch, components(accelerations), work.a);
                kick(batch, 0.5 * h, work);
                return allLanes(batch);
            });
            particles.requireFiniteVelocities(state, className, h);
        });
        lastStep.endsAt(state, dependencies);
        velocities.areTied(state);
        state.advanceTime(h);
    }

    void executeLangevin(OpenMM::ContextImpl& context,
                         const OpenMMStiff::MassPenaltyLangevinIntegrator& integrator) override {
        HostState state(context);
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck heatBath(integrator.getFriction(), kT, h);
        const stiffcore::Box box = state.box();
        const std::vector<double>& free = pairs.getFreeMasses();
        orRestore(context, state, [&] {
            computeAccelerations(context, state);
            const double* noise = components(particles.drawNoise(heatBath));
            const double* pairNoise = pairs.drawNoise(heatBath);
            particles.kick(h, accelerations, free, state);
            particles.drift(0.5 * h, free, state);
            particles.thermalize(heatBath, free, state);
            particles.drift(0.5 * h, free, state);
            move(state, [&](const auto& batch, auto& work) {
                gather(batch, components(accelerations), work.a);
                if (integrator.getMetricCorrection())
                    addMetricForces(batch, kT, work);
                kick(batch, h, work);
                auto converged = drift(batch, 0.5 * h, tolerance, box, work);
                gather(batch, noise, work.noise);
                gatherTerms(batch, pairNoise, work.pairNoise);
                stiffcore::thermalize(batch, heatBath.damping, work);
                converged = converged & drift(batch, 0.5 * h, tolerance, box, work);
                stiffcore::tieVelocities(batch, work);
                return converged;
            });
            context.computeVirtualSites();
            particles.requireFiniteVelocities(state, className, h);
        });
        velocities.areTied(state);
        state.advanceTime(h);
    }

    std::vector<OpenMMStiff::PenalizedPair> getPairs(OpenMM::ContextImpl& context) override {
        return pairs.getNextPairs(context, *integrator);
    }

    void prepareVelocities(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& drawn,
                           double temperature) override {
        requirePositions(context);
        prepare(context, [] {}); // the velocities at hand are about to be replaced
        HostState state(context);
        velocities.adopt(state.positions(), state.box(), BOLTZ * temperature, drawn);
        velocities.willBeDrawn(state.positions());
    }

    /** That of the penalized motion too, unless the velocities are those of the masses alone. */
    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        HostState state(context);
        if (velocities.areOwn(state))
            return velocities.computeEnergy(velocities.getTiedPositions(state), state.velocities(), state.box());
        prepare(context, [] {});
        if (velocities.areForeign(state, requiredEvidence()))
            return particles.computeKineticEnergy(state);
        return velocities.computeEnergy(state.positions(), state.velocities(), state.box());
    }

    void stateChanged(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Velocities)
            velocities.haveBeenSet();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            lastStep.forget();
        if (changed == OpenMM::State::Energy)
            pairs.forgetParameters();
    }

    // Stiffnesses that were taken from positions decide on the inertias, so they have to be those of the run resumed.
    // The pairs that velocities are tied to, and the positions at which they are, tell whose velocities these are.

    void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) const override {
        const HostState state(context);
        const bool own = velocities.areOwn(state);
        writeCheckpoint(stream, pairs.getStiffness());
        writeCheckpoint(stream, own);
        if (!own)
            return;
        writeCheckpoint(stream, pairs.getPairs().size());
        for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs()) {
            writeCheckpoint(stream, pair.particle1);
            writeCheckpoint(stream, pair.particle2);
            writeCheckpoint(stream, pair.inertia);
            writeCheckpoint(stream, pair.distance);
            writeCheckpoint(stream, pair.periodic);
        }
        writeCheckpoint(stream, velocities.getTiedPositions(state));
    }
    void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) override {
        std::vector<double> stiffness;
        readCheckpoint(stream, stiffness);
        bool own;
        readCheckpoint(stream, &own, 1);
        if (!own) {
            restore(context, stiffness, nullptr);
            velocities.haveBeenSet();
            return;
        }
        size_t number;
        readCheckpoint(stream, &number, 1);
        std::vector<OpenMMStiff::PenalizedPair> tied(number);
        for (OpenMMStiff::PenalizedPair& pair : tied) {
            readCheckpoint(stream, &pair.particle1, 1);
            readCheckpoint(stream, &pair.particle2, 1);
            readCheckpoint(stream, &pair.inertia, 1);
            readCheckpoint(stream, &pair.distance, 1);
            readCheckpoint(stream, &pair.periodic, 1);
        }
        std::vector<OpenMM::Vec3> tiedAt;
        readCheckpoint(stream, tiedAt);
        restore(context, stiffness, &tied);
        velocities.areTied(HostState(context), tiedAt);
    }
    void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) const override {
        const HostState state(context);
        OpenMM::SerializationNode& child = node.createChildNode("BondedStiffness");
        for (double k : pairs.getStiffness())
            child.createChildNode("Pair").setDoubleProperty("k", k);
        if (!velocities.areOwn(state) || velocities.getTiedPositions(state) != state.positions())
            return;
        OpenMM::SerializationNode& tied = node.createChildNode("TiedPairs");
        for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs())
            tied.createChildNode("Pair")
                    .setIntProperty("p1", pair.particle1)
                    .setIntProperty("p2", pair.particle2)
                    .setDoubleProperty("inertia", pair.inertia)
                    .setDoubleProperty("distance", pair.distance)
                    .setBoolProperty("periodic", pair.periodic);
    }
    void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) override {
        std::vector<double> stiffness;
        std::vector<OpenMMStiff::PenalizedPair> tied;
        bool ofThisMethod = false, own = false;
        for (const OpenMM::SerializationNode& child : node.getChildren())
            if (child.getName() == "BondedStiffness") {
                ofThisMethod = true;
                for (const OpenMM::SerializationNode& pair : child.getChildren())
                    stiffness.push_back(pair.getDoubleProperty("k"));
            }
            else if (child.getName() == "TiedPairs") {
                own = true;
                for (const OpenMM::SerializationNode& pair : child.getChildren())
                    tied.push_back({pair.getIntProperty("p1"), pair.getIntProperty("p2"),
                                    pair.getDoubleProperty("inertia"), pair.getDoubleProperty("distance"),
                                    pair.getBoolProperty("periodic")});
            }
        for (const OpenMMStiff::PenalizedPair& pair : tied)
            for (int particle : {pair.particle1, pair.particle2})
                if (particle < 0 || particle >= context.getSystem().getNumParticles())
                    throw OpenMM::OpenMMException(className + ": the State names particle " +
                                                  std::to_string(particle) +
                                                  ", which the System does not have. It is one of another System");
        restore(context, stiffness, own ? &tied : nullptr);
        if (own)
            velocities.areTied(HostState(context));
        else if (!ofThisMethod)
            velocities.comeFromAnother();
    }

private:
    struct Dependencies {
        stiffcore::Box box;
        int integrationGroups;
        bool operator==(const Dependencies& other) const {
            return box == other.box && integrationGroups == other.integrationGroups;
        }
    };

    /** Velocities before they became the method's own for a step; none if they were. */
    struct Unadopted {
        std::vector<OpenMM::Vec3> velocities;
        bool own = false;
        std::vector<OpenMMStiff::PenalizedPair> pairs; // that own ones were tied to
        typename PenalizedVelocities<Backend>::Knowledge known;
    };

    /** Execute a step. If it throws, all is as it was before, and velocities are whose they were. */
    template <class Step> void orRestore(OpenMM::ContextImpl& context, HostState& state, Step&& step) {
        try {
            particles.orRestore(state, className, step);
        }
        catch (...) {
            if (!unadopted.velocities.empty()) {
                state.velocities().swap(unadopted.velocities);
                velocities.setKnowledge(unadopted.known);
                if (unadopted.own)
                    restore(context, {}, &unadopted.pairs);
                unadopted = Unadopted();
            }
            throw;
        }
    }

    /** @param beforeChange   called before the pairs become others */
    template <class BeforeChange> void prepare(OpenMM::ContextImpl& context, BeforeChange&& beforeChange) {
        if (pairs.prepare(context, *integrator, beforeChange))
            lastStep.forget();
    }

    void restore(OpenMM::ContextImpl& context, const std::vector<double>& stiffness,
                 const std::vector<OpenMMStiff::PenalizedPair>* tied) {
        pairs.restore(context.getSystem(), stiffness, tied);
        lastStep.forget();
    }

    /**
     * The evidence for velocities being those of the masses alone, as a logarithm of likelihoods. With a heat bath it
     * does no harm to adopt them. Without, they are refused, and must not have been set by hand: it takes more than a
     * molecule or two of evidence.
     */
    double requiredEvidence() const {
        return hasHeatBath ? 0 : 20;
    }

    void requireHeatBath() const {
        if (!hasHeatBath)
            throw OpenMM::OpenMMException(
                    className +
                    ": the velocities have been drawn for the masses alone, by another integrator or for one, and are too"
                    " hot for masses with an inertia. Draw new ones with setVelocitiesToTemperature() of the Context or,"
                    " in a CompoundIntegrator, of this integrator; or use MassPenaltyLangevinIntegrator, which adopts"
                    " them");
    }

    void computeAccelerations(OpenMM::ContextImpl& context, HostState& state) {
        context.calcForcesAndEnergy(true, false, integrator->getIntegrationForceGroups());
        particles.divideByMasses(state.forces(), accelerations);
    }

    /** Load each batch, do the work, and store positions and velocities. */
    template <class Work> void move(HostState& state, Work&& work) {
        double *x = components(state.positions()), *v = components(state.velocities());
        const stiffcore::Box box = state.box();
        const std::string failed = pairs.forEach([&](const auto& batch, auto& workspace) {
            load(batch, x, v, box, workspace);
            const auto succeeded = work(batch, workspace);
            scatter(batch, workspace.x, x);
            scatter(batch, workspace.v, v);
            return succeeded;
        });
        if (failed.empty())
            return;
        std::stringstream message;
        message << className << ": the bond lengths and constraints of " << failed
                << " cannot be solved for after a step of " << integrator->getStepSize()
                << " ps. Use a smaller step size, or minimize the energy first. The positions and velocities are those"
                   " before the step";
        throw OpenMMStiff::StepFailure(message.str());
    }

    Backend backend;
    HostParticles<Backend> particles;
    HostPairs<Backend> pairs;
    PenalizedVelocities<Backend> velocities;
    const Integrator* integrator = nullptr;
    bool hasHeatBath = false;
    std::string className;
    Unadopted unadopted;

    std::vector<OpenMM::Vec3> accelerations;
    LastStep<Dependencies> lastStep;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
