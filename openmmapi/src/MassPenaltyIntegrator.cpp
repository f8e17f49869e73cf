#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/AtEnd.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/StiffMotion.h"
#include "openmm/internal/ContextImpl.h"
#include <algorithm>
#include <cmath>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

/// Of the penalized period by default; and the inertia of bonds and atoms is that of steps of such a part of it.
static const int periodSteps = 16;
/// Of whatever moves, beyond which numbers mean nothing beside masses [dalton].
static const double maxInertia = 1e9;

MassPenaltyIntegrator::MassPenaltyIntegrator(double stepSize)
        : StiffIntegrator(stepSize, kernelName<MassPenaltyIntegrator>), penalizedPeriod(0), bondInertia(0),
          useBondedForces(true), useDefaultBondInertia(true), takesOther(false), maxBlockSize(24), revision(0) {
}

int OpenMMStiff::getPairRevision(const MassPenaltyIntegrator& integrator) {
    return integrator.revision;
}

void MassPenaltyIntegrator::setPenalizedPeriod(double period) {
    require(period > 0 && std::isfinite(period), getClassName(),
            ": the penalized period must be a positive number, not ", period,
            " ps; setUseDefaultPenalizedPeriod(true) makes it 16 steps");
    penalizedPeriod = period;
}

double MassPenaltyIntegrator::getPenalizedPeriod() const {
    return penalizedPeriod > 0 ? penalizedPeriod : periodSteps * getStepSize();
}

void MassPenaltyIntegrator::setUseDefaultPenalizedPeriod(bool use) {
    require(use || getPenalizedPeriod() > 0, getClassName(), ": the penalized period is 0 ps, as the step size is. Set",
            " that first with setStepSize(), or call setPenalizedPeriod()");
    penalizedPeriod = use ? 0 : getPenalizedPeriod();
}

double MassPenaltyIntegrator::getInertialStepSize() const {
    return std::max(getStepSize(), getPenalizedPeriod() / periodSteps);
}

double MassPenaltyIntegrator::getBondInertia() const {
    const double largestStepWithout = 0.004, squarePerInertia = 3e-5; // ps, ps^2/dalton
    const double h = getInertialStepSize();
    if (useDefaultBondInertia)
        return std::max(0.0, (h * h - largestStepWithout * largestStepWithout) / squarePerInertia);
    return bondInertia;
}

void MassPenaltyIntegrator::setBondInertia(double inertia) {
    require(inertia >= 0 && inertia <= maxInertia, getClassName(), ": the inertia of bonds must be a number from 0 to ",
            maxInertia, ", not ", inertia, " dalton; 0 is none");
    bondInertia = inertia;
    useDefaultBondInertia = false;
    revision++;
}

void MassPenaltyIntegrator::setUseDefaultBondInertia(bool use) {
    bondInertia = getBondInertia();
    useDefaultBondInertia = use;
    revision++;
}

void MassPenaltyIntegrator::setMaxBlockSize(int numPairs) {
    require(numPairs >= 0, getClassName(), ": the maximum number of pairs of a block must not be negative, as ",
            numPairs, " is; 0 is for whole molecules");
    maxBlockSize = numPairs;
}

int MassPenaltyIntegrator::addPair(int particle1, int particle2, double inertia) {
    return append(pairs, [&](int index) { setPairParameters(index, particle1, particle2, inertia); });
}

void MassPenaltyIntegrator::getPairParameters(int index, int& particle1, int& particle2, double& inertia) const {
    requireIndex(getClassName(), "pair", "addPair()", index, pairs.size());
    std::tie(particle1, particle2, inertia) = pairs[index];
}

void MassPenaltyIntegrator::setPairParameters(int index, int particle1, int particle2, double inertia) {
    checkPair("pair", "addPair()", index, pairs.size(), {particle1, particle2, inertia});
    pairs[index] = {particle1, particle2, inertia};
    revision++;
}

int MassPenaltyIntegrator::addBondInertia(int particle1, int particle2, double inertia) {
    return append(bonds, [&](int index) { setBondInertiaParameters(index, particle1, particle2, inertia); });
}

void MassPenaltyIntegrator::getBondInertiaParameters(int index, int& particle1, int& particle2, double& inertia) const {
    requireIndex(getClassName(), "bond", "addBondInertia()", index, bonds.size());
    std::tie(particle1, particle2, inertia) = bonds[index];
}

void MassPenaltyIntegrator::setBondInertiaParameters(int index, int particle1, int particle2, double inertia) {
    checkPair("bond", "addBondInertia()", index, bonds.size(), {particle1, particle2, inertia});
    bonds[index] = {particle1, particle2, inertia};
    revision++;
}

void MassPenaltyIntegrator::checkPair(const char* kind, const char* adder, int index, int number,
                                      const Pair& pair) const {
    const auto& [particle1, particle2, inertia] = pair;
    requireIndex(getClassName(), kind, adder, index, number);
    require(inertia >= 0 && inertia <= maxInertia, getClassName(), ": the inertia of a ", kind,
            " must be a number from 0 to ", maxInertia, ", not ", inertia,
            " dalton. To hold a distance fixed, add a constraint to the System");
    require(particle1 != particle2, getClassName(), ": a ", kind, " needs two different particles, not ", particle1,
            " twice");
}

int MassPenaltyIntegrator::computeNumPenalizedPairs() {
    requireContext();
    penalizedPairs.clear();
    for (const PairInertia& pair : getKernel<MassPenaltyQueries>().getPairs().pairs)
        if (!pair.isConstrained())
            penalizedPairs.push_back({pair.particle1, pair.particle2, pair.inertia});
    return penalizedPairs.size();
}

void MassPenaltyIntegrator::getPenalizedPairParameters(int index, int& particle1, int& particle2,
                                                       double& inertia) const {
    getCounted(penalizedPairs, "penalized pair", "computeNumPenalizedPairs()", index, particle1, particle2, inertia);
}

int MassPenaltyIntegrator::computeNumInertialBonds() {
    requireContext();
    inertialBonds.clear();
    for (const PairInertia& bond : getKernel<MassPenaltyQueries>().getPairs().bonds)
        inertialBonds.push_back({bond.particle1, bond.particle2, bond.inertia});
    return inertialBonds.size();
}

void MassPenaltyIntegrator::getInertialBondParameters(int index, int& particle1, int& particle2,
                                                      double& inertia) const {
    getCounted(inertialBonds, "bond with an inertia", "computeNumInertialBonds()", index, particle1, particle2,
               inertia);
}

void MassPenaltyIntegrator::getCounted(const vector<Pair>& counted, const char* kind, const char* counter, int index,
                                       int& particle1, int& particle2, double& inertia) const {
    require(index >= 0 && index < (int) counted.size(), getClassName(), ": there is no ", kind, " ", index, ". ",
            counter, ", which is to be called first, has counted ", counted.size());
    std::tie(particle1, particle2, inertia) = counted[index];
}

std::unique_ptr<StiffMotion> MassPenaltyIntegrator::findStiffMotion() {
    auto motion = std::make_unique<StiffMotion>(
            context->getSystem(), "pairs with an inertia",
            "Add pairs with addPair(), or in Python with addPairsFromTopology(), by atoms="
            " for some of the bonds",
            getIntegrationForceGroups(), context->getParameters(), getClassName());
    motion->addPairs(getKernel<MassPenaltyQueries>().getPairs().pairs);
    if (useBondedForces)
        motion->addSlowed(useDefaultBondInertia);
    return motion;
}

void MassPenaltyIntegrator::takeOtherSteps(double size, int steps) {
    const double h = getStepSize(), time = context->getTime();
    const long long count = context->getStepCount();
    const double earlier = (h - size) / 2; // than those of other steps are velocities of ours
    auto shift = [&](double shiftTime) {
        vector<Vec3> velocities;
        context->getVelocities(velocities);
        getKernel<MassPenaltyQueries>().shiftVelocities(shiftTime, velocities);
        context->setVelocities(velocities);
    };
    // Inertias stay what they are, whatever the step size; then it, time and number of steps are those of before.
    takesOther = true;
    getKernel<MassPenaltyQueries>().takeOtherSteps(true);
    const AtEnd end([&] {
        setStepSize(h);
        context->setTime(time);
        context->setStepCount(count);
        takesOther = false;
        getKernel<MassPenaltyQueries>().takeOtherSteps(false);
    });
    Vec3 box[3];
    vector<Vec3> positions, velocities;
    context->getPeriodicBoxVectors(box[0], box[1], box[2]);
    context->getPositions(positions);
    context->getVelocities(velocities);
    try {
        shift(earlier);
        setStepSize(size);
        takeSteps(steps);
        shift(-earlier);
    }
    catch (...) {
        context->setPeriodicBoxVectors(box[0], box[1], box[2]);
        context->setPositions(positions);
        context->setVelocities(velocities);
        throw;
    }
}

vector<Vec3> MassPenaltyIntegrator::getVelocitiesForTemperature(const System& system, double temperature,
                                                                int randomSeed) const {
    vector<Vec3> velocities = Integrator::getVelocitiesForTemperature(system, temperature, randomSeed);
    // (OpenMM's own solver, which comes afterwards, would fail with dependent constraints.)
    if (context != nullptr)
        getKernel<MassPenaltyQueries>().prepareVelocities(velocities);
    return velocities;
}
