#ifndef OPENMM_STIFF_SETUP_BONDED_SPECTRUM_H_
#define OPENMM_STIFF_SETUP_BONDED_SPECTRUM_H_

#include "BondGraph.h"
#include "CollectTerms.h"
#include "PieceMinimum.h"
#include "stiffcore/model/TermFunction.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace OpenMM {
class CMAPTorsionForce;
}

namespace OpenMMStiff {

/**
 * How fast the bonded forces of a System move it under inertias that are chosen by it, H u = omega^2 (M' + G^T kappa G)
 * u: piece by piece, as what is fast moves a few particles, and of equal molecules once. Only the System and the
 * parameters of its forces matter, no positions: pieces are where their bonded forces are at a minimum.
 */
class OPENMM_EXPORT_STIFF BondedSpectrum {
public:
    /**
     * @param graph      outlives it; for the others see BondedStiffness
     * @param previous   that of the System before parameters changed, of which what is the same is taken over; or null
     */
    BondedSpectrum(const OpenMM::System& system, const BondGraph& graph, int integrationGroups,
                   const std::map<std::string, double>& parameters, const std::string& className,
                   const BondedSpectrum* previous = nullptr);
    ~BondedSpectrum();

    /**
     * Leave out pairs that others nearly determine, and those between blocks into which large molecules are cut; and
     * make bonds of hydrogens and other particles heavier where something moves too fast.
     *
     * @param pairs       pairs and constraints; those that a user has given stay whatever others are there
     * @param bonds       with the least inertia that they have, see chooseBonds()
     * @param shortest    2/omega of the fastest motion is to be at least this [ps]; 0 if nothing is to be made heavier,
     *                    nor cut
     * @param mostPairs   that a block should have, see cut(); 0 if molecules are whole
     */
    PairTerms choose(const std::vector<PairInertia>& pairs, const std::vector<PairInertia>& bonds, double shortest,
                     int mostPairs) const;

    /** How many different pieces are known, of it and of those before it. */
    int countPieces() const;

    struct Molecule;

private:
    void addMaps(const OpenMM::CMAPTorsionForce& force);
    using TermsOf = std::vector<std::vector<int>>;
    void collect(int integrationGroups, const std::string& className);
    bool stiffens(const stiffcore::FunctionTerm& term, stiffcore::TermFunction& energy) const;
    void divide(Molecule& molecule, const TermsOf& coordinatesOf, const TermsOf& functionsOf, const TermsOf& torsionsOf,
                std::vector<stiffcore::FunctionCopy>& functions) const;

    const OpenMM::System& system;
    const BondGraph& graph;
    StiffTerms terms;
    std::vector<StiffTorsion> torsions;
    /// Molecules that differ from each other, and what has been chosen for them; shared with the previous spectrum.
    struct Known;
    std::shared_ptr<Known> known;
    /// For each molecule what it is equal to, and its particles.
    std::vector<std::shared_ptr<const Molecule>> kindOf;
    std::vector<std::vector<int>> members;
    /// For each particle its molecule, and its place there.
    std::vector<int> moleculeOf, placeOf;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_BONDED_SPECTRUM_H_ */
