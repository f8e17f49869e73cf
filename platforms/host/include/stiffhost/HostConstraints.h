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
 * The constraints of a Context and their blocks, kept up to date with the integrator.
 */
template <class Backend> class HostConstraints : public HostBatches<Backend, stiffcore::ConstraintBatch> {
public:
    explicit HostConstraints(Backend& backend) : HostBatches<Backend, stiffcore::ConstraintBatch>(backend) {
    }

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
        const OpenMMStiff::ConstraintSet set = OpenMMStiff::collectConstraints(system, integrator, className);
        std::vector<std::vector<int>> particles;
        for (const OpenMMStiff::Constraint& constraint : set.constraints)
            particles.push_back(constraint.particles);
        this->arrange(OpenMMStiff::connect(system, particles), set, masses);
        numConstraints = set.constraints.size();
        knownRevision = integrator.getConstraintRevision();
    }

    int size() const {
        return numConstraints;
    }

private:
    int numConstraints = 0, knownRevision = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_CONSTRAINTS_H_ */
