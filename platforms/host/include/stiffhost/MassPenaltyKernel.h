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
#include "stiffcore/methods/Drift.h"
#include "stiffcore/methods/ExtendedMass.h"
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

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator) override {
        this->integrator = &integrator;
        particles.initialize(context.getSystem());
        accelerations.assign(context.getSystem().getNumParticles(), OpenMM::Vec3());
        pairs.initialize(context, integrator, particles.getMasses(), className);
        velocities.initialize(context.getSystem(), integrator, className);
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    void adoptState(OpenMM::ContextImpl& context) override {
        if (velocities.follow(context, *integrator))
            lastStep.forget();
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
        velocities.orUndo(context, state, [&] {
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
        velocities.orUndo(context, state, [&] {
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
        if (velocities.prepareDrawn(context, *integrator, BOLTZ * temperature, drawn))
            lastStep.forget();
    }

    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        return velocities.computeEnergy(context, *integrator);
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

    void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) const override {
        writeCheckpoint(stream, pairs.getStiffness());
        velocities.write(stream, HostState(context));
    }
    void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) override {
        std::vector<double> stiffness;
        readCheckpoint(stream, stiffness);
        pairs.restoreStiffness(stiffness);
        velocities.read(stream, context);
        lastStep.forget();
    }
    void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) const override {
        OpenMM::SerializationNode& child = node.createChildNode("BondedStiffness");
        for (double k : pairs.getStiffness())
            child.createChildNode("Pair").setDoubleProperty("k", k);
        velocities.write(node, HostState(context));
    }
    void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) override {
        std::vector<double> stiffness;
        bool ofThisMethod = false;
        for (const OpenMM::SerializationNode& child : node.getChildren())
            if (child.getName() == "BondedStiffness") {
                ofThisMethod = true;
                for (const OpenMM::SerializationNode& pair : child.getChildren())
                    stiffness.push_back(pair.getDoubleProperty("k"));
            }
        pairs.restoreStiffness(stiffness);
        velocities.read(node, context, ofThisMethod);
        lastStep.forget();
    }

private:
    struct Dependencies {
        stiffcore::Box box;
        int integrationGroups;
        bool operator==(const Dependencies& other) const {
            return box == other.box && integrationGroups == other.integrationGroups;
        }
    };

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

    std::vector<OpenMM::Vec3> accelerations;
    LastStep<Dependencies> lastStep;
};

} // namespace stiffhost

#endif /* STIFFHOST_MASS_PENALTY_KERNEL_H_ */
