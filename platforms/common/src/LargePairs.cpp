#include "LargePairs.h"
#include "../../threaded/src/ThreadedBackend.h"
#include "stiffcore/methods/Elementary.h"
#include "stiffcore/methods/PenaltyStep.h"
#include "stiffcore/pairs/PairBatch.h"
#include "stiffgeneric/GenericHost.h"
#include "stiffhost/HostBatches.h"
#include <atomic>
#include <climits>
#include <cmath>
#include <map>

using namespace OpenMM;
using namespace stiffcommon;
using std::vector;
using stiffhost::components;
using stiffthreaded::ThreadedBackend;

class LargePairs::Batches : public stiffhost::HostBatches<ThreadedBackend, stiffcore::PairBatch> {
    using Base = stiffhost::HostBatches<ThreadedBackend, stiffcore::PairBatch>;

public:
    explicit Batches(ContextImpl& context)
            : Base(own), own(std::make_unique<stiffgeneric::GenericHost>(context), context.getSystem()) {
    }

    void arrange(const vector<stiffcore::Block>& blocks, const vector<stiffcore::PenalizedPair>& allPairs,
                 const vector<double>& allMasses) {
        particles.clear();
        masses.clear();
        pairs.clear();
        blockOfParticle.clear();
        vector<stiffcore::Block> ownBlocks = blocks;
        for (size_t b = 0; b < ownBlocks.size(); b++) {
            stiffcore::Block& block = ownBlocks[b];
            std::map<int, int> place;
            for (int& particle : block.particles) {
                place[particle] = particles.size();
                particles.push_back(particle);
                masses.push_back(allMasses[particle]);
                blockOfParticle.push_back(b);
                particle = place[particle];
            }
            for (int& term : block.terms) {
                stiffcore::PenalizedPair pair = allPairs[term];
                pair.particle1 = place.at(pair.particle1);
                pair.particle2 = place.at(pair.particle2);
                term = pairs.size();
                pairs.push_back(pair);
            }
        }
        Base::arrange(ownBlocks, pairs, masses);
        a.resize(particles.size());
        noise.resize(particles.size());
        pairNoise.resize(pairs.size());
    }

    /** Load each block, do the work, and store it. */
    template <class Work>
    Failure move(const stiffcore::Box& box, Vectors& x, Vectors& v, const Vectors& F, Work&& work) {
        for (size_t i = 0; i < a.size(); i++) {
            for (int axis = 0; axis < 3; axis++)
                if (masses[i] > 0 && !(std::abs(F[i][axis]) < BlockText::maxForce))
                    return {true, ForcesFailed, blockOfParticle[i]};
            a[i] = masses[i] > 0 ? F[i] / masses[i] : Vec3();
        }
        std::atomic<int> failed(INT_MAX);
        const std::string description = forEach([&](const auto& batch, auto& workspace) {
            load(batch, components(x), components(v), box, workspace);
            gather(batch, components(a), workspace.a);
            const auto succeeded = work(batch, workspace);
            scatter(batch, workspace.x, components(x));
            scatter(batch, workspace.v, components(v));
            using Scalar = std::decay_t<decltype(batch.inverseMasses[0])>;
            const int lane = stiffcore::findFalse<Scalar>(succeeded, batch.count);
            if (lane >= 0) {
                const int block = blockOfParticle[batch.particles[lane][0]];
                for (int first = failed; block < first && !failed.compare_exchange_weak(first, block);) {
                }
            }
            return succeeded;
        });
        if (!description.empty())
            return {true, BlockFailed, failed};
        const int fast = stiffhost::findFasterThan(stiffcore::speedOfLight, v);
        return {fast >= 0, VelocityFailed, fast};
    }

    void drawNoise(const stiffcore::OrnsteinUhlenbeck& flow) {
        own.forEachPart(masses.size(), [&](int begin, int end, int part) {
            flow.drawNoise(masses.data(), components(noise), begin, end, [&] { return own.gaussian(part); });
        });
        own.forEachPart(pairs.size(), [&](int begin, int end, int part) {
            for (int p = begin; p < end; p++)
                pairNoise[p] = pairs[p].isConstrained()
                                       ? 0
                                       : flow.amplitude / std::sqrt(pairs[p].inertia) * own.gaussian(part);
        });
    }

    ThreadedBackend own;
    vector<int> particles, blockOfParticle;
    vector<double> masses, pairNoise;
    vector<stiffcore::PenalizedPair> pairs;
    Vectors a, noise;
};

LargePairs::LargePairs(ContextImpl& context) : batches(std::make_unique<Batches>(context)) {
}

LargePairs::~LargePairs() = default;

void LargePairs::arrange(const vector<stiffcore::Block>& blocks, const vector<stiffcore::PenalizedPair>& pairs,
                         const vector<double>& masses) {
    batches->arrange(blocks, pairs, masses);
}

const vector<int>& LargePairs::getParticles() const {
    return batches->particles;
}

LargePairs::Failure LargePairs::moveLangevin(double h, double tolerance, const HeatBath& heatBath,
                                             const stiffcore::Box& box, Vectors& x, Vectors& v, const Vectors& F) {
    const stiffcore::OrnsteinUhlenbeck flow(heatBath.friction, heatBath.kT, h);
    batches->drawNoise(flow);
    return batches->move(box, x, v, F, [&](const auto& batch, auto& work) {
        return stiffcore::moveLangevin(batch, {h, tolerance, heatBath.kT, flow.decay, heatBath.metricCorrection}, box,
                                       work, [&] {
                                           gather(batch, components(batches->noise), work.noise);
                                           gatherTerms(batch, batches->pairNoise.data(), work.pairNoise);
                                       });
    });
}

LargePairs::Failure LargePairs::moveVerlet(double h, double tolerance, const stiffcore::Box& box, Vectors& x,
                                           Vectors& v, const Vectors& F) {
    return batches->move(box, x, v, F, [&](const auto& batch, auto& work) {
        return stiffcore::moveVerlet(batch, {h, tolerance, 0, 0, false}, box, work);
    });
}

LargePairs::Failure LargePairs::kick(double t, const stiffcore::Box& box, const Vectors& x, Vectors& v,
                                     const Vectors& F) {
    Vectors same = x;
    return batches->move(box, same, v, F, [&](const auto& batch, auto& work) {
        stiffcore::kick(batch, t, work);
        return allLanes(batch);
    });
}

void LargePairs::initializeRandom(int seed) {
    // Not those with which the host's kernel begins, which takes steps now and then.
    batches->own.initializeRandom(seed == 0 ? 0 : seed ^ 0x5f3759df);
}

void LargePairs::write(std::ostream& stream) const {
    batches->own.write(stream);
}

void LargePairs::read(std::istream& stream) {
    batches->own.read(stream);
}
