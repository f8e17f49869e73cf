/**
 * The thermometer of molecules: what it is told of velocities of a known temperature.
 */

#include "SystemTest.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include "setup/Thermometer.h"

namespace {

/** Rigid waters of four sites, the last a virtual one; and atoms that are free. */
struct Waters {
    static const int number = 50;
    System system;
    vector<vector<int>> molecules;

    Waters() {
        for (int m = 0; m < number; m++) {
            const int o = 4 * m;
            addParticles(system, {16, 1, 1, 0});
            system.setVirtualSite(o + 3, new ThreeParticleAverageSite(o, o + 1, o + 2, 0.6, 0.2, 0.2));
            system.addConstraint(o, o + 1, 0.1);
            system.addConstraint(o, o + 2, 0.1);
            system.addConstraint(o + 1, o + 2, 0.16);
            molecules.push_back({o, o + 1, o + 2, o + 3});
        }
        for (int m = 0; m < number; m++)
            molecules.push_back({system.addParticle(40)});
    }
    /** All as fast as to give these temperatures [K]: six degrees of freedom of a water, three of an atom. */
    vector<Vec3> velocities(double ofWaters, double ofAtoms) const {
        vector<Vec3> all(system.getNumParticles());
        for (int m = 0; m < number; m++) {
            for (int k = 0; k < 3; k++)
                all[4 * m + k] = Vec3(std::sqrt(6 * BOLTZ * ofWaters / 18), 0, 0);
            all[4 * number + m] = Vec3(0, std::sqrt(3 * BOLTZ * ofAtoms / 40), 0);
        }
        return all;
    }
};

/** The first text of so many samples, each 100 steps of 0.01 ps later, at 300 K and 1/ps. */
string watch(Thermometer& thermometer, const vector<Vec3>& velocities, int samples) {
    for (int i = 0; i < samples; i++) {
        const string text = thermometer.sample(velocities, 100, 300, 1, 0.01);
        if (!text.empty())
            return text;
    }
    return "";
}

CLAIM(testHotMoleculesAreNamed) {
    const Waters waters;
    Thermometer thermometer(waters.system, waters.molecules);
    ASSERT_EQUAL("", watch(thermometer, waters.velocities(300, 300), 500));
    ASSERT_EQUAL("", watch(thermometer, waters.velocities(313, 270), 500)); // 5 % are allowed
    thermometer.forget();
    const string text = watch(thermometer, waters.velocities(340, 300), 500);
    assertHasWords(text, {"particles 0, 1, 2, 3, and 49 molecules like it, have had", "340 K",
                          "the heat bath has 300 K", "0.01 ps is too large"});
    ASSERT(text.find("particle 200") == string::npos);
    assertHasWords(watch(thermometer, waters.velocities(300, 350), 500), {"particle 200, and 49 molecules"});
}

/** Of constraints that depend on each other, those count that a rigid group needs: two tetrahedra that a bond joins. */
CLAIM(testDependentConstraintsOfRigidGroups) {
    const int size = 5;
    System system;
    vector<int> molecule;
    for (int i = 0; i < 2 * size; i++) {
        molecule.push_back(system.addParticle(12));
        for (int j = i / size * size; j < i; j++)
            system.addConstraint(j, i, 0.1);
    }
    for (const FreeGroup& group : findFreeGroups(system))
        ASSERT_EQUAL(6, group.degreesOfFreedom);
    addBonds(system, {{0, size, 0.15, 1000}});
    Thermometer thermometer(system, {molecule});
    auto velocities = [&](double temperature) { // of twelve degrees of freedom
        return vector<Vec3>(2 * size, Vec3(0, 0, std::sqrt(12 * BOLTZ * temperature / (2 * size * 12))));
    };
    ASSERT_EQUAL("", watch(thermometer, velocities(310), 2000));
    assertHasWords(watch(thermometer, velocities(340), 2000), {"340 K"});
}

/** The first samples after the state or the heat bath has been set do not count; without a heat bath none do. */
CLAIM(testWhatIsNotWatched) {
    const Waters waters;
    const vector<Vec3> hot = waters.velocities(600, 600);
    Thermometer thermometer(waters.system, waters.molecules);
    const int settling = 10, fewest = 20;
    for (int i = 0; i < 10; i++) {
        thermometer.forget();
        ASSERT_EQUAL("", watch(thermometer, hot, settling + fewest - 1));
    }
    for (int i = 1; i < 100; i++) {
        ASSERT_EQUAL("", thermometer.sample(hot, 100, 300 + i, 1, 0.01));
        ASSERT_EQUAL("", thermometer.sample(hot, 100, 0, 1, 0.01));
        ASSERT_EQUAL("", thermometer.sample(hot, 100, 300, 0, 0.01));
    }
    assertHasWords(watch(thermometer, hot, settling + fewest), {"600 K"});
}

/** Six errors of one atom are more than 5 % for long: it is watched for longer, and told when it is certain. */
CLAIM(testFewMoleculesAreWatchedForLonger) {
    System system;
    system.addParticle(40);
    Thermometer thermometer(system, {{0}});
    const vector<Vec3> warm = {Vec3(std::sqrt(3 * BOLTZ * 420 / 40), 0, 0)};
    ASSERT_EQUAL("", watch(thermometer, warm, 110)); // 10,000 steps
    assertHasWords(watch(thermometer, warm, 1900), {"particle 0 has had 420 K"});
}

} // namespace

CHECK_CLAIMS
