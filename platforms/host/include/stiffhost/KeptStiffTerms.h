#ifndef STIFFHOST_KEPT_STIFF_TERMS_H_
#define STIFFHOST_KEPT_STIFF_TERMS_H_

#include "openmm/System.h"
#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "setup/Blocks.h"
#include "setup/Kept.h"
#include "setup/StiffTerms.h"
#include <limits>
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

inline TermSelection selectTerms(const OpenMMStiff::ZhangSkeelIntegrator& integrator) {
    TermSelection selection;
    selection.scope = OpenMMStiff::findTermScope(integrator);
    selection.stiffGroups = integrator.getStiffForceGroups();
    selection.integrationGroups = integrator.getIntegrationForceGroups();
    selection.needs.hessian = true;
    selection.needs.thirdDerivatives = (integrator.getMethod() == OpenMMStiff::ZhangSkeelIntegrator::ZhangSkeel);
    const auto* langevin = dynamic_cast<const OpenMMStiff::ZhangSkeelLangevinIntegrator*>(&integrator);
    if (langevin != nullptr && !langevin->getThermalizeStiffModes())
        selection.rows.period = std::numeric_limits<double>::infinity();
    return selection;
}

inline TermSelection selectTerms(const OpenMMStiff::ImpulseIntegrator& integrator) {
    using Integrator = OpenMMStiff::ImpulseIntegrator;
    TermSelection selection;
    selection.scope = OpenMMStiff::TermScope::Harmonic;
    selection.stiffGroups = integrator.getStiffForceGroups();
    selection.integrationGroups = integrator.getIntegrationForceGroups();
    selection.rows.period = (integrator.getKick() == Integrator::Plain ? 0 : integrator.getProjectedPeriod());
    selection.rows.bends = (integrator.getKick() == Integrator::Mollified);
    selection.needs.frequency = true;
    return selection;
}

/**
 * The stiff terms of a System and their blocks, kept up to date with it.
 */
class KeptStiffTerms {
public:
    /** Bring them up to date; whether anything has changed. */
    bool update(const OpenMM::System& system, const TermSelection& selection, const std::string& className) {
        return kept.update(selection, [&](const TermSelection& selection) {
            OpenMMStiff::StiffTerms terms = OpenMMStiff::collectStiffTerms(
                    system, selection.scope, selection.stiffGroups, selection.integrationGroups, className);
            OpenMMStiff::chooseRows(terms, system, selection.rows);
            terms.needs = selection.needs;
            return TermsInBlocks{terms, OpenMMStiff::findBlocks(system, terms, className)};
        });
    }
    /** Their parameters may have changed. */
    void forgetParameters() {
        kept.forget();
    }
    bool areUpToDate(const TermSelection& selection) const {
        return kept.isUpToDate(selection);
    }
    const OpenMMStiff::StiffTerms& getTerms() const {
        return kept.get().terms;
    }
    const std::vector<stiffcore::Block>& getBlocks() const {
        return kept.get().blocks;
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

#endif /* STIFFHOST_KEPT_STIFF_TERMS_H_ */
