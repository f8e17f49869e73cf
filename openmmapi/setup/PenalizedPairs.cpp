#include "PenalizedPairs.h"
#include "BondGraph.h"
#include "FunctionTerms.h"
#include "Masses.h"
#include "CollectTerms.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/CustomTorsionForce.h"
#include "openmm/OpenMMException.h"
#include "stiffcore/terms/FunctionCopy.h"
#include "openmmstiff/internal/Message.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

const double infinity = std::numeric_limits<double>::infinity(), pi = 3.14159265358979323846;
/// Angles as close to 0 or 180 degrees as this (their sine) do not tell from their 1-3 distance how far they are bent.
const double minSine = 0.3;
/// With less energy than this at length 0 (k r^2 / 2, some 20 kT) the particles of a pair pass through each other: its
/// length turns around there, and no inertia can follow [kJ/mol].
const double minBarrier = 50;
/// An inertia smaller than this, relative to the reduced mass, is none: its reciprocal would drown the others.
const double minInertia = 1e-9;
/// A bond is at least so stiff, relative to what is stiffest at one of its particles. In CHARMM36 Urey-Bradley terms
/// have up to 0.2 (the guanidinium of ARG), and the S-S bond of cystine has 0.7.
const double leastOfStiffest = 0.4;
/// What a constraint counts for there: somewhat less than the bonds that it stands for [kJ/mol/nm^2].
const double stiffnessOfConstraint = 2e5;

/// An ordinary one [dalton].
const double massOfHydrogen = 1.008;
/** Where the energy of a custom force's terms, a function of one coordinate, is least; and its curvature there. */
class Minima {
public:
    struct Minimum {
        double place = 0, curvature = 0; // 0 if there is none
    };

    /** @param places   minima are looked for between each and the next */
    Minima(const ParsedFunction& energy, const std::map<string, double>& globals, const vector<double>& places)
            : energy(*energy.function, 2), places(places), isConstant(energy.coordinates.empty()) {
        this->energy.setGlobals(globals);
    }

    const Minimum& find(const vector<double>& parameters) {
        const auto [known, isNew] = minima.try_emplace(parameters);
        if (isNew && !isConstant) {
            std::copy(parameters.begin(), parameters.end(), energy.arguments() + 1);
            known->second = search();
        }
        return known->second;
    }

private:
    Minimum search() {
        Minimum least;
        double leastEnergy = infinity, slope = getSlope(places[0]);
        for (size_t k = 1; k < places.size(); k++) {
            double low = places[k - 1], high = places[k];
            const double before = std::exchange(slope, getSlope(high));
            if (!(before < 0 && slope >= 0))
                continue;
            while (high - low > 1e-14 * high) {
                const double middle = 0.5 * (low + high);
                if (middle <= low || middle >= high)
                    break;
                (getSlope(middle) < 0 ? low : high) = middle;
            }
            energy.arguments()[0] = high;
            double curvature = 0;
            energy.second([&](int, int, double second) { curvature = second; });
            if (std::isfinite(curvature) && energy.value() < leastEnergy) {
                leastEnergy = energy.value();
                least = {high, curvature};
            }
        }
        return least;
    }
    double getSlope(double place) {
        energy.arguments()[0] = place;
        double slope = 0;
        energy.first([&](int, double first) { slope = first; });
        return slope;
    }

    FunctionCopy energy;
    const vector<double> places;
    const bool isConstant;
    std::map<vector<double>, Minimum> minima; // by the parameters of a term
};

vector<double> placesOfDistances() {
    const double first = 0.01, last = 10, ratio = 1.03; // nm
    vector<double> places = {first};
    while (places.back() < last)
        places.push_back(ratio * places.back());
    return places;
}

vector<double> placesOfAngles() {
    const int number = 180;
    vector<double> places;
    for (int i = 1; i <= number; i++)
        places.push_back(i * pi / number);
    return places;
}

/** Call visit(force, its index) for each custom force that may be one of bonds or angles. */
template <class Visit> void visitCustomForces(const System& system, Visit&& visit) {
    for (int f = 0; f < system.getNumForces(); f++) {
        const Force& force = system.getForce(f);
        if (auto bonds = dynamic_cast<const CustomBondForce*>(&force))
            visit(*bonds, f);
        else if (auto angles = dynamic_cast<const CustomAngleForce*>(&force))
            visit(*angles, f);
        else if (auto compounds = dynamic_cast<const CustomCompoundBondForce*>(&force))
            visit(*compounds, f);
    }
}

/**
 * Throw an exception if an inertia cannot be that of two particles.
 *
 * @param mayBeAlone   whether there may be no second one, -1
 * @param name      what it is the inertia of, for error messages
 * @param remedy    the method by which it is changed
 * @return 1/m1 + 1/m2 [1/dalton]
 */
double requireMovable(const System& system, const PairInertia& pair, bool mayBeAlone, const string& name,
                      const char* remedy) {
    auto refuse = [&](const string& why) {
        throw OpenMMException(message(name, ", between particles ", pair.particle1, " and ", pair.particle2, ", ", why,
                                      ". Change it with ", remedy, ", or leave it out"));
    };
    for (int particle : {pair.particle1, pair.particle2}) {
        if (mayBeAlone && particle == -1 && particle == pair.particle2)
            continue;
        if (particle < 0 || particle >= system.getNumParticles())
            refuse("names a particle that the System, which has " + std::to_string(system.getNumParticles()) +
                   ", does not have");
        if (system.isVirtualSite(particle))
            refuse("acts on a virtual site, which has no motion of its own");
    }
    const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
    if (inverseMass == 0)
        refuse("has no particle with mass, and never moves");
    return inverseMass;
}

/** What a hydrogen is bound to; -1 if it is none. */
int findPartner(const System& system, const BondGraph& graph, int hydrogen) {
    const double largestMass = 5, largestRatio = 0.5, mass = system.getParticleMass(hydrogen);
    if (mass <= 0 || mass > largestMass)
        return -1;
    int partner = -1;
    std::pair<bool, double> best; // whether it is no constraint, and its length
    for (int other : graph.neighbours[hydrogen]) {
        const double otherMass = system.getParticleMass(other);
        const auto& held = graph.constraintsOf[hydrogen];
        const std::pair<bool, double> bond = {
                std::none_of(held.begin(), held.end(), [&](const auto& each) { return each.first == other; }),
                graph.lengths.at(ordered(hydrogen, other))};
        if ((otherMass == 0 || mass <= largestRatio * otherMass) && (partner < 0 || bond < best)) {
            partner = other;
            best = bond;
        }
    }
    return partner;
}

/**
 * What the hydrogens of a particle need of the inertia that turning in a field of others asks for. Those of a carbon with
 * four neighbours are held by four distances each and need less, but not nothing: a hydrogen of 1 dalton that is fast
 * turns by 20 degrees in half a step of 12 fs, which is too far to solve for; the most has one without others beside it.
 * With heavy hydrogens, a carbon has lost what they have gained.
 */
double findNeed(const System& system, const BondGraph& graph, int particle) {
    const double ofOne = 0.5, ofSeveral = 0.35;
    double mass = system.getParticleMass(particle);
    int number = 0;
    for (int other : graph.neighbours[particle])
        if (findPartner(system, graph, other) == particle) {
            mass += std::max(0.0, system.getParticleMass(other) - massOfHydrogen);
            number++;
        }
    const bool isSaturatedCarbon = (graph.neighbours[particle].size() == 4 && mass > 11 && mass < 13);
    return !isSaturatedCarbon ? 1 : number > 1 ? ofSeveral : ofOne;
}

} // namespace

vector<PenalizedPair> OpenMMStiff::readConstraints(const System& system) {
    vector<PenalizedPair> constraints(system.getNumConstraints());
    for (int c = 0; c < system.getNumConstraints(); c++) {
        PenalizedPair& pair = constraints[c];
        system.getConstraintParameters(c, pair.particle1, pair.particle2, pair.distance);
        pair.inertia = infinity;
        pair.periodic = false;
    }
    return constraints;
}

vector<const double*> OpenMMStiff::selectParameters(const System& system, const std::map<string, double>& parameters) {
    vector<const double*> selected;
    auto select = [&](const auto& force) {
        for (int i = 0; i < force.getNumGlobalParameters(); i++)
            selected.push_back(&parameters.at(force.getGlobalParameterName(i)));
    };
    visitCustomForces(system, [&](const auto& force, int) { select(force); });
    for (int f = 0; f < system.getNumForces(); f++)
        if (auto torsions = dynamic_cast<const CustomTorsionForce*>(&system.getForce(f)))
            select(*torsions);
    return selected;
}

/** At the minimum of its energy. */
struct BondedStiffness::Angle {
    int end1, end2;
    /// The vertex, or the particles of which it is the one that is bound to both ends.
    vector<int> vertices;
    int force;
    double theta, curvature;
};

BondedStiffness::BondedStiffness(const System& system, const vector<PenalizedPair>& constraints, int integrationGroups,
                                 const std::map<string, double>& parameters, const string& className) {
    vector<Angle> angles;
    const StiffTerms harmonic = collectTerms(system, TermScope::HarmonicForces, 0, integrationGroups, className);
    for (const HarmonicTerm& term : harmonic.harmonics) {
        const StiffCoordinate& s = harmonic.coordinates[term.coordinate];
        const auto& [i, j, k] = s.particles;
        if (s.kind == StiffCoordinate::Kind::Distance)
            addDistance(findPair(system, i, j, s.force), term.s0, term.k, true);
        else
            angles.push_back({i, k, {j}, s.force, term.s0, term.k});
    }
    visitCustomForces(system, [&](const auto& force, int index) {
        if ((integrationGroups & (1 << force.getForceGroup())) == 0)
            return;
        using ForceType = std::decay_t<decltype(force)>;
        vector<double> own;
        if constexpr (std::is_same_v<ForceType, CustomBondForce>) {
            Minima minima(parseEnergy(force), parameters, placesOfDistances());
            for (int t = 0, i, j; t < force.getNumBonds(); t++) {
                force.getBondParameters(t, i, j, own);
                const Minima::Minimum& minimum = minima.find(own);
                if (i != j && minimum.curvature != 0)
                    addDistance(findPair(system, i, j, index), minimum.place, minimum.curvature, false);
            }
        }
        else if constexpr (std::is_same_v<ForceType, CustomAngleForce>) {
            Minima minima(parseEnergy(force), parameters, placesOfAngles());
            for (int t = 0, i, j, k; t < force.getNumAngles(); t++) {
                force.getAngleParameters(t, i, j, k, own);
                const Minima::Minimum& minimum = minima.find(own);
                angles.push_back({i, k, {j}, index, minimum.place, minimum.curvature});
            }
        }
        else if (const auto angle = parsePointAngle(force)) {
            Minima minima(angle->energy, parameters, placesOfAngles());
            vector<int> particles;
            for (int t = 0; t < force.getNumBonds(); t++) {
                force.getBondParameters(t, particles, own);
                const Minima::Minimum& minimum = minima.find(own);
                angles.push_back({particles[angle->ends[0]], particles[angle->ends[1]], particles, index, minimum.place,
                                  minimum.curvature});
            }
        }
    });
    findBonds(system, constraints);
    for (const Angle& angle : angles)
        if (angle.end1 != angle.end2 && angle.curvature != 0)
            addAngle(system, angle);
    for (size_t p = 0; p < pairs.size(); p++) {
        Pair& pair = pairs[p];
        const Parts& part = parts[p];
        const double ofDistance = (pair.isBond || part.angles > 0 ? pair.ofDistance : part.harmonic);
        pair.curvature = ofDistance + part.angles;
        if (0.5 * ofDistance * pair.length * pair.length + part.barrier > minBarrier)
            pair.stiffness = pair.curvature;
    }
}

BondedStiffness::Pair& BondedStiffness::findPair(const System& system, int particle1, int particle2, int force) {
    const auto [place, isNew] = indexOfPair.insert({ordered(particle1, particle2), pairs.size()});
    if (isNew) {
        pairs.push_back({particle1, particle2, system.getForce(force).usesPeriodicBoundaryConditions(), force});
        parts.emplace_back();
    }
    return pairs[place->second];
}

void BondedStiffness::addDistance(Pair& pair, double length, double curvature, bool harmonic) {
    if (pair.length == 0)
        pair.length = length;
    pair.ofDistance += curvature;
    if (harmonic)
        parts[&pair - pairs.data()].harmonic += curvature;
}

void BondedStiffness::findBonds(const System& system, const vector<PenalizedPair>& constraints) {
    vector<double> stiffest(system.getNumParticles(), 0.0);
    auto raise = [&](const auto& pair, double k, const vector<double>& known) {
        for (int particle : {pair.particle1, pair.particle2})
            if (known[particle] == 0)
                stiffest[particle] = std::max(stiffest[particle], k);
    };
    const vector<double> none = stiffest;
    for (const PenalizedPair& constraint : constraints) {
        raise(constraint, stiffnessOfConstraint, none);
        lengths[ordered(constraint.particle1, constraint.particle2)] = constraint.distance;
    }
    for (size_t p = 0; p < pairs.size(); p++)
        if (parts[p].harmonic >= leastOfStiffest * stiffnessOfConstraint)
            raise(pairs[p], parts[p].harmonic, none);
    // Where particles have such bonds, custom forces may be anything, and stiff without being a bond.
    const vector<double> known = stiffest;
    for (const Pair& pair : pairs)
        raise(pair, pair.ofDistance, known);
    for (Pair& pair : pairs) {
        const double least = leastOfStiffest * std::min(stiffest[pair.particle1], stiffest[pair.particle2]);
        pair.isBond = (0.5 * pair.ofDistance * pair.length * pair.length > minBarrier && pair.ofDistance >= least);
        lengths.insert({ordered(pair.particle1, pair.particle2), pair.length});
    }
}

void BondedStiffness::addAngle(const System& system, const Angle& angle) {
    auto leg = [&](int end, int vertex) {
        const auto found = lengths.find(ordered(end, vertex));
        return found == lengths.end() ? 0 : found->second;
    };
    const auto bound = std::find_if(angle.vertices.begin(), angle.vertices.end(), [&](int vertex) {
        return leg(angle.end1, vertex) > 0 && leg(angle.end2, vertex) > 0;
    });
    if (bound == angle.vertices.end())
        return; // its legs are no bonds that are recognized
    const double r1 = leg(angle.end1, *bound), r2 = leg(angle.end2, *bound);
    if (!(std::sin(angle.theta) > minSine)) {
        looseAngles.push_back({{angle.end1, *bound, angle.end2}, angle.force, angle.curvature, angle.theta, r1, r2});
        return;
    }
    // dr/dtheta = r1 r2 sin(theta) / r
    const double squared = r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(angle.theta),
                 slope = r1 * r2 * std::sin(angle.theta), k = angle.curvature * squared / (slope * slope);
    Pair& pair = findPair(system, angle.end1, angle.end2, angle.force);
    if (pair.length == 0)
        pair.length = std::sqrt(squared);
    Parts& part = parts[&pair - pairs.data()];
    part.angles += k;
    part.barrier += 0.5 * k * squared;
}

vector<PenalizedPair> OpenMMStiff::choosePairs(const System& system, const vector<PenalizedPair>& constraints,
                                               const BondedStiffness* bonded, const vector<PairInertia>& explicitPairs,
                                               double period, const string& className) {
    std::map<std::pair<int, int>, PenalizedPair> chosen;
    if (bonded != nullptr)
        for (const BondedStiffness::Pair& pair : bonded->pairs) {
            const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
            const double inertia = pair.stiffness * period * period / (4 * pi * pi) - 1 / inverseMass;
            const bool virtualSite = system.isVirtualSite(pair.particle1) || system.isVirtualSite(pair.particle2);
            if (inverseMass > 0 && inertia * inverseMass > minInertia && !virtualSite)
                chosen[ordered(pair.particle1, pair.particle2)] = {pair.particle1, pair.particle2, inertia, 0,
                                                                   pair.periodic};
        }
    for (size_t p = 0; p < explicitPairs.size(); p++) {
        const PairInertia& pair = explicitPairs[p];
        const double inverseMass =
                requireMovable(system, pair, false, message(className, ": pair ", p), "setPairParameters()");
        const auto key = ordered(pair.particle1, pair.particle2);
        if (pair.inertia * inverseMass > minInertia)
            chosen[key] = {pair.particle1, pair.particle2, pair.inertia, 0, false};
        else
            chosen.erase(key);
    }
    for (const PenalizedPair& constraint : constraints) {
        // OpenMM allows constraints between massless particles; they have nothing to do.
        const auto key = ordered(constraint.particle1, constraint.particle2);
        if (inverseReducedMass(system, constraint.particle1, constraint.particle2) > 0)
            chosen[key] = constraint;
        else
            chosen.erase(key);
    }
    vector<PenalizedPair> pairs;
    for (const auto& entry : chosen)
        pairs.push_back(entry.second);
    return pairs;
}

vector<InertialBond> OpenMMStiff::chooseBonds(const System& system, const BondGraph& graph, double inertia,
                                              bool isLeast, const vector<PairInertia>& explicitBonds,
                                              const string& className) {
    std::map<std::pair<int, int>, InertialBond> chosen;
    for (int i = 0; i < system.getNumParticles(); i++) {
        const int partner = findPartner(system, graph, i);
        if (partner < 0)
            continue;
        double own = inertia;
        if (isLeast)
            own = std::max(0.0, findNeed(system, graph, partner) * inertia -
                                        std::max(0.0, system.getParticleMass(i) - massOfHydrogen));
        if (own * inverseReducedMass(system, i, partner) <= minInertia)
            own = 0;
        chosen[ordered(i, partner)] = {{partner, i, own}, false};
    }
    for (size_t b = 0; b < explicitBonds.size(); b++) {
        PairInertia bond = explicitBonds[b];
        const double inverseMass = requireMovable(system, bond, true, message(className, ": the inertia of bond ", b),
                                                  "setBondInertiaParameters()");
        if (bond.inertia * inverseMass <= minInertia)
            bond.inertia = 0;
        chosen[ordered(bond.particle1, bond.particle2)] = {bond, true};
    }
    vector<InertialBond> bonds;
    for (const auto& entry : chosen)
        bonds.push_back(entry.second);
    return bonds;
}
