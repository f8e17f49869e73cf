#ifndef STIFFHOST_MICRO_INTEGRATION_H_
#define STIFFHOST_MICRO_INTEGRATION_H_

#include "ConstraintBatches.h"
#include "HostParticles.h"
#include "VibratedForces.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/HMMIntegrator.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/Constraints.h"
#include "stiffcore/methods/FilterWeights.h"
#include "stiffcore/methods/MicroShake.h"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The averaged force of the asynchronous heterogeneous multiscale method (Calvo and Sanz-Serna, Algorithm 2): from
 * x = X at rest and theta = 0, M x'' = f(x, theta) with SHAKE over half a window, to one side or to both,
 *
 *     v_{k+1/2} = v_{k-1/2} + h a_k,    y_{k+1} = y_k + h v_{k+1/2},    x_k = X + y_k,
 *
 * and the weighted mean of the a_k, those by constraints included. Forces that are not vibrated have their value at X.
 */
template <class Real> class MicroIntegration {
public:
    using Integrator = OpenMMStiff::HMMIntegrator;
    MicroIntegration(Backend& backend, HostState& state, HostParticles& particles)
            : state(state), particles(particles), constraints(backend) {
    }

    void initialize(const std::vector<OpenMM::ForceImpl*>& impls, const Integrator& integrator,
                    const std::string& className) {
        this->className = className;
        const OpenMM::System& system = state.getSystem();
        for (Vectors* vectors : {&start, &slow, &first, &a, &v, &before, &y})
            vectors->assign(system.getNumParticles(), OpenMM::Vec3());
        constraints.take(1, system, OpenMMStiff::collectSystemConstraints(system), particles.getMasses());
        forces.initialize(impls);
        prepare(integrator);
    }
    /** Throw an exception if the System has not got what is vibrated. */
    void prepare(const Integrator& integrator) const {
        forces.findVibratedGroups(integrator, className);
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
    void average(const Integrator& integrator, bool check, Vectors& accelerations) {
        const int groups = forces.findVibratedGroups(integrator, className),
                  others = integrator.getIntegrationForceGroups() & ~groups;
        VibratedForces vibrated(state, particles, integrator.getPhaseParameter(), groups, className, running);
        start = state.positions();
        std::fill(slow.begin(), slow.end(), OpenMM::Vec3());
        if (others != 0) {
            state.computeForces(others);
            particles.divideByMasses(state.forces(), slow);
        }
        const bool even = (integrator.getFilter() != Integrator::Bump);
        if (check)
            vibrated.requireSymmetry(even, a, v);
        const int n = integrator.getNumMicroStepsPerPeriod();
        if (integrator.getFilter() == Integrator::Simple)
            stiffcore::computePeriodWeights(n, weights);
        else
            stiffcore::computeBumpWeights(integrator.getNumPeriods() / 2 * n, weights);
        std::fill(accelerations.begin(), accelerations.end(), OpenMM::Vec3());
        integrate(vibrated, integrator, 1, even ? 1 : 0.5, accelerations);
        if (!even)
            integrate(vibrated, integrator, -1, 0.5, accelerations);
        state.changePositions() = start;
    }

    /** Throw an exception if the motion is resolved better by macro-steps than by micro-steps. */
    void requireMicroSteps(const Integrator& integrator) const {
        const double H = integrator.getStepSize(), h = microStep(integrator);
        OpenMMStiff::require(
                h < H, className, ": with ", integrator.getNumMicroStepsPerPeriod(),
                " steps in a period of the frequency ", integrator.getAngularFrequency(),
                " radian/ps the micro-steps are of ", h, " ps, no shorter than the macro-step of ", H,
                " ps. The method is for vibrations that are much faster than the macro-steps: check"
                " setAngularFrequency() (2 pi over the period), or integrate the motion with VerletIntegrator");
    }

private:
    static double microStep(const Integrator& integrator) {
        return 2 * M_PI / (integrator.getNumMicroStepsPerPeriod() * integrator.getAngularFrequency());
    }

    /** Integrate over half the window, to one side, and add the share of it to the sum. */
    void integrate(VibratedForces& vibrated, const Integrator& integrator, int side, double share, Vectors& sum) {
        const int n = integrator.getNumMicroStepsPerPeriod();
        const double h = microStep(integrator);
        const std::vector<double>& masses = particles.getMasses();
        std::fill(v.begin(), v.end(), OpenMM::Vec3());
        std::fill(y.begin(), y.end(), OpenMM::Vec3());
        state.changePositions() = start;
        for (size_t k = 0; k < weights.size(); k++) {
            if (k == 0 && side < 0)
                a = first;
            else
                vibrated.accelerate(side * 2 * M_PI * (k % n) / n, a);
            if (k == 0) {
                vibrated.requireFinite(a);
                first = a;
            }
            // At rest at k = 0, where the mean of the velocities before and after is 0.
            const double t = (k == 0 ? 0.5 * h : h);
            before = v;
            for (size_t i = 0; i < masses.size(); i++)
                v[i] += (a[i] + slow[i]) * t;
            requireFiniteMotion(integrator);
            constrain(h);
            Vectors& positions = state.changePositions();
            for (size_t i = 0; i < masses.size(); i++) {
                sum[i] += (v[i] - before[i]) * (share * weights[k] / t);
                y[i] += v[i] * h;
                if (masses[i] > 0)
                    positions[i] = start[i] + y[i];
            }
            state.computeVirtualSites();
        }
    }

    /** OpenMM would have its own words for positions that are not finite, without the reason. */
    void requireFiniteMotion(const Integrator& integrator) const {
        const int place = findFasterThan(stiffcore::speedOfLight, v);
        if (place < 0)
            return;
        const double H = integrator.getStepSize(), h = microStep(integrator), window = weights.size() * h;
        const bool isLong = window >= H;
        throw OpenMM::OpenMMException(OpenMMStiff::message(
                className, ": while forces are averaged, the velocity of particle ", place,
                " is not finite, or beyond that of light. At the frequency ", integrator.getAngularFrequency(),
                " radian/ps the window is of ", window, " ps from theta = 0 on, in micro-steps of ", h, " ps, ",
                isLong ? "which is not short beside the macro-step of " : "in a macro-step of ", H,
                isLong ? " ps, while the averaged motion should hardly go on in that time. Check setAngularFrequency(),"
                         " or use a shorter window (setNumPeriods(), or setFilter() with Simple)"
                       : " ps. Use a smaller step size, more micro-steps in a period (setNumMicroStepsPerPeriod()), or"
                         " minimize the energy first",
                ". The positions and velocities are those before the step"));
    }

    void constrain(double h) {
        if (state.getSystem().getNumConstraints() == 0)
            return;
        const double* x = components(state.positions());
        const stiffcore::Box box = state.box();
        const std::string failed = constraints.forEach([&](const auto& batch, auto& work) {
            gather(batch, x, work.x);
            gather(batch, components(y), work.a);
            gather(batch, components(v), work.v);
            const auto converged = microShake(batch, h, box, work);
            scatter(batch, work.v, components(v));
            return converged;
        });
        OpenMMStiff::require(
                failed.empty(), className, ": the constraints of ", failed, " cannot be solved for in a micro-step of ",
                h,
                " ps: they depend on each other, or the vibration takes large ways in a micro-step, for which"
                " setNumMicroStepsPerPeriod() wants a larger number. The positions and velocities are those before the"
                " step");
    }

    HostState& state;
    HostParticles& particles;
    ConstraintBatches<Real> constraints;
    PhaseForces forces;
    std::string className;
    bool running = false;
    std::vector<double> weights;
    // X; accelerations by slow forces and at the start; those at present, velocities, those before, displacements.
    Vectors start, slow, first, a, v, before, y;
};

} // namespace stiffhost

#endif /* STIFFHOST_MICRO_INTEGRATION_H_ */
