/**
 * Whose velocities a Context of a mass penalty has, and what becomes of those of others: drawn for the masses alone,
 * brought along by a change of the pairs or of the positions, or drawn by an AndersenThermostat.
 */

#include "OpenMMStiff.h"
#include "ExtendedWater.h"
#include "PlatformTest.h"
#include "Statistics.h"
#include "Systems.h"
#include "Vectors.h"
#include "openmm/serialization/XmlSerializer.h"
#include <functional>
#include <memory>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

namespace {

const double kT = boltzmann * 300;
/// A period that is not that of the pairs of an instant.
const double period = 0.064;

/**
 * A step in which nothing moves. Velocities change by the rounding of positions over it: in single precision not even
 * the last bit of a position may change.
 */
double getInstant(const Platform& platform) {
    return byRounding(platform, 1e-9, 1e-9, 1e-9, 1e-12);
}

/** Waters that do not act on each other. */
Model makeLoneWaters(int numSide = 2) {
    Model model = makeWaterCluster(numSide);
    model.system.removeForce(2);
    return model;
}

/**
 * Assert that velocities have the distribution of a penalized water at 300 K: with M + G^T kappa G = L L^T, L^T v
 * consists of independent numbers of variance kT.
 *
 * @param sample   called with the number of a draw; afterwards the Context has the positions and velocities
 */
void assertTiedDistribution(Context& context, double period, int numDraws, const std::function<void(int)>& sample) {
    MatrixXd covariance = MatrixXd::Zero(9, 9);
    int number = 0;
    for (int draw = 0; draw < numDraws; draw++) {
        sample(draw);
        const VectorXd x = toVector(getPositions(context)), v = toVector(getVelocities(context));
        for (int first = 0; first < x.size(); first += 9, number++) {
            const MatrixXd root = ExtendedWater(period).extendedMass(x.segment<9>(first)).llt().matrixL();
            const VectorXd scaled = root.transpose() * v.segment<9>(first);
            covariance += scaled * scaled.transpose() / kT;
        }
    }
    covariance /= number;
    const double error = (covariance - MatrixXd::Identity(9, 9)).cwiseAbs().maxCoeff();
    std::cout << "covariance of " << number << " velocities: off by " << error << ", a standard error is "
              << std::sqrt(2.0 / number) << std::endl;
    // The standard error of a variance is root(2/n) of it, of a covariance root(1/n): five of the largest.
    ASSERT(error < 5 * std::sqrt(2.0 / number));
}

double kineticEnergy(const Context& context) {
    return context.getState(State::Energy).getKineticEnergy();
}

/** Velocities of the masses alone become those of the inertias, with the energy that they had. */
void testForeignVelocitiesAreAdopted(Platform& platform) {
    const Model model = makeLoneWaters();
    MassPenaltyLangevinIntegrator integrator(300, 0, getInstant(platform));
    integrator.setPenalizedPeriod(period);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    assertTiedDistribution(context, period, 400, [&](int draw) {
        context.setVelocities(makeVelocities(model.system, 300, draw + 1));
        const double before = kineticEnergy(context);
        integrator.step(1);
        ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-6);
    });
}

/** Own velocities of another Context stay as they are: it is seen from their distribution whose they are. */
void testOwnVelocitiesAreRecognized(Platform& platform) {
    const Model model = makeLoneWaters();
    MassPenaltyLangevinIntegrator langevin(300, 0, getInstant(platform));
    MassPenaltyIntegrator constant(getInstant(platform));
    constant.setPenalizedPeriod(period);
    langevin.setPenalizedPeriod(period);
    Context context(model.system, constant, platform), other(model.system, langevin, platform);
    context.setPositions(model.positions);
    other.setPositions(model.positions);
    for (int seed = 1; seed <= 20; seed++) {
        context.setVelocitiesToTemperature(seed * 50, seed);
        const vector<Vec3> v = getVelocities(context);
        other.setVelocities(v);
        ASSERT_EQUAL_TOL(kineticEnergy(context), kineticEnergy(other), 1e-6);
        for (MassPenaltyIntegrator* integrator : {(MassPenaltyIntegrator*) &langevin, &constant}) {
            integrator->step(1);
            // In single precision the last bits of 10 nm/ps may change.
            ASSERT(largestDifference(v, getVelocities(integrator == &constant ? context : other)) <
                   byRounding(platform, 1e-6, 1e-6, 1e-6, 1e-5));
            ASSERT(integrator->takeWarning().empty());
        }
    }
}

/** The momentum [dalton nm/ps] of a water, and its kinetic energy without the inertias. */
std::pair<Vec3, double> measureWater(const System& system, const vector<Vec3>& v, int water) {
    Vec3 momentum;
    double energy = 0;
    for (int i = 3 * water; i < 3 * water + 3; i++) {
        momentum += v[i] * system.getParticleMass(i);
        energy += 0.5 * system.getParticleMass(i) * v[i].dot(v[i]);
    }
    return {momentum, energy};
}

/** Molecules drawn or set for the masses alone are made the method's, one by one; the others keep their bits. */
void testOnlyForeignMoleculesAreChanged(Platform& platform) {
    const Model model = makeLoneWaters(3);
    const vector<Vec3> foreign = makeVelocities(model.system, 300, 5);
    for (int numForeign : {1, 4, 13, 27, 0}) // 0: one hot hydrogen among molecules at rest
        for (bool inNewContext : {false, true}) {
            MassPenaltyIntegrator integrator(getInstant(platform)), twin(getInstant(platform));
            for (MassPenaltyIntegrator* each : {&integrator, &twin})
                each->setPenalizedPeriod(period);
            Context context(model.system, integrator, platform), reference(model.system, twin, platform);
            vector<Vec3> v(81), own;
            for (Context* each : {&reference, &context}) {
                each->setPositions(model.positions);
                if (numForeign > 0 && (!inNewContext || each == &reference))
                    each->setVelocitiesToTemperature(300, 6);
            }
            own = v = getVelocities(reference);
            reference.setVelocities(v);
            std::copy_n(foreign.begin(), 3 * numForeign, v.begin());
            if (numForeign == 0)
                v[1] = Vec3(3, 0, 0);
            context.setVelocities(v);
            const double before = kineticEnergy(context);
            integrator.step(1);
            twin.step(1);
            ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-5);
            const vector<Vec3> after = getVelocities(context), kept = getVelocities(reference);
            const std::string warning = integrator.takeWarning();
            int numChanged = 0;
            for (int water = 0; water < 27; water++) {
                const bool isForeign = water < std::max(numForeign, 1);
                double change = 0;
                for (int i = 3 * water; i < 3 * water + 3; i++)
                    change = std::max(change, std::sqrt((after[i] - v[i]).dot(after[i] - v[i])));
                if (!isForeign)
                    for (int i = 3 * water; i < 3 * water + 3; i++)
                        ASSERT(after[i] == kept[i])
                if (!isForeign || change < 0.01)
                    continue;
                numChanged++;
                const auto [momentum, energy] = measureWater(model.system, v, water);
                const auto [momentumAfter, energyAfter] = measureWater(model.system, after, water);
                const Vec3 difference = momentum - momentumAfter;
                ASSERT(std::sqrt(difference.dot(difference)) < 1e-4);
                ASSERT(energyAfter < energy); // the rest of it is the pairs'
            }
            // A molecule that happens to have next to no motion along its pairs is anybody's.
            ASSERT(numChanged >= 0.8 * numForeign && numChanged > 0);
            assertHasWords(warning, {"MassPenaltyIntegrator:", std::to_string(numChanged) + " of 27 molecules"});
        }
}

/** Who moves an atom changes the velocities of its molecule, by nothing as the way goes to nothing; of no other. */
void testMovedMoleculesAloneFollow(Platform& platform) {
    const Model model = makeLoneWaters();
    auto run = [&](double way) {
        MassPenaltyIntegrator integrator(getInstant(platform));
        integrator.setPenalizedPeriod(period);
        Context context(model.system, integrator, platform);
        context.setPositions(model.positions);
        context.setVelocitiesToTemperature(300, 6);
        vector<Vec3> x = getPositions(context);
        x[4] += Vec3(0, way, 0);
        context.setPositions(x);
        integrator.step(1);
        ASSERT(integrator.takeWarning().empty());
        return getVelocities(context);
    };
    const vector<Vec3> still = run(0);
    for (double way : {1e-2, 1e-3, 1e-4, 1e-5}) {
        const vector<Vec3> moved = run(way);
        for (int i = 0; i < 24; i++)
            if (i / 3 != 1)
                ASSERT(moved[i] == still[i])
        const double change = largestDifference(moved, still);
        std::cout << "moved by " << way << " nm: velocities change by " << change << " nm/ps" << std::endl;
        ASSERT(change < 500 * way + byRounding(platform, 0.0, 0.0, 0.0, 1e-3));
        ASSERT(change > 5 * way - byRounding(platform, 0.0, 0.0, 1e-3, 1e-3));
    }
}

/** A State that was saved after somebody has moved atoms, or changed velocities, goes on as the run it was saved of. */
void testStatesSavedInBetweenResume(Platform& platform) {
    const Model model = makeLoneWaters();
    for (bool inCheckpoint : {false, true}) {
        MassPenaltyIntegrator saving(0.004), resumed(0.004);
        Context context(model.system, saving, platform, deterministic(platform)),
                other(model.system, resumed, platform, deterministic(platform));
        context.setPositions(model.positions);
        context.setVelocitiesToTemperature(300, 7);
        saving.step(3);
        vector<Vec3> x = getPositions(context), v = getVelocities(context);
        for (int i = 0; i < 12; i++)
            x[i] += Vec3(0.002 * (i % 2), 0.001 * (i % 5), 0);
        v[20] *= 1.5;
        context.setPositions(x);
        context.setVelocities(v);
        saving.setStepSize(0.003);
        resumed.setStepSize(0.003);
        std::stringstream saved;
        if (inCheckpoint) {
            context.createCheckpoint(saved);
            other.loadCheckpoint(saved);
        }
        else {
            const State state = context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
            XmlSerializer::serialize(&state, "State", saved);
            other.setState(*std::unique_ptr<State>(XmlSerializer::deserialize<State>(saved)));
        }
        ASSERT_EQUAL_TOL(kineticEnergy(context), kineticEnergy(other), 1e-9);
        saving.step(2);
        resumed.step(2);
        ASSERT(largestDifference(getVelocities(context), getVelocities(other)) <
               byRounding(platform, 1e-12, 1e-9, 1e-3, 1e-2));
    }
}

/** With a change of the period, which is one of the inertias, velocities keep their temperature and energy. */
void testVelocitiesFollowThePairs(Platform& platform) {
    const Model model = makeLoneWaters();
    MassPenaltyLangevinIntegrator langevin(300, 0, getInstant(platform));
    MassPenaltyIntegrator constant(getInstant(platform));
    for (MassPenaltyIntegrator* integrator : {(MassPenaltyIntegrator*) &langevin, &constant}) {
        integrator->setPenalizedPeriod(period);
        Context context(model.system, *integrator, platform);
        context.setPositions(model.positions);
        for (double next : {2 * period, 0.5 * period})
            assertTiedDistribution(context, next, 400, [&](int draw) {
                integrator->setPenalizedPeriod(period);
                context.setVelocitiesToTemperature(300, draw + 1);
                const double before = kineticEnergy(context);
                integrator->setPenalizedPeriod(next);
                ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-9); // still that of before
                integrator->step(1);
                ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-6);
            });
    }
}

/** Molecules that are turned by hand have the velocities of turned molecules. */
void testVelocitiesFollowThePositions(Platform& platform) {
    const Model model = makeLoneWaters();
    vector<Vec3> turned = model.positions;
    for (Vec3& x : turned)
        x = Vec3(x[1], x[2], x[0]);
    MassPenaltyIntegrator integrator(getInstant(platform));
    integrator.setPenalizedPeriod(period);
    Context context(model.system, integrator, platform);
    assertTiedDistribution(context, period, 400, [&](int draw) {
        context.setPositions(model.positions);
        context.setVelocitiesToTemperature(300, draw + 1);
        const double before = kineticEnergy(context);
        context.setPositions(turned);
        ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-9);
        integrator.step(1);
        ASSERT_EQUAL_TOL(before, kineticEnergy(context), 1e-6);
    });
}

/** Molecules that are moved to another periodic copy go on as before. */
void testPeriodicCopiesDoNotMatter(Platform& platform) {
    if (getRounding(platform) == Rounding::Single)
        return; // moved by some nm, molecules get another shape by rounding, which their velocities follow
    Model model = makeLoneWaters();
    MassPenaltyIntegrator integrator(0.004), other(0.004);
    vector<vector<Vec3>> ends;
    for (bool wrapped : {false, true}) {
        MassPenaltyIntegrator& tested = (wrapped ? other : integrator);
        Context context(model.system, tested, platform, deterministic(platform));
        context.setPositions(model.positions);
        context.setVelocitiesToTemperature(300, 5);
        tested.step(10);
        vector<Vec3> x = getPositions(context);
        for (size_t i = 0; i < x.size() && wrapped; i++)
            x[i] += Vec3(2, 0, 0) * int(i / 3 % 3);
        context.setPositions(x);
        tested.step(10);
        ends.push_back(getVelocities(context));
    }
    ASSERT(largestDifference(ends[0], ends[1]) < byRounding(platform, 1e-6, 1e-6, 1e-2));
}

/** One collision of an AndersenThermostat with some particles leaves the distribution as it is. */
void testCollisionsKeepTheDistribution(Platform& platform) {
    Model model = makeLoneWaters();
    auto* thermostat = new AndersenThermostat(300, 0.7 / getInstant(platform)); // half of the particles
    thermostat->setRandomNumberSeed(3);
    model.system.addForce(thermostat);
    MassPenaltyIntegrator integrator(getInstant(platform));
    integrator.setPenalizedPeriod(period);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    assertTiedDistribution(context, period, 400, [&](int draw) {
        context.setVelocitiesToTemperature(300, draw + 1);
        const vector<Vec3> before = getVelocities(context);
        integrator.step(1);
        ASSERT(largestDifference(before, getVelocities(context)) > 0.1);
    });
}

/** An AndersenThermostat keeps the temperature of water at 4 fs, and that of its bonds. */
void testAndersenThermostat(Platform& platform) {
    Model model = makeWaterCluster(2);
    addWell(model);
    auto* thermostat = new AndersenThermostat(300, 5);
    thermostat->setRandomNumberSeed(4);
    model.system.addForce(thermostat);
    model.system.addForce(new CMMotionRemover(10));
    dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).setForceGroup(1);
    MassPenaltyIntegrator integrator(0.004);
    Context context(model.system, integrator, platform, deterministic(platform));
    context.setPositions(model.positions);
    minimize(context);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(2000);
    vector<double> temperatures, bonds;
    for (int i = 0; i < 8000; i++) {
        integrator.step(5);
        temperatures.push_back(2 * kineticEnergy(context) / (boltzmann * (3 * 24 - 3)));
        bonds.push_back(context.getState(State::Energy, false, 1 << 1).getPotentialEnergy() / 16 / kT);
    }
    const BlockedMean T(temperatures), bond(bonds);
    std::cout << "AndersenThermostat: T " << T.mean << " +- " << T.error << " K, a bond " << bond.mean << " +- "
              << bond.error << " kT" << std::endl;
    ASSERT(std::abs(T.mean - 300) < 4 * T.error + 3);
    // The force field's own value: half a kT, and the stretch by the slow forces.
    ASSERT(bond.mean > 0.5 - 4 * bond.error && bond.mean < 0.9);
}

/** What users do: draw velocities in a CompoundIntegrator, minimize after drawing, load another integrator's State. */
void testStartsAreWarmWhateverTheOrder(Platform& platform) {
    Model model = makeWaterCluster(3);
    addWell(model);
    const double freedoms = 3 * 81;
    const std::map<std::string, std::string> properties = deterministic(platform);
    // The relative standard error of a temperature is root(2/f).
    const double tolerance = 4 * std::sqrt(2 / freedoms);
    auto temperature = [&](Context& context) { return 2 * kineticEnergy(context) / (boltzmann * freedoms); };
    auto assertWarm = [&](const char* how, Context& context, Integrator& integrator) {
        const double first = temperature(context);
        integrator.step(2);
        const double second = temperature(context);
        std::cout << how << ": " << first << " K, after two steps " << second << " K" << std::endl;
        ASSERT(std::abs(first - 300) < 300 * tolerance);
        // Vibrations that begin at rest take some of it.
        ASSERT(second < first + 30);
        ASSERT(second > 0.4 * first);
    };
    // A relaxed start, which forces do not heat.
    VerletIntegrator verlet(0.001);
    Context minimized(model.system, verlet, platform);
    minimized.setPositions(model.positions);
    minimize(minimized, 1);
    const vector<Vec3> relaxed = getPositions(minimized);
    for (double h : {0.004, 0.008}) {
        CompoundIntegrator compound;
        compound.addIntegrator(new MassPenaltyLangevinIntegrator(300, 1, h));
        compound.addIntegrator(new VerletIntegrator(0.0005));
        Context inCompound(model.system, compound, platform, properties);
        inCompound.setPositions(relaxed);
        inCompound.setVelocitiesToTemperature(300, 2);
        assertWarm("compound", inCompound, compound);
        LangevinMiddleIntegrator middle(300, 1, 0.001);
        Context other(model.system, middle, platform, properties);
        other.setPositions(relaxed);
        other.setVelocitiesToTemperature(300, 3);
        std::stringstream xml;
        const State saved = other.getState(State::Positions | State::Velocities | State::IntegratorParameters);
        XmlSerializer::serialize(&saved, "State", xml);
        const std::unique_ptr<State> state(XmlSerializer::deserialize<State>(xml));
        MassPenaltyLangevinIntegrator langevin(300, 1, h);
        Context context(model.system, langevin, platform, properties);
        context.setState(*state);
        assertWarm("State of LangevinMiddle", context, langevin);
        MassPenaltyIntegrator constant(h);
        Context ofConstant(model.system, constant, platform, properties);
        ofConstant.setState(*state);
        assertWarm("State of LangevinMiddle, at constant energy", ofConstant, constant);
        assertHasWords(constant.takeWarning(), {"MassPenaltyIntegrator:", "27 of 27 molecules"});
        ofConstant.setVelocitiesToTemperature(300, 4);
        assertWarm("drawn anew", ofConstant, constant);
        for (MassPenaltyIntegrator* integrator : {(MassPenaltyIntegrator*) &langevin, &constant}) {
            Context& own = (integrator == &langevin ? context : ofConstant);
            own.setPositions(model.positions);
            own.setVelocitiesToTemperature(300, 6);
            minimize(own, 1);
            assertWarm("velocities, then minimized", own, *integrator);
        }
    }
}

/** If the step fails for which velocities were adopted, or have followed the pairs, they are again what they were. */
void testFailedStepsUndoIt(Platform& platform) {
    Model model = makeLoneWaters();
    auto* field = new CustomExternalForce("scale*x"); // a force that can be made infinite
    field->addGlobalParameter("scale", 0);
    field->addParticle(0);
    model.system.addForce(field);
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.004);
    Context context(model.system, integrator, platform);
    context.setPositions(model.positions);
    auto failAndGoOn = [&] {
        const vector<Vec3> v = getVelocities(context);
        const double kinetic = kineticEnergy(context);
        for (int attempt = 0; attempt < 2; attempt++) {
            context.setParameter("scale", INFINITY);
            assertThrows([&] { integrator.step(1); }, {"MassPenaltyLangevinIntegrator:"});
            ASSERT(v == getVelocities(context));
            context.setParameter("scale", 0);
            ASSERT_EQUAL_TOL(kinetic, kineticEnergy(context), 1e-12);
        }
        integrator.step(1);
        ASSERT(largestDifference(v, getVelocities(context)) > 0.01);
    };
    context.setVelocities(makeVelocities(model.system, 300, 1));
    failAndGoOn();
    integrator.setStepSize(0.008);
    failAndGoOn();
    ASSERT_EQUAL(2, context.getStepCount());
}

/** A State knows to which pairs its velocities belong: at another step size they keep their temperature. */
void testStatesCarryTheirPairs(Platform& platform) {
    const Model model = makeLoneWaters();
    MassPenaltyIntegrator saving(0.004), resumed(0.008);
    Context context(model.system, saving, platform), other(model.system, resumed, platform);
    context.setPositions(model.positions);
    context.setVelocitiesToTemperature(300, 7);
    saving.step(3);
    std::stringstream xml, checkpoint;
    const State saved = context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
    XmlSerializer::serialize(&saved, "State", xml);
    context.createCheckpoint(checkpoint);
    const double kinetic = kineticEnergy(context);
    other.setState(*std::unique_ptr<State>(XmlSerializer::deserialize<State>(xml)));
    ASSERT_EQUAL_TOL(kinetic, kineticEnergy(other), 1e-9);
    ASSERT_EQUAL(24, resumed.computeNumPenalizedPairs());
    resumed.step(1); // from velocities that are others now
    ASSERT_EQUAL_TOL(kinetic, kineticEnergy(other), 0.1);
    ASSERT(largestDifference(saved.getVelocities(), getVelocities(other)) > 0.1);
    other.loadCheckpoint(checkpoint);
    ASSERT_EQUAL_TOL(kinetic, kineticEnergy(other), 1e-9);
    resumed.step(1);
    ASSERT_EQUAL(4, other.getStepCount());
}

} // namespace

int main(int argc, char* argv[]) {
    return checkOnPlatform(argc, argv,
                           {CLAIM(testForeignVelocitiesAreAdopted), CLAIM(testOwnVelocitiesAreRecognized),
                            CLAIM(testOnlyForeignMoleculesAreChanged), CLAIM(testMovedMoleculesAloneFollow),
                            CLAIM(testStatesSavedInBetweenResume), CLAIM(testVelocitiesFollowThePairs),
                            CLAIM(testVelocitiesFollowThePositions), CLAIM(testPeriodicCopiesDoNotMatter),
                            CLAIM(testCollisionsKeepTheDistribution), CLAIM(testAndersenThermostat),
                            CLAIM(testStartsAreWarmWhateverTheOrder), CLAIM(testFailedStepsUndoIt),
                            CLAIM(testStatesCarryTheirPairs)});
}
