#include "Thermometer.h"
#include "Masses.h"
#include "PenalizedPairs.h"
#include "openmm/CMMotionRemover.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include "openmmstiff/internal/Checks.h"
#include "openmmstiff/internal/Message.h"
#include "stiffcore/model/Sets.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::vector;

namespace {

const int fewestSamples = 20;
/// A window of samples is so many steps, or so many times 1/gamma; before the first the state may settle.
const double windowSteps = 10000, windowTimes = 20, settlingSteps = 1000, settlingTimes = 5;
/// More than this is not left to chance, nor is it a bias of a step that is right. Windows are longer, up to so many
/// times, until chance leaves no more.
const double standardErrors = 6, relativeExcess = 0.05, longestWindow = 20;

} // namespace

vector<FreeGroup> OpenMMStiff::findFreeGroups(const System& system) {
    const int numParticles = system.getNumParticles();
    vector<int> numConstraints(numParticles);
    stiffcore::Sets held(numParticles);
    for (const PairInertia& constraint : readConstraints(system))
        if (inverseReducedMass(system, constraint.particle1, constraint.particle2) > 0) {
            numConstraints[constraint.particle1]++;
            held.join(constraint.particle1, constraint.particle2);
        }
    vector<FreeGroup> found;
    for (const vector<int>& group : held.collect()) {
        int numMobile = 0, numFixed = 0, number = 0;
        for (int particle : group) {
            numMobile += (system.getParticleMass(particle) > 0);
            numFixed += (system.getParticleMass(particle) == 0 && !system.isVirtualSite(particle));
            number += numConstraints[particle];
        }
        // Constraints may depend on each other: what they connect moves and turns at least. (Where a part of it is rigid
        // with more constraints than that takes, the temperature reads too high.)
        const int rigid = numFixed > 0 ? 1 : numMobile == 1 ? 3 : numMobile == 2 ? 5 : 6;
        if (numMobile > 0)
            found.push_back({group, std::max(rigid, 3 * numMobile - number)});
    }
    return found;
}

double OpenMMStiff::computeTemperature(const System& system, double kineticEnergy, int degreesOfFreedom,
                                       const string& className) {
    bool isRemoved = false;
    for (int i = 0; i < system.getNumForces(); i++)
        isRemoved |= dynamic_cast<const CMMotionRemover*>(&system.getForce(i)) != nullptr;
    const int number = degreesOfFreedom - (isRemoved ? 3 : 0);
    require(number > 0, className,
            ": the System has no degrees of freedom that are thermalized, so it has no temperature");
    return 2 * kineticEnergy / (number * BOLTZ);
}

Thermometer::Thermometer(const System& system, const vector<vector<int>>& molecules) : molecules(molecules) {
    const int numParticles = system.getNumParticles();
    vector<int> moleculeOf(numParticles), numConstraints(molecules.size());
    for (size_t m = 0; m < molecules.size(); m++)
        for (int particle : molecules[m])
            moleculeOf[particle] = m;
    for (int i = 0; i < numParticles; i++)
        masses.push_back(system.getParticleMass(i));
    for (const PairInertia& constraint : readConstraints(system))
        numConstraints[moleculeOf[constraint.particle1]] +=
                (inverseReducedMass(system, constraint.particle1, constraint.particle2) > 0);
    std::map<std::pair<vector<double>, int>, int> known;
    for (size_t m = 0; m < molecules.size(); m++) {
        vector<double> build;
        for (int particle : molecules[m])
            build.push_back(masses[particle]);
        const auto [kind, isNew] = known.try_emplace({build, numConstraints[m]}, (int) kinds.size());
        if (isNew)
            kinds.push_back({int(m)});
        kindOf.push_back(kind->second);
        kinds[kind->second].numMolecules++;
    }
    for (const FreeGroup& group : findFreeGroups(system))
        kinds[kindOf[moleculeOf[group.particles[0]]]].degreesOfFreedom += group.degreesOfFreedom;
}

string Thermometer::sample(const vector<Vec3>& velocities, int steps, double temperature, double friction,
                           double stepSize) {
    if (!(temperature > 0 && friction > 0 && stepSize > 0))
        return "";
    const std::array<double, 3> present = {temperature, friction, stepSize};
    if (present != bath)
        forget();
    bath = present;
    auto stepsOf = [&](double least, double times) {
        return (int) std::min(1e9, std::max(least, times / (friction * stepSize)));
    };
    if (numSettling < 0) {
        numSettling = stepsOf(settlingSteps, settlingTimes);
        for (Kind& kind : kinds)
            kind.begin();
    }
    if (numSettling > 0) {
        numSettling = std::max(0, numSettling - steps);
        return "";
    }
    for (size_t m = 0; m < molecules.size(); m++) {
        Kind& kind = kinds[kindOf[m]];
        for (int particle : molecules[m])
            if (kind.degreesOfFreedom > 0)
                kind.sum += masses[particle] * velocities[particle].dot(velocities[particle]) /
                            (kind.degreesOfFreedom * BOLTZ);
    }
    string found;
    const double window = stepsOf(windowSteps, windowTimes), allowed = relativeExcess * temperature;
    for (Kind& kind : kinds) {
        kind.numSteps += steps;
        kind.numSamples++;
        if (kind.degreesOfFreedom == 0 || kind.numSamples < fewestSamples)
            continue;
        // Kinetic energies forget within 1/gamma at the latest.
        const double inefficiency = 1 + 2 * kind.numSamples / (friction * stepSize * kind.numSteps),
                     mean = kind.sum / kind.numSamples,
                     chance = standardErrors * temperature *
                              std::sqrt(2 * inefficiency / (double(kind.degreesOfFreedom) * kind.numSamples));
        const bool isHot = mean - temperature > std::max(chance, allowed);
        if (isHot)
            found +=
                    message(found.empty() ? "" : "; ", describeMolecule(molecules[kind.firstMolecule]),
                            kind.numMolecules > 1 ? message(", and ", kind.numMolecules - 1, " molecules like it, have")
                                                  : string(" has"),
                            " had ", std::round(mean), " K in the last ", kind.numSteps,
                            " steps, while the heat bath has ", temperature, " K");
        if (isHot || kind.numSteps >= (chance > allowed ? longestWindow : 1) * window)
            kind.begin();
    }
    if (!found.empty())
        found += message(". A step of ", stepSize,
                         " ps is too large for that, unless something outside does work on it."
                         " Use more inertia, setPenalizedPeriod() with 20 steps, or a smaller step size; in Python"
                         " examine() says which");
    return found;
}
