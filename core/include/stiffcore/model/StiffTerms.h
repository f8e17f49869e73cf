#ifndef STIFFCORE_MODEL_STIFF_TERMS_H_
#define STIFFCORE_MODEL_STIFF_TERMS_H_

#include "FunctionTerm.h"
#include "TermFunction.h"
#include <array>
#include <tuple>
#include <vector>

namespace stiffcore {

/**
 * A stiff internal coordinate s(x): the length of a bond, or an angle.
 */
struct StiffCoordinate {
    enum class Kind { Distance, Angle };
    /// What of it is a row of the Jacobian that a method imposes: nothing, the coordinate, or the two bends that take
    /// the place of a straight angle (see Bend).
    enum class Use { None, Coordinate, Bends };
    Kind kind;
    /// The particles, in the order of the Force: two for a distance; three for an angle, its vertex in the middle.
    std::array<int, 3> particles;
    /// Whether displacements follow the minimum image convention.
    bool periodic;
    /// Where it comes from: index of the Force in the System, and of the term in the Force.
    int force, index;
    /// Whether its potential is k/2 (s - s0)^2, or one among the functions; the force constant [kJ/mol/nm^2 or
    /// kJ/mol/rad^2] and the equilibrium value [nm or rad].
    bool isHarmonic = false;
    double k = 0, s0 = 0;
    /// Whether it is an angle with its minimum at 180 degrees: it bends in two directions alike.
    bool straight = false;
    Use use = Use::None;

    int getNumParticles() const {
        return kind == Kind::Distance ? 2 : 3;
    }
    std::vector<int> getParticles() const {
        return {particles.begin(), particles.begin() + getNumParticles()};
    }
    bool operator==(const StiffCoordinate& other) const {
        auto all = [](const StiffCoordinate& s) {
            return std::tie(s.kind, s.particles, s.periodic, s.force, s.index, s.isHarmonic, s.k, s.s0, s.straight,
                            s.use);
        };
        return all(*this) == all(other);
    }
};

/**
 * What a method asks of stiff terms: the matrix M + c H1, third derivatives, the frequency of the stiffest mode.
 */
struct StiffNeeds {
    bool hessian = false, thirdDerivatives = false, frequency = false;

    bool operator==(const StiffNeeds& other) const {
        return hessian == other.hessian && thirdDerivatives == other.thirdDerivatives && frequency == other.frequency;
    }
};

/**
 * The stiff part of a potential: stiff coordinates, with their harmonic potentials, and potentials of these and others.
 */
struct StiffTerms {
    std::vector<StiffCoordinate> coordinates;
    std::vector<FunctionTerm> functionTerms;
    TermFunctions functions;
    StiffNeeds needs;

    bool operator==(const StiffTerms& other) const {
        return coordinates == other.coordinates && functionTerms == other.functionTerms &&
               describe(functions) == describe(other.functions) && needs == other.needs;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_STIFF_TERMS_H_ */
