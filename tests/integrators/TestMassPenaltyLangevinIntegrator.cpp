#include "IntegratorTest.h"
#include <Eigen/LU>

namespace {

const double kT = boltzmann * 300;

double square(double x) {
    return x * x;
}

/** Bent molecules ABA with a light atom in the middle, beside each other; none acts on another. */
struct BentMolecules {
    static constexpr int count = 64;
    static constexpr double length = 0.15, bondConstant = 1e5, endMass = 12, middleMass = 2;
    /// A double well in the angle.
    static double angleEnergy(double theta) {
        return 60 * square(square(theta - 1.9) - 0.16);
    }
    Model model;

    explicit BentMolecules(bool constrained = false) {
        auto* bonds = new HarmonicBondForce();
        auto* angles = new CustomAngleForce("60*((theta-1.9)^2-0.16)^2");
        for (int m = 0; m < count; m++) {
            const int first = 3 * m;
            addParticles(model.system, {endMass, middleMass, endMass});
            for (int i : {0, 2}) {
                if (constrained)
                    model.system.addConstraint(first + 1, first + i, length);
                else
                    bonds->addBond(first + 1, first + i, length, bondConstant);
            }
            angles->addAngle(first, first + 1, first + 2);
            model.positions.push_back(Vec3(length, 0, m));
            model.positions.push_back(Vec3(0, 0, m));
            model.positions.push_back(Vec3(length * std::cos(1.9), length * std::sin(1.9), m));
        }
        model.system.addForce(bonds);
        model.system.addForce(angles);
    }
};

/** Means over molecules and time of the square of cos(angle), of the bond length and of its square, in 32 blocks. */
struct Averages {
    BlockedMean cosineSquare, length, lengthSquare;
};

/**
 * @param lambda     the inertia of the relative velocity of both bonds of each molecule; 0 is none
 * @param metric     whether there is a metric force
 * @param addPairs   adds the pairs of a molecule that have an inertia, given its first particle
 */
Averages sample(const BentMolecules& molecules, Platform& platform, double lambda, bool metric, int numSteps,
                const std::function<void(MassPenaltyLangevinIntegrator&, int first)>& addPairs) {
    MassPenaltyLangevinIntegrator integrator(300, 2, 0.004);
    integrator.setUseBondedForces(false);
    for (int m = 0; m < molecules.count; m++) {
        addPairs(integrator, 3 * m);
        for (int i : {0, 2})
            integrator.addBondInertia(3 * m + 1, 3 * m + i, lambda);
    }
    integrator.setMetricCorrection(metric);
    integrator.setRandomNumberSeed(3);
    ModelContext context(molecules.model, integrator, platform, deterministic(platform));
    context.setVelocitiesToTemperature(300, 2);
    integrator.step(2000);
    const int interval = 10;
    vector<double> series[3];
    for (int i = 0; i < numSteps; i += interval) {
        integrator.step(interval);
        const vector<Vec3> x = getPositions(context);
        double sums[3] = {0, 0, 0};
        for (int m = 0; m < molecules.count; m++) {
            const Vec3 a = x[3 * m] - x[3 * m + 1], b = x[3 * m + 2] - x[3 * m + 1];
            sums[0] += square(a.dot(b) / norm(a) / norm(b)) / molecules.count;
            sums[1] += 0.5 * (norm(a) + norm(b)) / molecules.count;
            sums[2] += 0.5 * (a.dot(a) + b.dot(b)) / molecules.count;
        }
        for (int k = 0; k < 3; k++)
            series[k].push_back(sums[k]);
    }
    return {BlockedMean(series[0]), BlockedMean(series[1]), BlockedMean(series[2])};
}

/** The mean of f under a density, both functions of one coordinate, by the midpoint rule. */
double quadrature(double from, double to, const std::function<double(double)>& density,
                  const std::function<double(double)>& f) {
    const int n = 20000;
    double sum = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        const double s = from + (to - from) * (i + 0.5) / n, weight = density(s);
        sum += weight * f(s);
        norm += weight;
    }
    return sum / norm;
}

/**
 * det A(theta) = a^2 - (b cos(theta))^2 of the two bonds of a molecule, A = G M'^-1 G^T + compliance.
 *
 * @param lambda   the inertia of the bonds in M'
 */
double determinant(double theta, double lambda, double compliance) {
    Eigen::Matrix3d M =
            Eigen::Vector3d(BentMolecules::endMass, BentMolecules::middleMass, BentMolecules::endMass).asDiagonal();
    for (int end : {0, 2}) {
        Eigen::Vector3d bond = Eigen::Vector3d::Zero();
        bond[end] = 1;
        bond[1] = -1;
        M += lambda * bond * bond.transpose();
    }
    const Eigen::Matrix3d W = M.inverse();
    const double a = W(0, 0) + W(1, 1) - 2 * W(0, 1) + compliance, b = W(1, 1) - W(0, 1) - W(2, 1) + W(0, 2);
    return a * a - square(b * std::cos(theta));
}

double angleWeight(double theta) {
    return std::sin(theta) * std::exp(-BentMolecules::angleEnergy(theta) / kT);
}

double cosineSquare(double theta) {
    return square(std::cos(theta));
}

/** The mean of the square of cos(angle) with the factor (det A)^1/2 in the distribution. */
double biasedCosineSquare(double lambda, double compliance) {
    return quadrature(
            0, M_PI,
            [=](double theta) { return angleWeight(theta) * std::sqrt(determinant(theta, lambda, compliance)); },
            cosineSquare);
}

/**
 * With the metric force, stiff and soft coordinates have the distribution exp(-V / kT): the angle's is sin(theta)
 * exp(-V / kT), a bond's r^2 exp(-V / kT), whatever inertia the bonds' relative velocity has. Without it the angle's has
 * the factor (det A)^1/2, and an average that differs by many errors, as theory says it does.
 */
CLAIM(testDistributionIsThatOfThePotential, Platform& platform) {
    const double inertia = 500; // the bonds' period is 2 pi (kappa / k)^1/2 = 0.44 ps
    const BentMolecules molecules;
    auto bondWeight = [](double r) {
        return r * r * std::exp(-0.5 * BentMolecules::bondConstant * square(r - BentMolecules::length) / kT);
    };
    const double unbiased = quadrature(0, M_PI, angleWeight, cosineSquare);
    const double length = quadrature(0.1, 0.2, bondWeight, [](double r) { return r; });
    const double lengthSquare = quadrature(0.1, 0.2, bondWeight, square);
    for (const auto& [metric, lambda] : {std::pair(true, 0.0), {true, 10.0}, {false, 10.0}, {false, 0.0}}) {
        const Averages found = sample(molecules, platform, lambda, metric, 60000, [&](auto& integrator, int first) {
            for (int i : {0, 2})
                integrator.addPair(first + 1, first + i, inertia); // the angle has none
        });
        const double expected = (metric ? unbiased : biasedCosineSquare(lambda, 1 / inertia));
        assertMean("cos^2", found.cosineSquare, expected);
        if (metric) {
            assertMean("bond length", found.length, length);
            assertMean("its square", found.lengthSquare, lengthSquare);
        }
        if (!metric && lambda == 0)
            ASSERT(std::abs(found.cosineSquare.mean - unbiased) > 6 * found.cosineSquare.error);
    }
}

/**
 * Constraints keep the distribution that they have in constrained dynamics, sin(theta) (det A_cc)^1/2 exp(-V / kT) with
 * the masses alone in A_cc, with an inertia beside them and of the bonds as well. Without the metric force A_cc is that
 * of the coupled masses, and differs by many errors.
 */
CLAIM(testConstraintsKeepTheirDistribution, Platform& platform) {
    const BentMolecules molecules(true);
    struct Case {
        double kappa, lambda;
        bool metric;
    };
    for (const Case& tried : {Case{0, 0, true}, {20, 0, true}, {0, 10, true}, {20, 10, true}, {0, 10, false}}) {
        const BlockedMean found =
                sample(molecules, platform, tried.lambda, tried.metric, 40000, [&](auto& integrator, int first) {
                    integrator.addPair(first, first + 2, tried.kappa);
                }).cosineSquare;
        assertMean("cos^2, bonds constrained", found, biasedCosineSquare(tried.metric ? 0 : tried.lambda, 0));
        ASSERT(tried.metric || !found.isNear(biasedCosineSquare(0, 0)));
    }
}

/** Flexible water at 8 fs has the bath's temperature, and the energy of bonds and angles of a small step. */
CLAIM(testWaterAtEightFemtoseconds, Platform& platform) {
    Model model = makeWaterCluster(2);
    addWell(model);
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).setForceGroup(1);
    dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1)).setForceGroup(2);
    MassPenaltyLangevinIntegrator integrator(300, 5, 0.008);
    integrator.setRandomNumberSeed(6);
    LangevinMiddleIntegrator reference(300, 5, 0.0005);
    reference.setRandomNumberSeed(6);
    auto run = [&](Integrator& tested, int numSteps, int interval) {
        ModelContext context(model, tested, platform, deterministic(platform));
        minimize(context);
        context.setVelocitiesToTemperature(300, 1);
        tested.step(numSteps / 10);
        vector<double> kinetic, bonds, angles;
        for (int i = 0; i < numSteps; i += interval) {
            tested.step(interval);
            kinetic.push_back(kineticEnergy(context));
            bonds.push_back(context.getState(State::Energy, false, 1 << 1).getPotentialEnergy());
            angles.push_back(context.getState(State::Energy, false, 1 << 2).getPotentialEnergy());
        }
        return vector<BlockedMean>{BlockedMean(kinetic), BlockedMean(bonds), BlockedMean(angles)};
    };
    const vector<BlockedMean> found = run(integrator, 40000, 5), expected = run(reference, 160000, 20);
    const char* names[] = {"kinetic", "bond", "angle"};
    for (int k = 0; k < 3; k++) {
        std::cout << names[k] << " energy " << found[k].mean << ", at 0.5 fs " << expected[k].mean << std::endl;
        const double error = std::hypot(found[k].error, expected[k].error);
        ASSERT(std::abs(found[k].mean - expected[k].mean) < 4 * error + 0.01 * expected[k].mean);
    }
}

/**
 * Two particles that meet with 28 kT at steps of 16 fs leave with more than 200 kT from some of the places where a step
 * may end, and with less than 60 if that is a collision, for which a run has to be older than 100 steps.
 */
CLAIM(testCollisionsDoNotHeat, Platform& platform) {
    const double h = 0.016, mass = 18, eachEnergy = 14 * kT, begin = 0.6;
    Model model;
    auto* repulsion = new CustomBondForce("2.6*((0.315/r)^12-(0.315/r)^6)");
    repulsion->addBond(0, 1);
    const int number = 100; // the others are cold, and never meet any
    addParticles(model.system, vector<double>(number, mass));
    model.system.addForce(repulsion);
    for (int i = 0; i < number; i++)
        model.positions.push_back(Vec3(0, i, 0));
    MassPenaltyLangevinIntegrator integrator(300, 1e-4, h);
    integrator.setUseBondedForces(false);
    integrator.setRandomNumberSeed(1);
    ModelContext context(model, integrator, platform, deterministic(platform));
    auto meet = [&](int stepsBefore) {
        double most = 0;
        for (double more = 0; more < 0.08; more += 0.004) {
            model.positions[1] = Vec3(begin + more, 0, 0);
            context.setPositions(model.positions);
            vector<Vec3> velocities(number);
            context.setVelocities(velocities);
            integrator.step(stepsBefore);
            velocities[0] = Vec3(std::sqrt(2 * eachEnergy / mass), 0, 0);
            velocities[1] = -velocities[0];
            context.setVelocities(velocities);
            integrator.step(40);
            most = std::max(most, kineticEnergy(context) / kT);
        }
        return most;
    };
    ASSERT(meet(0) > 200);
    ASSERT_EQUAL(0, integrator.getNumCollisions());
    ASSERT(meet(100) < 60);
    ASSERT(integrator.getNumCollisions() > 5);
}

/**
 * Collisions are undone once in a hundred steps, three times in a row at most, by steps that are not counted; what that
 * does not mend is an error.
 */
CLAIM(testRunGoesOnAfterCollision, Platform& platform) {
    Model model = makeWaterCluster(2);
    addExternal(model.system, "1e-9*sqrt(wall-z)", {{"wall", 1e3}}, {0});
    // An edge of 10 kT, at which a kick of a whole step gives more than 30 kT.
    addExternal(model.system, "-12.5*tanh((z-edge)/0.0018)", {{"edge", 1e3}}, {0});
    const double h = 0.012;
    MassPenaltyLangevinIntegrator integrator(300, 20, h);
    ModelContext context(model, integrator, platform, deterministic(platform));
    minimize(context);
    context.setVelocitiesToTemperature(300, 1);
    auto collides = [&] {
        context.setVelocities(getVelocities(context)); // so that those before do not count
        context.setParameter("edge", getPositions(context)[0][2]);
        const int before = integrator.getNumCollisions();
        const double time = context.getTime();
        const long long count = context.getStepCount();
        integrator.step(2);
        ASSERT_EQUAL_TOL(time + 2 * h, context.getTime(), 1e-9);
        ASSERT_EQUAL(count + 2, context.getStepCount());
        context.setParameter("edge", 1e3);
        return integrator.getNumCollisions() > before;
    };
    ASSERT(!collides());
    integrator.step(98);
    ASSERT_EQUAL("", integrator.takeWarning());
    ASSERT(collides());
    assertHasWords(integrator.takeWarning(), {"the molecule with particles 0, 1, 2", "30 kT", "getNumCollisions()"});
    ASSERT(!collides());
    integrator.step(96);
    ASSERT(collides());
    ASSERT_EQUAL("", integrator.takeWarning());
    integrator.step(400);
    ASSERT(collides() && collides() && collides() && !collides());
    integrator.step(100);
    integrator.setTemperature(0);
    ASSERT(!collides());

    // Small steps fail in their turn, the first of them or one of the next: nothing has changed.
    integrator.setTemperature(300);
    for (double distance : {-0.1, 0.01}) {
        integrator.step(400);
        const vector<Vec3> positions = getPositions(context), velocities = getVelocities(context);
        context.setParameter("edge", positions[0][2]);
        context.setParameter("wall", positions[0][2] + distance);
        const long long count = context.getStepCount();
        const double time = context.getTime();
        const int collisions = integrator.getNumCollisions();
        assertThrows([&] { integrator.step(1); }, {"particles 0, 1, 2", "not finite", "0.003 ps"});
        ASSERT_EQUAL_CONTAINERS(positions, getPositions(context));
        ASSERT_EQUAL_CONTAINERS(velocities, getVelocities(context));
        ASSERT_EQUAL(count, context.getStepCount());
        ASSERT_EQUAL_TOL(time, context.getTime(), 1e-9);
        ASSERT_EQUAL(collisions, integrator.getNumCollisions());
        ASSERT_EQUAL(h, integrator.getStepSize());
        ASSERT(integrator.getUseDefaultPenalizedPeriod() && integrator.getUseDefaultBondInertia());
        context.setParameter("edge", 1e3);
        context.setParameter("wall", 1e3);
    }
    integrator.step(1);
}

/** What does not collide goes on: a particle in a constant field is on its parabola after the small steps of others. */
CLAIM(testOthersStayOnTheirWayInSmallSteps, Platform& platform) {
    const double h = 0.012, mass = 4, acceleration = 50;
    Model model;
    addParticles(model.system, {16, mass});
    model.positions = {Vec3(), Vec3(1, 0, 0)};
    addExternal(model.system, "-12.5*tanh((z-edge)/0.0018)", {{"edge", 1e3}}, {0});
    addExternal(model.system, "-force*x", {{"force", 0}}, {1});
    MassPenaltyLangevinIntegrator integrator(300, 0, h);
    ModelContext context(model, integrator, platform);
    context.setVelocities(vector<Vec3>(2));
    integrator.step(100); // since when there may be collisions
    context.setParameter("force", mass * acceleration);
    const double first = getPositions(context)[1][0];
    integrator.step(1);
    const double second = getPositions(context)[1][0];
    context.setParameter("edge", getPositions(context)[0][2]);
    integrator.step(1);
    ASSERT_EQUAL(1, integrator.getNumCollisions());
    // From the first place on: 32 of a quarter of the step, and that itself.
    const double steps = 1 + 32 / 4 + 1,
                 expected = first + steps * (second - first) + 0.5 * acceleration * h * h * steps * (steps - 1);
    ASSERT_EQUAL_TOL(expected, getPositions(context)[1][0], byRounding(platform, 1e-10, 1e-7, 1e-6, 1e-5));
}

/** A CMMotionRemover does not heat hydrogens of fixed atoms, along whose bonds the inertias are. */
CLAIM(testFixedAtomsAndAMotionRemover, Platform& platform) {
    Model model = makeWaterCluster(2);
    for (int o = 0; o < 24; o += 3)
        model.system.setParticleMass(o, 0);
    model.system.addForce(new CMMotionRemover());
    MassPenaltyLangevinIntegrator integrator(300, 5, 0.006);
    ModelContext context(model, integrator, platform, deterministic(platform));
    minimize(context);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(1000);
    const int samples = 3200;
    double temperature = 0;
    for (int i = 0; i < samples; i++) {
        integrator.step(5);
        temperature += 2 * kineticEnergy(context) / (48 * boltzmann) / samples;
    }
    // OpenMM's own integrators are cold here, as momentum is taken away. This is 259 K, with an error of 2 K.
    std::cout << "a motion remover: " << temperature << " K" << std::endl;
    ASSERT(temperature > 250 && temperature < 315);
}

/** Molecules that are driven are hot, and named as such; others, and these without the drive, are not. */
CLAIM(testWhatIsHotterThanTheHeatBathIsSaid, Platform& platform) {
    const int number = 100, steps = 20;
    Model gas;
    for (int i = 0; i < 2 * number; i++) {
        gas.system.addParticle(i < number ? 40 : 16);
        gas.positions.push_back(Vec3(i, 0, 0));
    }
    addExternal(gas.system, "step(20-m)*F*x", {{"F", 0}});
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.01);
    ModelContext context(gas, integrator, platform, deterministic(platform));
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(1);
    integrator.takeWarning(); // that nothing is slowed down
    auto run = [&](double force) {
        for (int i = 0; i < 4000 / steps; i++) {
            context.setParameter("F", i % 2 == 0 ? force : -force);
            integrator.step(steps);
        }
        return integrator.takeWarning();
    };
    ASSERT_EQUAL("", run(0));
    // Velocities between +-F t / 2 m, as force changes its sign in t = 0.2 ps: they add m (F t / m)^2 / 12 to 3 kT / 2.
    const std::string warning = run(110);
    assertHasWords(warning, {"the molecule with particle 100, and 99 molecules like it, have had",
                             "the heat bath has 300 K", "A step of 0.01 ps is too large"});
    ASSERT(warning.find("particle 0 ") == std::string::npos);
    const std::string before = " K in the last ";
    const int ofWindow = std::stoi(warning.substr(warning.find(before) + before.size()));
    ASSERT(ofWindow > 0 && ofWindow <= context.getStepCount());
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
