#ifndef STIFFCORE_MODEL_PAIR_INERTIA_H_
#define STIFFCORE_MODEL_PAIR_INERTIA_H_

#include <cmath>
#include <tuple>
#include <vector>

namespace stiffcore {

/**
 * Two particles that have an inertia [dalton]: a pair that of its distance, which is infinite for a constraint; a bond
 * that of the relative velocity, M + lambda (e_i - e_j) (e_i - e_j)^T, or where there is no second particle, particle2
 * = -1, of the first one's own, M + lambda e_i e_i^T.
 */
struct PairInertia {
    int particle1, particle2;
    double inertia;
    /// The distance that a constraint keeps [nm].
    double distance = 0;
    /// Whether displacements follow the minimum image convention.
    bool periodic = false;
    /// Whether a user has given it.
    bool isGiven = false;

    bool isConstrained() const {
        return std::isinf(inertia);
    }
    std::vector<int> getParticles() const {
        return particle2 < 0 ? std::vector<int>{particle1} : std::vector<int>{particle1, particle2};
    }
    bool operator==(const PairInertia& other) const {
        auto all = [](const PairInertia& p) {
            return std::tie(p.particle1, p.particle2, p.inertia, p.distance, p.periodic, p.isGiven);
        };
        return all(*this) == all(other);
    }
};

/** What a mass penalty adds to the masses. A block has indices of pairs as its terms, of bonds as its other terms. */
struct PairTerms {
    std::vector<PairInertia> pairs, bonds;
    /// Whether batches are those of the root of the masses, see MassRoot.h.
    bool ofRoot = false;

    bool operator==(const PairTerms& other) const {
        return pairs == other.pairs && bonds == other.bonds && ofRoot == other.ofRoot;
    }
};

/** The masses of all particles with what is added to each by itself; none if nothing is. */
inline std::vector<double> addInertias(const PairTerms& terms, const std::vector<double>& masses) {
    std::vector<double> sums;
    for (const PairInertia& bond : terms.bonds)
        if (bond.particle2 < 0) {
            if (sums.empty())
                sums = masses;
            sums[bond.particle1] += bond.inertia;
        }
    return sums;
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_PAIR_INERTIA_H_ */
