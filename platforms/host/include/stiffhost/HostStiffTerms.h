#ifndef STIFFHOST_HOST_STIFF_TERMS_H_
#define STIFFHOST_HOST_STIFF_TERMS_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "setup/KeptStiffTerms.h"
#include "stiffcore/terms/StiffBatch.h"
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The stiff terms of a Context and their blocks, kept up to date with it.
 */
template <class Real> class HostStiffTerms : public HostBatches<Real, stiffcore::StiffBatch> {
public:
    using HostBatches<Real, stiffcore::StiffBatch>::HostBatches;

    /**
     * Bring the terms and their blocks up to date.
     *
     * @param masses   the masses of all particles [dalton]
     * @return whether anything has changed
     */
    bool prepare(const OpenMM::System& system, const std::vector<double>& masses,
                 const OpenMMStiff::TermSelection& selection, const std::string& className) {
        kept.update(system, selection, className);
        return this->take(kept.getRevision(), kept.getBlocks(), kept.getTerms(), masses);
    }

    /** They have no noise of their own. */
    const double* drawNoise(double) const {
        return nullptr;
    }
    /** Take the values of the Context's parameters. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        this->forEachWorkspace([&](auto& work) {
            for (stiffcore::FunctionCopy& function : work.functions)
                function->setGlobals(parameters);
        });
    }

    /** The parameters of the terms may have changed. */
    void forgetParameters() {
        kept.forgetParameters();
    }

private:
    OpenMMStiff::KeptStiffTerms kept;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STIFF_TERMS_H_ */
