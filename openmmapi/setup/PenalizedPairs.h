#ifndef OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_
#define OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "stiffcore/model/PairInertia.h"
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace OpenMMStiff {

struct BondGraph;
using stiffcore::PairInertia;
using stiffcore::PairTerms;

/** The constraints of a System, as pairs of infinite inertia. */
OPENMM_EXPORT_STIFF std::vector<PairInertia> readConstraints(const OpenMM::System& system);

/**
 * How stiff the bonded forces of a System make the distances of pairs: those of bonds, and the 1-3 distances of angles.
 * Force constants and lengths are those at the minimum of each term's energy, so that they do not depend on positions.
 */
struct OPENMM_EXPORT_STIFF BondedStiffness {
    /**
     * Find the pairs in HarmonicBondForce, HarmonicAngleForce, CustomBondForce, CustomAngleForce, and in each
     * CustomCompoundBondForce that is a function of one angle, see parsePointAngle().
     *
     * @param system              the System
     * @param constraints         its constraints
     * @param integrationGroups   bit flags of the force groups that are integrated: others exert no force
     * @param parameters          the values of the global parameters
     * @param className           the integrator's class, for error messages
     * @param previous            that for other parameters, of which minima that are known are taken over; or null
     */
    BondedStiffness(const OpenMM::System& system, const std::vector<PairInertia>& constraints, int integrationGroups,
                    const std::map<std::string, double>& parameters, const std::string& className,
                    const BondedStiffness* previous = nullptr);

    struct Pair {
        int particle1, particle2;
        bool periodic;
        /// The index in the System of the first of its forces.
        int force;
        /// The length that forces on the distance itself hold, else the first of its angles [nm]; and whether it is a
        /// bond.
        double length = 0;
        bool isBond = false;
        /// Whether custom forces alone act on it, and it is no bond: particles may never come near this length.
        bool isOther = false;
        /// The force constant; and that which an inertia can follow, 0 if it is none of a bond or of an angle, or if
        /// its particles can pass through each other [kJ/mol/nm^2].
        double curvature = 0, stiffness = 0;
    };
    std::vector<Pair> pairs;

    /** An angle between bonds that no 1-3 distance tells. */
    struct LooseAngle {
        std::array<int, 3> particles;
        int force;
        /// d^2V/dtheta^2 [kJ/mol], theta, and the lengths of its legs [nm].
        double curvature, theta, leg1, leg2;
    };
    std::vector<LooseAngle> looseAngles;

    /// Where the energy of a custom force's term is least, and its curvature there; 0 if there is no minimum.
    struct Minimum {
        double place = 0, curvature = 0;
    };
    /// By the function, and the values of the global parameters and of the term's own.
    using Minima = std::map<std::pair<std::string, std::vector<double>>, Minimum>;

private:
    std::shared_ptr<Minima> minima;
};

/** Those of the global parameters that BondedStiffness and BondedSpectrum depend on: pointers to their values. */
OPENMM_EXPORT_STIFF std::vector<const double*> selectParameters(const OpenMM::System& system,
                                                                const std::map<std::string, double>& parameters);

/** Whether a System is periodic, as far as its forces say; some of plugins do not. */
OPENMM_EXPORT_STIFF bool isPeriodic(const OpenMM::System& system);

/**
 * Give each pair its inertia: kappa = k / omega^2 - mu, where mu is the reduced mass and omega = 2 pi / period, if that
 * is positive; explicit pairs have theirs, and are periodic if the System is. Constraints of the System are pairs of
 * infinite inertia, and take the place of others between the same particles.
 *
 * @param bonded          the pairs of the bonded forces, with their stiffness; or null
 * @param explicitPairs   pairs given by the user, which take the place of bonded ones
 * @param period          the period [ps]
 * @throws OpenMMException   if an explicit pair is impossible
 */
OPENMM_EXPORT_STIFF std::vector<PairInertia>
choosePairs(const OpenMM::System& system, const std::vector<PairInertia>& constraints, const BondedStiffness* bonded,
            const std::vector<PairInertia>& explicitPairs, double period, const std::string& className);

/**
 * Find the bonds by which hydrogens turn, the hydrogen last, each with an inertia: of a hydrogen's constraints, or
 * else of its bonds, the shortest. A hydrogen is lighter than 5 dalton, and at most half as heavy as what it is bound
 * to, which may be fixed.
 *
 * @param inertia         the inertia [dalton]
 * @param isLeast         whether it is what hydrogens need at least; those of saturated carbon need less of it, and
 *                        those that are heavier than 1.008 dalton less by what they have gained; if not, all have it
 * @param explicitBonds   bonds and particles given by the user, which take the place of others
 * @return                bonds, of which some may have no inertia
 * @throws OpenMMException   if an explicit bond is impossible
 */
OPENMM_EXPORT_STIFF std::vector<PairInertia> chooseBonds(const OpenMM::System& system, const BondGraph& graph,
                                                         double inertia, bool isLeast,
                                                         const std::vector<PairInertia>& explicitBonds,
                                                         const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_ */
