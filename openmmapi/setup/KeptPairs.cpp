#include "KeptPairs.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmm/OpenMMException.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

namespace {

/** What a getter gives for each index; and whether that is what it gave before, without taking memory. */
template <class Getter>
vector<ExplicitPair> getAll(const MassPenaltyIntegrator& integrator, int number, Getter getter) {
    vector<ExplicitPair> pairs(number);
    for (int i = 0; i < number; i++)
        (integrator.*getter)(i, pairs[i].particle1, pairs[i].particle2, pairs[i].inertia);
    return pairs;
}
template <class Getter>
bool areThese(const vector<ExplicitPair>& pairs, const MassPenaltyIntegrator& integrator, int number, Getter getter) {
    if ((int) pairs.size() != number)
        return false;
    for (int i = 0; i < number; i++) {
        ExplicitPair pair;
        (integrator.*getter)(i, pair.particle1, pair.particle2, pair.inertia);
        if (!(pair == pairs[i]))
            return false;
    }
    return true;
}

} // namespace

vector<ExplicitPair> OpenMMStiff::getExplicitPairs(const MassPenaltyIntegrator& integrator) {
    return getAll(integrator, integrator.getNumPairs(), &MassPenaltyIntegrator::getPairParameters);
}

vector<ExplicitPair> OpenMMStiff::getExplicitBonds(const MassPenaltyIntegrator& integrator) {
    return getAll(integrator, integrator.getNumBondInertias(), &MassPenaltyIntegrator::getBondInertiaParameters);
}

KeptPairs::Settings::Settings(const MassPenaltyIntegrator& integrator)
        : integrationGroups(integrator.getIntegrationForceGroups()), period(integrator.getPenalizedPeriod()),
          bondInertia(integrator.getBondInertia()), useBondedForces(integrator.getUseBondedForces()),
          useDefaultBondInertia(integrator.getUseDefaultBondInertia()), pairs(getExplicitPairs(integrator)),
          bonds(getExplicitBonds(integrator)) {
}

bool KeptPairs::Settings::operator==(const MassPenaltyIntegrator& integrator) const {
    return integrationGroups == integrator.getIntegrationForceGroups() && period == integrator.getPenalizedPeriod() &&
           bondInertia == integrator.getBondInertia() && useBondedForces == integrator.getUseBondedForces() &&
           useDefaultBondInertia == integrator.getUseDefaultBondInertia() &&
           areThese(pairs, integrator, integrator.getNumPairs(), &MassPenaltyIntegrator::getPairParameters) &&
           areThese(bonds, integrator, integrator.getNumBondInertias(),
                    &MassPenaltyIntegrator::getBondInertiaParameters);
}

void KeptPairs::initialize(const MassPenaltyIntegrator& integrator, const std::string& className) {
    this->className = className;
    readParameters(integrator.getIntegrationForceGroups());
    if (!integrator.getUseBondedForces() || !bonded->needsGeometry())
        update(integrator);
}

bool KeptPairs::update(const MassPenaltyIntegrator& integrator) {
    if (!kept.update(integrator, [&](const MassPenaltyIntegrator& integrator) { return choose(Settings(integrator)); }))
        return false;
    const Pairs& pairs = kept.get();
    vector<vector<int>> particles;
    for (const PenalizedPair& pair : pairs.pairs)
        particles.push_back({pair.particle1, pair.particle2});
    for (const BondInertia& bond : pairs.bonds)
        particles.push_back({bond.particle1, bond.particle2});
    blocks = connect(system, particles, pairs.pairs.size());
    addFreeParticles(system, blocks);
    return true;
}

KeptPairs::Pairs KeptPairs::getNextPairs(const MassPenaltyIntegrator& integrator) {
    readParameters(integrator.getIntegrationForceGroups());
    const bool known = stiffnessKnown || !bonded->needsGeometry();
    const vector<double> toRestore = restored;
    const Pairs next = choose(Settings(integrator));
    if (!known) {
        stiffnessKnown = false;
        restored = toRestore;
        kept.forget();
    }
    return next;
}

void KeptPairs::requirePossible(const MassPenaltyIntegrator& integrator) {
    const Settings settings(integrator);
    readParameters(settings.integrationGroups);
    choosePairs(system, nullptr, settings.pairs, settings.period, className);
    chooseBonds(system, nullptr, 0, false, settings.bonds, className);
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

KeptPairs::Pairs KeptPairs::choose(const Settings& settings) {
    readParameters(settings.integrationGroups);
    if (settings.useBondedForces)
        updateStiffness();
    const BondedStiffness* const used = settings.useBondedForces ? bonded.get() : nullptr;
    return {choosePairs(system, used, settings.pairs, settings.period, className),
            chooseBonds(system, used, settings.bondInertia, settings.useDefaultBondInertia, settings.bonds, className)};
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
