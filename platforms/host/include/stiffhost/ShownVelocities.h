#ifndef STIFFHOST_SHOWN_VELOCITIES_H_
#define STIFFHOST_SHOWN_VELOCITIES_H_

#include "HostBatches.h"
#include "StepSession.h"
#include "setup/KeptPairs.h"
#include "stiffcore/pairs/MassRoot.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace stiffhost {

/**
 * The velocities u that a Context of a mass penalty shows between calls of step(), and those, v = N u, by which steps
 * move the particles (see stiffcore/pairs/MassRoot.h). Whatever somebody sets is u. A molecule whose u is what its last v
 * shows at the present positions, to the bit, goes on with that v, so that it does not matter in how many calls steps are
 * taken; and one whose v is what it was at the beginning of the call shows the u of then.
 */
template <class Real> class ShownVelocities : public HostBatches<Real, stiffcore::PairBatch> {
public:
    ShownVelocities(Backend& backend, KnownVelocities& last)
            : HostBatches<Real, stiffcore::PairBatch>(backend), shown(last.shown), propagated(last.propagated) {
    }

    /** Take the pairs that are kept. */
    void follow(const OpenMMStiff::KeptPairs& kept, const std::vector<double>& masses) {
        if (kept.getRevision() == this->getRevision())
            return;
        stiffcore::PairTerms terms = kept.getPairs();
        terms.ofRoot = true;
        this->take(kept.getRevision(), stiffcore::selectBound(kept.getBlocks()), terms, masses);
    }

    /** Replace u by v, at positions x. */
    void propagate(const Vectors& x, Vectors& velocities, const stiffcore::Box& box) {
        propagated.resize(velocities.size());
        shown = released = velocities;
        this->forEach([&](const auto& batch, auto& work) {
            load(batch, x, propagated, box, work);
            applyInverseRoot(batch, work);
            stiffcore::scatter(batch, work.v, components(released));
            const unsigned others = copyWhereSame(batch, released, shown, propagated, velocities);
            if (others == 0)
                return;
            gatherVelocities(batch, components(shown), work.v);
            applyRoot(batch, work);
            // What is not finite is left where it is: the step will name it.
            scatterLanes(batch, others, areFinite(batch, work.v), work.v, velocities);
        });
        propagated = velocities;
    }
    /** Replace v by u. */
    void show(const Vectors& x, Vectors& velocities, const stiffcore::Box& box) {
        released = velocities;
        this->forEach([&](const auto& batch, auto& work) {
            const unsigned others = copyWhereSame(batch, released, propagated, shown, velocities);
            if (others == 0)
                return;
            load(batch, x, released, box, work);
            applyInverseRoot(batch, work);
            scatterLanes(batch, others, areFinite(batch, work.v), work.v, velocities);
        });
        shown = velocities;
        propagated = released;
    }

    /** Project velocities that are to be shown on those that constraints allow. */
    void constrain(const Vectors& x, Vectors& velocities, const stiffcore::Box& box) {
        this->forEach([&](const auto& batch, auto& work) {
            load(batch, x, velocities, box, work);
            applyRoot(batch, work);
            applyInverseRoot(batch, work);
            stiffcore::scatter(batch, work.v, components(velocities));
        });
    }
    /**
     * Shift velocities that are to be shown by a time, with the accelerations M^-1 F. Molecules whose kinetic energy that
     * would change by more than motion in equilibrium does are left as they are.
     */
    void shift(double time, double kT, const std::vector<double>& masses, const Vectors& x, Vectors& accelerations,
               Vectors& velocities, const stiffcore::Box& box) {
        auto add = [&](auto begin, auto end) {
            const double limit = 4; // a method of this order is unstable where it is 1 for all motions
            double energy = 0;
            for (auto i = begin; i != end; ++i)
                energy += masses[*i] * time * time * accelerations[*i].dot(accelerations[*i]);
            if (energy <= limit * 3 * (end - begin) * kT)
                std::for_each(begin, end, [&](int i) { velocities[i] += accelerations[i] * time; });
        };
        this->forEach([&](const auto& batch, auto& work) {
            load(batch, x, accelerations, box, work);
            stiffcore::applyRoot<true>(batch, work);
            stiffcore::scatter(batch, work.v, components(accelerations));
            for (int lane = 0; lane < batch.count; lane++)
                add(batch.particles[lane].begin(), batch.particles[lane].begin() + batch.numMobile);
        });
        const std::vector<int>& free = *this->getFreeParticles();
        for (auto i = free.begin(); i != free.end(); ++i)
            add(i, i + 1);
    }

private:
    template <class Batch, class Workspace>
    static void load(const Batch& batch, const Vectors& x, const Vectors& v, const stiffcore::Box& box,
                     Workspace& work) {
        gather(batch, components(x), work.x);
        gatherVelocities(batch, components(v), work.v);
        factorRoot(batch, box, work);
    }
    /** Copy vectors in lanes in which others are the same to the bit; the bits of the result are the other lanes. */
    template <class Batch>
    static unsigned copyWhereSame(const Batch& batch, const Vectors& one, const Vectors& other, const Vectors& from,
                                  Vectors& to) {
        unsigned others = 0;
        for (int lane = 0; lane < batch.count; lane++) {
            const auto begin = batch.particles[lane].begin(), end = begin + batch.numMobile;
            if (std::all_of(begin, end,
                            [&](int i) { return std::memcmp(&one[i], &other[i], sizeof(OpenMM::Vec3)) == 0; }))
                std::for_each(begin, end, [&](int i) { to[i] = from[i]; });
            else
                others |= 1u << lane;
        }
        return others;
    }
    template <class Batch, class Mask, class Local>
    static void scatterLanes(const Batch& batch, unsigned lanes, const Mask& mask, const Local& local, Vectors& to) {
        using Scalar = std::decay_t<decltype(batch.inverseMasses[0])>;
        for (int lane = 0; lane < batch.count; lane++)
            if ((lanes & 1u << lane) != 0 && stiffcore::LaneTraits<Scalar>::lane(mask, lane))
                stiffcore::scatterLane(batch, local, lane, components(to));
    }

    Vectors &shown, &propagated;
    /// What is shown for v that is propagated; then v at the end.
    Vectors released;
};

} // namespace stiffhost

#endif /* STIFFHOST_SHOWN_VELOCITIES_H_ */
