/**
 * What is claimed of each method: its order, whether it is reversible and symplectic, what it keeps, and that a step
 * takes no memory. Each claim has a table; a method is a line of it.
 */

#include "IntegratorTest.h"
#include "CountAllocations.h"
#include "ExtendedWater.h"
#include "VibratedSystems.h"

namespace {

/** A method with its settings, and what it moves, from velocities of a temperature. */
struct Setup {
    std::string name;
    std::function<std::unique_ptr<StiffIntegrator>(double stepSize)> make, makeLangevin;
    std::function<Model()> makeModel;
    double temperature = 300;
    bool reversible = true, symplectic = true;
    /// The matrix that makes velocities of canonical momenta; none if the masses do.
    std::function<MatrixXd(const VectorXd& x)> toVelocities = nullptr;
};

/** How a method is made. A Langevin form has arguments before the step size: those of its heat bath. */
template <class T, class Set, class... Arguments> auto making(Set set, Arguments... before) {
    return [=](double stepSize) {
        auto integrator = std::make_unique<T>(before..., stepSize);
        set(*integrator);
        if constexpr (sizeof...(before) > 0)
            integrator->setRandomNumberSeed(5);
        return integrator;
    };
}

using MakeModel = std::function<Model()>;

/**
 * Without and with an inertia of bonds, and that of one more pair if it is given. Canonical momenta are known for one
 * water.
 */
vector<Setup> massPenalties(const MakeModel& makeModel, double period, std::pair<int, int> pair = {}) {
    vector<Setup> setups;
    for (double bondInertia : {0.0, 3.0}) {
        auto set = [=](MassPenaltyIntegrator& integrator) {
            integrator.setPenalizedPeriod(period);
            integrator.setBondInertia(bondInertia);
            integrator.setConstraintTolerance(1e-13);
            if (pair.second > 0)
                integrator.addPair(pair.first, pair.second, 10);
        };
        setups.push_back({"MassPenaltyIntegrator, inertia of bonds " + std::to_string(bondInertia),
                          making<MassPenaltyIntegrator>(set), making<MassPenaltyLangevinIntegrator>(set, 300.0, 1.0),
                          makeModel});
        // u = M^-1 N^T p
        setups.back().toVelocities = [water = ExtendedWater(period, bondInertia)](const VectorXd& x) {
            return MatrixXd(inverseOf(water.massOfAtoms) * water.root(x).transpose());
        };
    }
    return setups;
}

/** With each kick, and a number of micro-steps that may depend on the step size. */
vector<Setup> impulses(const MakeModel& makeModel, const std::function<int(double stepSize)>& numMicroSteps = nullptr,
                       double projectedPeriod = 0.02) {
    vector<Setup> setups;
    for (const ImpulseKick& kick : impulseKicks) {
        auto set = [=](ImpulseIntegrator& integrator) {
            integrator.setKick(kick.kick);
            integrator.setProjectedPeriod(projectedPeriod);
            if (numMicroSteps)
                integrator.setNumMicroSteps(numMicroSteps(integrator.getStepSize()));
        };
        setups.push_back({std::string("ImpulseIntegrator, ") + kick.name, making<ImpulseIntegrator>(set),
                          making<ImpulseLangevinIntegrator>(set, 300.0, 1.0), makeModel});
        setups.back().symplectic = kick.is.symplectic;
    }
    return setups;
}

/** The methods of the Zhang-Skeel family. */
vector<Setup> zhangSkeels(const MakeModel& makeModel, double temperature, double beta = 0.25,
                          double newtonTolerance = 0) {
    vector<Setup> setups;
    for (const ZhangSkeelMethod& method : zhangSkeelMethods) {
        auto set = [=](ZhangSkeelIntegrator& integrator) {
            choose(integrator, method.method);
            integrator.setBeta(beta);
            integrator.setNewtonTolerance(newtonTolerance);
        };
        // Noise of 300 K may be too much for models that are rough.
        setups.push_back({std::string("ZhangSkeelIntegrator, ") + method.name, making<ZhangSkeelIntegrator>(set),
                          making<ZhangSkeelLangevinIntegrator>(set, 1e-6, 1.0), makeModel, temperature,
                          method.is.reversible, method.is.symplectic});
    }
    return setups;
}

template <class T, class Set = void (*)(T&)>
vector<Setup> single(
        const char* name, const MakeModel& makeModel, Set set = [](T&) {}) {
    return {{name, making<T>(set), nullptr, makeModel}};
}

/** Its bounds, and those of SPOOK, are not for single precision. */
vector<Setup> vibrated(Platform& platform, const MakeModel& makeModel, double frequency, double temperature) {
    if (getRounding(platform) == Rounding::Single)
        return {};
    auto make = [=](double stepSize) {
        auto integrator = std::make_unique<HMMIntegrator>(stepSize, frequency);
        integrator->setFilter(HMMIntegrator::Simple);
        integrator->setNumMicroStepsPerPeriod(20);
        return integrator;
    };
    return {{"HMMIntegrator", make, nullptr, makeModel, temperature}};
}

/** What a Setup says, at its start. */
struct Run {
    const Model model;
    std::unique_ptr<StiffIntegrator> integrator;
    Context context;

    Run(const Setup& setup, double stepSize, Platform& platform)
            : model(setup.makeModel()), integrator(setup.make(stepSize)),
              context(model.system, *integrator, platform, deterministic(platform)) {
        context.setPositions(model.positions);
        context.computeVirtualSites();
        context.setVelocities(makeVelocities(model.system, setup.temperature, 5));
    }
    /** Those that the method moves. */
    vector<Vec3> positions() const {
        auto* hiding = dynamic_cast<ZhangSkeelIntegrator*>(integrator.get());
        return hiding ? hiding->getPropagatedPositions() : getPositions(context);
    }
    vector<Vec3> velocities() const {
        return getVelocities(context);
    }
};

Model makeCluster() {
    return makeWaterCluster(2);
}

/** The waters of a cluster; where nonbonded forces are in single precision, springs between them instead. */
MakeModel makePreciseCluster(Platform& platform) {
    return [precise = hasPreciseForces(platform)] {
        Model model = (precise ? makeCluster() : makeLoneWaters(2));
        if (precise)
            return model;
        auto* springs = new CustomBondForce("50*(r-0.3)^2");
        for (int i = 0; i + 4 < model.system.getNumParticles(); i++)
            springs->addBond(i, i + 4);
        model.system.addForce(springs);
        return model;
    };
}

Model makePendulumAtRest() {
    return makeDoublePendulum();
}

/** Bonds and angles are in the stiff group. */
Model inStiffGroup(Model (*make)()) {
    Model model = make();
    for (int f : {0, 1})
        model.system.getForce(f).setForceGroup(stiffGroup);
    return model;
}

/** Two vibrated pendulums, in two dimensions, with a bond that is vibrated as well. */
Model makeVibratedPair() {
    Model model = {makePendulum(1e4, 2, 3), {Vec3(0.5, 0.2, -0.1), Vec3(-0.3, 0.6, 0.2)}};
    auto* bond = new CustomBondForce("(20+5000*cos(theta))*(r-0.8)^2");
    bond->addGlobalParameter("theta", 0.3);
    bond->addBond(0, 1);
    model.system.addForce(bond);
    return model;
}

/** A table of a claim: methods with their settings, and what else each line says of them. */
template <class Row, class Claim> void checkAll(const vector<Row>& rows, Claim&& claim) {
    for (const Row& row : rows)
        checkEach(row.setups, [&](const Setup& setup) { claim(row, setup); });
}

/** The error of a method against its own solution by the first number of steps is of second order in the others. */
CLAIM(testOrderIsTwo, Platform& platform) {
    struct Row {
        vector<Setup> setups;
        double time;
        vector<int> numSteps;
        double tolerance;
        bool ofVelocities = false;
    };
    // In single precision rounding hides the errors of small steps; those of larger ones are of order 2 only in x.
    const bool rounded = (getRounding(platform) == Rounding::Single);
    const MakeModel makeFreeWaters = [&] {
        // The noise of nonbonded forces in single precision would hide the smallest errors.
        return hasPreciseForces(platform) ? makeCluster() : makeLoneWaters(2);
    };
    const vector<Row> rows = {
            {massPenalties(makeWaterInField, 0.06), 0.064, {1024, 16, 32, 64}, 0.1, false},
            // Micro-steps are so small that their errors do not matter.
            {impulses(makeWaterInField, [](double h) { return std::lround(h / 1e-6); }), 0.016, {256, 8, 16, 32}, 0.1},
            {single<ZhangSkeelIntegrator>("ZhangSkeelIntegrator", makeFreeWaters), 0.032,
             rounded ? vector<int>{8192, 64, 128, 256, 512} : vector<int>{8192, 128, 256, 512, 1024}, 0.05, !rounded},
            {zhangSkeels(makePendulumAtRest, 0, 0.4), 1,
             rounded ? vector<int>{16384, 100, 200, 400, 800} : vector<int>{16384, 200, 400, 800, 1600}, 0.1},
    };
    checkAll(rows, [&](const Row& row, const Setup& setup) {
        vector<vector<Vec3>> x, v;
        vector<double> steps, xErrors, vErrors;
        for (int numSteps : row.numSteps) {
            Run run(setup, row.time / numSteps, x.empty() ? platformForManySteps(platform) : platform);
            run.integrator->step(numSteps);
            x.push_back(run.positions());
            v.push_back(run.velocities());
            if (x.size() == 1)
                continue;
            steps.push_back(row.time / numSteps);
            xErrors.push_back(largestDifference(x[0], x.back()));
            vErrors.push_back(largestDifference(v[0], v.back()));
        }
        ASSERT_EQUAL_TOL(2, logSlope(steps, xErrors), row.tolerance);
        if (row.ofVelocities)
            ASSERT_EQUAL_TOL(2, logSlope(steps, vErrors), row.tolerance);
    });
}

/** From (x, -v) the same steps lead back, if the method is reversible. What is left is rounding, and its growth. */
CLAIM(testReversible, Platform& platform) {
    struct Row {
        vector<Setup> setups;
        double stepSize;
        int numSteps;
        double bound, velocityBound = INFINITY, leastMotion = 0.01;
    };
    // Forces in double and in single precision; steps in single precision.
    auto ofCluster = [&](double withSingleForces) {
        return byRounding(platform, hasPreciseForces(platform) ? 1e-10 : withSingleForces, 1e-10, withSingleForces,
                          1e-4);
    };
    const vector<Row> rows = {
            {massPenalties(makeCluster, 0.064), 0.004, 50, ofCluster(1e-4)},
            // The automatic number of micro-steps may depend on where the run starts.
            {impulses(makeCluster, [](double) { return 5; }), 0.002, 100, ofCluster(1e-5)},
            {single<ZhangSkeelIntegrator>("ZhangSkeelIntegrator", makeCluster), 0.002, 100, ofCluster(1e-6)},
            {zhangSkeels(makePendulumAtRest, 0), 0.02, 40, byRounding(platform, 1e-9, 1e-7, 1e-3)},
            {vibrated(platform, makeVibratedPair, 1e4, 20), 0.02, 50, 5e-10, 5e-10, 0.1},
    };
    checkAll(rows, [&](const Row& row, const Setup& setup) {
        Run run(setup, row.stepSize, platform);
        const vector<Vec3> start = run.velocities();
        auto stepAndReverse = [&] {
            run.integrator->step(row.numSteps);
            vector<Vec3> v = run.velocities();
            for (Vec3& each : v)
                each *= -1;
            run.context.setVelocities(v);
        };
        stepAndReverse();
        ASSERT(largestDifference(run.positions(), run.model.positions) > row.leastMotion);
        stepAndReverse();
        const double error = largestDifference(run.positions(), run.model.positions);
        std::cout << setup.name << ": " << row.numSteps << " steps forth and back: error " << error << " nm"
                  << std::endl;
        ASSERT(setup.reversible ? error < row.bound : error > 1e-4);
        ASSERT(largestDifference(run.velocities(), start) < row.velocityBound);
    });
}

/**
 * The largest entry of J^T Omega J - Omega of one step in positions and canonical momenta, which are scaled so that
 * entries are of the size of 1.
 */
double stepDefect(Run& run, const Setup& setup, double length, double difference) {
    const System& system = run.model.system;
    vector<int> mobile;
    vector<double> masses;
    for (int i = 0; i < 3 * system.getNumParticles(); i++)
        if (system.getParticleMass(i / 3) > 0) {
            mobile.push_back(i);
            masses.push_back(system.getParticleMass(i / 3));
        }
    const int n = mobile.size();
    const VectorXd mass = Eigen::Map<VectorXd>(masses.data(), n);
    VectorXd scale(2 * n);
    scale << mass.cwiseSqrt() / length, mass.cwiseSqrt().cwiseInverse() * length;
    auto toVelocities = [&](const VectorXd& x) {
        return setup.toVelocities ? setup.toVelocities(x) : MatrixXd(mass.cwiseInverse().asDiagonal());
    };
    auto getState = [&] {
        const VectorXd x = toVector(run.positions()), v = toVector(run.velocities());
        VectorXd state(2 * n);
        state << x(mobile), solveDense(toVelocities(x), v(mobile));
        return VectorXd(state.cwiseProduct(scale));
    };
    const VectorXd start = getState();
    auto step = [&](const VectorXd& scaled) {
        const VectorXd state = scaled.cwiseQuotient(scale);
        VectorXd x = toVector(run.model.positions), v = VectorXd::Zero(x.size());
        x(mobile) = state.head(n);
        v(mobile) = toVelocities(x) * state.tail(n);
        run.context.setPositions(toVec3s(x));
        run.context.setVelocities(toVec3s(v));
        run.integrator->step(1);
        return getState();
    };
    return symplecticDefect(differentiate(start, difference, step));
}

/** A step is symplectic, J^T Omega J = Omega, if the method is; if not, the test can tell. */
CLAIM(testSymplecticity, Platform& platform) {
    struct Row {
        vector<Setup> setups;
        double stepSize, length;
        double difference; // by which rounding is divided
        double bound, least = 0;
    };
    auto asWater = [] { return inStiffGroup(makeWaterInField); };
    auto asStraight = [] { return inStiffGroup(makeStraightMoleculeInField); };
    auto makeBentPendulum = [](const char* field) {
        return [=] {
            Model model = makeDoublePendulum(20, field);
            model.positions[1] = Vec3(0.02, -0.99, 0.05);
            return model;
        };
    };
    // With stiff groups chosen, ThirdDerivatives is implicit in their forces alone.
    auto setSplit = [](ZhangSkeelIntegrator& integrator) {
        integrator.setBeta(0.5);
        integrator.setMethod(ZhangSkeelIntegrator::ThirdDerivatives);
        integrator.setStiffForceGroups(1 << stiffGroup);
    };
    auto ten = [](double) { return 10; };
    // The tightest tolerance: with rounded forces, where they allow no more.
    const double newtonTolerance = byRounding(platform, 1e-12, 0.0, 0.0);
    const double bound = byRounding(platform, 1e-6, 1e-6, 1e-3), ofZhangSkeel = byRounding(platform, 1e-6, 1e-5, 1e-2);
    vector<Row> rows = {
            {massPenalties(makeWaterInField, 0.06), 0.004, 0.1, byRounding(platform, 1e-3, 1e-3, 1e-2, 3e-2), bound},
            {impulses(makeWaterInField, ten, INFINITY), 0.004, 0.058, byRounding(platform, 6e-4, 6e-4, 6e-3), bound,
             1e-4},
            {zhangSkeels(makeBentPendulum("y"), 10, 0.4, newtonTolerance), 0.1, 1, 1e-3, ofZhangSkeel, 0.1},
            {zhangSkeels(asWater, 1000, 0.25, newtonTolerance), 0.004, 0.03, 1e-3, ofZhangSkeel, 0.1},
            {{{"ZhangSkeelIntegrator with stiff groups", making<ZhangSkeelIntegrator>(setSplit), nullptr,
               makeBentPendulum("y + 0.7*x^2*y + sin(2*x)*z"), 10}},
             0.1,
             1,
             1e-3,
             ofZhangSkeel},
            // The map of X alone is an average of gradients along a motion that starts at rest: up to O(1/omega).
            {vibrated(platform, makeVibratedPair, 1e4, 20), 0.02, 1, byRounding(platform, 1e-3, 1e-3, 2e-2),
             byRounding(platform, 2e-3, 2e-3, 5e-3)},
    };
    // Exactly straight. Within 1e-4 of 180 degrees OpenMM's own forces are not smooth, so that differences are taken
    // over longer ways; those of devices come from approximations that are smooth even less.
    if (!isDevice(platform)) {
        rows.push_back({impulses(makeStraightMoleculeInField, ten, INFINITY), 0.004, 0.058, 6e-3, 1e-6});
        rows.push_back({zhangSkeels(asStraight, 1000, 0.25, newtonTolerance), 0.004, 0.3, 1e-3, 1e-6});
    }
    checkAll(rows, [&](const Row& row, const Setup& setup) {
        Run run(setup, row.stepSize, platform);
        const double defect = stepDefect(run, setup, row.length, row.difference);
        std::cout << setup.name << ", " << run.model.system.getNumParticles() << " particles, " << row.stepSize
                  << " ps: largest entry of J^T Omega J - Omega " << defect << std::endl;
        ASSERT(setup.symplectic ? defect < row.bound : defect > row.least);
    });
}

/** Total momentum is kept to rounding; where all forces are internal, and central, angular momentum is as well. */
CLAIM(testMomentaAreKept, Platform& platform) {
    struct Row {
        vector<Setup> setups;
        double stepSize;
        int numSteps;
        double bound;
        bool angular = false;
    };
    auto makeCompressedRigidWaters = [] {
        Model model = makeWaterCluster(2, true);
        while (model.system.getNumForces() > 0)
            model.system.removeForce(0);
        for (Vec3& x : model.positions)
            x /= 1.05;
        return model;
    };
    const MakeModel makeWaters = makePreciseCluster(platform);
    vector<Row> rows = {
            {massPenalties([] { return makeLoneWaters(1); }, 0.096), 0.006, 1000,
             byRounding(platform, 1e-9, 1e-9, 1e-3), true},
            {impulses(makeWaters), 0.002, 500, byRounding(platform, 1e-10, 1e-10, 1e-3)},
            {single<ZhangSkeelIntegrator>("ZhangSkeelIntegrator", makeWaters), 0.003, 1000,
             byRounding(platform, 1e-11, 1e-9, 1e-3)},
    };
    if (getRounding(platform) != Rounding::Single) // whatever the violations
        rows.push_back(
                {single<SpookIntegrator>("SpookIntegrator", makeCompressedRigidWaters), 0.002, 500, 1e-11, true});
    checkAll(rows, [&](const Row& row, const Setup& setup) {
        Run run(setup, row.stepSize, platform);
        auto momenta = [&] {
            const vector<Vec3> x = run.positions();
            vector<Vec3> p = run.velocities();
            if (setup.toVelocities)
                p = toVec3s(solveDense(setup.toVelocities(toVector(x)), toVector(p)));
            else
                for (size_t i = 0; i < p.size(); i++)
                    p[i] *= run.model.system.getParticleMass(i);
            std::array<Vec3, 2> sums;
            for (size_t i = 0; i < p.size(); i++) {
                sums[0] += p[i];
                sums[1] += x[i].cross(p[i]);
            }
            return sums;
        };
        const auto before = momenta();
        run.integrator->step(row.numSteps);
        const auto after = momenta();
        ASSERT_EQUAL_VEC(before[0], after[0], row.bound);
        if (row.angular)
            ASSERT_EQUAL_VEC(before[1], after[1], row.bound);
    });
}

/** A bond to a virtual site is slow, and its force counts once, whatever the force that it belongs to. */
CLAIM(testBondsToVirtualSitesAreSlow, Platform& platform) {
    vector<Setup> setups = impulses(nullptr);
    const vector<Setup> zhangSkeelSetups = zhangSkeels(nullptr, 300);
    for (size_t i = 0; i < zhangSkeelMethods.size(); i++)
        if (zhangSkeelMethods[i].is.forAnyForces)
            setups.push_back(zhangSkeelSetups[i]);
    checkEach(setups, [&](const Setup& setup) {
        for (int groups : {0, 1}) {
            vector<vector<Vec3>> ends;
            for (bool harmonic : {true, false}) {
                Setup chosen = setup;
                chosen.makeModel = [=] {
                    Model model = makeWaterWithBoundSite(harmonic);
                    model.system.getForce(2).setForceGroup(1); // NonbondedForce
                    return model;
                };
                chosen.make = [=](double stepSize) {
                    auto integrator = setup.make(stepSize);
                    auto& selection = dynamic_cast<StiffForceSelection&>(*integrator);
                    if (groups != 0)
                        selection.setStiffForceGroups(groups);
                    else
                        selection.setUseDefaultStiffForceGroups(true);
                    return integrator;
                };
                Run run(chosen, 0.001, platform);
                run.integrator->step(50);
                ends.push_back(getPositions(run.context));
            }
            ASSERT(largestDifference(ends[0], ends[1]) <
                   byRounding(platform, hasPreciseForces(platform) ? 1e-9 : 1e-6, 1e-6, 1e-4));
        }
    });
}

/** A water beside a chain whose block is large. */
Model makeWaterAndChain() {
    Model model = makeWaterInField();
    vector<HarmonicBond> bonds;
    auto* angles = new HarmonicAngleForce();
    addChain(model, 30, 14, [&](int i, int j) {
        if (j == 13)
            model.system.addConstraint(i, j, 0.155);
        else
            bonds.push_back({i, j, 0.155, 200000});
        if (i > 3)
            angles->addAngle(i - 1, i, j, 2.05, 500);
    });
    addBonds(model.system, bonds);
    model.system.addForce(angles);
    return model;
}

/** Waters, enough for lanes, beside such a chain. */
Model makeWatersAndChain() {
    Model model = makeWaterCluster(2);
    addFlexibleChain(model, 20);
    return model;
}

/** A flexible water with a constraint, beside a rigid chain whose block is large. */
Model makeConstrainedChain() {
    Model model = makeWaterInField();
    model.system.addConstraint(0, 1, bondLength);
    addChain(model, 60, 14, [&](int i, int j) { model.system.addConstraint(i, j, 0.155); });
    return model;
}

/** Molecules, small ones and a large one, whose matrix M + beta h^2 H1 is indefinite nearly everywhere, or nowhere. */
Model makeRoughWaters(bool indefinite, double h, double beta) {
    Model model = makeWaterCluster(2);
    vector<HarmonicBond> chain;
    addChain(model, 20, 4, [&](int i, int j) { chain.push_back({i, j, 0.155, 250000}); });
    addBonds(model.system, chain);
    // Ripples on whose tops the negative curvature is 1.5 times what the inertia makes up for. They are short, and the
    // particles heavy, so that forces are small: near singular matrices the particles would get faster than light.
    const double k = (indefinite ? 1e8 : 1000), height = (indefinite ? 1.5 / (beta * h * h * k * k) : 0);
    for (int i = 0; i < model.system.getNumParticles(); i++)
        model.system.setParticleMass(i, (indefinite ? 1e6 : 1) * model.system.getParticleMass(i));
    addExternal(model.system, "m*height*(cos(k*x)+cos(k*y)+cos(k*z))", {{"height", height}, {"k", k}});
    for (int i : {0, 1, 3, 4})
        model.system.getForce(i).setForceGroup(stiffGroup);
    return model;
}

/** A step takes no memory beyond what its evaluations of the forces take, in small blocks and in large ones. */
CLAIM(testNoMemoryIsAllocated, Platform& platform) {
    if (!canCountAllocations || isDevice(platform)) // transfers to and from a device take some
        return;
    struct Row {
        vector<Setup> setups;
        double stepSize;
        int numSteps;
    };
    auto makeRough = [](bool indefinite) { return [=] { return makeRoughWaters(indefinite, 0.001, 0.25); }; };
    auto constrain = [](SpookIntegrator& integrator) {
        integrator.addPositionConstraint(3, Vec3(1, 0, 0));
        integrator.addHolonomicConstraint({1, 0, 2}, "angle(p1,p2,p3)-1.8");
        integrator.addVelocityConstraint({2}, {"x1", "0", "1"}, "sin(t)");
    };
    vector<Row> rows = {
            {massPenalties(makeWaterAndChain, 0.064, {3, 6}), 0.004, 10},
            {impulses(makeWaterInField), 0.002, 10},
            {impulses(makeWatersAndChain, nullptr, INFINITY), 0.001, 10},
            {zhangSkeels(makeRough(false), 300), 0.001, 3},
            {single<SpookIntegrator>("SpookIntegrator", makeConstrainedChain, constrain), 0.002, 10},
            {vibrated(
                     platform, [] { return makeVibratedDoublePendulum(1e5); }, 1e5, 0),
             0.005, 10},
    };
    // Whatever the signs of the eigenvalues.
    const vector<Setup> rough = zhangSkeels(makeRough(true), 300);
    for (size_t i = 0; i < zhangSkeelMethods.size(); i++)
        if (zhangSkeelMethods[i].is.forIndefinite)
            rows.push_back({{rough[i]}, 0.001, 3});
        else if (zhangSkeelMethods[i].method == ZhangSkeelIntegrator::StiffHessian)
            assertThrows([&] { Run(rough[i], 0.001, platform).integrator->step(1); }, {"not positive definite"});
    checkAll(rows, [&](const Row& row, Setup setup) {
        for (bool langevin : {false, true}) {
            if (langevin && !setup.makeLangevin)
                continue;
            if (langevin)
                setup.make = setup.makeLangevin;
            Run run(setup, row.stepSize, platform);
            auto* zhangSkeel = dynamic_cast<ZhangSkeelIntegrator*>(run.integrator.get());
            auto* vibrating = dynamic_cast<HMMIntegrator*>(run.integrator.get());
            const bool iterates = zhangSkeel && zhangSkeel->getMethod() == ZhangSkeelIntegrator::Newmark;
            for (int i = 0; i < (zhangSkeel ? 1 : 3); i++) // rough geometries bear a few only
                run.integrator->step(1);
            int numEvaluations = 0;
            auto steps = [&] {
                for (int i = 0; i < row.numSteps; i++) {
                    run.integrator->step(1);
                    numEvaluations += iterates    ? zhangSkeel->getNumNewtonIterations()
                                      : vibrating ? vibrating->computeNumMicroEvaluations() + 1 // other forces
                                                  : 1;
                }
            };
            // Positions are asked for as forces are.
            auto ask = [&](int type) {
                for (int i = 0; i < numEvaluations; i++) {
                    if (vibrating)
                        run.context.setParameter("theta", 0.1 * i);
                    run.context.getState(type);
                }
            };
            assertTakesNoMemory(
                    std::to_string(row.numSteps) + " steps, " + setup.name + (langevin ? ", Langevin" : ""), steps,
                    [&] { ask(State::Forces); }, [&] { ask(State::Positions); });
        }
    });
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
