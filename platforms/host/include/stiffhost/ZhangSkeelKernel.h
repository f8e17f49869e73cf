#ifndef STIFFHOST_ZHANG_SKEEL_KERNEL_H_
#define STIFFHOST_ZHANG_SKEEL_KERNEL_H_

#include "HostState.h"
#include "PropagatedPositions.h"
#include "openmm/OpenMMException.h"
#include "openmm/System.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Blocks.h"
#include "stiffcore/BlockSystem.h"
#include "stiffcore/steps/Elementary.h"
#include <atomic>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The Zhang-Skeel step on a platform that keeps its state in host memory. The Backend says how loops over particles and
 * blocks run and where random numbers come from:
 *
 *     Backend(ContextImpl&)
 *     int getNumThreads() const
 *     void forEachPart(int n, f)    calls f(begin, end, thread) for parts of [0, n), the same part on a thread each time
 *     void forEachBlock(int n, f)   calls f(i, thread) for each i in [0, n), in any order
 *     void initializeRandom(int seed);   double gaussian(int thread)
 */
template <class Backend> class ZhangSkeelKernel : public OpenMMStiff::IntegrateZhangSkeelStepKernel {
public:
    ZhangSkeelKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& context)
            : IntegrateZhangSkeelStepKernel(name, platform), backend(context) {
    }

    void initialize(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                    const std::string& className) override {
        this->className = className;
        const OpenMM::System& system = context.getSystem();
        const int numParticles = system.getNumParticles();
        masses.resize(numParticles);
        inverseMasses.resize(numParticles);
        isConstrained.assign(numParticles, false);
        for (int i = 0; i < numParticles; i++) {
            masses[i] = system.getParticleMass(i);
            inverseMasses[i] = (masses[i] > 0 ? 1 / masses[i] : 0);
        }
        for (int i = 0; i < system.getNumConstraints(); i++) {
            int particle1, particle2;
            double distance;
            system.getConstraintParameters(i, particle1, particle2, distance);
            isConstrained[particle1] = isConstrained[particle2] = true;
        }
        accelerations.assign(numParticles, OpenMM::Vec3());
        savedVelocities.resize(numParticles);
        unconstrained.resize(system.getNumConstraints() > 0 ? numParticles : 0);
        noise.resize(numParticles);
        prepare(context, integrator);
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    void adoptPositions(OpenMM::ContextImpl& context) override {
        if (x.adopt(HostState(context).positions()))
            accelerationsKnown = false;
    }

    void execute(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                 bool stateModified) override {
        HostState state(context);
        if (x.follow(state.positions()) || stateModified)
            accelerationsKnown = false;
        prepare(context, integrator);
        const double h = integrator.getStepSize();
        std::vector<OpenMM::Vec3>&positions = state.positions(), &velocities = state.velocities();
        savedPositions = positions;
        savedVelocities = velocities;
        try {
            positions = x.get(positions);
            if (!accelerationsKnown || !(Dependencies(state, integrator) == dependencies)) {
                context.computeVirtualSites();
                computeAccelerations(context, state, integrator);
            }
            kick(0.5 * h, velocities);
            drift(h, state, integrator.getConstraintTolerance());
            context.computeVirtualSites();
            computeAccelerations(context, state, integrator);
            kick(0.5 * h, velocities);
            constrainVelocities(state, integrator.getConstraintTolerance());
            requireFinite(velocities, integrator);
        }
        catch (...) {
            positions = savedPositions;
            velocities = savedVelocities;
            accelerationsKnown = false;
            throw;
        }
        propagated = positions;
        show(integrator.getBeta() * h * h, positions);
        context.computeVirtualSites();
        x.set(propagated, positions);
        state.advanceTime(h);
    }

    void thermalize(OpenMM::ContextImpl& context,
                    const OpenMMStiff::ZhangSkeelLangevinIntegrator& integrator) override {
        if (integrator.getFriction() == 0)
            return;
        HostState state(context);
        const double kT = BOLTZ * integrator.getTemperature();
        const stiffcore::OrnsteinUhlenbeck flow(integrator.getFriction(), kT, integrator.getStepSize());
        double* v = components(state.velocities());
        backend.forEachPart(masses.size(), [&](int begin, int end, int thread) {
            flow.drawNoise(masses.data(), components(noise), begin, end, [&] { return backend.gaussian(thread); });
        });
        if (!integrator.getThermalizeStiffModes())
            projectBlocks(state, noise);
        backend.forEachPart(masses.size(), [&](int begin, int end, int) {
            flow.apply(components(noise), masses.data(), v, begin, end);
        });
        constrainVelocities(state, integrator.getConstraintTolerance());
    }

    double computeKineticEnergy(OpenMM::ContextImpl& context) override {
        const std::vector<OpenMM::Vec3>& velocities = HostState(context).velocities();
        double energy = 0;
        for (size_t i = 0; i < masses.size(); i++)
            energy += 0.5 * masses[i] * velocities[i].dot(velocities[i]);
        return energy;
    }

    void stateChanged(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.reset();
        if (changed == OpenMM::State::Parameters || changed == OpenMM::State::Energy)
            accelerationsKnown = false;
        if (changed == OpenMM::State::Energy)
            termsKnown = false;
    }

    void createCheckpoint(OpenMM::ContextImpl& context, std::ostream& stream) const override {
        x.write(stream, HostState(context).positions());
    }
    void loadCheckpoint(OpenMM::ContextImpl& context, std::istream& stream) override {
        x.read(stream, HostState(context).positions());
        accelerationsKnown = false;
    }
    void serializeState(OpenMM::ContextImpl& context, OpenMM::SerializationNode& node) const override {
        x.write(node, HostState(context).positions());
    }
    void deserializeState(OpenMM::ContextImpl& context, const OpenMM::SerializationNode& node) override {
        x.read(node, HostState(context).positions());
        accelerationsKnown = false;
    }

    void getPropagatedPositions(OpenMM::ContextImpl& context, std::vector<OpenMM::Vec3>& positions) override {
        positions = x.get(HostState(context).positions());
    }

    void projectOnTangentSpace(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator,
                               std::vector<OpenMM::Vec3>& velocities) override {
        HostState state(context);
        prepare(context, integrator);
        projectBlocks(state, velocities);
    }

    int countStiffCoordinates(OpenMM::ContextImpl& context,
                              const OpenMMStiff::ZhangSkeelIntegrator& integrator) override {
        HostState state(context);
        prepare(context, integrator);
        const std::vector<OpenMM::Vec3>& positions = x.get(state.positions());
        const stiffcore::Box box = state.box();
        std::atomic<int> count(0);
        backend.forEachBlock(blocks->getNumBlocks(), [&](int block, int thread) {
            count += blocks->countCoordinates(block, components(positions), box, workspaces[thread]);
        });
        return count;
    }

private:
    /** What the accelerations depend on beside positions and parameters, and what nobody announces a change of. */
    struct Dependencies {
        double stepSize = 0, beta = 0;
        stiffcore::Box box = {};
        Dependencies() = default;
        Dependencies(const HostState& state, const OpenMMStiff::ZhangSkeelIntegrator& integrator)
                : stepSize(integrator.getStepSize()), beta(integrator.getBeta()), box(state.box()) {
        }
        bool operator==(const Dependencies& other) const {
            return stepSize == other.stepSize && beta == other.beta &&
                   std::equal(&box.vectors[0][0], &box.vectors[0][0] + 9, &other.box.vectors[0][0]);
        }
    };

    /** Bring the stiff terms and their blocks up to date. */
    void prepare(OpenMM::ContextImpl& context, const OpenMMStiff::ZhangSkeelIntegrator& integrator) {
        const OpenMM::System& system = context.getSystem();
        const int stiffGroups = integrator.getStiffForceGroups();
        const int integrationGroups = integrator.getIntegrationForceGroups();
        if (blocks == nullptr || stiffGroups != knownStiffGroups || integrationGroups != knownIntegrationGroups) {
            terms = OpenMMStiff::collectStiffTerms(system, stiffGroups, integrationGroups, className);
            blocks = std::make_unique<stiffcore::BlockSystem<double>>(OpenMMStiff::findBlocks(system, terms, className),
                                                                      terms, masses);
            workspaces.assign(backend.getNumThreads(), blocks->createWorkspace());
            freeParticles.assign(masses.size(), true);
            for (int block = 0; block < blocks->getNumBlocks(); block++)
                for (int i = 0; i < blocks->getNumMobile(block); i++)
                    freeParticles[blocks->getParticles(block)[i]] = false;
            knownStiffGroups = stiffGroups;
            knownIntegrationGroups = integrationGroups;
            termsKnown = true;
            accelerationsKnown = false;
        }
        if (!termsKnown) {
            OpenMMStiff::updateStiffTermParameters(system, terms);
            blocks->setParameters(terms);
            termsKnown = true;
        }
    }

    void kick(double t, std::vector<OpenMM::Vec3>& velocities) {
        backend.forEachPart(masses.size(), [&](int begin, int end, int) {
            stiffcore::kick(t, components(accelerations), masses.data(), components(velocities), begin, end);
        });
    }

    void drift(double t, HostState& state, double tolerance) {
        std::vector<OpenMM::Vec3>&positions = state.positions(), &velocities = state.velocities();
        if (!unconstrained.empty())
            propagated = positions;
        backend.forEachPart(masses.size(), [&](int begin, int end, int) {
            stiffcore::drift(t, components(velocities), masses.data(), components(positions), begin, end);
        });
        if (unconstrained.empty())
            return;
        unconstrained = positions;
        state.constraints().apply(propagated, positions, inverseMasses, tolerance);
        for (size_t i = 0; i < masses.size(); i++)
            if (isConstrained[i] && masses[i] > 0)
                velocities[i] += (positions[i] - unconstrained[i]) / t;
    }

    void constrainVelocities(HostState& state, double tolerance) {
        if (!unconstrained.empty())
            state.constraints().applyToVelocities(state.positions(), state.velocities(), inverseMasses, tolerance);
    }

    /** Solve (M + b h^2 H1) a = F0 + F1 at the Context's present positions. */
    void computeAccelerations(OpenMM::ContextImpl& context, HostState& state,
                              const OpenMMStiff::ZhangSkeelIntegrator& integrator) {
        context.calcForcesAndEnergy(true, false, integrator.getIntegrationForceGroups());
        dependencies = Dependencies(state, integrator);
        const double h = integrator.getStepSize(), c = integrator.getBeta() * h * h;
        const std::vector<OpenMM::Vec3>&positions = state.positions(), &forces = state.forces();
        backend.forEachPart(masses.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                if (freeParticles[i])
                    accelerations[i] = forces[i] * inverseMasses[i];
        });
        std::atomic<int> failed(blocks->getNumBlocks());
        backend.forEachBlock(blocks->getNumBlocks(), [&](int block, int thread) {
            if (!blocks->solveAccelerations(block, components(positions), components(forces), c, dependencies.box,
                                            workspaces[thread], components(accelerations))) {
                int first = failed;
                while (block < first && !failed.compare_exchange_weak(first, block)) {
                }
            }
        });
        if (failed < blocks->getNumBlocks())
            throwUnsolvable(failed, positions, forces, integrator);
        accelerationsKnown = true;
    }

    /** Move from x to q = x + b h^2 a; particles bound by constraints stay where these hold. */
    void show(double c, std::vector<OpenMM::Vec3>& positions) {
        backend.forEachPart(masses.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                if (masses[i] > 0 && !isConstrained[i])
                    positions[i] += accelerations[i] * c;
        });
    }

    void projectBlocks(HostState& state, std::vector<OpenMM::Vec3>& velocities) {
        const std::vector<OpenMM::Vec3>& positions = x.get(state.positions());
        const stiffcore::Box box = state.box();
        backend.forEachBlock(blocks->getNumBlocks(), [&](int block, int thread) {
            blocks->projectOnTangentSpace(block, components(positions), box, workspaces[thread],
                                          components(velocities));
        });
    }

    void requireFinite(const std::vector<OpenMM::Vec3>& velocities,
                       const OpenMMStiff::ZhangSkeelIntegrator& integrator) const {
        OpenMM::Vec3 sum;
        for (const OpenMM::Vec3& v : velocities)
            sum += v;
        if (std::isfinite(sum[0] + sum[1] + sum[2]))
            return;
        for (size_t i = 0; i < velocities.size(); i++)
            if (!std::isfinite(velocities[i][0] + velocities[i][1] + velocities[i][2])) {
                std::stringstream message;
                message << className << ": the velocity of particle " << i << " is not finite after a step of "
                        << integrator.getStepSize() << " ps. Use a smaller step size, or minimize the energy first."
                        << " The positions and velocities are those before the step";
                throw OpenMM::OpenMMException(message.str());
            }
    }

    [[noreturn]] void throwUnsolvable(int block, const std::vector<OpenMM::Vec3>& positions,
                                      const std::vector<OpenMM::Vec3>& forces,
                                      const OpenMMStiff::ZhangSkeelIntegrator& integrator) const {
        const std::vector<int>& particles = blocks->getParticles(block);
        const int numMobile = blocks->getNumMobile(block);
        bool finite = true;
        for (int i = 0; i < numMobile; i++) {
            const OpenMM::Vec3 sum = positions[particles[i]] + forces[particles[i]];
            finite &= std::isfinite(sum[0] + sum[1] + sum[2]);
        }
        std::stringstream message;
        message << className << ": ";
        if (finite)
            message << "the matrix M + beta h^2 H1 of the molecule with " << listParticles(particles, numMobile)
                    << " is not positive definite";
        else
            message << "the forces on the molecule with " << listParticles(particles, numMobile) << " are not finite";
        message << " (step size h " << integrator.getStepSize() << " ps, beta " << integrator.getBeta()
                << "). Use a smaller step size, softer terms (smaller force constants), or minimize the energy first."
                << " The positions and velocities are those before the step";
        throw OpenMM::OpenMMException(message.str());
    }

    static std::string listParticles(const std::vector<int>& particles, int count) {
        const int most = 12;
        std::stringstream list;
        list << (count == 1 ? "particle" : "particles");
        for (int i = 0; i < std::min(count, most); i++)
            list << (i > 0 ? ", " : " ") << particles[i];
        if (count > most)
            list << ", ... " << particles[count - 1] << " (" << count << " in all)";
        return list.str();
    }

    Backend backend;
    std::string className;
    std::vector<double> masses, inverseMasses;
    std::vector<char> isConstrained, freeParticles;

    // The stiff terms, and the settings they were collected for.
    std::vector<OpenMMStiff::StiffTerm> terms;
    std::unique_ptr<stiffcore::BlockSystem<double>> blocks;
    std::vector<stiffcore::BlockSystem<double>::Workspace> workspaces;
    int knownStiffGroups = 0, knownIntegrationGroups = 0;
    bool termsKnown = false;

    // The hidden state, and the accelerations at x.
    PropagatedPositions x;
    std::vector<OpenMM::Vec3> accelerations;
    Dependencies dependencies;
    bool accelerationsKnown = false;

    // Scratch: the state before the step, x after it, positions before constraints are applied.
    std::vector<OpenMM::Vec3> savedPositions, savedVelocities, propagated, unconstrained, noise;
};

} // namespace stiffhost

#endif /* STIFFHOST_ZHANG_SKEEL_KERNEL_H_ */
