#ifndef STIFFHOST_PENALIZED_VELOCITIES_H_
#define STIFFHOST_PENALIZED_VELOCITIES_H_

#include "HostPairs.h"
#include "HostParticles.h"
#include "NormalNumbers.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/Vec3.h"
#include "stiffcore/pairs/ExtendedMass.h"
#include <cmath>
#include <vector>

namespace stiffhost {

/**
 * Whose velocities a Context with penalized pairs holds, and how others become those of the method.
 *
 * At a temperature, velocities tied to the pairs have the distribution N(0, kT (M + G^T kappa G)^-1), those of the
 * masses alone N(0, kT M^-1): too hot for the pairs by (mu + kappa) / mu. The one comes from the other exactly: with
 * free rates w ~ N(0, kT / kappa), velocities (v, w) of the masses alone become those of the method by being tied, which
 * takes away what is orthogonal to the tied ones; to go back, draw (v, w) afresh, and add of it what tying takes away.
 * So velocities keep their temperature when the pairs change, or the positions to which they are tied. See HostParticles
 * for the Backend.
 */
template <class Backend> class PenalizedVelocities {
public:
    using Vectors = std::vector<OpenMM::Vec3>;

    enum class Origin {
        Own,            // `left` after a step, tied at `tiedAt`
        AboutToBeDrawn, // on their way
        Drawn,          // tied at `tiedAt`, or at rest in a new Context
        Unknown,        // set by somebody
        Foreign         // drawn for the masses alone
    };
    /** What is known of them. */
    struct Knowledge {
        Origin origin = Origin::Drawn;
        /// Where own ones are tied (empty: wherever the particles are), and what they were after the last step.
        Vectors tiedAt = {}, left = {};
    };

    PenalizedVelocities(HostParticles<Backend>& particles, HostPairs<Backend>& pairs)
            : particles(particles), pairs(pairs) {
    }

    void initialize(const OpenMM::System& system) {
        numFreedoms = 0;
        for (double mass : particles.getMasses())
            numFreedoms += (mass > 0 ? 3 : 0);
        for (int c = 0; c < system.getNumConstraints(); c++) {
            int i, j;
            double distance;
            system.getConstraintParameters(c, i, j, distance);
            numFreedoms -= (particles.getMasses()[i] > 0 || particles.getMasses()[j] > 0);
        }
        known.origin = Origin::Drawn; // a new Context is at rest
        known.tiedAt.clear();
    }

    // What becomes of the Context's velocities.

    /** Velocities that are tied at these positions are about to be set. */
    void willBeDrawn(const Vectors& positions) {
        known.tiedAt = positions;
        known.origin = Origin::AboutToBeDrawn;
    }
    /** Velocities have been set. */
    void haveBeenSet() {
        known.origin = (known.origin == Origin::AboutToBeDrawn ? Origin::Drawn : Origin::Unknown);
    }
    /** Velocities and positions are those after a step, or of a run that was saved after one. */
    void areTied(const HostState& state) {
        areTied(state, state.positions());
    }
    void areTied(const HostState& state, const Vectors& positions) {
        known.tiedAt = positions;
        known.left = state.velocities();
        known.origin = Origin::Own;
    }
    /** The velocities that have just been set are those of a run with another integrator. */
    void comeFromAnother() {
        if (known.origin == Origin::Unknown)
            known.origin = Origin::Foreign;
    }
    /** Whether they are tied to the pairs as they are arranged, at getTiedPositions(). */
    bool areOwn(const HostState& state) const {
        return known.origin == Origin::Drawn || (known.origin == Origin::Own && state.velocities() == known.left);
    }
    /** The positions at which own velocities are tied. */
    const Vectors& getTiedPositions(const HostState& state) const {
        return known.tiedAt.empty() ? state.positions() : known.tiedAt;
    }
    /** Whether own velocities are tied at the present positions too. */
    bool areTiedAtPresent(const HostState& state) {
        if (getTiedPositions(state) == state.positions())
            return true;
        // Molecules that have merely been moved to another periodic copy do not notice.
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
    double compareOrigins(const HostState& state) {
        const stiffcore::Box box = state.box();
        const double ofMasses = particles.computeKineticEnergy(state.velocities()),
                     ofAll = computeEnergy(state.positions(), state.velocities(), box);
        if (!(ofMasses > 0) || !std::isfinite(ofAll))
            return 0; // at rest, or the step will fail
        const double logMassRatio = pairs.sum([&](const auto& batch, auto& work) {
            load(batch, components(state.positions()), components(state.velocities()), box, work);
            return computeLogMassRatio(batch, work);
        });
        return 0.5 * (numFreedoms * std::log(ofAll / ofMasses) - logMassRatio);
    }
    /**
     * Whether velocities that are not own ones were drawn for the masses alone. Of those whose origin nobody has told,
     * the evidence has to be stronger than this.
     */
    bool areForeign(const HostState& state, double evidence) {
        bool inertias = false;
        for (const auto& pair : pairs.getPairs())
            inertias |= !pair.isConstrained();
        return inertias && (known.origin == Origin::Foreign || compareOrigins(state) > evidence);
    }

    // For the case that a step fails after they have become others.

    const Knowledge& getKnowledge() const {
        return known;
    }
    void setKnowledge(const Knowledge& knowledge) {
        known = knowledge;
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

    // What an AndersenThermostat does.

    void beginCollisions(const HostState& state) {
        beforeCollisions = state.velocities();
    }
    /**
     * Particles have been given velocities of the masses alone. Of their molecules, released beforehand, only these
     * velocities are new; then the molecules are tied again. That leaves the distribution of the tied velocities as it
     * is.
     */
    void endCollisions(HostState& state, double kT) {
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
        Vectors& velocities = state.velocities();
        pairs.visitParticles([&](const std::vector<int>& members, int numMobile) {
            bool hit = false;
            for (int i = 0; i < numMobile; i++)
                hit |= velocities[members[i]] != beforeCollisions[members[i]];
            for (int i = 0; i < numMobile && hit; i++)
                velocities[members[i]] = v[members[i]];
        });
    }

private:
    /** Free rates w ~ N(0, kT / kappa); 0 for constraints. */
    std::vector<double> drawRates(double kT, NormalNumbers& normal) const {
        std::vector<double> w;
        for (const auto& pair : pairs.getPairs())
            w.push_back(pair.isConstrained() ? 0 : std::sqrt(kT / pair.inertia) * normal());
        return w;
    }

    HostParticles<Backend>& particles;
    HostPairs<Backend>& pairs;
    int numFreedoms = 0;
    Knowledge known;
    Vectors beforeCollisions;
};

} // namespace stiffhost

#endif /* STIFFHOST_PENALIZED_VELOCITIES_H_ */
