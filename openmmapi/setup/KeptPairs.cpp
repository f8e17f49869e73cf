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
    return integrationGroups == integrator.getIntegrationForceGroups() &&
           period == integrator.getPenalizedPeriod() && bondInertia == integrator.getBondInertia() &&
           useBondedForces == integrator.getUseBondedForces() &&
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
    const Pairs* const next = findChange(integrator);
    if (next != nullptr)
        settle(*next);
    return next != nullptr;
}

const KeptPairs::Pairs* KeptPairs::findChange(const MassPenaltyIntegrator& integrator) {
    auto collect = [&](const MassPenaltyIntegrator& integrator) { return choose(Settings(integrator)); };
    if (!kept.update(integrator, collect) && settledAsKept)
        return nullptr;
    settledAsKept = areSettled() && kept.get() == pairs;
    return settledAsKept ? nullptr : &kept.get();
}

void KeptPairs::settle(const Pairs& next) {
    pairs = next;
    vector<vector<int>> particles;
    for (const PenalizedPair& pair : pairs.pairs)
        particles.push_back({pair.particle1, pair.particle2});
    for (const BondInertia& bond : pairs.bonds)
        particles.push_back({bond.particle1, bond.particle2});
    blocks = connect(system, particles, pairs.pairs.size());
    settledAsKept = true;
    revision++;
}

void KeptPairs::restore(const Pairs& before) {
    forgetParameters();
    settle(before);
    settledAsKept = false;
}

bool KeptPairs::areCurrent(const MassPenaltyIntegrator& integrator) const {
    return settledAsKept && areSettled() && kept.isUpToDate(integrator);
}

KeptPairs::Pairs KeptPairs::getNextPairs(const MassPenaltyIntegrator& integrator) {
    return ask(integrator, [&] { return choose(Settings(integrator)); });
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

bool KeptPairs::isStiffnessKnown(const MassPenaltyIntegrator& integrator) {
    readParameters(integrator.getIntegrationForceGroups());
    return stiffnessKnown || !bonded->needsGeometry();
}
