#include "OpenMMStiff.h"
#include "openmmstiff/StiffKernels.h"
#include "Statistics.h"
#include "Systems.h"
#include "PlatformTest.h"
#include "openmm/serialization/XmlSerializer.h"
#include <Eigen/Dense>
#include <dlfcn.h>
#include <memory>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using std::vector;

namespace {

double bondedEnergy(const vector<Vec3>& x) {
    const Vec3 a = x[1] - x[0], b = x[2] - x[0];
    const double ra = std::sqrt(a.dot(a)), rb = std::sqrt(b.dot(b));
    const double bend = std::acos(a.dot(b) / (ra * rb)) - waterAngle;
    const double stretchA = ra - bondLength, stretchB = rb - bondLength;
    return 0.5 * bondConstant * (stretchA * stretchA + stretchB * stretchB) + 0.5 * angleConstant * bend * bend;
}

/** Force and Hessian of a water's bonds and angle by differences of its energy, accurate to about 1e-6. */
void differentiate(vector<Vec3> x, Eigen::VectorXd& force, Eigen::MatrixXd& hessian) {
    const double d = 2e-5;
    auto energy = [&](int i, double di, int j, double dj) {
        vector<Vec3> moved = x;
        moved[i / 3][i % 3] += di;
        moved[j / 3][j % 3] += dj;
        return bondedEnergy(moved);
    };
    for (int i = 0; i < 9; i++) {
        force[i] =
                -(8 * (energy(i, d, i, 0) - energy(i, -d, i, 0)) - (energy(i, 2 * d, i, 0) - energy(i, -2 * d, i, 0))) /
                (12 * d);
        for (int j = 0; j < 9; j++)
            hessian(i, j) = (energy(i, d, j, d) - energy(i, d, j, -d) - energy(i, -d, j, d) + energy(i, -d, j, -d)) /
                            (4 * d * d);
    }
}

/** A step is Integrator 5 of Tao and Owhadi: compared with the equations, solved densely with difference quotients. */
void testStepIsIntegrator5(Platform& platform) {
    const double h = 0.003, beta = 0.3;
    Model model;
    model.positions = {Vec3(0, 0, 0), Vec3(0.1, 0.005, 0.01), Vec3(-0.03, 0.09, 0.003)};
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    auto* slow = new CustomExternalForce("a*x + b*y*y");
    slow->addGlobalParameter("a", 30);
    slow->addGlobalParameter("b", 700);
    const vector<double> masses = {oxygenMass, hydrogenMass, hydrogenMass};
    for (int i = 0; i < 3; i++) {
        model.system.addParticle(masses[i]);
        slow->addParticle(i);
    }
    bonds->addBond(0, 1, bondLength, bondConstant);
    bonds->addBond(2, 0, bondLength, bondConstant);
    angles->addAngle(1, 0, 2, waterAngle, angleConstant);
    model.system.addForce(slow);
    model.system.addForce(bonds);
    model.system.addForce(angles);

    auto acceleration = [&](const vector<Vec3>& x) {
        Eigen::VectorXd force(9);
        Eigen::MatrixXd hessian(9, 9);
        differentiate(x, force, hessian);
        Eigen::MatrixXd matrix = beta * h * h * hessian;
        for (int i = 0; i < 9; i++)
            matrix(i, i) += masses[i / 3];
        for (int i = 0; i < 3; i++) {
            force[3 * i] -= 30;
            force[3 * i + 1] -= 2 * 700 * x[i][1];
        }
        Eigen::VectorXd a = matrix.ldlt().solve(force);
        vector<Vec3> result;
        for (int i = 0; i < 3; i++)
            result.push_back(Vec3(a[3 * i], a[3 * i + 1], a[3 * i + 2]));
        return result;
    };
    vector<Vec3> x = model.positions, v = makeVelocities(model.system, 300, 1);
    ZhangSkeelIntegrator integrator(h);
    integrator.setBeta(beta);
    Context context(model.system, integrator, platform);
    context.setPositions(x);
    context.setVelocities(v);
    integrator.step(2);
    vector<Vec3> a = acceleration(x);
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < 3; i++)
            x[i] += v[i] * h + a[i] * (0.5 * h * h);
        const vector<Vec3> next = acceleration(x);
        for (int i = 0; i < 3; i++)
            v[i] += (a[i] + next[i]) * (0.5 * h);
        a = next;
    }
    // The difference quotients leave relative errors of 1e-6 in the forces, the CPU platform's forces some 1e-7.
    ASSERT(largestDifference(x, integrator.getPropagatedPositions()) < 1e-7);
    ASSERT(largestDifference(v, getVelocities(context)) < 2e-4);
    for (int i = 0; i < 3; i++)
        x[i] += a[i] * (beta * h * h);
    ASSERT(largestDifference(x, getPositions(context)) < 1e-7);
    ASSERT_EQUAL_TOL(2 * h, context.getTime(), 1e-12);
    ASSERT_EQUAL(2, context.getStepCount());
}

/** Reference positions and velocities of a cluster after a time, and those of a run with a given step size. */
struct Endpoint {
    vector<Vec3> x, v;
};

Endpoint runCluster(Platform& platform, const Model& model, double h, int numSteps) {
    ZhangSkeelIntegrator integrator(h);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 5));
    integrator.step(numSteps);
    return {integrator.getPropagatedPositions(), getVelocities(context)};
}

/**
 * The error in (x, v) is of order 2: halving h three times divides it by 4 each time. The CPU platform computes
 * nonbonded forces in single precision, whose noise would hide the smallest errors: there the waters do not interact.
 */
void testOrderIsTwo(Platform& platform) {
    Model model = makeWaterCluster(2);
    if (!hasPreciseForces(platform))
        model.system.removeForce(2);
    const double time = 0.032;
    // In single precision rounding hides the errors of small steps; those of larger ones are of order 2 only in x.
    const bool single = (getRounding(platform) == Rounding::Single);
    const Endpoint exact = runCluster(platformForManySteps(platform), model, time / 8192, 8192);
    vector<double> steps, xErrors, vErrors;
    for (int numSteps : single ? vector<int>{64, 128, 256, 512} : vector<int>{128, 256, 512, 1024}) {
        const Endpoint end = runCluster(platform, model, time / numSteps, numSteps);
        steps.push_back(time / numSteps);
        xErrors.push_back(largestDifference(end.x, exact.x));
        vErrors.push_back(largestDifference(end.v, exact.v));
    }
    std::cout << "order of the error in x " << logSlope(steps, xErrors) << ", in v " << logSlope(steps, vErrors)
              << ", h = " << 1000 * steps[0] << " to " << 1000 * steps.back() << " fs" << std::endl;
    ASSERT_EQUAL_TOL(2, logSlope(steps, xErrors), 0.05);
    if (!single)
        ASSERT_EQUAL_TOL(2, logSlope(steps, vErrors), 0.05);
}

/** From (x, -v) the same steps lead back. What is left is rounding, and the instability's growth of it. */
void testReversible(Platform& platform) {
    const Model model = makeWaterCluster(2);
    const double h = 0.002;
    const int numSteps = 100;
    ZhangSkeelIntegrator integrator(h);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    const vector<Vec3> start = makeVelocities(model.system, 300, 6);
    context.setVelocities(start);
    integrator.step(numSteps);
    vector<Vec3> reversed = getVelocities(context);
    for (Vec3& v : reversed)
        v *= -1;
    const vector<Vec3> turning = integrator.getPropagatedPositions();
    ASSERT(largestDifference(turning, model.positions) > 0.01);
    context.setPositions(turning);
    context.setVelocities(reversed);
    integrator.step(numSteps);
    const double error = largestDifference(integrator.getPropagatedPositions(), model.positions);
    std::cout << numSteps << " steps forth and back: back at the start within " << error << " nm" << std::endl;
    // Forces in double and in single precision; steps in single precision.
    ASSERT(error < byRounding(platform, hasPreciseForces(platform) ? 1e-10 : 1e-6, 1e-10, 1e-6, 1e-4));
}

/** Total momentum is kept to rounding: M + b h^2 H1 maps a common acceleration on the total force. */
void testMomentumIsKept(Platform& platform) {
    Model model = makeWaterCluster(2);
    if (!hasPreciseForces(platform))
        model.system.removeForce(2); // single precision forces do not sum to 0
    ZhangSkeelIntegrator integrator(0.003);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 7));
    const Vec3 before = momentum(model.system, getVelocities(context));
    integrator.step(1000);
    const Vec3 after = momentum(model.system, getVelocities(context));
    std::cout << "momentum after 1000 steps: changed by " << std::sqrt((after - before).dot(after - before)) << " of "
              << std::sqrt(before.dot(before)) << " dalton nm/ps" << std::endl;
    ASSERT_EQUAL_VEC(before, after, byRounding(platform, 1e-11, 1e-9, 1e-3));
}

/** The order in h of the error of the angular momentum after a given time. */
double angularMomentumOrder(Platform& platform, const Model& model, const vector<int>& numSteps) {
    const double time = 0.05;
    const Vec3 before = angularMomentum(model.system, model.positions, makeVelocities(model.system, 300, 5));
    vector<double> steps, errors;
    for (int n : numSteps) {
        const Endpoint end = runCluster(platform, model, time / n, n);
        const Vec3 error = angularMomentum(model.system, end.x, end.v) - before;
        steps.push_back(time / n);
        errors.push_back(std::sqrt(error.dot(error)));
    }
    const double order = logSlope(steps, errors);
    std::cout << "angular momentum of " << model.system.getNumParticles() / 3 << " water(s): error " << errors[0]
              << " to " << errors.back() << " dalton nm^2/ps at h = " << 1000 * steps[0] << " to "
              << 1000 * steps.back() << " fs, order " << order << std::endl;
    return order;
}

/**
 * The method is not variational: angular momentum is not kept. The torque of M a is -b h^2 x cross (H1 a), which
 * rotational invariance of V1 turns into b h^2 F1 cross a. It is of order 2 if slow forces act beside the stiff
 * ones. If all forces are stiff, F1 = M a + b h^2 H1 a is parallel to M a but for another factor h^2, and it is of
 * order 4.
 */
void testOrderOfTheAngularMomentumError(Platform& platform) {
    const Model molecule = makeWaterCluster(1), cluster = makeWaterCluster(2);
    if (hasSingleForces(platform))
        return; // single precision does not keep it either
    ASSERT_EQUAL_TOL(4, angularMomentumOrder(platform, molecule, {125, 250, 500, 1000}), 0.1);
    if (hasPreciseForces(platform)) // whose nonbonded forces, in single precision, do not keep it either
        ASSERT_EQUAL_TOL(2, angularMomentumOrder(platform, cluster, {100, 200, 400, 800}), 0.1);
}

/** With b = 0 the method is velocity Verlet, and q = x. */
void testBetaZeroIsVelocityVerlet(Platform& platform) {
    const Model model = makeWaterCluster(1);
    const double h = 0.0005;
    ZhangSkeelIntegrator integrator(h);
    integrator.setBeta(0);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 8));
    integrator.step(20);
    ASSERT(largestDifference(getPositions(context), integrator.getPropagatedPositions()) <= storeRounding(platform));
    // Leapfrog from the velocities half a step earlier is the same method.
    VerletIntegrator verlet(h);
    Context reference(model.system, verlet, platform);
    reference.setPositions(model.positions);
    vector<Vec3> v = makeVelocities(model.system, 300, 8);
    const vector<Vec3> forces = reference.getState(State::Forces).getForces();
    for (int i = 0; i < model.system.getNumParticles(); i++)
        v[i] -= forces[i] * (0.5 * h / model.system.getParticleMass(i));
    reference.setVelocities(v);
    verlet.step(20);
    ASSERT(largestDifference(getPositions(context), getPositions(reference)) < byRounding(platform, 1e-7, 1e-7, 1e-6));
}

/** The offset q - x is b h^2 a; new positions have none; energies asked for in between change nothing. */
void testPropagatedPositions(Platform& platform) {
    const Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator integrator(0.002), undisturbed(0.002);
    Context context(model.system, integrator, platform, deterministic(platform));
    Context other(model.system, undisturbed, platform, deterministic(platform));
    for (Context* c : {&context, &other}) {
        c->setPositions(model.positions);
        c->setVelocities(makeVelocities(model.system, 300, 9));
    }
    ASSERT(largestDifference(integrator.getPropagatedPositions(), model.positions) <= storeRounding(platform));
    for (int i = 0; i < 10; i++) {
        integrator.step(1);
        context.getState(State::Energy | State::Forces | State::Positions);
    }
    undisturbed.step(10);
    ASSERT(largestDifference(getPositions(context), getPositions(other)) <= copyRounding(platform));
    const double offset = largestDifference(integrator.getPropagatedPositions(), getPositions(context));
    ASSERT(offset > 1e-5 && offset < 0.01);
    context.setPositions(getPositions(context));
    ASSERT(largestDifference(integrator.getPropagatedPositions(), getPositions(context)) == 0);
}

/** A run resumed from a checkpoint, in the same or a new Context, is bit for bit the run that went on. */
void testCheckpoint(Platform& platform) {
    const Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator integrator(0.002);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 10));
    integrator.step(10);
    std::stringstream checkpoint;
    context.createCheckpoint(checkpoint);
    const State saved = context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
    integrator.step(10);
    const vector<Vec3> x = integrator.getPropagatedPositions(), q = getPositions(context), v = getVelocities(context);
    auto assertResumed = [&](Context& c, ZhangSkeelIntegrator& i, double tolerance) {
        i.step(10);
        ASSERT(largestDifference(x, i.getPropagatedPositions()) <= tolerance);
        ASSERT(largestDifference(q, getPositions(c)) <= tolerance);
        ASSERT(largestDifference(v, getVelocities(c)) <= tolerance);
    };
    context.loadCheckpoint(checkpoint);
    assertResumed(context, integrator, 0);
    ZhangSkeelIntegrator fresh(0.002);
    Context newContext(model.system, fresh, platform, deterministic(platform));
    checkpoint.clear();
    checkpoint.seekg(0);
    newContext.loadCheckpoint(checkpoint);
    assertResumed(newContext, fresh, 0);
    newContext.setState(saved);
    assertResumed(newContext, fresh, copyRounding(platform));
    // Positions set after a checkpoint was loaded are new ones.
    checkpoint.clear();
    checkpoint.seekg(0);
    newContext.loadCheckpoint(checkpoint);
    newContext.setPositions(getPositions(newContext));
    ASSERT(largestDifference(fresh.getPropagatedPositions(), getPositions(newContext)) == 0);
}

/** reinitialize(true) goes on from the same state, with what has changed in the System. */
void testReinitialize(Platform& platform) {
    Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator integrator(0.002), other(0.002);
    Context context(model.system, integrator, platform, deterministic(platform));
    Context unchanged(model.system, other, platform, deterministic(platform));
    for (Context* c : {&context, &unchanged}) {
        c->setPositions(model.positions);
        c->setVelocities(makeVelocities(model.system, 300, 11));
    }
    integrator.step(10);
    other.step(10);
    context.reinitialize(true);
    integrator.step(10);
    other.step(10);
    ASSERT(largestDifference(getPositions(context), getPositions(unchanged)) <= copyRounding(platform));
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    for (int i = 0; i < bonds.getNumBonds(); i++) {
        int p1, p2;
        double length, k;
        bonds.getBondParameters(i, p1, p2, length, k);
        bonds.setBondParameters(i, p1, p2, length, 0.5 * k);
    }
    const vector<Vec3> x = integrator.getPropagatedPositions(), v = getVelocities(context);
    context.reinitialize(true);
    ASSERT(largestDifference(x, integrator.getPropagatedPositions()) == 0);
    integrator.step(1);
    ZhangSkeelIntegrator newIntegrator(0.002);
    Context newContext(model.system, newIntegrator, platform, deterministic(platform));
    newContext.setPositions(x);
    newContext.setVelocities(v);
    newIntegrator.step(1);
    ASSERT(largestDifference(getPositions(context), getPositions(newContext)) <= copyRounding(platform));
}

/**
 * Each change between steps has the effect that it would have in a new Context that starts at the same (x, v):
 * nothing stale is used. (That nothing is recomputed without cause is tested from Python, where force evaluations
 * can be counted.)
 */
void testChangesTakeEffect(Platform& platform) {
    Model model = makeWaterCluster(2);
    auto* external = new CustomExternalForce("scale*x^2");
    external->addGlobalParameter("scale", 0);
    external->addParticle(0);
    model.system.addForce(external);
    // A periodic force makes the box matter.
    auto* periodic = new CustomBondForce("20*r^2");
    periodic->addBond(0, 3);
    periodic->setUsesPeriodicBoundaryConditions(true);
    model.system.addForce(periodic);
    const int group = 7;
    periodic->setForceGroup(group);
    ZhangSkeelIntegrator integrator(0.002);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 12));
    integrator.step(5);

    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    auto assertEffect = [&](const std::function<void()>& change) {
        std::stringstream before;
        context.createCheckpoint(before);
        integrator.step(2);
        const vector<Vec3> without = getPositions(context);
        context.loadCheckpoint(before);
        integrator.step(1); // makes the accelerations known at x, as they are in the middle of a run
        const vector<Vec3> x = integrator.getPropagatedPositions(), v = getVelocities(context);
        change();
        integrator.step(1);
        ZhangSkeelIntegrator fresh(integrator.getStepSize());
        fresh.setBeta(integrator.getBeta());
        fresh.setIntegrationForceGroups(integrator.getIntegrationForceGroups());
        if (!integrator.getUseDefaultStiffForceGroups())
            fresh.setStiffForceGroups(integrator.getStiffForceGroups());
        Context newContext(model.system, fresh, platform, deterministic(platform));
        Vec3 a, b, c;
        context.getState(0).getPeriodicBoxVectors(a, b, c);
        newContext.setPeriodicBoxVectors(a, b, c);
        newContext.setParameter("scale", context.getParameter("scale"));
        newContext.setPositions(x);
        newContext.setVelocities(v);
        fresh.step(1);
        ASSERT(largestDifference(getPositions(newContext), getPositions(context)) <= copyRounding(platform));
        ASSERT(largestDifference(getPositions(context), without) > 1e-9); // there is an effect
    };
    assertEffect([&] { integrator.setStepSize(0.001); });
    assertEffect([&] { integrator.setBeta(0.5); });
    assertEffect([&] { context.setParameter("scale", 100.0); });
    assertEffect([&] { context.setPeriodicBoxVectors(Vec3(0.5, 0, 0), Vec3(0, 0.5, 0), Vec3(0, 0, 0.5)); });
    assertEffect([&] { integrator.setIntegrationForceGroups(~(1 << group)); });
    assertEffect([&] {
        bonds.setBondParameters(0, 0, 1, 0.1, 2 * bondConstant);
        bonds.updateParametersInContext(context);
    });
    assertEffect([&] {
        model.system.getForce(0).setForceGroup(3);
        context.reinitialize(true);
        integrator.setStiffForceGroups(1 << 3);
    });
}

/** A failed step throws an error that says what and where, and leaves the state as it was; a smaller step goes on. */
void testFailedStepKeepsTheState(Platform& platform) {
    Model model = makeWaterCluster(1);
    model.system.removeForce(2);
    // An angle far from equilibrium has a negative curvature out of the plane and along the bonds.
    model.positions[2] = Vec3(-0.0957, 0.002, 0);
    model.positions[1] = Vec3(0.0957, 0.002, 0);
    model.positions[0] = Vec3(0, 0, 0);
    ZhangSkeelIntegrator integrator(0.0001);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 13));
    integrator.step(1);
    const vector<Vec3> x = integrator.getPropagatedPositions(), q = getPositions(context), v = getVelocities(context);
    integrator.setStepSize(0.1);
    assertThrows([&] { integrator.step(1); },
                 {"ZhangSkeelIntegrator", "0, 1, 2", "0.1 ps", "positive definite", "smaller step size", "softer"});
    ASSERT(largestDifference(x, integrator.getPropagatedPositions()) == 0);
    ASSERT(largestDifference(q, getPositions(context)) == 0);
    ASSERT(largestDifference(v, getVelocities(context)) == 0);
    ASSERT_EQUAL(1, context.getStepCount());
    integrator.setStepSize(0.0001);
    integrator.step(1);
    ASSERT_EQUAL(2, context.getStepCount());
    // Forces that are not numbers.
    vector<Vec3> bad = v;
    bad[0] = Vec3(std::nan(""), 0, 0);
    context.setVelocities(bad);
    bool thrown = false;
    try {
        integrator.step(1);
    }
    catch (const OpenMMException&) {
        thrown = true;
    }
    ASSERT(thrown);
    context.setVelocities(v);
    integrator.step(1);
}

/** What cannot be integrated is refused with an error that names it and a remedy; the integrator stays usable. */
void testErrors(Platform& platform) {
    Model constrained = makeWaterCluster(1);
    constrained.system.addConstraint(0, 1, bondLength);
    ZhangSkeelIntegrator integrator(0.002);
    assertThrows([&] { Context context(constrained.system, integrator, platform); },
                 {"ZhangSkeelIntegrator", "constraint 0", "particles 0 and 1", "rigidWater=False"});
    integrator.setStiffForceGroups(1);
    Model model = makeWaterCluster(1);
    cutOff(model);
    assertThrows([&] { Context context(model.system, integrator, platform); },
                 {"ZhangSkeelIntegrator", "NonbondedForce", "group 0", "setForceGroup"});
    integrator.setStiffForceGroups(1 << 5);
    assertThrows([&] { Context context(model.system, integrator, platform); }, {"ZhangSkeelIntegrator", "stiff"});
    ASSERT(!integrator.getUseDefaultStiffForceGroups());
    integrator.setUseDefaultStiffForceGroups(true);
    assertThrows([&] { integrator.setUseDefaultStiffForceGroups(false); }, {"setStiffForceGroups()"});
    ASSERT(integrator.getUseDefaultStiffForceGroups());
    assertThrows([&] { integrator.step(1); }, {"not bound"});
    Context context(model.system, integrator, platform);
    assertThrows([&] { integrator.step(1); }, {"positions have not been set"});
    assertThrows([&] { Context second(model.system, integrator, platform); }, {"already bound"});
    assertThrows([&] { integrator.setStepSize(-1); }, {"negative"});
    assertThrows([&] { integrator.setBeta(-0.1); }, {"beta", "-0.1"});
    // Changed to something impossible in mid-run: an error, and back again it goes on.
    context.setPositions(model.positions);
    integrator.step(1);
    integrator.setStiffForceGroups(1);
    assertThrows([&] { integrator.step(1); }, {"NonbondedForce"});
    integrator.setUseDefaultStiffForceGroups(true);
    integrator.step(1);
    ASSERT_EQUAL(2, context.getStepCount());
}

/** Rigid waters beside a flexible solute: constraints hold in positions and velocities, and show x itself. */
void testConstraintsOutsideTheStiffTerms(Platform& platform) {
    const Model model = makeSoluteInRigidWater();
    const int first = model.system.getNumParticles() - 3; // the solute
    ZhangSkeelIntegrator integrator(0.0005);
    integrator.setConstraintTolerance(1e-8);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 14));
    context.applyVelocityConstraints(1e-8);
    const State before = context.getState(State::Energy);
    integrator.step(400);
    const State after = context.getState(State::Energy | State::Positions | State::Velocities);
    const vector<Vec3>&q = after.getPositions(), &v = after.getVelocities();
    for (int i = 0; i < model.system.getNumConstraints(); i++) {
        int p1, p2;
        double distance;
        model.system.getConstraintParameters(i, p1, p2, distance);
        const Vec3 r = q[p1] - q[p2];
        ASSERT_EQUAL_TOL(1, std::sqrt(r.dot(r)) / distance, 1e-6); // SETTLE's own accuracy
        ASSERT_EQUAL_TOL(0, r.dot(v[p1] - v[p2]) / distance, 1e-6 + 10 * storeRounding(platform));
    }
    const vector<Vec3> x = integrator.getPropagatedPositions();
    ASSERT(largestDifference(vector<Vec3>(x.begin(), x.begin() + first), vector<Vec3>(q.begin(), q.begin() + first)) <=
           storeRounding(platform));
    ASSERT(largestDifference(x, q) > 0);
    const double energyBefore = before.getKineticEnergy() + before.getPotentialEnergy();
    const double energyAfter = after.getKineticEnergy() + after.getPotentialEnergy();
    ASSERT_EQUAL_TOL(0, energyAfter - energyBefore, 0.3);
}

/** Massless particles stay, whatever their velocity; virtual sites follow their molecules, at q. */
void testMasslessParticlesAndVirtualSites(Platform& platform) {
    const Model model = makeWaterWithSiteAndAnchor();
    const int site = 3, anchor = 4;
    ZhangSkeelIntegrator integrator(0.002);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.computeVirtualSites();
    vector<Vec3> velocities = makeVelocities(model.system, 300, 15);
    velocities[anchor] = Vec3(1, 2, 3);
    context.setVelocities(velocities);
    integrator.step(100);
    const vector<Vec3> q = getPositions(context), x = integrator.getPropagatedPositions();
    ASSERT_EQUAL_VEC(model.positions[anchor], q[anchor], storeRounding(platform));
    ASSERT_EQUAL_VEC(q[0] * 0.7 + q[1] * 0.15 + q[2] * 0.15, q[site], siteRounding(platform));
    ASSERT_EQUAL_VEC(x[0] * 0.7 + x[1] * 0.15 + x[2] * 0.15, x[site], siteRounding(platform));
    ASSERT(largestDifference(q, x) > 0);
}

/** A particle that is made massless in mid-run stays where the Context shows it, to the bit if that keeps bits. */
void testParticlesMadeMasslessStay(Platform& platform) {
    Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator integrator(0.002);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 17));
    integrator.step(20);
    ASSERT(largestDifference(getPositions(context), integrator.getPropagatedPositions()) > 1e-6);
    for (int i : {0, 4, 5})
        model.system.setParticleMass(i, 0);
    const State state = context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
    context.reinitialize(true);
    for (int restored : {0, 1}) {
        if (restored)
            context.setState(state);
        const vector<Vec3> before = getPositions(context);
        integrator.step(5);
        const vector<Vec3> after = getPositions(context), x = integrator.getPropagatedPositions();
        for (int i : {0, 4, 5}) {
            ASSERT_EQUAL_VEC(before[i], after[i], storeRounding(platform));
            ASSERT_EQUAL_VEC(before[i], x[i], storeRounding(platform));
        }
        ASSERT(largestDifference(before, after) > 1e-4);
    }
}

/** After a barostat move the offset is kept, particle by particle. */
void testBarostatKeepsTheOffset(Platform& platform) {
    Model model = makeWaterCluster(3);
    const double edge = 0.95;
    model.system.setDefaultPeriodicBoxVectors(Vec3(edge, 0, 0), Vec3(0, edge, 0), Vec3(0, 0, edge));
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    nonbonded.setNonbondedMethod(NonbondedForce::CutoffPeriodic);
    nonbonded.setCutoffDistance(0.4);
    auto* barostat = new MonteCarloBarostat(1, 300, 1);
    barostat->setRandomNumberSeed(3);
    model.system.addForce(barostat);
    ZhangSkeelIntegrator integrator(0.002);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 17));
    int numMoves = 0;
    for (int i = 0; i < 20; i++) {
        integrator.step(1);
        Vec3 a, b, c;
        context.getState(0).getPeriodicBoxVectors(a, b, c);
        const vector<Vec3> offsetBefore = integrator.getPropagatedPositions(), q = getPositions(context);
        const vector<Vec3> v = getVelocities(context);
        // The same step without a barostat: from x moved with its molecule, in the new box.
        integrator.step(1);
        Vec3 newA, newB, newC;
        context.getState(0).getPeriodicBoxVectors(newA, newB, newC);
        if (newA == a)
            continue;
        numMoves++;
        std::unique_ptr<System> plain(XmlSerializer::clone(model.system));
        plain->removeForce(3);
        ZhangSkeelIntegrator fresh(0.002);
        Context newContext(*plain, fresh, platform, deterministic(platform));
        newContext.setPeriodicBoxVectors(newA, newB, newC);
        vector<Vec3> moved;
        for (int mol = 0; mol < 27; mol++) {
            // The barostat scales the centre of each molecule's particles, of q.
            const Vec3 center = (q[3 * mol] + q[3 * mol + 1] + q[3 * mol + 2]) / 3;
            Vec3 image = center;
            for (int j = 0; j < 3; j++)
                image[j] -= std::floor(center[j] / a[0]) * a[0];
            const Vec3 shift = image * (newA[0] / a[0]) - center;
            for (int k = 0; k < 3; k++)
                moved.push_back(offsetBefore[3 * mol + k] + shift);
        }
        newContext.setPositions(moved);
        newContext.setVelocities(v);
        fresh.step(1);
        const vector<Vec3> vAfter = getVelocities(context), vExpected = getVelocities(newContext);
        ASSERT(largestDifference(vExpected, vAfter) < 1e-3);
    }
    ASSERT(numMoves > 3);
}

/** In a CompoundIntegrator another integrator moves the positions: they are adopted as they are. */
void testCompoundIntegrator(Platform& platform) {
    const Model model = makeWaterCluster(2);
    CompoundIntegrator compound;
    auto* stiff = new ZhangSkeelIntegrator(0.002);
    compound.addIntegrator(stiff);
    compound.addIntegrator(new VerletIntegrator(0.0005));
    Context context(model.system, compound, platform, deterministic(platform));
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 18));
    compound.step(5);
    compound.setCurrentIntegrator(1);
    compound.step(5);
    const vector<Vec3> q = getPositions(context), v = getVelocities(context);
    ASSERT(largestDifference(q, stiff->getPropagatedPositions()) == 0);
    compound.setCurrentIntegrator(0);
    compound.step(3);
    ZhangSkeelIntegrator alone(0.002);
    Context reference(model.system, alone, platform, deterministic(platform));
    reference.setPositions(q);
    reference.setVelocities(v);
    alone.step(3);
    ASSERT(largestDifference(getPositions(reference), getPositions(context)) == 0);
}

} // namespace

int main(int argc, char* argv[]) {
    return checkOnPlatform(argc, argv,
                           {CLAIM(testStepIsIntegrator5), CLAIM(testOrderIsTwo), CLAIM(testReversible),
                            CLAIM(testMomentumIsKept), CLAIM(testOrderOfTheAngularMomentumError),
                            CLAIM(testBetaZeroIsVelocityVerlet), CLAIM(testPropagatedPositions), CLAIM(testCheckpoint),
                            CLAIM(testReinitialize), CLAIM(testChangesTakeEffect), CLAIM(testFailedStepKeepsTheState),
                            CLAIM(testErrors), CLAIM(testConstraintsOutsideTheStiffTerms),
                            CLAIM(testMasslessParticlesAndVirtualSites), CLAIM(testParticlesMadeMasslessStay),
                            CLAIM(testBarostatKeepsTheOffset), CLAIM(testCompoundIntegrator)});
}
