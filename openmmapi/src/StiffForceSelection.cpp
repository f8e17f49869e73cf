#include "openmmstiff/internal/StiffForceSelection.h"
#include "openmmstiff/internal/Checks.h"

using namespace OpenMMStiff;

void StiffForceSelection::setUseDefaultStiffForceGroups(bool use) {
    useDefault(use, stiffForceGroups, "setStiffForceGroups()");
}
