/**
 * ZhangSkeelIntegrator: the step, the positions that it hides, and the methods of the family; what Tao and Owhadi
 * (2014) claim of each, and what they deny. See TestMethods for what they have in common with others.
 */

#include "IntegratorTest.h"

namespace {

using Method = ZhangSkeelIntegrator::Method;

/** The energy of the bonds and the angle of makeWaterInField(), and that of its field. */
double stiffEnergy(const VectorXd& x) {
    const Eigen::Vector3d a = x.segment<3>(3) - x.segment<3>(0), b = x.segment<3>(6) - x.segment<3>(0);
    const double bend = std::acos(a.dot(b) / (a.norm() * b.norm())) - waterAngle;
    const double stretchA = a.norm() - bondLength, stretchB = b.norm() - bondLength;
    return 0.5 * bondConstant * (stretchA * stretchA + stretchB * stretchB) + 0.5 * angleConstant * bend * bend;
}

double slowEnergy(const VectorXd& x) {
    double sum = 0;
    for (int i = 0; i < 9; i += 3)
        sum += 300 * x[i] * x[i + 1] + 200 * std::sin(8 * x[i + 2]) + 2000 * x[i] * x[i + 2] * x[i + 2];
    return sum;
}

template <double (*energy)(const VectorXd&)> VectorXd gradient(const VectorXd& x) {
    return differentiate(x, 2e-5, [](const VectorXd& at) { return VectorXd::Constant(1, energy(at)); }).transpose();
}

/**
 * A step is Integrator 5 of Tao and Owhadi, which with b = 0 is velocity Verlet: compared with the equations, solved
 * densely with difference quotients.
 */
CLAIM(testStepIsIntegrator5, Platform& platform) {
    const double h = 0.003;
    const Model model = makeWaterInField();
    VectorXd mass(9);
    mass << oxygenMass, oxygenMass, oxygenMass, VectorXd::Constant(6, hydrogenMass);
    for (double beta : {0.3, 0.0}) {
        auto acceleration = [&](const VectorXd& x) {
            MatrixXd matrix = beta * h * h * differentiate(x, 2e-5, gradient<stiffEnergy>);
            matrix.diagonal() += mass;
            return solveDense(matrix, -gradient<stiffEnergy>(x) - gradient<slowEnergy>(x));
        };
        const vector<Vec3> velocities = makeVelocities(model.system, 300, 1);
        VectorXd x = toVector(model.positions), v = toVector(velocities);
        ZhangSkeelIntegrator integrator(h);
        integrator.setBeta(beta);
        ModelContext context(model, integrator, platform);
        context.setVelocities(velocities);
        integrator.step(2);
        VectorXd a = acceleration(x);
        for (int step = 0; step < 2; step++) {
            x += h * v + 0.5 * h * h * a;
            const VectorXd next = acceleration(x);
            v += 0.5 * h * (a + next);
            a = next;
        }
        // The difference quotients leave relative errors of 1e-6 in the forces, the CPU platform's forces some 1e-7.
        const vector<Vec3> shown = getPositions(context), propagated = integrator.getPropagatedPositions();
        ASSERT(largestDifference(toVec3s(x), propagated) < 1e-7);
        ASSERT(largestDifference(toVec3s(v), getVelocities(context)) < 2e-4);
        ASSERT(largestDifference(toVec3s(x + beta * h * h * a), shown) < 1e-7);
        ASSERT(beta > 0 || largestDifference(shown, propagated) <= storeRounding(platform));
        ASSERT_EQUAL_TOL(2 * h, context.getTime(), 1e-12);
        ASSERT_EQUAL(2, context.getStepCount());
    }
}

/** The offset q - x is b h^2 a; new positions have none; energies asked for in between change nothing. */
CLAIM(testPropagatedPositions, Platform& platform) {
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
    // So it is after a checkpoint, which has the offset.
    copyState(other, context);
    ASSERT(largestDifference(integrator.getPropagatedPositions(), undisturbed.getPropagatedPositions()) == 0);
    context.setPositions(getPositions(context));
    ASSERT(largestDifference(integrator.getPropagatedPositions(), getPositions(context)) == 0);
}

/** Settings, and parameters of stiff terms and of the Context, may change between steps. */
CLAIM(testChangesTakeEffect, Platform& platform) {
    Model model = makeWaterCluster(2);
    model.system.getForce(1).setForceGroup(3); // the angles
    ZhangSkeelIntegrator integrator(0.002);
    ModelContext context(model, integrator, platform, deterministic(platform));
    context.setVelocities(makeVelocities(model.system, 300, 12));
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    const vector<std::function<void()>> changes = {
            [&] { integrator.setBeta(0.5); },
            [&] {
                bonds.setBondParameters(0, 0, 1, 0.1, 2 * bondConstant);
                bonds.updateParametersInContext(context);
            },
            [&] { integrator.setStiffForceGroups(1 << 3); },
            [&] {
                for (int i = 0; i < bonds.getNumBonds(); i++)
                    bonds.setBondParameters(i, i / 2 * 3, i / 2 * 3 + 1 + i % 2, bondLength, 0.5 * bondConstant);
                context.reinitialize(true);
            },
    };
    for (const auto& change : changes)
        assertTakesEffect(context, copyRounding(platform), [&] {
            const vector<Vec3> x = integrator.getPropagatedPositions();
            change();
            ASSERT(x == integrator.getPropagatedPositions());
        });
    for (const auto& [name, method, is] : zhangSkeelMethods) {
        Model pendulum = makeDoublePendulum(20);
        ZhangSkeelIntegrator ofPendulum(0.02);
        choose(ofPendulum, method);
        ModelContext contextOfPendulum(pendulum, ofPendulum, platform);
        auto& penalty = dynamic_cast<CustomBondForce&>(pendulum.system.getForce(0));
        assertTakesEffect(contextOfPendulum, 1e-12, [&] {
            penalty.setGlobalParameterDefaultValue(0, 30);
            contextOfPendulum.setParameter("w", 30);
        });
        assertTakesEffect(contextOfPendulum, 1e-12, [&] {
            penalty.setBondParameters(1, 1, 2, {1.3});
            penalty.updateParametersInContext(contextOfPendulum);
        });
    }
}

/** A step with an indefinite matrix says what and where, and leaves the state as it was; a smaller step goes on. */
CLAIM(testFailedStepKeepsTheState, Platform& platform) {
    Model model = makeLoneWaters(1);
    // An angle far from equilibrium has a negative curvature out of the plane and along the bonds.
    model.positions = {Vec3(), Vec3(0.0957, 0.002, 0), Vec3(-0.0957, 0.002, 0)};
    ZhangSkeelIntegrator integrator(0.0001);
    ModelContext context(model, integrator, platform);
    context.setVelocities(makeVelocities(model.system, 300, 13));
    integrator.step(1);
    integrator.setStepSize(0.1);
    assertRefusedWithoutChange(
            context, 1,
            {"ZhangSkeelIntegrator", "0, 1, 2", "0.1 ps", "positive definite", "smaller step size", "softer"});
    integrator.setStepSize(0.0001);
    integrator.step(1);
    ASSERT_EQUAL(2, context.getStepCount());
}

/** A particle that is made massless in mid-run stays where the Context shows it, to the bit if that keeps bits. */
CLAIM(testParticlesMadeMasslessStay, Platform& platform) {
    Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator integrator(0.002);
    ModelContext context(model, integrator, platform);
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
CLAIM(testBarostatKeepsTheOffset, Platform& platform) {
    Model model = makeWaterCluster(3);
    auto cube = [](double edge) { return std::array{Vec3(edge, 0, 0), Vec3(0, edge, 0), Vec3(0, 0, edge)}; };
    const auto [a, b, c] = cube(0.95);
    model.system.setDefaultPeriodicBoxVectors(a, b, c);
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    nonbonded.setNonbondedMethod(NonbondedForce::CutoffPeriodic);
    nonbonded.setCutoffDistance(0.4);
    const std::unique_ptr<System> plain(XmlSerializer::clone(model.system));
    auto* barostat = new MonteCarloBarostat(1, 300, 1);
    barostat->setRandomNumberSeed(3);
    model.system.addForce(barostat);
    ZhangSkeelIntegrator integrator(0.002);
    ModelContext context(model, integrator, platform, deterministic(platform));
    context.setVelocities(makeVelocities(model.system, 300, 17));
    auto getEdge = [&] { return std::cbrt(context.getState(0).getPeriodicBoxVolume()); };
    int numMoves = 0;
    for (int i = 0; i < 20; i++) {
        integrator.step(1);
        const double edge = getEdge();
        const vector<Vec3> q = getPositions(context), v = getVelocities(context);
        vector<Vec3> moved = integrator.getPropagatedPositions();
        integrator.step(1);
        const double newEdge = getEdge();
        if (newEdge == edge)
            continue;
        numMoves++;
        // The same step without a barostat: from x moved with its molecule, in the new box.
        for (size_t o = 0; o < q.size(); o += 3) {
            // The barostat scales the centre of each molecule's particles, of q.
            const Vec3 center = (q[o] + q[o + 1] + q[o + 2]) / 3;
            Vec3 image = center;
            for (int j = 0; j < 3; j++)
                image[j] -= std::floor(center[j] / edge) * edge;
            for (int k = 0; k < 3; k++)
                moved[o + k] += image * (newEdge / edge) - center;
        }
        ZhangSkeelIntegrator fresh(0.002);
        Context newContext(*plain, fresh, platform, deterministic(platform));
        const auto [newA, newB, newC] = cube(newEdge);
        newContext.setPeriodicBoxVectors(newA, newB, newC);
        newContext.setPositions(moved);
        newContext.setVelocities(v);
        fresh.step(1);
        ASSERT(largestDifference(getVelocities(newContext), getVelocities(context)) < 1e-3);
    }
    ASSERT(numMoves > 3);
}

/** The tightest tolerance of Newton's method: with rounded forces, where they allow no more. */
double findTolerance(Platform& platform) {
    return byRounding(platform, 1e-12, 0.0, 0.0);
}

/** The largest excursion of an oscillator with h^2 k / m = Omega^2, which begins at x = 1; it ends at 1e3. */
double excursion(Platform& platform, Method method, double beta, double Omega, int numSteps) {
    System system = makeParticles({2});
    const double h = 0.01;
    addExternal(system, "0.5*m*omega^2*x^2", {{"omega", Omega / h}}).setForceGroup(stiffGroup);
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
CLAIM(testLinearStability, Platform& platform) {
    for (const auto& [name, method, is] : zhangSkeelMethods) {
        for (double beta : {0.25, 0.4})
            for (double Omega : {0.1, 1.0, 10.0, 100.0, 1e3, 1e4})
                // No device can hold the force of the last one.
                ASSERT((isDevice(platform) && Omega == 1e4) || excursion(platform, method, beta, Omega, 3000) < 1.001);
        ASSERT(excursion(platform, method, 0.2, std::sqrt(19.8), 3000) < 20);
        ASSERT(excursion(platform, method, 0.2, std::sqrt(20.2), 3000) > 1e3);
    }
}

/**
 * The angular momentum about the origin, in (x, v), is kept by methods that are symplectic. The others are not
 * variational: the torque of M a is -b h^2 x cross (H1 a), which rotational invariance of V1 turns into b h^2 F1 cross
 * a. The error is of order 2 if slow forces act beside the stiff ones. If all forces are stiff, F1 = M a + b h^2 H1 a
 * is parallel to M a but for another factor h^2, and it is of order 4; that of one Newton iteration is of order 2, that
 * of the method.
 */
CLAIM(testAngularMomentum, Platform& platform) {
    for (bool slowForces : {false, true}) {
        if (slowForces && !hasPreciseForces(platform))
            continue; // nonbonded forces in single precision do not keep it either
        Model model = slowForces ? makeWaterCluster(2) : makeLoneWaters(1);
        for (int f = 0; f < 2; f++)
            model.system.getForce(f).setForceGroup(stiffGroup);
        const vector<Vec3> velocities = makeVelocities(model.system, 300, 5);
        const Vec3 before = angularMomentum(model.system, model.positions, velocities);
        const double time = 0.05;
        for (const auto& [name, method, is] : zhangSkeelMethods) {
            if (slowForces && method != ZhangSkeelIntegrator::StiffHessian)
                continue;
            vector<double> steps, errors;
            for (int numSteps : {125, 250, 500, 1000}) {
                ZhangSkeelIntegrator integrator(time / numSteps);
                choose(integrator, method);
                integrator.setNewtonTolerance(findTolerance(platform));
                ModelContext context(model, integrator, platform);
                context.setVelocities(velocities);
                double largest = 0;
                for (int part = 0; part < 25; part++) {
                    integrator.step(numSteps / 25);
                    const Vec3 error =
                            angularMomentum(model.system, integrator.getPropagatedPositions(), getVelocities(context)) -
                            before;
                    largest = std::max(largest, norm(error) / norm(before));
                }
                steps.push_back(time / numSteps);
                errors.push_back(largest);
            }
            const double order = logSlope(steps, errors);
            std::cout << name << ": angular momentum of " << model.system.getNumParticles() / 3
                      << " water(s) changed by " << errors[0] << " of itself at h = " << 1000 * steps[0]
                      << " fs, order " << order << std::endl;
            if (is.symplectic) {
                ASSERT(*std::max_element(errors.begin(), errors.end()) < byRounding(platform, 1e-10, 1e-9, 1e-5));
            }
            else if (!hasSingleForces(platform)) {
                ASSERT_EQUAL_TOL(slowForces || method == ZhangSkeelIntegrator::NewmarkOneIteration ? 2 : 4, order,
                                 slowForces ? 0.1 : 0.05);
            }
        }
    }
}

/** Over long runs the energy of ZhangSkeel stays, that of the one Newton iteration does not. */
CLAIM(testLongRunOfTheDoublePendulum, Platform& platform) {
    const Model model = makeDoublePendulum();
    const int numSamples = 1000, numSteps = 100;
    for (Method method : {ZhangSkeelIntegrator::ThirdDerivatives, ZhangSkeelIntegrator::NewmarkOneIteration}) {
        ZhangSkeelIntegrator integrator(0.05);
        choose(integrator, method);
        integrator.setBeta(0.4);
        ModelContext context(model, integrator, platform);
        double early = 0, late = 0;
        const std::string error = catchMessage([&] {
            for (int i = 0; i < numSamples; i++) {
                integrator.step(numSteps);
                (i < numSamples / 2 ? early : late) += totalEnergy(context) / (numSamples / 2);
            }
        });
        std::cout << zhangSkeelMethods[method].name << ": mean energy " << early << " in the first half of "
                  << numSamples * numSteps << " steps, " << late << " in the second " << error << std::endl;
        const double change = (error.empty() ? std::abs(late - early) : INFINITY);
        ASSERT(method == ZhangSkeelIntegrator::ThirdDerivatives ? change < 0.05 : !(change < 0.5));
    }
}

/** Newton's iterations are counted; the other methods have none. */
CLAIM(testNewtonIterationsAreCounted, Platform& platform) {
    const Model model = makeDoublePendulum();
    ZhangSkeelIntegrator integrator(0.05);
    choose(integrator, ZhangSkeelIntegrator::StiffHessian);
    assertThrows([&] { integrator.getNumNewtonIterations(); }, {"not bound"});
    ModelContext context(model, integrator, platform);
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
CLAIM(testNewmarkWithForcesOfAnyPrecision, Platform& platform) {
    const Model model = makeWaterCluster(3);
    ZhangSkeelIntegrator integrator(0.001);
    ASSERT_EQUAL(0, integrator.getNewtonTolerance());
    integrator.setMethod(ZhangSkeelIntegrator::Newmark);
    ModelContext context(model, integrator, platform);
    context.setVelocities(makeVelocities(model.system, 100, 5));
    integrator.step(1);
    const double before = totalEnergy(context), kinetic = kineticEnergy(context);
    int most = integrator.getNumNewtonIterations();
    for (int i = 0; i < 200; i++) {
        integrator.step(1);
        most = std::max(most, integrator.getNumNewtonIterations());
    }
    const double change = totalEnergy(context) - before;
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
CLAIM(testJumpAtTheCutoffIsNamed, Platform& platform) {
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
        const std::string message = catchMessage([&] { integrator.step(1); });
        assertHasWords(message, {"ZhangSkeelIntegrator", "not converged", "'Repulsion' (index 0", "jumps at its cutoff",
                                 "setUseSwitchingFunction()"});
        ASSERT(message.find("inf ") == std::string::npos && message.find("nan") == std::string::npos);
        ASSERT(largestDifference(positions, getPositions(context)) <= storeRounding(platform));
    }
}

/** A resumed run goes on bit for bit. */
CLAIM(testCheckpoint, Platform& platform) {
    const Model model = makeDoublePendulum();
    for (const auto& [name, method, is] : zhangSkeelMethods) {
        ZhangSkeelIntegrator integrator(0.02);
        choose(integrator, method);
        ModelContext context(model, integrator, platform);
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

CLAIM(testErrors, Platform& platform) {
    ZhangSkeelIntegrator integrator(0.001);
    assertThrows([&] { integrator.setBeta(-0.1); }, {"beta", "-0.1"});
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
    // Where a force of stiff groups is F1, all of it has to have a Hessian. The method is ThirdDerivatives still.
    Model bound = makeWaterWithBoundSite(true);
    bound.system.getForce(2).setForceGroup(1);
    integrator.setStiffForceGroups(1);
    assertThrows([&] { Context context(bound.system, integrator, platform); },
                 {"ZhangSkeelIntegrator", "particle 3", "virtual site", "StiffHessian"});
    // Without the penalty's Hessian the iteration does not converge; the state is what it was.
    const Model pendulum = makeDoublePendulum(200);
    ZhangSkeelIntegrator newmark(0.1);
    newmark.setMethod(ZhangSkeelIntegrator::Newmark);
    ModelContext context(pendulum, newmark, platform);
    context.setVelocities({Vec3(), Vec3(0.1, 0.5, 0), Vec3()});
    assertRefusedWithoutChange(context, 1, {"ZhangSkeelIntegrator", "Newton", "setStiffForceGroups()"});
    newmark.setStiffForceGroups(1 << stiffGroup);
    newmark.step(1);
}

/** Whichever particle has an acceleration that is no number, it is named, with a remedy. (Devices round forces.) */
CLAIM(testAccelerationsThatAreNoNumbers, Platform& platform) {
    if (isDevice(platform))
        return;
    for (int particle : {1, 3, 4}) {
        Model pendulum = makeDoublePendulum(200);
        for (int i = 3; i < 5; i++) {
            pendulum.system.addParticle(16);
            pendulum.positions.push_back(Vec3(i, 0, 0));
        }
        auto* force = new CustomExternalForce("sqrt(-1-x*x)");
        force->setForceGroup(1);
        force->addParticle(particle, {});
        pendulum.system.addForce(force);
        ZhangSkeelIntegrator integrator(0.001);
        integrator.setMethod(ZhangSkeelIntegrator::Newmark);
        ModelContext context(pendulum, integrator, platform);
        assertThrows([&] { integrator.step(1); },
                     {"ZhangSkeelIntegrator", "not finite", "particle", std::to_string(particle), "smaller step size"});
    }
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
