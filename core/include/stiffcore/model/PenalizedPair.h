#ifndef STIFFCORE_MODEL_PENALIZED_PAIR_H_
#define STIFFCORE_MODEL_PENALIZED_PAIR_H_

#include <cmath>
#include <vector>

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

/**
 * Two particles that have an inertia [dalton]: of a bond, that of their relative velocity, M + lambda (e_i - e_j) (e_i
 * - e_j)^T, or where there is no second one, particle2 = -1, of the first one's own, M + lambda e_i e_i^T; of a pair
 * that a user has added, that of its distance.
 */
struct PairInertia {
    int particle1, particle2;
    double inertia;

    bool operator==(const PairInertia& other) const {
        return particle1 == other.particle1 && particle2 == other.particle2 && inertia == other.inertia;
    }
};

/** What a mass penalty adds to the masses. A block has indices of pairs as its terms, of bonds as its other terms. */
struct PairTerms {
    std::vector<PenalizedPair> pairs;
    std::vector<PairInertia> bonds;

    bool operator==(const PairTerms& other) const {
        return pairs == other.pairs && bonds == other.bonds;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_PENALIZED_PAIR_H_ */
