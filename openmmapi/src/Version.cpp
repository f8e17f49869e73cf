#include "openmmstiff/internal/Version.h"
#include "openmm/Platform.h"
#include <string>

bool OpenMMStiff::isOpenMMCompatible() {
    const std::string series = OPENMM_STIFF_OPENMM_VERSION;
    const std::string loaded = OpenMM::Platform::getOpenMMVersion();
    return loaded == series || loaded.compare(0, series.size() + 1, series + ".") == 0;
}
