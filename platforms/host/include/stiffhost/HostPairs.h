#ifndef STIFFHOST_HOST_PAIRS_H_
#define STIFFHOST_HOST_PAIRS_H_

#include "HostState.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/internal/Blocks.h"
#include "openmmstiff/internal/PenalizedPairs.h"
#include "stiffcore/pairs/PairSystem.h"
#include "stiffcore/steps/Elementary.h"
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The penalized and constrained pairs of a Context and their blocks, kept up to date with it. See HostParticles for the
 * Backend.
 */
template <class Backend> class HostPairs {
public:
    using Integrator = OpenMMStiff::MassPenaltyIntegrator;
    using Real = typename Backend::Real;

    explicit HostPairs(Backend& backend) : backend(backend) {
    }

    /** Prepare, unless that has to wait for positions. */
    void initialize(OpenMM::ContextImpl& context, const Integrator& integrator, const std::vector<double>& masses,
                    const std::string& className) {
        readParameters(context.getSystem(), integrator.getIntegrationForceGroups(), className);
        if (!integrator.getUseBondedForces() || !bonded->needsGeometry())
            prepare(context, integrator, masses, className);
    }

    /**
     * Bring the pairs and their blocks up to date.
     *
     * @param masses   the masses of all particles [dalton]
     * @return whether anything has changed
     */
    bool prepare(OpenMM::ContextImpl& context, const Integrator& integrator, const std::vector<double>& masses,
                 const std::string& className) {
        if (system != nullptr && parametersKnown && known.areThoseOf(integrator))
            return false;
        const Settings settings(integrator);
        readParameters(context.getSystem(), settings.integrationGroups, className);
        if (settings.useBondedForces)
            updateStiffness(context);
        pairs = OpenMMStiff::choosePairs(context.getSystem(), settings.useBondedForces ? bonded.get() : nullptr,
                                         settings.pairs, settings.period, className);
        std::vector<std::vector<int>> particles;
        for (const auto& pair : pairs)
            particles.push_back({pair.particle1, pair.particle2});
        const std::vector<OpenMMStiff::Block> blocks = OpenMMStiff::connect(context.getSystem(), particles);
        system = std::make_unique<stiffcore::PairSystem<Real>>(blocks, pairs, masses);
        workspaces.assign(backend.getNumThreads(), system->createWorkspace(system->batches));
        largeWorkspaces.assign(backend.getNumThreads(), system->createWorkspace(system->largeBlocks));
        noise.resize(pairs.size());
        freeMasses = masses;
        for (const auto& block : blocks)
            for (int i = 0; i < block.numMobile; i++)
                freeMasses[block.particles[i]] = 0;
        known = settings;
        return true;
    }

    /** The parameters of the bonded forces may have changed. */
    void forgetParameters() {
        parametersKnown = false;
    }

    const std::vector<OpenMMStiff::PenalizedPair>& getPairs() const {
        return pairs;
    }
    /** The masses of the particles that belong to no pair; 0 for those that do. */
    const std::vector<double>& getFreeMasses() const {
        return freeMasses;
    }

    /** Draw the noise of the auxiliary velocities w. */
    const double* drawNoise(const stiffcore::OrnsteinUhlenbeck& flow) {
        backend.forEachPart(pairs.size(), [&](int begin, int end, int thread) {
            for (int p = begin; p < end; p++) {
                const double scale = flow.amplitude / std::sqrt(pairs[p].inertia);
                noise[p] = (scale > 0 ? scale * backend.gaussian(thread) : 0);
            }
        });
        return noise.data();
    }

    /**
     * Work on all blocks, on all threads.
     *
     * @param work   called as work(batch, workspace); returns in which lanes it succeeded
     * @return a description of a block for which it did not, or an empty string
     */
    template <class Work> std::string forEach(Work&& work) {
        const int numLarge = system->largeBlocks.size(), number = numLarge + system->batches.size();
        // The first failure, as (index, lane) in one number.
        const int maxLanes = stiffcore::LaneTraits<Real>::count;
        std::atomic<int> failed(number * maxLanes);
        backend.forEachBlock(number, [&](int index, int thread) {
            const int lane = (index < numLarge)
                                     ? failedLane(system->largeBlocks[index], largeWorkspaces[thread], work)
                                     : failedLane(system->batches[index - numLarge], workspaces[thread], work);
            if (lane < 0)
                return;
            const int failure = index * maxLanes + lane;
            int first = failed;
            while (failure < first && !failed.compare_exchange_weak(first, failure)) {
            }
        });
        const int index = failed / maxLanes, lane = failed % maxLanes;
        if (index == number)
            return "";
        return index < numLarge ? describe(system->largeBlocks[index], lane)
                                : describe(system->batches[index - numLarge], lane);
    }

    /** Add up a number of each batch, in a fixed order, with compute(batch, workspace). */
    template <class Compute> double sum(Compute&& compute) {
        double result = 0;
        for (const auto& block : system->largeBlocks)
            result += compute(block, largeWorkspaces[0]);
        for (const auto& batch : system->batches)
            result += compute(batch, workspaces[0]);
        return result;
    }

    /** What has been taken from the positions at some time and is not to change: for checkpoints. May be empty. */
    const std::vector<double>& getStiffness() const {
        static const std::vector<double> none;
        return stiffnessKnown && bonded->needsGeometry() ? bonded->stiffness : none;
    }
    /** Use stiffnesses that getStiffness() has given, as soon as they are needed. */
    void restoreStiffness(const std::vector<double>& stiffness) {
        if (stiffness.empty())
            return;
        restored = stiffness;
        stiffnessKnown = false;
        system.reset();
    }

private:
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
        bool areThoseOf(const Integrator& integrator) const {
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

    void readParameters(const OpenMM::System& all, int integrationGroups, const std::string& className) {
        if (bonded != nullptr && parametersKnown && integrationGroups == bondedGroups)
            return;
        auto present = std::make_unique<OpenMMStiff::BondedStiffness>(all, integrationGroups, className);
        if (bonded == nullptr || integrationGroups != bondedGroups || !present->hasSameParameters(*bonded)) {
            stiffnessKnown = false;
            bonded = std::move(present);
        }
        bondedGroups = integrationGroups;
        parametersKnown = true;
    }

    void updateStiffness(OpenMM::ContextImpl& context) {
        if (stiffnessKnown)
            return;
        if (restored.size() == bonded->pairs.size())
            bonded->stiffness = restored;
        else {
            OpenMMStiff::PresentGeometry geometry;
            if (bonded->needsGeometry()) {
                requirePositions(context);
                HostState state(context);
                geometry.positions = state.positions();
                context.getPeriodicBoxVectors(geometry.box[0], geometry.box[1], geometry.box[2]);
                geometry.parameters = context.getParameters();
            }
            bonded->compute(context.getSystem(), geometry);
        }
        restored.clear();
        stiffnessKnown = true;
    }

    template <class Batch, class Workspace, class Work>
    static int failedLane(const Batch& batch, Workspace& workspace, Work&& work) {
        using Scalar = std::decay_t<decltype(batch.inverseMasses[0])>;
        return stiffcore::findFalse<Scalar>(work(batch, workspace), batch.count);
    }

    template <class Batch> static std::string describe(const Batch& batch, int lane) {
        return describeMolecule(batch.particles[lane], batch.pattern->numMobile);
    }

    Backend& backend;
    Settings known;
    std::unique_ptr<OpenMMStiff::BondedStiffness> bonded;
    int bondedGroups = 0;
    std::vector<double> restored;
    bool parametersKnown = false, stiffnessKnown = false;
    std::vector<OpenMMStiff::PenalizedPair> pairs;
    std::unique_ptr<stiffcore::PairSystem<Real>> system;
    std::vector<stiffcore::PairWorkspace<Real>> workspaces;
    std::vector<stiffcore::PairWorkspace<double>> largeWorkspaces;
    std::vector<double> freeMasses, noise;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_PAIRS_H_ */
