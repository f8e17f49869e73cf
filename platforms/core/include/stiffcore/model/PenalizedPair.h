#ifndef STIFFCORE_MODEL_PENALIZED_PAIR_H_
#define STIFFCORE_MODEL_PENALIZED_PAIR_H_

#include <cmath>

namespace stiffcore {

/**
 * Two particles whose distance carries an extra inertia, or is constrained.
 */
struct PenalizedPair {
    int particle1, particle2;
    /// The inertia kappa [dalton]; infinity for a constraint.
    double inertia;
    /// The distance that a constraint keeps [nm].
    double distance;
    /// Whether displacements follow the minimum image convention.
    bool periodic;

    bool isConstrained() const {
        return std::isinf(inertia);
    }
    bool operator==(const PenalizedPair& other) const {
        return particle1 == other.particle1 && particle2 == other.particle2 && inertia == other.inertia &&
               distance == other.distance && periodic == other.periodic;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_PENALIZED_PAIR_H_ */
