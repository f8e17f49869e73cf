#ifndef OPENMM_STIFF_SETUP_STIFF_ROWS_H_
#define OPENMM_STIFF_SETUP_STIFF_ROWS_H_

#include "CollectTerms.h"

namespace OpenMMStiff {

/** Which coordinates a method imposes on velocities or positions. */
struct RowSelection {
    /// Those that vibrate with a period shorter than this [ps] when all others are held at equilibrium: infinity for
    /// all that have a potential, 0 for none. Angles have a period if the lengths of their legs are known: those of
    /// stiff bonds.
    double period = 0;
    /// Whether a straight angle is represented by its two bends, which are smooth there, and not by itself.
    bool bends = false;

    bool operator==(const RowSelection& other) const {
        return period == other.period && bends == other.bends;
    }
};

/** Choose the coordinates that are rows of the Jacobian. */
OPENMM_EXPORT_STIFF void chooseRows(StiffTerms& terms, const OpenMM::System& system, const RowSelection& selection);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_STIFF_ROWS_H_ */
