#include "IntegratorTest.h"
#include "HeatBath.h"

namespace {

/**
 * The stationary law of a stiff harmonic bond between two atoms. Verlet's micro-steps of size d conserve
 * mu v^2 / 2 + k (1 - (omega d)^2 / 4) s^2 / 2 exactly, and the heat bath makes v thermal, so that var(v) = kT/mu and
 * var(s) = (kT/k) / (1 - (omega d)^2 / 4), however large the step.
 */
CLAIM(testHarmonicVariances, Platform& platform) {
    // So long that the bonds keep their directions: rotation does not stretch them. Single precision has to hold the
    // stretch of some 4e-3 nm beside it.
    const double length = byRounding(platform, 1e4, 1e4, 1e4, 1e2);
    const double mass = 4, mu = mass / 2, k = 2e5, omega = std::sqrt(k / mu), kT = 300 * boltzmann;
    // The number of micro-steps in a step of 6 fs, h omega = 1.9: omega d from 0.95 to 0.19.
    for (int numMicroSteps : {2, 4, 10}) {
        const double h = 0.006, phase = h * omega / numMicroSteps;
        Model model;
        vector<HarmonicBond> bonds;
        const int numPairs = 10;
        for (int i = 0; i < numPairs; i++) {
            addParticles(model.system, {mass, mass});
            model.positions.push_back(Vec3(0, i, 0));
            model.positions.push_back(Vec3(length, i, 0));
            bonds.push_back({2 * i, 2 * i + 1, length, k});
        }
        addBonds(model.system, bonds);
        ImpulseLangevinIntegrator integrator(300, 50, h);
        integrator.setNumMicroSteps(numMicroSteps);
        integrator.setRandomNumberSeed(1);
        ModelContext context(model, integrator, platform, deterministic(platform));
        context.setVelocitiesToTemperature(300, 2);
        integrator.step(1000);
        vector<double> s2, v2;
        for (int sample = 0; sample < 20000; sample++) {
            integrator.step(2);
            const vector<Vec3> x = getPositions(context), v = getVelocities(context);
            double s = 0, w = 0;
            for (int i = 0; i < 2 * numPairs; i += 2) {
                const Vec3 d = x[i + 1] - x[i];
                const double r = std::sqrt(d.dot(d)), stretch = r - length, rate = d.dot(v[i + 1] - v[i]) / r;
                s += stretch * stretch / numPairs;
                w += rate * rate / numPairs;
            }
            s2.push_back(s);
            v2.push_back(w);
        }
        const double expected = kT / k / (1 - 0.25 * phase * phase);
        const BlockedMean s(s2), v(v2);
        std::cout << numMicroSteps << " micro-steps, omega d = " << phase << ": var(s) " << s.mean / expected << " +- "
                  << s.error / expected << ", var(v) " << v.mean * mu / kT << " +- " << v.error * mu / kT
                  << " of the expected ones" << std::endl;
        ASSERT_USUALLY_TRUE(std::abs(s.mean - expected) < 4 * s.error);
        ASSERT_USUALLY_TRUE(std::abs(v.mean - kT / mu) < 4 * v.error);
        ASSERT(s.error < 0.02 * expected && v.error < 0.02 * kT / mu);
    }
}

/** The temperature of flexible waters in a cluster, and that of the molecules' centres, is that of the heat bath. */
CLAIM(testTemperature, Platform& platform) {
    for (const char* name : {"Projected", "Mollified"}) {
        ImpulseLangevinIntegrator integrator(300, 10, 0.004);
        integrator.setKick(name[0] == 'P' ? ImpulseIntegrator::Projected : ImpulseIntegrator::Mollified);
        integrator.setRandomNumberSeed(4);
        assertTemperatures(name, integrator, platform, 2000, 4);
    }
}

/** The negative control: plain kicks at h omega = pi heat the vibrations, whatever the heat bath does against it. */
CLAIM(testPlainKicksHeatAtResonance, Platform& platform) {
    const double omega = std::sqrt(bondConstant * (1 / hydrogenMass + (1 - std::cos(waterAngle)) / oxygenMass));
    auto measure = [&](const char* name, ImpulseIntegrator::KickMethod kick) {
        ImpulseLangevinIntegrator integrator(300, 3, M_PI / omega);
        integrator.setKick(kick);
        integrator.setRandomNumberSeed(6);
        return measureTemperatures(name, integrator, platform, 500, 1000, 2)[0].mean;
    };
    ASSERT(std::abs(measure("projected kicks at h omega = pi", ImpulseIntegrator::Projected) - 300) < 30);
    ASSERT(measure("plain kicks at h omega = pi", ImpulseIntegrator::Plain) > 400);
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
