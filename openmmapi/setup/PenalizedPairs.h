#ifndef OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_
#define OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "openmm/Vec3.h"
#include "stiffcore/Geometry.h"
#include "stiffcore/model/PenalizedPair.h"
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace OpenMMStiff {

using stiffcore::PairInertia;
using stiffcore::PairTerms;
using stiffcore::PenalizedPair;

/**
 * What is known of the Context where stiffness has to be taken from the present geometry.
 */
struct PresentGeometry {
    /// Positions [nm], and the values of the global parameters.
    std::vector<OpenMM::Vec3> positions;
    stiffcore::Box box;
    std::map<std::string, double> parameters;

    stiffcore::Vector3<double> displacement(const OpenMM::Vec3& from, const OpenMM::Vec3& to, bool periodic) const;
};

/**
 * How stiff the bonded forces of a System make the distances of pairs: those of bonds, and the 1-3 distances of angles.
 */
class OPENMM_EXPORT_STIFF BondedStiffness {
public:
    /**
     * Find the pairs in HarmonicBondForce, HarmonicAngleForce, CustomBondForce, CustomAngleForce, and in each
     * CustomCompoundBondForce that is a function of one angle, see parsePointAngle(). Harmonic terms give their
     * curvature at equilibrium, custom ones that at the present geometry; so do angles whose legs have no equilibrium
     * length.
     *
     * @param system              the System
     * @param integrationGroups   bit flags of the force groups that are integrated: others exert no force
     * @param className           the integrator's class, for error messages
     */
    BondedStiffness(const OpenMM::System& system, int integrationGroups, const std::string& className);
    /** Whether anything depends on the present geometry. */
    bool needsGeometry() const;
    /** Compute the stiffness of all pairs; the geometry may be empty if it is not needed. */
    void compute(const OpenMM::System& system, const PresentGeometry& geometry);
    /** Whether the parameters of two are the same. */
    bool hasSameParameters(const BondedStiffness& other) const {
        return parameters == other.parameters;
    }

    struct Pair {
        int particle1, particle2;
        bool periodic;
        /// The index in the System of the first of its forces.
        int force;
        /// Whether it is a bond, and not (only) the 1-3 distance of an angle.
        bool isBond;
    };
    std::vector<Pair> pairs;
    /// For each pair, its force constant [kJ/mol/nm^2], once it has been computed; and that which an inertia can
    /// follow, 0 if its particles can pass through each other.
    std::vector<double> curvature, stiffness;

private:
    struct Term {
        /// Index of its pair, of the Force in the System, and of the term in the Force.
        int pair, force, index;
        bool isBond;
        /// The particle at the vertex of an angle, or -1 if that is a point that particles determine.
        int vertex = -1;
        /// Force constant and equilibrium value of a harmonic term; unused in others.
        bool harmonic = false;
        double k = 0, s0 = 0;
        /// Whether the legs of the angle have equilibrium lengths, and which.
        bool legsKnown = false;
        double leg1 = 0, leg2 = 0;
    };
    void addTerm(int particle1, int particle2, bool periodic, Term term);
    void findLegs(const OpenMM::System& system);

    std::vector<Term> terms;
    std::map<std::pair<int, int>, int> indexOfPair;
    std::vector<double> parameters;
};

/**
 * Give each pair its inertia: kappa = k / omega^2 - mu, where mu is the reduced mass and omega = 2 pi / period, if that
 * is positive; explicit pairs have theirs. Constraints of the System are pairs of infinite inertia, and take the
 * place of others between the same particles.
 *
 * @param bonded          the pairs of the bonded forces, with their stiffness; or null
 * @param explicitPairs   pairs given by the user, which take the place of bonded ones
 * @param period          the period [ps]
 * @throws OpenMMException   if an explicit pair is impossible
 */
OPENMM_EXPORT_STIFF std::vector<PenalizedPair> choosePairs(const OpenMM::System& system, const BondedStiffness* bonded,
                                                           const std::vector<PairInertia>& explicitPairs,
                                                           double period, const std::string& className);

/**
 * Find the bonds by which hydrogens turn, each with an inertia: those of the bonded forces or, for hydrogens without one,
 * the shortest constraint. A hydrogen is lighter than 5 dalton, and at most half as heavy as what it is bound to.
 *
 * @param bonded          the pairs of the bonded forces; or null
 * @param inertia         the inertia [dalton]; none are found if it is 0, or next to nothing beside the masses
 * @param lessGain        whether a hydrogen gets less by what it is heavier than 1.008 dalton
 * @param explicitBonds   bonds given by the user, which take the place of others
 * @throws OpenMMException   if an explicit bond is impossible
 */
OPENMM_EXPORT_STIFF std::vector<PairInertia> chooseBonds(const OpenMM::System& system, const BondedStiffness* bonded,
                                                         double inertia, bool lessGain,
                                                         const std::vector<PairInertia>& explicitBonds,
                                                         const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_PENALIZED_PAIRS_H_ */
