#ifndef OPENMM_STIFF_SETUP_TERM_SELECTION_H_
#define OPENMM_STIFF_SETUP_TERM_SELECTION_H_

#include "Blocks.h"
#include "CollectTerms.h"
#include "openmm/System.h"
#include <string>
#include <vector>

namespace OpenMMStiff {

class ImpulseIntegrator;
class ZhangSkeelIntegrator;

/** Which terms an integrator asks for, see collectTerms(), and what of them. */
struct OPENMM_EXPORT_STIFF TermSelection {
    TermScope scope = {};
    int stiffGroups = 0, integrationGroups = 0;
    /// Of the coordinates, those are imposed on velocities or positions, as rows of the Jacobian, that vibrate with a
    /// period shorter than this [ps] when all others are held at equilibrium: infinity for all that have a potential, 0
    /// for none. Angles have a period if the lengths of their legs are known: those of stiff bonds.
    double period = 0;
    /// Whether a straight angle is represented by its two bends, which are smooth there, and not by itself.
    bool bends = false;
    stiffcore::StiffNeeds needs = {};

    TermSelection() = default;
    explicit TermSelection(const ZhangSkeelIntegrator& integrator);
    explicit TermSelection(const ImpulseIntegrator& integrator);
    bool operator==(const TermSelection& other) const {
        return scope == other.scope && stiffGroups == other.stiffGroups &&
               integrationGroups == other.integrationGroups && period == other.period && bends == other.bends &&
               needs == other.needs;
    }
};

/** Stiff terms and the blocks that they connect, with the free particles. */
struct TermsInBlocks {
    StiffTerms terms;
    std::vector<Block> blocks;
    bool operator==(const TermsInBlocks& other) const {
        return terms == other.terms; // the blocks follow from them
    }
};

/** Collect the terms that are asked for; see collectTerms() and findBlocks() for what is refused. */
OPENMM_EXPORT_STIFF TermsInBlocks collectTermsInBlocks(const OpenMM::System& system, const TermSelection& selection,
                                                       const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_TERM_SELECTION_H_ */
