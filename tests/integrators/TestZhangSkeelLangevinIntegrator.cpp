#include "IntegratorTest.h"
#include "HeatBath.h"

namespace {

/**
 * Independent harmonic oscillators along x: each particle is held by a stiff bond to an anchor so far away that the
 * bond acts along x alone, and by a soft well across.
 *
 * @param omegas   Omega = h sqrt(k/m) of each oscillator at the step size h
 */
Model makeOscillators(const vector<double>& omegas, double mass, double h) {
    Model model;
    vector<HarmonicBond> bonds;
    const double length = 1e5;
    for (double omega : omegas) {
        const int particle = model.system.addParticle(mass), anchor = model.system.addParticle(0);
        model.positions.push_back(Vec3(0, 0, 0));
        model.positions.push_back(Vec3(-length, 0, 0));
        bonds.push_back({anchor, particle, length, omega * omega * mass / (h * h)});
    }
    addBonds(model.system, bonds);
    addExternal(model.system, "500*(y^2+z^2)");
    return model;
}

/**
 * The stationary law of a harmonic stiff mode, for every Omega: var(v) = kT/m exactly, var(q) = (kT/k) / (1 + (b -
 * 1/4) Omega^2), and var(x) = (kT/k) (1 + b Omega^2)^2 / (1 + (b - 1/4) Omega^2). At b = 1/4 the Context's
 * positions have the exact Boltzmann variance, within 4 blocked errors.
 */
CLAIM(testHarmonicVariances, Platform& platform) {
    if (hasSingleForces(platform))
        return; // the bonds are so long that what single precision makes of them is no oscillator
    const double mass = 2, h = 0.002, temperature = 300, kT = boltzmann * temperature;
    const vector<double> omegas = {0.1, 0.3, 1, 2, 3, 5, 10, 20};
    for (double beta : {0.25, 0.4}) {
        const Model model = makeOscillators(omegas, mass, h);
        // Friction 0.5/h decorrelates even the slowest mode within some hundred steps.
        ZhangSkeelLangevinIntegrator integrator(temperature, 0.5 / h, h);
        integrator.setBeta(beta);
        integrator.setRandomNumberSeed(17);
        ModelContext context(model, integrator, platform, deterministic(platform));
        context.setVelocitiesToTemperature(temperature, 4);
        integrator.step(5000);
        const int numSamples = 100000;
        vector<vector<double>> q2(omegas.size()), x2 = q2, v2 = q2;
        for (int sample = 0; sample < numSamples; sample++) {
            integrator.step(2);
            const vector<Vec3> q = getPositions(context), x = integrator.getPropagatedPositions(),
                               v = getVelocities(context);
            for (size_t i = 0; i < omegas.size(); i++) {
                q2[i].push_back(q[2 * i][0] * q[2 * i][0]);
                x2[i].push_back(x[2 * i][0] * x[2 * i][0]);
                v2[i].push_back(v[2 * i][0] * v[2 * i][0]);
            }
        }
        for (size_t i = 0; i < omegas.size(); i++) {
            const double omega2 = omegas[i] * omegas[i], k = omega2 * mass / (h * h);
            const double expectedQ = kT / k / (1 + (beta - 0.25) * omega2);
            const double expectedX = expectedQ * (1 + beta * omega2) * (1 + beta * omega2);
            std::cout << "b " << beta << ", Omega " << omegas[i];
            auto compare = [](const char* name, const vector<double>& squares, double expected) {
                const BlockedMean found(squares);
                std::cout << ", " << name << " " << found.mean / expected << " +- " << found.error / expected;
                ASSERT_USUALLY_TRUE(found.isNear(expected));
                // The test can tell q from x where they differ, and b = 1/4 from another b.
                ASSERT(found.error < 0.03 * expected);
            };
            compare("var(q)", q2[i], expectedQ);
            compare("var(x)", x2[i], expectedX);
            compare("var(v)", v2[i], kT / mass);
            std::cout << " of the expected ones" << std::endl;
        }
    }
}

/** Velocities decay as exp(-gamma h) at temperature 0. */
CLAIM(testFrictionAtZeroTemperature, Platform& platform) {
    Model model;
    model.system.addParticle(10);
    model.positions.push_back(Vec3());
    ZhangSkeelLangevinIntegrator integrator(0, 5, 0.01);
    ModelContext context(model, integrator, platform, deterministic(platform));
    context.setVelocities({Vec3(1, -2, 3)});
    integrator.step(50);
    // In single precision each step rounds velocities to 6e-8 of themselves.
    ASSERT_EQUAL_VEC(Vec3(1, -2, 3) * std::exp(-2.5), getVelocities(context)[0],
                     byRounding(platform, 1e-12, 1e-12, 1e-12, 3e-6));
}

/** The temperature of flexible waters in a cluster, and that of the molecules' centres, is that of the heat bath. */
CLAIM(testTemperature, Platform& platform) {
    ZhangSkeelLangevinIntegrator integrator(300, 10, 0.002);
    integrator.setRandomNumberSeed(23);
    assertTemperatures("ZhangSkeelLangevinIntegrator", integrator, platform, 5000, 5);
}

/** The sum of the squared rates of a water's three distances. */
double squaredRates(const vector<Vec3>& x, const vector<Vec3>& v, int o) {
    double sum = 0;
    for (const auto& [i, j] : {std::pair(o, o + 1), {o, o + 2}, {o + 1, o + 2}}) {
        const Vec3 d = x[j] - x[i];
        const double rate = d.dot(v[j] - v[i]) / norm(d);
        sum += rate * rate;
    }
    return sum;
}

/**
 * Noise in the tangent space of penalty springs leaves their modes cold and thermalizes the rest: six degrees of
 * freedom a water, which computeSystemTemperature() counts.
 */
CLAIM(testTangentNoise, Platform& platform) {
    Model model = makeWaterCluster(2);
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1));
    for (int i = 0; i < bonds.getNumBonds(); i++)
        bonds.setBondParameters(i, i / 2 * 3, i / 2 * 3 + 1 + i % 2, bondLength, 30 * bondConstant);
    for (int i = 0; i < angles.getNumAngles(); i++)
        angles.setAngleParameters(i, 3 * i + 1, 3 * i, 3 * i + 2, waterAngle, 30 * angleConstant);
    addWell(model);
    ZhangSkeelLangevinIntegrator integrator(300, 10, 0.002);
    integrator.setThermalizeStiffModes(false);
    integrator.setRandomNumberSeed(25);
    ModelContext context(model, integrator, platform, deterministic(platform));
    minimize(context, 1);
    // Drawn velocities are in the tangent space too.
    context.setVelocitiesToTemperature(300, 26);
    for (int o = 0; o < 24; o += 3)
        ASSERT_EQUAL_TOL(0, squaredRates(getPositions(context), getVelocities(context), o), 1e-8);
    ASSERT_EQUAL_TOL(2 * kineticEnergy(context) / (6 * 8 * boltzmann), integrator.computeSystemTemperature(), 1e-9);

    vector<double> temperatures, rates;
    auto sample = [&](int numSamples) {
        for (int i = 0; i < numSamples; i++) {
            integrator.step(5);
            temperatures.push_back(integrator.computeSystemTemperature());
            const vector<Vec3> x = integrator.getPropagatedPositions(), v = getVelocities(context);
            for (int o = 0; o < 24; o += 3)
                rates.push_back(squaredRates(x, v, o));
        }
    };
    integrator.step(5000);
    sample(6000);
    const BlockedMean temperature(temperatures), rate(rates);
    // Two bond rates of variance kT/mu and the H-H rate of about 2 kT/m_H, if the modes were thermal.
    const double thermal = boltzmann * 300 * (2 * (1 / oxygenMass + 1 / hydrogenMass) + 2 / hydrogenMass);
    std::cout << "tangent noise: temperature " << temperature.mean << " +- " << temperature.error << " K, stiff modes "
              << rate.mean / thermal << " of thermal" << std::endl;
    ASSERT_USUALLY_TRUE(temperature.isNear(300, 0.01 * 300));
    ASSERT(rate.mean < 0.05 * thermal);

    // The negative control: with full noise the stiff modes are thermal.
    integrator.setThermalizeStiffModes(true);
    integrator.setStepSize(0.0005);
    integrator.step(4000);
    rates.clear();
    sample(2000);
    ASSERT(BlockedMean(rates).mean > 0.5 * thermal);
}

/** Velocities are drawn in the tangent space of the terms that are stiff by now. */
CLAIM(testTangentSpaceFollowsTheStiffGroups, Platform& platform) {
    Model model = makeLoneWaters(2);
    model.system.getForce(1).setForceGroup(1); // angles
    ZhangSkeelLangevinIntegrator integrator(300, 10, 0.002);
    integrator.setThermalizeStiffModes(false);
    ModelContext context(model, integrator, platform);
    for (bool ofAngles : {false, true}) {
        integrator.setStiffForceGroups(ofAngles ? 3 : 1);
        context.setVelocitiesToTemperature(300, 26);
        double sum = 0;
        for (int o = 0; o < 24; o += 3)
            sum += squaredRates(getPositions(context), getVelocities(context), o);
        ASSERT(ofAngles ? sum < 1e-7 : sum > 1);
    }
}

/** computeSystemTemperature() counts as StateDataReporter does: constraints, massless particles, CMMotionRemover. */
CLAIM(testDegreesOfFreedom, Platform& platform) {
    Model model = makeWaterCluster(2, true);
    model.system.addParticle(0);
    model.positions.push_back(Vec3(5, 0, 0));
    dynamic_cast<NonbondedForce&>(model.system.getForce(2)).addParticle(0, 1, 0);
    model.system.addForce(new CMMotionRemover());
    ZhangSkeelLangevinIntegrator integrator(300, 1, 0.002);
    ModelContext context(model, integrator, platform, deterministic(platform));
    context.setVelocitiesToTemperature(300, 27);
    ASSERT_EQUAL_TOL(2 * kineticEnergy(context) / ((6 * 8 - 3) * boltzmann), integrator.computeSystemTemperature(),
                     1e-9);
    integrator.step(200); // constraints hold under noise
    ASSERT(largestViolation(context) < 1e-5);
}

/** Noise that is too much for numbers fails the step as a whole: positions, velocities, time. Then it goes on. */
CLAIM(testFailedNoiseKeepsTheState, Platform& platform) {
    Model model = makeWaterCluster(1);
    model.system.setParticleMass(1, 1e-4); // velocities of 1e154: their squares overflow
    for (bool thermalizeStiffModes : {true, false}) {
        ZhangSkeelLangevinIntegrator integrator(300, 1e6, 0.00001);
        integrator.setRandomNumberSeed(1); // by chance the square may be finite: one time in hundreds
        integrator.setThermalizeStiffModes(thermalizeStiffModes);
        ModelContext context(model, integrator, platform, deterministic(platform));
        integrator.step(2);
        integrator.setTemperature(1.7e308);
        assertRefusedWithoutChange(context, 1, {"ZhangSkeelLangevinIntegrator", "particle", "not finite"});
        integrator.setTemperature(300);
        integrator.step(1);
        ASSERT_EQUAL(3, context.getStepCount());
    }
}

CLAIM(testErrors, Platform& platform) {
    ZhangSkeelLangevinIntegrator integrator(300, 1, 0.001);
    assertThrows([&] { integrator.computeSystemTemperature(); }, {"not bound"});
    // Stiff coordinates can be counted only where they are.
    Model model = makeWaterCluster(1);
    integrator.setThermalizeStiffModes(false);
    Context context(model.system, integrator, platform);
    model.positions[1][0] = std::nan("");
    context.setPositions(model.positions);
    assertThrows([&] { integrator.computeSystemTemperature(); },
                 {"ZhangSkeelLangevinIntegrator", "particles 0, 1, 2", "are not finite"});
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
