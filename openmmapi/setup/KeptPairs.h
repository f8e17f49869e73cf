#ifndef OPENMM_STIFF_SETUP_KEPT_PAIRS_H_
#define OPENMM_STIFF_SETUP_KEPT_PAIRS_H_

#include "Blocks.h"
#include "Kept.h"
#include "PenalizedPairs.h"
#include "openmm/System.h"
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace OpenMMStiff {

class MassPenaltyIntegrator;

/** What a user has added with addPair(), and with addBondInertia(). */
OPENMM_EXPORT_STIFF std::vector<PairInertia> getExplicitPairs(const MassPenaltyIntegrator& integrator);
OPENMM_EXPORT_STIFF std::vector<PairInertia> getExplicitBonds(const MassPenaltyIntegrator& integrator);

/**
 * The penalized and constrained pairs of a Context, the bonds with an inertia, and their blocks, kept up to date with it.
 */
class OPENMM_EXPORT_STIFF KeptPairs {
public:
    using Pairs = PairTerms;
    using Geometry = std::function<PresentGeometry()>;

    /** @param geometry   asks for the present geometry, where stiffness depends on it */
    KeptPairs(const OpenMM::System& system, Geometry geometry) : system(system), geometry(geometry) {
    }

    /** Find the pairs, unless that has to wait for positions. */
    void initialize(const MassPenaltyIntegrator& integrator, const std::string& className);

    /** Find the pairs that the integrator asks for; whether they have become others. */
    bool update(const MassPenaltyIntegrator& integrator);
    /** Whether update() has nothing to do. */
    bool areCurrent(const MassPenaltyIntegrator& integrator) const {
        return getRevision() > 0 && kept.isUpToDate(getSettings(integrator));
    }
    /** The number of times that pairs have become others. */
    int getRevision() const {
        return kept.getRevision();
    }
    const Pairs& getPairs() const {
        return kept.get();
    }
    /** Their connected groups, and particles that are in none. */
    const std::vector<Block>& getBlocks() const {
        return blocks;
    }

    /**
     * The pairs as they will be after the next update(). That leaves no trace: stiffness that depends on positions is that
     * of a step's.
     */
    Pairs getNextPairs(const MassPenaltyIntegrator& integrator);
    /** Throw an exception if the System cannot have the pairs that the integrator asks for. */
    void requirePossible(const MassPenaltyIntegrator& integrator);
    /**
     * The parameters of the bonded forces may have changed. They are read at once, for a change that is taken back has
     * been one: stiffness is taken anew, whether or not something else has asked for it in between.
     */
    void parametersMayHaveChanged(const MassPenaltyIntegrator& integrator);

    /** What has been taken from the positions at some time and is not to change: for checkpoints. May be empty. */
    const std::vector<double>& getStiffness() const;
    /** Use stiffnesses that getStiffness() has given, as soon as they are needed. */
    void restoreStiffness(const std::vector<double>& stiffness);

private:
    /** What the pairs depend on besides the System: getPairRevision(), force groups, period and inertia of bonds. */
    using Settings = std::array<double, 4>;
    static Settings getSettings(const MassPenaltyIntegrator& integrator);
    Pairs choose(const MassPenaltyIntegrator& integrator);
    void forgetParameters();
    void readParameters(int integrationGroups);
    void updateStiffness();

    const OpenMM::System& system;
    const Geometry geometry;
    std::string className;
    Kept<Settings, Pairs> kept;
    std::unique_ptr<BondedStiffness> bonded;
    int bondedGroups = 0;
    std::vector<double> restored;
    bool parametersKnown = false, stiffnessKnown = false;
    std::vector<Block> blocks;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_PAIRS_H_ */
