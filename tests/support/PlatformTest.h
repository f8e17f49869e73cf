#ifndef STIFF_TEST_PLATFORM_TEST_H_
#define STIFF_TEST_PLATFORM_TEST_H_

#include "Claims.h"
#include "Plugins.h"
#include "openmm/Context.h"
#include "openmm/LocalEnergyMinimizer.h"
#include "openmm/Platform.h"
#include "openmm/VerletIntegrator.h"
#include <dlfcn.h>
#include <stdexcept>
#include <string>

namespace stifftest {

/** Give a platform the kernels for any platform, instead of its own. */
inline void useGenericKernels(OpenMM::Platform& platform) {
    void* library = dlopen(OPENMM_STIFF_PLUGIN_DIR "/libOpenMMStiffGeneric.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr)
        throw std::runtime_error("the library with the kernels for any platform has not been loaded");
    reinterpret_cast<void (*)(OpenMM::Platform&)>(dlsym(library, "registerGenericKernels"))(platform);
}

/**
 * The main program of a test of integrators: check all claims on the platform named by the first argument. After a
 * colon comes its precision, or "generic" for the kernels for any platform instead of its own.
 */
inline int checkOnPlatform(int argc, char* argv[]) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " Reference|Reference:generic|CPU|OpenCL:single|OpenCL:mixed|..."
                  << std::endl;
        return 2;
    }
    loadPlugins();
    const std::string argument = argv[1], name = argument.substr(0, argument.find(':')),
                      option = (name == argument ? "" : argument.substr(name.size() + 1));
    OpenMM::Platform& platform = OpenMM::Platform::getPlatformByName(name);
    if (option == "generic")
        useGenericKernels(platform);
    else if (!option.empty())
        platform.setPropertyDefaultValue("Precision", option);
    return checkClaims(platform);
}

/**
 * What is rounded, and how.
 *
 * Double: nothing but the nonbonded forces of the CPU platform, which are in single precision.
 * FixedPoint: devices in double precision add forces up in units of 2^-32 kJ/mol/nm.
 * SingleForces: in mixed precision they compute forces in single precision, and from positions in single precision: of
 * a bond at 1 nm from the origin, with 4e5 kJ/mol/nm^2, they are wrong by 0.02 kJ/mol/nm.
 * Single: in single precision they also take steps in it, and keep positions and velocities as single numbers, to
 * 6e-8 of themselves: a bond at 1 nm from the origin is known to 1e-7 nm.
 */
enum class Rounding { Double, FixedPoint, SingleForces, Single };

inline bool isDevice(const OpenMM::Platform& platform) {
    return platform.getName() != "Reference" && platform.getName() != "CPU";
}
inline Rounding getRounding(const OpenMM::Platform& platform) {
    if (!isDevice(platform))
        return Rounding::Double;
    const std::string& precision = platform.getPropertyDefaultValue("Precision");
    return precision == "double"  ? Rounding::FixedPoint
           : precision == "mixed" ? Rounding::SingleForces
                                  : Rounding::Single;
}
template <class T>
T byRounding(const OpenMM::Platform& platform, const T& ofDouble, const T& fixedPoint, const T& singleForces,
             const T& single) {
    const T choices[] = {ofDouble, fixedPoint, singleForces, single};
    return choices[int(getRounding(platform))];
}
/** The same where it is the forces in single precision that matter. */
template <class T>
T byRounding(const OpenMM::Platform& platform, const T& ofDouble, const T& fixedPoint, const T& singleForces) {
    return byRounding(platform, ofDouble, fixedPoint, singleForces, singleForces);
}
/** Whether a device computes all forces in single precision. */
inline bool hasSingleForces(const OpenMM::Platform& platform) {
    return getRounding(platform) == Rounding::SingleForces || getRounding(platform) == Rounding::Single;
}
/** Whether all forces, nonbonded ones too, are in double precision. */
inline bool hasPreciseForces(const OpenMM::Platform& platform) {
    return platform.getName() != "CPU" && !hasSingleForces(platform);
}
/**
 * By how much a device changes positions up to some nm: in mixed precision it holds them as two numbers in single
 * precision, in single precision as one.
 */
inline double storeRounding(const OpenMM::Platform& platform) {
    return byRounding(platform, 0.0, 0.0, 1e-14, 1e-6);
}
/**
 * By how much positions differ from one Context to another that is given them, some steps later, as motion spreads them:
 * those that a step begins with may have been rounded; and on a device in double precision sums of differences are, of
 * hidden positions from those that are shown, and of forces with another list of neighbours.
 */
inline double copyRounding(const OpenMM::Platform& platform) {
    return byRounding(platform, 0.0, 1e-11, 1e-9, 1e3 * storeRounding(platform));
}
/** How exactly a virtual site follows its particles: devices have its weights in single precision. */
inline double siteRounding(const OpenMM::Platform& platform) {
    return byRounding(platform, 1e-14, 1e-14, 1e-8, 1e-6);
}

/**
 * The platform for a solution by many small steps, with which others are compared: the same one, but in single precision
 * each step rounds, and what that adds up to would hide their errors.
 */
inline OpenMM::Platform& platformForManySteps(OpenMM::Platform& platform) {
    return getRounding(platform) == Rounding::Single ? OpenMM::Platform::getPlatformByName("Reference") : platform;
}

/**
 * Minimize the energy; for a Context on a device on the Reference platform, as OpenMM's minimizer for devices crashes on
 * PoCL 3.0.
 */
inline void minimize(OpenMM::Context& context, double tolerance = 10) {
    if (!isDevice(context.getPlatform()))
        return OpenMM::LocalEnergyMinimizer::minimize(context, tolerance);
    OpenMM::VerletIntegrator integrator(0.001);
    OpenMM::Context other(context.getSystem(), integrator, OpenMM::Platform::getPlatformByName("Reference"));
    other.setPositions(context.getState(OpenMM::State::Positions).getPositions());
    OpenMM::LocalEnergyMinimizer::minimize(other, tolerance);
    context.setPositions(other.getState(OpenMM::State::Positions).getPositions());
}

} // namespace stifftest

/// The main program of tests that are given a platform.
#define CHECK_CLAIMS_ON_PLATFORM                                                                                       \
    int main(int argc, char* argv[]) {                                                                                 \
        return stifftest::checkOnPlatform(argc, argv);                                                                 \
    }

#endif /* STIFF_TEST_PLATFORM_TEST_H_ */
