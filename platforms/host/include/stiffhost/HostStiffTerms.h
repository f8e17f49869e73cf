#ifndef STIFFHOST_HOST_STIFF_TERMS_H_
#define STIFFHOST_HOST_STIFF_TERMS_H_

#include "HostBatches.h"
#include "KeptStiffTerms.h"
#include "openmm/System.h"
#include "stiffcore/terms/StiffBatch.h"
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

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
        if (!kept.update(system, selection, className))
            return false;
        this->arrange(kept.getBlocks(), kept.getTerms(), masses);
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
        kept.forgetParameters();
    }

private:
    KeptStiffTerms kept;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STIFF_TERMS_H_ */
