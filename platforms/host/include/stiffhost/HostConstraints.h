#ifndef STIFFHOST_HOST_CONSTRAINTS_H_
#define STIFFHOST_HOST_CONSTRAINTS_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "openmmstiff/SpookIntegrator.h"
#include "setup/Constraints.h"
#include "setup/Kept.h"
#include "stiffcore/constraints/ConstraintBatch.h"
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Constraints and their blocks, arranged once.
 */
template <class Backend> class FixedConstraints : public HostBatches<Backend, stiffcore::ConstraintBatch> {
public:
    using HostBatches<Backend, stiffcore::ConstraintBatch>::HostBatches;

    /** @param masses   the masses of all particles [dalton] */
    void initialize(const OpenMM::System& system, const OpenMMStiff::ConstraintSet& set,
                    const std::vector<double>& masses) {
        std::vector<std::vector<int>> particles;
        for (const OpenMMStiff::Constraint& constraint : set.constraints)
            particles.push_back(constraint.particles);
        this->arrange(OpenMMStiff::connect(system, particles), set, masses);
    }
};

/**
 * The constraints of a Context and their blocks, kept up to date with the integrator.
 */
template <class Backend> class HostConstraints : public FixedConstraints<Backend> {
public:
    using FixedConstraints<Backend>::FixedConstraints;

    /**
     * Bring the constraints and their blocks up to date.
     *
     * @param masses   the masses of all particles [dalton]
     */
    void prepare(const OpenMM::System& system, const OpenMMStiff::SpookIntegrator& integrator,
                 const std::vector<double>& masses, const std::string& className) {
        auto collect = [&](int) { return OpenMMStiff::collectConstraints(system, integrator, className); };
        if (kept.update(getConstraintRevision(integrator), collect))
            this->initialize(system, kept.get(), masses);
    }

    int size() const {
        return kept.get().constraints.size();
    }
    const OpenMMStiff::ConstraintSet& getSet() const {
        return kept.get();
    }
    std::string describe(int constraint) const {
        return kept.get().constraints[constraint].describe();
    }

private:
    OpenMMStiff::Kept<int, OpenMMStiff::ConstraintSet> kept;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_CONSTRAINTS_H_ */
