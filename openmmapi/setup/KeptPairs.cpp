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

KeptPairs::Settings KeptPairs::getSettings(const MassPenaltyIntegrator& integrator) {
    return {double(getPairRevision(integrator)), double(integrator.getIntegrationForceGroups()),
            integrator.getPenalizedPeriod(), integrator.getBondInertia()};
}

void KeptPairs::initialize(const MassPenaltyIntegrator& integrator, const std::string& className) {
    this->className = className;
    readParameters(integrator.getIntegrationForceGroups());
    if (!integrator.getUseBondedForces() || !bonded->needsGeometry())
        update(integrator);
}

bool KeptPairs::update(const MassPenaltyIntegrator& integrator) {
    if (!kept.update(getSettings(integrator), [&](const Settings&) { return choose(integrator); }))
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

KeptPairs::Pairs KeptPairs::getNextPairs(const MassPenaltyIntegrator& integrator) {
    readParameters(integrator.getIntegrationForceGroups());
    const bool known = stiffnessKnown || !bonded->needsGeometry();
    const vector<double> toRestore = restored;
    const Pairs next = choose(integrator);
    if (!known) {
        stiffnessKnown = false;
        restored = toRestore;
        kept.forget();
    }
    return next;
}

void KeptPairs::requirePossible(const MassPenaltyIntegrator& integrator) {
    readParameters(integrator.getIntegrationForceGroups());
    choosePairs(system, nullptr, getExplicitPairs(integrator), integrator.getPenalizedPeriod(), className);
    chooseBonds(system, nullptr, 0, false, getExplicitBonds(integrator), className);
}

void KeptPairs::parametersMayHaveChanged(const MassPenaltyIntegrator& integrator) {
    forgetParameters();
    try {
        readParameters(integrator.getIntegrationForceGroups());
    }
    catch (const OpenMMException&) {
        // The next step will say so.
    }
}

const vector<double>& KeptPairs::getStiffness() const {
    return stiffnessKnown && bonded->needsGeometry() ? bonded->stiffness : restored;
}

void KeptPairs::restoreStiffness(const vector<double>& stiffness) {
    forgetParameters();
    restored = stiffness;
    stiffnessKnown = false;
}

KeptPairs::Pairs KeptPairs::choose(const MassPenaltyIntegrator& integrator) {
    const bool useBonded = integrator.getUseBondedForces();
    readParameters(integrator.getIntegrationForceGroups());
    if (useBonded)
        updateStiffness();
    const BondedStiffness* const used = useBonded ? bonded.get() : nullptr;
    return {choosePairs(system, used, getExplicitPairs(integrator), integrator.getPenalizedPeriod(), className),
            chooseBonds(system, used, integrator.getBondInertia(), integrator.getUseDefaultBondInertia(),
                        getExplicitBonds(integrator), className)};
}

void KeptPairs::forgetParameters() {
    parametersKnown = false;
    kept.forget();
}

void KeptPairs::readParameters(int integrationGroups) {
    if (bonded != nullptr && parametersKnown && integrationGroups == bondedGroups)
        return;
    auto present = std::make_unique<BondedStiffness>(system, integrationGroups, className);
    if (bonded == nullptr || integrationGroups != bondedGroups || !present->hasSameParameters(*bonded)) {
        stiffnessKnown = false;
        restored.clear();
        bonded = std::move(present);
    }
    bondedGroups = integrationGroups;
    parametersKnown = true;
}

void KeptPairs::updateStiffness() {
    if (stiffnessKnown)
        return;
    if (restored.size() == bonded->pairs.size())
        bonded->stiffness = restored;
    else
        bonded->compute(system, bonded->needsGeometry() ? geometry() : PresentGeometry());
    restored.clear();
    stiffnessKnown = true;
}
