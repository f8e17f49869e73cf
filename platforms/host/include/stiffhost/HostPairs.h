#ifndef STIFFHOST_HOST_PAIRS_H_
#define STIFFHOST_HOST_PAIRS_H_

#include "HostBatches.h"
#include "HostState.h"
#include "openmm/internal/ContextImpl.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/internal/Blocks.h"
#include "openmmstiff/internal/PenalizedPairs.h"
#include "stiffcore/pairs/PairSystem.h"
#include "stiffcore/steps/Elementary.h"
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

    explicit HostPairs(Backend& backend) : HostBatches<Backend, stiffcore::PairBatch>(backend) {
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
        if (this->areArranged() && parametersKnown && known.areThoseOf(integrator))
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
        this->arrange(OpenMMStiff::connect(context.getSystem(), particles), pairs, masses);
        noise.resize(pairs.size());
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

    /** Draw the noise of the auxiliary velocities w. */
    const double* drawNoise(const stiffcore::OrnsteinUhlenbeck& flow) {
        Backend& backend = this->backend;
        backend.forEachPart(pairs.size(), [&](int begin, int end, int thread) {
            for (int p = begin; p < end; p++) {
                const double scale = flow.amplitude / std::sqrt(pairs[p].inertia);
                noise[p] = (scale > 0 ? scale * backend.gaussian(thread) : 0);
            }
        });
        return noise.data();
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
        this->forget();
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

    Settings known;
    std::unique_ptr<OpenMMStiff::BondedStiffness> bonded;
    int bondedGroups = 0;
    std::vector<double> restored;
    bool parametersKnown = false, stiffnessKnown = false;
    std::vector<OpenMMStiff::PenalizedPair> pairs;
    std::vector<double> noise;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_PAIRS_H_ */
