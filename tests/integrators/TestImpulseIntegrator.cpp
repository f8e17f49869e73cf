#include "IntegratorTest.h"

namespace {

/** The stiff coordinates of a water, two bond lengths and the angle. */
VectorXd waterCoordinates(const VectorXd& x) {
    const Eigen::Vector3d a = x.segment<3>(3) - x.segment<3>(0), b = x.segment<3>(6) - x.segment<3>(0);
    return Eigen::Vector3d(a.norm(), b.norm(), std::acos(a.dot(b) / a.norm() / b.norm()));
}

/**
 * A step is kick, micro-steps of Verlet, kick, with the kicks of Lubich and Weiss: compared with the equations, written
 * down for one water with difference quotients and dense matrices. A(q) is found by a penalty on the distance.
 */
CLAIM(testStepIsTheMethod, Platform& platform) {
    const Model model = makeWaterInField();
    const double h = 0.004;
    const int numMicroSteps = 9;
    VectorXd mass(9);
    mass << oxygenMass, oxygenMass, oxygenMass, VectorXd::Constant(6, hydrogenMass);
    const Eigen::Vector3d k(bondConstant, bondConstant, angleConstant), rest(bondLength, bondLength, waterAngle);
    auto jacobian = [&](const VectorXd& x) { return differentiate(x, 2e-5, waterCoordinates); };
    auto slowForce = [](const VectorXd& at) {
        VectorXd F(9);
        for (int i = 0; i < 9; i += 3) {
            const double x = at[i], y = at[i + 1], z = at[i + 2];
            F.segment<3>(i) << -300 * y - 2000 * z * z, -300 * x, -1600 * std::cos(8 * z) - 4000 * x * z;
        }
        return F;
    };
    auto stiffForce = [&](const VectorXd& x) {
        return VectorXd(-jacobian(x).transpose() * k.cwiseProduct(waterCoordinates(x) - rest));
    };
    auto nearest = [&](const VectorXd& q) {
        VectorXd A = q;
        for (int iteration = 0; iteration < 60; iteration++) {
            const MatrixXd G = jacobian(A), weighted = mass.cwiseInverse().asDiagonal() * G.transpose();
            A = q - weighted * solveDense(G * weighted, waterCoordinates(A) - rest + G * (q - A));
        }
        return A;
    };
    auto kick = [&](ImpulseIntegrator::KickMethod method, const VectorXd& x) {
        if (method == ImpulseIntegrator::Mollified)
            return VectorXd((differentiate(x, 1e-4, nearest).transpose() * slowForce(nearest(x))).cwiseQuotient(mass));
        const VectorXd a = slowForce(x).cwiseQuotient(mass);
        if (method == ImpulseIntegrator::Plain)
            return a;
        const MatrixXd G = jacobian(x), weighted = mass.cwiseInverse().asDiagonal() * G.transpose();
        return VectorXd(a - weighted * solveDense(G * weighted, G * a));
    };
    for (const auto& [name, method, is] : impulseKicks) {
        ImpulseIntegrator integrator(h);
        integrator.setKick(method);
        integrator.setNumMicroSteps(numMicroSteps);
        ModelContext context(model, integrator, platform);
        context.setVelocities(makeVelocities(model.system, 300, 1));
        VectorXd x = toVector(getPositions(context)), v = toVector(getVelocities(context));
        integrator.step(2);
        for (int step = 0; step < 2; step++) {
            v += 0.5 * h * kick(method, x);
            for (int micro = 0; micro < numMicroSteps; micro++) {
                const double d = h / numMicroSteps;
                v += 0.5 * d * stiffForce(x).cwiseQuotient(mass);
                x += d * v;
                v += 0.5 * d * stiffForce(x).cwiseQuotient(mass);
            }
            v += 0.5 * h * kick(method, x);
        }
        // Difference quotients of the coordinates are accurate to about 1e-10. In single precision each micro-step rounds
        // lengths of 0.1 nm by up to 4e-9 nm, which the stiffest spring makes 2e-3 kJ/mol/nm, and 1e-6 nm/ps.
        ASSERT((x - toVector(getPositions(context))).norm() < byRounding(platform, 1e-8, 1e-8, 1e-8, 2e-7));
        ASSERT((v - toVector(getVelocities(context))).norm() < byRounding(platform, 1e-5, 1e-5, 1e-5, 1e-4));
        ASSERT_EQUAL_TOL(2 * h, context.getTime(), 1e-12);
        ASSERT_EQUAL(2, context.getStepCount());
    }
}

/** A molecule may begin exactly straight, and at rest. */
CLAIM(testStraightMolecules, Platform& platform) {
    if (isDevice(platform))
        return; // their forces near 180 degrees come from approximations that are not smooth
    const Model model = makeStraightMoleculeInField();
    for (const auto& [name, kick, is] : impulseKicks) {
        ImpulseIntegrator integrator(0.004);
        integrator.setKick(kick);
        integrator.setProjectedPeriod(INFINITY);
        ModelContext context(model, integrator, platform);
        integrator.step(1);
        context.setVelocities(makeVelocities(model.system, 300, 11));
        integrator.step(100);
    }
}

/** Only the plain method converges to the motion itself: the others leave out what stretches the bonds. */
CLAIM(testOnlyThePlainKickStretchesBonds, Platform& platform) {
    // Two atoms pulled apart by a constant force, at rest: the spring's new length is known.
    System system = makeParticles({10, 10});
    addBonds(system, {{0, 1, 0.1, 1e5}});
    auto* pull = new CustomBondForce("-300*r");
    pull->addBond(0, 1);
    system.addForce(pull);
    for (const auto& [name, kick, is] : impulseKicks) {
        ImpulseIntegrator integrator(0.001);
        integrator.setKick(kick);
        Context context(system, integrator, platform);
        integrator.setProjectedPeriod(INFINITY);
        const double stretch = (kick == ImpulseIntegrator::Plain ? 300 / 1e5 : 0);
        context.setPositions({Vec3(), Vec3(0.1 + stretch, 0, 0)});
        context.setVelocities({Vec3(), Vec3()});
        for (int i = 0; i < 100; i++) {
            integrator.step(1);
            const vector<Vec3> x = getPositions(context);
            // The plain kicks excite a vibration of the size of their discreteness, (h omega)^2 / 8 of the stretch. In
            // single precision each step rounds the length by up to 4e-9 nm.
            ASSERT(std::abs(x[1][0] - x[0][0] - 0.1 - stretch) <
                   (kick == ImpulseIntegrator::Plain ? 1e-4 : byRounding(platform, 1e-9, 1e-9, 1e-9, 1e-7)));
        }
    }
}

/**
 * A coordinate is projected if its own period, with the others at equilibrium, is shorter than the period set: that of
 * a bond is 2 pi (mu/k)^1/2, and of an angle likewise with its inertia.
 */
CLAIM(testProjectedPeriodChoosesCoordinates, Platform& platform) {
    const Model model = makeWaterInField();
    const double bendInertia = 1 / (2 / (hydrogenMass * bondLength * bondLength) +
                                    2 * (1 - std::cos(waterAngle)) / (oxygenMass * bondLength * bondLength));
    const double bondPeriod = 2 * M_PI / std::sqrt(bondConstant * (1 / oxygenMass + 1 / hydrogenMass));
    const double anglePeriod = 2 * M_PI / std::sqrt(angleConstant / bendInertia);
    ASSERT(bondPeriod < anglePeriod && anglePeriod < 0.02); // so that the default chooses all three
    // The change of each coordinate's rate by a first kick, which is zero if the coordinate is projected. In single
    // precision lengths are wrong by up to 4e-9 nm, on which the stiff forces act.
    const double stretchRounding = byRounding(platform, 1e-4, 1e-4, 1e-4, 0.1),
                 bendRounding = byRounding(platform, 1e-3, 1e-3, 1e-3, 1.0);
    auto isProjected = [&](double period, ImpulseIntegrator::KickMethod kick) {
        const double h = 1e-7;
        ImpulseIntegrator integrator(h);
        integrator.setKick(kick);
        integrator.setProjectedPeriod(period);
        const VectorXd rest = toVector(waterGeometry(Vec3(0.1, -0.05, 0.07), 0.4));
        Context context(model.system, integrator, platform);
        context.setPositions(toVec3s(rest));
        context.setVelocities(vector<Vec3>(3));
        integrator.step(1);
        const MatrixXd G = differentiate(rest, 2e-5, waterCoordinates);
        const VectorXd accelerations = G * toVector(getVelocities(context)) / h;
        return vector<bool>{std::abs(accelerations[0]) < stretchRounding, std::abs(accelerations[1]) < stretchRounding,
                            std::abs(accelerations[2]) < bendRounding};
    };
    for (auto kick : {ImpulseIntegrator::Projected, ImpulseIntegrator::Mollified}) {
        ASSERT((isProjected(INFINITY, kick) == vector<bool>{true, true, true}));
        ASSERT((isProjected(0.02, kick) == vector<bool>{true, true, true}));
        ASSERT((isProjected(1.001 * anglePeriod, kick) == vector<bool>{true, true, true}));
        ASSERT((isProjected(0.999 * anglePeriod, kick) == vector<bool>{true, true, false}));
        ASSERT((isProjected(1.001 * bondPeriod, kick) == vector<bool>{true, true, false}));
        ASSERT((isProjected(0.999 * bondPeriod, kick) == vector<bool>{false, false, false}));
    }
}

/**
 * A weight on a stiff spring, swinging: the action of the spring's vibration, energy over frequency, is an adiabatic
 * invariant. Mollified and projected kicks keep it at any h omega. The plain ones lose it at h omega = 2 k pi, where
 * each kick along the spring meets the same phase of the vibration.
 */
CLAIM(testActionsAreKept, Platform& platform) {
    const double mass = 2, length = 0.5, k = 2e9, omega = std::sqrt(k / mass);
    // The amplitude is 5e-5 nm, and in single precision each micro-step rounds the length by up to 3e-8 nm: what that
    // adds up to would hide the changes.
    const int numSteps = byRounding(platform, 20000, 20000, 20000, 2000);
    System system = makeParticles({0, mass});
    addBonds(system, {{0, 1, length, k}});
    addExternal(system, "600*y");
    // h omega / pi, away from resonance and at it.
    for (double phase : {0.37, 1.43, 2.0, 4.0}) {
        const double h = phase * M_PI / omega;
        for (const auto& [name, kick, is] : impulseKicks) {
            ImpulseIntegrator integrator(h);
            integrator.setKick(kick);
            integrator.setProjectedPeriod(INFINITY);
            integrator.setNumMicroSteps(std::ceil(h * omega / 0.05));
            Context context(system, integrator, platform);
            context.setPositions({Vec3(), Vec3(length * std::sin(1.0), -length * std::cos(1.0), 0)});
            context.setVelocities({Vec3(), Vec3(1, -1.5, 0)});
            auto action = [&] {
                const Vec3 x = getPositions(context)[1], v = getVelocities(context)[1];
                const double r = norm(x), rate = x.dot(v) / r;
                return 0.5 * (mass * rate * rate + k * (r - length) * (r - length)) / omega;
            };
            const double start = action();
            double largest = 0;
            for (int i = 0; i < numSteps; i++) {
                integrator.step(1);
                largest = std::max(largest, std::abs(action() / start - 1));
            }
            std::cout << name << ", h omega = " << phase << " pi: the action changes by " << largest
                      << " of itself at most" << std::endl;
            const bool resonant = (phase == std::round(phase));
            ASSERT(kick == ImpulseIntegrator::Plain ? largest > 1 || !resonant : largest < 0.1);
        }
    }
}

/** By default omega d is below 0.35, for a bound of omega that is exact within 3 % for water. */
CLAIM(testNumberOfMicroSteps, Platform& platform) {
    const Model model = makeWaterCluster(2);
    const double omega = std::sqrt(bondConstant * (1 / hydrogenMass + (1 - std::cos(waterAngle)) / oxygenMass));
    for (double h : {0.0001, 0.001, 0.004, 0.01}) {
        ImpulseIntegrator integrator(h);
        ModelContext context(model, integrator, platform);
        const int number = integrator.computeNumMicroSteps();
        ASSERT(h * omega <= 0.35 * number);
        ASSERT(number <= std::ceil(1.03 * h * omega / 0.35));
        integrator.setNumMicroSteps(7);
        if (h < 0.01) {
            ASSERT_EQUAL(7, integrator.computeNumMicroSteps());
            continue;
        }
        // h omega = 7.04: three micro-steps would be unstable.
        integrator.setNumMicroSteps(3);
        assertThrows([&] { integrator.step(1); },
                     {"ImpulseIntegrator", "3 micro-steps", "0.01 ps", "setNumMicroSteps"});
        integrator.setUseDefaultNumMicroSteps(true);
        ASSERT_EQUAL(number, integrator.computeNumMicroSteps());
        integrator.step(1);
    }
    ImpulseLangevinIntegrator langevin(300, 1, 0.002);
    ModelContext context(model, langevin, platform);
    langevin.setNumMicroSteps(7);
    ASSERT_EQUAL(8, langevin.computeNumMicroSteps());
}

/** A number of micro-steps that nobody can have meant is refused; one that is set is taken. */
CLAIM(testAbsurdNumbersOfMicroSteps, Platform& platform) {
    Model model = makeWaterCluster(1);
    ImpulseIntegrator integrator(4);
    ImpulseLangevinIntegrator langevin(300, 1, 4);
    for (ImpulseIntegrator* tested : {&integrator, (ImpulseIntegrator*) &langevin}) {
        ModelContext context(model, *tested, platform);
        for (double h : {4.0, 1e10, 999999.0}) {
            tested->setStepSize(h);
            const vector<std::string> words = {"Impulse", "micro-steps", "femtoseconds", "setNumMicroSteps()"};
            assertThrows([&] { tested->computeNumMicroSteps(); }, words);
            assertThrows([&] { tested->step(1); }, words);
        }
        ASSERT_EQUAL(0, context.getStepCount());
        tested->setStepSize(4);
        assertThrows([&] { tested->step(1); }, {"0.004 ps"});
        tested->setNumMicroSteps(20000);
        ASSERT_EQUAL(20000, tested->computeNumMicroSteps());
        tested->step(1);
        tested->setUseDefaultNumMicroSteps(true);
        tested->setStepSize(0.2); // some 500 micro-steps
        tested->step(1);
    }
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    bonds.setBondParameters(0, 0, 1, bondLength, 1e300);
    ImpulseIntegrator stiff(0.001);
    ModelContext context(model, stiff, platform);
    assertThrows([&] { stiff.computeNumMicroSteps(); }, {"ImpulseIntegrator", "micro-steps"});
    stiff.setStepSize(1e200);
    assertThrows([&] { stiff.step(1); }, {"ImpulseIntegrator", "cannot be divided"});
}

/** Stiffer bonds set in mid-run get more micro-steps; a System without stiff terms needs one, and is Verlet's. */
CLAIM(testNumberOfMicroStepsFollowsTheSystem, Platform& platform) {
    Model model = makeWaterCluster(1);
    ImpulseIntegrator integrator(0.004);
    ModelContext context(model, integrator, platform);
    const int before = integrator.computeNumMicroSteps();
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    for (int i : {0, 1})
        bonds.setBondParameters(i, 0, 1 + i, bondLength, 4 * bondConstant);
    bonds.updateParametersInContext(context);
    const int after = integrator.computeNumMicroSteps();
    ASSERT(after >= 2 * before - 1 && after <= 2 * before);
    for (int i : {0, 1})
        bonds.setBondParameters(i, 0, 1 + i, bondLength, 16 * bondConstant);
    context.reinitialize(true);
    ASSERT(integrator.computeNumMicroSteps() >= 2 * after - 1);
    Model free;
    free.system.addParticle(1);
    ImpulseIntegrator other(0.004);
    Context otherContext(free.system, other, platform);
    otherContext.setPositions({Vec3()});
    otherContext.setVelocities({Vec3(1, 2, 3)});
    ASSERT_EQUAL(1, other.computeNumMicroSteps());
    other.step(10);
    ASSERT_EQUAL_VEC(Vec3(0.04, 0.08, 0.12), getPositions(otherContext)[0],
                     byRounding(platform, 1e-12, 1e-12, 1e-12, 1e-7));
}

/** The number of micro-steps is that of the positions a run goes on from, also of those that somebody has set. */
CLAIM(testNumberOfMicroStepsFollowsThePositions, Platform& platform) {
    const Model model = makeWaterCluster(1);
    vector<Vec3> narrow = model.positions; // with short legs, an angle vibrates faster
    for (int i : {1, 2})
        narrow[i] = narrow[0] + (narrow[i] - narrow[0]) * 0.4;
    ImpulseIntegrator integrator(0.002), other(0.002);
    Context context(model.system, integrator, platform), fresh(model.system, other, platform);
    context.setPositions(model.positions);
    integrator.step(2);
    const int before = integrator.computeNumMicroSteps();
    for (Context* each : {&context, &fresh}) {
        each->setPositions(narrow);
        each->setVelocities(vector<Vec3>(3));
    }
    integrator.step(2);
    other.step(2);
    ASSERT(integrator.computeNumMicroSteps() > before);
    ASSERT_EQUAL(other.computeNumMicroSteps(), integrator.computeNumMicroSteps());
    ASSERT(largestDifference(getPositions(context), getPositions(fresh)) <= copyRounding(platform));
}

CLAIM(testErrors, Platform& platform) {
    ImpulseIntegrator integrator(0.001);
    assertThrows([&] { integrator.setKick(static_cast<ImpulseIntegrator::KickMethod>(3)); },
                 {"ImpulseIntegrator", "3", "Projected"});
    assertThrows([&] { integrator.setNumMicroSteps(-1); }, {"ImpulseIntegrator", "-1"});
    assertThrows([&] { integrator.computeNumMicroSteps(); }, {"not bound"});
    ASSERT_EQUAL(ImpulseIntegrator::Projected, integrator.getKick());
    assertThrows([&] { integrator.setProjectedPeriod(-0.01); }, {"ImpulseIntegrator", "-0.01"});
    assertThrows([&] { integrator.setProjectedPeriod(std::nan("")); }, {"ImpulseIntegrator", "nan"});
    ASSERT_EQUAL(0, integrator.getNumMicroSteps());
    ASSERT(integrator.getUseDefaultNumMicroSteps());
    assertThrows([&] { integrator.setUseDefaultNumMicroSteps(false); }, {"setNumMicroSteps()"});
    integrator.setNumMicroSteps(7);
    integrator.setUseDefaultNumMicroSteps(false);
    ASSERT_EQUAL(7, integrator.getNumMicroSteps());
    integrator.setUseDefaultNumMicroSteps(true);
    ASSERT_EQUAL(0.02, integrator.getProjectedPeriod());
    // Six angles at one atom that no geometry has, as in many a force field.
    Model methane;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    const Vec3 corners[] = {Vec3(1, 1, 1), Vec3(1, -1, -1), Vec3(-1, 1, -1), Vec3(-1, -1, 1)};
    methane.system.addParticle(12);
    methane.positions.push_back(Vec3());
    for (int i = 0; i < 4; i++) {
        methane.system.addParticle(1);
        methane.positions.push_back(corners[i] * 0.063);
        bonds->addBond(0, i + 1, 0.109, 284512);
        for (int j = 0; j < i; j++)
            angles->addAngle(i + 1, 0, j + 1, 1.88, 300);
    }
    methane.system.addForce(bonds);
    methane.system.addForce(angles);
    ModelContext context(methane, integrator, platform);
    integrator.step(10);
    integrator.setKick(ImpulseIntegrator::Mollified);
    integrator.setProjectedPeriod(INFINITY);
    assertThrows([&] { integrator.step(1); },
                 {"ImpulseIntegrator", "particles 0, 1, 2, 3, 4", "equilibrium values", "Projected"});
    ASSERT_EQUAL(10, context.getStepCount());
    // The bonds alone contradict nothing.
    integrator.setProjectedPeriod(0.02);
    integrator.step(1);
}

/** A projected kick that projects nothing is a plain one, bit for bit. */
CLAIM(testNothingProjectedIsPlain, Platform& platform) {
    const Model model = makeWaterCluster(2);
    vector<vector<Vec3>> ends;
    for (auto kick : {ImpulseIntegrator::Plain, ImpulseIntegrator::Projected}) {
        ImpulseIntegrator integrator(0.001);
        integrator.setKick(kick);
        integrator.setProjectedPeriod(0);
        ModelContext context(model, integrator, platform, deterministic(platform));
        context.setVelocitiesToTemperature(300, 1);
        integrator.step(20);
        ends.push_back(getPositions(context));
    }
    ASSERT(largestDifference(ends[0], model.positions) > 0.001);
    ASSERT(ends[0] == ends[1]);
}

/** A force on a virtual site is one on the particles that it is between, also where the mollified kick moves these. */
CLAIM(testForcesOnVirtualSites, Platform& platform) {
    for (const auto& [name, kick, is] : impulseKicks) {
        vector<vector<Vec3>> ends;
        for (bool onSite : {true, false}) {
            Model model;
            addParticles(model.system, {2, 16, 0});
            model.system.setVirtualSite(2, new TwoParticleAverageSite(0, 1, 0.7, 0.3));
            model.positions = {Vec3(), Vec3(0, 0, 0.11), Vec3()};
            addBonds(model.system, {{0, 1, 0.1, 5e5}});
            auto* field = (onSite ? new CustomCompoundBondForce(1, "40*sin(30*z1)")
                                  : new CustomCompoundBondForce(2, "40*sin(30*(0.7*z1+0.3*z2))"));
            field->addBond(onSite ? vector<int>{2} : vector<int>{0, 1});
            model.system.addForce(field);
            ImpulseIntegrator integrator(0.002);
            integrator.setKick(kick);
            ModelContext context(model, integrator, platform);
            context.computeVirtualSites();
            integrator.step(20);
            ends.push_back(getPositions(context));
        }
        ASSERT(largestDifference(ends[0], ends[1]) < 1e-6);
        ASSERT(std::abs(0.7 * ends[0][0][2] + 0.3 * ends[0][1][2] - 0.033) > 1e-3);
    }
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
