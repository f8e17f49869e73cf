#ifndef OPENMM_STIFF_PLATFORM_KERNELS_H_
#define OPENMM_STIFF_PLATFORM_KERNELS_H_

#include "windowsExportStiff.h"
#include "openmm/KernelFactory.h"
#include "openmm/Platform.h"
#include <string>

namespace OpenMMStiff {

/**
 * Register the kernels of all integrators with a platform.
 *
 * @param factory       creates them; the platform owns it from now on
 * @param description   see StiffIntegrator::describeKernels()
 */
OPENMM_EXPORT_STIFF void registerKernels(OpenMM::Platform& platform, OpenMM::KernelFactory* factory,
                                         const std::string& description);
/**
 * Register them with the platform of a name; nothing happens if there is none. The name must be the same to the letter:
 * CpuPlatform is derived from ReferencePlatform, and a cast would let the one factory overwrite the other's kernels.
 */
OPENMM_EXPORT_STIFF void registerKernels(const std::string& platformName, OpenMM::KernelFactory* factory,
                                         const std::string& description);
/**
 * Say how a platform gets kernels that has no library of its own here: provide(platform) is called for each that has
 * none, also for those that come later.
 */
OPENMM_EXPORT_STIFF void provideForAnyPlatform(void (*provide)(OpenMM::Platform& platform));
/**
 * Before a Context chooses a platform: each of this process has kernels from now on, or an explanation in their place,
 * which is thrown when they are asked for. OpenMM would pass such a platform over without a word.
 */
void completePlatforms();
/** See StiffIntegrator::describeKernels(). */
std::string describeKernels(const std::string& platformName);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_PLATFORM_KERNELS_H_ */
