#ifndef STIFFCORE_MODEL_INTERNAL_COORDINATE_H_
#define STIFFCORE_MODEL_INTERNAL_COORDINATE_H_

#include <algorithm>
#include <array>
#include <utility>

namespace stiffcore {

/**
 * An internal coordinate of one to four particles: a Cartesian component, a distance, an angle (its vertex in the
 * middle) or a dihedral angle with OpenMM's sign.
 */
struct InternalCoordinate {
    enum class Kind { X, Y, Z, Distance, Angle, Dihedral };
    Kind kind;
    std::array<int, 4> particles;

    int getNumParticles() const {
        return kind == Kind::Dihedral ? 4 : kind == Kind::Angle ? 3 : kind == Kind::Distance ? 2 : 1;
    }
    bool isCartesian() const {
        return getNumParticles() == 1;
    }
    bool operator==(const InternalCoordinate& other) const {
        return kind == other.kind && particles == other.particles;
    }
};

/** Two particles in ascending order. */
inline std::pair<int, int> ordered(int particle1, int particle2) {
    return {std::min(particle1, particle2), std::max(particle1, particle2)};
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_INTERNAL_COORDINATE_H_ */
