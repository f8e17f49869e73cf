/**
 * SpookIntegrator: the method, on each platform.
 */

#include "CountAllocations.h"
#include "DenseSpook.h"
#include "OpenMMStiff.h"
#include "PlatformTest.h"
#include "Statistics.h"
#include "Systems.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using Eigen::VectorXd;
using std::vector;

namespace {

double norm(const Vec3& v) {
    return std::sqrt(v.dot(v));
}

/** g = 1 nm/ps^2 along -y on all particles. */
void addGravity(System& system) {
    auto* gravity = new CustomExternalForce("m*y");
    gravity->addPerParticleParameter("m");
    for (int i = 0; i < system.getNumParticles(); i++)
        gravity->addParticle(i, {system.getParticleMass(i)});
    system.addForce(gravity);
}

/** Particles of these masses. */
System makeParticles(const vector<double>& masses) {
    System system;
    for (double mass : masses)
        system.addParticle(mass);
    return system;
}

/** A step of a water with constraints of every kind, in a field, is what the paper's equation says. */
void testStepIsTheMethod(Platform& platform) {
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
    dense.holonomic.push_back({[=](const VectorXd& x) { return distance(x, 0, 1) - 0.096; }, 3e-7, 0.004});
    dense.holonomic.push_back({[=](const VectorXd& x) { return distance(x, 1, 2) - 0.15; }, 1e-7, tau});
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

    Context context(model.system, integrator, platform);
    const vector<Vec3> velocities = makeVelocities(model.system, 300, 1);
    context.setTime(time);
    context.setPositions(model.positions);
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
void testLinearConstraintsAreStable(Platform& platform) {
    const double mass = 3, h = 0.01;
    SpookIntegrator integrator(h);
    integrator.addPositionConstraint(0, Vec3());
    System system = makeParticles({mass});
    Context context(system, integrator, platform);
    double largest = 0;
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
            const double root = trace * trace / 4 - determinant;
            largest = std::max(largest, root > 0 ? std::abs(trace / 2) + std::sqrt(root) : std::sqrt(determinant));
        }
    std::cout << "largest eigenvalue 1 - " << 1 - largest << std::endl;
}

/** So are several that depend on each other, each with compliance and damping of its own, as the paper found. */
void testDependentLinearConstraintsAreStable(Platform& platform) {
    const double h = 0.01;
    Gaussian gaussian(7);
    auto uniform = [&](double low, double high) {
        return low + (high - low) * 0.5 * std::erfc(-gaussian() / std::sqrt(2.0));
    };
    for (int trial = 0; trial < 20; trial++) {
        System system = makeParticles({uniform(1, 20), uniform(1, 20), uniform(1, 20)});
        SpookIntegrator integrator(h);
        // Six rows that are combinations of four.
        Eigen::MatrixXd G = Eigen::MatrixXd(6, 4), basis = Eigen::MatrixXd(4, 9);
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 9; j++)
                basis(i, j) = gaussian();
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < 4; j++)
                G(i, j) = gaussian();
        G = G * basis;
        for (int i = 0; i < 6; i++) {
            std::stringstream g;
            g.precision(17);
            for (int k = 0; k < 9; k++)
                g << (k > 0 ? "+" : "") << "(" << G(i, k) << ")*"
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
        double largest = 0;
        for (int i = 0; i < 2000; i++) {
            integrator.step(1);
            largest = std::max(largest, size());
        }
        ASSERT(largest < 10 * start);
        ASSERT(size() < 1e-6 * start);
    }
}

/** A bond stretched by 10 % returns exponentially: with tau, and to be exact with the eigenvalue of equation 34. */
void testViolationsDecayWithTheDampingTime(Platform& platform) {
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
void testViolationInMotion(Platform& platform) {
    System system = makeParticles({10, 10});
    const double distance = 1, speed = 1; // of each around the centre
    vector<double> steps, violations;
    for (double h = 0.02; h > 0.002; h /= 2)
        for (int dampingSteps : {2, 10}) {
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
            if (dampingSteps == 2) {
                steps.push_back(h);
                violations.push_back(violation);
            }
        }
    const double slope = logSlope(steps, violations);
    std::cout << "violation in motion: slope " << slope << std::endl;
    ASSERT_EQUAL_TOL(2, slope, 0.05);
}

/** A double pendulum: two rods that lie flat, hanging from a massless particle. */
struct DoublePendulum {
    System system = makeParticles({0, 1, 2});
    vector<Vec3> positions = {Vec3(), Vec3(1, 0, 0), Vec3(1.8, 0, 0)};

    DoublePendulum() {
        addGravity(system);
    }
    static void addRods(SpookIntegrator& integrator) {
        integrator.addDistanceConstraint(0, 1, 1);
        integrator.addDistanceConstraint(1, 2, 0.8);
    }
    /** At rest, everything falls freely at first; velocities belong to half a step earlier, or that is overlooked. */
    vector<Vec3> velocities(double h, bool overlooked) const {
        const Vec3 v(0, overlooked ? 0 : h / 2, 0);
        return {Vec3(), v, v};
    }
};

/**
 * Positions are of second order if the velocities are given for half a step earlier, as for VerletIntegrator, and of
 * first order if not. The solution is that of the equations in the rods' angles.
 */
void testOrder(Platform& platform) {
    const DoublePendulum pendulum;
    const double end = 1, l1 = 1, l2 = 0.8, m1 = 1, m2 = 2;
    // Angles from the x axis and their rates, by the method of Runge and Kutta: M(q) q'' = f(q, q').
    auto rates = [&](const Eigen::Vector4d& s) {
        const double c = std::cos(s[0] - s[1]), d = std::sin(s[0] - s[1]);
        Eigen::Matrix2d M;
        M << (m1 + m2) * l1 * l1, m2 * l1 * l2 * c, m2 * l1 * l2 * c, m2 * l2 * l2;
        const Eigen::Vector2d f(-m2 * l1 * l2 * d * s[3] * s[3] - (m1 + m2) * l1 * std::cos(s[0]),
                                m2 * l1 * l2 * d * s[2] * s[2] - m2 * l2 * std::cos(s[1]));
        const Eigen::Vector2d a = M.inverse() * f;
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
    for (bool overlooked : {false, true}) {
        vector<double> steps, errors;
        for (double h = 0.02; h > 0.001; h /= 2) {
            SpookIntegrator integrator(h);
            integrator.setCompliance(1e-12);
            DoublePendulum::addRods(integrator);
            Context context(pendulum.system, integrator, platform);
            context.setPositions(pendulum.positions);
            context.setVelocities(pendulum.velocities(h, overlooked));
            integrator.step(std::lround(end / h));
            steps.push_back(h);
            errors.push_back(largestDifference(getPositions(context), {Vec3(), x1, x2}));
        }
        const double slope = logSlope(steps, errors);
        std::cout << "error of the double pendulum: slope " << slope << std::endl;
        ASSERT_EQUAL_TOL(overlooked ? 1 : 2, slope, 0.1);
    }
}

/**
 * A pendulum loses energy at the mean rate -h tau^2/2 <lambda' c'>, where c = v^2/r and lambda is the multiplier: of
 * third order in h with tau = 2h, of first order with tau fixed. For a violation follows what motion makes of it with
 * a lag, g = (h^2/4 + h tau/2) c - h tau^2/2 c', and the constraint force does the work lambda g' on it.
 */
void testEnergyLossIsAsTheorySays(Platform& platform) {
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
    for (bool fixedDamping : {false, true}) {
        vector<double> steps, losses;
        for (double h : {0.04, 0.02, 0.01}) {
            const double tau = (fixedDamping ? 0.1 : 2 * h);
            SpookIntegrator integrator(h);
            integrator.setCompliance(1e-12);
            integrator.setDamping(tau);
            integrator.addDistanceConstraint(0, 1, 1);
            Context context(system, integrator, platform);
            context.setPositions({Vec3(std::sin(start), -std::cos(start), 0), Vec3()});
            // The slope of the energy against time, by least squares over whole swings.
            const int numSteps = std::lround(8 * 2 * halfPeriod / h);
            double st = 0, se = 0, stt = 0, ste = 0;
            for (int i = 0; i < numSteps; i++) {
                integrator.step(1);
                const State state = context.getState(State::Energy);
                const double t = i * h, e = state.getKineticEnergy() + state.getPotentialEnergy();
                st += t;
                se += e;
                stt += t * t;
                ste += t * e;
            }
            const double loss = -(numSteps * ste - st * se) / (numSteps * stt - st * st);
            const double expected = -0.5 * h * tau * tau * mean;
            std::cout << "h " << h << ", tau " << tau << ": energy lost at a rate of " << loss << ", theory "
                      << expected << std::endl;
            ASSERT_EQUAL_TOL(1, loss / expected, 0.1);
            steps.push_back(h);
            losses.push_back(loss);
        }
        const double slope = logSlope(steps, losses);
        ASSERT_EQUAL_TOL(fixedDamping ? 1 : 3, slope, 0.05);
    }
}

/** Linear and angular momentum are kept to rounding, whatever the violations: constraint forces are central. */
void testMomentaAreKept(Platform& platform) {
    Model model = makeWaterCluster(2, true);
    while (model.system.getNumForces() > 0)
        model.system.removeForce(0);
    for (int i = 0; i < model.system.getNumConstraints(); i++) {
        int p1, p2;
        double distance;
        model.system.getConstraintParameters(i, p1, p2, distance);
        model.system.setConstraintParameters(i, p1, p2, 1.05 * distance);
    }
    SpookIntegrator integrator(0.002);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    context.setVelocities(makeVelocities(model.system, 300, 3));
    auto momenta = [&] {
        const vector<Vec3> x = getPositions(context), v = getVelocities(context);
        return std::make_pair(momentum(model.system, v), angularMomentum(model.system, x, v));
    };
    const auto before = momenta();
    integrator.step(500);
    const auto after = momenta();
    ASSERT_EQUAL_VEC(before.first, after.first, 1e-11);
    ASSERT_EQUAL_VEC(before.second, after.second, 1e-11);
}

/** Rigid waters move as with SETTLE; the difference is of second order. */
void testRigidWatersFollowSettle(Platform& platform) {
    const Model model = makeWaterCluster(2, true);
    vector<double> steps, differences;
    for (double h : {0.001, 0.0005, 0.00025, 0.000125}) {
        SpookIntegrator integrator(h);
        integrator.setCompliance(1e-12);
        VerletIntegrator verlet(h);
        verlet.setConstraintTolerance(1e-10);
        vector<vector<Vec3>> ends;
        for (Integrator* each : {(Integrator*) &integrator, (Integrator*) &verlet}) {
            Context context(model.system, *each, platform, deterministic(platform));
            context.setPositions(model.positions);
            each->step(std::lround(0.05 / h));
            ends.push_back(getPositions(context));
        }
        ASSERT(largestDifference(ends[1], model.positions) > 0.005);
        steps.push_back(h);
        differences.push_back(largestDifference(ends[0], ends[1]));
    }
    const double slope = logSlope(steps, differences);
    std::cout << "difference to SETTLE " << differences[0] << " nm at 1 fs, slope " << slope << std::endl;
    ASSERT_EQUAL_TOL(2, slope, 0.1);
}

/** In a chain that hangs at rest the multipliers are the weights, and the constraints give way by epsilon lambda. */
void testMultipliersAreForces(Platform& platform) {
    System system = makeParticles({0, 2, 3, 4});
    addGravity(system);
    const double epsilon = 1e-5;
    SpookIntegrator integrator(0.01);
    integrator.setCompliance(epsilon);
    vector<Vec3> positions;
    for (int i = 0; i < 4; i++) {
        positions.push_back(Vec3(0, -i, 0));
        if (i > 0)
            integrator.addDistanceConstraint(i - 1, i, 1);
    }
    Context context(system, integrator, platform);
    context.setPositions(positions);
    assertThrows([&] { integrator.getMultipliers(); }, {"SpookIntegrator", "first step"});
    integrator.step(2000);
    const vector<double> multipliers = integrator.getMultipliers(), violations = integrator.computeViolations();
    const double weights[] = {9, 7, 4};
    for (int i = 0; i < 3; i++) {
        ASSERT_EQUAL_TOL(-weights[i], multipliers[i], 1e-9);
        ASSERT_EQUAL_TOL(epsilon * weights[i], violations[i], 1e-7);
    }
}

/**
 * Constraints that depend on each other, each there twice, do no harm: violations are of the size that motion and
 * forces explain, (h^2/4 + h tau/2) v^2/r - epsilon lambda. OpenMM's CCMA is beside it.
 */
void testDependentConstraints(Platform& platform) {
    for (const DependentConstraints& group : makeDependentConstraints()) {
        const double h = 0.01;
        const int numSteps = 5000;
        const System system = group.makeSystem();
        SpookIntegrator integrator(h);
        for (int c = 0; c < system.getNumConstraints(); c++) {
            int i, j;
            double distance;
            system.getConstraintParameters(c, i, j, distance);
            integrator.addDistanceConstraint(i, j, distance);
        }
        Context context(system, integrator, platform);
        context.setPositions(group.positions);
        context.setVelocitiesToTemperature(300, 1);
        double squares = 0, expected = 0, largest = 0;
        for (int step = 0; step < numSteps; step++) {
            integrator.step(1);
            largest = std::max(largest, largestViolation(context));
            const vector<Vec3> x = getPositions(context), v = getVelocities(context);
            const vector<double> violations = integrator.computeViolations(), lambda = integrator.getMultipliers();
            for (size_t c = 0; c < group.pairs.size(); c++) {
                const auto& [i, j] = group.pairs[c];
                const Vec3 d = x[j] - x[i], rate = v[j] - v[i];
                const double r = norm(d), along = d.dot(rate) / r, curvature = (rate.dot(rate) - along * along) / r;
                squares += violations[c] * violations[c];
                expected += std::pow(1.25 * h * h * curvature - integrator.getCompliance() * lambda[c], 2);
            }
        }
        VerletIntegrator verlet(h);
        const std::string end = watchConstraints(verlet, system, group.positions, numSteps, platform);
        const double ratio = std::sqrt(squares / expected);
        std::cout << group.name << ": rms violation " << ratio << " times the expected, relative violation at most "
                  << largest << "; OpenMM's CCMA " << end << std::endl;
        ASSERT_EQUAL_TOL(1, ratio, 0.1);
        ASSERT(largest < 0.05);
    }
}

/** Constraints that contradict each other find the compromise of their compliances, and violations stay there. */
void testContradictoryConstraints(Platform& platform) {
    System system = makeParticles({12, 14});
    SpookIntegrator integrator(0.002);
    integrator.addDistanceConstraint(0, 1, 0.14, 1e-7);
    integrator.addDistanceConstraint(0, 1, 0.15, 3e-7);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(), Vec3(0.2, 0, 0)});
    integrator.step(200);
    const double r = norm(getPositions(context)[1] - getPositions(context)[0]);
    ASSERT_EQUAL_TOL(0.14 + 0.01 / 4, r, 1e-9); // sum (r - d_i) / epsilon_i = 0
    // A triangle that cannot be, thermostatted. The forces by which its sides hold each other, g/epsilon, push the
    // long side out of the line: the compliance must leave h^2 g/(epsilon m r) well below 4.
    System triangle = makeParticles({12, 12, 12});
    triangle.addForce(new AndersenThermostat(300, 5));
    SpookIntegrator impossible(0.002);
    impossible.setCompliance(1e-6);
    impossible.addDistanceConstraint(0, 1, 0.1);
    impossible.addDistanceConstraint(1, 2, 0.1);
    impossible.addDistanceConstraint(0, 2, 0.26);
    Context flat(triangle, impossible, platform);
    flat.setPositions({Vec3(), Vec3(0.1, 0.01, 0), Vec3(0.2, 0, 0)});
    flat.setVelocitiesToTemperature(300, 1);
    impossible.step(50);
    for (int i = 0; i < 5000; i++) {
        impossible.step(1);
        const vector<double> violations = impossible.computeViolations();
        for (double g : {violations[0], violations[1], -violations[2]})
            ASSERT_EQUAL_TOL(0.02, g, 0.01);
    }
}

/** A distance whose rate is prescribed follows its integral, to second order; the multiplier is the force it takes. */
void testPrescribedPulling(Platform& platform) {
    System system = makeParticles({3, 5});
    auto* spring = new HarmonicBondForce();
    spring->addBond(0, 1, 0.5, 20);
    system.addForce(spring);
    vector<double> steps, errors;
    for (double h : {0.04, 0.02, 0.01, 0.005}) {
        SpookIntegrator integrator(h);
        integrator.setVelocityCompliance(1e-12);
        integrator.addVelocityConstraint({0, 1}, {"-1", "0", "0", "1", "0", "0"}, "0.3+0.2*cos(2*t)");
        Context context(system, integrator, platform);
        context.setPositions({Vec3(), Vec3(0.5, 0, 0)});
        // From the velocities of the constraint, half a step earlier.
        const double rate = 0.3 + 0.2 * std::cos(-h);
        context.setVelocities({Vec3(-5 * rate / 8, 0, 0), Vec3(3 * rate / 8, 0, 0)});
        integrator.step(std::lround(2 / h));
        const vector<Vec3> x = getPositions(context);
        const double expected = 0.5 + 0.3 * 2 + 0.1 * std::sin(4.0);
        steps.push_back(h);
        errors.push_back(std::abs(x[1][0] - x[0][0] - expected));
        ASSERT_EQUAL_TOL(0, integrator.computeViolations()[0], 1e-6);
        // The last kick was at t - h: k (d - d0) + mu d''.
        const double t = 2 - h, d = 0.5 + 0.3 * t + 0.1 * std::sin(2 * t);
        const double force = 20 * (d - 0.5) - 15.0 / 8 * 0.4 * std::sin(2 * t);
        ASSERT_EQUAL_TOL(force, integrator.getMultipliers()[0], 0.2 * h);
    }
    const double slope = logSlope(steps, errors);
    std::cout << "prescribed pulling: slope " << slope << std::endl;
    ASSERT_EQUAL_TOL(2, slope, 0.05);
}

/** A skate on a slope that turns comes back up instead of sliding down: the error of its path is of first order. */
void testSkateOnASlope(Platform& platform) {
    const double omega = 2, end = 3;
    System system = makeParticles({1, 1});
    addGravity(system);
    vector<double> steps, errors;
    for (double h : {0.01, 0.005, 0.0025, 0.00125}) {
        SpookIntegrator integrator(h);
        integrator.setCompliance(1e-10);
        integrator.addDistanceConstraint(0, 1, 1);
        const std::string across[] = {"-(y2-y1)/2", "(x2-x1)/2"};
        integrator.addVelocityConstraint({0, 1}, {across[0], across[1], "0", across[0], across[1], "0"});
        Context context(system, integrator, platform);
        // The rod lies across the slope and turns; its centre is at rest. Half a step earlier the rod was turned back.
        context.setPositions({Vec3(-0.5, 0, 0), Vec3(0.5, 0, 0)});
        const double back = -omega * h / 2;
        const Vec3 turning(-0.5 * omega * std::sin(back), 0.5 * omega * std::cos(back), 0);
        context.setVelocities({-turning, turning});
        integrator.step(std::lround(end / h));
        const vector<Vec3> x = getPositions(context);
        const Vec3 centre = (x[0] + x[1]) * 0.5;
        // The speed along the rod, at the angle omega t, is (cos(omega t) - 1)/omega.
        const double s = std::sin(omega * end), c = std::cos(omega * end);
        const Vec3 exact(omega * end / 2 + s * c / 2 - s, s * s / 2 + c - 1, 0);
        steps.push_back(h);
        errors.push_back(norm(centre - exact / (omega * omega)));
    }
    const double slope = logSlope(steps, errors);
    std::cout << "skate: slope " << slope << std::endl;
    ASSERT_EQUAL_TOL(1, slope, 0.05);
}

/** Reported energies are those of the present time, as VerletIntegrator's are, whatever groups are asked for. */
void testEnergiesAreOfThePresentTime(Platform& platform) {
    Model model = makeWaterCluster(2);
    addWell(model);
    model.system.getForce(3).setForceGroup(2);
    SpookIntegrator integrator(0.0005);
    VerletIntegrator verlet(0.0005);
    vector<vector<double>> energies;
    vector<vector<Vec3>> forces;
    for (Integrator* each : {(Integrator*) &integrator, (Integrator*) &verlet}) {
        Context context(model.system, *each, platform, deterministic(platform));
        context.setPositions(model.positions);
        context.setVelocitiesToTemperature(300, 5);
        each->step(100);
        energies.emplace_back();
        for (int i = 0; i < 3; i++) {
            energies.back().push_back(context.getState(State::Energy).getKineticEnergy());
            each->step(5);
        }
        const State state = context.getState(State::Energy | State::Forces, false, 1 << 2);
        energies.back().push_back(state.getPotentialEnergy());
        forces.push_back(state.getForces());
    }
    for (size_t i = 0; i < energies[0].size(); i++)
        ASSERT_EQUAL_TOL(energies[1][i], energies[0][i], 1e-7);
    ASSERT(largestDifference(forces[0], forces[1]) < 1e-7);
}

/** What is set between steps has the effect that it would have had from the beginning. */
void testChangesTakeEffect(Platform& platform) {
    System system = makeParticles({12, 1, 1});
    system.addConstraint(0, 1, 0.1);
    using Change = std::function<void(SpookIntegrator&)>;
    const vector<Change> changes = {
            [](SpookIntegrator& integrator) { integrator.setCompliance(1e-4); },
            [](SpookIntegrator& integrator) { integrator.setVelocityCompliance(1e-2); },
            [](SpookIntegrator& integrator) { integrator.setDamping(0.1); },
            [](SpookIntegrator& integrator) { integrator.setStepSize(0.003); },
            [](SpookIntegrator& integrator) { integrator.setSystemConstraintParameters(0, 1e-3, 0.2); },
            [](SpookIntegrator& integrator) { integrator.setDistanceConstraintParameters(0, 1, 2, 0.16); },
            [](SpookIntegrator& integrator) { integrator.setPositionConstraintParameters(0, 0, Vec3(0, 0.1, 0)); },
            [](SpookIntegrator& integrator) {
                integrator.setHolonomicConstraintParameters(0, {1, 2}, "x1-x2");
            },
            [](SpookIntegrator& integrator) {
                integrator.setVelocityConstraintParameters(0, {2}, {"0", "0", "2"}, "1");
            },
            [](SpookIntegrator& integrator) { integrator.addDistanceConstraint(0, 2, 0.12); },
    };
    for (const Change& change : changes) {
        vector<vector<Vec3>> ends;
        for (bool late : {false, true}) {
            SpookIntegrator integrator(0.002);
            integrator.addDistanceConstraint(1, 2, 0.15);
            integrator.addPositionConstraint(0, Vec3());
            integrator.addHolonomicConstraint({1, 2}, "y1+y2");
            integrator.addVelocityConstraint({2}, {"0", "0", "1"}, "t");
            if (!late)
                change(integrator);
            Context context(system, integrator, platform);
            if (late) {
                context.setPositions({Vec3(), Vec3(0.1, 0, 0), Vec3(0, 0.1, 0)});
                integrator.step(3);
                change(integrator);
            }
            context.setTime(0.5);
            context.setPositions({Vec3(0.01, 0, 0), Vec3(0.11, 0, 0), Vec3(0, 0.1, 0.01)});
            context.setVelocities(makeVelocities(system, 300, 2));
            integrator.step(2);
            ends.push_back(getPositions(context));
        }
        ASSERT(largestDifference(ends[0], ends[1]) == 0);
    }
}

/** Multipliers belong to the last step, also after a checkpoint. */
void testMultipliersAreInCheckpoints(Platform& platform) {
    const DoublePendulum pendulum;
    SpookIntegrator integrator(0.01), resumed(0.01);
    DoublePendulum::addRods(integrator);
    DoublePendulum::addRods(resumed);
    Context context(pendulum.system, integrator, platform), other(pendulum.system, resumed, platform);
    context.setPositions(pendulum.positions);
    integrator.step(50);
    std::stringstream checkpoint;
    context.createCheckpoint(checkpoint);
    other.loadCheckpoint(checkpoint);
    ASSERT(integrator.getMultipliers() == resumed.getMultipliers());
    context.reinitialize();
    assertThrows([&] { integrator.getMultipliers(); }, {"first step"});
    SpookIntegrator another(0.01);
    another.addDistanceConstraint(0, 1, 1);
    Context different(pendulum.system, another, platform);
    checkpoint.clear();
    checkpoint.seekg(0);
    assertThrows([&] { different.loadCheckpoint(checkpoint); }, {"SpookIntegrator", "2 constraints", "1"});
}

/** Of a constraint that is not finite the error says which, before and after the first step, small block or large. */
void testConstraintsThatAreNotFinite(Platform& platform) {
    for (int numParticles : {3, 60}) {
        System system = makeParticles(vector<double>(numParticles, 12));
        vector<Vec3> positions;
        for (int i = 0; i < numParticles; i++) {
            positions.push_back(Vec3(0.1 * i, 0, 0));
            if (i > 0)
                system.addConstraint(i - 1, i, 0.1);
        }
        for (const char* expression : {"log(x1-50)", "sqrt(x1-0.1)", "1/(x1-0.1)"}) {
            SpookIntegrator integrator(0.001);
            integrator.addHolonomicConstraint({0}, "y1");
            integrator.addHolonomicConstraint({1}, expression);
            Context context(system, integrator, platform);
            context.setPositions(positions);
            const vector<Vec3> velocities = makeVelocities(system, 300, 1);
            context.setVelocities(velocities);
            const vector<std::string> words = {"SpookIntegrator: holonomic constraint 1", "not finite"};
            assertThrows([&] { integrator.step(1); }, words);
            assertThrows([&] { context.getState(State::Energy); }, words);
            ASSERT(getVelocities(context) == velocities && getPositions(context) == positions);
        }
    }
    // The time of velocities is half a step before the present.
    System system = makeParticles({1});
    SpookIntegrator integrator(0.001);
    integrator.addVelocityConstraint({0}, {"1", "0", "0"}, "sqrt(t)");
    Context context(system, integrator, platform);
    context.setPositions({Vec3()});
    assertThrows([&] { context.setVelocitiesToTemperature(300, 1); }, {"SpookIntegrator", "not finite"});
    ASSERT_EQUAL_VEC(Vec3(), getVelocities(context)[0], 0);
    integrator.step(1);
    ASSERT_EQUAL_TOL(std::sqrt(0.0005), getVelocities(context)[0][0], 1e-6);
}

/** Two particles in one place have no direction: their constraint exerts no force, and moves nothing. */
void testConstraintWithoutDirection(Platform& platform) {
    System system = makeParticles({1, 2});
    SpookIntegrator integrator(0.001);
    integrator.addDistanceConstraint(0, 1, 0.1);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(), Vec3()});
    integrator.step(1);
    ASSERT_EQUAL(0, integrator.getMultipliers()[0]);
    ASSERT_EQUAL_VEC(Vec3(), getPositions(context)[1], 0);
}

/** What cannot be is refused, with an error that says what and what to do. */
void testErrors(Platform& platform) {
    SpookIntegrator integrator(0.001);
    assertThrows([&] { integrator.setCompliance(0); }, {"SpookIntegrator", "compliance", "0", "1e-8"});
    assertThrows([&] { integrator.setVelocityCompliance(-1); }, {"SpookIntegrator", "velocity", "-1"});
    assertThrows([&] { integrator.setDamping(-0.5); }, {"SpookIntegrator", "damping", "-0.5"});
    assertThrows([&] { integrator.setDamping(NAN); }, {"SpookIntegrator", "damping", "nan"});
    assertThrows([&] { integrator.addDistanceConstraint(3, 3, 0.1); }, {"SpookIntegrator", "particle 3 twice"});
    assertThrows([&] { integrator.addDistanceConstraint(1, 2, 0); }, {"SpookIntegrator", "distance", "x1-x2"});
    assertThrows([&] { integrator.addDistanceConstraint(1, 2, 0.1, -1); }, {"SpookIntegrator", "compliance", "-1"});
    assertThrows([&] { integrator.addDistanceConstraint(1, 2, 0.1, 0, -1); }, {"SpookIntegrator", "damping", "-1"});
    assertThrows([&] { integrator.addPositionConstraint(1, Vec3(0, NAN, 0)); }, {"SpookIntegrator", "position"});
    assertThrows([&] { integrator.addHolonomicConstraint({}, "1"); }, {"SpookIntegrator", "at least one particle"});
    assertThrows(
            [&] {
                integrator.addVelocityConstraint({0, 1}, {"1", "0", "0"});
            },
            {"SpookIntegrator", "2 particles", "6 coefficients, not 3"});
    double softness[2];
    assertThrows([&] { integrator.setSystemConstraintParameters(-1, 1, 1); }, {"SpookIntegrator", "constraint -1"});
    assertThrows([&] { integrator.getSystemConstraintParameters(-1, softness[0], softness[1]); }, {"constraint -1"});
    ASSERT_EQUAL(0, integrator.getNumDistanceConstraints());
    assertThrows([&] { integrator.computeViolations(); }, {"not bound"});

    // What depends on the System is found out when a Context is created; the integrator can then be mended.
    Model model = makeWaterWithSiteAndAnchor();
    model.system.addConstraint(0, 1, 0.1);
    auto refused = [&](const std::function<void(SpookIntegrator&)>& add, const vector<std::string>& words) {
        SpookIntegrator wrong(0.001);
        add(wrong);
        assertThrows([&] { Context context(model.system, wrong, platform); }, words);
    };
    refused([](auto& i) { i.addDistanceConstraint(0, 7, 1); },
            {"SpookIntegrator: distance constraint 0", "particle 7"});
    refused([](auto& i) { i.addDistanceConstraint(0, 3, 1); }, {"distance constraint 0", "particle 3", "virtual site"});
    refused([](auto& i) { i.addPositionConstraint(4, Vec3()); }, {"position constraint 0", "massless", "particle 4"});
    refused([](auto& i) { i.addHolonomicConstraint({0}, "x1+"); }, {"holonomic constraint 0", "'x1+'"});
    refused([](auto& i) { i.addHolonomicConstraint({0}, "x2"); }, {"holonomic constraint 0", "no variable 'x2'"});
    refused([](auto& i) { i.addHolonomicConstraint({0}, "x1-t"); }, {"holonomic constraint 0", "no variable 't'"});
    refused(
            [](auto& i) {
                i.addHolonomicConstraint({0, 1}, "distance(p1,p3)");
            },
            {"holonomic constraint 0", "particle 'p3' in distance()"});
    refused(
            [](auto& i) {
                i.addHolonomicConstraint({0, 1, 2}, "pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3)");
            },
            {"holonomic constraint 0", "'pointangle'", "not supported"});
    refused([](auto& i) { i.addHolonomicConstraint({0}, "x1-log(-1)"); }, {"holonomic constraint 0", "nan"});
    refused([](auto& i) { i.addHolonomicConstraint({0}, "3"); }, {"holonomic constraint 0", "no particle"});
    refused([](auto& i) { i.addHolonomicConstraint({0, 4}, "x2"); }, {"holonomic constraint 0", "no particle"});
    refused([](auto& i) { i.addHolonomicConstraint({0, 1}, "angle(p1,p2,p1)"); }, {"holonomic constraint 0", "twice"});
    refused([](auto& i) { i.addVelocityConstraint({0}, {"0", "0", "0"}); }, {"velocity constraint 0", "no particle"});
    refused(
            [](auto& i) {
                i.addVelocityConstraint({4, 0}, {"1", "0", "0", "0", "0", "0"});
            },
            {"velocity constraint 0", "no particle"});
    refused([](auto& i) { i.addVelocityConstraint({0}, {"1", "0", "q"}); }, {"velocity constraint 0", "'q'"});
    refused([](auto& i) { i.setSystemConstraintParameters(1, 1, 1); }, {"constraint 1", "has only 1"});

    // Compliances that are lost to rounding, and no step.
    System pair = makeParticles({1, 1});
    SpookIntegrator twice(0.001);
    for (int copy = 0; copy < 2; copy++)
        twice.addDistanceConstraint(0, 1, 0.1, 1e-30);
    Context apart(pair, twice, platform);
    apart.setPositions({Vec3(), Vec3(0.1, 0, 0)});
    assertThrows([&] { twice.step(1); },
                 {"SpookIntegrator", "particles 0, 1", "depend on each other", "setCompliance"});
    twice.setStepSize(0);
    assertThrows([&] { twice.step(1); }, {"SpookIntegrator", "step size", "positive"});

    // A massless particle, as an anchor or a pin, is welcome, and a change to something impossible can be undone.
    integrator.addDistanceConstraint(0, 4, 0.1);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    integrator.step(1);
    integrator.setDistanceConstraintParameters(0, 0, 9, 0.1);
    assertThrows([&] { integrator.step(1); }, {"particle 9"});
    integrator.setDistanceConstraintParameters(0, 0, 4, 0.1);
    integrator.step(1);
    ASSERT_EQUAL(2, context.getStepCount());
}

/** Neither small nor large blocks, nor expressions, take memory in a step. */
void testNoMemoryIsAllocated(Platform& platform) {
    if (!canCountAllocations)
        return;
    Model model = makeWaterInField();
    const int first = model.system.getNumParticles();
    SpookIntegrator integrator(0.002);
    for (int i = 0; i < 60; i++) {
        model.system.addParticle(14);
        model.positions.push_back(Vec3(1 + 0.13 * i, 0.08 * (i % 2), 0.02 * (i % 3)));
        if (i > 0)
            model.system.addConstraint(first + i - 1, first + i, 0.155);
    }
    model.system.addConstraint(0, 1, bondLength);
    integrator.addPositionConstraint(first, model.positions[first]);
    integrator.addHolonomicConstraint({1, 0, 2}, "angle(p1,p2,p3)-1.8");
    integrator.addVelocityConstraint({2}, {"x1", "0", "1"}, "sin(t)");
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    integrator.step(2);
    assertTakesNoMemory(
            "10 steps", [&] { integrator.step(10); }, [&] { evaluateForces(context, 10); });
}

} // namespace

int main(int argc, char* argv[]) {
    return checkOnPlatform(argc, argv,
                           {CLAIM(testStepIsTheMethod),
                            CLAIM(testLinearConstraintsAreStable),
                            CLAIM(testDependentLinearConstraintsAreStable),
                            CLAIM(testViolationsDecayWithTheDampingTime),
                            CLAIM(testViolationInMotion),
                            CLAIM(testOrder),
                            CLAIM(testEnergyLossIsAsTheorySays),
                            CLAIM(testMomentaAreKept),
                            CLAIM(testRigidWatersFollowSettle),
                            CLAIM(testMultipliersAreForces),
                            CLAIM(testDependentConstraints),
                            CLAIM(testContradictoryConstraints),
                            CLAIM(testPrescribedPulling),
                            CLAIM(testSkateOnASlope),
                            CLAIM(testEnergiesAreOfThePresentTime),
                            CLAIM(testChangesTakeEffect),
                            CLAIM(testMultipliersAreInCheckpoints),
                            CLAIM(testConstraintsThatAreNotFinite),
                            CLAIM(testConstraintWithoutDirection),
                            CLAIM(testErrors),
                            CLAIM(testNoMemoryIsAllocated)});
}
