/**
 * SpookIntegrator: the method, on each platform.
 */

#include "IntegratorTest.h"
#include "DenseSpook.h"
#include "SpookSystems.h"

namespace {

/** A step of a water with constraints of every kind, in a field, is what the paper's equation says. */
CLAIM(testStepIsTheMethod, Platform& platform) {
    Model model = makeWaterInField();
    model.system.addConstraint(0, 1, 0.096);
    const double h = 0.003, tau = 0.002;
    SpookIntegrator integrator(h);
    integrator.setCompliance(1e-7);
    integrator.setVelocityCompliance(2e-6);
    integrator.setDamping(tau);
    integrator.setSystemConstraintParameters(0, 3e-7, 0.004);
    integrator.addDistanceConstraint(1, 2, 0.15);
    integrator.addPositionConstraint(2, Vec3(-0.02, 0.09, 0.01), 1e-5, 0.01);
    integrator.addHolonomicConstraint({1, 0, 2}, "angle(p1,p2,p3)-1.8", 4e-7);
    integrator.addVelocityConstraint({0, 2}, {"y1-y2", "x2-x1", "0", "y1-y2", "x2-x1", "0"}, "0.1*t", 3e-6);
    DenseSpook dense;
    dense.h = h;
    dense.inverseMass = VectorXd::Constant(9, 1 / hydrogenMass);
    dense.inverseMass.head(3).setConstant(1 / oxygenMass);
    auto distance = [](const VectorXd& x, int i, int j) { return (x.segment<3>(3 * i) - x.segment<3>(3 * j)).norm(); };
    dense.holonomic = {{[=](const VectorXd& x) { return distance(x, 0, 1) - 0.096; }, 3e-7, 0.004},
                       {[=](const VectorXd& x) { return distance(x, 1, 2) - 0.15; }, 1e-7, tau}};
    const double place[] = {-0.02, 0.09, 0.01};
    for (int j = 0; j < 3; j++)
        dense.holonomic.push_back({[=](const VectorXd& x) { return x[6 + j] - place[j]; }, 1e-5, 0.01});
    auto angle = [](const VectorXd& x) {
        const Eigen::Vector3d a = x.segment<3>(3) - x.segment<3>(0), b = x.segment<3>(6) - x.segment<3>(0);
        return std::acos(a.dot(b) / (a.norm() * b.norm())) - 1.8;
    };
    dense.holonomic.push_back({angle, 4e-7, tau});
    auto A = [](const VectorXd& x) {
        VectorXd row = VectorXd::Zero(9);
        row[0] = row[6] = x[1] - x[7];
        row[1] = row[7] = x[6] - x[0];
        return row;
    };
    const double time = 2;
    dense.onVelocities.push_back({A, 0.1 * (time + h / 2), 3e-6});

    ModelContext context(model, integrator, platform);
    const vector<Vec3> velocities = makeVelocities(model.system, 300, 1);
    context.setTime(time);
    context.setVelocities(velocities);
    const VectorXd x = toVector(model.positions);
    const VectorXd F = toVector(context.getState(State::Forces).getForces());
    const VectorXd v = dense.kick(x, toVector(velocities), dense.inverseMass.cwiseProduct(F));
    integrator.step(1);
    ASSERT((toVector(getVelocities(context)) - v).norm() < 1e-7 * v.norm());
    ASSERT((toVector(getPositions(context)) - x - h * v).norm() < 1e-9);
    // The integrator has the constraint on velocities last.
    const vector<double> multipliers = integrator.getMultipliers();
    ASSERT_EQUAL(7, (int) multipliers.size());
    for (int i = 0; i < 7; i++)
        ASSERT_EQUAL_TOL(dense.multipliers[(i + 1) % 7] / h, multipliers[i], 1e-5);
    const vector<double> violations = integrator.computeViolations();
    const VectorXd after = toVector(getPositions(context));
    for (int i = 0; i < 6; i++)
        ASSERT_EQUAL_TOL(dense.holonomic[i].g(after), violations[i], 1e-9);
    ASSERT_EQUAL_TOL(A(after).dot(v) - 0.1 * (time + h / 2), violations[6], 1e-6);
}

/**
 * Linear constraints: the eigenvalues of a step on (x, h v) are those of equation 34, inside the unit circle whatever
 * epsilon > 0, tau > 0 and h are (Theorem 5.1).
 */
CLAIM(testLinearConstraintsAreStable, Platform& platform) {
    const double mass = 3, h = 0.01;
    SpookIntegrator integrator(h);
    integrator.addPositionConstraint(0, Vec3());
    System system = makeParticles({mass});
    Context context(system, integrator, platform);
    for (double hOmega = 1e-3; hOmega < 2e6; hOmega *= 10)
        for (double theta = 1e-3; theta < 2e3; theta *= 10) {
            const double epsilon = h * h / (mass * hOmega * hOmega);
            integrator.setCompliance(epsilon);
            integrator.setDamping(theta * h);
            double map[2][2];
            for (int column = 0; column < 2; column++) {
                context.setPositions({Vec3(column == 0, 0, 0)});
                context.setVelocities({Vec3((column == 1) / h, 0, 0)});
                integrator.step(1);
                map[0][column] = getPositions(context)[0][0];
                map[1][column] = getVelocities(context)[0][0] * h;
            }
            const double trace = map[0][0] + map[1][1], determinant = map[0][0] * map[1][1] - map[0][1] * map[1][0];
            const double psi = 1 / (1 + 4 * theta), gamma = 1 / (1 + mass * 4 * psi * epsilon / (h * h));
            ASSERT_EQUAL_TOL(2 - 4 * gamma * psi * (theta + 1), trace, 1e-12);
            ASSERT_EQUAL_TOL(1 - 4 * gamma * psi * theta, determinant, 1e-12);
            // The eigenvalues are inside if and only if |trace| < 1 + determinant and determinant < 1.
            ASSERT(std::abs(trace) < 1 + determinant && determinant < 1);
        }
}

/** So are several that depend on each other, each with compliance and damping of its own, as the paper found. */
CLAIM(testDependentLinearConstraintsAreStable, Platform& platform) {
    const double h = 0.01;
    Gaussian gaussian(7);
    auto uniform = [&](double low, double high) {
        return low + (high - low) * 0.5 * std::erfc(-gaussian() / std::sqrt(2.0));
    };
    for (int trial = 0; trial < 20; trial++) {
        System system = makeParticles({uniform(1, 20), uniform(1, 20), uniform(1, 20)});
        SpookIntegrator integrator(h);
        // Six rows that are combinations of four.
        using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
        auto random = [&](int rows, int columns) {
            return Rows(Rows::NullaryExpr(rows, columns, [&] { return gaussian(); }));
        };
        const Eigen::MatrixXd basis = random(4, 9), G = random(6, 4) * basis;
        for (int i = 0; i < 6; i++) {
            std::stringstream g;
            g.precision(17);
            for (int k = 0; k < 9; k++)
                g << (k > 0 ? "+(" : "(") << G(i, k) << ")*"
                  << "xyz"[k % 3] << 1 + k / 3;
            const double hOmega = std::pow(10, uniform(0, 6));
            integrator.addHolonomicConstraint({0, 1, 2}, g.str(), h * h / (hOmega * hOmega),
                                              h * std::pow(10, uniform(-1, 1)));
        }
        Context context(system, integrator, platform);
        vector<Vec3> x, v;
        for (int i = 0; i < 3; i++) {
            x.push_back(gaussian.vector());
            v.push_back(gaussian.vector());
        }
        context.setPositions(x);
        context.setVelocities(v);
        auto size = [&] {
            return (G * toVector(getPositions(context))).norm() + h * (G * toVector(getVelocities(context))).norm();
        };
        const double start = size();
        for (int i = 0; i < 2000; i++) {
            integrator.step(1);
            ASSERT(size() < 10 * start);
        }
        ASSERT(size() < 1e-6 * start);
    }
}

/** A bond stretched by 10 % returns exponentially: with tau, and to be exact with the eigenvalue of equation 34. */
CLAIM(testViolationsDecayWithTheDampingTime, Platform& platform) {
    System system = makeParticles({16, 1});
    const double h = 0.001, distance = 0.1;
    system.addConstraint(0, 1, distance);
    for (double tau : {0.01, 0.05}) {
        SpookIntegrator integrator(h);
        integrator.setDamping(tau);
        integrator.setCompliance(1e-14);
        Context context(system, integrator, platform);
        context.setPositions({Vec3(), Vec3(0.11, 0, 0)});
        integrator.step(10);
        const double before = integrator.computeViolations()[0];
        const int steps = 3 * tau / h;
        integrator.step(steps);
        const double rate = std::log(before / integrator.computeViolations()[0]) / (steps * h);
        const double theta = tau / h, psi = 1 / (1 + 4 * theta), a = psi * (1 + theta);
        const double eigenvalue = 1 - 2 * a + 2 * std::sqrt(a * a - psi);
        ASSERT_EQUAL_TOL(-std::log(eigenvalue) / h, rate, 1e-6);
        ASSERT_EQUAL_TOL(1 / tau, rate, 0.06);
    }
}

/** A pair that turns is longer than its constraint by (h^2/4 + h tau/2) v^2/r: of second order with tau = 2h. */
CLAIM(testViolationInMotion, Platform& platform) {
    System system = makeParticles({10, 10});
    const double distance = 1, speed = 1; // of each around the centre
    for (int dampingSteps : {2, 10}) {
        auto violationAfterTurns = [&](double h) {
            SpookIntegrator integrator(h);
            integrator.setCompliance(1e-14);
            integrator.setDamping(dampingSteps * h);
            integrator.addDistanceConstraint(0, 1, distance);
            Context context(system, integrator, platform);
            context.setPositions({Vec3(-0.5, 0, 0), Vec3(0.5, 0, 0)});
            context.setVelocities({Vec3(0, -speed, 0), Vec3(0, speed, 0)});
            integrator.step(2 / h);
            const double violation = integrator.computeViolations()[0];
            const double expected = (0.25 + 0.5 * dampingSteps) * h * h * 4 * speed * speed / distance;
            ASSERT_EQUAL_TOL(expected, violation, 60 * dampingSteps * h * h); // relative; of the next order
            return violation;
        };
        ASSERT_EQUAL_TOL(2, orderOf(violationAfterTurns, {0.02, 0.01, 0.005, 0.0025}), 0.05);
    }
}

/**
 * Positions are of second order if the velocities are given for half a step earlier, as for VerletIntegrator, and of
 * first order if not. The solution is that of the equations in the rods' angles.
 */
CLAIM(testOrder, Platform& platform) {
    const DoublePendulum pendulum;
    const double end = 1, l1 = 1, l2 = 0.8, m1 = 1, m2 = 2;
    // Angles from the x axis and their rates, by the method of Runge and Kutta: M(q) q'' = f(q, q').
    auto rates = [&](const Eigen::Vector4d& s) {
        const double c = std::cos(s[0] - s[1]), d = std::sin(s[0] - s[1]);
        Eigen::Matrix2d M;
        M << (m1 + m2) * l1 * l1, m2 * l1 * l2 * c, m2 * l1 * l2 * c, m2 * l2 * l2;
        const Eigen::Vector2d f(-m2 * l1 * l2 * d * s[3] * s[3] - (m1 + m2) * l1 * std::cos(s[0]),
                                m2 * l1 * l2 * d * s[2] * s[2] - m2 * l2 * std::cos(s[1]));
        const Eigen::Vector2d a = solveDense(M, f);
        return Eigen::Vector4d(s[2], s[3], a[0], a[1]);
    };
    Eigen::Vector4d s = Eigen::Vector4d::Zero();
    const int numSteps = 2000;
    for (int i = 0; i < numSteps; i++) {
        const double h = end / numSteps;
        const Eigen::Vector4d k1 = rates(s), k2 = rates(s + h / 2 * k1), k3 = rates(s + h / 2 * k2),
                              k4 = rates(s + h * k3);
        s += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
    }
    const Vec3 x1(l1 * std::cos(s[0]), l1 * std::sin(s[0]), 0),
            x2 = x1 + Vec3(l2 * std::cos(s[1]), l2 * std::sin(s[1]), 0);
    for (auto [overlooked, dampingSteps] : {std::pair(false, 2.0), {true, 2.0}, {false, 0.25}}) {
        auto error = [&, overlooked = overlooked, dampingSteps = dampingSteps](double h) {
            SpookIntegrator integrator(h);
            integrator.setCompliance(1e-12);
            integrator.setDampingSteps(dampingSteps);
            DoublePendulum::addRods(integrator);
            Context context(pendulum.system, integrator, platform);
            context.setPositions(pendulum.positions);
            context.setVelocities(pendulum.velocities(h, overlooked));
            integrator.step(std::lround(end / h));
            return largestDifference(getPositions(context), {Vec3(), x1, x2});
        };
        ASSERT_EQUAL_TOL(overlooked ? 1 : 2, orderOf(error, {0.02, 0.01, 0.005, 0.0025, 0.00125}), 0.1);
    }
}

/**
 * A pendulum loses energy at the mean rate -h tau^2/2 <lambda' c'>, where c = v^2/r and lambda is the multiplier: of
 * third order in h with tau in proportion to it, of first order with tau fixed. For a violation follows what motion
 * makes of it with a lag, g = (h^2/4 + h tau/2) c - h tau^2/2 c', and the constraint force does the work lambda g' on
 * it. The default damping loses a 64th of what the paper's does.
 */
CLAIM(testEnergyLossIsAsTheorySays, Platform& platform) {
    System system = makeParticles({1, 0});
    addGravity(system);
    const double start = 2; // the first angle from the vertical
    // The mean of lambda' c' over a period: c = w^2, lambda = -(w^2 + cos(angle)), w' = -sin(angle).
    double angle = start, w = 0, halfPeriod = 0, mean = 0;
    const double dt = 1e-4;
    do {
        w -= dt / 2 * std::sin(angle);
        angle += dt * w;
        w -= dt / 2 * std::sin(angle);
        const double dc = -2 * w * std::sin(angle), dLambda = 3 * w * std::sin(angle);
        mean += dt * dc * dLambda;
        halfPeriod += dt;
    } while (w < 0);
    mean /= halfPeriod;
    struct Row {
        int order;
        std::function<void(SpookIntegrator&)> damp;
    };
    const vector<Row> rows = {{3, [](SpookIntegrator& integrator) { integrator.setDampingSteps(2); }},
                              {1, [](SpookIntegrator& integrator) { integrator.setDamping(0.1); }},
                              {3, [](SpookIntegrator&) {}}};
    for (const Row& row : rows) {
        auto rateOfLoss = [&](double h) {
            SpookIntegrator integrator(h);
            integrator.setCompliance(1e-12);
            row.damp(integrator);
            const double tau = integrator.getDamping();
            integrator.addDistanceConstraint(0, 1, 1);
            Context context(system, integrator, platform);
            context.setPositions({Vec3(std::sin(start), -std::cos(start), 0), Vec3()});
            // The slope of the energy against time, by least squares over whole swings.
            const int numSteps = std::lround(8 * 2 * halfPeriod / h);
            const double meanTime = 0.5 * (numSteps - 1) * h;
            double squares = 0, products = 0;
            for (int i = 0; i < numSteps; i++) {
                integrator.step(1);
                const double t = i * h - meanTime;
                squares += t * t;
                products += t * totalEnergy(context);
            }
            const double loss = -products / squares;
            ASSERT_EQUAL_TOL(1, loss / (-0.5 * h * tau * tau * mean), 0.1);
            return loss;
        };
        ASSERT_EQUAL_TOL(row.order, orderOf(rateOfLoss, {0.04, 0.02, 0.01}), 0.05);
    }
}

/** The damping time is the one that was set last, in ps or in steps; in steps it follows their size. */
CLAIM(testDampingFollowsTheStep, Platform&) {
    SpookIntegrator integrator(0.004);
    ASSERT_EQUAL(0.001, integrator.getDamping());
    integrator.setDampingSteps(2);
    ASSERT_EQUAL(0.008, integrator.getDamping());
    integrator.setStepSize(0.002);
    ASSERT_EQUAL(0.004, integrator.getDamping());
    integrator.setDamping(0.01);
    ASSERT(!integrator.getUseDampingSteps());
    ASSERT_EQUAL(0.01, integrator.getDamping());
    ASSERT_EQUAL(5, integrator.getDampingSteps());
    integrator.setDampingSteps(3);
    ASSERT(integrator.getUseDampingSteps());
    ASSERT_EQUAL(0.006, integrator.getDamping());
    integrator.setUseDampingSteps(false);
    integrator.setStepSize(0.001);
    ASSERT_EQUAL(0.006, integrator.getDamping());
    integrator.setUseDampingSteps(true);
    integrator.setStepSize(0.002);
    ASSERT_EQUAL(0.012, integrator.getDamping());
    ASSERT_EQUAL(6, integrator.getDampingSteps());
}

/** Without a step size neither can be told by the other. */
CLAIM(testDampingInStepsNeedsAStepSize, Platform&) {
    SpookIntegrator integrator(0);
    assertThrows([&] { integrator.setUseDampingSteps(false); },
                 {"SpookIntegrator", "in ps", "step size is 0", "setStepSize()", "setDamping()"});
    integrator.setUseDampingSteps(true); // as it is already
    ASSERT_EQUAL(0.25, integrator.getDampingSteps());
    integrator.setDamping(0.01);
    assertThrows([&] { integrator.setUseDampingSteps(true); },
                 {"SpookIntegrator", "in steps", "step size is 0", "setStepSize()", "setDampingSteps()"});
    integrator.setUseDampingSteps(false);
    integrator.setStepSize(0.002);
    integrator.setUseDampingSteps(true);
    ASSERT_EQUAL(5, integrator.getDampingSteps());
}

/** Rigid waters move as with SETTLE; the difference is of second order. */
CLAIM(testRigidWatersFollowSettle, Platform& platform) {
    const Model model = makeWaterCluster(2, true);
    auto difference = [&](double h) {
        SpookIntegrator integrator(h);
        integrator.setCompliance(1e-12);
        VerletIntegrator verlet(h);
        verlet.setConstraintTolerance(1e-10);
        const vector<Vec3> expected = stepFromRest(model, verlet, std::lround(0.05 / h), platform);
        ASSERT(largestDifference(expected, model.positions) > 0.005);
        return largestDifference(stepFromRest(model, integrator, std::lround(0.05 / h), platform), expected);
    };
    ASSERT_EQUAL_TOL(2, orderOf(difference, {0.001, 0.0005, 0.00025, 0.000125}), 0.1);
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
