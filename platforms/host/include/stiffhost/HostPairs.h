#ifndef STIFFHOST_HOST_PAIRS_H_
#define STIFFHOST_HOST_PAIRS_H_

#include "HostBatches.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "setup/Blocks.h"
#include "setup/Kept.h"
#include "setup/PenalizedPairs.h"
#include "stiffcore/methods/Elementary.h"
#include "stiffcore/pairs/PairBatch.h"
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The penalized and constrained pairs of a Context and their blocks, kept up to date with it. See HostParticles for the
 * Backend.
 */
template <class Backend> class HostPairs : public HostBatches<Backend, stiffcore::PairBatch> {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;
    using Pairs = std::vector<OpenMMStiff::PenalizedPair>;
    HostPairs(Backend& backend, HostState& state) : HostBatches<Backend, stiffcore::PairBatch>(backend), state(state) {
    }

    /** Prepare, unless that has to wait for positions. */
    void initialize(const Integrator& integrator, const std::vector<double>& masses, const std::string& className) {
        this->masses = masses;
        this->className = className;
        readParameters(integrator.getIntegrationForceGroups());
        if (!integrator.getUseBondedForces() || !bonded->needsGeometry())
            prepare(integrator);
    }

    /** Bring the pairs and their blocks up to date; whether they have become others. */
    bool prepare(const Integrator& integrator) {
        const Pairs* const next = findChange(integrator);
        if (next != nullptr)
            arrange(*next);
        return next != nullptr;
    }
    /** The pairs that the integrator asks for, or null if they are those that are arranged. */
    const Pairs* findChange(const Integrator& integrator) {
        auto collect = [&](const Integrator& integrator) { return choose(Settings(integrator)); };
        if (!kept.update(integrator, collect) && arrangedAsKept)
            return nullptr;
        arrangedAsKept = this->areArranged() && kept.get() == pairs;
        return arrangedAsKept ? nullptr : &kept.get();
    }
    /** Arrange pairs that findChange() has given. */
    void arrange(const Pairs& next) {
        pairs = next;
        std::vector<std::vector<int>> particles;
        for (const auto& pair : pairs)
            particles.push_back({pair.particle1, pair.particle2});
        blocks = OpenMMStiff::connect(state.getSystem(), particles);
        HostBatches<Backend, stiffcore::PairBatch>::arrange(blocks, pairs, masses);
        noise.resize(pairs.size());
        arrangedAsKept = true;
    }

    /** Whether prepare() has nothing to do. */
    bool areCurrent(const Integrator& integrator) const {
        return arrangedAsKept && this->areArranged() && kept.isUpToDate(integrator);
    }
    /** The pairs as they will be after the next prepare(). */
    Pairs getNextPairs(const Integrator& integrator) {
        return ask(integrator, [&] { return choose(Settings(integrator)); });
    }
    /** Answer a question, which leaves no trace: stiffness that depends on positions is that of a step's. */
    template <class Question> auto ask(const Integrator& integrator, Question&& question) {
        readParameters(integrator.getIntegrationForceGroups());
        const bool known = stiffnessKnown || !bonded->needsGeometry();
        const std::vector<double> toRestore = restored;
        auto answer = question();
        if (!known) {
            stiffnessKnown = arrangedAsKept = false;
            restored = toRestore;
            kept.forget();
        }
        return answer;
    }

    /** Throw an exception if the System cannot have the pairs that the integrator asks for. */
    void requirePossible(const Integrator& integrator) {
        const Settings settings(integrator);
        readParameters(settings.integrationGroups);
        OpenMMStiff::choosePairs(state.getSystem(), nullptr, settings.pairs, settings.period, className);
    }

    /**
     * The parameters of the bonded forces may have changed. They are read at once, for a change that is taken back has
     * been one: stiffness is taken anew, whether or not something else has asked for it in between.
     */
    void parametersMayHaveChanged(const Integrator& integrator) {
        forgetParameters();
        try {
            readParameters(integrator.getIntegrationForceGroups());
        }
        catch (const OpenMM::OpenMMException&) {
            // The next step will say so.
        }
    }

    const Pairs& getPairs() const {
        return pairs;
    }
    /** Their connected groups. */
    const std::vector<OpenMMStiff::Block>& getBlocks() const {
        return blocks;
    }

    /** Draw the noise of the auxiliary velocities w. */
    const double* drawNoise(const stiffcore::OrnsteinUhlenbeck& flow) {
        Backend& backend = this->backend;
        backend.forEachPart(pairs.size(), [&](int begin, int end, int part) {
            for (int p = begin; p < end; p++) {
                const double scale = flow.amplitude / std::sqrt(pairs[p].inertia);
                noise[p] = (scale > 0 ? scale * backend.gaussian(part) : 0);
            }
        });
        return noise.data();
    }

    /** What has been taken from the positions at some time and is not to change: for checkpoints. May be empty. */
    const std::vector<double>& getStiffness() const {
        return stiffnessKnown && bonded->needsGeometry() ? bonded->stiffness : restored;
    }
    /** Use stiffnesses that getStiffness() has given, as soon as they are needed. */
    void restoreStiffness(const std::vector<double>& stiffness) {
        forgetParameters();
        restored = stiffness;
        stiffnessKnown = false;
    }
    /** Go back to pairs of before, until the next prepare(). */
    void restore(const Pairs& before) {
        forgetParameters();
        arrange(before);
        arrangedAsKept = false;
    }

private:
    void forgetParameters() {
        parametersKnown = false;
        kept.forget();
    }

    /** What the pairs depend on besides the System. */
    struct Settings {
        int integrationGroups = 0;
        double period = 0;
        bool useBondedForces = true;
        std::vector<OpenMMStiff::ExplicitPair> pairs;

        Settings() = default;
        explicit Settings(const Integrator& integrator)
                : integrationGroups(integrator.getIntegrationForceGroups()),
                  period(integrator.computePenalizedPeriod()), useBondedForces(integrator.getUseBondedForces()) {
            for (int i = 0; i < integrator.getNumPairs(); i++)
                pairs.push_back(getPair(integrator, i));
        }
        bool operator==(const Integrator& integrator) const {
            if (integrationGroups != integrator.getIntegrationForceGroups() ||
                period != integrator.computePenalizedPeriod() || useBondedForces != integrator.getUseBondedForces() ||
                (int) pairs.size() != integrator.getNumPairs())
                return false;
            for (size_t i = 0; i < pairs.size(); i++)
                if (!(pairs[i] == getPair(integrator, i)))
                    return false;
            return true;
        }

    private:
        static OpenMMStiff::ExplicitPair getPair(const Integrator& integrator, int index) {
            OpenMMStiff::ExplicitPair pair;
            integrator.getPairParameters(index, pair.particle1, pair.particle2, pair.inertia);
            return pair;
        }
    };

    Pairs choose(const Settings& settings) {
        readParameters(settings.integrationGroups);
        if (settings.useBondedForces)
            updateStiffness();
        return OpenMMStiff::choosePairs(state.getSystem(), settings.useBondedForces ? bonded.get() : nullptr,
                                        settings.pairs, settings.period, className);
    }

    void readParameters(int integrationGroups) {
        if (bonded != nullptr && parametersKnown && integrationGroups == bondedGroups)
            return;
        auto present = std::make_unique<OpenMMStiff::BondedStiffness>(state.getSystem(), integrationGroups, className);
        if (bonded == nullptr || integrationGroups != bondedGroups || !present->hasSameParameters(*bonded)) {
            stiffnessKnown = false;
            restored.clear();
            bonded = std::move(present);
        }
        bondedGroups = integrationGroups;
        parametersKnown = true;
    }

    void updateStiffness() {
        if (stiffnessKnown)
            return;
        if (restored.size() == bonded->pairs.size())
            bonded->stiffness = restored;
        else {
            OpenMMStiff::PresentGeometry geometry;
            if (bonded->needsGeometry()) {
                state.requirePositions();
                geometry.positions = state.positions();
                geometry.box = state.box();
                geometry.parameters = state.getParameters();
            }
            bonded->compute(state.getSystem(), geometry);
        }
        restored.clear();
        stiffnessKnown = true;
    }

    HostState& state;
    std::vector<double> masses;
    std::string className;
    OpenMMStiff::Kept<Settings, Pairs> kept;
    /// Whether the pairs are arranged that are kept, and not others of before.
    bool arrangedAsKept = false;
    std::unique_ptr<OpenMMStiff::BondedStiffness> bonded;
    int bondedGroups = 0;
    std::vector<double> restored;
    bool parametersKnown = false, stiffnessKnown = false;
    Pairs pairs;
    std::vector<OpenMMStiff::Block> blocks;
    std::vector<double> noise;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_PAIRS_H_ */
