/**
 * The velocities that a Context of a mass penalty shows: those of the masses, whoever has set them, and whatever becomes
 * of the positions, the pairs and the step; and they move particles as the inertias ask for.
 */

#include "IntegratorTest.h"
#include "ExtendedWater.h"

namespace {

const double kT = boltzmann * 300;
/// Not those of an instant.
const double period = 0.064, bondInertia = 2;

/** A step in which forces do next to nothing, but from which velocities can be read. */
double getInstant(const Platform& platform) {
    return byRounding(platform, 1e-8, 1e-8, 1e-8, 1e-5);
}

std::string toXml(const Context& context) {
    std::stringstream xml;
    const State state = context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
    XmlSerializer::serialize(&state, "State", xml);
    return xml.str();
}

void setFromXml(Context& context, const std::string& xml) {
    std::stringstream stream(xml);
    context.setState(*std::unique_ptr<State>(XmlSerializer::deserialize<State>(stream)));
}

/**
 * Assert that waters at 300 K move as the inertias ask for: with M' + G^T kappa G = L L^T, L^T v consists of independent
 * numbers of variance kT.
 *
 * @param tolerance   by how much the kinetic energy may change in a step
 * @param prepare     called with the number of a draw
 */
void assertPenalizedMotion(Context& context, Integrator& integrator, double period, double tolerance,
                           const std::function<void(int)>& prepare) {
    const ExtendedWater water(period, bondInertia);
    MatrixXd covariance = MatrixXd::Zero(9, 9);
    int number = 0;
    for (int draw = 0; draw < 400; draw++) {
        prepare(draw);
        const double kinetic = kineticEnergy(context);
        const VectorXd x = toVector(getPositions(context));
        integrator.step(1);
        ASSERT_EQUAL_TOL(kinetic, kineticEnergy(context), tolerance);
        const VectorXd v = (toVector(getPositions(context)) - x) / integrator.getStepSize();
        for (int first = 0; first < x.size(); first += 9, number++) {
            const MatrixXd root = choleskyFactor(water.extendedMass(x.segment<9>(first)));
            const VectorXd scaled = root.transpose() * v.segment<9>(first);
            covariance += scaled * scaled.transpose() / kT;
        }
    }
    covariance /= number;
    const double error = (covariance - MatrixXd::Identity(9, 9)).cwiseAbs().maxCoeff();
    // The standard error of a variance is root(2/n) of it, of a covariance root(1/n): five of the largest.
    ASSERT(error < 5 * std::sqrt(2.0 / number));
}

/** Whoever sets velocities, and whatever is changed afterwards: they are those of the masses, and move the inertias. */
CLAIM(testVelocitiesOfTheMassesMoveInertias, Platform& platform) {
    const Model model = makeLoneWaters(2);
    const double tolerance = byRounding(platform, 1e-4, 1e-4, 1e-4, 3e-2);
    vector<Vec3> turned = model.positions;
    for (Vec3& x : turned)
        x = Vec3(x[1], x[2], x[0]);
    MassPenaltyLangevinIntegrator langevin(300, 0, getInstant(platform));
    MassPenaltyIntegrator constant(getInstant(platform));
    for (MassPenaltyIntegrator* integrator : {(MassPenaltyIntegrator*) &langevin, &constant}) {
        integrator->setBondInertia(bondInertia);
        Context context(model.system, *integrator, platform);
        auto drawThen = [&](double next, const std::function<void()>& change) {
            assertPenalizedMotion(context, *integrator, next, tolerance, [&](int draw) {
                integrator->setPenalizedPeriod(period);
                context.setPositions(model.positions);
                context.setVelocitiesToTemperature(300, draw + 1);
                change();
            });
        };
        auto keepingKineticEnergy = [&](auto&& change) {
            const double before = kineticEnergy(context);
            change();
            ASSERT(kineticEnergy(context) == before);
        };
        drawThen(period, [&] { integrator->step(3); });
        drawThen(period, [&] { keepingKineticEnergy([&] { context.setPositions(turned); }); });
        drawThen(2 * period, [&] {
            integrator->step(1);
            keepingKineticEnergy([&] { integrator->setPenalizedPeriod(2 * period); });
        });
        integrator->setPenalizedPeriod(0.5 * period);
        assertPenalizedMotion(context, *integrator, 0.5 * period, tolerance,
                              [&](int draw) { context.setVelocities(makeVelocities(model.system, 300, draw + 1)); });
    }
}

/** What is at rest stays so, also where many constraints are connected. */
CLAIM(testMoleculesAtRest, Platform& platform) {
    Model chain;
    addChain(chain, 60, 14, [&](int i, int j) {
        chain.system.addConstraint(i, j, norm(chain.positions[j] - chain.positions[i]));
    });
    MassPenaltyLangevinIntegrator integrator(0, 1, 0.001);
    integrator.addPair(0, 2, 10);
    ModelContext context(chain, integrator, platform);
    context.setVelocitiesToTemperature(0, 1);
    ASSERT(largestDifference(getVelocities(context), vector<Vec3>(60)) == 0);
}

/** One collision of an AndersenThermostat with some particles leaves the distribution as it is. */
CLAIM(testCollisionsKeepTheDistribution, Platform& platform) {
    Model model = makeLoneWaters(2);
    auto* thermostat = new AndersenThermostat(300, 0.7 / getInstant(platform)); // half of the particles
    thermostat->setRandomNumberSeed(3);
    model.system.addForce(thermostat);
    MassPenaltyIntegrator integrator(getInstant(platform));
    integrator.setPenalizedPeriod(period);
    integrator.setBondInertia(bondInertia);
    ModelContext context(model, integrator, platform);
    assertPenalizedMotion(context, integrator, period, INFINITY, [&](int draw) {
        context.setVelocitiesToTemperature(300, draw + 1);
        const vector<Vec3> before = getVelocities(context);
        integrator.step(1);
        ASSERT(largestDifference(before, getVelocities(context)) > 0.1);
    });
}

/** An AndersenThermostat keeps the temperature of water at 4 fs, and that of its bonds. */
CLAIM(testAndersenThermostat, Platform& platform) {
    Model model = makeWaterCluster(2);
    addWell(model);
    auto* thermostat = new AndersenThermostat(300, 5);
    thermostat->setRandomNumberSeed(4);
    model.system.addForce(thermostat); // without a CMMotionRemover, which would take heat from what the well moves
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).setForceGroup(1);
    MassPenaltyIntegrator integrator(0.004);
    ModelContext context(model, integrator, platform, deterministic(platform));
    minimize(context);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(2000);
    vector<double> temperatures, bonds;
    for (int i = 0; i < 8000; i++) {
        integrator.step(5);
        temperatures.push_back(2 * kineticEnergy(context) / (boltzmann * 3 * 24));
        bonds.push_back(context.getState(State::Energy, false, 1 << 1).getPotentialEnergy() / 16 / kT);
    }
    const BlockedMean T(temperatures), bond(bonds);
    assertMean("AndersenThermostat, K", T, 300, 3);
    // The force field's own value: half a kT, and the stretch by the slow forces.
    std::cout << "a bond " << bond.mean << " kT" << std::endl;
    ASSERT(bond.mean > 0.5 - 4 * bond.error && bond.mean < 0.9);
}

/** Twenty steps are the same, to the bit, in one call, in two and in twenty, also with reports in between. */
CLAIM(testCallsDoNotMatter, Platform& platform) {
    for (const Model& model : {makeWaterCluster(2), makeSoluteInRigidWater()}) {
        MassPenaltyLangevinIntegrator langevin(300, 2, 0.01);
        MassPenaltyIntegrator constant(0.004);
        for (MassPenaltyIntegrator* integrator : {(MassPenaltyIntegrator*) &langevin, &constant}) {
            langevin.setRandomNumberSeed(5);
            integrator->setBondInertia(bondInertia);
            vector<vector<Vec3>> ends;
            for (int size : {20, 10, 1}) {
                ModelContext context(model, *integrator, platform, deterministic(platform));
                context.setVelocitiesToTemperature(300, 6);
                for (int i = 0; i < 20; i += size) {
                    integrator->step(size);
                    if (i % 2 == 0)
                        kineticEnergy(context);
                }
                ends.push_back(getPositions(context));
                ends.push_back(getVelocities(context));
            }
            for (int i = 2; i < 6; i++)
                ASSERT(ends[i] == ends[i % 2]);
        }
    }
}

/** Molecules whose velocities nobody sets go on to the bit; one that is moved through the box goes on as before. */
CLAIM(testOthersGoOn, Platform& platform) {
    if (getRounding(platform) == Rounding::Single)
        return; // moved by some nm, molecules get another shape by rounding
    const Model model = makeLoneWaters(2);
    vector<vector<Vec3>> ends;
    for (bool changed : {false, true}) {
        MassPenaltyIntegrator integrator(0.01);
        ModelContext context(model, integrator, platform, deterministic(platform));
        context.setVelocitiesToTemperature(300, 5);
        integrator.step(10);
        vector<Vec3> x = getPositions(context), v = getVelocities(context);
        for (int i = 0; i < 3 && changed; i++) {
            v[i] *= 1.1;
            x[3 + i] += Vec3(2, 0, 0);
        }
        context.setPositions(x);
        context.setVelocities(v);
        integrator.step(10);
        ends.push_back(getVelocities(context));
    }
    for (int i = 0; i < 24; i++) {
        const double size = norm(ends[1][i] - ends[0][i]);
        ASSERT(i / 3 == 0 ? size > 1e-3
                          : size <= (i / 3 == 1 || isDevice(platform) ? byRounding(platform, 1e-6, 1e-6, 1e-2) : 0.0));
    }
}

/**
 * Integrators that take turns, by a CompoundIntegrator or by States, keep the temperature. (After a large step velocities
 * are half of it behind positions, so that kinetic and potential energies swing at first.)
 */
CLAIM(testIntegratorsTakeTurns, Platform& platform) {
    Model model = makeWaterCluster(3);
    addWell(model);
    const double freedoms = 3 * 81;
    auto seeded = [](auto* integrator) {
        integrator->setRandomNumberSeed(1);
        return integrator;
    };
    CompoundIntegrator compound;
    compound.addIntegrator(seeded(new MassPenaltyLangevinIntegrator(300, 10, 0.008)));
    compound.addIntegrator(seeded(new LangevinMiddleIntegrator(300, 0.01, 0.0005)));
    ModelContext context(model, compound, platform, deterministic(platform));
    minimize(context);
    context.setVelocitiesToTemperature(300, 2);
    compound.step(1000);
    vector<double> temperatures;
    for (int i = 0; i < 64; i++) {
        compound.setCurrentIntegrator(0);
        compound.step(40);
        compound.setCurrentIntegrator(1);
        compound.step(100);
        for (int k = 0; k < 30; k++) {
            compound.step(10);
            temperatures.push_back(2 * kineticEnergy(context) / (boltzmann * freedoms));
        }
    }
    const BlockedMean T(temperatures);
    assertMean("LangevinMiddle from velocities of 8 fs, K", T, 300, 3);
    ASSERT(T.error < 5);
    LangevinMiddleIntegrator middle(300, 1, 0.0005);
    MassPenaltyLangevinIntegrator penalty(300, 1, 0.012);
    Context small(model.system, *seeded(&middle), platform, deterministic(platform)),
            large(model.system, *seeded(&penalty), platform, deterministic(platform));
    for (const auto& [from, to] :
         {std::pair<Context*, Context*>(&context, &large), {&large, &small}, {&small, &large}}) {
        const double before = kineticEnergy(*from);
        setFromXml(*to, toXml(*from));
        ASSERT_EQUAL_TOL(before, kineticEnergy(*to), 0.1); // LangevinMiddle's is that of half a step later
        to->getIntegrator().step(2);
        ASSERT(std::abs(kineticEnergy(*to) / before - 1) < 0.4);
    }
}

/** If the first step of a call fails, velocities are what they were, whoever has set them, with whatever step. */
CLAIM(testFailedStepsChangeNothing, Platform& platform) {
    Model model = makeLoneWaters(2);
    addExternal(model.system, "scale*x", {{"scale", 0}}, {0}); // a force that can be made infinite
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.004);
    ModelContext context(model, integrator, platform);
    auto failAndGoOn = [&] {
        const vector<Vec3> v = getVelocities(context);
        for (int attempt = 0; attempt < 2; attempt++) {
            context.setParameter("scale", INFINITY);
            assertRefusedWithoutChange(context, 3, {"MassPenaltyLangevinIntegrator:"});
            context.setParameter("scale", 0);
        }
        integrator.step(1);
        ASSERT(largestDifference(v, getVelocities(context)) > 0.01);
    };
    context.setVelocities(makeVelocities(model.system, 300, 1));
    failAndGoOn();
    integrator.setStepSize(0.008);
    failAndGoOn();
    failAndGoOn();
    ASSERT_EQUAL(3, context.getStepCount());
}

/** A run resumed from a checkpoint, or a State, is the one that goes on, whatever has been set before it was saved. */
CLAIM(testSavedStatesResume, Platform& platform) {
    const Model model = makeLoneWaters(2);
    for (bool inCheckpoint : {false, true}) {
        MassPenaltyIntegrator saving(0.004), resumed(0.004);
        ModelContext context(model, saving, platform, deterministic(platform)),
                other(model, resumed, platform, deterministic(platform));
        context.setVelocitiesToTemperature(300, 7);
        saving.step(3);
        vector<Vec3> x = getPositions(context), v = getVelocities(context);
        for (int i = 0; i < 12; i++)
            x[i] += Vec3(0.002 * (i % 2), 0.001 * (i % 5), 0);
        v[20] *= 1.5;
        context.setPositions(x);
        context.setVelocities(v);
        saving.setStepSize(0.012);
        resumed.setStepSize(0.012);
        if (inCheckpoint)
            copyState(context, other);
        else
            setFromXml(other, toXml(context));
        ASSERT_EQUAL_TOL(kineticEnergy(context), kineticEnergy(other), byRounding(platform, 1e-14, 1e-9, 1e-6));
        saving.step(2);
        resumed.step(2);
        const double tolerance = byRounding(platform, inCheckpoint ? 0 : 1e-11, 1e-9, 1e-3, 1e-2);
        ASSERT(largestDifference(getVelocities(context), getVelocities(other)) <= tolerance);
    }
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
