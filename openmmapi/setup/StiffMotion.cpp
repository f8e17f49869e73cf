#include "StiffMotion.h"
#include "Blocks.h"
#include "Masses.h"
#include "openmm/Force.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

/// Verlet needs more than pi steps in a period; with fewer than this, what vibrates is not what it should be.
const double fewestSteps = 6;
/// Lighter than any hydrogen [dalton].
const double lightest = 0.9;

} // namespace

StiffMotion::StiffMotion(const System& system, const string& what, const string& how, int integrationGroups,
                         const string& className)
        : system(system), what(what), how(how),
          bonded(system, integrationGroups, className), fastest{-1, -1, "", std::numeric_limits<double>::infinity()},
          shortestPeriod(std::numeric_limits<double>::infinity()) {
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        treated.insert(ordered(i, j));
    }
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
    for (const HarmonicTerm& term : terms.harmonics) {
        const StiffCoordinate& s = terms.coordinates[term.coordinate];
        addTerm(system.getForce(s.force).getName(), {s.particles.begin(), s.particles.begin() + s.getNumParticles()});
    }
    for (const FunctionTerm& term : terms.functionTerms)
        addTerm(system.getForce(term.force).getName(), term.getParticles());
}

void StiffMotion::addPairs(const vector<PenalizedPair>& pairs) {
    std::map<std::pair<int, int>, int> forceOf;
    for (const BondedStiffness::Pair& pair : bonded.pairs)
        forceOf.insert({ordered(pair.particle1, pair.particle2), pair.force});
    for (const PenalizedPair& pair : pairs) {
        if (pair.isConstrained())
            continue;
        const auto found = forceOf.find(ordered(pair.particle1, pair.particle2));
        addTerm(found == forceOf.end() ? "addPair()" : system.getForce(found->second).getName(),
                {pair.particle1, pair.particle2});
    }
}

void StiffMotion::findFastest(const PresentGeometry& geometry) {
    const double pi = 3.14159265358979323846, infinity = std::numeric_limits<double>::infinity();
    fastest = {-1, -1, "", infinity};
    shortestPeriod = infinity;
    bonded.compute(system, geometry);
    for (size_t p = 0; p < bonded.pairs.size(); p++) {
        const BondedStiffness::Pair& pair = bonded.pairs[p];
        const double inverseMass = inverseReducedMass(system, pair.particle1, pair.particle2);
        const double period = 2 * pi / std::sqrt(bonded.curvature[p] * inverseMass);
        if (!(period > 0) || std::isinf(period))
            continue;
        shortestPeriod = std::min(shortestPeriod, period);
        if (period < fastest.period && treated.count(ordered(pair.particle1, pair.particle2)) == 0)
            fastest = {pair.particle1, pair.particle2, system.getForce(pair.force).getName(), period};
    }
}

string StiffMotion::describe(const Motion& motion) const {
    std::stringstream text;
    text << "that of particles " << motion.particle1 << " and " << motion.particle2 << " under '" << motion.force
         << "', with a period of " << motion.period << " ps";
    for (int particle : {motion.particle1, motion.particle2})
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
        text << " in " << numBlocks << (numBlocks == 1 ? " molecule" : " molecules");
        string separator = ": ";
        for (const auto& [force, number] : termsOf) {
            text << separator << number << " of '" << force << "'";
            separator = ", ";
        }
    }
    text << ".";
    if (fastest.particle1 >= 0)
        text << " The fastest bonded motion that is not among them is " << describe(fastest) << ".";
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
    if (numTerms == 0 && system.getNumConstraints() == 0)
        text << "there are no " << what
             << ", and no constraints: nothing is treated otherwise than by a method without them. " << how;
    else if (fastest.period < fewestSteps * stepSize)
        text << "there are " << describe() << " A step of " << stepSize << " ps is too large for it. " << how
             << ", or use a smaller step size";
    return text.str();
}

double StiffMotion::countPeriods(double stepSize) const {
    return stepSize / shortestPeriod;
}
