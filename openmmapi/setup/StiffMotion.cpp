#include "StiffMotion.h"
#include "Blocks.h"
#include "FunctionTerms.h"
#include "Masses.h"
#include "openmm/Force.h"
#include "openmmstiff/internal/Message.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

/// Verlet needs more than pi steps in a period; with fewer than this, what vibrates is not what it should be.
const double fewestSteps = 6;
const double pi = 3.14159265358979323846, infinity = std::numeric_limits<double>::infinity();
/// Lighter than any hydrogen [dalton].
const double lightest = 0.9;

} // namespace

StiffMotion::StiffMotion(const System& system, const string& what, const string& how, int integrationGroups,
                         const std::map<string, double>& parameters, const string& className)
        : system(system), what(what), how(how), integrationGroups(integrationGroups), parameters(parameters),
          constraints(readConstraints(system)),
          bonded(system, constraints, integrationGroups, parameters, className), fastest{{}, "", infinity},
          shortestPeriod(infinity) {
    for (const PairInertia& constraint : constraints)
        treated.insert(ordered(constraint.particle1, constraint.particle2));
}

void StiffMotion::addTerm(const string& source, const vector<int>& particles) {
    if (std::none_of(particles.begin(), particles.end(), [&](int i) { return system.getParticleMass(i) > 0; }))
        return; // it moves nothing
    numTerms++;
    termsOf[source]++;
    members.push_back(particles);
    treated.insert(ordered(particles.front(), particles.back()));
}

void StiffMotion::addStiffTerms(const StiffTerms& terms) {
    for (const StiffCoordinate& s : terms.coordinates)
        if (s.isHarmonic)
            addTerm(system.getForce(s.force).getName(), s.getParticles());
    for (const FunctionTerm& term : terms.functionTerms)
        addTerm(system.getForce(term.force).getName(), term.getParticles());
}

void StiffMotion::addPairs(const vector<PairInertia>& pairs) {
    std::map<std::pair<int, int>, int> forceOf;
    for (const BondedStiffness::Pair& pair : bonded.pairs)
        forceOf.insert({ordered(pair.particle1, pair.particle2), pair.force});
    for (const PairInertia& pair : pairs) {
        if (pair.isConstrained())
            continue;
        const auto found = forceOf.find(ordered(pair.particle1, pair.particle2));
        addTerm(found == forceOf.end() ? "addPair()" : system.getForce(found->second).getName(),
                {pair.particle1, pair.particle2});
    }
}

void StiffMotion::addSlowed(bool byMasses) {
    for (const BondedStiffness::Pair& pair : bonded.pairs)
        if (pair.stiffness > 0)
            treated.insert(ordered(pair.particle1, pair.particle2));
    if (byMasses)
        for (const BondedStiffness::LooseAngle& angle : bonded.looseAngles)
            treated.insert(ordered(angle.particles.front(), angle.particles.back()));
}

void StiffMotion::addHiddenBonds(const Force& force, const vector<std::pair<int, int>>& bonds,
                                 const vector<Vec3>& positions) {
    const double longest = 0.2; // nm; other terms of two particles are distances that are of interest
    if (!acts(force))
        return;
    std::set<std::pair<int, int>> known = treated;
    for (const BondedStiffness::Pair& pair : bonded.pairs)
        known.insert(ordered(pair.particle1, pair.particle2));
    for (const auto& [i, j] : bonds) {
        const Vec3 d = positions[i] - positions[j];
        if (d.dot(d) < longest * longest && inverseReducedMass(system, i, j) > 0 && known.insert(ordered(i, j)).second)
            hidden[force.getName()].push_back({i, j});
    }
}

bool StiffMotion::acts(const Force& force) const {
    return (integrationGroups & (1 << force.getForceGroup())) != 0;
}

void StiffMotion::findFastest(const vector<Vec3>& positions) {
    const double near = 0.3; // of the length
    const int known = positions.size();
    auto isNearLength = [&](const BondedStiffness::Pair& pair) {
        if (std::max(pair.particle1, pair.particle2) >= known)
            return false; // the Context does not have it yet
        const Vec3 d = positions[pair.particle1] - positions[pair.particle2];
        return std::abs(std::sqrt(d.dot(d)) - pair.length) < near * pair.length;
    };
    for (const BondedStiffness::Pair& pair : bonded.pairs) {
        const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
        const Motion motion = {{pair.particle1, pair.particle2},
                               system.getForce(pair.force).getName(),
                               2 * pi / std::sqrt(pair.curvature * inverseMass)};
        if (!(motion.period > 0) || std::isinf(motion.period))
            continue;
        if (pair.isOther && !isNearLength(pair))
            continue;
        shortestPeriod = std::min(shortestPeriod, motion.period);
        consider(motion);
    }
    for (const auto& [particles, force, curvature, theta, leg1, leg2] : bonded.looseAngles)
        consider({{particles.begin(), particles.end()},
                  system.getForce(force).getName(),
                  2 * pi / std::sqrt(curvature * inverseMassOfAngle(system, particles, leg1, leg2, theta))});
    for (int f = 0; f < system.getNumForces(); f++)
        if (auto external = dynamic_cast<const CustomExternalForce*>(&system.getForce(f)))
            if (acts(*external))
                considerExternal(*external, positions);
}

/** The particles in a CustomExternalForce, by differences of its energy: restraints may be stiff. */
void StiffMotion::considerExternal(const CustomExternalForce& force, const vector<Vec3>& positions) {
    const double step = 1e-4; // nm
    ParsedFunction parsed;
    try {
        parsed = parseEnergy(force);
    }
    catch (const NoHessian&) {
        return; // with an infinite part, as of a wall
    }
    const std::unique_ptr<TermFunction> energy = parsed.function->clone(0);
    energy->setGlobals(parameters);
    vector<double> own;
    for (int t = 0, particle; t < force.getNumParticles(); t++) {
        force.getParticleParameters(t, particle, own);
        if (particle >= (int) positions.size())
            continue; // the Context does not have it yet
        double* const arguments = energy->arguments();
        std::copy(own.begin(), own.end(), arguments + parsed.coordinates.size());
        for (size_t c = 0; c < parsed.coordinates.size(); c++)
            arguments[c] = positions[particle][int(parsed.coordinates[c].kind)];
        double curvature = 0;
        for (size_t c = 0; c < parsed.coordinates.size(); c++) {
            const double place = arguments[c];
            auto at = [&](double other) {
                arguments[c] = other;
                return energy->value();
            };
            auto curvatureAt = [&](double other) { return at(other + step) - 2 * at(other) + at(other - step); };
            // A kink, as of a distance at its point, has none beside it.
            const double beside = std::max(curvatureAt(place - 3 * step), curvatureAt(place + 3 * step));
            curvature = std::max(curvature, std::min(curvatureAt(place), beside));
            arguments[c] = place;
        }
        consider({{particle}, force.getName(), 2 * pi * step / std::sqrt(curvature * inverseMass(system, particle))});
    }
}

void StiffMotion::consider(const Motion& motion) {
    const bool isTreated = treated.count(ordered(motion.particles.front(), motion.particles.back())) > 0;
    if (!isTreated && motion.period < fastest.period)
        fastest = motion;
}

string StiffMotion::describe(const Motion& motion) const {
    std::stringstream text;
    text << "that of particle" << (motion.particles.size() > 1 ? "s" : "");
    for (size_t i = 0; i < motion.particles.size(); i++)
        text << (i == 0 ? " " : i + 1 < motion.particles.size() ? ", " : " and ") << motion.particles[i];
    text << " under '" << motion.force << "', with a period of " << motion.period << " ps";
    for (int particle : motion.particles)
        if (system.getParticleMass(particle) > 0 && system.getParticleMass(particle) < lightest)
            text << " (particle " << particle << " has a mass of " << system.getParticleMass(particle)
                 << " dalton, less than hydrogen)";
    return text.str();
}

string StiffMotion::describe() const {
    std::stringstream text;
    text << numTerms << " " << what;
    if (numTerms > 0) {
        const int numBlocks = connect(system, members).size();
        text << " in " << numBlocks << (numBlocks == 1 ? " block" : " blocks");
        string separator = ": ";
        for (const auto& [force, number] : termsOf) {
            text << separator << number << " of '" << force << "'";
            separator = ", ";
        }
    }
    text << ".";
    if (!fastest.particles.empty())
        text << " The fastest bonded motion that is not among them is " << describe(fastest) << ".";
    for (const auto& [force, bonds] : hidden)
        text << " The bonds in '" << force << "' are not among them either, as that of particles " << bonds[0].first
             << " and " << bonds[0].second << (bonds.size() > 1 ? message(" and ", bonds.size() - 1, " more") : "")
             << ".";
    for (int i = 0; i < system.getNumParticles(); i++)
        if (system.getParticleMass(i) > 0 && system.getParticleMass(i) < lightest) {
            text << " Particle " << i << " has a mass of " << system.getParticleMass(i)
                 << " dalton, less than hydrogen, as Drude particles have. If it is held by a spring that is not among"
                    " them, take an integrator that is made for it, such as OpenMM's DrudeLangevinIntegrator, or a"
                    " smaller step.";
            break;
        }
    return text.str();
}

string StiffMotion::warn(double stepSize) const {
    std::stringstream text;
    const bool isFast = fastest.period < fewestSteps * stepSize;
    if (numTerms == 0 && constraints.empty())
        text << "there are no " << what
             << ", and no constraints: nothing is treated otherwise than by a method without them. " << how;
    else if (isFast || !hidden.empty()) {
        const bool isPair = fastest.particles.size() == 2;
        text << "there are " << describe();
        if (isFast)
            text << " A step of " << stepSize << " ps is too large for this motion."
                 << (isPair ? "" : " Nothing slows it down: use a smaller step size, or soften the force.");
        if (isPair || !hidden.empty())
            text << " " << how << ", or use a smaller step size";
    }
    return text.str();
}

double StiffMotion::countPeriods(double stepSize) const {
    return stepSize / shortestPeriod;
}
