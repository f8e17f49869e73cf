#ifndef STIFFHOST_HOST_CONSTRAINTS_H_
#define STIFFHOST_HOST_CONSTRAINTS_H_

#include "HostBatches.h"
#include "openmm/System.h"
#include "openmmstiff/SpookIntegrator.h"
#include "openmmstiff/internal/Constraints.h"
#include "stiffcore/constraints/ConstraintSystem.h"
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Constraints and their blocks, arranged once.
 */
template <class Backend> class FixedConstraints : public HostBatches<Backend, stiffcore::ConstraintBatch> {
public:
    explicit FixedConstraints(Backend& backend) : HostBatches<Backend, stiffcore::ConstraintBatch>(backend) {
    }

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
        if (this->areArranged() && knownRevision == integrator.getConstraintRevision())
            return;
        this->forget(); // what is impossible stays so until it is mended
        set = OpenMMStiff::collectConstraints(system, integrator, className);
        this->initialize(system, set, masses);
        knownRevision = integrator.getConstraintRevision();
    }

    int size() const {
        return set.constraints.size();
    }
    const OpenMMStiff::ConstraintSet& getSet() const {
        return set;
    }
    std::string describe(int constraint) const {
        return set.constraints[constraint].describe();
    }

private:
    OpenMMStiff::ConstraintSet set;
    int knownRevision = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_CONSTRAINTS_H_ */
