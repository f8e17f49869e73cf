/**
 * What integrators say of stiff motion that they do not recognize, and of steps that cannot be meant.
 */

#include "IntegratorTest.h"

namespace {

/** The same waters without their angles, and with bonds in a force that is not told by its kind. */
template <class CustomForce> Model makeCustomWaters(CustomForce* bonds) {
    Model model = makeWaterCluster(2);
    for (int o = 0; o < 24; o += 3)
        for (int h : {1, 2})
            if constexpr (std::is_same_v<CustomForce, CustomBondForce>)
                bonds->addBond(o, o + h);
            else
                bonds->addBond({o, o + h});
    for (int i : {1, 0})
        model.system.removeForce(i);
    model.system.addForce(bonds);
    return model;
}

Model makeCustomWaters() {
    return makeCustomWaters(new CustomBondForce("231375.2*(r-0.09572)^2"));
}

/** A force on a particle, in whose energy x0, y0 and z0 are where it is. */
Force& addAtItsPlace(Model& model, int particle, const string& energy) {
    auto* force = new CustomExternalForce(energy);
    vector<double> place;
    for (int axis = 0; axis < 3; axis++) {
        force->addPerParticleParameter(string(1, "xyz"[axis]) + "0");
        place.push_back(model.positions[particle][axis]);
    }
    force->addParticle(particle, place);
    model.system.addForce(force);
    return *force;
}

/** Take a step, and the warning that it leaves; there is none after the next one. */
string stepAndTakeWarning(StiffIntegrator& integrator, const Model& model, Platform& platform) {
    ModelContext context(model, integrator, platform);
    integrator.step(1);
    const string warning = integrator.takeWarning();
    integrator.step(2);
    ASSERT_EQUAL(string(), integrator.takeWarning());
    return warning;
}

CLAIM(testNothingRecognizedIsSaidOnce, Platform& platform) {
    auto check = [&](StiffIntegrator&& integrator, const Model& model, const vector<string>& words) {
        assertHasWords(stepAndTakeWarning(integrator, model, platform), words);
        ASSERT_EQUAL(string(), stepAndTakeWarning(integrator, makeWaterCluster(2), platform));
    };
    check(ZhangSkeelIntegrator(0.001), makeCustomWaters(),
          {"ZhangSkeelIntegrator: there are no stiff terms", "setStiffForceGroups()"});
    check(ImpulseIntegrator(0.001), makeCustomWaters(),
          {"ImpulseIntegrator: there are no stiff terms", "setStiffForceGroups()"});
    check(MassPenaltyIntegrator(0.001),
          makeCustomWaters(new CustomCompoundBondForce(2, "231375.2*(distance(p1,p2)-0.09572)^2")),
          {"MassPenaltyIntegrator: there are no pairs with an inertia", "addPair()", "addPairsFromTopology()"});
    // Rigid waters have nothing that could be missed.
    MassPenaltyIntegrator massPenalty(0.001);
    ASSERT_EQUAL(string(), stepAndTakeWarning(massPenalty, makeWaterCluster(2, true), platform));
}

/** Of the bonds that are not recognized beside others that are, the fastest is named, if it is too fast. */
CLAIM(testWhatIsLeftOutIsSaid, Platform& platform) {
    Model model = makeCustomWaters();
    auto* ureyBradley = new HarmonicBondForce();
    for (int o = 0; o < 24; o += 3)
        ureyBradley->addBond(o + 1, o + 2, 0.1515, 50000);
    model.system.addForce(ureyBradley);
    ImpulseIntegrator impulse(0.003);
    ModelContext context(model, impulse, platform);
    const vector<string> words = {"8 stiff terms in 8 blocks", "8 of 'HarmonicBondForce'",
                                  "particles 0 and 1 under 'CustomBondForce'", "a period of 0.0089"};
    assertHasWords(impulse.describeStiffMotion(), words);
    impulse.step(1);
    assertHasWords(impulse.takeWarning(), words);
    impulse.setStepSize(0.0005);
    impulse.step(1);
    ASSERT_EQUAL(string(), impulse.takeWarning());
    // Mass penalty takes both.
    MassPenaltyIntegrator massPenalty(0.003);
    ASSERT_EQUAL(string(), stepAndTakeWarning(massPenalty, model, platform));
}

/** What no pair slows down is named: a restraint, and an angle of 180 degrees; by its period. */
CLAIM(testMotionThatNoPairSlowsIsSaid, Platform& platform) {
    const double h = 0.008, pi = 3.14159265358979323846;
    Model restrained = makeWaterCluster(2);
    for (const char* energy : {"0.5*1e6*periodicdistance(x, y, z, x0, 0, 0)^2", "0.5e6*(x-x0)^2+z"}) {
        addAtItsPlace(restrained, 3, energy);
        MassPenaltyIntegrator integrator(h);
        // 2 pi sqrt(m / k), and the mass of oxygen
        assertHasWords(stepAndTakeWarning(integrator, restrained, platform),
                       {"particle 3 under 'CustomExternalForce'", "a period of 0.025", "Nothing slows it down"});
        restrained.system.removeForce(restrained.system.getNumForces() - 1);
    }
    Model dioxide;
    addParticles(dioxide.system, {16, 12, 16});
    dioxide.positions = {Vec3(), Vec3(0.116, 0, 0), Vec3(0.232, 0, 0)};
    addBonds(dioxide.system, {{0, 1, 0.116, 9e5}, {1, 2, 0.116, 9e5}});
    auto* angle = new HarmonicAngleForce();
    angle->addAngle(0, 1, 2, pi, 900);
    dioxide.system.addForce(angle);
    MassPenaltyIntegrator integrator(h), uniform(h);
    ASSERT(stepAndTakeWarning(integrator, dioxide, platform).empty()); // the atoms are heavier
    uniform.setBondInertia(0);
    // The inverse mass is (1/16 + 1/16 + 4/12) / 0.116^2.
    assertHasWords(stepAndTakeWarning(uniform, dioxide, platform),
                   {"particles 0, 1 and 2 under 'HarmonicAngleForce'", "a period of 0.0358", "Nothing slows it down"});
    // Of 1/(m1 l1^2) + 1/(m3 l3^2) + (1/l1 + 1/l3)^2/m2, where the ends differ.
    Model sulfide;
    addParticles(sulfide.system, {16, 12, 32});
    sulfide.positions = {Vec3(), Vec3(0.1, 0, 0), Vec3(0.3, 0, 0)};
    addBonds(sulfide.system, {{0, 1, 0.1, 9e5}, {1, 2, 0.2, 9e5}});
    angle = new HarmonicAngleForce();
    angle->addAngle(0, 1, 2, pi, 900);
    sulfide.system.addForce(angle);
    MassPenaltyIntegrator sulfideIntegrator(h);
    sulfideIntegrator.setBondInertia(0);
    assertHasWords(stepAndTakeWarning(sulfideIntegrator, sulfide, platform),
                   {"particles 0, 1 and 2 under 'HarmonicAngleForce'", "a period of 0.0412", "Nothing slows it down"});
}

/** So is a stiff spring of a custom force that is no bond, but no minimum that is out of reach, as of two charges. */
CLAIM(testStiffSpringsThatAreNoBondsAreSaid, Platform& platform) {
    for (double length : {0.31, 0.15}) {
        Model model = makeWaterCluster(2);
        auto* spring = new CustomBondForce("0.7e5*(r-length)^2");
        spring->addGlobalParameter("length", length);
        spring->addBond(0, 3);
        model.system.addForce(spring);
        MassPenaltyIntegrator integrator(0.012);
        ModelContext context(model, integrator, platform);
        const string text = integrator.describeStiffMotion();
        if (length < 0.2) {
            ASSERT(text.find("The fastest") == string::npos);
        }
        else // 2 pi sqrt(m / 2 k)
            assertHasWords(text, {"particles 0 and 3 under 'CustomBondForce'", "a period of 0.0474"});
    }
}

/** A potential may be infinite where a parameter says so: nothing is said of it. (OpenMM's OpenCL cannot compile one.) */
CLAIM(testInfinitePartsAreTaken, Platform& platform) {
    if (isDevice(platform))
        return;
    Model model = makeWaterCluster(1);
    auto* wall = new CustomExternalForce("select(closed, 1/0, 1e6*x^2)");
    auto* angle = new CustomCompoundBondForce(3, "select(closed, 1/0, pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3))");
    wall->addGlobalParameter("closed", 0);
    angle->addGlobalParameter("closed", 0);
    wall->addParticle(0);
    angle->addBond({1, 0, 2});
    model.system.addForce(wall);
    model.system.addForce(angle);
    MassPenaltyIntegrator integrator(0.001);
    ASSERT_EQUAL(string(), stepAndTakeWarning(integrator, model, platform));
}

/** A force that does not fade at its point is no spring, however stiff its kink looks. */
CLAIM(testAKinkIsNoStiffMotion, Platform& platform) {
    Model model = makeWaterCluster(1);
    addAtItsPlace(model, 0, "10*periodicdistance(x, y, z, x0, y0, z0)");
    MassPenaltyIntegrator integrator(0.008);
    ASSERT_EQUAL(string(), stepAndTakeWarning(integrator, model, platform));
}

/** Bonds inside of another Force are known to be there, beside others that are recognized; a distance is no bond. */
CLAIM(testBondsInOtherForcesAreSaid, Platform& platform) {
    Model model = makeLoneWaters(2);
    for (int i : {0, 1}) {
        model.system.addParticle(12);
        model.positions.push_back(Vec3(3 + 0.15 * i, 0, 0));
    }
    auto* inside = new HarmonicBondForce();
    inside->addBond(24, 25, 0.15, 3e5);
    inside->addBond(0, 24, 3, 10);
    auto* outside = new CustomCVForce("inside");
    outside->addCollectiveVariable("inside", inside);
    model.system.addForce(outside);
    MassPenaltyIntegrator integrator(0.004), told(0.004), without(0.004);
    assertHasWords(stepAndTakeWarning(integrator, model, platform),
                   {"24 pairs with an inertia", "The bonds in 'CustomCVForce'", "particles 24 and 25.",
                    "addPairsFromTopology()", "atoms="});
    told.addPair(24, 25, 100);
    ASSERT_EQUAL(string(), stepAndTakeWarning(told, model, platform));
    outside->setForceGroup(3);
    without.setIntegrationForceGroups(1);
    ASSERT_EQUAL(string(), stepAndTakeWarning(without, model, platform));
}

/** What a method treats is not said to be left out: restraints and straight angles that are stiff terms. */
CLAIM(testStiffTermsAreNotSaidToBeLeftOut, Platform& platform) {
    Model model = makeWaterCluster(1);
    Force& restraint = addAtItsPlace(model, 0, "0.5e6*((x-x0)^2+(y-y0)^2+(z-z0)^2)");
    for (Force* force : {&model.system.getForce(0), &model.system.getForce(1), &restraint})
        force->setForceGroup(1);
    ZhangSkeelIntegrator integrator(0.004);
    integrator.setStiffForceGroups(2);
    ModelContext context(model, integrator, platform);
    integrator.step(1);
    ASSERT_EQUAL(string(), integrator.takeWarning());
    assertHasWords(integrator.describeStiffMotion(), {"4 stiff terms", "1 of 'CustomExternalForce'"});
}

/** A step that fails says what was treated, and what was not. */
CLAIM(testFailedStepsSayWhatWasTreated, Platform& platform) {
    const Model model = makeCustomWaters();
    ZhangSkeelIntegrator integrator(0.012);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 1);
    assertThrows([&] { integrator.step(1000); },
                 {"ZhangSkeelIntegrator:", "There are 0 stiff terms", "'CustomBondForce', with a period of 0.0089"});
}

/** Particles lighter than hydrogen, as those of Drude models, have their own words. */
CLAIM(testLightParticlesAreNamed, Platform& platform) {
    Model model = makeWaterCluster(1);
    model.system.removeForce(2);
    model.system.addParticle(0.4);
    model.positions.push_back(Vec3(0.001, 0, 0));
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).addBond(0, 3, 0, 4e5);
    MassPenaltyIntegrator integrator(0.004);
    ModelContext context(model, integrator, platform);
    assertHasWords(integrator.describeStiffMotion(),
                   {"3 pairs with an inertia", "particle 3 has a mass of 0.4 dalton", "Drude"});
}

/** A step of 4 instead of 0.004. */
CLAIM(testPicosecondsAreNotFemtoseconds, Platform& platform) {
    const Model model = makeWaterCluster(2);
    ZhangSkeelIntegrator zhangSkeel(4);
    MassPenaltyLangevinIntegrator massPenalty(300, 1, 4);
    for (StiffIntegrator* integrator : {(StiffIntegrator*) &zhangSkeel, (StiffIntegrator*) &massPenalty}) {
        ModelContext context(model, *integrator, platform);
        for (double size : {4.0, 0.5, 999999.0, 1e10}) {
            integrator->setStepSize(size);
            assertThrows([&] { integrator->step(1); }, {"Integrator: a step of", "periods", "femtoseconds"});
        }
        integrator->setStepSize(0.002);
        integrator->step(1);
        ASSERT_EQUAL(1, context.getStepCount());
    }
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
