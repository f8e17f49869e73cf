#include "Thermometer.h"
#include "Masses.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include "openmmstiff/internal/Message.h"
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
/// More than this is not left to chance, nor is it a bias of a step that is right.
const double standardErrors = 6, relativeExcess = 0.05;

} // namespace

Thermometer::Thermometer(const System& system, const vector<vector<int>>& molecules)
        : molecules(molecules) {
    vector<int> moleculeOf(system.getNumParticles()), numConstraints(molecules.size());
    for (size_t m = 0; m < molecules.size(); m++)
        for (int particle : molecules[m])
            moleculeOf[particle] = m;
    for (int i = 0; i < system.getNumParticles(); i++)
        masses.push_back(system.getParticleMass(i));
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        numConstraints[moleculeOf[i]] += (inverseReducedMass(system, i, j) > 0);
    }
    std::map<std::pair<vector<double>, int>, int> known;
    for (size_t m = 0; m < molecules.size(); m++) {
        vector<double> build;
        for (int particle : molecules[m])
            build.push_back(masses[particle]);
        const auto [kind, isNew] = known.try_emplace({build, numConstraints[m]}, (int) kinds.size());
        if (isNew)
            kinds.push_back({int(m), 0, 0, 0});
        kindOf.push_back(kind->second);
        // Constraints may depend on each other; of a rigid body there are three positions and three directions.
        const int mobile = std::count_if(build.begin(), build.end(), [](double mass) { return mass > 0; });
        const bool isLinear = mobile < 3, isFixed = mobile < (int) build.size();
        const int rigid = std::min(3 * mobile, isFixed ? 1 : isLinear ? 2 * mobile + 1 : 6);
        kinds[kind->second].degreesOfFreedom += std::max(rigid, 3 * mobile - numConstraints[m]) * (mobile > 0);
        kinds[kind->second].numMolecules++;
    }
}

void Thermometer::begin() {
    numSteps = numSamples = 0;
    for (Kind& kind : kinds)
        kind.sum = 0;
}

string Thermometer::sample(const vector<Vec3>& velocities, int steps, double temperature, double friction,
                           double stepSize) {
    if (!(temperature > 0 && friction > 0 && stepSize > 0))
        return "";
    const Bath present = {temperature, friction, stepSize};
    if (present != bath)
        forget();
    bath = present;
    auto stepsOf = [&](double least, double times) {
        return (int) std::min(1e9, std::max(least, times / (friction * stepSize)));
    };
    if (numSettling < 0) {
        numSettling = stepsOf(settlingSteps, settlingTimes);
        begin();
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
    numSteps += steps;
    numSamples++;
    string found;
    // Kinetic energies forget within 1/gamma at the latest.
    const double inefficiency = 1 + 2 * numSamples / (friction * stepSize * numSteps);
    for (const Kind& kind : kinds) {
        const double mean = kind.sum / numSamples,
                     error = temperature * std::sqrt(2 * inefficiency / (kind.degreesOfFreedom * numSamples));
        if (numSamples < fewestSamples ||
            !(mean - temperature > std::max(standardErrors * error, relativeExcess * temperature)))
            continue;
        found += message(found.empty() ? "" : "; ", describeMolecule(molecules[kind.firstMolecule]),
                         kind.numMolecules > 1 ? message(" and ", kind.numMolecules - 1, " like it have")
                                               : string(" has"),
                         " had ", std::round(mean), " K in the last ", numSteps, " steps, while the heat bath has ",
                         temperature, " K");
    }
    if (!found.empty())
        found += message(". A step of ", stepSize, " ps is too large for that, unless something outside does work on it."
                         " Use a smaller step size; in Python examine() says which");
    if (!found.empty() || numSteps >= stepsOf(windowSteps, windowTimes))
        begin();
    return found;
}
