#ifndef OPENMM_STIFF_SETUP_KEPT_PAIRS_H_
#define OPENMM_STIFF_SETUP_KEPT_PAIRS_H_

#include "Blocks.h"
#include "Kept.h"
#include "PenalizedPairs.h"
#include "openmm/System.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace OpenMMStiff {

class MassPenaltyIntegrator;

/** What a user has added with addPair(), and with addBondInertia(). */
OPENMM_EXPORT_STIFF std::vector<ExplicitPair> getExplicitPairs(const MassPenaltyIntegrator& integrator);
OPENMM_EXPORT_STIFF std::vector<ExplicitPair> getExplicitBonds(const MassPenaltyIntegrator& integrator);

/**
 * The penalized and constrained pairs of a Context, the bonds with an inertia, and their blocks, kept up to date with it.
 * Those of the integrator may be others than those that are settled, to which velocities are tied: settle() makes them
 * the same.
 */
class OPENMM_EXPORT_STIFF KeptPairs {
public:
    using Pairs = PairTerms;
    using Geometry = std::function<PresentGeometry()>;

    /** @param geometry   asks for the present geometry, where stiffness depends on it */
    KeptPairs(const OpenMM::System& system, Geometry geometry) : system(system), geometry(geometry) {
    }

    /** Settle the pairs, unless that has to wait for positions. */
    void initialize(const MassPenaltyIntegrator& integrator, const std::string& className);

    /** Settle the pairs that the integrator asks for; whether they have become others. */
    bool update(const MassPenaltyIntegrator& integrator);
    /** The pairs that the integrator asks for, or null if they are settled. */
    const Pairs* findChange(const MassPenaltyIntegrator& integrator);
    /** Settle pairs that findChange() has given. */
    void settle(const Pairs& next);
    /** Go back to pairs of before, until the next update(). */
    void restore(const Pairs& before);
    /** Whether update() has nothing to do. */
    bool areCurrent(const MassPenaltyIntegrator& integrator) const;

    bool areSettled() const {
        return revision > 0;
    }
    /** The number of times that pairs have been settled. */
    int getRevision() const {
        return revision;
    }
    const Pairs& getPairs() const {
        return pairs;
    }
    /** Their connected groups. */
    const std::vector<Block>& getBlocks() const {
        return blocks;
    }

    /** The pairs as they will be after the next update(). */
    Pairs getNextPairs(const MassPenaltyIntegrator& integrator);
    /** Answer a question, which leaves no trace: stiffness that depends on positions is that of a step's. */
    template <class Question> auto ask(const MassPenaltyIntegrator& integrator, Question&& question) {
        const bool known = isStiffnessKnown(integrator);
        const std::vector<double> toRestore = restored;
        auto answer = question();
        if (!known) {
            stiffnessKnown = settledAsKept = false;
            restored = toRestore;
            kept.forget();
        }
        return answer;
    }
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
    /** What the pairs depend on besides the System. */
    struct Settings {
        int integrationGroups = 0;
        double period = 0, bondInertia = 0;
        bool useBondedForces = true, useDefaultBondInertia = true;
        std::vector<ExplicitPair> pairs, bonds;

        Settings() = default;
        explicit Settings(const MassPenaltyIntegrator& integrator);
        bool operator==(const MassPenaltyIntegrator& integrator) const;
    };
    Pairs choose(const Settings& settings);
    void forgetParameters();
    void readParameters(int integrationGroups);
    void updateStiffness();
    bool isStiffnessKnown(const MassPenaltyIntegrator& integrator);

    const OpenMM::System& system;
    const Geometry geometry;
    std::string className;
    Kept<Settings, Pairs> kept;
    /// Whether the pairs are settled that are kept, and not others of before.
    bool settledAsKept = false;
    std::unique_ptr<BondedStiffness> bonded;
    int bondedGroups = 0;
    std::vector<double> restored;
    bool parametersKnown = false, stiffnessKnown = false;
    Pairs pairs;
    std::vector<Block> blocks;
    int revision = 0;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_PAIRS_H_ */
