#include "KeptPairs.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/OpenMMException.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

namespace {

/** What a getter gives for each index. */
template <class Getter>
vector<PairInertia> getAll(const MassPenaltyIntegrator& integrator, int number, Getter getter) {
    vector<PairInertia> pairs(number);
    for (int i = 0; i < number; i++)
        (integrator.*getter)(i, pairs[i].particle1, pairs[i].particle2, pairs[i].inertia);
    return pairs;
}

} // namespace

vector<PairInertia> OpenMMStiff::getExplicitPairs(const MassPenaltyIntegrator& integrator) {
    return getAll(integrator, integrator.getNumPairs(), &MassPenaltyIntegrator::getPairParameters);
}

vector<PairInertia> OpenMMStiff::getExplicitBonds(const MassPenaltyIntegrator& integrator) {
    return getAll(integrator, integrator.getNumBondInertias(), &MassPenaltyIntegrator::getBondInertiaParameters);
}

vector<double> KeptPairs::getSettings(const MassPenaltyIntegrator& integrator) const {
    vector<double> settings = selectParameters(system, parameters());
    settings.insert(settings.end(),
                    {double(getPairRevision(integrator)), double(integrator.getIntegrationForceGroups()),
                     integrator.getPenalizedPeriod(), integrator.getBondInertia()});
    return settings;
}

bool KeptPairs::update(const MassPenaltyIntegrator& integrator) {
    if (!kept.update(getSettings(integrator), [&](const auto&) { return choose(integrator); }))
        return false;
    const Pairs& pairs = kept.get();
    vector<vector<int>> particles;
    for (const PenalizedPair& pair : pairs.pairs)
        particles.push_back({pair.particle1, pair.particle2});
    for (const PairInertia& bond : pairs.bonds)
        particles.push_back({bond.particle1, bond.particle2});
    blocks = connect(system, particles, pairs.pairs.size());
    addFreeParticles(system, blocks);
    return true;
}

void KeptPairs::requirePossible(const MassPenaltyIntegrator& integrator) const {
    choosePairs(system, constraints, nullptr, getExplicitPairs(integrator), integrator.getPenalizedPeriod(),
                className);
    chooseBonds(system, constraints, nullptr, 0, false, getExplicitBonds(integrator), className);
}

KeptPairs::Pairs KeptPairs::choose(const MassPenaltyIntegrator& integrator) {
    const int presentGroups = integrator.getIntegrationForceGroups();
    vector<double> present = selectParameters(system, parameters());
    if (integrator.getUseBondedForces() && (bonded == nullptr || presentGroups != groups || present != selected)) {
        bonded = std::make_unique<BondedStiffness>(system, constraints, presentGroups, parameters(), className);
        groups = presentGroups;
        selected = std::move(present);
    }
    const BondedStiffness* const used = integrator.getUseBondedForces() ? bonded.get() : nullptr;
    return {choosePairs(system, constraints, used, getExplicitPairs(integrator), integrator.getPenalizedPeriod(),
                        className),
            chooseBonds(system, constraints, used, integrator.getBondInertia(), integrator.getUseDefaultBondInertia(),
                        getExplicitBonds(integrator), className)};
}
