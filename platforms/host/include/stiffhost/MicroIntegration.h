#ifndef STIFFHOST_MICRO_INTEGRATION_H_
#define STIFFHOST_MICRO_INTEGRATION_H_

#include "HostConstraints.h"
#include "HostParticles.h"
#include "openmm/Force.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/internal/ForceImpl.h"
#include "openmmstiff/HMMIntegrator.h"
#include "setup/Blocks.h"
#include "setup/Constraints.h"
#include "stiffcore/methods/MicroShake.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/** What the averaged force depends on beside positions and parameters, and what nobody announces a change of. */
struct MicroSettings {
    double frequency = 0;
    int filter = 0, numMicroSteps = 0, numPeriods = 0, vibratedGroups = 0, integrationGroups = 0;
    std::string phaseParameter;
    stiffcore::Box box = {};

    MicroSettings() = default;
    MicroSettings(const OpenMMStiff::HMMIntegrator& integrator, const HostState& state)
            : frequency(integrator.getFrequency()), filter(integrator.getFilter()),
              numMicroSteps(integrator.getNumMicroSteps()), numPeriods(integrator.getNumPeriods()),
              vibratedGroups(integrator.getVibratedForceGroups()),
              integrationGroups(integrator.getIntegrationForceGroups()), phaseParameter(integrator.getPhaseParameter()),
              box(state.box()) {
    }
    bool operator==(const MicroSettings& other) const {
        return frequency == other.frequency && filter == other.filter && numMicroSteps == other.numMicroSteps &&
               numPeriods == other.numPeriods && vibratedGroups == other.vibratedGroups &&
               integrationGroups == other.integrationGroups && phaseParameter == other.phaseParameter &&
               box == other.box;
    }
};

/**
 * The averaged force of the asynchronous heterogeneous multiscale method (Calvo and Sanz-Serna, Algorithm 2): from
 * x = X at rest and theta = 0, M x'' = f(x, theta) with SHAKE over half a window, to one side or to both,
 *
 *     v_{k+1/2} = v_{k-1/2} + h a_k,    y_{k+1} = y_k + h v_{k+1/2},    x_k = X + y_k,
 *
 * and the weighted mean of the a_k, those by constraints included. Forces that are not vibrated have their value at X.
 */
template <class Backend> class MicroIntegration {
public:
    using Integrator = OpenMMStiff::HMMIntegrator;
    using Vectors = std::vector<OpenMM::Vec3>;

    MicroIntegration(Backend& backend, HostParticles<Backend>& particles) : particles(particles), constraints(backend) {
    }

    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator, const std::string& className) {
        this->className = className;
        const int numParticles = context.getSystem().getNumParticles();
        groups = {};
        for (Vectors* vectors : {&start, &slow, &first, &a, &v, &before, &y, &sum})
            vectors->assign(numParticles, OpenMM::Vec3());
        const OpenMM::System& system = context.getSystem();
        constraints.initialize(system, OpenMMStiff::collectSystemConstraints(system), particles.getMasses());
        // OpenMM evaluates a force with the group that it has now, whatever it is given later.
        forces.clear();
        for (OpenMM::ForceImpl* impl : context.getForceImpls())
            forces.push_back(
                    {impl->getOwner().getName(), 1 << impl->getOwner().getForceGroup(), impl->getDefaultParameters()});
        findGroups(integrator);
    }

    /** Whether the present change of a parameter is one of the phase, here. */
    bool isRunning() const {
        return running;
    }

    /**
     * Compute the averaged accelerations at the Context's positions.
     *
     * @param check   whether to look if the forces have a period of 2 pi in theta, and are even in it where the filter
     *                requires that
     */
    void average(OpenMM::ContextImpl& context, const Integrator& integrator, bool check, Vectors& accelerations) {
        HostState state(context);
        findGroups(integrator);
        const PhaseGuard guard(*this, context, integrator.getPhaseParameter());
        start = state.positions();
        if (groups.slow != 0) {
            context.calcForcesAndEnergy(true, false, groups.slow);
            particles.divideByMasses(state.forces(), slow);
        }
        else
            std::fill(slow.begin(), slow.end(), OpenMM::Vec3());
        const bool even = (integrator.getFilter() != Integrator::Bump);
        if (check)
            requireSymmetricForces(context, state, even);
        std::fill(sum.begin(), sum.end(), OpenMM::Vec3());
        chooseWeights(integrator);
        const double share = (even ? 1 : 0.5);
        integrate(context, state, integrator, 1, share);
        if (!even)
            integrate(context, state, integrator, -1, share);
        state.positions() = start;
        accelerations = sum;
    }

    /** Throw an exception if the motion is resolved better by macro-steps than by micro-steps. */
    void requireMicroSteps(const Integrator& integrator) const {
        const double H = integrator.getStepSize(), h = microStep(integrator);
        if (h < H)
            return;
        std::stringstream message;
        message << className << ": with " << integrator.getNumMicroSteps() << " steps in a period of the frequency "
                << integrator.getFrequency() << "/ps the micro-steps are of " << h
                << " ps, no shorter than the macro-step of " << H
                << " ps. The method is for vibrations that are much faster than the macro-steps: check setFrequency()"
                   " (an angular frequency, 2 pi over the period), or integrate the motion with VerletIntegrator";
        throw OpenMM::OpenMMException(message.str());
    }

private:
    static constexpr double pi = 3.14159265358979323846;

    static double microStep(const Integrator& integrator) {
        return 2 * pi / (integrator.getNumMicroSteps() * integrator.getFrequency());
    }

    struct ForceInfo {
        std::string name;
        int group;
        std::map<std::string, double> parameters;
    };

    /** What is asked for, and the groups that follow. */
    struct Groups {
        std::string phase;
        int asked, integrated, vibrated, slow;
        bool operator==(const Groups& other) const {
            return phase == other.phase && asked == other.asked && integrated == other.integrated;
        }
    };

    /** Gives the phase back the value that it had. */
    class PhaseGuard {
    public:
        PhaseGuard(MicroIntegration& micro, OpenMM::ContextImpl& context, const std::string& name)
                : micro(micro), context(context), name(name), value(context.getParameter(name)) {
            micro.running = true;
        }
        ~PhaseGuard() {
            context.setParameter(name, value);
            micro.running = false;
        }

    private:
        MicroIntegration& micro;
        OpenMM::ContextImpl& context;
        std::string name;
        double value;
    };

    /** Which force groups are vibrated and which are slow, if that is not known already. */
    void findGroups(const Integrator& integrator) {
        const std::string name = integrator.getPhaseParameter();
        const int integrated = integrator.getIntegrationForceGroups();
        if (groups == Groups{name, integrator.getVibratedForceGroups(), integrated, 0, 0})
            return; // the groups themselves do not count in the comparison
        int withPhase = 0;
        std::string looked;
        for (const ForceInfo& force : forces) {
            if ((integrated & force.group) == 0)
                continue;
            looked += (looked.empty() ? "'" : ", '") + force.name + "'";
            if (force.parameters.count(name))
                withPhase |= force.group;
        }
        if (withPhase == 0)
            throw OpenMM::OpenMMException(className + ": no force that is integrated depends on the phase '" + name +
                                          "', of " + (looked.empty() ? "none" : looked) +
                                          ". Give the oscillating force a global parameter of this name, or call"
                                          " setPhaseParameter()");
        const int asked = integrator.getVibratedForceGroups(), vibrated = (asked == 0 ? withPhase : asked & integrated);
        if ((withPhase & ~vibrated) != 0) {
            std::stringstream message;
            message << className << ": forces that depend on the phase '" << name << "' are in groups (mask "
                    << withPhase << ") that are not vibrated (mask " << asked
                    << "). Change setVibratedForceGroups(), or call it with"
                    << " 0 to choose the groups by the phase";
            throw OpenMM::OpenMMException(message.str());
        }
        groups = {name, asked, integrated, vibrated, integrated & ~vibrated};
    }

    /** The accelerations by the vibrated forces at the present positions. */
    void accelerate(OpenMM::ContextImpl& context, HostState& state, double theta, Vectors& result) {
        context.setParameter(groups.phase, theta);
        context.calcForcesAndEnergy(true, false, groups.vibrated);
        particles.divideByMasses(state.forces(), result);
    }

    void requireFinite(const Vectors& accelerations) const {
        for (size_t i = 0; i < accelerations.size(); i++)
            if (!std::isfinite(accelerations[i].dot(accelerations[i]))) {
                std::stringstream message;
                message << className << ": the vibrated force on particle " << i << " is not finite. Change its"
                        << " expression, or the positions";
                throw OpenMM::OpenMMException(message.str());
            }
    }

    /** Require that the forces have a period of 2 pi in theta, and maybe that they are even. */
    void requireSymmetricForces(OpenMM::ContextImpl& context, HostState& state, bool even) {
        const double theta = 1; // an angle like any other
        accelerate(context, state, theta, a);
        requireFinite(a);
        accelerate(context, state, theta + 2 * pi, v);
        const int notPeriodic = findDifference();
        if (notPeriodic >= 0) {
            std::stringstream message;
            message << className << ": the vibrated force must have a period of 2 pi in the phase '" << groups.phase
                    << "', but on particle " << notPeriodic << " it differs at " << theta << " and " << theta
                    << " + 2 pi. Write it in terms of sin(" << groups.phase << ") and cos(" << groups.phase
                    << "), of the frequency that is set with setFrequency()";
            throw OpenMM::OpenMMException(message.str());
        }
        if (!even)
            return;
        accelerate(context, state, -theta, v);
        const int notEven = findDifference();
        if (notEven >= 0) {
            std::stringstream message;
            message << className << ": the filter is for forces that are even in the phase, but on particle " << notEven
                    << " they differ at " << theta << " and " << -theta
                    << ". Use setFilter() with Bump, or shift the phase";
            throw OpenMM::OpenMMException(message.str());
        }
    }

    /** The first particle whose accelerations in a and in v are not the same, or -1. */
    int findDifference() const {
        // Forces may be in single precision, and the sum of others that cancel.
        const double tolerance = 1e-5, rounding = 1e-7;
        auto norm = [](const OpenMM::Vec3& vector) { return std::sqrt(vector.dot(vector)); };
        double largest = 0;
        for (const OpenMM::Vec3& each : a)
            largest = std::max(largest, norm(each));
        for (size_t i = 0; i < a.size(); i++)
            if (!(norm(a[i] - v[i]) <= tolerance * (norm(a[i]) + norm(v[i])) + rounding * largest))
                return i;
        return -1;
    }

    /** The weights of the a_k, k >= 0, whose sum is 1; half a window. That of k = 0 is half a weight. */
    void chooseWeights(const Integrator& integrator) {
        const bool simple = (integrator.getFilter() == Integrator::Simple);
        const int n = integrator.getNumMicroSteps(), count = (simple ? n / 2 + 1 : integrator.getNumPeriods() / 2 * n);
        weights.resize(count);
        double total = 0;
        for (int k = 0; k < count; k++) {
            const double s = double(k) / count;
            weights[k] = (simple ? 1 : std::exp(5 / (s * s - 1)));
            if (k == 0 || (simple && k == count - 1))
                weights[k] *= 0.5;
            total += weights[k];
        }
        for (double& weight : weights)
            weight /= total;
    }

    /** Integrate over half the window, to one side, and add the share of it to the sum. */
    void integrate(OpenMM::ContextImpl& context, HostState& state, const Integrator& integrator, int side,
                   double share) {
        const int n = integrator.getNumMicroSteps();
        const double h = microStep(integrator);
        const std::vector<double>& masses = particles.getMasses();
        std::fill(v.begin(), v.end(), OpenMM::Vec3());
        std::fill(y.begin(), y.end(), OpenMM::Vec3());
        state.positions() = start;
        for (size_t k = 0; k < weights.size(); k++) {
            if (k == 0 && side < 0)
                a = first;
            else
                accelerate(context, state, side * 2 * pi * (k % n) / n, a);
            if (k == 0) {
                requireFinite(a);
                first = a;
            }
            // At rest at k = 0, where the mean of the velocities before and after is 0.
            const double t = (k == 0 ? 0.5 * h : h);
            before = v;
            for (size_t i = 0; i < masses.size(); i++)
                v[i] += (a[i] + slow[i]) * t;
            requireFiniteMotion(integrator);
            constrain(context, state, h);
            for (size_t i = 0; i < masses.size(); i++) {
                sum[i] += (v[i] - before[i]) * (share * weights[k] / t);
                y[i] += v[i] * h;
                if (masses[i] > 0)
                    state.positions()[i] = start[i] + y[i];
            }
            context.computeVirtualSites();
        }
    }

    /** OpenMM would have its own words for positions that are not finite, without the reason. */
    void requireFiniteMotion(const Integrator& integrator) const {
        const auto place =
                std::find_if(v.begin(), v.end(), [](const OpenMM::Vec3& w) { return !std::isfinite(w.dot(w)); });
        if (place == v.end())
            return;
        const double H = integrator.getStepSize(), h = microStep(integrator), window = weights.size() * h;
        std::stringstream message;
        message << className << ": while forces are averaged, the velocity of particle " << place - v.begin()
                << " is not finite, or its square is not. At the frequency " << integrator.getFrequency()
                << "/ps the window is of " << window << " ps from theta = 0 on, in micro-steps of " << h << " ps, ";
        if (window >= H)
            message << "which is not short beside the macro-step of " << H
                    << " ps, while the averaged motion should hardly go on in that time. Check setFrequency(), or use a"
                       " shorter window (setNumPeriods(), or setFilter() with Simple)";
        else
            message << "in a macro-step of " << H
                    << " ps. Use a smaller step size, more micro-steps in a period (setNumMicroSteps()), or minimize"
                       " the energy first";
        message << ". The positions and velocities are those before the step";
        throw OpenMM::OpenMMException(message.str());
    }

    void constrain(OpenMM::ContextImpl& context, HostState& state, double h) {
        if (context.getSystem().getNumConstraints() == 0)
            return;
        const stiffcore::Box box = state.box();
        const std::string failed = constraints.forEach([&](const auto& batch, auto& work) {
            gather(batch, components(state.positions()), work.x);
            gather(batch, components(y), work.a);
            gather(batch, components(v), work.v);
            const auto converged = microShake(batch, h, box, work);
            scatter(batch, work.v, components(v));
            return converged;
        });
        if (failed.empty())
            return;
        std::stringstream message;
        message << className << ": the constraints of " << failed << " cannot be solved for in a micro-step of " << h
                << " ps: they depend on each other, or the vibration takes large ways in a micro-step, for which"
                   " setNumMicroSteps() wants a larger number. The positions and velocities are those before the"
                   " step";
        throw OpenMM::OpenMMException(message.str());
    }

    HostParticles<Backend>& particles;
    FixedConstraints<Backend> constraints;
    std::string className;
    bool running = false;
    std::vector<ForceInfo> forces;
    Groups groups = {};
    std::vector<double> weights;
    // X; accelerations by slow forces and at the start; those at present, velocities, those before, displacements; the
    // weighted sum of accelerations.
    Vectors start, slow, first, a, v, before, y, sum;
};

} // namespace stiffhost

#endif /* STIFFHOST_MICRO_INTEGRATION_H_ */
