#ifndef OPENMM_STIFF_SETUP_BLOCKS_H_
#define OPENMM_STIFF_SETUP_BLOCKS_H_

#include "CollectTerms.h"
#include "stiffcore/model/Block.h"
#include "stiffcore/model/PairInertia.h"
#include <limits>
#include <string>
#include <vector>

namespace OpenMMStiff {

using stiffcore::Block;

/**
 * Divide terms, each of which couples a few particles, into blocks. Massless particles never move: they take part in
 * terms as fixed anchors and do not connect what is bound to them. Terms without a mobile particle belong to no block.
 *
 * @param system      the System
 * @param particles   for each term, its particles
 * @param numOwn      from this number on they are other terms, see Block
 */
OPENMM_EXPORT_STIFF std::vector<Block> connect(const OpenMM::System& system,
                                               const std::vector<std::vector<int>>& particles,
                                               size_t numOwn = std::numeric_limits<size_t>::max());

/** Add a block without terms for each mobile particle that is in none. */
OPENMM_EXPORT_STIFF void addFreeParticles(const OpenMM::System& system, std::vector<Block>& blocks);

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

/** Divide pairs, and bonds as other terms, into blocks. */
OPENMM_EXPORT_STIFF std::vector<Block> findBlocks(const OpenMM::System& system, const stiffcore::PairTerms& terms);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_BLOCKS_H_ */
