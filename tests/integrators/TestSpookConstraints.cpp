/**
 * SpookIntegrator: kinds of constraints, and what they do to each other, on each platform.
 */

#include "IntegratorTest.h"
#include "SpookSystems.h"

namespace {

/** In a chain that hangs at rest the multipliers are the weights, and the constraints give way by epsilon lambda. */
CLAIM(testMultipliersAreForces, Platform& platform) {
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
CLAIM(testDependentConstraints, Platform& platform) {
    for (const DependentConstraints& group : makeDependentConstraints()) {
        const double h = 0.01;
        const System system = group.makeSystem();
        SpookIntegrator integrator(h);
        integrator.setDampingSteps(2);
        for (const auto& [i, j] : group.pairs)
            integrator.addDistanceConstraint(i, j, norm(group.positions[j] - group.positions[i]));
        Context context(system, integrator, platform);
        context.setPositions(group.positions);
        context.setVelocitiesToTemperature(300, 1);
        double squares = 0, expected = 0, largest = 0;
        for (int step = 0; step < 5000; step++) {
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
        Context ccma(system, verlet, platform);
        ccma.setPositions(group.positions);
        ccma.setVelocitiesToTemperature(300, 1);
        const std::string failure = catchMessage([&] { verlet.step(1); });
        const double ratio = std::sqrt(squares / expected);
        std::cout << group.name << ": rms violation " << ratio << " times the expected, relative violation at most "
                  << largest << "; with CCMA " << largestViolation(ccma) << " after a step " << failure << std::endl;
        ASSERT_EQUAL_TOL(1, ratio, 0.1);
        ASSERT(largest < 0.05);
    }
}

/** Constraints that contradict each other find the compromise of their compliances, and violations stay there. */
CLAIM(testContradictoryConstraints, Platform& platform) {
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
CLAIM(testPrescribedPulling, Platform& platform) {
    System system = makeParticles({3, 5});
    addBonds(system, {{0, 1, 0.5, 20}});
    auto error = [&](double h) {
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
        ASSERT_EQUAL_TOL(0, integrator.computeViolations()[0], 1e-6);
        // The last kick was at t - h: k (d - d0) + mu d''.
        const double t = 2 - h, d = 0.5 + 0.3 * t + 0.1 * std::sin(2 * t);
        const double force = 20 * (d - 0.5) - 15.0 / 8 * 0.4 * std::sin(2 * t);
        ASSERT_EQUAL_TOL(force, integrator.getMultipliers()[0], 0.2 * h);
        return std::abs(x[1][0] - x[0][0] - (0.5 + 0.3 * 2 + 0.1 * std::sin(4.0)));
    };
    ASSERT_EQUAL_TOL(2, orderOf(error, {0.04, 0.02, 0.01, 0.005}), 0.05);
}

/** A skate on a slope that turns comes back up instead of sliding down: the error of its path is of first order. */
CLAIM(testSkateOnASlope, Platform& platform) {
    const double omega = 2, end = 3;
    System system = makeParticles({1, 1});
    addGravity(system);
    auto error = [&](double h) {
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
        // The speed along the rod, at the angle omega t, is (cos(omega t) - 1)/omega.
        const double s = std::sin(omega * end), c = std::cos(omega * end);
        const Vec3 exact(omega * end / 2 + s * c / 2 - s, s * s / 2 + c - 1, 0);
        return norm((x[0] + x[1]) * 0.5 - exact / (omega * omega));
    };
    ASSERT_EQUAL_TOL(1, orderOf(error, {0.01, 0.005, 0.0025, 0.00125}), 0.05);
}

/**
 * A thermostat that takes what is tied here for free leaves it at the temperature, which is that of the degrees of
 * freedom that all constraints leave.
 */
CLAIM(testTiedParticlesHaveTheTemperature, Platform& platform) {
    const int numRods = 400;
    for (bool ofSystem : {true, false}) {
        System system = makeParticles(vector<double>(2 * numRods, 14));
        SpookIntegrator integrator(0.001);
        vector<Vec3> positions;
        for (int i = 0; i < 2 * numRods; i += 2) {
            positions.insert(positions.end(), {Vec3(i, 0, 0), Vec3(i + 0.15, 0, 0)});
            if (ofSystem)
                system.addConstraint(i, i + 1, 0.15);
            else
                integrator.addDistanceConstraint(i, i + 1, 0.15);
        }
        integrator.addHolonomicConstraint({0, 1}, "distance(p1,p2)-0.15"); // once more
        auto* thermostat = new AndersenThermostat(300, 20);
        thermostat->setRandomNumberSeed(1);
        system.addForce(thermostat);
        Context context(system, integrator, platform);
        context.setPositions(positions);
        context.setVelocitiesToTemperature(300, 2);
        ASSERT_EQUAL_TOL(2 * kineticEnergy(context) / (5 * numRods * boltzmann), integrator.computeSystemTemperature(),
                         1e-6);
        vector<double> temperatures;
        for (int i = 0; i < 80; i++) {
            integrator.step(50);
            temperatures.push_back(integrator.computeSystemTemperature());
        }
        assertMean(ofSystem ? "rods of the System, K" : "rods of SPOOK, K", BlockedMean(temperatures), 300, 4);
    }
}

/** A dihedral angle that is held where it jumps by a whole turn. */
CLAIM(testAnglesAreHeldWhereTheyJump, Platform& platform) {
    for (const char* expression :
         {"dihedral(p1,p2,p3,p4)-3.14159265358979", "2*dihedral(p1,p2,p3,p4)+6.28318530717959"}) {
        System system = makeParticles({12, 12, 12, 12});
        SpookIntegrator integrator(0.001);
        for (int i = 0; i < 3; i++)
            integrator.addDistanceConstraint(i, i + 1, 0.15);
        for (int i = 0; i < 2; i++)
            integrator.addDistanceConstraint(i, i + 2, 0.25);
        integrator.addHolonomicConstraint({0, 1, 2, 3}, expression);
        Context context(system, integrator, platform);
        context.setPositions({Vec3(-0.2, 0.125, 0), Vec3(-0.1, 0, 0.01), Vec3(0.05, 0, 0), Vec3(0.14, -0.12, 0)});
        context.setVelocitiesToTemperature(300, 3);
        double largest = 0;
        for (int i = 0; i < 1000; i++) {
            integrator.step(1);
            if (i > 100)
                largest = std::max(largest, std::abs(integrator.computeViolations().back()));
        }
        ASSERT(largest < 0.01 && largest > 0);
    }
    // What is linear in parts only is what it says.
    System system = makeParticles({12, 12, 12, 12});
    SpookIntegrator integrator(0.001);
    integrator.addHolonomicConstraint({0, 1, 2, 3}, "abs(dihedral(p1,p2,p3,p4))+1");
    integrator.addHolonomicConstraint({0, 1, 2}, "max(angle(p1,p2,p3)-3.1,0)");
    Context context(system, integrator, platform);
    context.setPositions({Vec3(-0.2, 0.125, 0), Vec3(-0.1, 0, 0.01), Vec3(0.05, 0, 0), Vec3(0.14, -0.12, 0)});
    ASSERT_EQUAL_TOL(4.059179215673, integrator.computeViolations()[0], 1e-6);
    ASSERT_EQUAL(0, integrator.computeViolations()[1]);
}

/** Two particles in one place have no direction: their constraint exerts no force, and moves nothing. */
CLAIM(testConstraintWithoutDirection, Platform& platform) {
    System system = makeParticles({1, 2});
    SpookIntegrator integrator(0.001);
    integrator.addDistanceConstraint(0, 1, 0.1);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(), Vec3()});
    integrator.step(1);
    ASSERT_EQUAL(0, integrator.getMultipliers()[0]);
    ASSERT_EQUAL_VEC(Vec3(), getPositions(context)[1], 0);
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
