#ifndef STIFFDEVICE_PROGRAMS_H_
#define STIFFDEVICE_PROGRAMS_H_

#include "stiffhost/Device.h"
#include <string>
#include <vector>

namespace stiffdevice {

/** The text of a kernel, and how many elements of four random numbers each of its threads takes. */
struct KernelText {
    std::string name, text;
    int numRandoms = 0;
};

/** Blocks of the same build, with the kernels that work on them. */
struct RecordedKind {
    /// Those that the method does not have are empty.
    std::vector<KernelText> kernels;
    std::vector<std::vector<int>> blocks;
    /// The sets of parameters, one after the other, and where in them that of each block begins.
    std::vector<double> parameters;
    std::vector<int> sets;
    /// Whether velocities are kept that move the particles, while others are shown.
    bool keepsVelocities = false;
};

using Blocks = stiffhost::Device::Blocks;
using Recorded = std::vector<RecordedKind>;

/** Record the kernels of a method, see stiffhost::Device::compile(). */
Recorded record(const stiffhost::Device::Method& method, const Blocks& blocks, stiffhost::Device::Terms terms,
                const std::vector<double>& masses);

/** All that the compiler of a device gets to see of it. */
std::string getText(const Recorded& recorded);

} // namespace stiffdevice

#endif /* STIFFDEVICE_PROGRAMS_H_ */
