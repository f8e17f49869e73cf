#ifndef OPENMM_STIFF_STIFF_FORCE_SELECTION_H_
#define OPENMM_STIFF_STIFF_FORCE_SELECTION_H_

#include "internal/windowsExportStiff.h"

namespace OpenMMStiff {

/**
 * The choice of the forces that are stiff, shared by the integrators that split the potential into a stiff and a
 * slow part. The stiff part consists of the terms of these forces; everything else is slow.
 */
class OPENMM_EXPORT_STIFF StiffForceSelection {
public:
    /**
     * Get which force groups are stiff. See setStiffForceGroups() for details.
     */
    int getStiffForceGroups() const {
        return stiffForceGroups;
    }
    /**
     * Set which force groups are stiff, as a set of bit flags: the forces of group i are stiff if
     * (groups&(1<<i)) != 0. With 0, the default, forces are stiff by their kind: every HarmonicBondForce,
     * HarmonicAngleForce and ConstraintPenalties, whatever its group.
     *
     * A Force in a stiff group for which there is no Hessian leads to an OpenMMException that names it, when the
     * Context is created or, if it exists already, at the next step.
     *
     * @param groups   the bit flags of the stiff force groups
     */
    void setStiffForceGroups(int groups) {
        stiffForceGroups = groups;
    }

protected:
    StiffForceSelection() : stiffForceGroups(0) {
    }
    ~StiffForceSelection() = default;

private:
    int stiffForceGroups;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_FORCE_SELECTION_H_ */
