#ifndef OPENMM_STIFF_REGISTER_PROXIES_H_
#define OPENMM_STIFF_REGISTER_PROXIES_H_

#include "openmmstiff/internal/windowsExportStiff.h"

/**
 * Make this plugin's classes known to OpenMM's XmlSerializer. The platform libraries call this when OpenMM loads
 * them, so that XML can be read wherever the plugin is installed. It does nothing when called again, or when the OpenMM
 * in this process is not the one the plugin was built for.
 */
extern "C" OPENMM_EXPORT_STIFF void registerOpenMMStiffSerializationProxies();

#endif /* OPENMM_STIFF_REGISTER_PROXIES_H_ */
