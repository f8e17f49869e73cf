#ifndef OPENMM_STIFF_SETUP_BOND_GRAPH_H_
#define OPENMM_STIFF_SETUP_BOND_GRAPH_H_

#include "PenalizedPairs.h"
#include "stiffcore/model/InternalCoordinate.h"
#include "openmm/System.h"
#include <map>
#include <utility>
#include <vector>

namespace OpenMMStiff {

/**
 * Which particles of a System are bonded: by constraints, and by the pairs of bonded forces that are bonds. A
 * constraint across an angle is none: it is longer than both of two bonds between the same particles.
 */
struct OPENMM_EXPORT_STIFF BondGraph {
    /** @param bonded   the pairs of the bonded forces; or null */
    BondGraph(const OpenMM::System& system, const std::vector<PairInertia>& constraints, const BondedStiffness* bonded);

    bool areBonded(int particle1, int particle2) const {
        return lengths.count(stiffcore::ordered(particle1, particle2)) > 0;
    }
    /**
     * The particles that are at most so many bonds away from some of them: these first, the others as they are found.
     */
    std::vector<int> findNear(const std::vector<int>& particles, int numBonds) const;
    /** A shortest path between two bonded particles that is not their bond; empty if it has more bonds. */
    std::vector<int> findRing(int particle1, int particle2, int mostBonds) const;

    std::vector<std::vector<int>> neighbours;
    /// In ascending order of the particles [nm].
    std::map<std::pair<int, int>, double> lengths;
    /// For each particle, what constraints hold it to, and what angles, and how far away [nm].
    std::vector<std::vector<std::pair<int, double>>> constraintsOf, anglesOf;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_BOND_GRAPH_H_ */
