#include "IntegratorTest.h"
#include "ExtendedWater.h"

namespace {

/** Kick, two motions of half a step, kick, as the equations say, for a water in the field of makeWaterInField(). */
CLAIM(testStepIsTheMethod, Platform& platform) {
    for (double bondInertia : {0.0, 3.0}) { // [dalton]
        const Model model = makeWaterInField();
        const double h = 0.004, period = 0.06;
        MassPenaltyIntegrator integrator(h);
        integrator.setPenalizedPeriod(period);
        integrator.setBondInertia(bondInertia);
        integrator.setConstraintTolerance(1e-12);
        ModelContext context(model, integrator, platform);
        context.setVelocitiesToTemperature(300, 1);
        const ExtendedWater water(period, bondInertia);
        const MatrixXd inverseMass = inverseOf(water.mass), softness = water.kappa.cwiseInverse().asDiagonal();
        VectorXd x = toVector(getPositions(context)), v = water.root(x) * toVector(getVelocities(context));
        VerletIntegrator verlet(0.001);
        Context forces(model.system, verlet, platform);
        // Tied velocities need no w: an impulse p changes them by (M' + G^T kappa G)^-1 p.
        auto kick = [&](double t) {
            forces.setPositions(toVec3s(x));
            v += t * solveDense(water.extendedMass(x), toVector(forces.getState(State::Forces).getForces()));
        };
        auto drift = [&](double t) {
            const MatrixXd G0 = ExtendedWater::jacobian(x), A = G0 * inverseMass * G0.transpose() + softness;
            const VectorXd z = ExtendedWater::lengths(x) + t * G0 * v;
            VectorXd l = VectorXd::Zero(3);
            auto moved = [&] { return VectorXd(x + t * v - inverseMass * G0.transpose() * l); };
            for (int iteration = 0; iteration < 200; iteration++)
                l += solveDense(A, ExtendedWater::lengths(moved()) - z - softness * l);
            const VectorXd w = (z + softness * l - ExtendedWater::lengths(x)) / t, end = moved();
            v = (end - x) / t;
            x = end;
            // The closest tied velocities have the same momentum: M' v + G^T kappa w.
            const MatrixXd G = ExtendedWater::jacobian(x);
            v = solveDense(water.extendedMass(x), water.mass * v + G.transpose() * water.kappa.cwiseProduct(w));
        };
        integrator.step(3);
        for (int step = 0; step < 3; step++) {
            kick(0.5 * h);
            drift(0.5 * h);
            drift(0.5 * h);
            kick(0.5 * h);
        }
        // In single precision a bond of 0.1 nm is known to 7e-9 nm, within the tolerance of lengths, 1e-7 nm; what it is
        // wrong by in a move of 2 fs enters the velocities.
        ASSERT((x - toVector(getPositions(context))).norm() < byRounding(platform, 1e-8, 1e-8, 1e-8, 3e-7));
        ASSERT((v - water.root(x) * toVector(getVelocities(context))).norm() <
               byRounding(platform, 1e-5, 1e-5, 1e-5, 1e-4));
        const VectorXd rates = ExtendedWater::jacobian(x) * v;
        ASSERT_EQUAL_TOL(0.5 * v.dot(water.mass * v) + 0.5 * water.kappa.dot(rates.cwiseProduct(rates)),
                         kineticEnergy(context), byRounding(platform, 1e-6, 1e-6, 1e-6, 1e-5));
    }
}

/** The inertia of bonds follows the step until it is set; heavy hydrogens get less, and added bonds what was said. */
CLAIM(testBondInertiaFollowsTheStep, Platform& platform) {
    Model model = makeWaterCluster(1);
    model.system.setParticleMass(2, 2.5);
    MassPenaltyIntegrator integrator(0.004);
    ASSERT(integrator.getUseDefaultBondInertia());
    ASSERT_EQUAL(0, integrator.getBondInertia());
    integrator.setStepSize(0.010); // (100 - 16) / 30
    ASSERT_EQUAL_TOL(2.8, integrator.getBondInertia(), 1e-12);
    Context context(model.system, integrator, platform);
    auto assertInertias = [&](double ofFirst, double ofSecond) {
        vector<double> sums(3);
        for (int i = 0, number = integrator.computeNumInertialBonds(); i < number; i++) {
            int particle1, particle2;
            double inertia;
            integrator.getInertialBondParameters(i, particle1, particle2, inertia);
            sums[particle1] += inertia;
            sums[particle2] += inertia;
        }
        ASSERT_EQUAL_TOL(ofFirst, sums[1], 1e-8);
        ASSERT_EQUAL_TOL(ofSecond, sums[2], 1e-8);
    };
    const double light = 2.8 - std::max(0.0, hydrogenMass - 1.008);
    assertInertias(light, 2.8 - (2.5 - 1.008));
    ASSERT_EQUAL(0, integrator.addBondInertia(2, 0, 0.5));
    ASSERT_EQUAL(1, integrator.addBondInertia(0, 1, 0));
    assertInertias(0, 0.5);
    integrator.setBondInertiaParameters(1, 1, 2, 0.3); // the bond 01 has the default again
    assertInertias(light + 0.3, 0.5 + 0.3);
    integrator.setBondInertia(1);
    ASSERT(!integrator.getUseDefaultBondInertia());
    assertInertias(1.3, 0.8);
    integrator.setUseDefaultBondInertia(true);
    ASSERT_EQUAL_TOL(2.8, integrator.getBondInertia(), 1e-12);
    integrator.setPenalizedPeriod(0.160); // 16 steps of 10 fs
    integrator.setStepSize(0.006);
    ASSERT_EQUAL_TOL(2.8, integrator.getBondInertia(), 1e-12);
    integrator.setStepSize(0.012);
    ASSERT_EQUAL_TOL(4.266666666667, integrator.getBondInertia(), 1e-12);
}

/** With a longer penalized period atoms are as heavy as for larger steps, and with a shorter one as for the step. */
CLAIM(testAtomsFollowALongPeriod, Platform& platform) {
    Model chain;
    for (int i = 0; i < 8; i++)
        chain.system.addParticle(12);
    auto* bonds = new HarmonicBondForce();
    auto* torsions = new PeriodicTorsionForce();
    for (int i = 1; i < 8; i++)
        bonds->addBond(i - 1, i, 0.15, 2e5);
    for (int i = 3; i < 8; i++)
        torsions->addTorsion(i - 3, i - 2, i - 1, i, 1, 0, 2000);
    auto* angles = new HarmonicAngleForce();
    for (int i = 2; i < 8; i++)
        angles->addAngle(i - 2, i - 1, i, 1.9, 500);
    for (Force* force : {(Force*) bonds, (Force*) angles, (Force*) torsions})
        chain.system.addForce(force);
    auto find = [&](double step, double period) {
        MassPenaltyIntegrator integrator(step);
        if (period > 0)
            integrator.setPenalizedPeriod(period);
        Context context(chain.system, integrator, platform);
        vector<double> inertias(8);
        for (int i = 0, number = integrator.computeNumInertialBonds(); i < number; i++) {
            int particle1, particle2;
            double inertia;
            integrator.getInertialBondParameters(i, particle1, particle2, inertia);
            inertias[particle1] = inertia;
        }
        return inertias;
    };
    const vector<double> ofLarge = find(0.016, 0);
    ASSERT(*std::max_element(ofLarge.begin(), ofLarge.end()) > 1);
    ASSERT(find(0.012, 0) != ofLarge);
    ASSERT(find(0.012, 0.256) == ofLarge);
    ASSERT(find(0.016, 0.128) != find(0.008, 0));
}

/** The energy of a cluster of waters varies less than with Verlet at half the step, and does not drift. */
CLAIM(testEnergyIsKeptBetterThanByVerlet, Platform& platform) {
    if (!hasPreciseForces(platform))
        return; // forces in single precision
    Model model = makeWaterCluster(2);
    addWell(model);
    const int numRuns = 16;
    // The standard deviation of the energy in all runs, and for each by how much it differs between its halves.
    auto measure = [&](Integrator& integrator, int numSteps, vector<double>& drifts) {
        Context context(model.system, integrator, platform);
        double square = 0;
        for (int run = 1; run <= numRuns; run++) {
            context.setPositions(model.positions);
            minimize(context);
            context.setVelocitiesToTemperature(250, run);
            integrator.step(numSteps / 4);
            vector<double> energies;
            for (int i = 0; i < numSteps; i++) {
                integrator.step(1);
                energies.push_back(totalEnergy(context));
            }
            const auto middle = energies.begin() + numSteps / 2;
            const double first = 2 * std::accumulate(energies.begin(), middle, 0.0) / numSteps,
                         second = 2 * std::accumulate(middle, energies.end(), 0.0) / numSteps;
            for (double energy : energies)
                square += std::pow(energy - 0.5 * (first + second), 2) / (numRuns * numSteps);
            drifts.push_back(second - first);
        }
        return std::sqrt(square);
    };
    VerletIntegrator verlet(0.002);
    MassPenaltyIntegrator penalty(0.004);
    vector<double> drifts, ofVerletDrifts;
    const double ofPenalty = measure(penalty, 2000, drifts), ofVerlet = measure(verlet, 4000, ofVerletDrifts);
    const BlockedMean drift(drifts, numRuns);
    std::cout << "deviation of the energy: 4 fs " << ofPenalty << " kJ/mol, Verlet 2 fs " << ofVerlet
              << "; drift over its error " << drift.mean / drift.error << std::endl;
    ASSERT(ofPenalty < ofVerlet);
    ASSERT(std::abs(drift.mean) < 3 * drift.error);
}

/** Pairs come from bonds and angles with periods shorter than the one set; constraints and added pairs replace them. */
CLAIM(testPairsAreChosenByPeriod, Platform& platform) {
    Model model = makeWaterCluster(1);
    auto count = [&](const System& system, const std::function<void(MassPenaltyIntegrator&)>& set) {
        MassPenaltyIntegrator integrator(0.004);
        set(integrator);
        Context context(system, integrator, platform);
        return integrator.computeNumPenalizedPairs();
    };
    auto asItIs = [](auto&) {};
    auto withoutForces = [](auto& integrator) { integrator.setUseBondedForces(false); };
    ASSERT_EQUAL(3, count(model.system, asItIs));
    ASSERT_EQUAL(0, count(model.system, [](auto& integrator) { integrator.setStepSize(0.0005); }));
    ASSERT_EQUAL(2, count(model.system, [](auto& integrator) {
                     // That of the bonds is 0.0090 ps. The H-H distance, with two light atoms, has one close by.
                     integrator.setPenalizedPeriod(0.01);
                     integrator.addPair(1, 2, 0);
                 }));
    ASSERT_EQUAL(0, count(model.system, withoutForces));
    ASSERT_EQUAL(1, count(model.system, [&](auto& integrator) {
                     withoutForces(integrator);
                     integrator.addPair(0, 2, 5);
                 }));
    ASSERT_EQUAL(0, count(makeWaterCluster(1, true).system, asItIs));
    // Where several terms act on a pair their sum counts: a bond that is soft, or repels, such as AMOEBA's
    // Urey-Bradley term, beside a stiff angle.
    for (double k : {10.0, -5000.0}) {
        Model both = makeWaterCluster(1);
        dynamic_cast<HarmonicBondForce&>(both.system.getForce(0)).addBond(1, 2, hydrogenDistance, k);
        ASSERT_EQUAL(3, count(both.system, asItIs));
    }
    // A flat angle tells nothing by its 1-3 distance.
    auto& angles = dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1));
    angles.setAngleParameters(0, 1, 0, 2, 3.1, angleConstant);
    ASSERT_EQUAL(2, count(model.system, asItIs));
}

/** Bonds of length 0, through which particles pass, carry no inertia, nor do pairs with 1e-308; energy is kept. */
CLAIM(testPairsWithoutDirectionAreLeftOut, Platform& platform) {
    Model model = makeLoneWaters(1);
    addParticles(model.system, {12, 12});
    model.positions.insert(model.positions.end(), {Vec3(1, 1, 1), Vec3(1.001, 1, 1)});
    addBonds(model.system, {{3, 4, 0, 1e5}}); // a period of 0.05 ps
    MassPenaltyIntegrator integrator(0.004);
    integrator.addPair(0, 3, 1e-308);
    ModelContext context(model, integrator, platform);
    ASSERT_EQUAL(3, integrator.computeNumPenalizedPairs());
    context.setVelocitiesToTemperature(300, 1);
    const double before = totalEnergy(context);
    integrator.step(2000);
    ASSERT_EQUAL_TOL(before, totalEnergy(context), 0.1);
}

/** A pair that a user has given is the same across the face of a periodic box as inside it. */
CLAIM(testGivenPairsMayCrossTheBox, Platform& platform) {
    vector<vector<Vec3>> velocities;
    for (double shift : {0.0, 1.0}) {
        Model model;
        addParticles(model.system, {16, 12});
        model.system.setDefaultPeriodicBoxVectors(Vec3(1, 0, 0), Vec3(0, 1, 0), Vec3(0, 0, 1));
        model.positions = {Vec3(0.45, 0, 0), Vec3(0.57 - shift, 0.02, 0)};
        addBonds(model.system, {{0, 1, 0.12, 9e5}}).setUsesPeriodicBoundaryConditions(true);
        MassPenaltyIntegrator integrator(0.004);
        integrator.addPair(0, 1, 300);
        ModelContext context(model, integrator, platform);
        context.setVelocitiesToTemperature(300, 1);
        integrator.step(20);
        velocities.push_back(getVelocities(context));
    }
    ASSERT(largestDifference(velocities[0], velocities[1]) < byRounding(platform, 1e-9, 1e-8, 1e-3));
}

/** Custom forces give the same inertias as harmonic ones of the same curvature, whatever the first positions are. */
CLAIM(testCustomForcesAreRecognized, Platform& platform) {
    Model harmonic = makeWaterCluster(1), custom = makeWaterCluster(1);
    auto* bonds = new CustomBondForce("depth*(1-exp(-sqrt(k/2/depth)*(r-r0)))^2");
    bonds->addGlobalParameter("depth", 500);
    bonds->addPerBondParameter("k");
    bonds->addPerBondParameter("r0");
    for (int hydrogen : {1, 2})
        bonds->addBond(0, hydrogen, {bondConstant, bondLength});
    auto* angles = new CustomAngleForce("k/2*(theta-theta0)^2");
    angles->addPerAngleParameter("k");
    angles->addPerAngleParameter("theta0");
    angles->addAngle(1, 0, 2, {angleConstant, waterAngle});
    for (int i : {1, 0})
        custom.system.removeForce(i);
    custom.system.addForce(bonds);
    custom.system.addForce(angles);
    vector<double> inertias;
    for (const Model* model : {&harmonic, &custom})
        for (double stretch : {1.0, 1.4}) {
            MassPenaltyIntegrator integrator(0.004);
            Context context(model->system, integrator, platform);
            vector<Vec3> positions = model->positions;
            positions[1] = positions[0] + (positions[1] - positions[0]) * stretch;
            context.setPositions(positions);
            context.setVelocitiesToTemperature(300, 3);
            ASSERT_EQUAL(3, integrator.computeNumPenalizedPairs());
            for (int p = 0; p < 3; p++) {
                int i, j;
                double inertia;
                integrator.getPenalizedPairParameters(p, i, j, inertia);
                inertias.push_back(inertia);
            }
        }
    for (size_t k = 3; k < inertias.size(); k++)
        ASSERT_EQUAL_TOL(inertias[k % 3], inertias[k], 1e-9);
}

/** A global parameter of a bonded force changes the inertias from the next step on, and back. */
CLAIM(testInertiasFollowGlobalParameters, Platform& platform) {
    System system = makeParticles({12, 16});
    auto* bond = new CustomBondForce("stiffness*(r-0.12)^2");
    bond->addGlobalParameter("stiffness", 2e5);
    bond->addBond(0, 1);
    system.addForce(bond);
    MassPenaltyIntegrator integrator(0.004);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(), Vec3(0.12, 0, 0)});
    const double reducedMass = 12.0 * 16 / 28, perStiffness = 2 * std::pow(16 * 0.004 / (2 * M_PI), 2);
    for (double stiffness : {2e5, 3e5, 2e5}) {
        context.setParameter("stiffness", stiffness);
        integrator.step(1);
        ASSERT_EQUAL(1, integrator.computeNumPenalizedPairs());
        int i, j;
        double inertia;
        integrator.getPenalizedPairParameters(0, i, j, inertia);
        ASSERT_EQUAL_TOL(stiffness * perStiffness - reducedMass, inertia, 1e-9);
    }
}

/** So do the force groups that are integrated: bonds of others have no inertia, and get it back. */
CLAIM(testInertiasFollowForceGroups, Platform& platform) {
    System system = makeParticles({12, 16, 12});
    addBonds(system, {{0, 1, 0.12, 4e5}});
    addBonds(system, {{1, 2, 0.12, 4e5}}).setForceGroup(3);
    MassPenaltyIntegrator integrator(0.004);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(), Vec3(0.12, 0, 0), Vec3(0.24, 0, 0)});
    for (const auto& [groups, expected] : {std::pair(-1, 2), std::pair(1 << 3, 1), std::pair(1, 1), std::pair(-1, 2)}) {
        integrator.setIntegrationForceGroups(groups);
        integrator.step(1);
        ASSERT_EQUAL(expected, integrator.computeNumPenalizedPairs());
        int i, j;
        double inertia;
        integrator.getPenalizedPairParameters(0, i, j, inertia);
        ASSERT_EQUAL(groups == 1 << 3 ? 3 : 1, i + j);
    }
}

/** The velocity of a fixed particle, whatever it has been set to, moves nothing. */
CLAIM(testVelocitiesOfFixedParticlesDoNotCount, Platform& platform) {
    System system = makeParticles({0, 16, 12, 0});
    addBonds(system, {{0, 1, 0.12, 4e5}, {1, 2, 0.12, 4e5}, {2, 3, 0.12, 4e5}});
    vector<Vec3> ends[2];
    for (int moves : {0, 1}) {
        MassPenaltyIntegrator integrator(0.004);
        Context context(system, integrator, platform);
        context.setPositions({Vec3(), Vec3(0.12, 0, 0), Vec3(0.12, 0.12, 0), Vec3(0, 0.12, 0)});
        context.setVelocities({Vec3(moves, 0, 0), Vec3(0.3, 0, 0.1), Vec3(0, 0.2, 0), Vec3(0, 2 * moves, moves)});
        integrator.step(5);
        ends[moves] = getPositions(context);
    }
    ASSERT(largestDifference(ends[0], ends[1]) == 0);
}

/** With constraints alone a step is RATTLE: rigid waters move as with OpenMM's Verlet and constraints. */
CLAIM(testConstraintsAloneAreRattle, Platform& platform) {
    const Model model = makeWaterCluster(2, true);
    MassPenaltyIntegrator integrator(0.0005);
    VerletIntegrator verlet(0.0005);
    for (Integrator* each : {(Integrator*) &integrator, (Integrator*) &verlet})
        each->setConstraintTolerance(1e-8);
    // From rest: Verlet's velocities belong to half a step earlier, a difference of second order in h.
    const vector<Vec3> found = stepFromRest(model, integrator, 100, platform),
                       expected = stepFromRest(model, verlet, 100, platform);
    const double way = largestDifference(found, model.positions);
    ASSERT(way > 0.002);
    ASSERT(largestDifference(found, expected) < 0.01 * way);
}

/** A water with its bonds constrained and the angle free: constraints hold, and the angle moves. */
CLAIM(testConstraintsBesidePenalties, Platform& platform) {
    Model model = makeWaterCluster(2);
    for (int o = 0; o < model.system.getNumParticles(); o += 3)
        for (int h : {1, 2})
            model.system.addConstraint(o, o + h, bondLength);
    MassPenaltyIntegrator integrator(0.004);
    integrator.setConstraintTolerance(1e-9);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 3);
    ASSERT_EQUAL(8, integrator.computeNumPenalizedPairs());
    integrator.step(200);
    // In single precision lengths are solved for to 1e-6 of themselves, directions are known to as much, and so are
    // velocities of 10 nm/ps.
    ASSERT(largestViolation(context) < byRounding(platform, 2e-8, 2e-8, 2e-8, 2e-6));
    const vector<Vec3> x = getPositions(context), v = getVelocities(context);
    double spread = 0;
    for (int o = 0; o < model.system.getNumParticles(); o += 3) {
        for (int h : {1, 2})
            ASSERT_EQUAL_TOL(0, (x[o + h] - x[o]).dot(v[o + h] - v[o]), byRounding(platform, 1e-7, 1e-7, 1e-7, 2e-6));
        spread = std::max(spread, std::abs(norm(x[o + 1] - x[o + 2]) - hydrogenDistance));
    }
    ASSERT(spread > 0.003);
}

/** Constraints that depend on each other stay within tolerance. */
CLAIM(testDependentConstraints, Platform& platform) {
    for (const DependentConstraints& group : makeDependentConstraints()) {
        const double tolerance = 1e-6;
        const System system = group.makeSystem();
        MassPenaltyLangevinIntegrator integrator(300, 1, 0.02);
        integrator.setConstraintTolerance(tolerance);
        integrator.setRandomNumberSeed(4);
        Context context(system, integrator, platform);
        context.setPositions(group.positions);
        context.setVelocitiesToTemperature(300, 1);
        for (int i = 0; i < 2000; i++) {
            integrator.step(1);
            // In single precision it is that of positions near 1 nm.
            ASSERT(largestViolation(context) < tolerance + byRounding(platform, 0.0, 0.0, 0.0, 1e-6));
        }
    }
}

/** Molecules of any size refuse steps that fail: lengths without a solution, impossible velocities and forces. */
CLAIM(testMoleculesOfAnySizeRefuseFailedSteps, Platform& platform) {
    for (int numRows : {2, 19, 39})
        for (bool constrained : {false, true}) {
            Model model;
            vector<HarmonicBond> bonds;
            auto join = [&](int i, int j) {
                if (constrained)
                    model.system.addConstraint(i, j, 0.1);
                else
                    bonds.push_back({i, j, 0.1, 2e5});
            };
            addChain(model, numRows + 1, 12, join, Vec3(), Vec3(0.08, 0.06, 0));
            addBonds(model.system, bonds);
            addExternal(model.system, "-field*x", {{"field", 0}}, {2});
            MassPenaltyIntegrator verlet(0.004);
            MassPenaltyLangevinIntegrator langevin(300, 1, 0.004);
            for (MassPenaltyIntegrator* integrator : {&verlet, (MassPenaltyIntegrator*) &langevin}) {
                ModelContext context(model, *integrator, platform);
                integrator->step(1);
                auto refuses = [&](double field, double speed, const char* what) {
                    vector<Vec3> v(numRows + 1);
                    v[1] = Vec3(speed, speed, 0);
                    context.setVelocities(v);
                    context.setParameter("field", field);
                    assertRefusedWithoutChange(context, 1, {"MassPenalty", what, "0.004 ps"});
                };
                refuses(constrained ? 1e7 : 1e8, 0, "of the molecule with particles 0, 1, 2");
                refuses(1e10, 0, isDevice(platform) ? "not finite" : "MassPenalty");
                refuses(0, 1e6, "MassPenalty");
                context.setVelocities(vector<Vec3>(numRows + 1));
                context.setParameter("field", 0);
                integrator->step(1);
            }
        }
}

/** A CMMotionRemover takes out the momentum of masses and inertias together: their centre rests, and energy is kept. */
CLAIM(testMotionRemoverKeepsTheEnergy, Platform& platform) {
    const double added = 400;
    for (int frequency : {1, 7}) { // which devices of OpenMM's take for 1
        Model model = makeWaterCluster(1);
        model.system.addForce(new CMMotionRemover(frequency));
        MassPenaltyIntegrator integrator(0.001);
        integrator.addBondInertia(0, -1, added);
        ModelContext context(model, integrator, platform);
        context.setVelocitiesToTemperature(300, 1);
        model.system.removeForce(model.system.getNumForces() - 1); // of which the Context keeps what it needs
        integrator.step(1);
        auto centre = [&] {
            const vector<Vec3> x = getPositions(context);
            const double oxygen = model.system.getParticleMass(0) + added, hydrogen = model.system.getParticleMass(1);
            return (x[0] * oxygen + (x[1] + x[2]) * hydrogen) / (oxygen + 2 * hydrogen);
        };
        const Vec3 before = centre();
        const double energy = totalEnergy(context);
        integrator.step(300);
        ASSERT_EQUAL_VEC(before, centre(), byRounding(platform, 1e-12, 1e-12, 1e-10, 2e-6));
        ASSERT_EQUAL_TOL(energy, totalEnergy(context), 0.01);
    }
}

/** What is asked for is the period in force: of the present step, or the one that was set. */
CLAIM(testPenalizedPeriodFollowsTheStep, Platform&) {
    MassPenaltyIntegrator integrator(0.004);
    ASSERT(integrator.getUseDefaultPenalizedPeriod());
    ASSERT_EQUAL(0.064, integrator.getPenalizedPeriod());
    integrator.setStepSize(0.008);
    ASSERT_EQUAL(0.128, integrator.getPenalizedPeriod());
    integrator.setUseDefaultPenalizedPeriod(false);
    integrator.setStepSize(0.002);
    ASSERT_EQUAL(0.128, integrator.getPenalizedPeriod());
    integrator.setPenalizedPeriod(0.05);
    ASSERT(!integrator.getUseDefaultPenalizedPeriod());
    ASSERT_EQUAL(0.05, integrator.getPenalizedPeriod());
    integrator.setUseDefaultPenalizedPeriod(true);
    ASSERT_EQUAL(0.032, integrator.getPenalizedPeriod());
    integrator.setStepSize(0);
    assertThrows([&] { integrator.setUseDefaultPenalizedPeriod(false); },
                 {"MassPenaltyIntegrator", "period is 0 ps", "setStepSize()", "setPenalizedPeriod()"});
    ASSERT(integrator.getUseDefaultPenalizedPeriod());
}

CLAIM(testErrors, Platform& platform) {
    MassPenaltyIntegrator integrator(0.004);
    assertThrows([&] { integrator.setPenalizedPeriod(-1); }, {"MassPenaltyIntegrator", "period", "-1", "16 steps"});
    for (double period : vector<double>{0, INFINITY, -INFINITY, NAN})
        assertThrows([&] { integrator.setPenalizedPeriod(period); }, {"MassPenaltyIntegrator", "positive number"});
    ASSERT(integrator.getUseDefaultPenalizedPeriod());
    assertThrows([&] { integrator.addPair(0, 1, -3); }, {"inertia", "-3", "constraint"});
    assertThrows([&] { integrator.addPair(0, 1, INFINITY); }, {"inertia", "constraint"});
    assertThrows([&] { integrator.addPair(2, 2, 1); }, {"different", "2"});
    assertThrows([&] { integrator.setBondInertia(-1); }, {"MassPenaltyIntegrator", "bonds", "-1"});
    assertThrows([&] { integrator.setMaxBlockSize(-1); }, {"MassPenaltyIntegrator", "pairs of a block", "-1", "whole"});
    assertThrows([&] { integrator.addBondInertia(0, 1, -3); }, {"bond", "-3"});
    assertThrows([&] { integrator.addBondInertia(2, 2, 1); }, {"bond", "different", "2"});
    ASSERT_EQUAL(0, integrator.getNumPairs() + integrator.getNumBondInertias());
    int particle1, particle2;
    double kappa;
    assertThrows([&] { integrator.getPairParameters(0, particle1, particle2, kappa); },
                 {"MassPenaltyIntegrator", "no pair 0", "addPair()"});
    assertThrows([&] { integrator.getBondInertiaParameters(0, particle1, particle2, kappa); },
                 {"MassPenaltyIntegrator", "no bond 0", "addBondInertia()"});
    Model model = makeWaterWithSiteAndAnchor();
    integrator.addPair(0, 7, 1);
    auto create = [&] { Context context(model.system, integrator, platform); };
    assertThrows(create, {"MassPenaltyIntegrator: pair 0", "particles 0 and 7", "has 5"});
    integrator.setPairParameters(0, 1, 3, 1);
    assertThrows(create, {"pair 0", "virtual site", "setPairParameters"});
    integrator.setPairParameters(0, 1, 4, 1);
    integrator.addBondInertia(0, 7, 1);
    assertThrows(create, {"MassPenaltyIntegrator: the inertia of bond 0", "particles 0 and 7", "has 5"});
    integrator.setBondInertiaParameters(0, 1, 3, 1);
    assertThrows(create, {"bond 0", "virtual site", "setBondInertiaParameters"});
    integrator.setBondInertiaParameters(0, 1, 4, 1);
    create();
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
