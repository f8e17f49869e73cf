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
    for (const StiffCoordinate& s : terms.coordinates)
        if (s.kind == StiffCoordinate::Kind::Distance && s.k != 0)
            lengths[ordered(s.particles[0], s.particles[1])] = s.s0;
    return lengths;
}

/** k g M^-1 g^T of a coordinate at equilibrium [1/ps^2]; 0 for an angle between legs of unknown lengths. */
double squaredFrequency(const System& system, const StiffCoordinate& s, const Lengths& lengths) {
    const auto& [i, j, k] = s.particles;
    if (s.kind == StiffCoordinate::Kind::Distance)
        return s.k * inverseReducedMass(system, i, j);
    const auto leg1 = lengths.find(ordered(j, i)), leg2 = lengths.find(ordered(j, k));
    if (leg1 == lengths.end() || leg2 == lengths.end())
        return 0;
    return s.k * inverseMassOfAngle(system, s.particles, leg1->second, leg2->second, s.s0);
}

} // namespace

void OpenMMStiff::chooseRows(StiffTerms& terms, const System& system, const RowSelection& selection) {
    const double twoPi = 2 * 3.14159265358979323846, period = selection.period;
    const bool all = std::isinf(period);
    const Lengths lengths = findLengths(terms);
    for (StiffCoordinate& s : terms.coordinates) {
        const bool isFast = all || squaredFrequency(system, s, lengths) * period * period > twoPi * twoPi;
        s.use = !isFast || (s.isHarmonic && s.k == 0) ? StiffCoordinate::Use::None
                : selection.bends && s.straight       ? StiffCoordinate::Use::Bends
                                                      : StiffCoordinate::Use::Coordinate;
    }
}
