/**
 * SpookIntegrator: what it owes to its Context and its user, on each platform.
 */

#include "IntegratorTest.h"
#include "SpookSystems.h"

namespace {

/** Reported energies are those of the present time, as VerletIntegrator's are, whatever groups are asked for. */
CLAIM(testEnergiesAreOfThePresentTime, Platform& platform) {
    Model model = makeWaterCluster(2);
    addWell(model);
    model.system.getForce(3).setForceGroup(2);
    SpookIntegrator integrator(0.0005);
    VerletIntegrator verlet(0.0005);
    vector<vector<double>> energies;
    vector<vector<Vec3>> forces;
    for (Integrator* each : {(Integrator*) &integrator, (Integrator*) &verlet}) {
        ModelContext context(model, *each, platform, deterministic(platform));
        context.setVelocitiesToTemperature(300, 5);
        each->step(100);
        energies.emplace_back();
        for (int i = 0; i < 3; i++) {
            energies.back().push_back(kineticEnergy(context));
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

/** That of the velocities as they are. */
double energyOfVelocities(const Context& context) {
    const vector<Vec3> velocities = getVelocities(context);
    double energy = 0;
    for (size_t i = 0; i < velocities.size(); i++)
        energy += 0.5 * context.getSystem().getParticleMass(i) * velocities[i].dot(velocities[i]);
    return energy;
}

/**
 * Where a step is impossible, energies are there to find out why: the potential energy of each group as it is, as with
 * VerletIntegrator, and the kinetic energy of the velocities as they are.
 */
CLAIM(testEnergiesWhereAStepIsImpossible, Platform& platform) {
    System system = makeParticles({12, 1, 16});
    const char* energies[] = {"3*x", "sqrt(x)", "1/(y-0.5)"}; // a good one; not a number; infinite
    for (int group = 0; group < 3; group++)
        addExternal(system, energies[group]).setForceGroup(group);
    SpookIntegrator integrator(0.001);
    VerletIntegrator verlet(0.001);
    integrator.addDistanceConstraint(0, 1, 0.1);
    Context context(system, integrator, platform), other(system, verlet, platform);
    const vector<Vec3> positions = {Vec3(), Vec3(-0.1, 0, 0), Vec3(0, 0.5, 0)};
    for (Context* each : {&context, &other}) {
        each->setPositions(positions);
        each->setVelocities(makeVelocities(system, 300, 1));
    }
    for (int groups : {0, 1, 2, 4, 7}) {
        const State state = context.getState(State::Energy | State::Forces, false, groups),
                    expected = other.getState(State::Energy | State::Forces, false, groups);
        const double found = state.getPotentialEnergy(), potential = expected.getPotentialEnergy();
        ASSERT(found == potential || (std::isnan(found) && std::isnan(potential)));
        ASSERT_EQUAL(groups < 2, std::isfinite(found));
        for (int i = 0; i < 3; i++)
            ASSERT(groups > 1 || state.getForces()[i] == expected.getForces()[i]);
        ASSERT_EQUAL_TOL(energyOfVelocities(context), state.getKineticEnergy(), 1e-12);
    }
    assertThrows([&] { integrator.step(1); }, {"SpookIntegrator", "not finite"});
    ASSERT(largestDifference(getPositions(context), positions) <= storeRounding(platform));

    // Constraints that cannot be solved for, as their compliances are lost to rounding.
    System pair = makeParticles({1, 1});
    SpookIntegrator twice(0.001);
    for (int copy = 0; copy < 2; copy++)
        twice.addDistanceConstraint(0, 1, 0.1, 1e-30);
    Context apart(pair, twice, platform);
    apart.setPositions({Vec3(), Vec3(0.1, 0, 0)});
    apart.setVelocities({Vec3(1, 0, 0), Vec3()});
    ASSERT_EQUAL_TOL(0.5, kineticEnergy(apart), 1e-12);
    assertThrows([&] { twice.step(1); },
                 {"SpookIntegrator", "particles 0, 1", "depend on each other", "setCompliance"});
}

/** A step in which constrained particles fly far apart is refused, and not made silently. */
CLAIM(testFarFlightsAreErrors, Platform& platform) {
    const Model model = makeWaterCluster(2, true);
    for (double h : {0.5, 4.0, 999999.0, 1e10}) {
        SpookIntegrator integrator(h);
        ModelContext context(model, integrator, platform);
        context.setVelocities(makeVelocities(model.system, 300, 1));
        vector<Vec3> before;
        auto fly = [&] {
            for (int i = 0; i < 10; i++) {
                before = getPositions(context);
                integrator.step(1);
            }
        };
        assertThrows(fly, {"SpookIntegrator:", "System constraint", "nm between particles", "femtoseconds"});
        ASSERT(largestDifference(getPositions(context), before) <= storeRounding(platform));
    }
}

/** What is set between steps has the effect that it would have had from the beginning. */
CLAIM(testChangesTakeEffect, Platform& platform) {
    System system = makeParticles({12, 1, 1});
    system.addConstraint(0, 1, 0.1);
    using Change = std::function<void(SpookIntegrator&)>;
    const vector<Change> changes = {
            [](auto& spook) { spook.setCompliance(1e-4); },
            [](auto& spook) { spook.setVelocityCompliance(1e-2); },
            [](auto& spook) { spook.setDamping(0.1); },
            [](auto& spook) { spook.setDampingSteps(2); },
            [](auto& spook) { spook.setStepSize(0.003); },
            [](auto& spook) { spook.setSystemConstraintParameters(0, 1e-3, 0.2); },
            [](auto& spook) { spook.setDistanceConstraintParameters(0, 1, 2, 0.16); },
            [](auto& spook) { spook.setPositionConstraintParameters(0, 0, Vec3(0, 0.1, 0)); },
            [](auto& spook) {
                spook.setHolonomicConstraintParameters(0, {1, 2}, "x1-x2");
            },
            [](auto& spook) {
                spook.setVelocityConstraintParameters(0, {2}, {"0", "0", "2"}, "1");
            },
            [](auto& spook) { spook.addDistanceConstraint(0, 2, 0.12); },
    };
    for (const Change& change : changes) {
        SpookIntegrator integrator(0.002);
        integrator.addDistanceConstraint(1, 2, 0.15);
        integrator.addPositionConstraint(0, Vec3());
        integrator.addHolonomicConstraint({1, 2}, "y1+y2");
        integrator.addVelocityConstraint({2}, {"0", "0", "1"}, "t");
        Context context(system, integrator, platform);
        context.setPositions({Vec3(0.01, 0, 0), Vec3(0.11, 0, 0), Vec3(0, 0.1, 0.01)});
        context.setVelocities(makeVelocities(system, 300, 2));
        assertTakesEffect(context, copyRounding(platform), [&] { change(integrator); });
    }
}

/** Multipliers belong to the last step, also after a checkpoint. */
CLAIM(testMultipliersAreInCheckpoints, Platform& platform) {
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
    different.loadCheckpoint(checkpoint); // of other constraints: multipliers are not theirs
    assertThrows([&] { another.getMultipliers(); }, {"first step"});
}

/** Of a constraint that is not finite the error says which, before and after the first step, small block or large. */
CLAIM(testConstraintsThatAreNotFinite, Platform& platform) {
    for (int numParticles : {3, 60}) {
        System system = makeParticles(vector<double>(numParticles, 12));
        vector<Vec3> positions;
        for (int i = 0; i < numParticles; i++) {
            positions.push_back(Vec3(0.125 * i, 0, 0));
            if (i > 0)
                system.addConstraint(i - 1, i, 0.125);
        }
        for (const char* expression : {"log(x1-50)", "sqrt(x1-0.125)", "1/(x1-0.125)"}) {
            SpookIntegrator integrator(0.001);
            integrator.addHolonomicConstraint({0}, "y1");
            integrator.addHolonomicConstraint({1}, expression);
            Context context(system, integrator, platform);
            context.setPositions(positions);
            context.setVelocities(makeVelocities(system, 300, 1));
            assertRefusedWithoutChange(context, 1, {"SpookIntegrator: holonomic constraint 1", "not finite"});
            ASSERT_EQUAL_TOL(energyOfVelocities(context), kineticEnergy(context), 1e-12);
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

/** What cannot be is refused, with an error that says what and what to do. */
CLAIM(testErrors, Platform& platform) {
    SpookIntegrator integrator(0.001);
    assertThrows([&] { integrator.setCompliance(0); }, {"SpookIntegrator", "compliance", "0", "1e-8"});
    assertThrows([&] { integrator.setVelocityCompliance(-1); }, {"SpookIntegrator", "velocity", "-1"});
    assertThrows([&] { integrator.setDamping(-0.5); }, {"SpookIntegrator", "damping", "-0.5"});
    assertThrows([&] { integrator.setDamping(NAN); }, {"SpookIntegrator", "damping", "nan"});
    assertThrows([&] { integrator.setDampingSteps(0); }, {"SpookIntegrator", "damping time in steps", "0.25"});
    assertThrows([&] { integrator.setDampingSteps(INFINITY); }, {"SpookIntegrator", "damping time in steps", "inf"});
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
    const System pair = makeParticles({1, 1});
    SpookIntegrator bound(0.001);
    bound.addDistanceConstraint(0, 1, 0.1);
    Context withoutPositions(pair, bound, platform);
    assertThrows([&] { bound.computeViolations(); }, {"ositions have not been set"});

    // Indices of what is not there.
    double number;
    int particle;
    vector<int> particles;
    vector<std::string> texts;
    std::string text;
    Vec3 place;
    const vector<std::pair<std::string, std::function<void()>>> absent = {
            {"distance",
             [&] { integrator.getDistanceConstraintParameters(2, particle, particle, number, number, number); }},
            {"distance", [&] { integrator.setDistanceConstraintParameters(2, 0, 1, 0.1); }},
            {"position", [&] { integrator.getPositionConstraintParameters(2, particle, place, number, number); }},
            {"position", [&] { integrator.setPositionConstraintParameters(2, 0, place); }},
            {"holonomic", [&] { integrator.getHolonomicConstraintParameters(2, particles, text, number, number); }},
            {"holonomic", [&] { integrator.setHolonomicConstraintParameters(2, particles, text); }},
            {"velocity", [&] { integrator.getVelocityConstraintParameters(2, particles, texts, text, number); }},
            {"velocity", [&] { integrator.setVelocityConstraintParameters(2, particles, texts); }},
    };
    for (const auto& [kind, action] : absent)
        assertThrows(action, {"SpookIntegrator: there is no " + kind + " constraint 2", "Constraint()",
                              std::string("add") + char(std::toupper(kind[0])) + kind.substr(1)});
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
    struct Holonomic {
        vector<int> particles;
        const char *expression, *word, *otherWord = "";
    };
    const vector<Holonomic> wrongExpressions = {
            {{0}, "x1+", "'x1+'"},
            {{0}, "x2", "no variable 'x2'"},
            {{0}, "x1-t", "no variable 't'"},
            {{0, 1}, "distance(p1,p3)", "particle 'p3' in distance()"},
            {{0, 1, 2}, "pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3)", "'pointangle'", "not supported"},
            {{0}, "x1-log(-1)", "nan"},
            {{0}, "3", "no particle"},
            {{0, 4}, "x2", "no particle"},
            {{0, 1}, "angle(p1,p2,p1)", "twice"},
            {{0, 1, 2}, "angle(p1,p2,p3)-3.14159265", "3.14159", "no gradient"},
    };
    for (const Holonomic& wrong : wrongExpressions)
        refused([&](auto& i) { i.addHolonomicConstraint(wrong.particles, wrong.expression); },
                {"holonomic constraint 0", wrong.word, wrong.otherWord});
    struct OnVelocities {
        vector<int> particles;
        vector<std::string> coefficients;
        const char* word;
    };
    const vector<OnVelocities> wrongCoefficients = {{{0}, {"0", "0", "0"}, "no particle"},
                                                    {{4, 0}, {"1", "0", "0", "0", "0", "0"}, "no particle"},
                                                    {{0}, {"1", "0", "q"}, "'q'"}};
    for (const OnVelocities& wrong : wrongCoefficients)
        refused([&](auto& i) { i.addVelocityConstraint(wrong.particles, wrong.coefficients); },
                {"velocity constraint 0", wrong.word});
    const vector<std::string> beyond = {"SpookIntegrator", "constraint 1", "has only 1",
                                        "setSystemConstraintParameters(1, 0, 0)"};
    refused([](auto& i) { i.setSystemConstraintParameters(1, 1, 1); }, beyond);

    // A barostat moves apart what OpenMM takes for molecules.
    System rods = makeParticles({1, 1, 1});
    rods.setDefaultPeriodicBoxVectors(Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1));
    auto* bonds = new HarmonicBondForce();
    bonds->setUsesPeriodicBoundaryConditions(true);
    bonds->addBond(0, 1, 0.1, 0);
    rods.addForce(bonds);
    rods.addForce(new MonteCarloBarostat(1, 300));
    SpookIntegrator rod(0.001);
    rod.addDistanceConstraint(0, 1, 0.1);
    Context contextOfRod(rods, rod, platform);
    rod.addVelocityConstraint({1, 2}, {"1", "0", "0", "-1", "0", "0"});
    rod.addDistanceConstraint(1, 2, 0.1);
    contextOfRod.setPositions({Vec3(), Vec3(0.1, 0, 0), Vec3(0, 0.1, 0)});
    assertThrows([&] { rod.step(1); },
                 {"SpookIntegrator: distance constraint 1", "particles 1 and 2", "barostat", "addConstraint()"});

    // A massless particle, as an anchor or a pin, is welcome, and a change to something impossible can be undone.
    integrator.addDistanceConstraint(0, 4, 0.1);
    ModelContext context(model, integrator, platform);
    integrator.step(1);
    integrator.setDistanceConstraintParameters(0, 0, 9, 0.1);
    assertThrows([&] { integrator.step(1); }, {"particle 9"});
    integrator.setDistanceConstraintParameters(0, 0, 4, 0.1);
    integrator.step(1);
    integrator.setSystemConstraintParameters(1, 1, 1);
    assertThrows([&] { integrator.step(1); }, beyond);
    integrator.setSystemConstraintParameters(1, 0, 0);
    integrator.step(1);
    ASSERT_EQUAL(3, context.getStepCount());
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
