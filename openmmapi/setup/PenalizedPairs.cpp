#include "PenalizedPairs.h"
#include "FunctionTerms.h"
#include "Masses.h"
#include "CollectTerms.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/OpenMMException.h"
#include "stiffcore/terms/FunctionCopy.h"
#include "openmmstiff/internal/Message.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

/// Angles as close to 0 or 180 degrees as this (their sine) do not tell from their 1-3 distance how far they are bent.
const double minSine = 0.3;
/// With less energy than this at length 0 (k r^2 / 2, some 20 kT) the particles of a pair pass through each other: its
/// length turns around there, and no inertia can follow [kJ/mol].
const double minBarrier = 50;
/// An inertia smaller than this, relative to the reduced mass, is none: its reciprocal would drown the others.
const double minInertia = 1e-9;

/** The second derivative of a custom force's energy in its coordinate, for each term. */
class Curvature {
public:
    Curvature(const ParsedFunction& energy, const std::map<string, double>& globals) : function(*energy.function, 2) {
        function.setGlobals(globals);
        numCoordinates = energy.coordinates.size();
    }
    double operator()(double s, const vector<double>& parameters) {
        if (numCoordinates > 0)
            function.arguments()[0] = s;
        std::copy(parameters.begin(), parameters.end(), function.arguments() + numCoordinates);
        double curvature = 0;
        function.second([&](int, int, double second) { curvature = second; });
        return curvature;
    }

private:
    FunctionCopy function;
    int numCoordinates; // 0 if the energy does not depend on it
};

/** Where the vertex of an angle is, as a function of the particles of its term. */
class Vertex {
public:
    Vertex(const PointAngle& angle, const std::map<string, double>& globals) {
        for (const ParsedFunction& component : angle.vertex) {
            components.push_back({FunctionCopy(*component.function, 0), component.coordinates});
            components.back().value.setGlobals(globals);
        }
    }
    Vec3 operator()(const vector<Vec3>& positions, const vector<int>& particles, const vector<double>& parameters) {
        Vec3 vertex;
        for (int c = 0; c < 3; c++) {
            double* argument = components[c].value.arguments();
            for (const LocalCoordinate& local : components[c].coordinates)
                *argument++ = positions[particles[local.places[0]]][int(local.kind)];
            std::copy(parameters.begin(), parameters.end(), argument);
            vertex[c] = components[c].value.value();
        }
        return vertex;
    }

private:
    struct Component {
        FunctionCopy value;
        vector<LocalCoordinate> coordinates;
    };
    vector<Component> components;
};

/** What the terms of a custom force have in common. */
struct CustomTerms {
    Curvature curvature;
    std::optional<Vertex> vertex; // of an angle, if it is not a particle
};

template <class ForceType> CustomTerms prepareTerms(const ForceType& force, const std::map<string, double>& globals) {
    return {Curvature(parseEnergy(force), globals), {}};
}
CustomTerms prepareTerms(const CustomCompoundBondForce& force, const std::map<string, double>& globals) {
    const PointAngle angle = parsePointAngle(force).value();
    return {Curvature(angle.energy, globals), Vertex(angle, globals)};
}

/** k of the 1-3 distance r of an angle: k_theta / (dr/dtheta)^2, dr/dtheta = r1 r2 sin(theta) / r; 0 if it is flat. */
double stiffnessOfDistance(double k, double r1, double r2, double theta) {
    if (!(std::sin(theta) > minSine))
        return 0;
    const double slope = r1 * r2 * std::sin(theta);
    return k * (r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(theta)) / (slope * slope);
}

/**
 * Throw an exception if an inertia cannot be that of two particles.
 *
 * @param name      what it is the inertia of, for error messages
 * @param remedy    the method by which it is changed
 * @return 1/m1 + 1/m2 [1/dalton]
 */
double requireMovable(const System& system, const PairInertia& pair, const string& name, const char* remedy) {
    auto refuse = [&](const string& why) {
        throw OpenMMException(message(name, ", between particles ", pair.particle1, " and ", pair.particle2, ", ", why,
                                      ". Change it with ", remedy, ", or leave it out"));
    };
    for (int particle : {pair.particle1, pair.particle2}) {
        if (particle < 0 || particle >= system.getNumParticles())
            refuse("names a particle that the System, which has " + std::to_string(system.getNumParticles()) +
                   ", does not have");
        if (system.isVirtualSite(particle))
            refuse("acts on a virtual site, which has no motion of its own");
    }
    const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
    if (inverseMass == 0)
        refuse("has two massless particles, which never move");
    return inverseMass;
}

/** Find the hydrogens, and what each is bound to: by a bonded force or else by its shortest constraint. */
std::map<int, int> findPartners(const System& system, const BondedStiffness* bonded) {
    const double largestMass = 5, largestRatio = 0.5;
    std::map<int, int> partners;
    std::map<int, double> lengths;
    auto add = [&](int i, int j, double length) {
        if (system.getParticleMass(i) > system.getParticleMass(j))
            std::swap(i, j);
        const double mass = system.getParticleMass(i);
        if (mass <= 0 || mass > largestMass || mass > largestRatio * system.getParticleMass(j))
            return;
        const auto [known, isNew] = lengths.try_emplace(i, length);
        if (isNew || length < known->second) {
            known->second = length;
            partners[i] = j;
        }
    };
    if (bonded != nullptr)
        for (const BondedStiffness::Pair& pair : bonded->pairs)
            if (pair.isBond)
                add(pair.particle1, pair.particle2, 0);
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        add(i, j, distance);
    }
    return partners;
}

} // namespace

Vector3<double> PresentGeometry::displacement(const Vec3& from, const Vec3& to, bool periodic) const {
    const Vec3 d = to - from;
    const Vector3<double> delta(d[0], d[1], d[2]);
    return periodic ? box.minimumImage(delta) : delta;
}

BondedStiffness::BondedStiffness(const System& system, int integrationGroups, const string& className) {
    const StiffTerms harmonic = collectTerms(system, TermScope::HarmonicForces, 0, integrationGroups, className);
    for (const HarmonicTerm& term : harmonic.harmonics) {
        const StiffCoordinate& s = harmonic.coordinates[term.coordinate];
        const bool bond = (s.kind == StiffCoordinate::Kind::Distance);
        addTerm(s.particles[0], s.particles[bond ? 1 : 2], s.periodic,
                {-1, s.force, s.index, bond, bond ? -1 : s.particles[1], true, term.k, term.s0});
        parameters.insert(parameters.end(), {term.k, term.s0});
    }
    for (int f = 0; f < system.getNumForces(); f++) {
        const Force& force = system.getForce(f);
        if ((integrationGroups & (1 << force.getForceGroup())) == 0)
            continue;
        vector<double> own;
        int i, j, k;
        if (auto bonds = dynamic_cast<const CustomBondForce*>(&force))
            for (int t = 0; t < bonds->getNumBonds(); t++) {
                bonds->getBondParameters(t, i, j, own);
                addTerm(i, j, force.usesPeriodicBoundaryConditions(), {-1, f, t, true});
                parameters.insert(parameters.end(), own.begin(), own.end());
            }
        else if (auto angles = dynamic_cast<const CustomAngleForce*>(&force))
            for (int t = 0; t < angles->getNumAngles(); t++) {
                angles->getAngleParameters(t, i, j, k, own);
                addTerm(i, k, force.usesPeriodicBoundaryConditions(), {-1, f, t, false, j});
                parameters.insert(parameters.end(), own.begin(), own.end());
            }
        else if (auto compounds = dynamic_cast<const CustomCompoundBondForce*>(&force))
            if (const auto angle = parsePointAngle(*compounds))
                for (int t = 0; t < compounds->getNumBonds(); t++) {
                    vector<int> particles;
                    compounds->getBondParameters(t, particles, own);
                    addTerm(particles[angle->ends[0]], particles[angle->ends[1]],
                            force.usesPeriodicBoundaryConditions(), {-1, f, t, false});
                    parameters.insert(parameters.end(), own.begin(), own.end());
                }
    }
    findLegs(system);
    stiffness.assign(pairs.size(), 0);
}

void BondedStiffness::addTerm(int particle1, int particle2, bool periodic, Term term) {
    if (particle1 == particle2)
        return;
    const auto [place, isNew] = indexOfPair.insert({ordered(particle1, particle2), pairs.size()});
    if (isNew)
        pairs.push_back({particle1, particle2, periodic, term.force, false});
    term.pair = place->second;
    pairs[term.pair].isBond |= term.isBond;
    terms.push_back(term);
}

void BondedStiffness::findLegs(const System& system) {
    std::map<std::pair<int, int>, double> lengths;
    for (const Term& term : terms)
        if (term.harmonic && term.isBond)
            lengths[ordered(pairs[term.pair].particle1, pairs[term.pair].particle2)] = term.s0;
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        lengths[ordered(i, j)] = distance;
    }
    for (Term& term : terms) {
        if (!term.harmonic || term.isBond)
            continue;
        const auto leg1 = lengths.find(ordered(pairs[term.pair].particle1, term.vertex)),
                   leg2 = lengths.find(ordered(pairs[term.pair].particle2, term.vertex));
        term.legsKnown = (leg1 != lengths.end() && leg2 != lengths.end());
        if (term.legsKnown) {
            term.leg1 = leg1->second;
            term.leg2 = leg2->second;
        }
    }
}

bool BondedStiffness::needsGeometry() const {
    return std::any_of(terms.begin(), terms.end(),
                       [](const Term& term) { return !term.harmonic || (!term.isBond && !term.legsKnown); });
}

void BondedStiffness::compute(const System& system, const PresentGeometry& geometry) {
    std::map<int, CustomTerms> prepared; // by the index of the Force
    auto termsOf = [&](int index, const auto& force) -> CustomTerms& {
        const auto found = prepared.find(index);
        return found != prepared.end()
                       ? found->second
                       : prepared.emplace(index, prepareTerms(force, geometry.parameters)).first->second;
    };
    curvature.assign(pairs.size(), 0);
    vector<double> barrier(pairs.size(), 0.0);
    const vector<Vec3>& x = geometry.positions;
    vector<double> own;
    vector<int> particles;
    int i, j, k;
    for (const Term& term : terms) {
        const Pair& pair = pairs[term.pair];
        const Force& force = system.getForce(term.force);
        const bool periodic = force.usesPeriodicBoundaryConditions();
        double secondDerivative = term.k, length = term.s0;
        if (term.isBond) {
            if (!term.harmonic) {
                const auto& bonds = dynamic_cast<const CustomBondForce&>(force);
                bonds.getBondParameters(term.index, i, j, own);
                length = geometry.displacement(x[i], x[j], periodic).norm();
                secondDerivative = termsOf(term.force, bonds).curvature(length, own);
            }
        }
        else {
            double r1 = term.leg1, r2 = term.leg2, theta = term.s0;
            CustomTerms* custom = nullptr;
            if (auto angles = dynamic_cast<const CustomAngleForce*>(&force)) {
                angles->getAngleParameters(term.index, i, j, k, own);
                custom = &termsOf(term.force, *angles);
            }
            else if (auto compounds = dynamic_cast<const CustomCompoundBondForce*>(&force)) {
                compounds->getBondParameters(term.index, particles, own);
                custom = &termsOf(term.force, *compounds);
            }
            if (!term.legsKnown) {
                const Vec3 vertex = term.vertex >= 0 ? x[term.vertex] : (*custom->vertex)(x, particles, own);
                const Vector3<double> d1 = geometry.displacement(vertex, x[pair.particle1], periodic),
                                      d2 = geometry.displacement(vertex, x[pair.particle2], periodic);
                r1 = d1.norm();
                r2 = d2.norm();
                theta = std::acos(std::max(-1.0, std::min(1.0, d1.dot(d2) / (r1 * r2))));
            }
            if (custom != nullptr)
                secondDerivative = custom->curvature(theta, own);
            secondDerivative = stiffnessOfDistance(secondDerivative, r1, r2, theta);
            length = std::sqrt(r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(theta));
        }
        if (std::isfinite(secondDerivative)) {
            curvature[term.pair] += secondDerivative;
            barrier[term.pair] += 0.5 * secondDerivative * length * length;
        }
    }
    stiffness = curvature;
    for (size_t p = 0; p < pairs.size(); p++)
        if (!(barrier[p] > minBarrier))
            stiffness[p] = 0;
}

vector<PenalizedPair> OpenMMStiff::choosePairs(const System& system, const BondedStiffness* bonded,
                                               const vector<PairInertia>& explicitPairs, double period,
                                               const string& className) {
    const double infinity = std::numeric_limits<double>::infinity(), pi = 3.14159265358979323846;
    std::map<std::pair<int, int>, PenalizedPair> chosen;
    if (bonded != nullptr)
        for (size_t p = 0; p < bonded->pairs.size(); p++) {
            const BondedStiffness::Pair& pair = bonded->pairs[p];
            const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
            const double inertia = bonded->stiffness[p] * period * period / (4 * pi * pi) - 1 / inverseMass;
            const bool virtualSite = system.isVirtualSite(pair.particle1) || system.isVirtualSite(pair.particle2);
            if (inverseMass > 0 && inertia * inverseMass > minInertia && !virtualSite)
                chosen[ordered(pair.particle1, pair.particle2)] = {pair.particle1, pair.particle2, inertia, 0,
                                                                   pair.periodic};
        }
    for (size_t p = 0; p < explicitPairs.size(); p++) {
        const PairInertia& pair = explicitPairs[p];
        const double inverseMass =
                requireMovable(system, pair, message(className, ": pair ", p), "setPairParameters()");
        const auto key = ordered(pair.particle1, pair.particle2);
        if (pair.inertia * inverseMass > minInertia)
            chosen[key] = {pair.particle1, pair.particle2, pair.inertia, 0, false};
        else
            chosen.erase(key);
    }
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        // OpenMM allows constraints between massless particles; they have nothing to do.
        if (inverseReducedMass(system, i, j) > 0)
            chosen[ordered(i, j)] = {i, j, infinity, distance, false};
        else
            chosen.erase(ordered(i, j));
    }
    vector<PenalizedPair> pairs;
    for (const auto& entry : chosen)
        pairs.push_back(entry.second);
    return pairs;
}

vector<PairInertia> OpenMMStiff::chooseBonds(const System& system, const BondedStiffness* bonded, double inertia,
                                             bool lessGain, const vector<PairInertia>& explicitBonds,
                                             const string& className) {
    const double ordinaryMass = 1.008;
    const std::map<int, int> partners = inertia > 0 ? findPartners(system, bonded) : std::map<int, int>();
    std::map<std::pair<int, int>, PairInertia> chosen;
    auto choose = [&](int i, int j, double own, double inverseMass) {
        if (own * inverseMass > minInertia)
            chosen[ordered(i, j)] = {i, j, own};
        else
            chosen.erase(ordered(i, j));
    };
    for (const auto& [hydrogen, partner] : partners) {
        const double gain = std::max(0.0, system.getParticleMass(hydrogen) - ordinaryMass);
        choose(partner, hydrogen, lessGain ? inertia - gain : inertia, inverseReducedMass(system, hydrogen, partner));
    }
    for (size_t b = 0; b < explicitBonds.size(); b++) {
        const PairInertia& bond = explicitBonds[b];
        choose(bond.particle1, bond.particle2, bond.inertia,
               requireMovable(system, bond, message(className, ": the inertia of bond ", b),
                              "setBondInertiaParameters()"));
    }
    vector<PairInertia> bonds;
    for (const auto& entry : chosen)
        bonds.push_back(entry.second);
    return bonds;
}
