#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include "openmmstiff/internal/Message.h"
#include "setup/StiffMotion.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"
#include <cmath>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

namespace {
void requireInertia(double inertia, const char* className) {
    if (!(inertia >= 0) || std::isinf(inertia))
        throw OpenMMException(message(className, ": the inertia of a pair must be a non-negative number, not ", inertia,
                                      " dalton. To hold a distance fixed, add a constraint to the System"));
}
} // namespace

MassPenaltyIntegrator::MassPenaltyIntegrator(double stepSize)
        : StiffIntegrator(stepSize), penalizedPeriod(0), bondInertia(0), useBondedForces(true) {
}

void MassPenaltyIntegrator::setPenalizedPeriod(double period) {
    if (!(period >= 0) || std::isinf(period))
        throw OpenMMException(message(getClassName(), ": the penalized period must be a non-negative number, not ",
                                      period, " ps; 0 makes it 16 steps"));
    penalizedPeriod = period;
}

double MassPenaltyIntegrator::computePenalizedPeriod() const {
    const int defaultSteps = 16;
    return penalizedPeriod > 0 ? penalizedPeriod : defaultSteps * getStepSize();
}

void MassPenaltyIntegrator::setBondInertia(double inertia) {
    if (!(inertia >= 0) || std::isinf(inertia))
        throw OpenMMException(message(getClassName(), ": the inertia of bonds must be a non-negative number, not ",
                                      inertia, " dalton; 0 is none"));
    bondInertia = inertia;
}

int MassPenaltyIntegrator::addPair(int particle1, int particle2, double inertia) {
    pairs.emplace_back();
    try {
        setPairParameters(pairs.size() - 1, particle1, particle2, inertia);
    }
    catch (...) {
        pairs.pop_back();
        throw;
    }
    return pairs.size() - 1;
}

void MassPenaltyIntegrator::getPairParameters(int index, int& particle1, int& particle2, double& inertia) const {
    requireIndex(getClassName(), "pair", "addPair()", index, pairs.size());
    particle1 = pairs[index].particle1;
    particle2 = pairs[index].particle2;
    inertia = pairs[index].inertia;
}

void MassPenaltyIntegrator::setPairParameters(int index, int particle1, int particle2, double inertia) {
    requireIndex(getClassName(), "pair", "addPair()", index, pairs.size());
    requireInertia(inertia, getClassName());
    if (particle1 == particle2)
        throw OpenMMException(
                message(getClassName(), ": a pair needs two different particles, not ", particle1, " twice"));
    pairs[index] = {particle1, particle2, inertia};
}

int MassPenaltyIntegrator::computeNumPenalizedPairs() {
    requireContext();
    penalizedPairs.clear();
    for (const PenalizedPair& pair : kernel.getAs<IntegrateMassPenaltyStepKernel>().getPairs(*context))
        if (!pair.isConstrained())
            penalizedPairs.push_back({pair.particle1, pair.particle2, pair.inertia});
    return penalizedPairs.size();
}

void MassPenaltyIntegrator::getPenalizedPairParameters(int index, int& particle1, int& particle2,
                                                       double& inertia) const {
    if (index < 0 || index >= (int) penalizedPairs.size())
        throw OpenMMException(message(getClassName(), ": there is no penalized pair ", index,
                                      ". computeNumPenalizedPairs(), which is to be called first, has counted ",
                                      penalizedPairs.size()));
    particle1 = penalizedPairs[index].particle1;
    particle2 = penalizedPairs[index].particle2;
    inertia = penalizedPairs[index].inertia;
}

std::unique_ptr<StiffMotion> MassPenaltyIntegrator::findStiffMotion() {
    const System& system = context->getSystem();
    auto motion = std::make_unique<StiffMotion>(system, "pairs with an inertia",
                                                "Add pairs with addPair(), or addPairsFromTopology() in Python");
    motion->addPairs(kernel.getAs<IntegrateMassPenaltyStepKernel>().getPairs(*context),
                     BondedStiffness(system, getIntegrationForceGroups(), getClassName()));
    return motion;
}

std::string MassPenaltyIntegrator::getKernelName() const {
    return IntegrateMassPenaltyStepKernel::Name();
}

vector<Vec3> MassPenaltyIntegrator::getVelocitiesForTemperature(const System& system, double temperature,
                                                                int randomSeed) const {
    vector<Vec3> velocities = Integrator::getVelocitiesForTemperature(system, temperature, randomSeed);
    if (context == nullptr)
        return velocities;
    const_cast<Kernel&>(kernel).getAs<IntegrateMassPenaltyStepKernel>().prepareVelocities(*context, velocities);
    return velocities;
}
