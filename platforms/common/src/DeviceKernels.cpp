#include "stiffcommon/DeviceKernels.h"
#include "openmmstiff/internal/PlatformKernels.h"

void stiffcommon::registerDeviceKernels(const char*, FindDevice) {
}
