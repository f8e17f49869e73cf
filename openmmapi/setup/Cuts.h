#ifndef OPENMM_STIFF_SETUP_CUTS_H_
#define OPENMM_STIFF_SETUP_CUTS_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include <vector>

namespace OpenMMStiff {

/** Two particles of a molecule, by their places there, that a pair or an inertia ties to each other. */
struct Tie {
    int i, j;
    /// Only for the order: of a pair its inertia.
    double stiffness;
    bool isPair, isBond, mayBeCut;
};

/**
 * Cut a molecule into blocks, so that the matrix of the pairs that are within them falls into small ones: bonds that
 * may be cut are joined, the stiffest first, where no block gets more pairs than it should; then blocks of a few particles
 * to what they are bonded to, where that gets no more than a third more. What must not be cut, such as rings, may make a
 * block larger.
 *
 * @param mostPairs   that a block should have
 * @return            for each particle a number of its block
 */
OPENMM_EXPORT_STIFF std::vector<int> cut(int numParticles, const std::vector<Tie>& ties, int mostPairs);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_CUTS_H_ */
