#include "stiffhost/PenalizedVelocities.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "stiffcore/model/InternalCoordinate.h"
#include "stiffcore/pairs/MassRoot.h"
#include "stiffhost/Checkpoints.h"
#include <algorithm>
#include <cmath>

using namespace stiffhost;

void PenalizedVelocities::initialize(const std::vector<double>& masses, const std::string& className) {
    this->masses = masses;
    this->className = className;
    known = Knowledge();
    known.left.resize(masses.size()); // a new Context is at rest
}

void PenalizedVelocities::haveBeenSet() {
    known.toldForeign = false;
}

void PenalizedVelocities::areTied() {
    areTied(state.positions(), state.velocities());
}

void PenalizedVelocities::areTied(const Vectors& positions, const Vectors& velocities) {
    known.tiedAt = positions;
    known.left = velocities;
    known.toldForeign = false;
}

bool PenalizedVelocities::follow(const Integrator& integrator, std::string& remark) {
    undo = Undo();
    const bool inPlace = areSame(state.velocities(), known.left) && areSame(getTiedPositions(), state.positions());
    if (inPlace && pairs.areCurrent(integrator))
        return false;
    const Pairs* const next = pairs.findChange(integrator);
    Loose loose = {state.velocities(), std::vector<char>(masses.size()), false};
    Pairs before;
    const bool wereSettled = pairs.areSettled();
    if (wereSettled) {
        before = pairs.getPairs();
        releaseOwn(next == nullptr ? before : *next, loose);
    }
    const std::vector<char> released = loose.which;
    if (next != nullptr)
        pairs.settle(*next);
    if (!inPlace)
        looseForeign(integrator, loose, remark);
    if (loose.any) {
        tieLoose(released, loose);
        undo = {true, state.velocities(), next != nullptr && wereSettled, before, known};
        state.changeVelocities() = loose.v;
    }
    areTied();
    return next != nullptr;
}

void PenalizedVelocities::undoFollow() {
    if (!undo.valid)
        return;
    state.changeVelocities().swap(undo.velocities);
    known = undo.known;
    if (undo.pairsHaveChanged)
        pairs.restore(undo.pairs);
    undo = Undo();
}

bool PenalizedVelocities::prepareDrawn(const Integrator& integrator, Vectors& drawn) {
    const bool changed = pairs.update(integrator); // the velocities at hand are about to be replaced
    for (const stiffcore::Block& block : pairs.getBlocks())
        makeRoot(block, state.positions()).tie(components(drawn));
    areTied(state.positions(), drawn);
    return changed;
}

double PenalizedVelocities::computeEnergy(const Integrator& integrator) {
    if (!pairs.areSettled() || findOwn().empty())
        pairs.ask(integrator, [&] { return pairs.update(integrator); });
    double energy = 0;
    for (size_t i = 0; i < masses.size(); i++)
        energy += ofMass(i, state.velocities());
    const std::vector<Molecule> molecules = assess();
    const std::vector<char> foreign = findForeign(integrator, molecules);
    for (size_t m = 0; m < molecules.size(); m++)
        if (!foreign[m])
            energy += molecules[m].ofPairs;
    return energy;
}

void PenalizedVelocities::beginCollisions() {
    beforeCollisions = state.velocities();
}

void PenalizedVelocities::endCollisions() {
    const Vectors drawn = state.velocities();
    auto isHit = [&](int particle) { return drawn[particle] != beforeCollisions[particle]; };
    for (const stiffcore::Block& block : pairs.getBlocks()) {
        const auto begin = block.particles.begin(), end = begin + block.numMobile;
        if (std::none_of(begin, end, isHit))
            continue;
        const stiffcore::MassRoot root = makeRoot(block, state.positions());
        Vectors& v = state.changeVelocities();
        for (auto i = begin; i != end; ++i)
            v[*i] = beforeCollisions[*i];
        root.release(components(v));
        for (auto i = begin; i != end; ++i)
            if (isHit(*i))
                v[*i] = drawn[*i];
        root.tie(components(v));
    }
}

void PenalizedVelocities::write(std::ostream& stream) const {
    writeCheckpoint(stream, known.toldForeign);
    writeCheckpoint(stream, known.tiedAt);
    writeCheckpoint(stream, known.left);
    writeCheckpoint(stream, pairs.areSettled());
    writeCheckpoint(stream, pairs.getPairs().bonds);
    writeCheckpoint(stream, pairs.getPairs().pairs.size());
    for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs().pairs) {
        writeCheckpoint(stream, pair.particle1);
        writeCheckpoint(stream, pair.particle2);
        writeCheckpoint(stream, pair.inertia);
        writeCheckpoint(stream, pair.distance);
        writeCheckpoint(stream, pair.periodic);
    }
}

void PenalizedVelocities::read(std::istream& stream) {
    Knowledge saved;
    bool arranged;
    size_t number;
    readCheckpoint(stream, &saved.toldForeign, 1);
    readCheckpoint(stream, saved.tiedAt);
    readCheckpoint(stream, saved.left);
    readCheckpoint(stream, &arranged, 1);
    Pairs tied;
    readCheckpoint(stream, tied.bonds);
    readCheckpoint(stream, &number, 1);
    tied.pairs.resize(number);
    for (OpenMMStiff::PenalizedPair& pair : tied.pairs) {
        readCheckpoint(stream, &pair.particle1, 1);
        readCheckpoint(stream, &pair.particle2, 1);
        readCheckpoint(stream, &pair.inertia, 1);
        readCheckpoint(stream, &pair.distance, 1);
        readCheckpoint(stream, &pair.periodic, 1);
    }
    if (arranged)
        pairs.restore(tied);
    known = saved;
}

void PenalizedVelocities::write(OpenMM::SerializationNode& node) const {
    if (!pairs.areSettled())
        return;
    OpenMM::SerializationNode& tied = node.createChildNode("TiedPairs");
    for (const OpenMMStiff::BondInertia& bond : pairs.getPairs().bonds)
        tied.createChildNode("Bond")
                .setIntProperty("p1", bond.particle1)
                .setIntProperty("p2", bond.particle2)
                .setDoubleProperty("inertia", bond.inertia);
    for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs().pairs)
        tied.createChildNode("Pair")
                .setIntProperty("p1", pair.particle1)
                .setIntProperty("p2", pair.particle2)
                .setDoubleProperty("inertia", pair.inertia)
                .setDoubleProperty("distance", pair.distance)
                .setBoolProperty("periodic", pair.periodic);
    // Particles that have been moved, or given other velocities, since.
    const Vectors &x = state.positions(), &v = state.velocities(), &tiedAt = getTiedPositions();
    for (size_t i = 0; i < x.size(); i++)
        if (tiedAt[i] != x[i] || known.left[i] != v[i])
            tied.createChildNode("Before")
                    .setIntProperty("particle", i)
                    .setDoubleProperty("x", tiedAt[i][0])
                    .setDoubleProperty("y", tiedAt[i][1])
                    .setDoubleProperty("z", tiedAt[i][2])
                    .setDoubleProperty("vx", known.left[i][0])
                    .setDoubleProperty("vy", known.left[i][1])
                    .setDoubleProperty("vz", known.left[i][2]);
}

void PenalizedVelocities::read(const OpenMM::SerializationNode& node, bool ofThisMethod) {
    known.toldForeign = !ofThisMethod;
    for (const OpenMM::SerializationNode& child : node.getChildren()) {
        if (child.getName() != "TiedPairs")
            continue;
        Pairs tied;
        Knowledge saved = {state.velocities(), state.positions(), false};
        for (const OpenMM::SerializationNode& each : child.getChildren())
            if (each.getName() == "Before") {
                const int i = requireParticle(each.getIntProperty("particle"));
                saved.tiedAt[i] = OpenMM::Vec3(each.getDoubleProperty("x"), each.getDoubleProperty("y"),
                                               each.getDoubleProperty("z"));
                saved.left[i] = OpenMM::Vec3(each.getDoubleProperty("vx"), each.getDoubleProperty("vy"),
                                             each.getDoubleProperty("vz"));
            }
            else if (each.getName() == "Bond")
                tied.bonds.push_back({requireParticle(each.getIntProperty("p1")),
                                      requireParticle(each.getIntProperty("p2")), each.getDoubleProperty("inertia")});
            else
                tied.pairs.push_back({requireParticle(each.getIntProperty("p1")),
                                      requireParticle(each.getIntProperty("p2")), each.getDoubleProperty("inertia"),
                                      each.getDoubleProperty("distance"), each.getBoolProperty("periodic")});
        pairs.restore(tied);
        known = saved;
    }
}

const Vectors& PenalizedVelocities::getTiedPositions() const {
    return known.tiedAt.empty() ? state.positions() : known.tiedAt;
}

std::vector<char> PenalizedVelocities::findOwn() const {
    // Those that have just been drawn may have been rounded, and brought to constraints.
    const double tolerance = 1e-5;
    const Vectors& v = state.velocities();
    std::vector<char> own(v.size());
    bool any = false;
    for (size_t i = 0; i < v.size(); i++) {
        const OpenMM::Vec3 change = v[i] - known.left[i];
        own[i] = (change.dot(change) <= tolerance * tolerance * known.left[i].dot(known.left[i]));
        any |= own[i];
    }
    return any ? own : std::vector<char>();
}

bool PenalizedVelocities::isOwn(const stiffcore::Block& block, const std::vector<char>& own) {
    const auto begin = block.particles.begin();
    return !own.empty() && std::all_of(begin, begin + block.numMobile, [&](int particle) { return own[particle]; });
}

std::vector<PenalizedVelocities::Molecule> PenalizedVelocities::assess() const {
    const stiffcore::Box box = state.box();
    const Vectors& v = state.velocities();
    const std::vector<char> own = findOwn();
    std::vector<Molecule> molecules;
    for (const stiffcore::Block& block : pairs.getBlocks()) {
        Molecule molecule = {isOwn(block, own), 3 * block.numMobile};
        const Vectors& positions = (molecule.own ? getTiedPositions() : state.positions());
        auto velocity = [&](int particle) { return masses[particle] > 0 ? v[particle] : OpenMM::Vec3(); };
        for (int particle : block.particles)
            molecule.ofMasses += ofMass(particle, v);
        for (int term : block.terms) {
            const OpenMMStiff::PenalizedPair& pair = pairs.getPairs().pairs[term];
            const int i = pair.particle1, j = pair.particle2;
            if (pair.isConstrained()) {
                molecule.numFreedoms = std::max(1, molecule.numFreedoms - 1);
                continue;
            }
            const OpenMM::Vec3 d = positions[j] - positions[i], relative = velocity(j) - velocity(i);
            stiffcore::Vector3<double> direction(d[0], d[1], d[2]);
            if (pair.periodic)
                direction = box.minimumImage(direction);
            if (direction.squaredNorm() > 0)
                direction.normalize();
            const double w = direction.dot(stiffcore::Vector3<double>(relative[0], relative[1], relative[2]));
            molecule.ofPairs += 0.5 * pair.inertia * w * w;
            molecule.logMassRatio += std::log1p(pair.inertia * (inverseMass(i) + inverseMass(j)));
            molecule.numPenalized++;
        }
        for (int term : block.otherTerms) {
            const OpenMMStiff::BondInertia& bond = pairs.getPairs().bonds[term];
            const int i = bond.particle1, j = bond.particle2;
            const OpenMM::Vec3 relative = velocity(j) - velocity(i);
            molecule.ofPairs += 0.5 * bond.inertia * relative.dot(relative);
            // In two directions: along the bond there is more inertia, or a constraint.
            molecule.logMassRatio += 2 * std::log1p(bond.inertia * (inverseMass(i) + inverseMass(j)));
        }
        molecules.push_back(molecule);
    }
    return molecules;
}

double PenalizedVelocities::computeThermalEnergy(const std::vector<Molecule>& molecules, bool together) {
    double twice = 0;
    int numFreedoms = 0;
    for (const Molecule& molecule : molecules) {
        // Of those that are not known, what is not along pairs, where own ones' masses have next to no motion.
        const bool known = molecule.own || together;
        twice += 2 * (molecule.ofMasses + (molecule.own ? molecule.ofPairs : 0));
        numFreedoms +=
                molecule.numFreedoms - (known ? 0 : std::min(molecule.numPenalized, 2 * molecule.numFreedoms / 3));
    }
    return numFreedoms > 0 ? twice / numFreedoms : 0;
}

std::vector<char> PenalizedVelocities::findForeign(const Integrator& integrator,
                                                   const std::vector<Molecule>& molecules) const {
    std::vector<char> foreign(molecules.size());
    std::vector<int> judged;
    for (size_t m = 0; m < molecules.size(); m++)
        // Those without inertias are anybody's; what is not finite makes the step fail.
        if (!molecules[m].own && molecules[m].ofPairs > 0 && std::isfinite(molecules[m].ofPairs))
            judged.push_back(m);
    const auto* heatBath = dynamic_cast<const OpenMMStiff::LangevinThermostat*>(&integrator);
    const double ofHeatBath = (heatBath == nullptr ? 0 : BOLTZ * heatBath->getTemperature());
    auto evidence = [&](const Molecule& molecule, double ofAll) {
        const double own = 2 * molecule.ofMasses / molecule.numFreedoms;
        return molecule.ofPairs / std::max({ofAll, ofHeatBath, own}) - 0.5 * molecule.logMassRatio;
    };
    const double ofUnknown = computeThermalEnergy(molecules, false), most = 3, sufficient = 10, doubt = 5,
                 logNumber = std::log(2 * judged.size() + 1); // the odds that it is one of them
    double sum = 0;
    for (int m : judged)
        sum += std::max(-most, std::min(most, evidence(molecules[m], ofUnknown)));
    const bool together = known.toldForeign || sum > sufficient;
    const double kT = (together ? computeThermalEnergy(molecules, true) : ofUnknown);
    for (int m : judged)
        foreign[m] = known.toldForeign || evidence(molecules[m], kT) > (together ? -logNumber : doubt + logNumber);
    return foreign;
}

void PenalizedVelocities::releaseOwn(const Pairs& next, Loose& loose) const {
    const std::vector<char> own = findOwn();
    const Vectors &x = state.positions(), &tiedAt = getTiedPositions();
    const Pairs& all = pairs.getPairs();
    std::vector<char> hasOtherPairs(masses.size());
    auto markChanges = [&](const auto& now, const auto& then, auto&& isBefore) {
        for (const auto& [some, others] : {std::pair(&now, &then), std::pair(&then, &now)})
            for (const auto& each : *some) {
                const auto place = std::lower_bound(others->begin(), others->end(), each, isBefore);
                if (place == others->end() || !(*place == each))
                    hasOtherPairs[each.particle1] = hasOtherPairs[each.particle2] = true;
            }
    };
    if (!(next == all)) {
        markChanges(all.pairs, next.pairs, isBefore);
        markChanges(all.bonds, next.bonds,
                    [](const auto& one, const auto& other) { return one.particle2 < other.particle2; });
    }
    for (const stiffcore::Block& block : pairs.getBlocks()) {
        auto isElsewhere = [&](int particle) {
            // Molecules that have merely been moved as a whole are tied there too.
            const int first = block.particles[0];
            const OpenMM::Vec3 moved = (x[particle] - tiedAt[particle]) - (x[first] - tiedAt[first]);
            return hasOtherPairs[particle] || !(moved.dot(moved) <= std::pow(state.getPositionRounding(), 2));
        };
        if (!isOwn(block, own) || std::none_of(block.particles.begin(), block.particles.end(), isElsewhere))
            continue;
        makeRoot(block, tiedAt).release(components(loose.v));
        loose.take(block);
    }
}

void PenalizedVelocities::looseForeign(const Integrator& integrator, Loose& loose, std::string& remark) const {
    const std::vector<char> foreign = findForeign(integrator, assess());
    const int number = std::count(foreign.begin(), foreign.end(), true);
    if (number == 0)
        return;
    for (size_t m = 0; m < foreign.size(); m++)
        if (foreign[m])
            loose.take(pairs.getBlocks()[m]);
    const size_t first = std::find(foreign.begin(), foreign.end(), true) - foreign.begin();
    remark = "the velocities of " + std::to_string(number) + " of " + std::to_string(foreign.size()) +
             " molecules, the first that of particle " + std::to_string(pairs.getBlocks()[first].particles[0]) +
             ", were set, or drawn by another integrator, for masses without inertias. They have been made this"
             " integrator's; each molecule has kept its momentum and its kinetic energy";
}

void PenalizedVelocities::tieLoose(const std::vector<char>& released, Loose& loose) const {
    for (const stiffcore::Block& block : pairs.getBlocks()) {
        const auto begin = block.particles.begin(), end = begin + block.numMobile;
        if (std::none_of(begin, end, [&](int particle) { return loose.which[particle]; }))
            continue;
        const double taken = makeRoot(block, state.positions()).tie(components(loose.v));
        if (taken > 0 && released[*begin])
            giveBack(taken, block, loose.v);
    }
}

void PenalizedVelocities::giveBack(double energy, const stiffcore::Block& block, Vectors& v) const {
    const bool isFixed = block.numMobile < (int) block.particles.size();
    OpenMM::Vec3 momentum;
    double mass = 0, relative = 0;
    for (int particle : block.particles) {
        momentum += v[particle] * masses[particle];
        mass += masses[particle];
    }
    const OpenMM::Vec3 centre = isFixed ? OpenMM::Vec3() : momentum / mass;
    for (int particle : block.particles)
        relative += 0.5 * masses[particle] * (v[particle] - centre).dot(v[particle] - centre);
    for (int i = 0; i < block.numMobile && relative > 0; i++) {
        OpenMM::Vec3& velocity = v[block.particles[i]];
        velocity = centre + (velocity - centre) * std::sqrt(1 + energy / relative);
    }
}

stiffcore::MassRoot PenalizedVelocities::makeRoot(const stiffcore::Block& block, const Vectors& positions) const {
    return stiffcore::MassRoot(block, pairs.getPairs(), masses, components(positions), state.box());
}

double PenalizedVelocities::inverseMass(int particle) const {
    return masses[particle] > 0 ? 1 / masses[particle] : 0;
}

double PenalizedVelocities::ofMass(int particle, const Vectors& v) const {
    return 0.5 * masses[particle] * v[particle].dot(v[particle]);
}

bool PenalizedVelocities::isBefore(const OpenMMStiff::PenalizedPair& one, const OpenMMStiff::PenalizedPair& other) {
    return stiffcore::ordered(one.particle1, one.particle2) < stiffcore::ordered(other.particle1, other.particle2);
}

int PenalizedVelocities::requireParticle(int particle) const {
    if (particle < 0 || particle >= (int) masses.size())
        throw OpenMM::OpenMMException(className + ": the State names particle " + std::to_string(particle) +
                                      ", which the System does not have. It is one of another System");
    return particle;
}
