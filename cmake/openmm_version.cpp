#include "openmm/Platform.h"
#include <iostream>

/** Print the version of the OpenMM library that this program is linked with: its headers do not tell. */
int main() {
    std::cout << OpenMM::Platform::getOpenMMVersion();
    return 0;
}
