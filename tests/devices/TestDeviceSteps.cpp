/**
 * The steps that a device takes are those of the host: the kernels for devices against those for any platform, on the
 * same device; and what they ask of it, counted in the calls that OpenMM makes of OpenCL.
 */

#include "Claims.h"
#include "OpenMMStiff.h"
#include "PlatformTest.h"
#include "Systems.h"
#include "Vectors.h"
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using std::vector;

namespace {

/** What has been asked of the device: launches by the names of kernels, and transfers. */
struct Calls {
    std::map<std::string, int> launches;
    int reads = 0, writes = 0;
} calls;

template <class Function> Function findNext(const char* name) {
    static void* library = dlopen("libOpenCL.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<Function>(dlsym(library, name));
}

} // namespace

// OpenMM's calls of OpenCL come here first, since the linker finds a program's own functions first.

extern "C" {
using KernelFunction = int (*)(void*, void*, unsigned, const size_t*, const size_t*, const size_t*, unsigned, void*,
                               void*);
[[gnu::visibility("default")]] int clEnqueueNDRangeKernel(void* queue, void* kernel, unsigned dimensions,
                                                          const size_t* offset, const size_t* global,
                                                          const size_t* local, unsigned numEvents, void* events,
                                                          void* event) {
    const unsigned functionName = 0x1190; // CL_KERNEL_FUNCTION_NAME
    static const auto getInfo = findNext<int (*)(void*, unsigned, size_t, void*, size_t*)>("clGetKernelInfo");
    static const auto next = findNext<KernelFunction>("clEnqueueNDRangeKernel");
    char name[200] = "";
    getInfo(kernel, functionName, sizeof(name), name, nullptr);
    calls.launches[name]++;
    return next(queue, kernel, dimensions, offset, global, local, numEvents, events, event);
}

using ReadFunction = int (*)(void*, void*, unsigned, size_t, size_t, void*, unsigned, void*, void*);
[[gnu::visibility("default")]] int clEnqueueReadBuffer(void* queue, void* buffer, unsigned blocking, size_t offset,
                                                       size_t size, void* to, unsigned numEvents, void* events,
                                                       void* event) {
    static const auto next = findNext<ReadFunction>("clEnqueueReadBuffer");
    calls.reads++;
    return next(queue, buffer, blocking, offset, size, to, numEvents, events, event);
}

using WriteFunction = int (*)(void*, void*, unsigned, size_t, size_t, const void*, unsigned, void*, void*);
[[gnu::visibility("default")]] int clEnqueueWriteBuffer(void* queue, void* buffer, unsigned blocking, size_t offset,
                                                        size_t size, const void* from, unsigned numEvents, void* events,
                                                        void* event) {
    static const auto next = findNext<WriteFunction>("clEnqueueWriteBuffer");
    calls.writes++;
    return next(queue, buffer, blocking, offset, size, from, numEvents, events, event);
}
}

namespace {

using Make = std::function<std::unique_ptr<StiffIntegrator>()>;

struct Method {
    const char* name;
    Make make;
    /// How many kernels of ours a step launches for one kind of molecules.
    int numLaunches;
    bool inLargeModels = true;
};

template <class T> Make maker(double stepSize) {
    return [=] { return std::make_unique<T>(stepSize); };
}
/** Without friction, so that both ways are the same whatever their random numbers are. */
template <class T> Make langevinMaker(double stepSize) {
    return [=] { return std::make_unique<T>(300.0, 0.0, stepSize); };
}

const vector<Method> methods = {
        {"MassPenaltyIntegrator", maker<MassPenaltyIntegrator>(0.004), 2},
        {"MassPenaltyLangevinIntegrator", langevinMaker<MassPenaltyLangevinIntegrator>(0.004), 1},
        {"MassPenaltyLangevinIntegrator, no metric correction",
         [] {
             auto integrator = std::make_unique<MassPenaltyLangevinIntegrator>(300, 0, 0.004);
             integrator->setMetricCorrection(false);
             return integrator;
         },
         1, false},
        {"MassPenaltyIntegrator, bonds with an inertia",
         [] {
             auto integrator = std::make_unique<MassPenaltyIntegrator>(0.004);
             integrator->setBondInertia(3);
             return integrator;
         },
         2},
        {"MassPenaltyLangevinIntegrator, bonds with an inertia",
         [] {
             auto integrator = std::make_unique<MassPenaltyLangevinIntegrator>(300, 0, 0.004);
             integrator->setBondInertia(3);
             return integrator;
         },
         1},
        {"ImpulseIntegrator", maker<ImpulseIntegrator>(0.002), 2},
        {"ImpulseIntegrator, plain",
         [] {
             auto integrator = std::make_unique<ImpulseIntegrator>(0.002);
             integrator->setKick(ImpulseIntegrator::Plain);
             return integrator;
         },
         2, false},
        {"ImpulseLangevinIntegrator", langevinMaker<ImpulseLangevinIntegrator>(0.002), 1},
        {"ZhangSkeelIntegrator", maker<ZhangSkeelIntegrator>(0.001), 2},
        {"ZhangSkeelLangevinIntegrator", langevinMaker<ZhangSkeelLangevinIntegrator>(0.001), 2},
        {"ZhangSkeelLangevinIntegrator, all modes",
         [] {
             auto integrator = std::make_unique<ZhangSkeelLangevinIntegrator>(300, 0, 0.001);
             integrator->setThermalizeStiffModes(true);
             return integrator;
         },
         2, false},
};

/** Give the platform its own kernels again, after useGenericKernels(). */
void useDeviceKernels() {
    void* library = dlopen(OPENMM_STIFF_PLUGIN_DIR "/libOpenMMStiffOpenCL.so", RTLD_NOW | RTLD_NOLOAD);
    reinterpret_cast<void (*)()>(dlsym(library, "registerKernelFactories"))();
}

/** Add a methanol, with the bonds and angles of a united force field, and charges. */
void addMethanol(Model& model, const Vec3& origin) {
    const double masses[] = {12.011, 15.999, 1.008, 1.008, 1.008, 1.008};
    const double charges[] = {0.12, -0.6, 0.42, 0.02, 0.02, 0.02};
    const Vec3 places[] = {{0, 0, 0},
                           {0.141, 0, 0},
                           {0.172, 0.091, 0},
                           {-0.036, 0.103, 0.0},
                           {-0.036, -0.051, 0.089},
                           {-0.036, -0.051, -0.089}};
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1));
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    const int first = model.system.getNumParticles();
    for (int i = 0; i < 6; i++) {
        model.system.addParticle(masses[i]);
        nonbonded.addParticle(charges[i], i < 2 ? 0.31 : 0.1, i < 2 ? 0.4 : 0);
        model.positions.push_back(origin + places[i]);
        for (int j = 0; j < i; j++)
            nonbonded.addException(first + j, first + i, 0, 1, 0);
    }
    auto addBond = [&](int i, int j, double k) {
        const Vec3 d = places[j] - places[i];
        bonds.addBond(first + i, first + j, 1.01 * std::sqrt(d.dot(d)), k);
    };
    auto addAngle = [&](int i, int j, int k) {
        const Vec3 a = places[i] - places[j], b = places[k] - places[j];
        angles.addAngle(first + i, first + j, first + k, std::acos(a.dot(b) / std::sqrt(a.dot(a) * b.dot(b))) - 0.02,
                        400);
    };
    addBond(0, 1, 267776);
    addBond(1, 2, 462750);
    for (int h = 3; h < 6; h++)
        addBond(0, h, 284512);
    addAngle(0, 1, 2);
    for (int h = 3; h < 6; h++) {
        addAngle(1, 0, h);
        addAngle(h, 0, h < 5 ? h + 1 : 3);
    }
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

/** A chain that is too large for the device, among waters. */
Model makeChainInWater() {
    Model model = makeWaterCluster(2);
    auto& bonds = dynamic_cast<HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<HarmonicAngleForce&>(model.system.getForce(1));
    auto& nonbonded = dynamic_cast<NonbondedForce&>(model.system.getForce(2));
    const int first = model.system.getNumParticles();
    for (int i = 0; i < 20; i++) {
        model.system.addParticle(12);
        nonbonded.addParticle(0, 0.3, 0.1);
        model.positions.push_back(Vec3(0.12 * i, 1 + 0.05 * (i % 2), 0.03 * (i % 3)));
        const Vec3* x = &model.positions.back();
        auto distance = [&](int back) { return std::sqrt((x[0] - x[-back]).dot(x[0] - x[-back])); };
        if (i > 0)
            bonds.addBond(first + i - 1, first + i, distance(1), 250000);
        if (i > 1)
            angles.addAngle(first + i - 2, first + i - 1, first + i, 2.6, 400);
        for (int j = std::max(0, i - 2); j < i; j++)
            nonbonded.addException(first + j, first + i, 0, 1, 0);
    }
    return model;
}

Model makeMethanols() {
    Model model = makeWaterCluster(0);
    for (int i = 0; i < 4; i++)
        addMethanol(model, Vec3(0.45 * i, 0.1 * i, 0));
    return model;
}

/** Positions and velocities after 20 steps, with the kernels of the device or with those for any platform. */
std::pair<vector<Vec3>, vector<Vec3>> takeSteps(Platform& platform, const Model& model, const Make& make,
                                                bool generic) {
    if (generic)
        useGenericKernels(platform);
    const auto integrator = make();
    // Otherwise each way stops iterating somewhere else, as far from the solution as it is allowed to.
    integrator->setConstraintTolerance(1e-13);
    ModelContext context(model, *integrator, platform);
    context.computeVirtualSites();
    context.setVelocitiesToTemperature(300, 3);
    calls = Calls();
    integrator->step(7);
    integrator->step(13);
    int ours = 0;
    for (const char* kernel : {"moveLangevin0", "move0", "firstMove0"})
        ours += calls.launches[kernel];
    ASSERT_EQUAL(generic ? 0 : 20, ours);
    if (generic)
        useDeviceKernels();
    return {getPositions(context), getVelocities(context)};
}

/** Over 20 steps the kernels of the device and those for any platform lead to the same, to rounding. */
void testBothWaysAgree(Platform& platform) {
    const vector<std::pair<std::string, std::function<Model()>>> models = {
            {"water", [] { return makeWaterCluster(2); }},
            {"a water with a site, an anchor", makeWaterWithSiteAndAnchor},
            {"methanol", makeMethanols},
            {"a chain in water", makeChainInWater},
            {"a mixture", makeMixture}};
    // Where forces are in single precision, they also depend on the order of the particles, which is not the same: in a
    // liquid such differences grow tenfold in ten steps or so.
    const bool isDouble = (getRounding(platform) == Rounding::FixedPoint);
    for (const auto& [name, make] : models) {
        if (name == "methanol" && !isDouble)
            continue; // devices take some time to compile, and it is in the mixture
        const Model model = make();
        const bool isLiquid = (name == "a mixture");
        const double bound = isDouble ? 2e-11 : isLiquid ? 5e-4 : storeRounding(platform) > 1e-10 ? 1e-5 : 1e-8;
        double largest = 0;
        for (const Method& method : methods) {
            if (model.system.getNumParticles() > 20 && !method.inLargeModels)
                continue;
            const auto [x, v] = takeSteps(platform, model, method.make, false);
            const auto [genericX, genericV] = takeSteps(platform, model, method.make, true);
            const double difference = largestDifference(x, genericX);
            largest = std::max(largest, difference);
            if (!(difference <= bound) || !(largestDifference(v, genericV) <= 1e3 * bound))
                throw OpenMMException(std::string(method.name) + ", " + name + ": positions differ by " +
                                      std::to_string(difference * 1e9) + "e-9 nm, velocities by " +
                                      std::to_string(largestDifference(v, genericV)) + " nm/ps");
        }
        std::cout << name << ": positions differ by at most " << largest << " nm" << std::endl;
    }
}

/** A molecule with few pairs, but too many bonds with an inertia for a thread of the device, among waters. */
void testManyBondsWithInertia(Platform& platform) {
    Model model = makeWaterCluster(2);
    const int carbon = model.system.getNumParticles();
    addMethanol(model, Vec3(0, 0, 1));
    const Make make = [=] {
        auto integrator = std::make_unique<MassPenaltyIntegrator>(0.004);
        for (int i = 0; i < 6; i++)
            for (int j = 0; j < i; j++)
                if (i + j < 8)
                    integrator->addBondInertia(carbon + j, carbon + i, 1 + 0.1 * i);
        return integrator;
    };
    const auto [x, v] = takeSteps(platform, model, make, false);
    const auto [genericX, genericV] = takeSteps(platform, model, make, true);
    const double difference = largestDifference(v, genericV);
    const double bound = getRounding(platform) == Rounding::FixedPoint ? 2e-8 : 1e-2;
    if (!(difference <= bound))
        throw OpenMMException("velocities differ by " + std::to_string(difference) + " nm/ps");
}

/**
 * A step that fails on a molecule which the device does not take, or on one that it takes, leaves the state of before;
 * steps go on from there, and from a checkpoint, as in the memory of the host.
 */
void testFailedStepsOfLargeMoleculesAreUndone(Platform& platform) {
    for (const Method& method : methods) {
        Model model = makeChainInWater();
        auto* push = new CustomExternalForce("push*step(i - 0.5)*x + pull*step(0.5 - i)*x");
        push->addGlobalParameter("push", 0);
        push->addGlobalParameter("pull", 0);
        push->addPerParticleParameter("i");
        push->addParticle(0, {0});
        push->addParticle(model.system.getNumParticles() - 1, {1});
        model.system.addForce(push);
        const auto integrator = method.make();
        integrator->setConstraintTolerance(1e-13);
        ModelContext context(model, *integrator, platform);
        context.setVelocitiesToTemperature(300, 3);
        integrator->step(5);
        std::stringstream checkpoint;
        context.createCheckpoint(checkpoint);
        integrator->step(5);
        const vector<Vec3> x = getPositions(context), v = getVelocities(context);
        for (const char* parameter : {"push", "pull"}) {
            context.setParameter(parameter, 1e15);
            const std::string message = catchMessage([&] { integrator->step(1); });
            if (message.find("forces on the molecule with particle") == std::string::npos)
                throw OpenMMException("No forces in the message: " + message);
            ASSERT_EQUAL_CONTAINERS(x, getPositions(context));
            ASSERT_EQUAL_CONTAINERS(v, getVelocities(context));
            context.setParameter(parameter, 0);
        }
        integrator->step(3);
        const vector<Vec3> end = getPositions(context);
        context.loadCheckpoint(checkpoint);
        integrator->step(8);
        // Noise that was drawn for the failed steps is not drawn again.
        const bool hasNoise = dynamic_cast<LangevinThermostat*>(integrator.get()) != nullptr;
        if (!hasNoise && !(largestDifference(end, getPositions(context)) <= 1e-11))
            throw OpenMMException(std::string(method.name) + ": after failed steps positions differ by " +
                                  std::to_string(largestDifference(end, getPositions(context)) * 1e9) + "e-9 nm");
    }
}

/** A step of 895 waters launches a few kernels, and nothing is transferred. */
void testStepsStayOnTheDevice(Platform& platform) {
    const int numWaters = 895;
    Model model = makeWaterCluster(10), waters;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    for (int o = 0; o < 3 * numWaters; o += 3) {
        for (int i = o; i < o + 3; i++) {
            waters.system.addParticle(model.system.getParticleMass(i));
            waters.positions.push_back(model.positions[i]);
        }
        bonds->addBond(o, o + 1, bondLength, bondConstant);
        bonds->addBond(o, o + 2, bondLength, bondConstant);
        angles->addAngle(o + 1, o, o + 2, waterAngle, angleConstant);
    }
    waters.system.addForce(bonds);
    waters.system.addForce(angles);
    waters.system.addForce(new CMMotionRemover());
    for (const Method& method : methods) {
        const auto integrator = method.make();
        ModelContext context(waters, *integrator, platform);
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
            for (const char* ours : {"moveLangevin", "move", "kick", "start", "begin", "firstMove", "finish"})
                if (name == ours + std::string("0")) {
                    numLaunches += each;
                    names += " " + name;
                }
        }
        std::cout << method.name << ": in a step " << numLaunches << " launches (" << names.substr(1) << ") of "
                  << numAll << ", " << double(more.reads - one.reads) / numSteps << " reads, "
                  << double(more.writes - one.writes) / numSteps << " writes; in a call of step() " << one.reads
                  << " reads, " << one.writes << " writes" << std::endl;
        ASSERT_EQUAL(method.numLaunches, numLaunches);
        ASSERT_EQUAL(one.reads, more.reads);
        ASSERT_EQUAL(one.writes, more.writes);
    }
}

} // namespace

int main(int argc, char* argv[]) {
    return checkOnPlatform(argc, argv,
                           {CLAIM(testBothWaysAgree), CLAIM(testManyBondsWithInertia),
                            CLAIM(testFailedStepsOfLargeMoleculesAreUndone), CLAIM(testStepsStayOnTheDevice)});
}
