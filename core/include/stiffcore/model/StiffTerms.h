#ifndef STIFFCORE_MODEL_STIFF_TERMS_H_
#define STIFFCORE_MODEL_STIFF_TERMS_H_

#include "FunctionTerm.h"
#include "TermFunction.h"
#include <algorithm>
#include <array>
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
    /// Whether it is an angle with its minimum at 180 degrees: it bends in two directions alike.
    bool straight = false;
    Use use = Use::None;

    int getNumParticles() const {
        return kind == Kind::Distance ? 2 : 3;
    }
    bool operator==(const StiffCoordinate& other) const {
        return kind == other.kind && particles == other.particles && periodic == other.periodic &&
               force == other.force && index == other.index && straight == other.straight && use == other.use;
    }
};

/**
 * The potential k/2 (s - s0)^2 of a stiff coordinate.
 */
struct HarmonicTerm {
    /// Index of the coordinate.
    int coordinate;
    /// Force constant [kJ/mol/nm^2 or kJ/mol/rad^2] and equilibrium value [nm or rad].
    double k, s0;

    bool operator==(const HarmonicTerm& other) const {
        return coordinate == other.coordinate && k == other.k && s0 == other.s0;
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
 * The stiff part of a potential: stiff coordinates, and potentials of these and of others. A coordinate has either a
 * harmonic potential or one among the functions.
 */
struct StiffTerms {
    std::vector<StiffCoordinate> coordinates;
    /// In the order of their coordinates.
    std::vector<HarmonicTerm> harmonics;
    std::vector<FunctionTerm> functionTerms;
    TermFunctions functions;
    StiffNeeds needs;

    bool operator==(const StiffTerms& other) const {
        return coordinates == other.coordinates && harmonics == other.harmonics &&
               functionTerms == other.functionTerms && describe(functions) == describe(other.functions) &&
               needs == other.needs;
    }
};

/** The harmonic potential of a coordinate; null if it has another one. */
inline const HarmonicTerm* findHarmonic(const StiffTerms& terms, int coordinate) {
    const auto place =
            std::lower_bound(terms.harmonics.begin(), terms.harmonics.end(), coordinate,
                             [](const HarmonicTerm& term, int coordinate) { return term.coordinate < coordinate; });
    return place == terms.harmonics.end() || place->coordinate != coordinate ? nullptr : &*place;
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_STIFF_TERMS_H_ */
