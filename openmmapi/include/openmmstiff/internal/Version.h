#ifndef OPENMM_STIFF_VERSION_H_
#define OPENMM_STIFF_VERSION_H_

#include "windowsExportStiff.h"

namespace OpenMMStiff {

/**
 * Get whether the OpenMM library loaded in this process belongs to the minor series (such as 8.6) that the plugin was
 * built with. OpenMM's C++ classes change their layout between minor versions, so that with any other one nothing of
 * this plugin may be registered.
 */
OPENMM_EXPORT_STIFF bool isOpenMMCompatible();

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_VERSION_H_ */
