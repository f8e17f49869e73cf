#ifndef STIFFHOST_CONSTRAINT_BATCHES_H_
#define STIFFHOST_CONSTRAINT_BATCHES_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "setup/Constraints.h"
#include "stiffcore/constraints/ConstraintBatch.h"
#include <vector>

namespace stiffhost {

/**
 * Constraints in batches.
 */
template <class Real> class ConstraintBatches : public HostBatches<Real, stiffcore::ConstraintBatch> {
public:
    using HostBatches<Real, stiffcore::ConstraintBatch>::HostBatches;

    /** See HostBatches. */
    bool take(int revision, const OpenMM::System& system, const OpenMMStiff::ConstraintSet& set,
              const std::vector<double>& masses) {
        if (revision == this->getRevision())
            return false;
        std::vector<std::vector<int>> particles;
        for (const OpenMMStiff::Constraint& constraint : set.constraints)
            particles.push_back(constraint.particles);
        return HostBatches<Real, stiffcore::ConstraintBatch>::take(revision, OpenMMStiff::connect(system, particles),
                                                                   set, masses);
    }
};

} // namespace stiffhost

#endif /* STIFFHOST_CONSTRAINT_BATCHES_H_ */
