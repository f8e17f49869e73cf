#ifndef OPENMM_STIFF_STIFF_FORCE_SELECTION_H_
#define OPENMM_STIFF_STIFF_FORCE_SELECTION_H_

#include "windowsExportStiff.h"

namespace OpenMMStiff {

/**
 * The choice of the forces that are stiff, shared by the integrators that split the potential into a stiff and a
 * slow part. The stiff part consists of the terms of these forces; everything else is slow.
 */
class OPENMM_EXPORT_STIFF StiffForceSelection {
public:
    /**
     * Get which force groups have been chosen to be stiff; 0 while forces are stiff by their kind. See
     * setStiffForceGroups() for details.
     */
    int getStiffForceGroups() const {
        return stiffForceGroups;
    }
    /**
     * Set which force groups are stiff, as a set of bit flags: the forces of group i are stiff if
     * (groups&(1<<i)) != 0. By default forces are stiff by their kind, see setUseDefaultStiffForceGroups().
     *
     * A Force in a stiff group for which there is no Hessian leads to an OpenMMException that names it, when the
     * Context is created or, if it exists already, at the next step.
     *
     * @param groups   the bit flags of the stiff force groups; an OpenMMException if there is none, call
     *                 setUseDefaultStiffForceGroups(true) to restore the default
     */
    void setStiffForceGroups(int groups);
    /**
     * Get whether forces are stiff by their kind. See setUseDefaultStiffForceGroups() for details.
     */
    bool getUseDefaultStiffForceGroups() const {
        return stiffForceGroups == 0;
    }
    /**
     * Set whether forces are stiff by their kind, which is the default: every HarmonicBondForce, HarmonicAngleForce and
     * ConstraintPenalties, whatever its group.
     *
     * @param use   whether forces are stiff by their kind; false is for where setStiffForceGroups() has chosen groups,
     *              and else an OpenMMException
     */
    void setUseDefaultStiffForceGroups(bool use);

protected:
    StiffForceSelection() : stiffForceGroups(0) {
    }
    ~StiffForceSelection() = default;

private:
    int stiffForceGroups; // 0 if forces are stiff by their kind
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_FORCE_SELECTION_H_ */
