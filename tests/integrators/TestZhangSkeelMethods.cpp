/**
 * The methods of the Zhang-Skeel family: what Tao and Owhadi (2014) claim of each, and what they deny.
 */

#include "CountAllocations.h"
#include "Derivatives.h"
#include "OpenMMStiff.h"
#include "PlatformTest.h"
#include "Statistics.h"
#include "Systems.h"
#include "Vectors.h"
#include "openmm/CustomBondForce.h"
#include <algorithm>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

namespace {

using Method = ZhangSkeelIntegrator::Method;

const char* const names[] = {"StiffHessian", "FullHessian", "ThirdDerivatives", "Newmark", "NewmarkOneIteration"};
const vector<Method> allMethods = {ZhangSkeelIntegrator::StiffHessian, ZhangSkeelIntegrator::FullHessian,
                                   ZhangSkeelIntegrator::ThirdDerivatives, ZhangSkeelIntegrator::Newmark,
                                   ZhangSkeelIntegrator::NewmarkOneIteration};
const int stiffGroup = 1;

/** Let an integrator use a method, with the forces of stiffGroup, if it needs only the stiff ones. */
void choose(ZhangSkeelIntegrator& integrator, Method method) {
    integrator.setMethod(method);
    if (method == ZhangSkeelIntegrator::ThirdDerivatives)
        integrator.setUseDefaultStiffForceGroups(true);
    else
        integrator.setStiffForceGroups(1 << stiffGroup);
}

/** The paper's double pendulum (section 4.1), pinned to a massless particle: V1 = w^2/2 sum (r^2 - L^2)^2. */
Model makeDoublePendulum(double w = 20, const char* field = "y") {
    Model model;
    model.positions = {Vec3(0, 0, 0), Vec3(0, -1, 0), Vec3(1, -2, 0)};
    for (double mass : {0.0, 1.0, 1.0})
        model.system.addParticle(mass);
    auto* penalty = new CustomBondForce("0.5*w^2*(r^2-L^2)^2");
    penalty->addGlobalParameter("w", w);
    penalty->addPerBondParameter("L");
    penalty->addBond(0, 1, {1});
    penalty->addBond(1, 2, {std::sqrt(2)});
    penalty->setForceGroup(stiffGroup);
    auto* gravity = new CustomExternalForce(field);
    gravity->addParticle(1);
    gravity->addParticle(2);
    model.system.addForce(penalty);
    model.system.addForce(gravity);
    return model;
}

double energy(const Context& context) {
    const State state = context.getState(State::Energy);
    return state.getPotentialEnergy() + state.getKineticEnergy();
}

/** The tightest tolerance of Newton's method: with rounded forces, where they allow no more. */
double findTolerance(Platform& platform) {
    return byRounding(platform, 1e-12, 0.0, 0.0);
}

void testOrderIsTwo(Platform& platform) {
    const Model model = makeDoublePendulum();
    const double time = 1;
    // In single precision rounding hides the errors of small steps.
    const int fewest = byRounding(platform, 200, 200, 200, 100);
    for (Method method : allMethods) {
        vector<double> steps, errors;
        vector<Vec3> exact;
        for (int numSteps : {16384, fewest, 2 * fewest, 4 * fewest, 8 * fewest}) {
            ZhangSkeelIntegrator integrator(time / numSteps);
            choose(integrator, method);
            integrator.setBeta(0.4);
            Context context(model.system, integrator, exact.empty() ? platformForManySteps(platform) : platform);
            context.setPositions(model.positions);
            integrator.step(numSteps);
            const vector<Vec3> end = integrator.getPropagatedPositions();
            if (exact.empty()) {
                exact = end;
                continue;
            }
            steps.push_back(time / numSteps);
            errors.push_back(largestDifference(end, exact));
        }
        const double order = logSlope(steps, errors);
        std::cout << names[method] << ": order " << order << ", error " << errors.back() << " at h = " << steps.back()
                  << std::endl;
        ASSERT_EQUAL_TOL(2, order, 0.1);
    }
}

/** The largest entry of J^T Omega J - Omega of one step in (x, M v), scaled so that entries are of the size of 1. */
double stepDefect(ZhangSkeelIntegrator& integrator, const Model& model, const vector<Vec3>& velocities, double length,
                  Platform& platform) {
    Context context(model.system, integrator, platform);
    vector<int> mobile;
    for (int i = 0; i < model.system.getNumParticles(); i++)
        if (model.system.getParticleMass(i) > 0)
            for (int j = 0; j < 3; j++)
                mobile.push_back(3 * i + j);
    const int n = mobile.size();
    const VectorXd x0 = toVector(model.positions), v0 = toVector(velocities);
    VectorXd scale(2 * n), start(2 * n);
    for (int i = 0; i < n; i++) {
        const double mass = model.system.getParticleMass(mobile[i] / 3);
        scale[i] = std::sqrt(mass) / length;
        scale[n + i] = length / std::sqrt(mass) * mass;
        start[i] = x0[mobile[i]];
        start[n + i] = v0[mobile[i]];
    }
    auto step = [&](const VectorXd& scaled) {
        const VectorXd z = scaled.cwiseQuotient(scale);
        VectorXd x = x0, v = v0;
        for (int i = 0; i < n; i++) {
            x[mobile[i]] = z[i];
            v[mobile[i]] = z[n + i];
        }
        context.setPositions(toVec3s(x));
        context.setVelocities(toVec3s(v));
        integrator.step(1);
        x = toVector(integrator.getPropagatedPositions());
        v = toVector(getVelocities(context));
        VectorXd end(2 * n);
        for (int i = 0; i < n; i++) {
            end[i] = x[mobile[i]];
            end[n + i] = v[mobile[i]];
        }
        return VectorXd(end.cwiseProduct(scale));
    };
    return symplecticDefect(differentiate(start.cwiseProduct(scale), 1e-3, step));
}

/** ZhangSkeel and Newmark are symplectic; the others are not. */
void testSymplecticity(Platform& platform) {
    Model pendulum = makeDoublePendulum();
    pendulum.positions[1] = Vec3(0.02, -0.99, 0.05);
    const vector<Vec3> pendulumVelocities = {Vec3(), Vec3(0.3, 0.02, -0.1), Vec3(0.2, 0.2, 0.3)};
    Model water = makeWaterInField();
    water.system.getForce(0).setForceGroup(stiffGroup);
    water.system.getForce(1).setForceGroup(stiffGroup);
    const vector<Vec3> waterVelocities = makeVelocities(water.system, 1000, 3);
    Model straight = makeStraightMoleculeInField();
    straight.system.getForce(0).setForceGroup(stiffGroup);
    straight.system.getForce(1).setForceGroup(stiffGroup);
    const vector<Vec3> straightVelocities = makeVelocities(straight.system, 1000, 4);
    for (Method method : allMethods) {
        ZhangSkeelIntegrator slow(0.1), fast(0.004);
        choose(slow, method);
        choose(fast, method);
        slow.setBeta(0.4);
        for (ZhangSkeelIntegrator* integrator : {&slow, &fast})
            integrator->setNewtonTolerance(findTolerance(platform));
        const double ofPendulum = stepDefect(slow, pendulum, pendulumVelocities, 1, platform);
        const double ofWater = stepDefect(fast, water, waterVelocities, 0.03, platform);
        // Within 1e-4 of 180 degrees OpenMM's own forces are not smooth: differences are taken over longer ways.
        const double ofStraight = stepDefect(fast, straight, straightVelocities, 0.3, platform);
        std::cout << names[method] << ": J^T Omega J - Omega up to " << ofPendulum << " (double pendulum, h = 0.1), "
                  << ofWater << " (water, 4 fs), " << ofStraight << " (straight molecule, 4 fs)" << std::endl;
        if (method == ZhangSkeelIntegrator::ThirdDerivatives || method == ZhangSkeelIntegrator::Newmark) {
            // Rounding enters difference quotients divided by the difference.
            const double tolerance = byRounding(platform, 1e-6, 1e-5, 1e-2);
            ASSERT(ofPendulum < tolerance);
            ASSERT(ofWater < tolerance);
            // Devices compute forces near 180 degrees from approximations that are smooth even less.
            ASSERT(ofStraight < 1e-6 || isDevice(platform));
        }
        else {
            ASSERT(ofPendulum > 0.1);
            ASSERT(ofWater > 0.1);
        }
    }
}

/** With stiff groups chosen, ZhangSkeel is implicit in their forces alone, and symplectic too. */
void testSplitZhangSkeelIsSymplectic(Platform& platform) {
    Model pendulum = makeDoublePendulum(20, "y + 0.7*x^2*y + sin(2*x)*z");
    pendulum.positions[1] = Vec3(0.02, -0.99, 0.05);
    ZhangSkeelIntegrator integrator(0.1);
    integrator.setBeta(0.5);
    integrator.setMethod(ZhangSkeelIntegrator::ThirdDerivatives);
    integrator.setStiffForceGroups(1 << stiffGroup);
    const vector<Vec3> velocities = {Vec3(), Vec3(0.3, 0.02, -0.1), Vec3(0.2, 0.2, 0.3)};
    const double defect = stepDefect(integrator, pendulum, velocities, 1, platform);
    std::cout << "ZhangSkeel with stiff groups: J^T Omega J - Omega up to " << defect << std::endl;
    ASSERT(defect < byRounding(platform, 1e-6, 1e-5, 1e-2));
}

/** f(x) is a function of x alone: from (x, -v) the same steps lead back, but for the one Newton iteration. */
void testReversible(Platform& platform) {
    const Model model = makeDoublePendulum();
    const int numSteps = 40;
    for (Method method : allMethods) {
        ZhangSkeelIntegrator integrator(0.02);
        choose(integrator, method);
        Context context(model.system, integrator, platform);
        context.setPositions(model.positions);
        integrator.step(numSteps);
        vector<Vec3> reversed = getVelocities(context);
        for (Vec3& v : reversed)
            v *= -1;
        context.setVelocities(reversed);
        integrator.step(numSteps);
        const double error = largestDifference(integrator.getPropagatedPositions(), model.positions);
        std::cout << names[method] << ": " << numSteps << " steps forth and back: error " << error << std::endl;
        if (method == ZhangSkeelIntegrator::NewmarkOneIteration) {
            ASSERT(error > 1e-4);
        }
        else {
            ASSERT(error < byRounding(platform, 1e-9, 1e-7, 1e-3));
        }
    }
}

/** The largest excursion of an oscillator with h^2 k / m = Omega^2, which begins at x = 1; it ends at 1e3. */
double excursion(Platform& platform, Method method, double beta, double Omega, int numSteps) {
    System system;
    system.addParticle(2);
    auto* spring = new CustomExternalForce("0.5*k*x^2");
    spring->addPerParticleParameter("k");
    const double h = 0.01;
    spring->addParticle(0, {2 * Omega * Omega / (h * h)});
    spring->setForceGroup(stiffGroup);
    system.addForce(spring);
    ZhangSkeelIntegrator integrator(h);
    choose(integrator, method);
    integrator.setBeta(beta);
    Context context(system, integrator, platform);
    const double start = std::min(1.0, 10 / (Omega * Omega)); // so that the stiffest is slower than light
    context.setPositions({Vec3(start, 0, 0)});
    double largest = 0;
    for (int i = 0; i < numSteps && largest <= 1e3; i++) {
        integrator.step(1);
        largest = std::max(largest, std::abs(integrator.getPropagatedPositions()[0][0]) / start);
    }
    return largest;
}

/**
 * Linear modes are stable at any step size if b >= 1/4, and below for Omega^2 < 1/(1/4 - b). At b = 1/4 and a large
 * Omega a mode begun at rest turns by nearly half a circle in each step, and errs little beyond its start.
 */
void testLinearStability(Platform& platform) {
    for (Method method : allMethods) {
        for (double beta : {0.25, 0.4})
            for (double Omega : {0.1, 1.0, 10.0, 100.0, 1e4})
                // No device can hold the force of the last one.
                ASSERT((isDevice(platform) && Omega == 1e4) || excursion(platform, method, beta, Omega, 3000) < 1.01);
        ASSERT(excursion(platform, method, 0.2, std::sqrt(19.8), 3000) < 20);
        ASSERT(excursion(platform, method, 0.2, std::sqrt(20.2), 3000) > 1e3);
    }
}

/**
 * The angular momentum about the origin, in (x, v), is kept by ZhangSkeel and Newmark. Of a molecule in which all
 * forces are stiff the error of simplified methods is of order 4, see TestZhangSkeelIntegrator; that of one Newton
 * iteration is of order 2, that of the method.
 */
void testAngularMomentum(Platform& platform) {
    Model model = makeWaterCluster(1);
    for (int f = 0; f < 2; f++)
        model.system.getForce(f).setForceGroup(stiffGroup);
    model.system.removeForce(2);
    const vector<Vec3> velocities = makeVelocities(model.system, 300, 5);
    const Vec3 before = angularMomentum(model.system, model.positions, velocities);
    const double time = 0.05;
    for (Method method : allMethods) {
        vector<double> steps, errors;
        for (int numSteps : {125, 250, 500, 1000}) {
            ZhangSkeelIntegrator integrator(time / numSteps);
            choose(integrator, method);
            integrator.setNewtonTolerance(findTolerance(platform));
            Context context(model.system, integrator, platform);
            context.setPositions(model.positions);
            context.setVelocities(velocities);
            double largest = 0;
            for (int part = 0; part < 25; part++) {
                integrator.step(numSteps / 25);
                const Vec3 error =
                        angularMomentum(model.system, integrator.getPropagatedPositions(), getVelocities(context)) -
                        before;
                largest = std::max(largest, std::sqrt(error.dot(error) / before.dot(before)));
            }
            steps.push_back(time / numSteps);
            errors.push_back(largest);
        }
        const double order = logSlope(steps, errors);
        std::cout << names[method] << ": angular momentum of a water changed by " << errors[0]
                  << " of itself at h = " << 1000 * steps[0] << " fs, order " << order << std::endl;
        if (method == ZhangSkeelIntegrator::ThirdDerivatives || method == ZhangSkeelIntegrator::Newmark) {
            ASSERT(*std::max_element(errors.begin(), errors.end()) < byRounding(platform, 1e-10, 1e-9, 1e-5));
        }
        else if (!hasSingleForces(platform)) {
            ASSERT_EQUAL_TOL(method == ZhangSkeelIntegrator::NewmarkOneIteration ? 2 : 4, order, 0.05);
        }
    }
}

/** Over long runs the energy of ZhangSkeel stays, that of the one Newton iteration does not. */
void testLongRunOfTheDoublePendulum(Platform& platform) {
    const Model model = makeDoublePendulum();
    const int numSamples = 1000, numSteps = 100;
    for (Method method : {ZhangSkeelIntegrator::ThirdDerivatives, ZhangSkeelIntegrator::NewmarkOneIteration}) {
        ZhangSkeelIntegrator integrator(0.05);
        choose(integrator, method);
        integrator.setBeta(0.4);
        Context context(model.system, integrator, platform);
        context.setPositions(model.positions);
        double early = 0, late = 0;
        try {
            for (int i = 0; i < numSamples; i++) {
                integrator.step(numSteps);
                (i < numSamples / 2 ? early : late) += energy(context) / (numSamples / 2);
            }
        }
        catch (const OpenMMException& error) {
            std::cout << error.what() << std::endl;
            late = INFINITY;
        }
        std::cout << names[method] << ": mean energy " << early << " in the first half of " << numSamples * numSteps
                  << " steps, " << late << " in the second" << std::endl;
        if (method == ZhangSkeelIntegrator::ThirdDerivatives) {
            ASSERT(std::abs(late - early) < 0.05);
        }
        else {
            ASSERT(!(std::abs(late - early) < 0.5));
        }
    }
}

/** Newton's iterations are counted; the other methods have none. */
void testNewtonIterationsAreCounted(Platform& platform) {
    const Model model = makeDoublePendulum();
    ZhangSkeelIntegrator integrator(0.05);
    choose(integrator, ZhangSkeelIntegrator::StiffHessian);
    assertThrows([&] { integrator.getNumNewtonIterations(); }, {"not bound"});
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    integrator.step(1);
    ASSERT_EQUAL(0, integrator.getNumNewtonIterations());
    integrator.setMethod(ZhangSkeelIntegrator::Newmark);
    integrator.setNewtonTolerance(findTolerance(platform));
    integrator.step(5);
    const int many = integrator.getNumNewtonIterations();
    integrator.setNewtonTolerance(1e-2);
    integrator.step(1);
    const int few = integrator.getNumNewtonIterations();
    std::cout << "Newton iterations: " << many << " to 1e-12, " << few << " to 1e-2" << std::endl;
    ASSERT(few >= 1 && few < many && many < byRounding(platform, 20, 20, 100));
}

/**
 * By default Newton's iteration ends where the platform's forces allow no more. The energy of waters then stays as it
 * does with forces in double precision.
 */
void testNewmarkWithForcesOfAnyPrecision(Platform& platform) {
    const Model model = makeWaterCluster(3);
    ZhangSkeelIntegrator integrator(0.001);
    ASSERT_EQUAL(0, integrator.getNewtonTolerance());
    integrator.setMethod(ZhangSkeelIntegrator::Newmark);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 100, 5));
    int most = 0;
    auto step = [&](int number) {
        for (int i = 0; i < number; i++) {
            integrator.step(1);
            most = std::max(most, integrator.getNumNewtonIterations());
        }
    };
    step(1);
    const double before = energy(context), kinetic = context.getState(State::Energy).getKineticEnergy();
    step(200);
    const double change = energy(context) - before;
    std::cout << "Newmark, 27 waters, 200 steps of 1 fs: energy changed by " << change << " kJ/mol, at most " << most
              << " iterations" << std::endl;
    ASSERT(std::abs(change) < 0.02 * kinetic);
    ASSERT(most < 20);
    integrator.setNewtonTolerance(1e-12);
    if (hasPreciseForces(platform)) {
        integrator.step(1);
        return;
    }
    // Some steps meet it nevertheless: rounded positions may be a fixed point of the iteration.
    assertThrows([&] { integrator.step(100); }, {"ZhangSkeelIntegrator", "1e-12", "at best by", "rounded",
                                                 platform.getName(), "setNewtonTolerance() with 0"});
    integrator.setNewtonTolerance(0);
    integrator.step(1);
}

/** Where a force jumps at its cutoff there may be no solution; the error names the remedy, and no infinities. */
void testJumpAtTheCutoffIsNamed(Platform& platform) {
    const double h = 0.01, force = 1e3;
    for (bool switched : {false, true}) {
        System system;
        auto* repulsion = new CustomNonbondedForce(std::to_string(-force) + "*r");
        repulsion->setNonbondedMethod(CustomNonbondedForce::CutoffNonPeriodic);
        repulsion->setCutoffDistance(1);
        repulsion->setUseSwitchingFunction(switched);
        repulsion->setSwitchingDistance(0.5);
        repulsion->setName("Repulsion");
        for (int i : {0, 1}) {
            system.addParticle(1 + i);
            repulsion->addParticle();
        }
        system.addForce(repulsion);
        ZhangSkeelIntegrator integrator(h);
        integrator.setMethod(ZhangSkeelIntegrator::Newmark);
        Context context(system, integrator, platform);
        // With the force the two are beyond the cutoff, without it they are not.
        const vector<Vec3> positions = {Vec3(), Vec3(1 - 0.1 * h * h * force, 0, 0)};
        context.setPositions(positions);
        if (switched) {
            integrator.step(1);
            continue;
        }
        std::string message;
        try {
            integrator.step(1);
        }
        catch (const OpenMMException& error) {
            message = error.what();
        }
        for (const char* words : {"ZhangSkeelIntegrator", "not converged", "'Repulsion' (index 0",
                                  "jumps at its cutoff", "setUseSwitchingFunction()"})
            ASSERT(message.find(words) != std::string::npos);
        ASSERT(message.find("inf ") == std::string::npos && message.find("nan") == std::string::npos);
        ASSERT(largestDifference(positions, getPositions(context)) <= storeRounding(platform));
    }
}

/** A bond to a virtual site is slow, and its force counts once, whatever the force that it belongs to. */
void testBondsToVirtualSitesAreSlow(Platform& platform) {
    for (Method method : {ZhangSkeelIntegrator::StiffHessian, ZhangSkeelIntegrator::Newmark})
        for (int groups : {0, 1}) {
            vector<vector<Vec3>> ends;
            for (bool harmonic : {true, false}) {
                const Model model = [&] {
                    Model made = makeWaterWithBoundSite(harmonic);
                    made.system.getForce(2).setForceGroup(1); // NonbondedForce
                    return made;
                }();
                ZhangSkeelIntegrator integrator(0.001);
                integrator.setMethod(method);
                if (groups != 0)
                    integrator.setStiffForceGroups(groups);
                Context context(model.system, integrator, platform);
                context.setPositions(model.positions);
                context.computeVirtualSites();
                context.setVelocities(makeVelocities(model.system, 300, 21));
                integrator.step(50);
                ends.push_back(getPositions(context));
            }
            ASSERT(largestDifference(ends[0], ends[1]) <
                   byRounding(platform, hasPreciseForces(platform) ? 1e-9 : 1e-6, 1e-6, 1e-4));
        }
    // Where a force of stiff groups is F1, all of it has to have a Hessian.
    Model model = makeWaterWithBoundSite(true);
    model.system.getForce(2).setForceGroup(1);
    ZhangSkeelIntegrator integrator(0.001);
    integrator.setMethod(ZhangSkeelIntegrator::ThirdDerivatives);
    integrator.setStiffForceGroups(1);
    assertThrows([&] { Context context(model.system, integrator, platform); },
                 {"ZhangSkeelIntegrator", "particle 3", "virtual site", "StiffHessian"});
}

/** Parameters of the Context and of terms may change during a run. */
void testChangedParametersTakeEffect(Platform& platform) {
    for (Method method : allMethods) {
        Model model = makeDoublePendulum(20);
        ZhangSkeelIntegrator changed(0.02), fresh(0.02);
        choose(changed, method);
        choose(fresh, method);
        Model other = makeDoublePendulum(30);
        auto& otherPenalty = dynamic_cast<CustomBondForce&>(other.system.getForce(0));
        otherPenalty.setBondParameters(1, 1, 2, {1.3});
        Context context(model.system, changed, platform), reference(other.system, fresh, platform);
        context.setPositions(model.positions);
        changed.step(1);
        context.setParameter("w", 30);
        auto& penalty = dynamic_cast<CustomBondForce&>(model.system.getForce(0));
        penalty.setBondParameters(1, 1, 2, {1.3});
        penalty.updateParametersInContext(context);
        for (Context* each : {&context, &reference}) {
            each->setPositions(model.positions);
            each->setVelocities(vector<Vec3>(3));
        }
        changed.step(5);
        fresh.step(5);
        ASSERT(largestDifference(getPositions(context), getPositions(reference)) < 1e-12);
    }
}

/** A resumed run goes on bit for bit. */
void testCheckpoint(Platform& platform) {
    const Model model = makeDoublePendulum();
    for (Method method : allMethods) {
        ZhangSkeelIntegrator integrator(0.02);
        choose(integrator, method);
        Context context(model.system, integrator, platform);
        context.setPositions(model.positions);
        integrator.step(10);
        std::stringstream checkpoint;
        context.createCheckpoint(checkpoint);
        integrator.step(10);
        const vector<Vec3> x = integrator.getPropagatedPositions(), v = getVelocities(context);
        context.loadCheckpoint(checkpoint);
        integrator.step(10);
        ASSERT_EQUAL(0, largestDifference(x, integrator.getPropagatedPositions()));
        ASSERT_EQUAL(0, largestDifference(v, getVelocities(context)));
    }
}

void testErrors(Platform& platform) {
    ZhangSkeelIntegrator integrator(0.001);
    assertThrows([&] { integrator.setMethod(Method(7)); }, {"ZhangSkeelIntegrator", "no method 7", "Newmark"});
    assertThrows([&] { integrator.setNewtonTolerance(-1e-9); }, {"ZhangSkeelIntegrator", "is -1e-09"});
    // A large NonbondedForce has no Hessian.
    Model water = makeWaterCluster(1);
    cutOff(water);
    for (Method method : {ZhangSkeelIntegrator::FullHessian, ZhangSkeelIntegrator::ThirdDerivatives}) {
        integrator.setMethod(method);
        assertThrows([&] { Context context(water.system, integrator, platform); },
                     {"ZhangSkeelIntegrator", "'NonbondedForce'", "cutoff", "StiffHessian", "Newmark"});
    }
    // Without the penalty's Hessian the iteration does not converge; the state is what it was.
    const Model pendulum = makeDoublePendulum(200);
    ZhangSkeelIntegrator newmark(0.1);
    newmark.setMethod(ZhangSkeelIntegrator::Newmark);
    Context context(pendulum.system, newmark, platform);
    context.setPositions(pendulum.positions);
    context.setVelocities({Vec3(), Vec3(0.1, 0.5, 0), Vec3()});
    assertThrows([&] { newmark.step(1); }, {"ZhangSkeelIntegrator", "Newton", "setStiffForceGroups()"});
    ASSERT_EQUAL(0, largestDifference(pendulum.positions, getPositions(context)));
    newmark.setStiffForceGroups(1 << stiffGroup);
    newmark.step(1);
}

/** Molecules, small ones and a large one, whose matrix M + beta h^2 H1 is indefinite nearly everywhere, or nowhere. */
Model makeRoughWaters(bool indefinite, double h, double beta) {
    Model model = makeWaterCluster(2);
    auto* chain = new HarmonicBondForce();
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    for (int i = 0; i < 20; i++) {
        const int atom = model.system.addParticle(4);
        nonbonded.addParticle(0, 0.1, 0);
        model.positions.push_back(Vec3(1 + 0.15 * i, 0.05 * (i % 2), 0));
        if (i > 0)
            chain->addBond(atom - 1, atom, 0.158, 250000);
    }
    model.system.addForce(chain);
    // Ripples on whose tops the negative curvature is 1.5 times what the inertia makes up for. They are short, and the
    // particles heavy, so that forces are small: near singular matrices the particles would get faster than light.
    const double k = (indefinite ? 1e8 : 1000), height = (indefinite ? 1.5 / (beta * h * h * k * k) : 0);
    if (indefinite)
        for (int i = 0; i < model.system.getNumParticles(); i++)
            model.system.setParticleMass(i, 1e6 * model.system.getParticleMass(i));
    auto* ripples = new CustomExternalForce("mass*height*(cos(k*x)+cos(k*y)+cos(k*z))");
    ripples->addPerParticleParameter("mass");
    ripples->addGlobalParameter("height", height);
    ripples->addGlobalParameter("k", k);
    for (int i = 0; i < model.system.getNumParticles(); i++)
        ripples->addParticle(i, {model.system.getParticleMass(i)});
    model.system.addForce(ripples);
    for (int i : {0, 1, 3, 4})
        model.system.getForce(i).setForceGroup(stiffGroup);
    return model;
}

/** A step takes no memory beyond what the forces of OpenMM take, whatever the signs of the eigenvalues. */
void testNoMemoryIsAllocated(Platform& platform) {
    if (!canCountAllocations || isDevice(platform)) // transfers to and from a device take some
        return;
    const double h = 0.001;
    for (bool indefinite : {false, true})
        for (Method method : allMethods)
            for (int which : {0, 1}) {
                ZhangSkeelIntegrator integrator(h);
                // The geometry is so rough that a few steps are all it bears; noise of 300 K may be too much.
                ZhangSkeelLangevinIntegrator langevin(1e-6, 1, h);
                langevin.setRandomNumberSeed(5);
                ZhangSkeelIntegrator& tested = (which == 0 ? integrator : langevin);
                choose(tested, method);
                const Model model = makeRoughWaters(indefinite, h, tested.getBeta());
                Context context(model.system, tested, platform, deterministic(platform));
                context.setPositions(model.positions);
                context.setVelocities(makeVelocities(model.system, 300, 3));
                if (indefinite && method == ZhangSkeelIntegrator::StiffHessian) {
                    assertThrows([&] { tested.step(1); }, {"not positive definite"});
                    continue;
                }
                if (indefinite && method == ZhangSkeelIntegrator::Newmark)
                    continue; // its equations need not have a solution there
                tested.step(1);
                int numEvaluations = 0;
                assertTakesNoMemory(
                        std::string("3 steps, ") + names[method] + (which == 0 ? "" : ", Langevin") +
                                (indefinite ? ", indefinite" : ""),
                        [&] {
                            for (int i = 0; i < 3; i++) {
                                tested.step(1);
                                numEvaluations +=
                                        (method == ZhangSkeelIntegrator::Newmark ? tested.getNumNewtonIterations() : 1);
                            }
                        },
                        [&] { evaluateForces(context, numEvaluations); });
            }
}

/** A method that is impossible for a System stays so, step after step, until another one is set. */
void testRefusedMethodStaysRefused(Platform& platform) {
    const Model model = makeSoluteInRigidWater();
    ZhangSkeelIntegrator integrator(0.0005);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    integrator.step(1);
    const vector<Vec3> before = getPositions(context);
    for (int i = 0; i < 2; i++) {
        assertThrows([&] { integrator.setMethod(ZhangSkeelIntegrator::FullHessian); },
                     {"ZhangSkeelIntegrator", "constraint 0", "has stiff terms too"});
        ASSERT_EQUAL(ZhangSkeelIntegrator::StiffHessian, integrator.getMethod());
    }
    context.reinitialize(true);
    ASSERT(largestDifference(before, getPositions(context)) == 0);
    integrator.step(1);
    ASSERT_EQUAL(2, context.getStepCount());
}

} // namespace

int main(int argc, char* argv[]) {
    return checkOnPlatform(argc, argv,
                           {CLAIM(testOrderIsTwo), CLAIM(testSymplecticity), CLAIM(testSplitZhangSkeelIsSymplectic),
                            CLAIM(testReversible), CLAIM(testLinearStability), CLAIM(testAngularMomentum),
                            CLAIM(testLongRunOfTheDoublePendulum), CLAIM(testNewtonIterationsAreCounted),
                            CLAIM(testNewmarkWithForcesOfAnyPrecision), CLAIM(testJumpAtTheCutoffIsNamed),
                            CLAIM(testBondsToVirtualSitesAreSlow), CLAIM(testChangedParametersTakeEffect),
                            CLAIM(testCheckpoint), CLAIM(testErrors), CLAIM(testRefusedMethodStaysRefused),
                            CLAIM(testNoMemoryIsAllocated)});
}
