#ifndef STIFFHOST_HOST_PARTICLES_H_
#define STIFFHOST_HOST_PARTICLES_H_

#include "Backend.h"
#include "HostState.h"
#include "Vectors.h"
#include "openmm/OpenMMException.h"
#include "openmm/System.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Message.h"
#include "stiffcore/methods/Elementary.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The particles of a System, and what steps do to all of them alike: elementary maps, System constraints, noise.
 */
class HostParticles {
public:
    HostParticles(Backend& backend, HostState& state) : backend(backend), state(state) {
    }

    void initialize() {
        const OpenMM::System& system = state.getSystem();
        const int numParticles = system.getNumParticles();
        masses.resize(numParticles);
        inverseMasses.resize(numParticles);
        constrained.assign(numParticles, false);
        for (int i = 0; i < numParticles; i++) {
            masses[i] = system.getParticleMass(i);
            inverseMasses[i] = (masses[i] > 0 ? 1 / masses[i] : 0);
        }
        for (int i = 0; i < system.getNumConstraints(); i++) {
            int particle1, particle2;
            double distance;
            system.getConstraintParameters(i, particle1, particle2, distance);
            constrained[particle1] = constrained[particle2] = true;
        }
        constrains = system.getNumConstraints() > 0;
        const int numConstrained = (constrains ? numParticles : 0);
        unmoved.resize(numConstrained);
        unconstrained.resize(numConstrained);
        savedPositions.resize(numParticles);
        savedVelocities.resize(numParticles);
        noise.resize(numParticles);
    }

    const std::vector<double>& getMasses() const {
        return masses;
    }
    int countMobile(const std::vector<int>& which) const {
        return std::count_if(which.begin(), which.end(), [&](int particle) { return masses[particle] > 0; });
    }
    bool hasConstraints() const {
        return constrains;
    }
    bool isConstrained(int particle) const {
        return constrained[particle];
    }

    /**
     * Execute a step. If it throws, the positions and velocities are those from before, and if these were not finite
     * they are to blame.
     */
    template <class Step> void orRestore(const std::string& className, Step&& step) {
        savedPositions = state.positions();
        savedVelocities = state.velocities();
        try {
            step();
        }
        catch (...) {
            state.changePositions() = savedPositions;
            state.changeVelocities() = savedVelocities;
            requireFiniteState(className);
            throw;
        }
    }
    /** Throw an exception if the state that a step begins with is not finite. */
    void requireFiniteState(const std::string& className) const {
        requireFinite(state.positions(), "position", "setPositions()", className);
        requireFinite(state.velocities(), "velocity", "setVelocities()", className);
    }

    /** a <- M^-1 F; 0 for massless particles, even if F is not finite there */
    void divideByMasses(const Vectors& forces, Vectors& accelerations) {
        map(nullptr, [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                accelerations[i] = masses[i] > 0 ? forces[i] * inverseMasses[i] : OpenMM::Vec3();
        });
    }

    // Elementary maps. Massless particles stay as they are.

    /** v <- v + t a */
    void kick(double t, const Vectors& accelerations, const std::vector<int>* which = nullptr) {
        double* v = components(state.changeVelocities());
        map(which, [&](int begin, int end, int) {
            stiffcore::kick(t, components(accelerations), masses.data(), v, begin, end);
        });
    }

    /** Take out what all particles have in common, with these masses. */
    void removeMotion(const std::vector<double>& inertias) {
        OpenMM::Vec3 momentum;
        double sum = 0;
        Vectors& velocities = state.changeVelocities();
        for (size_t i = 0; i < masses.size(); i++)
            if (masses[i] > 0) {
                momentum += velocities[i] * inertias[i];
                sum += inertias[i];
            }
        for (size_t i = 0; i < masses.size(); i++)
            if (masses[i] > 0)
                velocities[i] -= momentum / sum;
    }

    /** x <- x + t v */
    void drift(double t) {
        const double* v = components(state.velocities());
        double* x = components(state.changePositions());
        map(nullptr, [&](int begin, int end, int) { stiffcore::drift(t, v, masses.data(), x, begin, end); });
    }

    /**
     * Execute a motion over a time t, and bring the positions back to the constraints along the directions that these
     * had before; velocities change by the way that took, over t.
     */
    template <class Motion> void constrainMotion(double t, double tolerance, Motion&& motion) {
        if (constrains)
            unmoved = state.positions();
        motion();
        if (!constrains)
            return;
        unconstrained = state.positions();
        state.constrainPositions(unmoved, inverseMasses, tolerance);
        const Vectors& positions = state.positions();
        Vectors& velocities = state.changeVelocities();
        for (size_t i = 0; i < masses.size(); i++)
            if (constrained[i] && masses[i] > 0)
                velocities[i] += (positions[i] - unconstrained[i]) / t;
    }

    void constrainVelocities(double tolerance) {
        if (constrains)
            state.constrainVelocities(inverseMasses, tolerance);
    }

    /** Draw the noise of a heat bath, see OrnsteinUhlenbeck. */
    [[gnu::noinline]] const Vectors& drawNoise(double amplitude) {
        map(nullptr, [&](int begin, int end, int part) {
            stiffcore::OrnsteinUhlenbeck::drawNoise(amplitude, masses.data(), components(noise), begin, end,
                                                    [&] { return backend.gaussian(part); });
        });
        return noise;
    }

    double computeKineticEnergy() const {
        const Vectors& velocities = state.velocities();
        double energy = 0;
        for (size_t i = 0; i < masses.size(); i++)
            energy += 0.5 * masses[i] * velocities[i].dot(velocities[i]);
        return energy;
    }

    /** Throw an exception if the forces by which particles are accelerated are not finite. */
    void requireFiniteForces(const std::string& className, const Vectors& accelerations) const {
        const int place = findNotFinite(accelerations);
        if (place >= 0)
            throw OpenMM::OpenMMException(className + ": the forces on particle " + std::to_string(place) +
                                          " are not finite. Change the positions, or minimize the energy first");
    }

    /** Throw an exception if a velocity after a step, or in it, is not finite; after it, if it is impossible. */
    void requirePossibleVelocities(const std::string& className, double stepSize) const {
        requireSlower(stiffcore::speedOfLight, className, stepSize);
    }
    void requireFiniteVelocities(const std::string& className, double stepSize) const {
        requireSlower(std::numeric_limits<double>::infinity(), className, stepSize);
    }
    [[noreturn]] static void refuseVelocity(int particle, const std::string& className, double stepSize) {
        throw OpenMMStiff::StepFailure(
                OpenMMStiff::message(className, ": the velocity of particle ", particle,
                                     " is not finite, or beyond that of light, after a step of ", stepSize,
                                     " ps. Use a smaller step size, or minimize the energy first.",
                                     " The positions and velocities are those before the step"),
                "particle " + std::to_string(particle));
    }

private:
    void requireSlower(double limit, const std::string& className, double stepSize) const {
        const int place = findFasterThan(limit, state.velocities());
        if (place >= 0)
            refuseVelocity(place, className, stepSize);
    }
    /** Call work(begin, end, part) for ranges of particles, on all threads. */
    template <class Work> void map(const std::vector<int>* which, Work&& work) {
        if (which == nullptr)
            return backend.forEachPart(masses.size(), work);
        backend.forEachPart(which->size(), [&](int begin, int end, int part) {
            for (int i = begin; i < end; i++)
                work((*which)[i], (*which)[i] + 1, part);
        });
    }

    /** Throw an exception if a vector that a step began with is not finite. */
    void requireFinite(const Vectors& vectors, const char* what, const char* setter,
                       const std::string& className) const {
        for (size_t i = 0; i < vectors.size(); i++)
            for (int j = 0; j < 3; j++)
                if (!std::isfinite(vectors[i][j]))
                    throw OpenMM::OpenMMException(OpenMMStiff::message(
                            className, ": the ", what, " of particle ", i, " is not finite already before the step (",
                            vectors[i][j], "). Set it with ", setter, " of the Context"));
    }

    Backend& backend;
    HostState& state;
    std::vector<double> masses, inverseMasses;
    std::vector<char> constrained;
    bool constrains = false;
    // Scratch: the state before the step and before a motion, the motion's end before constraints are applied.
    Vectors savedPositions, savedVelocities, unmoved, unconstrained, noise;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_PARTICLES_H_ */
