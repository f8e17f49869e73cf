#include "StiffRows.h"
#include "Masses.h"
#include <cmath>
#include <map>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;

namespace {

using Lengths = std::map<std::pair<int, int>, double>;

/** The equilibrium lengths of bonds. */
Lengths findLengths(const StiffTerms& terms) {
    Lengths lengths;
    for (const HarmonicTerm& term : terms.harmonics) {
        const StiffCoordinate& s = terms.coordinates[term.coordinate];
        if (s.kind == StiffCoordinate::Kind::Distance && term.k != 0)
            lengths[ordered(s.particles[0], s.particles[1])] = term.s0;
    }
    return lengths;
}

/** k g M^-1 g^T of a coordinate at equilibrium [1/ps^2]; 0 for an angle between legs of unknown lengths. */
double squaredFrequency(const System& system, const StiffCoordinate& s, const HarmonicTerm& term,
                        const Lengths& lengths) {
    const auto& [i, j, k] = s.particles;
    if (s.kind == StiffCoordinate::Kind::Distance)
        return term.k * inverseReducedMass(system, i, j);
    const auto leg1 = lengths.find(ordered(j, i)), leg2 = lengths.find(ordered(j, k));
    if (leg1 == lengths.end() || leg2 == lengths.end())
        return 0;
    const double c1 = 1 / leg1->second, c2 = 1 / leg2->second;
    return term.k * (c1 * c1 * inverseMass(system, i) + c2 * c2 * inverseMass(system, k) +
                     (c1 * c1 + c2 * c2 - 2 * c1 * c2 * std::cos(term.s0)) * inverseMass(system, j));
}

} // namespace

void OpenMMStiff::chooseRows(StiffTerms& terms, const System& system, const RowSelection& selection) {
    const double twoPi = 2 * 3.14159265358979323846, period = selection.period;
    const bool all = std::isinf(period);
    const Lengths lengths = findLengths(terms);
    for (StiffCoordinate& s : terms.coordinates)
        s.use = (all ? StiffCoordinate::Use::Coordinate : StiffCoordinate::Use::None);
    for (const HarmonicTerm& term : terms.harmonics) {
        StiffCoordinate& s = terms.coordinates[term.coordinate];
        const bool fast = all || squaredFrequency(system, s, term, lengths) * period * period > twoPi * twoPi;
        s.use = !(term.k != 0 && fast)          ? StiffCoordinate::Use::None
                : selection.bends && s.straight ? StiffCoordinate::Use::Bends
                                                : StiffCoordinate::Use::Coordinate;
    }
}
