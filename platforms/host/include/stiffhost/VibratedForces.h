#ifndef STIFFHOST_VIBRATED_FORCES_H_
#define STIFFHOST_VIBRATED_FORCES_H_

#include "HostParticles.h"
#include "openmm/Force.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ForceImpl.h"
#include "openmmstiff/HMMIntegrator.h"
#include "openmmstiff/internal/Checks.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

/** The forces of a Context, as far as they tell what is vibrated. */
class PhaseForces {
public:
    void initialize(const std::vector<OpenMM::ForceImpl*>& impls) {
        forces.clear();
        // OpenMM evaluates a force with the group that it has now, whatever it is given later.
        for (OpenMM::ForceImpl* impl : impls)
            forces.push_back(
                    {impl->getOwner().getName(), 1 << impl->getOwner().getForceGroup(), impl->getDefaultParameters()});
    }

    /** The groups that are vibrated, as a mask. */
    int findVibratedGroups(const OpenMMStiff::HMMIntegrator& integrator, const std::string& className) const {
        const std::string phase = integrator.getPhaseParameter();
        const int integrated = integrator.getIntegrationForceGroups(), asked = integrator.getVibratedForceGroups();
        int withPhase = 0;
        for (const Info& force : forces)
            if (force.parameters.count(phase))
                withPhase |= integrated & force.group;
        const int vibrated = (asked == 0 ? withPhase : asked & integrated);
        if (withPhase == 0)
            throw OpenMM::OpenMMException(OpenMMStiff::message(
                    className, ": no force that is integrated depends on the phase '", phase, "', of ",
                    listNames(integrated), ". Give the oscillating force a global parameter of this name, or call",
                    " setPhaseParameter()"));
        OpenMMStiff::require((withPhase & ~vibrated) == 0, className, ": forces that depend on the phase '", phase,
                             "' are in groups (mask ", withPhase, ") that are not vibrated (mask ", asked,
                             "). Change setVibratedForceGroups(), or call setUseDefaultVibratedForceGroups(true) to"
                             " choose the groups by the phase");
        return vibrated;
    }

private:
    struct Info {
        std::string name;
        int group;
        std::map<std::string, double> parameters;
    };

    std::string listNames(int groups) const {
        std::string names;
        for (const Info& force : forces)
            if (groups & force.group)
                names += (names.empty() ? "'" : ", '") + force.name + "'";
        return names.empty() ? "none" : names;
    }

    std::vector<Info> forces;
};

/**
 * The forces of some groups as functions of a phase theta, a parameter of the Context, which gets back its value when
 * this goes out of scope.
 */
class VibratedForces {
public:
    /** @param running   is true in the meantime: changes of the parameter are ours */
    VibratedForces(HostState& state, HostParticles& particles, const std::string& phase, int groups,
                   const std::string& className, bool& running)
            : state(state), particles(particles), phase(phase), groups(groups), className(className), running(running),
              value(state.getParameter(phase)) {
        running = true;
    }
    ~VibratedForces() {
        try {
            state.setParameter(phase, value);
        }
        catch (...) {
            // A device is lost, which the next call will say.
        }
        running = false;
    }

    /** The accelerations at the present positions. */
    void accelerate(double theta, Vectors& accelerations) {
        state.setParameter(phase, theta);
        state.computeForces(groups);
        particles.divideByMasses(state.forces(), accelerations);
    }

    void requireFinite(const Vectors& accelerations) const {
        const int place = findNotFinite(accelerations);
        OpenMMStiff::require(place < 0, className, ": the vibrated force on particle ", place,
                             " is not finite. Change its expression, or the positions");
    }

    /** Require that the forces have a period of 2 pi in theta, and maybe that they are even. a, other: scratch. */
    void requireSymmetry(bool even, Vectors& a, Vectors& other) {
        const double theta = 1; // an angle like any other, where the forces may vanish
        accelerate(theta + 0.5 * M_PI, other);
        accelerate(theta, a);
        requireFinite(a);
        const double largest = std::max(findLargest(a), findLargest(other));
        accelerate(theta + 2 * M_PI, other);
        int place = findDifference(a, other, largest);
        OpenMMStiff::require(place < 0, className, ": the vibrated force must have a period of 2 pi in the phase '",
                             phase, "', but on particle ", place, " it differs at ", theta, " and ", theta,
                             " + 2 pi. Write it in terms of sin(", phase, ") and cos(", phase,
                             "), of the frequency that is set with setAngularFrequency()");
        if (!even)
            return;
        accelerate(-theta, other);
        place = findDifference(a, other, largest);
        OpenMMStiff::require(place < 0, className, ": the filter is for forces that are even in the phase, but on",
                             " particle ", place, " they differ at ", theta, " and ", -theta,
                             ". Use setFilter() with Bump, or shift the phase");
    }

private:
    static double norm(const OpenMM::Vec3& vector) {
        return std::sqrt(vector.dot(vector));
    }
    static double findLargest(const Vectors& a) {
        double largest = 0;
        for (const OpenMM::Vec3& each : a)
            largest = std::max(largest, norm(each));
        return largest;
    }
    /** The first particle whose accelerations, which may be as large as that, are not the same, or -1. */
    static int findDifference(const Vectors& a, const Vectors& b, double largest) {
        // Forces may be in single precision, and the sum of others that cancel.
        const double tolerance = 1e-5, rounding = 1e-7;
        for (size_t i = 0; i < a.size(); i++)
            if (!(norm(a[i] - b[i]) <= tolerance * (norm(a[i]) + norm(b[i])) + rounding * largest))
                return i;
        return -1;
    }

    HostState& state;
    HostParticles& particles;
    const std::string phase;
    const int groups;
    const std::string& className;
    bool& running;
    const double value;
};

} // namespace stiffhost

#endif /* STIFFHOST_VIBRATED_FORCES_H_ */
