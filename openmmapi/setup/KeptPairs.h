#ifndef OPENMM_STIFF_SETUP_KEPT_PAIRS_H_
#define OPENMM_STIFF_SETUP_KEPT_PAIRS_H_

#include "Blocks.h"
#include "BondedSpectrum.h"
#include "Kept.h"
#include "PenalizedPairs.h"
#include "openmm/System.h"
#include <array>
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
 * The penalized and constrained pairs of a Context, the bonds with an inertia, and their blocks, kept up to date with
 * it. They depend on the System as it was when the Context was made, the parameters of its bonded forces, the global
 * parameters and the integrator's settings, and on nothing else.
 */
class OPENMM_EXPORT_STIFF KeptPairs {
public:
    /** @param parameters   the global parameters of the Context */
    KeptPairs(const OpenMM::System& system, const std::map<std::string, double>& parameters)
            : system(system), constraints(readConstraints(system)), parameters(parameters),
              present(selectParameters(system, parameters)), selected(present.size()) {
    }

    void initialize(const MassPenaltyIntegrator& integrator, const std::string& className) {
        this->className = className;
        update(integrator);
    }

    /** Find the pairs that the integrator asks for; whether they have become others. */
    bool update(const MassPenaltyIntegrator& integrator);
    /** Keep the present ones, whatever the step size is. */
    void hold(bool held) {
        isHeld = held;
    }
    /** The number of times that pairs have become others. */
    int getRevision() const {
        return kept.getRevision();
    }
    const PairTerms& getPairs() const {
        return kept.get();
    }
    /** Their connected groups, and particles that are in none. */
    const std::vector<Block>& getBlocks() const {
        return blocks;
    }

    /** Whether pairs hold particles to others that never move. */
    bool hasAnchors() const {
        return anchored;
    }

    /** The pairs as they will be after the next update(). */
    const PairTerms& getNextPairs(const MassPenaltyIntegrator& integrator) {
        next.update(getSettings(integrator), [&](const auto&) { return choose(integrator); });
        return next.get();
    }
    /** The parameters of the bonded forces may have changed. */
    void parametersMayHaveChanged() {
        isSuspect = true;
        kept.forget();
        next.forget();
    }

private:
    /** getPairRevision(), the settings that pairs depend on, and how often parameters have changed. */
    using Settings = std::array<double, 7>;
    void noticeParameters();
    Settings getSettings(const MassPenaltyIntegrator& integrator);
    PairTerms choose(const MassPenaltyIntegrator& integrator);

    const OpenMM::System& system;
    const std::vector<PairInertia> constraints;
    const std::map<std::string, double>& parameters;
    /// Of those parameters that matter, the values now, and those that have been noticed.
    const std::vector<const double*> present;
    std::vector<double> selected;
    int numChanges = 0;
    std::string className;
    /// Those that are in use, and those that have been chosen last, which may not be yet.
    Kept<Settings, PairTerms> kept, next;
    /// Of the bonded forces, and the force groups that they were found for.
    struct Bonded {
        Bonded(const OpenMM::System& system, const std::vector<PairInertia>& constraints, int groups,
               const std::map<std::string, double>& parameters, const std::string& className, const Bonded* previous);
        BondedStiffness stiffness;
        BondGraph graph;
        BondedSpectrum spectrum;
    };
    std::unique_ptr<const Bonded> bonded;
    int forceGroups = 0;
    bool isSuspect = true, isHeld = false;
    std::vector<Block> blocks;
    bool anchored = false;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_PAIRS_H_ */
