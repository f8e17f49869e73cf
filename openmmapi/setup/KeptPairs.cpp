#include "KeptPairs.h"
#include "openmmstiff/StiffKernels.h"
#include <algorithm>
#include <cstring>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

namespace {

/** What a getter gives for each index. */
template <class Getter> vector<PairInertia> getAll(const MassPenaltyIntegrator& integrator, int number, Getter getter) {
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

void KeptPairs::noticeParameters() {
    for (size_t i = 0; i < present.size(); i++)
        if (std::memcmp(present[i], &selected[i], sizeof(double)) != 0) {
            selected[i] = *present[i];
            bonded = nullptr;
            numChanges++;
        }
}

KeptPairs::Settings KeptPairs::getSettings(const MassPenaltyIntegrator& integrator) {
    noticeParameters();
    return {double(getPairRevision(integrator)), double(integrator.getIntegrationForceGroups()),
            integrator.getPenalizedPeriod(), integrator.getBondInertia(), double(numChanges)};
}

bool KeptPairs::update(const MassPenaltyIntegrator& integrator) {
    if (!kept.update(getSettings(integrator), [&](const auto&) { return choose(integrator); }))
        return false;
    const PairTerms& pairs = kept.get();
    vector<vector<int>> particles;
    for (const PenalizedPair& pair : pairs.pairs)
        particles.push_back({pair.particle1, pair.particle2});
    for (const PairInertia& bond : pairs.bonds)
        particles.push_back({bond.particle1, bond.particle2});
    blocks = connect(system, particles, pairs.pairs.size());
    anchored = std::any_of(blocks.begin(), blocks.end(),
                           [](const Block& block) { return block.numMobile < (int) block.particles.size(); });
    addFreeParticles(system, blocks);
    return true;
}

void KeptPairs::requirePossible(const MassPenaltyIntegrator& integrator) const {
    choosePairs(system, constraints, nullptr, getExplicitPairs(integrator), integrator.getPenalizedPeriod(), className);
    chooseBonds(system, constraints, nullptr, 0, false, getExplicitBonds(integrator), className);
}

PairTerms KeptPairs::choose(const MassPenaltyIntegrator& integrator) {
    const int presentGroups = integrator.getIntegrationForceGroups();
    if (integrator.getUseBondedForces() && (bonded == nullptr || presentGroups != groups)) {
        bonded = std::make_unique<BondedStiffness>(system, constraints, presentGroups, parameters, className);
        groups = presentGroups;
    }
    const BondedStiffness* const used = integrator.getUseBondedForces() ? bonded.get() : nullptr;
    return {choosePairs(system, constraints, used, getExplicitPairs(integrator), integrator.getPenalizedPeriod(),
                        className),
            chooseBonds(system, constraints, used, integrator.getBondInertia(), integrator.getUseDefaultBondInertia(),
                        getExplicitBonds(integrator), className)};
}
