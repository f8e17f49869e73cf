#ifndef STIFFHOST_HOST_STIFF_TERMS_H_
#define STIFFHOST_HOST_STIFF_TERMS_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "setup/Blocks.h"
#include "setup/Kept.h"
#include "setup/StiffTerms.h"
#include "stiffcore/terms/StiffBatch.h"
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

/** Which terms an integrator asks for, see collectStiffTerms() and chooseRows(), and what of them. */
struct TermSelection {
    OpenMMStiff::TermScope scope = {};
    int stiffGroups = 0, integrationGroups = 0;
    OpenMMStiff::RowSelection rows = {};
    stiffcore::StiffNeeds needs = {};

    bool operator==(const TermSelection& other) const {
        return scope == other.scope && stiffGroups == other.stiffGroups &&
               integrationGroups == other.integrationGroups && rows == other.rows && needs == other.needs;
    }
};

/**
 * The stiff terms of a Context and their blocks, kept up to date with it. See HostParticles for the Backend.
 */
template <class Backend> class HostStiffTerms : public HostBatches<Backend, stiffcore::StiffBatch> {
public:
    using HostBatches<Backend, stiffcore::StiffBatch>::HostBatches;

    /**
     * Bring the terms and their blocks up to date.
     *
     * @param masses   the masses of all particles [dalton]
     * @return whether anything has changed
     */
    bool prepare(const OpenMM::System& system, const std::vector<double>& masses, const TermSelection& selection,
                 const std::string& className) {
        auto collect = [&](const TermSelection& selection) {
            OpenMMStiff::StiffTerms terms = OpenMMStiff::collectStiffTerms(
                    system, selection.scope, selection.stiffGroups, selection.integrationGroups, className);
            OpenMMStiff::chooseRows(terms, system, selection.rows);
            terms.needs = selection.needs;
            return TermsInBlocks{terms, OpenMMStiff::findBlocks(system, terms, className)};
        };
        if (!kept.update(selection, collect))
            return false;
        this->arrange(kept.get().blocks, kept.get().terms, masses);
        return true;
    }

    /** Take the values of the Context's parameters. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        this->forEachWorkspace([&](auto& work) {
            for (stiffcore::FunctionCopy& function : work.functions)
                function.setGlobals(parameters);
        });
    }

    /** The parameters of the terms may have changed. */
    void forgetParameters() {
        kept.forget();
    }

private:
    struct TermsInBlocks {
        stiffcore::StiffTerms terms;
        std::vector<stiffcore::Block> blocks;
        bool operator==(const TermsInBlocks& other) const {
            return terms == other.terms; // the blocks follow from them
        }
    };
    OpenMMStiff::Kept<TermSelection, TermsInBlocks> kept;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STIFF_TERMS_H_ */
