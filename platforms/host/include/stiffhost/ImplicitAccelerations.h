#ifndef STIFFHOST_IMPLICIT_ACCELERATIONS_H_
#define STIFFHOST_IMPLICIT_ACCELERATIONS_H_

#include "HostParticles.h"
#include "HostStiffTerms.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "openmmstiff/internal/StepFailure.h"
#include "openmmstiff/internal/Message.h"
#include "stiffcore/methods/ImplicitSolve.h"
#include "openmm/CustomNonbondedForce.h"
#include "openmm/NonbondedForce.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The accelerations f(x) of the methods of the Zhang-Skeel family, and what depends on them.
 */
template <class Real> class ImplicitAccelerations {
public:
    using Integrator = OpenMMStiff::ZhangSkeelIntegrator;
    ImplicitAccelerations(Backend& backend, HostState& state, HostParticles& particles)
            : backend(backend), state(state), particles(particles), blocks(backend) {
    }

    void initialize(const Integrator& integrator, const std::string& className) {
        this->integrator = &integrator;
        this->className = className;
        implicit.assign(particles.getMasses().size(), OpenMM::Vec3());
    }
    /** Bring the terms up to date; whether anything has changed. */
    bool prepare() {
        return blocks.prepare(state.getSystem(), particles.getMasses(), OpenMMStiff::TermSelection(*integrator),
                              className);
    }

    HostStiffTerms<Real>& getBlocks() {
        return blocks;
    }
    /** The number of Newton iterations that the last computation took. */
    int getNumIterations() const {
        return numIterations;
    }
    /** beta h^2 [ps^2] */
    double getFactor() const {
        const double h = integrator->getStepSize();
        return integrator->getBeta() * h * h;
    }

    /** Whether f is the solution of one linear system, (M + b h^2 H1(x)) f = F(x). */
    bool isSimplified() const {
        return integrator->getMethod() == Integrator::StiffHessian ||
               integrator->getMethod() == Integrator::FullHessian;
    }
    bool mayBeIndefinite() const {
        return integrator->getMethod() != Integrator::StiffHessian;
    }
    /** Compute f for the Context's present positions [nm/ps^2]; or, if that is simplified, what blocks need for it. */
    void compute(Vectors& f) {
        blocks.setGlobals(state.getParameters());
        numIterations = 0;
        switch (integrator->getMethod()) {
        case Integrator::StiffHessian:
        case Integrator::FullHessian:
            return state.computeForces(integrator->getIntegrationForceGroups());
        case Integrator::ThirdDerivatives:
            return computeZhangSkeel(f);
        case Integrator::Newmark:
            iterate();
            f = implicit;
            return;
        case Integrator::NewmarkOneIteration:
            state.computeForces(integrator->getIntegrationForceGroups());
            return particles.divideByMasses(state.forces(), f);
        }
    }

    /**
     * Move from x to q = x + b h^2 a; particles bound by constraints stay where these hold.
     *
     * @param f   as it was computed
     */
    void show(const Vectors& f) {
        if (integrator->getMethod() != Integrator::NewmarkOneIteration)
            shift(isSimplified() ? f : implicit);
    }

    /** The velocities with which NewmarkOneIteration drifts: u <- (M + b h^2 H1(x))^-1 M v. */
    const Vectors& filterVelocities() {
        const Vectors& velocities = state.velocities();
        solution = velocities;
        rightSide.resize(velocities.size());
        backend.forEachPart(velocities.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                rightSide[i] = velocities[i] * particles.getMasses()[i];
        });
        blocks.setGlobals(state.getParameters());
        solve(rightSide, solution);
        return solution;
    }

    [[noreturn]] void refuseForces(const std::string& molecule) const {
        refuse("the forces on " + molecule + " are not finite");
    }
    [[noreturn]] void refuseMatrix(const std::string& molecule) const {
        refuse("the matrix M + beta h^2 H1 of " + molecule + " is " +
               (mayBeIndefinite() ? "singular" : "not positive definite"));
    }
    /** Throw an exception that says why a step is impossible. */
    [[noreturn]] void refuse(const std::string& what, const std::string& remedy = " Use") const {
        throw OpenMMStiff::StepFailure(OpenMMStiff::message(
                className, ": ", what, " (step size h ", integrator->getStepSize(), " ps, beta ", integrator->getBeta(),
                ").", remedy,
                " a smaller step size, softer terms (smaller force constants), or minimize the energy first.",
                " The positions and velocities are those before the step"));
    }

private:
    /**
     * f = a - 1/2 b^2 h^4 M^-1 (a . V1''' . a) + M^-1 F0, where a belongs to F1 alone. V1 is everything, unless stiff
     * groups are chosen.
     */
    void computeZhangSkeel(Vectors& corrected) {
        const int all = integrator->getIntegrationForceGroups(), chosen = integrator->getStiffForceGroups();
        const int slow = (chosen == 0 ? 0 : all & ~chosen), stiff = all & ~slow;
        for (Vectors* vectors : {&explicitPart, &contraction})
            vectors->resize(implicit.size());
        if (slow != 0) {
            state.computeForces(slow);
            particles.divideByMasses(state.forces(), explicitPart);
        }
        state.computeForces(stiff);
        particles.divideByMasses(state.forces(), implicit);
        solve(state.forces(), implicit);
        std::fill(contraction.begin(), contraction.end(), OpenMM::Vec3());
        const double* positions = components(state.positions());
        const stiffcore::Box box = state.box();
        const std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            return contractThirdDerivatives(batch, positions, components(implicit), box, work, components(contraction));
        });
        if (!failed.empty())
            refuse("the third derivatives of the potential of " + failed + " are not finite");
        const double c = getFactor();
        backend.forEachPart(corrected.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++) {
                corrected[i] = implicit[i];
                if (particles.getMasses()[i] > 0)
                    corrected[i] -= contraction[i] * (0.5 * c * c / particles.getMasses()[i]);
                if (slow != 0)
                    corrected[i] += explicitPart[i];
            }
        });
    }

    /**
     * M a = F(x + b h^2 a), by Newton's method with the stiff part of the Hessian. With the tolerance left to us, the
     * iteration ends at the rounding of the forces, if they are rounded: when it hardly gets closer.
     */
    void iterate() {
        const double asked = integrator->getNewtonTolerance();
        const double tolerance = (asked > 0 ? asked : doubleTolerance);
        const double rounding = state.getForceRounding();
        double least = std::numeric_limits<double>::infinity(), previous = least;
        start = state.positions();
        rightSide.resize(start.size());
        solution.resize(start.size());
        std::fill(implicit.begin(), implicit.end(), OpenMM::Vec3());
        while (true) {
            state.computeForces(integrator->getIntegrationForceGroups());
            const Vectors& forces = state.forces();
            backend.forEachPart(solution.size(), [&](int begin, int end, int) {
                for (int i = begin; i < end; i++) {
                    const double mass = particles.getMasses()[i];
                    rightSide[i] = forces[i] - implicit[i] * mass;
                    solution[i] = (mass > 0 ? rightSide[i] / mass : OpenMM::Vec3());
                }
            });
            solve(rightSide, solution);
            double squaredChange = 0, squaredSize = 0;
            int last = 0;
            for (size_t i = 0; i < solution.size(); i++) {
                squaredSize = std::max(squaredSize, implicit[i].dot(implicit[i]));
                implicit[i] += solution[i];
                const double own = solution[i].dot(solution[i]);
                if (std::isfinite(squaredChange) && !(own <= squaredChange)) {
                    squaredChange = own;
                    last = i;
                }
                squaredSize = std::max(squaredSize, implicit[i].dot(implicit[i]));
            }
            // The largest change of an acceleration, relative to the largest acceleration before and after.
            const double change = (squaredChange == 0 ? 0 : std::sqrt(squaredChange / squaredSize));
            least = std::min(least, change);
            numIterations++;
            const bool isRounding = (asked == 0 && change < rounding && change > 0.9 * previous);
            if (change <= tolerance || isRounding)
                break;
            if (numIterations == maxIterations || !std::isfinite(change))
                refuseIteration(last, change, least, tolerance);
            previous = change;
            state.changePositions() = start;
            shift(implicit);
            state.computeVirtualSites();
        }
        state.changePositions() = start;
        state.computeVirtualSites();
    }

    /** Say that Newton's iteration does not converge, and what may be the reason. */
    [[noreturn]] void refuseIteration(int particle, double change, double least, double tolerance) const {
        std::stringstream message, remedy;
        message << "Newton's method for a = M^-1 F(x + beta h^2 a) ";
        if (std::isfinite(change))
            message << "has not converged after " << numIterations << " iterations: the acceleration of particle "
                    << particle << " still changes by " << change << " of the largest, at best by " << least
                    << ", and not by " << tolerance;
        else
            message << "diverges: after " << numIterations << " iterations the acceleration of particle " << particle
                    << " is not finite";
        if (std::isfinite(change) && least < state.getForceRounding())
            remedy << " The forces of the platform " << state.getPlatformName()
                   << " are rounded, which may not allow this: call setNewtonTolerance() with 0, for what"
                   << " they do allow, or use the Reference platform.";
        remedy << describeJump(state.getSystem(), integrator->getIntegrationForceGroups())
               << " Add the forces that are stiff to setStiffForceGroups(), or use";
        refuse(message.str(), remedy.str());
    }

    /** What makes a force jump where particles cross a cutoff; there the equations may have no solution. */
    static std::string describeJump(const OpenMM::System& system, int groups) {
        for (int i = 0; i < system.getNumForces(); i++) {
            const OpenMM::Force& force = system.getForce(i);
            const auto* nonbonded = dynamic_cast<const OpenMM::NonbondedForce*>(&force);
            const auto* custom = dynamic_cast<const OpenMM::CustomNonbondedForce*>(&force);
            if ((groups & (1 << force.getForceGroup())) == 0)
                continue;
            std::stringstream remedy;
            remedy << " The force '" << force.getName() << "' (index " << i << " in the System) jumps at its cutoff,"
                   << " where the equations may have no solution: ";
            if ((nonbonded != nullptr && nonbonded->getNonbondedMethod() != OpenMM::NonbondedForce::NoCutoff &&
                 !nonbonded->getUseSwitchingFunction()) ||
                (custom != nullptr && custom->getNonbondedMethod() != OpenMM::CustomNonbondedForce::NoCutoff &&
                 !custom->getUseSwitchingFunction()))
                return remedy.str() + "give it a switching function with setUseSwitchingFunction().";
            if (nonbonded != nullptr && (nonbonded->getNonbondedMethod() == OpenMM::NonbondedForce::CutoffPeriodic ||
                                         nonbonded->getNonbondedMethod() == OpenMM::NonbondedForce::CutoffNonPeriodic))
                return remedy.str() + "its switching function leaves the charges alone; use PME for them.";
        }
        return "";
    }

    /** positions <- positions + b h^2 a */
    void shift(const Vectors& a) {
        const double c = getFactor();
        Vectors& positions = state.changePositions();
        backend.forEachPart(positions.size(), [&](int begin, int end, int) {
            for (int i = begin; i < end; i++)
                if (particles.getMasses()[i] > 0 && !particles.isConstrained(i))
                    positions[i] += a[i] * c;
        });
    }

    /** Solve (M + b h^2 H1) a = F for particles that are bound, at the Context's positions; others have M a = F. */
    void solve(const Vectors& F, Vectors& a) {
        const double c = getFactor();
        const Vectors& positions = state.positions();
        const stiffcore::Box box = state.box();
        const std::string failed = blocks.forEach([&](const auto& batch, auto& work) {
            if (!batch.isBound())
                return allLanes(batch);
            return solveAccelerations(batch, components(positions), components(F), c, mayBeIndefinite(), box, work,
                                      components(a));
        });
        if (failed.empty())
            return;
        for (const Vectors* vectors : {&positions, &F}) {
            const std::string notFinite = blocks.findNotFinite(*vectors);
            if (!notFinite.empty())
                refuseForces(notFinite);
        }
        refuseMatrix(failed);
    }

    static constexpr int maxIterations = 100;
    /// The tolerance of Newton's method for forces in double precision.
    static constexpr double doubleTolerance = 1e-10;
    Backend& backend;
    HostState& state;
    HostParticles& particles;
    HostStiffTerms<Real> blocks;
    const Integrator* integrator = nullptr;
    std::string className;
    int numIterations = 0;
    /// a at the positions that f belongs to, unless it is simplified.
    Vectors implicit;
    /// Of the method ZhangSkeel: M^-1 F0, a . V''' . a. Each method's vectors get their size when it is first used.
    Vectors explicitPart, contraction;
    /// Of the Newmark methods: a linear system's right side and solution, and x while the Context holds q.
    Vectors rightSide, solution, start;
};

} // namespace stiffhost

#endif /* STIFFHOST_IMPLICIT_ACCELERATIONS_H_ */
