#ifndef STIFFHOST_PENALIZED_VELOCITIES_H_
#define STIFFHOST_PENALIZED_VELOCITIES_H_

#include "HostState.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include "setup/KeptPairs.h"
#include "stiffcore/pairs/MassRoot.h"
#include <iosfwd>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Whose velocities a Context with penalized pairs holds, and how they follow what has changed since the last step. A
 * molecule is a block of connected pairs.
 *
 * Velocities that are tied to the pairs at some positions have the distribution N(0, kT (M + G^T kappa G)^-1), those of
 * the masses alone N(0, kT M^-1): too hot for the pairs by (mu + kappa) / mu. MassRoot turns the ones into the others.
 *
 *  - Velocities that this method has left, or drawn, are its own. They are tied to the pairs and positions of then.
 *  - Others have been set, and are judged a molecule at a time by the likelihood of their kinetic energies with and
 *    without the inertias, see findForeign(): either they are tied to the present pairs and positions, or foreign.
 *
 * With other pairs or positions, a molecule is released from the old tie and given the new one; a foreign molecule is
 * tied. Each keeps its momentum and its kinetic energy, whether there is a heat bath or not, and molecules to which
 * nothing of this happens keep their velocities to the bit.
 */
class OPENMM_EXPORT_STIFF PenalizedVelocities {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;
    using Pairs = OpenMMStiff::KeptPairs::Pairs;
    PenalizedVelocities(HostState& state, OpenMMStiff::KeptPairs& pairs) : state(state), pairs(pairs) {
    }

    void initialize(const std::vector<double>& masses, const std::string& className);

    // What becomes of the Context's velocities.

    /** Velocities have been set: by whom has not been told yet. */
    void haveBeenSet();
    /** Velocities and positions are those after a step. */
    void areTied();
    void areTied(const Vectors& positions, const Vectors& velocities);
    /**
     * At the start of a step: bring the pairs up to date, and let the velocities follow them and the positions.
     *
     * @param remark   what the user should know of what has been done
     * @return whether the pairs have changed
     */
    bool follow(const Integrator& integrator, std::string& remark);
    /** Let velocities be what, and whose, they were before follow(). */
    void undoFollow();

    /**
     * Make velocities that have been drawn for the masses alone, and are about to be set, those of the method.
     *
     * @return whether the pairs have changed
     */
    bool prepareDrawn(const Integrator& integrator, Vectors& drawn);

    /** The kinetic energy of the penalized motion too, unless velocities are those of the masses alone. */
    double computeEnergy(const Integrator& integrator);

    // What an AndersenThermostat does.

    void beginCollisions();
    /**
     * Particles have been given velocities of the masses alone. Of their molecules, released beforehand, only these
     * velocities are new; then the molecules are tied again. That leaves the distribution of the tied velocities as it
     * is. (Particles that are connected by constraints collide together.)
     */
    void endCollisions();

    // In saved states: which velocities are the method's own, and to which pairs and positions they are tied.

    void write(std::ostream& stream) const;
    void read(std::istream& stream);
    void write(OpenMM::SerializationNode& node) const;
    /** @param ofThisMethod   whether the State was saved by an integrator of this kind */
    void read(const OpenMM::SerializationNode& node, bool ofThisMethod);

private:
    struct Knowledge {
        /// Own velocities, and where they are tied (empty: wherever the particles are).
        Vectors left = {}, tiedAt = {};
        /// Whether the others have come in a State that another integrator has saved.
        bool toldForeign = false;
    };
    /** What was before velocities followed something for a step. */
    struct Undo {
        bool valid = false;
        Vectors velocities = {};
        bool pairsHaveChanged = false;
        Pairs pairs = {};
        Knowledge known = {};
    };
    /** Velocities of the masses alone, of some particles. */
    struct Loose {
        Vectors v;
        std::vector<char> which;
        bool any;

        void take(const stiffcore::Block& block) {
            any = true;
            for (int i = 0; i < block.numMobile; i++)
                which[block.particles[i]] = true;
        }
    };
    /** What is known of a molecule's velocities. */
    struct Molecule {
        bool own;
        int numFreedoms;
        /// The kinetic energies of the masses, and of the pairs where they are tied unless they are foreign [kJ/mol].
        double ofMasses = 0, ofPairs = 0;
        /// sum ln(1 + kappa / mu)
        double logMassRatio = 0;
        int numPenalized = 0;
    };

    // Whose they are.

    /** The positions at which own velocities are tied. */
    const Vectors& getTiedPositions() const;

    /** Which particles have own velocities; empty if none has. */
    std::vector<char> findOwn() const;
    static bool isOwn(const stiffcore::Block& block, const std::vector<char>& own);

    std::vector<Molecule> assess() const;

    /**
     * The temperature of all molecules, as kT.
     *
     * @param together   whether those that are not own ones are all foreign
     */
    static double computeThermalEnergy(const std::vector<Molecule>& molecules, bool together);

    /**
     * Which molecules have velocities that have been drawn, or set, for the masses alone. With the kinetic energies K
     * and K' without and with the inertias, their likelihood over that of own velocities is exp(D),
     *
     *     D = (K' - K) / kT - 1/2 ln(det(M + G^T kappa G) / det M)
     *
     * where the determinants' ratio is at most prod(1 + kappa / mu). The temperature is that of all molecules or, if it
     * is higher, of the molecule or of the heat bath, which needs no help with less. If most velocities look foreign,
     * they have come together, and each is foreign unless it does not look so; else each has to show it.
     */
    std::vector<char> findForeign(const Integrator& integrator, const std::vector<Molecule>& molecules) const;

    // How they become others.

    /** Release molecules with own velocities that are not where these are tied, or will not have the same pairs. */
    void releaseOwn(const Pairs& next, Loose& loose) const;

    /** Foreign velocities are those of the masses alone already. */
    void looseForeign(const Integrator& integrator, Loose& loose, std::string& remark) const;

    /** Tie molecules with loose velocities to the pairs as they are settled now, at the present positions. */
    void tieLoose(const std::vector<char>& released, Loose& loose) const;
    /** Scale the motion relative to the centre of mass, to give back the energy that constraints have taken. */
    void giveBack(double energy, const stiffcore::Block& block, Vectors& v) const;

    stiffcore::MassRoot makeRoot(const stiffcore::Block& block, const Vectors& positions) const;
    double inverseMass(int particle) const;
    double ofMass(int particle, const Vectors& v) const;

    /** The order in which pairs come. */
    static bool isBefore(const OpenMMStiff::PenalizedPair& one, const OpenMMStiff::PenalizedPair& other);

    int requireParticle(int particle) const;

    HostState& state;
    OpenMMStiff::KeptPairs& pairs;
    std::vector<double> masses;
    std::string className;
    Knowledge known;
    Undo undo;
    Vectors beforeCollisions;
};

} // namespace stiffhost

#endif /* STIFFHOST_PENALIZED_VELOCITIES_H_ */
