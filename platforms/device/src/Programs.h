#ifndef STIFFDEVICE_PROGRAMS_H_
#define STIFFDEVICE_PROGRAMS_H_

#include "stiffhost/Device.h"
#include <string>
#include <vector>

namespace stiffdevice {

/**
 * The text of a kernel, which is empty if the method has none; and how many elements of four random numbers it takes for
 * all blocks.
 */
struct KernelText {
    std::string name, text;
    int numRandoms = 0;
};

/** Blocks with the kernels that work on them: of the same build, one a thread, or of any, one a team of threads. */
struct RecordedKind {
    std::vector<KernelText> kernels;
    std::vector<std::vector<int>> blocks;
    /// The sets of parameters, one after the other, and where in them that of each block begins; of teams their tables.
    std::vector<double> parameters;
    std::vector<int> sets;
    /// Whether velocities are kept that move the particles, while others are shown.
    bool keepsVelocities = false;
    /// How many threads work on a block, and how many numbers they have in the memory of the device.
    int numThreads = 1, numScratch = 0;
};

/** What is compiled together: that of blocks which have a thread each, or of teams. */
struct RecordedProgram {
    std::string head;
    std::vector<RecordedKind> kinds;

    /** All that the compiler of a device gets to see. */
    std::string getText() const;
};

using Blocks = stiffhost::Device::Blocks;
using Recorded = std::vector<RecordedProgram>;

/** Record the kernels of a method, see stiffhost::Device::compile(); none if a block is too large for any. */
Recorded record(const stiffcore::PenaltyMethod& method, const Blocks& blocks, const stiffcore::PairTerms& terms,
                const std::vector<double>& masses);

} // namespace stiffdevice

#endif /* STIFFDEVICE_PROGRAMS_H_ */
