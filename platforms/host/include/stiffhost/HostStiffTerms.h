#ifndef STIFFHOST_HOST_STIFF_TERMS_H_
#define STIFFHOST_HOST_STIFF_TERMS_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "setup/Kept.h"
#include "setup/TermSelection.h"
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
        kept.update(selection, [&](const OpenMMStiff::TermSelection& present) {
            return OpenMMStiff::collectTermsInBlocks(system, present, className);
        });
        return this->take(kept.getRevision(), kept.get().blocks, kept.get().terms, masses);
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

    /** A number that is another one for other harmonic terms. */
    double sumHarmonic() const {
        double sum = 0;
        for (const stiffcore::StiffCoordinate& coordinate : kept.get().terms.coordinates)
            sum += coordinate.k * (1 + coordinate.s0);
        return sum;
    }
    /** The parameters of the terms may have changed. */
    void forgetParameters() {
        kept.forget();
    }

private:
    OpenMMStiff::Kept<OpenMMStiff::TermSelection, OpenMMStiff::TermsInBlocks> kept;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STIFF_TERMS_H_ */
