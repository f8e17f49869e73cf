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

KeptPairs::Bonded::Bonded(const System& system, const vector<PairInertia>& constraints, int groups,
                          const std::map<std::string, double>& parameters, const std::string& className,
                          const Bonded* previous)
        : stiffness(system, constraints, groups, parameters, className, previous ? &previous->stiffness : nullptr),
          graph(system, constraints, &stiffness),
          spectrum(system, graph, groups, parameters, className, previous ? &previous->spectrum : nullptr) {
}

void KeptPairs::noticeParameters() {
    for (size_t i = 0; i < present.size(); i++)
        if (std::memcmp(present[i], &selected[i], sizeof(double)) != 0) {
            selected[i] = *present[i];
            isSuspect = true;
            numChanges++;
        }
}

KeptPairs::Settings KeptPairs::getSettings(const MassPenaltyIntegrator& integrator) {
    noticeParameters();
    return {double(getPairRevision(integrator)),
            double(integrator.getIntegrationForceGroups()),
            integrator.getStepSize(),
            integrator.getPenalizedPeriod(),
            integrator.getBondInertia(),
            double(integrator.getMaxBlockSize()),
            double(numChanges)};
}

bool KeptPairs::update(const MassPenaltyIntegrator& integrator) {
    if (isHeld || !kept.update(getSettings(integrator), [&](const auto&) { return getNextPairs(integrator); }))
        return false;
    blocks = findBlocks(system, kept.get());
    anchored = std::any_of(blocks.begin(), blocks.end(),
                           [](const Block& block) { return block.numMobile < (int) block.particles.size(); });
    addFreeParticles(system, blocks);
    return true;
}

PairTerms KeptPairs::choose(const MassPenaltyIntegrator& integrator) {
    const double leastLimit = 1.6; // 2/omega in steps: five in a period
    const vector<PairInertia> ownPairs = getExplicitPairs(integrator), ownBonds = getExplicitBonds(integrator);
    const double period = integrator.getPenalizedPeriod(), inertia = integrator.getBondInertia(),
                 shortest = leastLimit * integrator.getInertialStepSize();
    const bool follows = integrator.getUseDefaultBondInertia();
    if (!integrator.getUseBondedForces()) {
        PairTerms chosen = {choosePairs(system, constraints, nullptr, ownPairs, period, className), {}};
        for (const PairInertia& bond :
             chooseBonds(system, BondGraph(system, constraints, nullptr), inertia, follows, ownBonds, className))
            if (bond.inertia > 0)
                chosen.bonds.push_back(bond);
        return chosen;
    }
    const int presentGroups = integrator.getIntegrationForceGroups();
    if (isSuspect || presentGroups != forceGroups) {
        bonded = std::make_unique<Bonded>(system, constraints, presentGroups, parameters, className, bonded.get());
        forceGroups = presentGroups;
        isSuspect = false;
    }
    return bonded->spectrum.choose(choosePairs(system, constraints, &bonded->stiffness, ownPairs, period, className),
                                   chooseBonds(system, bonded->graph, inertia, follows, ownBonds, className),
                                   follows ? shortest : 0, integrator.getMaxBlockSize());
}
