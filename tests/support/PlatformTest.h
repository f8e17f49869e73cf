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

/** Give a platform the kernels for any platform, in the place of its own. */
inline void useGenericKernels(OpenMM::Platform& platform) {
    void* library = dlopen(OPENMM_STIFF_PLUGIN_DIR "/libOpenMMStiffGeneric.so", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr)
        throw std::runtime_error("the library with the kernels for any platform has not been loaded");
    reinterpret_cast<void (*)(OpenMM::Platform&)>(dlsym(library, "registerGenericKernels"))(platform);
}

/**
 * The main program of a test of integrators: check all claims on the platform named by the first argument. After a
 * colon comes its precision, or "generic" for the kernels for any platform in the place of its own.
 */
inline int checkOnPlatform(int argc, char* argv[], std::initializer_list<Claim<OpenMM::Platform>> claims) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " Reference|Reference:generic|CPU|OpenCL:mixed|OpenCL:double|..."
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
    return checkClaims(claims, platform);
}

/**
 * What becomes of the forces of bonds, of fields, and of all that is not nonbonded. On the CPU platform they are in
 * double precision, as on Reference. Devices in double precision add forces up in units of 2^-32 kJ/mol/nm. Otherwise
 * they compute them in single precision, and from positions in single precision: of a bond at 1 nm from the origin,
 * with 4e5 kJ/mol/nm^2, they are wrong by 0.02 kJ/mol/nm.
 */
enum class Rounding { Double, FixedPoint, Single };

inline bool isDevice(const OpenMM::Platform& platform) {
    return platform.getName() != "Reference" && platform.getName() != "CPU";
}
inline Rounding getRounding(const OpenMM::Platform& platform) {
    if (!isDevice(platform))
        return Rounding::Double;
    return platform.getPropertyDefaultValue("Precision") == "double" ? Rounding::FixedPoint : Rounding::Single;
}
template <class T>
T byRounding(const OpenMM::Platform& platform, const T& ofDouble, const T& fixedPoint, const T& single) {
    const Rounding rounding = getRounding(platform);
    return rounding == Rounding::Double ? ofDouble : rounding == Rounding::FixedPoint ? fixedPoint : single;
}
/** Whether all forces, nonbonded ones too, are in double precision. */
inline bool hasPreciseForces(const OpenMM::Platform& platform) {
    return platform.getName() != "CPU" && getRounding(platform) != Rounding::Single;
}
/**
 * By how much a device changes positions up to some nm: in mixed precision it holds them as two numbers in single
 * precision, in single precision as one.
 */
inline double storeRounding(const OpenMM::Platform& platform) {
    return getRounding(platform) != Rounding::Single                               ? 0
           : platform.getPropertyDefaultValue("Precision") == std::string("mixed") ? 1e-14
                                                                                   : 1e-6;
}
/**
 * By how much positions differ from one Context to another that is given them, some steps later, as motion spreads them.
 */
inline double copyRounding(const OpenMM::Platform& platform) {
    return 1e3 * storeRounding(platform);
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

#endif /* STIFF_TEST_PLATFORM_TEST_H_ */
