/**
 * The elementary maps that steps are composed of.
 */

#include "CoreTest.h"
#include "stiffcore/methods/Elementary.h"

const double roundoff = 0x1p-53;

/** Masses, every third of them 0, and an array with three components for each. */
struct Particles {
    vector<double> masses, v, other;

    Particles(Random& random, int size) {
        for (int i = 0; i < size; i++)
            masses.push_back(i % 3 == 1 ? 0 : random.uniform(1, 20));
        for (int i = 0; i < 3 * size; i++) {
            v.push_back(random.gaussian());
            other.push_back(random.gaussian());
        }
    }
};

/** Check that map(begin, end) does expected(v, other) on a part of the particles and nothing elsewhere. */
template <class Map, class Expected> void checkMap(Particles& particles, Map&& map, Expected&& expected) {
    const vector<double> before = particles.v;
    const int begin = 2, end = particles.masses.size() - 3;
    map(begin, end);
    for (int i = 0; i < (int) particles.masses.size(); i++)
        for (int j = 0; j < 3; j++) {
            const double found = particles.v[3 * i + j];
            const bool moves = (i >= begin && i < end && particles.masses[i] > 0);
            const double wanted = expected(before[3 * i + j], particles.other[3 * i + j]);
            ASSERT_EQUAL_TOL(moves ? wanted : before[3 * i + j], found, moves ? 4 * roundoff : 0);
        }
}

CLAIM(testKickAndDriftMoveParticlesThatHaveMass) {
    Random random(1);
    Particles particles(random, 20);
    const double t = 0.3;
    // The data behind massless particles may be anything.
    for (size_t i = 0; i < particles.masses.size(); i++)
        if (particles.masses[i] == 0)
            particles.other[3 * i] = NAN;
    const double *other = particles.other.data(), *masses = particles.masses.data();
    double* v = particles.v.data();
    const auto expected = [&](double x, double v) { return x + t * v; };
    const auto kickPart = [&](int begin, int end) { kick(t, other, masses, v, begin, end); };
    const auto driftPart = [&](int begin, int end) { drift(t, other, masses, v, begin, end); };
    checkMap(particles, kickPart, expected);
    checkMap(particles, driftPart, expected);
}

CLAIM(testNoiseIsScaledByTheMasses) {
    Random random(3);
    Particles particles(random, 20);
    const OrnsteinUhlenbeck flow(2, 2.5, 0.3);
    vector<double> noise(60, 7.0);
    int numDrawn = 0;
    flow.drawNoise(flow.amplitude, particles.masses.data(), noise.data(), 3, 18, [&] { return (double) ++numDrawn; });
    int next = 0;
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 3; j++) {
            const double mass = particles.masses[i];
            double expected = (i >= 3 && i < 18 ? 0 : 7);
            if (i >= 3 && i < 18 && mass > 0)
                expected = ++next * std::sqrt((1 - std::exp(-1.2)) * 2.5 / mass);
            ASSERT_EQUAL_TOL(expected, noise[3 * i + j], 10 * roundoff);
        }
    ASSERT_EQUAL(next, numDrawn);
}

CLAIM(testNoFrictionLeavesVelocitiesAsTheyAre) {
    Random random(4);
    Particles particles(random, 20);
    const OrnsteinUhlenbeck none(0, 2.5, 0.3), noTime(5, 2.5, 0);
    for (const OrnsteinUhlenbeck& flow : {none, noTime}) {
        ASSERT_EQUAL(1, flow.decay);
        ASSERT_EQUAL(0, flow.amplitude);
        vector<double> noise(60, 7.0);
        flow.drawNoise(flow.amplitude, particles.masses.data(), noise.data(), 0, 20, [&] { return random.gaussian(); });
        ASSERT_EQUAL_CONTAINERS(vector<double>(60, 0.0), noise);
    }
}

CLAIM(testWeakFrictionHasItsNoise) {
    // 1 - exp(-2 gamma t) = 2 gamma t (1 - gamma t + ...), also where it is far below the roundings of 1.
    const double kT = 2.5;
    for (double gamma : {1e-9, 1e-12, 1e-18, 1e-100}) {
        const OrnsteinUhlenbeck flow(gamma, kT, 1);
        ASSERT(flow.amplitude > 0);
        ASSERT_EQUAL_TOL(1.0, flow.amplitude / std::sqrt(2 * gamma * kT), gamma + 4 * roundoff);
        ASSERT_EQUAL_TOL(1 - gamma, flow.decay, gamma * gamma + roundoff);
    }
}

CLAIM(testStrongFrictionDrawsVelocitiesAfreshAndNoTemperatureNone) {
    const OrnsteinUhlenbeck strong(1e4, 2.5, 1), cold(2, 0, 0.3);
    ASSERT_EQUAL(0, strong.decay);
    ASSERT_EQUAL(std::sqrt(2.5), strong.amplitude);
    ASSERT_EQUAL(0, cold.amplitude);
    ASSERT_EQUAL_TOL(std::exp(-0.6), cold.decay, roundoff);
}

CLAIM(testTwoHalvesAreTheWhole) {
    // v'' = d (d v + n1) + n2: the flow of t if d^2 is its damping and d^2 a^2 + a^2 its variance.
    for (double gamma : {1e-15, 1e-6, 0.1, 1.0, 10.0, 300.0}) {
        const double t = 0.7, kT = 2.5;
        const OrnsteinUhlenbeck half(gamma, kT, t / 2), whole(gamma, kT, t);
        // exp(-gamma t) has the relative condition number gamma t.
        const double tolerance = (10 + 2 * gamma * t) * roundoff;
        ASSERT(std::abs(half.decay * half.decay - whole.decay) <= tolerance * whole.decay);
        const double variance = half.amplitude * half.amplitude * (1 + half.decay * half.decay);
        ASSERT(std::abs(variance - whole.amplitude * whole.amplitude) <= tolerance * variance);
    }
}

CLAIM(testMaxwellDistributionIsStationary) {
    // The variance kT/m is kept: d^2 kT + a^2 = kT.
    for (double gamma : {0.0, 1e-15, 1e-6, 0.1, 1.0, 10.0, 1e4}) {
        const OrnsteinUhlenbeck flow(gamma, 2.5, 0.7);
        ASSERT_EQUAL_TOL(1.0, flow.decay * flow.decay + flow.amplitude * flow.amplitude / 2.5, 4 * roundoff);
    }
}

CHECK_CLAIMS
