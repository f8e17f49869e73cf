/**
 * The CPU platform's kernels compiled for AVX2 and FMA, beside those of the baseline.
 */

#include "IntegratorTest.h"
#include <cstdlib>
#include <dlfcn.h>

namespace {

bool hasAvx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool isLoaded(const char* library) {
    return dlopen(library, RTLD_NOW | RTLD_NOLOAD) != nullptr;
}

/** Let the plugin register its kernels again, with the environment that is given to it. */
void registerKernels(bool baseline) {
    if (baseline)
        setenv("OPENMM_STIFF_SIMD", "baseline", 1);
    else
        unsetenv("OPENMM_STIFF_SIMD");
    void* plugin = dlopen(OPENMM_STIFF_CPU_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    ASSERT(plugin != nullptr);
    auto* registerKernelFactories = reinterpret_cast<void (*)()>(dlsym(plugin, "registerKernelFactories"));
    ASSERT(registerKernelFactories != nullptr);
    registerKernelFactories();
}

struct Trajectory {
    const char* name;
    bool rigid;
    Make makeIntegrator;

    /** Positions after some steps, then velocities. */
    vector<Vec3> run(bool baseline) const {
        registerKernels(baseline);
        // Without the nonbonded forces, which are in single precision.
        Model model = makeWaterCluster(2, rigid);
        model.system.removeForce(2);
        addWell(model);
        const auto integrator = makeIntegrator();
        Platform& platform = Platform::getPlatformByName("CPU");
        ModelContext context(model, *integrator, platform, deterministic(platform));
        context.setVelocities(makeVelocities(model.system, 300, 1));
        context.applyConstraints(1e-10);
        context.applyVelocityConstraints(1e-10);
        integrator->step(5);
        vector<Vec3> all = getPositions(context);
        const vector<Vec3> v = getVelocities(context);
        all.insert(all.end(), v.begin(), v.end());
        return all;
    }
};

vector<Trajectory> makeTrajectories() {
    auto useAll = [](ZhangSkeelIntegrator& integrator) {
        integrator.setMethod(ZhangSkeelIntegrator::ThirdDerivatives);
    };
    auto mollify = [](ImpulseIntegrator& integrator) { integrator.setKick(ImpulseIntegrator::Mollified); };
    auto seed = [](LangevinThermostat& integrator) { integrator.setRandomNumberSeed(1); };
    return {
            {"ZhangSkeelIntegrator", false, maker<ZhangSkeelIntegrator>(0.002)},
            {"ZhangSkeelIntegrator, all of the potential", false, makerWith<ZhangSkeelIntegrator>(useAll, 0.001)},
            {"ImpulseIntegrator, projected", false, maker<ImpulseIntegrator>(0.002)},
            {"ImpulseIntegrator, mollified", false, makerWith<ImpulseIntegrator>(mollify, 0.002)},
            {"ImpulseLangevinIntegrator", false, makerWith<ImpulseLangevinIntegrator>(seed, 300, 1, 0.002)},
            {"MassPenaltyIntegrator", false, maker<MassPenaltyIntegrator>(0.002)},
            {"MassPenaltyIntegrator, constraints", true, maker<MassPenaltyIntegrator>(0.002)},
            {"MassPenaltyLangevinIntegrator", false, makerWith<MassPenaltyLangevinIntegrator>(seed, 300, 1, 0.004)},
            {"SpookIntegrator", true, maker<SpookIntegrator>(0.002)},
    };
}

CLAIM(testPluginLoadsWhatTheProcessorHas) {
    ASSERT(!isLoaded(OPENMM_STIFF_AVX2_LIBRARY)); // the baseline was asked for
    registerKernels(false);
    ASSERT_EQUAL(hasAvx2(), isLoaded(OPENMM_STIFF_AVX2_LIBRARY));
}

/** Velocities are sums of terms k r h/m of up to 100 nm/ps, rounded to 1e-14: some tens of them in all. */
CLAIM(testTrajectoriesAgreeToRounding) {
    double any = 0;
    for (const Trajectory& trajectory : makeTrajectories()) {
        const vector<Vec3> baseline = trajectory.run(true), other = trajectory.run(false);
        ASSERT(baseline == trajectory.run(true)); // nothing else makes a difference
        const double difference = largestDifference(baseline, other);
        std::cout << trajectory.name << ": " << difference << std::endl;
        ASSERT(difference < 1e-12);
        any = std::max(any, difference);
    }
    // Two builds that agree in all bits are one.
    ASSERT_EQUAL(hasAvx2(), any > 0);
}

} // namespace

int main() {
    setenv("OPENMM_STIFF_SIMD", "baseline", 1);
    loadPlugins();
    return checkClaims();
}
