#ifndef STIFFHOST_PENALIZED_VELOCITIES_H_
#define STIFFHOST_PENALIZED_VELOCITIES_H_

#include "Checkpoints.h"
#include "HostPairs.h"
#include "HostParticles.h"
#include "NormalNumbers.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/OpenMMException.h"
#include "openmm/Vec3.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "setup/Masses.h"
#include "stiffcore/methods/ExtendedMass.h"
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Whose velocities a Context with penalized pairs holds, and how others become those of the method.
 *
 * At a temperature, velocities tied to the pairs have the distribution N(0, kT (M + G^T kappa G)^-1), those of the
 * masses alone N(0, kT M^-1): too hot for the pairs by (mu + kappa) / mu. The one comes from the other exactly: with
 * free rates w ~ N(0, kT / kappa), velocities (v, w) of the masses alone become those of the method by being tied,
 * which takes away what is orthogonal to the tied ones; to go back, draw (v, w) afresh, and add of it what tying takes
 * away. So velocities keep their temperature when the pairs change, or the positions to which they are tied. See
 * HostParticles for the Backend.
 */
template <class Backend> class PenalizedVelocities {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;
    PenalizedVelocities(HostState& state, HostParticles<Backend>& particles, HostPairs<Backend>& pairs)
            : state(state), particles(particles), pairs(pairs) {
    }

    void initialize(const Integrator& integrator, const std::string& className) {
        const OpenMM::System& system = state.getSystem();
        this->className = className;
        numFreedoms = OpenMMStiff::countDegreesOfFreedom(system);
        known.origin = Origin::Drawn; // a new Context is at rest
        known.tiedAt.clear();
        hasHeatBath = dynamic_cast<const OpenMMStiff::LangevinThermostat*>(&integrator) != nullptr;
        for (int i = 0; i < system.getNumForces(); i++)
            hasHeatBath |= dynamic_cast<const OpenMM::AndersenThermostat*>(&system.getForce(i)) != nullptr;
    }

    // What becomes of the Context's velocities.

    /** Velocities have been set. */
    void haveBeenSet() {
        known.origin = (known.origin == Origin::AboutToBeDrawn ? Origin::Drawn : Origin::Unknown);
    }
    /** Velocities and positions are those after a step, or of a run that was saved after one. */
    void areTied() {
        areTied(state.positions(), state.velocities());
    }
    void areTied(const Vectors& positions, const Vectors& velocities) {
        known.tiedAt = positions;
        known.left = velocities;
        known.origin = Origin::Own;
    }
    /**
     * At the start of a step: bring the pairs up to date, and let the velocities follow them and the positions. Those
     * that somebody has set, drawn for the masses alone, become the method's own if there is a heat bath.
     *
     * @return whether the pairs have changed
     */
    bool follow(const Integrator& integrator) {
        const stiffcore::Box box = state.box();
        const bool own = areOwn(), inPlace = own && areSame(getTiedPositions(), state.positions());
        Vectors free; // velocities of the masses alone, if there are any to be adopted
        double kinetic = 0;
        auto take = [&](double energy) {
            if (energy > 0 && std::isfinite(energy)) { // else they are at rest, or the step will fail
                kinetic = energy;
                free = state.velocities();
            }
        };
        undo = Undo();
        auto releaseOwn = [&] {
            if (!own || !free.empty())
                return;
            undo.pairs = pairs.getPairs();
            const Vectors& tiedAt = getTiedPositions();
            take(computeEnergy(tiedAt, state.velocities(), box));
            if (!free.empty())
                release(tiedAt, box, computeThermalEnergy(kinetic), free);
        };
        if (own && !inPlace && !areTiedAtPresent())
            releaseOwn();
        const bool changed = pairs.prepare(integrator, releaseOwn);
        if (!own && areForeign()) {
            take(particles.computeKineticEnergy());
            if (!free.empty())
                requireHeatBath();
        }
        if (!free.empty()) {
            adopt(state.positions(), box, computeThermalEnergy(kinetic), free);
            scaleToEnergy(state.positions(), box, kinetic, free);
            undo.velocities.swap(state.changeVelocities());
            undo.own = own;
            undo.known = known;
            state.changeVelocities() = free;
        }
        if (known.origin != Origin::Own || !inPlace || !free.empty())
            areTied(); // else that is known
        return changed;
    }

    /** Execute a step. If it throws, all is as it was before follow(), and velocities are whose they were. */
    template <class Step> void orUndo(Step&& step) {
        try {
            particles.orRestore(className, step);
        }
        catch (...) {
            undoFollow();
            throw;
        }
    }
    /** Let velocities be what, and whose, they were before follow(). */
    void undoFollow() {
        if (undo.velocities.empty())
            return;
        state.changeVelocities().swap(undo.velocities);
        known = undo.known;
        if (undo.own)
            pairs.restore(undo.pairs);
        undo = Undo();
    }

    /**
     * Make velocities that have been drawn for the masses alone, and are about to be set, those of the method.
     *
     * @return whether the pairs have changed
     */
    bool prepareDrawn(const Integrator& integrator, double kT, Vectors& drawn) {
        const bool changed = pairs.prepare(integrator, [] {}); // those at hand are about to be replaced
        adopt(state.positions(), state.box(), kT, drawn);
        known.tiedAt = state.positions();
        known.origin = Origin::AboutToBeDrawn;
        return changed;
    }

    /** The kinetic energy of the penalized motion too, unless the velocities are those of the masses alone. */
    double computeEnergy(const Integrator& integrator) {
        if (areOwn())
            return computeEnergy(getTiedPositions(), state.velocities(), state.box());
        pairs.prepare(integrator, [] {});
        return areForeign() ? particles.computeKineticEnergy()
                            : computeEnergy(state.positions(), state.velocities(), state.box());
    }

    // What an AndersenThermostat does.

    void beginCollisions() {
        beforeCollisions = state.velocities();
    }
    /**
     * Particles have been given velocities of the masses alone. Of their molecules, released beforehand, only these
     * velocities are new; then the molecules are tied again. That leaves the distribution of the tied velocities as it
     * is.
     */
    void endCollisions(double kT) {
        const Vectors& drawn = state.velocities();
        if (pairs.getPairs().empty() || drawn == beforeCollisions)
            return;
        const stiffcore::Box box = state.box();
        Vectors v = beforeCollisions;
        release(state.positions(), box, kT, v);
        for (size_t i = 0; i < v.size(); i++)
            if (drawn[i] != beforeCollisions[i])
                v[i] = drawn[i];
        adopt(state.positions(), box, kT, v);
        Vectors& velocities = state.changeVelocities();
        pairs.visitParticles([&](const std::vector<int>& members, int numMobile) {
            bool hit = false;
            for (int i = 0; i < numMobile; i++)
                hit |= velocities[members[i]] != beforeCollisions[members[i]];
            for (int i = 0; i < numMobile && hit; i++)
                velocities[members[i]] = v[members[i]];
        });
    }

    // In saved states: the pairs that velocities are tied to, and where, tell whose velocities these are.

    void write(std::ostream& stream) const {
        const bool own = areOwn();
        writeCheckpoint(stream, own);
        if (!own)
            return;
        writeCheckpoint(stream, pairs.getPairs().size());
        for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs()) {
            writeCheckpoint(stream, pair.particle1);
            writeCheckpoint(stream, pair.particle2);
            writeCheckpoint(stream, pair.inertia);
            writeCheckpoint(stream, pair.distance);
            writeCheckpoint(stream, pair.periodic);
        }
        writeCheckpoint(stream, getTiedPositions());
    }
    void read(std::istream& stream) {
        bool own;
        readCheckpoint(stream, &own, 1);
        if (!own) {
            known.origin = Origin::Unknown;
            return;
        }
        size_t number;
        readCheckpoint(stream, &number, 1);
        std::vector<OpenMMStiff::PenalizedPair> tied(number);
        for (OpenMMStiff::PenalizedPair& pair : tied) {
            readCheckpoint(stream, &pair.particle1, 1);
            readCheckpoint(stream, &pair.particle2, 1);
            readCheckpoint(stream, &pair.inertia, 1);
            readCheckpoint(stream, &pair.distance, 1);
            readCheckpoint(stream, &pair.periodic, 1);
        }
        Vectors tiedAt;
        readCheckpoint(stream, tiedAt);
        pairs.restore(tied);
        areTied(tiedAt, state.velocities());
    }
    void write(OpenMM::SerializationNode& node) const {
        if (!areOwn() || !areSame(getTiedPositions(), state.positions()))
            return;
        OpenMM::SerializationNode& tied = node.createChildNode("TiedPairs");
        for (const OpenMMStiff::PenalizedPair& pair : pairs.getPairs())
            tied.createChildNode("Pair")
                    .setIntProperty("p1", pair.particle1)
                    .setIntProperty("p2", pair.particle2)
                    .setDoubleProperty("inertia", pair.inertia)
                    .setDoubleProperty("distance", pair.distance)
                    .setBoolProperty("periodic", pair.periodic);
    }
    /** @param ofThisMethod   whether the State was saved by an integrator of this kind */
    void read(const OpenMM::SerializationNode& node, bool ofThisMethod) {
        for (const OpenMM::SerializationNode& child : node.getChildren()) {
            if (child.getName() != "TiedPairs")
                continue;
            std::vector<OpenMMStiff::PenalizedPair> tied;
            for (const OpenMM::SerializationNode& pair : child.getChildren()) {
                tied.push_back({pair.getIntProperty("p1"), pair.getIntProperty("p2"), pair.getDoubleProperty("inertia"),
                                pair.getDoubleProperty("distance"), pair.getBoolProperty("periodic")});
                for (int particle : {tied.back().particle1, tied.back().particle2})
                    if (particle < 0 || particle >= state.getSystem().getNumParticles())
                        throw OpenMM::OpenMMException(className + ": the State names particle " +
                                                      std::to_string(particle) +
                                                      ", which the System does not have. It is one of another System");
            }
            pairs.restore(tied);
            return areTied();
        }
        if (!ofThisMethod && known.origin == Origin::Unknown)
            known.origin = Origin::Foreign;
    }

private:
    enum class Origin {
        Own,            // `left` after a step, tied at `tiedAt`
        AboutToBeDrawn, // on their way
        Drawn,          // tied at `tiedAt`, or at rest in a new Context
        Unknown,        // set by somebody
        Foreign         // drawn for the masses alone
    };
    struct Knowledge {
        Origin origin = Origin::Drawn;
        /// Where own ones are tied (empty: wherever the particles are), and what they were after the last step.
        Vectors tiedAt = {}, left = {};
    };
    /** What was before velocities became the method's own for a step; empty if they were. */
    struct Undo {
        Vectors velocities = {};
        bool own = false;
        std::vector<OpenMMStiff::PenalizedPair> pairs = {}; // that own ones were tied to
        Knowledge known = {};
    };

    // Whose they are.

    /** Whether they are tied to the pairs as they are arranged, at getTiedPositions(). */
    bool areOwn() const {
        return known.origin == Origin::Drawn ||
               (known.origin == Origin::Own && areSame(state.velocities(), known.left));
    }
    /** The positions at which own velocities are tied. */
    const Vectors& getTiedPositions() const {
        return known.tiedAt.empty() ? state.positions() : known.tiedAt;
    }
    /** Whether own velocities are tied at the present positions too, as molecules have merely been moved as a whole. */
    bool areTiedAtPresent() {
        const double rounding = 1e-9, before = computeEnergy(known.tiedAt, state.velocities(), state.box()),
                     now = computeEnergy(state.positions(), state.velocities(), state.box());
        return std::abs(now - before) <= rounding * before;
    }

    /** The kinetic energy, 1/2 v^T M v + 1/2 sum kappa w^2 with w = G(x) v. */
    double computeEnergy(const Vectors& positions, const Vectors& velocities, const stiffcore::Box& box) {
        return particles.computeKineticEnergy(velocities) + pairs.sum([&](const auto& batch, auto& work) {
            loadTied(batch, components(positions), components(velocities), box, work);
            return computePenaltyEnergy(batch, work);
        });
    }

    /**
     * The logarithm of the likelihood that the Context's velocities were drawn for the masses alone over that for the
     * masses with the inertias, each at the temperature that fits them best: with f degrees of freedom, and the kinetic
     * energies K and K' without and with the inertias, f/2 ln(K'/K) - 1/2 ln(det(M + G^T kappa G) / det M).
     */
    double compareOrigins() {
        const stiffcore::Box box = state.box();
        const double ofMasses = particles.computeKineticEnergy(),
                     ofAll = computeEnergy(state.positions(), state.velocities(), box);
        if (!(ofMasses > 0) || !std::isfinite(ofAll))
            return 0; // at rest, or the step will fail
        const double logMassRatio = pairs.sum([&](const auto& batch, auto& work) {
            load(batch, components(state.positions()), components(state.velocities()), box, work);
            return computeLogMassRatio(batch, work);
        });
        return 0.5 * (numFreedoms * std::log(ofAll / ofMasses) - logMassRatio);
    }
    /** Whether velocities that are not own ones were drawn for the masses alone. */
    bool areForeign() {
        // Where nobody has told, it takes some evidence. With a heat bath it does no harm to adopt them; without, they
        // are refused, and must not have been set by hand: more evidence than a molecule or two can give.
        const double evidence = (hasHeatBath ? 0 : 20);
        bool inertias = false;
        for (const auto& pair : pairs.getPairs())
            inertias |= !pair.isConstrained();
        return inertias && (known.origin == Origin::Foreign || compareOrigins() > evidence);
    }

    void requireHeatBath() const {
        if (!hasHeatBath)
            throw OpenMM::OpenMMException(
                    className +
                    ": the velocities have been drawn for the masses alone, by another integrator or for one, and are "
                    "too"
                    " hot for masses with an inertia. Draw new ones with setVelocitiesToTemperature() of the Context "
                    "or,"
                    " in a CompoundIntegrator, of this integrator; or use MassPenaltyLangevinIntegrator, which adopts"
                    " them");
    }

    // How they become others.

    /** Tie velocities: replace v and w by the closest ones, in the metric of the kinetic energy, with w = G(x) v. */
    void tie(const Vectors& positions, const stiffcore::Box& box, Vectors& v, const std::vector<double>& w) {
        pairs.forEach([&](const auto& batch, auto& work) {
            load(batch, components(positions), components(v), box, work);
            gatherTerms(batch, w.data(), work.w);
            stiffcore::tieVelocities(batch, work);
            scatter(batch, work.v, components(v));
        });
    }

    /** Make tied velocities those of the masses alone, at a temperature. */
    void release(const Vectors& positions, const stiffcore::Box& box, double kT, Vectors& v) {
        NormalNumbers normal(v);
        Vectors drawn(v.size());
        for (size_t i = 0; i < v.size(); i++)
            if (particles.getMasses()[i] > 0)
                drawn[i] = normal.vector() * std::sqrt(kT / particles.getMasses()[i]);
        Vectors tied = drawn;
        tie(positions, box, tied, drawRates(kT, normal));
        for (size_t i = 0; i < v.size(); i++)
            v[i] += drawn[i] - tied[i];
    }

    /** Make velocities of the masses alone tied ones, at a temperature. */
    void adopt(const Vectors& positions, const stiffcore::Box& box, double kT, Vectors& v) {
        NormalNumbers normal(v);
        tie(positions, box, v, drawRates(kT, normal));
    }

    /** The temperature, as kT, of velocities with a kinetic energy. */
    double computeThermalEnergy(double kinetic) const {
        return numFreedoms > 0 ? 2 * kinetic / numFreedoms : 0;
    }

    /** Scale velocities so that their kinetic energy is the given one: chance takes or adds nothing. */
    void scaleToEnergy(const Vectors& positions, const stiffcore::Box& box, double kinetic, Vectors& v) {
        const double present = computeEnergy(positions, v, box);
        if (!(present > 0))
            return;
        const double scale = std::sqrt(kinetic / present);
        for (size_t i = 0; i < v.size(); i++)
            if (particles.getMasses()[i] > 0)
                v[i] *= scale;
    }

    /** Free rates w ~ N(0, kT / kappa); 0 for constraints. */
    std::vector<double> drawRates(double kT, NormalNumbers& normal) const {
        std::vector<double> w;
        for (const auto& pair : pairs.getPairs())
            w.push_back(pair.isConstrained() ? 0 : std::sqrt(kT / pair.inertia) * normal());
        return w;
    }

    HostState& state;
    HostParticles<Backend>& particles;
    HostPairs<Backend>& pairs;
    std::string className;
    bool hasHeatBath = false;
    int numFreedoms = 0;
    Knowledge known;
    Undo undo;
    Vectors beforeCollisions;
};

} // namespace stiffhost

#endif /* STIFFHOST_PENALIZED_VELOCITIES_H_ */
