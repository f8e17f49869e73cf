#ifndef STIFFHOST_PLUGIN_H_
#define STIFFHOST_PLUGIN_H_

#include "Kernels.h"
#include "openmm/PluginInitializer.h"
#include "openmmstiff/internal/PlatformKernels.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmmstiff/serialization/RegisterProxies.h"
#include <string>

/*
 * What OpenMM calls when it loads a plugin: for the one source of each, which defines registerKernels().
 */

/** Register the kernels with the platform of the plugin, if there is one. */
static void registerKernels();

extern "C" OPENMM_EXPORT_STIFF void registerPlatforms() {
    registerOpenMMStiffSerializationProxies();
}

extern "C" OPENMM_EXPORT_STIFF void registerKernelFactories() {
    if (OpenMMStiff::isOpenMMCompatible())
        registerKernels();
}

#endif /* STIFFHOST_PLUGIN_H_ */
