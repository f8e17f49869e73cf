#ifndef STIFFHOST_PAIR_BATCHES_H_
#define STIFFHOST_PAIR_BATCHES_H_

#include "HostBatches.h"
#include "setup/KeptPairs.h"
#include "stiffcore/pairs/PairBatch.h"
#include <cmath>
#include <vector>

namespace stiffhost {

/**
 * The penalized and constrained pairs of a Context in batches.
 */
template <class Real> class PairBatches : public HostBatches<Real, stiffcore::PairBatch> {
public:
    using HostBatches<Real, stiffcore::PairBatch>::HostBatches;

    /** Take the pairs that are settled. */
    void follow(const OpenMMStiff::KeptPairs& kept, const std::vector<double>& masses) {
        if (!this->take(kept.getRevision(), kept.getBlocks(), kept.getPairs(), masses))
            return;
        roots.clear();
        for (const auto& pair : kept.getPairs().pairs)
            roots.push_back(std::sqrt(pair.inertia));
        noise.resize(roots.size());
    }

    /** Draw the noise of the auxiliary velocities w. */
    [[gnu::noinline]] const double* drawNoise(double amplitude) {
        Backend& backend = this->backend;
        backend.forEachPart(roots.size(), [&](int begin, int end, int part) {
            for (int p = begin; p < end; p++) {
                const double scale = amplitude / roots[p];
                noise[p] = (scale > 0 ? scale * backend.gaussian(part) : 0);
            }
        });
        return noise.data();
    }

private:
    std::vector<double> roots, noise; // of the inertias
};

} // namespace stiffhost

#endif /* STIFFHOST_PAIR_BATCHES_H_ */
