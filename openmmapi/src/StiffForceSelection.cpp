#include "openmmstiff/internal/StiffForceSelection.h"
#include "openmmstiff/internal/Checks.h"

using namespace OpenMMStiff;

void StiffForceSelection::setStiffForceGroups(int groups) {
    setGroups(groups, stiffForceGroups, "setUseDefaultStiffForceGroups(true)");
}

void StiffForceSelection::setUseDefaultStiffForceGroups(bool use) {
    useDefault(use, stiffForceGroups, "setStiffForceGroups()");
}
