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
#include "openmmstiff/internal/Message.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
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

/// [dalton]
const double massOfHydrogen = 1.008, massOfDeuterium = 2.014;

/** Where the energy of a custom force's terms, a function of one coordinate, is least; and its curvature there. */
class MinimumFinder {
public:
    using Minimum = BondedStiffness::Minimum;

    /**
     * @param places   minima are looked for between each and the next, and in the last one if that is pi, of angles
     * @param minima   those that are known
     */
    MinimumFinder(const ParsedFunction& energy, const std::map<string, double>& globals, const vector<double>& places,
                  BondedStiffness::Minima& minima)
            : function(energy.function), globals(globals), places(places), isConstant(energy.coordinates.empty()),
              text(energy.function->describe()), minima(minima) {
        for (const string& name : energy.function->globals) {
            const auto value = globals.find(name);
            const bool isThere = value != globals.end() && !std::isnan(value->second); // else it has no order in a map
            valuesOfGlobals.push_back(isThere ? value->second : infinity);
        }
    }

    const Minimum& find(const vector<double>& parameters) {
        vector<double> values = valuesOfGlobals;
        values.insert(values.end(), parameters.begin(), parameters.end());
        const auto [known, isNew] = minima.try_emplace({text, std::move(values)});
        if (isNew && !isConstant) {
            if (!energy) { // as derivatives of long expressions take their time
                energy.emplace(*function, 2);
                (*energy)->setGlobals(globals);
            }
            std::copy(parameters.begin(), parameters.end(), (*energy)->arguments() + 1);
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
            if (!(before < 0 && (slope >= 0 || high == pi)))
                continue;
            while (high - low > 1e-14 * high) {
                const double middle = 0.5 * (low + high);
                if (middle <= low || middle >= high)
                    break;
                (getSlope(middle) < 0 ? low : high) = middle;
            }
            (*energy)->arguments()[0] = high;
            double curvature = 0;
            (*energy)->second([&](int, int, double second) { curvature = second; });
            if (std::isfinite(curvature) && (*energy)->value() < leastEnergy) {
                leastEnergy = (*energy)->value();
                least = {high, curvature};
            }
        }
        return least;
    }
    double getSlope(double place) {
        (*energy)->arguments()[0] = place;
        double slope = 0;
        (*energy)->first([&](int, double first) { slope = first; });
        return slope;
    }

    const std::shared_ptr<const TermFunction> function;
    const std::map<string, double>& globals;
    std::optional<FunctionCopy> energy;
    const vector<double> places;
    const bool isConstant;
    const string text;
    vector<double> valuesOfGlobals;
    BondedStiffness::Minima& minima;
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
 * With heavy hydrogens, a carbon has lost what they have gained; with deuterium nothing.
 */
double findNeed(const System& system, const BondGraph& graph, int particle) {
    const double ofOne = 0.5, ofSeveral = 0.35;
    double mass = system.getParticleMass(particle);
    int number = 0;
    for (int other : graph.neighbours[particle])
        if (findPartner(system, graph, other) == particle) {
            const double own = system.getParticleMass(other);
            if (std::abs(own - massOfDeuterium) > 0.01)
                mass += std::max(0.0, own - massOfHydrogen);
            number++;
        }
    const bool isSaturatedCarbon = (graph.neighbours[particle].size() == 4 && mass > 11 && mass < 13);
    return !isSaturatedCarbon ? 1 : number > 1 ? ofSeveral : ofOne;
}

/** The pairs and angles of forces, as they are found. */
class PairFinder {
public:
    PairFinder(const System& system, const vector<PairInertia>& constraints)
            : system(system), constraints(constraints) {
        for (const PairInertia& constraint : constraints)
            lengths[ordered(constraint.particle1, constraint.particle2)] = constraint.distance;
    }

    void addDistance(int particle1, int particle2, int force, double length, double curvature, bool harmonic) {
        if (curvature == 0)
            return; // it holds nothing, whatever its length
        Pair& pair = findPair(particle1, particle2, force);
        if (pair.length == 0)
            pair.length = length;
        pair.ofDistance += curvature;
        pair.ofHarmonic += harmonic ? curvature : 0;
    }
    /** @param vertices   the vertex, or the particles of which it is the one that is bound to both ends */
    void addAngle(int end1, int end2, const vector<int>& vertices, int force, double theta, double curvature) {
        if (end1 != end2 && curvature != 0)
            angles.push_back({end1, end2, vertices, force, theta, curvature});
    }
    void finish(BondedStiffness& found) {
        findBonds();
        for (const Angle& angle : angles)
            place(angle, found.looseAngles);
        for (Pair& pair : pairs) {
            pair.isOther = (!pair.isBond && pair.ofAngles == 0 && pair.ofHarmonic == 0);
            const bool counts = (pair.isBond || pair.ofAngles > 0 || pair.isOther);
            const double ofDistance = (counts ? pair.ofDistance : pair.ofHarmonic);
            pair.curvature = ofDistance + pair.ofAngles;
            if (!pair.isOther && 0.5 * ofDistance * pair.length * pair.length + pair.barrier > minBarrier)
                pair.stiffness = pair.curvature;
            found.pairs.push_back(pair);
        }
    }

private:
    /** With the force constants of the distance itself, of its harmonic forces, and of angles with their k r^2 / 2. */
    struct Pair : BondedStiffness::Pair {
        double ofDistance = 0, ofHarmonic = 0, ofAngles = 0, barrier = 0;
    };
    /** At the minimum of its energy. */
    struct Angle {
        int end1, end2;
        vector<int> vertices;
        int force;
        double theta, curvature;
    };

    Pair& findPair(int particle1, int particle2, int force) {
        const auto [place, isNew] = indexOfPair.insert({ordered(particle1, particle2), pairs.size()});
        if (isNew) {
            const bool periodic = system.getForce(force).usesPeriodicBoundaryConditions();
            pairs.push_back({{particle1, particle2, periodic, force}});
        }
        return pairs[place->second];
    }
    void findBonds() {
        vector<double> stiffest(system.getNumParticles(), 0.0);
        auto raise = [&](const auto& pair, double k, const vector<double>& known) {
            for (int particle : {pair.particle1, pair.particle2})
                if (known[particle] == 0)
                    stiffest[particle] = std::max(stiffest[particle], k);
        };
        const vector<double> none = stiffest;
        for (const PairInertia& constraint : constraints)
            raise(constraint, stiffnessOfConstraint, none);
        for (const Pair& pair : pairs)
            if (pair.ofHarmonic >= leastOfStiffest * stiffnessOfConstraint)
                raise(pair, pair.ofHarmonic, none);
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
    /** Make it a part of its 1-3 distance, or loose. */
    void place(const Angle& angle, vector<BondedStiffness::LooseAngle>& loose) {
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
            loose.push_back({{angle.end1, *bound, angle.end2}, angle.force, angle.curvature, angle.theta, r1, r2});
            return;
        }
        // dr/dtheta = r1 r2 sin(theta) / r
        const double squared = r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(angle.theta),
                     slope = r1 * r2 * std::sin(angle.theta), k = angle.curvature * squared / (slope * slope);
        Pair& pair = findPair(angle.end1, angle.end2, angle.force);
        if (pair.length == 0)
            pair.length = std::sqrt(squared);
        pair.ofAngles += k;
        pair.barrier += 0.5 * k * squared;
    }

    const System& system;
    const vector<PairInertia>& constraints;
    vector<Pair> pairs;
    vector<Angle> angles;
    std::map<std::pair<int, int>, int> indexOfPair;
    /// Of constraints and of what forces hold [nm].
    std::map<std::pair<int, int>, double> lengths;
};

/// By their particles in ascending order.
using ChosenPairs = std::map<std::pair<int, int>, PairInertia>;
vector<PairInertia> getAll(const ChosenPairs& chosen) {
    vector<PairInertia> pairs;
    for (const auto& entry : chosen)
        pairs.push_back(entry.second);
    return pairs;
}

} // namespace

vector<PairInertia> OpenMMStiff::readConstraints(const System& system) {
    vector<PairInertia> constraints;
    for (int c = 0; c < system.getNumConstraints(); c++) {
        PairInertia pair = {-1, -1, infinity};
        system.getConstraintParameters(c, pair.particle1, pair.particle2, pair.distance);
        constraints.push_back(pair);
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

BondedStiffness::BondedStiffness(const System& system, const vector<PairInertia>& constraints, int integrationGroups,
                                 const std::map<std::string, double>& parameters, const string& className,
                                 const BondedStiffness* previous) {
    const size_t mostMinima = 100000;
    minima = previous != nullptr && previous->minima->size() < mostMinima ? previous->minima
                                                                          : std::make_shared<Minima>();
    PairFinder finder(system, constraints);
    const StiffTerms harmonic = collectTerms(system, TermScope::HarmonicForces, 0, integrationGroups, className);
    for (const StiffCoordinate& s : harmonic.coordinates) {
        const auto& [i, j, k] = s.particles;
        if (s.kind == StiffCoordinate::Kind::Distance)
            finder.addDistance(i, j, s.force, s.s0, s.k, true);
        else
            finder.addAngle(i, k, {j}, s.force, s.s0, s.k);
    }
    visitCustomForces(system, [&](const auto& force, int index) {
        if ((integrationGroups & (1 << force.getForceGroup())) == 0)
            return;
        using ForceType = std::decay_t<decltype(force)>;
        vector<double> own;
        if constexpr (std::is_same_v<ForceType, CustomBondForce>) {
            MinimumFinder ofForce(parseEnergy(force), parameters, placesOfDistances(), *minima);
            for (int t = 0, i, j; t < force.getNumBonds(); t++) {
                force.getBondParameters(t, i, j, own);
                const auto& [length, curvature] = ofForce.find(own);
                if (i != j)
                    finder.addDistance(i, j, index, length, curvature, false);
            }
        }
        else if constexpr (std::is_same_v<ForceType, CustomAngleForce>) {
            MinimumFinder ofForce(parseEnergy(force), parameters, placesOfAngles(), *minima);
            for (int t = 0, i, j, k; t < force.getNumAngles(); t++) {
                force.getAngleParameters(t, i, j, k, own);
                const auto& [theta, curvature] = ofForce.find(own);
                finder.addAngle(i, k, {j}, index, theta, curvature);
            }
        }
        else if (const auto angle = parsePointAngle(force)) {
            MinimumFinder ofForce(angle->energy, parameters, placesOfAngles(), *minima);
            vector<int> particles;
            for (int t = 0; t < force.getNumBonds(); t++) {
                force.getBondParameters(t, particles, own);
                const auto& [theta, curvature] = ofForce.find(own);
                finder.addAngle(particles[angle->ends[0]], particles[angle->ends[1]], particles, index, theta,
                                curvature);
            }
        }
    });
    finder.finish(*this);
}

bool OpenMMStiff::isPeriodic(const System& system) {
    try {
        return system.usesPeriodicBoundaryConditions();
    }
    catch (const OpenMMException&) {
        return false;
    }
}

vector<PairInertia> OpenMMStiff::choosePairs(const System& system, const vector<PairInertia>& constraints,
                                             const BondedStiffness* bonded, const vector<PairInertia>& explicitPairs,
                                             double period, const string& className) {
    ChosenPairs chosen;
    auto choose = [&](const PairInertia& pair, bool acts) {
        if (acts)
            chosen[ordered(pair.particle1, pair.particle2)] = pair;
        else
            chosen.erase(ordered(pair.particle1, pair.particle2));
    };
    if (bonded != nullptr)
        for (const BondedStiffness::Pair& pair : bonded->pairs) {
            const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
            const double inertia = pair.stiffness * period * period / (4 * pi * pi) - 1 / inverseMass;
            const bool virtualSite = system.isVirtualSite(pair.particle1) || system.isVirtualSite(pair.particle2);
            choose({pair.particle1, pair.particle2, inertia, 0, pair.periodic},
                   inverseMass > 0 && inertia * inverseMass > minInertia && !virtualSite);
        }
    const bool periodic = isPeriodic(system);
    for (size_t p = 0; p < explicitPairs.size(); p++) {
        PairInertia pair = explicitPairs[p];
        pair.periodic = periodic;
        pair.isGiven = true;
        choose(pair, pair.inertia * requireMovable(system, pair, false, message(className, ": pair ", p),
                                                   "setPairParameters()") >
                             minInertia);
    }
    // OpenMM allows constraints between massless particles; they have nothing to do.
    for (const PairInertia& constraint : constraints)
        choose(constraint, inverseReducedMass(system, constraint.particle1, constraint.particle2) > 0);
    return getAll(chosen);
}

vector<PairInertia> OpenMMStiff::chooseBonds(const System& system, const BondGraph& graph, double inertia, bool isLeast,
                                             const vector<PairInertia>& explicitBonds, const string& className) {
    ChosenPairs chosen;
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
        chosen[ordered(i, partner)] = {partner, i, own};
    }
    for (size_t b = 0; b < explicitBonds.size(); b++) {
        PairInertia bond = explicitBonds[b];
        const double inverseMass = requireMovable(system, bond, true, message(className, ": the inertia of bond ", b),
                                                  "setBondInertiaParameters()");
        if (bond.inertia * inverseMass <= minInertia)
            bond.inertia = 0;
        bond.isGiven = true;
        chosen[ordered(bond.particle1, bond.particle2)] = bond;
    }
    return getAll(chosen);
}
