#ifndef STIFFCORE_TERMS_PATTERN_FUNCTION_H_
#define STIFFCORE_TERMS_PATTERN_FUNCTION_H_

#include "../coordinates/Angle.h"
#include "../coordinates/Component.h"
#include "../coordinates/Dihedral.h"
#include "../coordinates/Distance.h"
#include "../model/Block.h"
#include "../model/FunctionTerm.h"
#include <algorithm>
#include <array>
#include <vector>

namespace stiffcore {

/** The places of 3x3 blocks in a matrix: for the atoms a >= b of a term, [a(a+1)/2 + b][3 row + column]. */
using HessianSlots = std::vector<std::array<int, 9>>;

/**
 * A FunctionTerm by the places of its particles in their block.
 */
struct PatternFunction {
    int function;
    bool periodic;
    /// Its coordinates; their particles are indices into `atoms`.
    std::vector<InternalCoordinate> coordinates;
    /// The places of the particles in the block.
    std::vector<int> atoms;
    /// Where its Hessian goes, if that is asked for.
    HessianSlots hessianSlots;

    /**
     * @param particles   those of the term, each once, in the order that `atoms` is to have
     */
    PatternFunction(const FunctionTerm& term, const std::vector<int>& particles, const Block& block)
            : function(term.function), periodic(term.periodic), coordinates(term.coordinates),
              atoms(block.findPlaces(particles)) {
        for (InternalCoordinate& coordinate : coordinates)
            for (int a = 0; a < coordinate.getNumParticles(); a++)
                coordinate.particles[a] =
                        std::find(particles.begin(), particles.end(), coordinate.particles[a]) - particles.begin();
    }
};

/** Call visit with a coordinate of a function, at positions by place in the block. */
template <class Scalar, class Visit>
void visitCoordinate(const PatternFunction& term, const InternalCoordinate& coordinate,
                     const std::vector<Vector3<Scalar>>& positions, const Box& box, Visit&& visit) {
    auto place = [&](int a) { return term.atoms[coordinate.particles[a]]; };
    auto leg = [&](int from, int to) { return displacement(positions, place(from), place(to), term.periodic, box); };
    switch (coordinate.kind) {
    case InternalCoordinate::Kind::Distance:
        return visit(Distance<Scalar>(leg(0, 1)));
    case InternalCoordinate::Kind::Angle:
        return visit(Angle<Scalar>(leg(1, 0), leg(1, 2)));
    case InternalCoordinate::Kind::Dihedral:
        return visit(Dihedral<Scalar>(leg(1, 0), leg(2, 1), leg(2, 3)));
    default:
        return visit(Component<Scalar>(positions[place(0)], int(coordinate.kind)));
    }
}

/**
 * Evaluate the coordinates of a function.
 *
 * @param values      the coordinates, written
 * @param gradients   their gradients, four for each, written
 */
template <class Scalar>
void evaluateCoordinates(const PatternFunction& term, const std::vector<Vector3<Scalar>>& positions, const Box& box,
                         Scalar* values, std::vector<Vector3<Scalar>>& gradients) {
    for (size_t k = 0; k < term.coordinates.size(); k++)
        visitCoordinate(term, term.coordinates[k], positions, box, [&](const auto& q) {
            values[k] = q.value;
            for (int a = 0; a < q.numAtoms; a++)
                gradients[4 * k + a] = q.gradient(a);
        });
}

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_PATTERN_FUNCTION_H_ */
