/**
 * The steps that a device takes are those of the host: the kernels for devices against those for any platform, on the
 * same device; and what they ask of it, counted in the calls that OpenMM makes of OpenCL.
 */

#include "IntegratorTest.h"
#include "SimTKOpenMMRealType.h"
#include <dlfcn.h>

namespace {

/** What has been asked of the device: launches by the names of kernels, and transfers. */
struct Calls {
    std::map<std::string, int> launches;
    int reads = 0, writes = 0;
} calls;

/** Pass a call of OpenMM on to OpenCL. */
template <class... Arguments> int callOpenCL(const char* name, Arguments... arguments) {
    static void* library = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name))(arguments...);
}

} // namespace

// OpenMM's calls of OpenCL come here first, since the linker finds a program's own functions first.

#pragma GCC visibility push(default)
extern "C" {
int clEnqueueNDRangeKernel(void* queue, void* kernel, unsigned dimensions, const size_t* offset, const size_t* global,
                           const size_t* local, unsigned numEvents, void* events, void* event) {
    const unsigned functionName = 0x1190; // CL_KERNEL_FUNCTION_NAME
    char name[200] = "";
    callOpenCL("clGetKernelInfo", kernel, functionName, sizeof(name), (void*) name, (size_t*) nullptr);
    calls.launches[name]++;
    return callOpenCL("clEnqueueNDRangeKernel", queue, kernel, dimensions, offset, global, local, numEvents, events,
                      event);
}

int clEnqueueReadBuffer(void* queue, void* buffer, unsigned blocking, size_t offset, size_t size, void* to,
                        unsigned numEvents, void* events, void* event) {
    calls.reads++;
    return callOpenCL("clEnqueueReadBuffer", queue, buffer, blocking, offset, size, to, numEvents, events, event);
}

int clEnqueueWriteBuffer(void* queue, void* buffer, unsigned blocking, size_t offset, size_t size, const void* from,
                         unsigned numEvents, void* events, void* event) {
    calls.writes++;
    return callOpenCL("clEnqueueWriteBuffer", queue, buffer, blocking, offset, size, from, numEvents, events, event);
}
}
#pragma GCC visibility pop

namespace {

struct Method {
    std::string name;
    Make make;
    /// How many kernels of ours a step launches for one kind of molecules.
    int numLaunches;
};

/** Molecules are as large as they are. */
void leaveWhole(MassPenaltyIntegrator& integrator) {
    integrator.setMaxBlockSize(0);
}

/** Langevin forms are without friction, so that both ways are the same whatever their random numbers are. */
vector<Method> makeMethods() {
    auto addInertia = [](MassPenaltyIntegrator& integrator) { integrator.setBondInertia(3); };
    auto doNotCorrect = [](MassPenaltyLangevinIntegrator& integrator) {
        leaveWhole(integrator);
        integrator.setMetricCorrection(false);
    };
    return {
            {"MassPenaltyIntegrator", makerWith<MassPenaltyIntegrator>(leaveWhole, 0.004), 2},
            {"MassPenaltyLangevinIntegrator", makerWith<MassPenaltyLangevinIntegrator>(leaveWhole, 300, 0, 0.004), 1},
            {"MassPenaltyLangevinIntegrator, no metric correction",
             makerWith<MassPenaltyLangevinIntegrator>(doNotCorrect, 300, 0, 0.004), 1},
            {"MassPenaltyIntegrator, bonds with an inertia", makerWith<MassPenaltyIntegrator>(addInertia, 0.004), 2},
            {"MassPenaltyLangevinIntegrator, bonds with an inertia",
             makerWith<MassPenaltyLangevinIntegrator>(addInertia, 300, 0, 0.004), 1},
    };
}

/** Give the platform its own kernels again, after useGenericKernels(). */
void useDeviceKernels() {
    void* library = dlopen(OPENMM_STIFF_PLUGIN_DIR "/libOpenMMStiffOpenCL.so", RTLD_NOW | RTLD_NOLOAD);
    reinterpret_cast<void (*)()>(dlsym(library, "registerKernelFactories"))();
}

/** Waters, methanols and ions in a periodic box, with a cutoff: particles are given other places on the device. */
Model makeMixture() {
    Model model = makeWaterCluster(6);
    for (int i = 0; i < 9; i++)
        addMethanol(model, Vec3(0.1 + 0.6 * (i % 3), 0.1 + 0.6 * (i / 3), 1.95));
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    for (int i = 0; i < 4; i++) {
        model.positions.push_back(Vec3(0.4 * i + 0.1, 0.3, 2.3));
        model.system.addParticle(i % 2 == 0 ? 22.99 : 35.45);
        nonbonded.addParticle(i % 2 == 0 ? 1 : -1, 0.3, 0.3);
    }
    nonbonded.setNonbondedMethod(NonbondedForce::CutoffPeriodic);
    nonbonded.setCutoffDistance(0.9);
    nonbonded.setUseSwitchingFunction(true);
    nonbonded.setSwitchingDistance(0.8);
    model.system.setDefaultPeriodicBoxVectors(Vec3(2, 0, 0), Vec3(0, 2, 0), Vec3(0, 0, 2.7));
    return model;
}

/** A chain of carbons among waters: of 10 or 20, for a team of the device's threads, or of 100, too large for one. */
Model makeChainInWater(int numCarbons) {
    Model model = makeWaterCluster(2);
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1));
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    const int first = model.system.getNumParticles();
    auto join = [&](int i, int j) {
        bonds.addBond(i, j, norm(model.positions[j] - model.positions[i]), 250000);
        if (i > first)
            angles.addAngle(i - 1, i, j, 2.6, 400);
        for (int other = std::max(first, j - 2); other < j; other++)
            nonbonded.addException(other, j, 0, 1, 0);
    };
    addChain(model, numCarbons, 12, join, Vec3(0, 1, 0), Vec3(0.12, 0.05, 0.03));
    for (int i = first; i < first + numCarbons; i++)
        nonbonded.setParticleParameters(i, 0, 0.3, 0.1);
    return model;
}

/**
 * Molecules for teams of threads: a matrix in the device's memory and smaller ones, with constraints and without, an anchor,
 * and bonds across edges of the box, unless positions are in single precision.
 */
Model makeAlkanes(bool across = true) {
    Model model = makeWaterCluster(1);
    addAlkane(model, 8, Vec3(0, 0, 0.5), true);
    addAlkane(model, 2, Vec3(0, 0, 1));
    addAlkane(model, 2, Vec3(0.5, 0, 1), true, true);
    addMethanol(model, Vec3(0, 0, 1.5));
    const Vec3 box[] = {{4, 0, 0}, {0.3, 4, 0}, {0.2, -0.4, 5}};
    model.system.setDefaultPeriodicBoxVectors(box[0], box[1], box[2]);
    const int first = model.system.getNumParticles();
    vector<HarmonicBond> bonds;
    auto join = [&](int i, int j) { bonds.push_back({i, j, 0.131, 250000}); };
    addChain(model, 10, 12, join, Vec3(0, 1, 2), Vec3(0.12, 0.05, 0));
    addBonds(model.system, bonds).setUsesPeriodicBoundaryConditions(true);
    for (int i = 0; across && i < 10; i++)
        model.positions[first + i] += box[i % 3] * (i % 4 - 1);
    return model;
}

Model makeMethanols() {
    Model model = makeWaterCluster(0);
    for (int i = 0; i < 4; i++)
        addMethanol(model, Vec3(0.45 * i, 0.1 * i, 0));
    return model;
}

/** How many steps have been taken on the device, by the launches for the first kind of blocks. */
int countMoves() {
    for (const char* kernel : {"moveLangevin0", "move0", "moveLangevin", "move"})
        if (calls.launches[kernel] > 0)
            return calls.launches[kernel];
    return 0;
}

/** Positions and velocities after some steps, with the kernels of the device or with those for any platform. */
std::pair<vector<Vec3>, vector<Vec3>> takeSteps(Platform& platform, const Model& model, const Make& make, bool generic,
                                                double temperature, int numSteps) {
    if (generic)
        useGenericKernels(platform);
    const auto integrator = make();
    // Otherwise each way stops iterating somewhere else, as far from the solution as it is allowed to.
    integrator->setConstraintTolerance(1e-13);
    ModelContext context(model, *integrator, platform);
    context.computeVirtualSites();
    context.setVelocitiesToTemperature(temperature, 3);
    calls = Calls();
    integrator->step(1);
    integrator->step(numSteps - 1);
    ASSERT_EQUAL(generic ? 0 : numSteps, countMoves());
    if (generic)
        useDeviceKernels();
    return {getPositions(context), getVelocities(context)};
}

/** By how much positions and velocities differ between both ways. */
std::pair<double, double> compareWays(Platform& platform, const Model& model, const Make& make,
                                      double temperature = 300, int numSteps = 20) {
    const auto [x, v] = takeSteps(platform, model, make, false, temperature, numSteps);
    const auto [genericX, genericV] = takeSteps(platform, model, make, true, temperature, numSteps);
    return {largestDifference(x, genericX), largestDifference(v, genericV)};
}

/** Over 20 steps the kernels of the device and those for any platform lead to the same, to rounding. */
CLAIM(testBothWaysAgree, Platform& platform) {
    // Where forces are in single precision, they also depend on the order of the particles, which is not the same: in a
    // liquid such differences grow tenfold in ten steps or so.
    const bool isDouble = (getRounding(platform) == Rounding::FixedPoint);
    struct Row {
        std::string name;
        std::function<Model()> make;
        double bound;
    };
    const double bound = isDouble ? 2e-11 : storeRounding(platform) > 1e-10 ? 1e-5 : 1e-8;
    vector<Row> rows = {{"water", [] { return makeWaterCluster(2); }, bound},
                        {"a water with a site, an anchor", makeWaterWithSiteAndAnchor, bound},
                        {"a chain in water", [] { return makeChainInWater(10); }, bound},
                        {"a chain for a team", [] { return makeChainInWater(20); }, bound},
                        {"a mixture", makeMixture, isDouble ? 2e-11 : 5e-4}};
    if (isDouble) // devices take some time to compile, and it is in the mixture
        rows.push_back({"methanol", makeMethanols, bound});
    checkEach(rows, [&](const Row& row) {
        const Model model = row.make();
        double largest = 0;
        checkEach(makeMethods(), [&](const Method& method) {
            const auto [difference, ofVelocities] = compareWays(platform, model, method.make);
            ASSERT_EQUAL_TOL(0, difference, row.bound);
            ASSERT_EQUAL_TOL(0, ofVelocities, 1e3 * row.bound);
            largest = std::max(largest, difference);
        });
        std::cout << row.name << ": positions differ by at most " << largest << " nm" << std::endl;
    });
}

/** Teams of threads take the same steps, for all that a block may have; atoms with an inertia of their own are among it. */
CLAIM(testTeamsAgree, Platform& platform) {
    const bool isDouble = (getRounding(platform) == Rounding::FixedPoint);
    const double bound = isDouble ? 2e-11 : storeRounding(platform) > 1e-10 ? 1e-5 : 1e-8;
    const Model model = makeAlkanes(storeRounding(platform) < 1e-10);
    auto addInertias = [&](MassPenaltyIntegrator& integrator) {
        leaveWhole(integrator);
        for (int i = 3; i < model.system.getNumParticles(); i++)
            if (model.system.getParticleMass(i) > 0 && i % 3 == 0)
                integrator.addBondInertia(i, -1, 0.1 * i);
    };
    checkEach(
            vector<Method>{
                    {"MassPenaltyIntegrator", makerWith<MassPenaltyIntegrator>(leaveWhole, 0.004), 2},
                    {"MassPenaltyLangevinIntegrator",
                     makerWith<MassPenaltyLangevinIntegrator>(leaveWhole, 300, 0, 0.004), 1},
                    {"molecules that are cut, Langevin", maker<MassPenaltyLangevinIntegrator>(300, 0, 0.008), 1},
                    {"atoms with an inertia", makerWith<MassPenaltyIntegrator>(addInertias, 0.004), 2},
                    {"atoms with an inertia, Langevin",
                     makerWith<MassPenaltyLangevinIntegrator>(addInertias, 300, 0, 0.004), 1},
            },
            [&](const Method& method) {
                const auto [difference, ofVelocities] = compareWays(platform, model, method.make);
                std::cout << "teams, " << method.name << ": positions differ by " << difference << " nm, velocities by "
                          << ofVelocities << " nm/ps" << std::endl;
                ASSERT_EQUAL_TOL(0, difference, bound);
                ASSERT_EQUAL_TOL(0, ofVelocities, 1e3 * bound);
            });
}

/** A molecule with few pairs, but too many bonds with an inertia for a thread of the device, among waters. */
CLAIM(testManyBondsWithInertia, Platform& platform) {
    Model model = makeWaterCluster(2);
    const int carbon = model.system.getNumParticles();
    addMethanol(model, Vec3(0, 0, 1));
    auto addInertias = [=](MassPenaltyIntegrator& integrator) {
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < i; j++)
                if (i + j < 8)
                    integrator.addBondInertia(carbon + j, carbon + i, 1 + 0.1 * i);
    };
    const double difference = compareWays(platform, model, makerWith<MassPenaltyIntegrator>(addInertias, 0.004)).second;
    ASSERT_EQUAL_TOL(0, difference, getRounding(platform) == Rounding::FixedPoint ? 2e-8 : 1e-2);
}

/** A System with a molecule that is too large for a team has its steps in the memory of the host; cut, on the device. */
CLAIM(testLargeMolecules, Platform& platform) {
    const Model model = makeChainInWater(100);
    for (int size : {0, 24}) {
        auto cut = [&](MassPenaltyIntegrator& integrator) { integrator.setMaxBlockSize(size); };
        const auto integrator = makerWith<MassPenaltyIntegrator>(cut, 0.004)();
        ModelContext context(model, *integrator, platform);
        context.setVelocitiesToTemperature(300, 3);
        calls = Calls();
        integrator->step(3);
        ASSERT_EQUAL(size == 0 ? 0 : 3, countMoves());
    }
}

/**
 * A step that fails names its molecule, and leaves the state of before; steps go on from there, and from a checkpoint,
 * as on the host.
 */
CLAIM(testFailedStepsAreUndone, Platform& platform) {
    checkEach(makeMethods(), [&](const Method& method) {
        Model model = makeChainInWater(20);
        addExternal(model.system, "push*x", {{"push", 0}}, {model.system.getNumParticles() - 1});
        addExternal(model.system, "pull*x", {{"pull", 0}}, {0});
        const auto integrator = method.make();
        integrator->setConstraintTolerance(1e-13);
        ModelContext context(model, *integrator, platform);
        context.setVelocitiesToTemperature(300, 3);
        integrator->step(5);
        std::stringstream checkpoint;
        context.createCheckpoint(checkpoint);
        integrator->step(5);
        const string last = " " + std::to_string(model.system.getNumParticles() - 1); // of the chain
        for (const auto& [parameter, particles] : {std::pair("push", last), std::pair("pull", string("s 0, 1, 2"))}) {
            context.setParameter(parameter, 1e15);
            assertRefusedWithoutChange(context, 1, {"forces on the molecule with particle", particles});
            context.setParameter(parameter, 0);
        }
        integrator->step(3);
        const vector<Vec3> end = getPositions(context);
        context.loadCheckpoint(checkpoint);
        integrator->step(8);
        // Noise that was drawn for the failed steps is not drawn again. After them a run begins from what is shown,
        // which is rounded in single precision.
        if (dynamic_cast<LangevinThermostat*>(integrator.get()) == nullptr)
            ASSERT_EQUAL_TOL(0, largestDifference(end, getPositions(context)),
                             std::max(1e-11, storeRounding(platform)));
    });
}

/**
 * In steps in which bonds turn far, by half a radian and more, teams go over to Newton's method and come to the same. The
 * solution is then worse conditioned.
 */
CLAIM(testTeamsTurnFar, Platform& platform) {
    const bool isDouble = (getRounding(platform) == Rounding::FixedPoint);
    const Model model = makeAlkanes(storeRounding(platform) < 1e-10);
    for (const Make& make :
         {maker<MassPenaltyIntegrator>(0.004), maker<MassPenaltyLangevinIntegrator>(300, 0, 0.004)}) {
        const double difference = compareWays(platform, model, make, 30000, 2).first;
        std::cout << "turning far: positions differ by " << difference << " nm" << std::endl;
        ASSERT_EQUAL_TOL(0, difference, isDouble ? 1e-10 : storeRounding(platform) > 1e-10 ? 1e-4 : 1e-7);
    }
}

/** A step in which the solve of a team's block fails leaves the state of before. */
CLAIM(testTeamsFail, Platform& platform) {
    Model model = makeWaterCluster(1);
    addAlkane(model, 2, Vec3(0, 0, 1));
    addAlkane(model, 2, Vec3(0.5, 0, 1), true);
    MassPenaltyIntegrator integrator(0.004);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 3);
    integrator.step(3);
    const int hydrogen = model.system.getNumParticles() - 1;
    vector<Vec3> v = getVelocities(context);
    const Vec3 along = getPositions(context)[hydrogen] - getPositions(context)[hydrogen - 1];
    v[hydrogen] = along.cross(Vec3(1, 2, 3)) * 1e5; // so that it moves further than the length of its constraint
    context.setVelocities(v);
    assertRefusedWithoutChange(context, 2, {"bond lengths and constraints of the molecule with particle"});
    context.setVelocitiesToTemperature(300, 3);
    integrator.step(3);
}

/** An atom of a team's block comes upon an edge: the device says that it has collided, and small steps go on from there. */
CLAIM(testTeamsCollide, Platform& platform) {
    Model model = makeAlkanes(storeRounding(platform) < 1e-10);
    const int carbon = 3;
    addExternal(model.system, "-12.5*tanh((z-edge)/0.0005)", {{"edge", 1e3}}, {carbon});
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.004);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 3);
    integrator.step(120);
    ASSERT_EQUAL(0, integrator.getNumCollisions());
    context.setParameter("edge", getPositions(context)[carbon][2]);
    calls = Calls();
    integrator.step(20);
    ASSERT_EQUAL(1, integrator.getNumCollisions());
    ASSERT(countMoves() >= 20);
}

/** With friction teams and threads keep the temperature of the heat bath, within four standard errors. */
CLAIM(testTeamsKeepTheTemperature, Platform& platform) {
    const double temperature = 300;
    const int numSamples = 150, each = 20;
    MassPenaltyLangevinIntegrator integrator(temperature, 20, 0.006);
    integrator.setRandomNumberSeed(5);
    const Model model = makeAlkanes(storeRounding(platform) < 1e-10);
    int numFree = -model.system.getNumConstraints();
    for (int i = 0; i < model.system.getNumParticles(); i++)
        numFree += (model.system.getParticleMass(i) > 0 ? 3 : 0);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(temperature, 3);
    integrator.step(300);
    vector<double> found;
    for (int i = 0; i < numSamples; i++) {
        integrator.step(each);
        found.push_back(2 * context.getState(State::Energy).getKineticEnergy() / (numFree * BOLTZ));
    }
    assertMean("temperature of teams", BlockedMean(found, 30), temperature); // samples are 2.4 friction times apart
}

/** How many transfers a report of energies takes after some steps. */
int countTransfersOfReport(ModelContext& context) {
    context.getIntegrator().step(2);
    calls = Calls();
    context.getState(State::Energy);
    return calls.reads + calls.writes;
}

/**
 * A step of a thousand waters, or of larger molecules, launches a few kernels, and nothing is transferred; a report of
 * energies takes no more transfers than with an integrator of OpenMM.
 */
CLAIM(testStepsStayOnTheDevice, Platform& platform) {
    Model waters = makeLoneWaters(10), alkanes = makeAlkanes(storeRounding(platform) < 1e-10);
    waters.system.addForce(new CMMotionRemover());
    LangevinMiddleIntegrator theirs(300, 1, 0.001);
    ModelContext rival(waters, theirs, platform);
    const int numTransfers = countTransfersOfReport(rival);
    auto check = [&](const Model& model, const Method& method) {
        const auto integrator = method.make();
        ModelContext context(model, *integrator, platform);
        context.setVelocitiesToTemperature(300, 1);
        integrator->step(2);
        auto count = [&](int numSteps) {
            calls = Calls();
            integrator->step(numSteps);
            return calls;
        };
        const int numSteps = 40;
        Calls one = count(10), more = count(10 + numSteps);
        int numLaunches = 0, numAll = 0;
        std::string names;
        for (const auto& [name, number] : more.launches) {
            const int each = (number - one.launches[name]) / numSteps;
            numAll += each;
            for (const char* ours : {"moveLangevin", "move", "kick", "start"})
                if (name.substr(0, name.find_first_of("0123456789")) == ours) {
                    numLaunches += each;
                    names += " " + name;
                }
        }
        std::cout << method.name << ": in a step " << numLaunches << " launches (" << names.substr(1) << ") of "
                  << numAll << "; in a call of step() " << one.reads << " reads, " << one.writes << " writes"
                  << std::endl;
        ASSERT_EQUAL(method.numLaunches, numLaunches);
        ASSERT_EQUAL(one.reads, more.reads);
        ASSERT_EQUAL(one.writes, more.writes);
        ASSERT_EQUAL(numTransfers, countTransfersOfReport(context));
    };
    for (const Method& method : makeMethods())
        check(waters, method);
    // Waters; and the molecules of all builds for teams, with matrices in local memory and in the device's.
    check(alkanes, {"MassPenaltyIntegrator, with teams", makerWith<MassPenaltyIntegrator>(leaveWhole, 0.004), 3 * 2});
    check(alkanes, {"MassPenaltyLangevinIntegrator, with teams",
                    makerWith<MassPenaltyLangevinIntegrator>(leaveWhole, 300, 0, 0.004), 3});
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
