#ifndef OPENMM_STIFF_SETUP_KEPT_STIFF_TERMS_H_
#define OPENMM_STIFF_SETUP_KEPT_STIFF_TERMS_H_

#include "Blocks.h"
#include "Kept.h"
#include "StiffRows.h"
#include "openmm/System.h"
#include <string>
#include <vector>

namespace OpenMMStiff {

class ImpulseIntegrator;
class ZhangSkeelIntegrator;

/** Which terms an integrator asks for, see collectTerms() and chooseRows(), and what of them. */
struct OPENMM_EXPORT_STIFF TermSelection {
    TermScope scope = {};
    int stiffGroups = 0, integrationGroups = 0;
    RowSelection rows = {};
    stiffcore::StiffNeeds needs = {};

    TermSelection() = default;
    explicit TermSelection(const ZhangSkeelIntegrator& integrator);
    explicit TermSelection(const ImpulseIntegrator& integrator);
    bool operator==(const TermSelection& other) const {
        return scope == other.scope && stiffGroups == other.stiffGroups &&
               integrationGroups == other.integrationGroups && rows == other.rows && needs == other.needs;
    }
};

/**
 * The stiff terms of a System and their blocks, kept up to date with it.
 */
class OPENMM_EXPORT_STIFF KeptStiffTerms {
public:
    /** Bring them up to date. */
    void update(const OpenMM::System& system, const TermSelection& selection, const std::string& className);
    /** Their parameters may have changed. */
    void forgetParameters() {
        kept.forget();
    }
    /** The number of times that they have changed. */
    int getRevision() const {
        return kept.getRevision();
    }
    const StiffTerms& getTerms() const {
        return kept.get().terms;
    }
    const std::vector<Block>& getBlocks() const {
        return kept.get().blocks;
    }

private:
    struct TermsInBlocks {
        StiffTerms terms;
        std::vector<Block> blocks;
        bool operator==(const TermsInBlocks& other) const {
            return terms == other.terms; // the blocks follow from them
        }
    };
    Kept<TermSelection, TermsInBlocks> kept;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_STIFF_TERMS_H_ */
