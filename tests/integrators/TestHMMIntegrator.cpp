/**
 * HMMIntegrator: the method, on each platform.
 */

#include "IntegratorTest.h"
#include "VibratedSystems.h"

namespace {

const HMMIntegrator::Filter filters[] = {HMMIntegrator::Simple, HMMIntegrator::HalfBump, HMMIntegrator::Bump};

struct Filtered : HMMIntegrator {
    Filtered(double stepSize, double omega, Filter filter, int numMicroStepsPerPeriod)
            : HMMIntegrator(stepSize, omega) {
        setFilter(filter);
        setNumMicroStepsPerPeriod(numMicroStepsPerPeriod);
    }
};

/** The averaged angle at times of a step size, by the method of Runge and Kutta (equations 2.5 and 2.6). */
vector<double> averagedAngles(double start, double H, int numSteps) {
    using State = Eigen::Vector2d; // q and p
    auto rate = [](const State& y) {
        const double F = gravity / length - speed * speed / (2 * length * length) * std::cos(y[0]);
        return State(y[1], F * std::sin(y[0]));
    };
    const int parts = 200;
    const double h = H / parts;
    State y(start, 0);
    vector<double> angles;
    for (int i = 0; i < numSteps; i++) {
        for (int j = 0; j < parts; j++) {
            const State k1 = rate(y), k2 = rate(y + h / 2 * k1), k3 = rate(y + h / 2 * k2), k4 = rate(y + h * k3);
            y += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4);
        }
        angles.push_back(y[0]);
    }
    return angles;
}

/** The largest error of the angle in 1 s, with as many micro-steps in a period as macro-steps in that time. */
double pendulumError(Platform& platform, int numSteps, double omega, HMMIntegrator::Filter filter) {
    const System system = makePendulum(omega);
    Filtered integrator(1.0 / numSteps, omega, filter, numSteps);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(0.5, 0, 0)});
    double largest = 0;
    for (double expected : averagedAngles(0.5, 1.0 / numSteps, numSteps)) {
        integrator.step(1);
        largest = std::max(largest, std::abs(getPositions(context)[0][0] - expected));
    }
    return largest;
}

/**
 * The paper's table 2.3, simple filtering, and the HalfBump of table 2.2 where it is not too long: errors of second
 * order in H.
 */
CLAIM(testErrorsAreThePapers, Platform& platform) {
    struct {
        double omega;
        HMMIntegrator::Filter filter;
        vector<double> errors; // H = 1/10, 1/20, 1/40, 1/80
    } table[] = {{1e4, HMMIntegrator::Simple, {4.05e-1, 1.05e-1, 2.55e-2, 5.20e-3}},
                 {1e6, HMMIntegrator::Simple, {4.07e-1, 1.07e-1, 2.70e-2, 6.70e-3}},
                 {1e8, HMMIntegrator::Simple, {4.07e-1, 1.07e-1, 2.70e-2, 6.71e-3}},
                 {1e4, HMMIntegrator::HalfBump, {4.10e-1, 1.10e-1}},
                 {1e6, HMMIntegrator::HalfBump, {4.08e-1, 1.07e-1}},
                 {1e8, HMMIntegrator::HalfBump, {4.05e-1, 1.05e-1}}};
    for (const auto& row : table) {
        if (row.omega > byRounding(platform, 1e8, 1e8, 1e4))
            continue; // the mean of forces that are larger by the frequency is lost in their rounding
        for (size_t i = 0; i < row.errors.size(); i++) {
            const double error = pendulumError(platform, 10 << i, row.omega, row.filter);
            std::cout << "omega " << row.omega << ", H 1/" << (10 << i) << ": error " << error << ", paper "
                      << row.errors[i] << std::endl;
            ASSERT_EQUAL_TOL(1, error / row.errors[i], 0.015);
        }
    }
}

/** Forces are even, so that both halves of the window are alike. */
CLAIM(testFiltersAgree, Platform& platform) {
    if (hasSingleForces(platform))
        return; // see above
    auto error = [&](auto filter) { return pendulumError(platform, 20, 1e7, filter); };
    ASSERT_EQUAL_TOL(error(HMMIntegrator::HalfBump), error(HMMIntegrator::Bump), 1e-5);
}

/** Both angles of the double pendulum from the upward vertical at the end. */
Eigen::Vector2d runDoublePendulum(Platform& platform, double omega, int numSteps, HMMIntegrator::MacroMethod method) {
    const Model pendulum = makeVibratedDoublePendulum(omega);
    const int numMicroSteps = 2 * std::lround(0.2 * numSteps); // T_macro / H with T_macro = 0.4
    Filtered integrator(1.0 / numSteps, omega, HMMIntegrator::Simple, numMicroSteps);
    integrator.setMacroMethod(method);
    integrator.setConstraintTolerance(1e-10);
    ModelContext context(pendulum, integrator, platform);
    integrator.step(numSteps);
    const vector<Vec3> x = getPositions(context);
    ASSERT(largestViolation(context) < 1e-9);
    if (method == HMMIntegrator::RATTLE) {
        const vector<Vec3> v = getVelocities(context);
        ASSERT_EQUAL_TOL(0, (x[2] - x[1]).dot(v[2] - v[1]), 1e-6);
    }
    const Vec3 rod1 = x[1] - x[0], rod2 = x[2] - x[1];
    return {std::atan2(rod1[0], rod1[1]), std::atan2(rod2[0], rod2[1])};
}

/** With constraints the order is two as well, SHAKE and RATTLE agree, and the frequency does not matter. */
CLAIM(testVibratedDoublePendulum, Platform& platform) {
    if (hasSingleForces(platform))
        return; // see testErrorsAreThePapers()
    const double omega = 1e6;
    const Eigen::Vector2d fine = runDoublePendulum(platform, omega, 1280, HMMIntegrator::SHAKE);
    vector<double> steps, errors;
    for (int numSteps : {160, 320}) {
        const Eigen::Vector2d shake = runDoublePendulum(platform, omega, numSteps, HMMIntegrator::SHAKE),
                              rattle = runDoublePendulum(platform, omega, numSteps, HMMIntegrator::RATTLE);
        ASSERT((shake - rattle).norm() < 1e-6);
        steps.push_back(1.0 / numSteps);
        errors.push_back((shake - fine).norm());
    }
    ASSERT_EQUAL_TOL(2, logSlope(steps, errors), 0.15);
    auto atFrequency = [&](double each) { return runDoublePendulum(platform, each, 160, HMMIntegrator::RATTLE); };
    ASSERT((atFrequency(1e8) - atFrequency(omega)).norm() < 1e-2);
}

/** Small micro-steps, where the way of a rod is nothing but rounding once in a while, are no reason to give up. */
CLAIM(testManyMicroSteps, Platform& platform) {
    const Model pendulum = makeVibratedDoublePendulum(1e4);
    Filtered integrator(1.0 / 1280, 1e4, HMMIntegrator::Simple, 1024);
    integrator.setConstraintTolerance(1e-10);
    ModelContext context(pendulum, integrator, platform);
    integrator.step(120);
    ASSERT(largestViolation(context) < 1e-9);
}

/** A rigid molecule that is shaken as one moves freely, however little its parts move against each other. */
CLAIM(testShakenAsOne, Platform& platform) {
    Model model = makeWaterCluster(1, true);
    model.system.removeForce(2);
    addExternal(model.system, "m*a*cos(theta)*y", {{"theta", 0}, {"a", 4e5}});
    for (auto filter : filters)
        for (int numMicroSteps : {20, 40, 320}) {
            Filtered integrator(0.002, 1e5, filter, numMicroSteps);
            ModelContext context(model, integrator, platform);
            integrator.step(2);
            // The mean of the force is 0.
            ASSERT(largestDifference(getPositions(context), model.positions) < 1e-6);
        }
}

/** After a step the Context has its own positions and phase; forces that are not vibrated act as in Verlet's method. */
CLAIM(testContextIsLeftAsItWas, Platform& platform) {
    System system = makePendulum(1e5);
    addExternal(system, "30*z^2").setForceGroup(3);
    HMMIntegrator integrator(0.01, 1e5);
    integrator.setFilter(HMMIntegrator::Simple);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(0.5, 0, 0.3)});
    integrator.step(100);
    ASSERT_EQUAL(0.3, context.getParameter("theta"));
    // z'' = -60 z by velocity Verlet
    double z = 0.3, w = 0;
    for (int i = 0; i < 100; i++) {
        w -= 0.005 * 60 * z;
        z += 0.01 * w;
        w -= 0.005 * 60 * z;
    }
    const double tolerance = byRounding(platform, 1e-12, 1e-9, 1e-5);
    ASSERT_EQUAL_TOL(z, getPositions(context)[0][2], tolerance);
    ASSERT_EQUAL_TOL(w, getVelocities(context)[0][2], tolerance);
}

/** Nothing between steps is overlooked: parameters, settings, and the phase itself, which does not count. */
CLAIM(testChangesTakeEffect, Platform& platform) {
    System system = makePendulum(1e4);
    HMMIntegrator integrator(0.01, 1e4);
    integrator.setFilter(HMMIntegrator::Simple);
    integrator.setNumMicroStepsPerPeriod(10);
    Context context(system, integrator, platform);
    context.setPositions({Vec3(0.5, 0, 0)});
    const vector<std::function<void()>> changes = {
            [&] {
                dynamic_cast<CustomExternalForce&>(system.getForce(0)).setGlobalParameterDefaultValue(0, 20);
                context.setParameter("g", 20);
            },
            [&] { integrator.setAngularFrequency(2e4); },
            [&] { integrator.setFilter(HMMIntegrator::HalfBump); },
            [&] { integrator.setNumMicroStepsPerPeriod(6); },
            [&] { integrator.setStepSize(0.005); },
            [&] { context.setPositions({Vec3(0.7, 0, 0)}); },
    };
    for (const auto& change : changes)
        assertTakesEffect(context, copyRounding(platform), [&] {
            context.setParameter("theta", 1);
            change();
        });
}

/** What cannot be is refused, with an error that says what and what to do. */
CLAIM(testErrors, Platform& platform) {
    assertThrows([] { HMMIntegrator(0.01, 0); }, {"HMMIntegrator", "frequency", "0 radian/ps"});
    HMMIntegrator integrator(0.01, 1e4);
    assertThrows([&] { integrator.setNumMicroStepsPerPeriod(7); }, {"HMMIntegrator", "micro-steps", "even", "7"});
    assertThrows([&] { integrator.setNumPeriods(0); }, {"HMMIntegrator", "periods", "0"});
    assertThrows([&] { integrator.setFilter(HMMIntegrator::Filter(5)); }, {"no filter number 5"});
    assertThrows([&] { integrator.setMacroMethod(HMMIntegrator::MacroMethod(5)); }, {"no macro method number 5"});
    ASSERT_EQUAL(2 * 20 * 40 - 1, integrator.computeNumMicroEvaluations());
    const System system = makePendulum(1e4);
    integrator.setPhaseParameter("phi");
    assertThrows([&] { Context context(system, integrator, platform); },
                 {"HMMIntegrator", "'phi'", "CustomExternalForce", "setPhaseParameter"});
    integrator.setPhaseParameter("theta");
    integrator.setVibratedForceGroups(1 << 4);
    assertThrows([&] { Context context(system, integrator, platform); },
                 {"HMMIntegrator", "'theta'", "not vibrated", "setVibratedForceGroups"});
    integrator.setUseDefaultVibratedForceGroups(true);
    assertThrows([&] { integrator.setUseDefaultVibratedForceGroups(false); }, {"setVibratedForceGroups()"});
}

/** A vibrated force that does not fit the method, or the filter, is refused, before anything has moved. */
CLAIM(testForcesThatDoNotFit, Platform& platform) {
    struct Row {
        std::string name; // the energy of each particle
        bool withBump;    // whether it is refused with this filter too
        vector<std::string> words;
    };
    const vector<std::string> period = {"HMMIntegrator", "period of 2 pi", "'theta'",
                                        "particle 0",    "sin(theta)",     "setAngularFrequency"};
    const vector<Row> rows = {
            {"100*theta^2*x", true, period},
            {"100*cos(theta/2)*x", true, period},
            {"100*cos(6.28*theta)*x", true, period},
            {"sqrt(x)*cos(theta)", true, {"HMMIntegrator", "particle 1", "not finite"}},
            {"1000*sin(theta)*max(x,0)", false, {"HMMIntegrator", "even", "particle 0", "Bump"}}, // odd in theta
            {"x*1e6*cos(theta)^2", false, {}},
            {"x*(1e6*cos(theta)+cos(2*theta))", false, {}},
    };
    const vector<Vec3> positions = {Vec3(0.1, 0, 0), Vec3(-1, 0, 0)};
    checkEach(rows, [&](const Row& row) {
        System system = makeParticles({1, 1});
        addExternal(system, row.name, {{"theta", 0}});
        // A much larger slow force on one of the particles hides nothing.
        addExternal(system, "1e6*x", {}, {1}).setForceGroup(1);
        for (auto filter : filters) {
            HMMIntegrator integrator(0.01, 1e4);
            integrator.setFilter(filter);
            Context context(system, integrator, platform);
            context.setPositions(positions);
            if (!row.words.empty() && (filter != HMMIntegrator::Bump || row.withBump)) {
                assertThrows([&] { integrator.step(1); }, row.words);
                ASSERT(largestDifference(getPositions(context), positions) <= storeRounding(platform));
                ASSERT_EQUAL(0, context.getParameter("theta"));
                integrator.setFilter(HMMIntegrator::Bump);
            }
            if (!row.withBump)
                integrator.step(1);
        }
    });
    System system = makeParticles({1, 1}); // a force that vanishes where it is asked about first
    addExternal(system, "100*sin(theta-1)*x", {{"theta", 0}});
    HMMIntegrator integrator(0.01, 1e4);
    Context context(system, integrator, platform);
    context.setPositions(positions);
    integrator.step(1);
}

/** Of a frequency that is too low for the macro-step the error says so, and does not ask for smaller steps. */
CLAIM(testFrequenciesThatAreTooLow, Platform& platform) {
    Model model = makeWaterCluster(1);
    addExternal(model.system, "50*cos(theta)*x", {{"theta", 0}}, {0});
    struct {
        double frequency;
        vector<std::string> words;
    } const cases[] = {
            // The micro-steps are longer than the macro-step, or shorter and the bonds blow up all the same.
            {1, {"HMMIntegrator", "frequency 1 radian/ps", "0.157", "macro-step of 0.01 ps", "VerletIntegrator"}},
            {16, {"HMMIntegrator", "frequency 16 radian/ps", "7.85", "macro-step of 0.01 ps", "setNumPeriods"}},
    };
    for (const auto& [frequency, words] : cases) {
        HMMIntegrator integrator(0.01, frequency);
        integrator.setVibratedForceGroups(1);
        ModelContext context(model, integrator, platform, deterministic(platform));
        context.setVelocities(makeVelocities(model.system, 300, 1));
        assertThrows([&] { integrator.step(100); }, words);
    }
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
