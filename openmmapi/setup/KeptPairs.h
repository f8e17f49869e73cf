#ifndef OPENMM_STIFF_SETUP_KEPT_PAIRS_H_
#define OPENMM_STIFF_SETUP_KEPT_PAIRS_H_

#include "Blocks.h"
#include "Kept.h"
#include "PenalizedPairs.h"
#include "openmm/System.h"
#include <functional>
#include <map>
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
 * They depend on the System as it was when the Context was made, the parameters of its bonded forces, the global
 * parameters and the integrator's settings, and on nothing else.
 */
class OPENMM_EXPORT_STIFF KeptPairs {
public:
    using Pairs = PairTerms;
    using Parameters = std::function<const std::map<std::string, double>&()>;

    /** @param parameters   gives the values of the global parameters */
    KeptPairs(const OpenMM::System& system, Parameters parameters)
            : system(system), constraints(readConstraints(system)), parameters(parameters) {
    }

    void initialize(const MassPenaltyIntegrator& integrator, const std::string& className) {
        this->className = className;
        update(integrator);
    }

    /** Find the pairs that the integrator asks for; whether they have become others. */
    bool update(const MassPenaltyIntegrator& integrator);
    /** Whether update() has nothing to do. */
    bool areCurrent(const MassPenaltyIntegrator& integrator) const {
        return kept.isUpToDate(getSettings(integrator));
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

    /** The pairs as they will be after the next update(). */
    Pairs getNextPairs(const MassPenaltyIntegrator& integrator) {
        return choose(integrator);
    }
    /** Throw an exception if the System cannot have the pairs that the integrator asks for. */
    void requirePossible(const MassPenaltyIntegrator& integrator) const;
    /** The parameters of the bonded forces may have changed. */
    void parametersMayHaveChanged() {
        bonded = nullptr;
        kept.forget();
    }

private:
    /** getPairRevision(), force groups, period and inertia of bonds, and the global parameters that matter. */
    std::vector<double> getSettings(const MassPenaltyIntegrator& integrator) const;
    Pairs choose(const MassPenaltyIntegrator& integrator);

    const OpenMM::System& system;
    const std::vector<PenalizedPair> constraints;
    const Parameters parameters;
    std::string className;
    Kept<std::vector<double>, Pairs> kept;
    /// And the force groups and global parameters that it was found for.
    std::unique_ptr<BondedStiffness> bonded;
    int groups = 0;
    std::vector<double> selected;
    std::vector<Block> blocks;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_PAIRS_H_ */
