#ifndef OPENMM_STIFF_BLOCKS_H_
#define OPENMM_STIFF_BLOCKS_H_

#include "StiffTerms.h"
#include <algorithm>
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * A connected group of particles under the stiff terms (or other terms that couple a few particles): one diagonal
 * block of the Hessian.
 */
struct Block {
    /// The particles of the block in ascending order: first the mobile ones, then massless anchors.
    std::vector<int> particles;
    /// How many of them are mobile. The block's matrix has three rows for each.
    int numMobile;
    /// The terms of the block: indices into the list of terms, of a StiffTerms into its coordinates.
    std::vector<int> terms;
    /// Indices into the function terms of a StiffTerms.
    std::vector<int> functionTerms;

    /** Where in `particles` a particle of the block stands. */
    int findPlace(int particle) const {
        const auto begin = particles.begin(), mobileEnd = begin + numMobile;
        auto place = std::lower_bound(begin, mobileEnd, particle);
        if (place == mobileEnd || *place != particle)
            place = std::lower_bound(mobileEnd, particles.end(), particle);
        return place - begin;
    }
};

/**
 * Divide terms, each of which couples a few particles, into blocks. Massless particles never move: they take part in
 * terms as fixed anchors and do not connect what is bound to them. Terms without a mobile particle belong to no block.
 *
 * @param system      the System
 * @param particles   for each term, its particles
 */
OPENMM_EXPORT_STIFF std::vector<Block> connect(const OpenMM::System& system,
                                               const std::vector<std::vector<int>>& particles);

/**
 * Divide the stiff terms into blocks.
 *
 * @param system           the System
 * @param terms            its stiff terms
 * @param className        the integrator's class, for error messages
 * @throws OpenMMException if a term acts on a virtual site (see TermScope), or a constraint of the System on a particle
 *                         of a block
 */
OPENMM_EXPORT_STIFF std::vector<Block> findBlocks(const OpenMM::System& system, const StiffTerms& terms,
                                                  const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_BLOCKS_H_ */
