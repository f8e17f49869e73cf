/**
 * The rows of constraints and SPOOK's solve against dense Eigen and differences: for small blocks, one at a time and in
 * lanes, and for large ones.
 */

#include "SystemTest.h"
#include "DenseSpook.h"
#include "RandomGeometry.h"
#include "setup/Blocks.h"
#include "setup/Constraints.h"
#include "stiffcore/methods/Spook.h"

using namespace stiffcore;

namespace {

const Box box = {{{1e3, 0, 0}, {0, 1e3, 0}, {0, 0, 1e3}}};
const double h = 0.002, time = 0.7;

double distance(const VectorXd& x, int i, int j) {
    return (x.segment<3>(3 * i) - x.segment<3>(3 * j)).norm();
}

/** Chains of the same build with constraints of every kind; the first atom of each is massless. */
struct Chains {
    int numAtoms;
    System system;
    SpookIntegrator integrator;
    vector<double> masses, x, v, a;
    vector<DenseSpook> dense;

    Chains(int count, int numAtoms) : numAtoms(numAtoms), integrator(h) {
        Random random(numAtoms);
        dense.resize(count);
        for (int m = 0; m < count; m++) {
            const int first = masses.size();
            for (int i = 0; i < numAtoms; i++) {
                masses.push_back(i == 0 ? 0 : random.uniform(1, 16));
                system.addParticle(masses.back());
                const double where[] = {0.12 * i + random.uniform(-0.01, 0.01),
                                        0.08 * (i % 2) + random.uniform(-0.01, 0.01), random.uniform(-0.02, 0.02)};
                x.insert(x.end(), where, where + 3);
                for (int j = 0; j < 3; j++) {
                    v.push_back(i == 0 ? 0 : random.gaussian());
                    a.push_back(i == 0 ? 0 : 100 * random.gaussian());
                }
            }
            addConstraints(m, first, random);
        }
    }

    VectorXd ofChain(const vector<double>& values, int m) const {
        return Eigen::Map<const VectorXd>(values.data() + 3 * numAtoms * m, 3 * numAtoms);
    }

    /** Call visit with each batch, its workspace loaded and its constraints evaluated. */
    template <class Real, class Visit> void forEachBatch(Visit&& visit) const {
        const OpenMMStiff::ConstraintSet set = OpenMMStiff::collectConstraints(
                system, OpenMMStiff::collectSystemConstraints(system), integrator, "Test");
        vector<vector<int>> particles;
        for (const Constraint& constraint : set.constraints)
            particles.push_back(constraint.particles);
        const BatchSystem<ConstraintBatch, Real> all(OpenMMStiff::connect(system, particles), set, masses);
        visitAll(all.batches, set, visit);
        if (LaneTraits<Real>::count > 1)
            visitAll(all.largeBlocks, set, visit);
    }

private:
    void addConstraints(int m, int first, Random& random) {
        DenseSpook& chain = dense[m];
        chain.h = h;
        chain.inverseMass = VectorXd::Zero(3 * numAtoms);
        for (int i = 3; i < 3 * numAtoms; i++)
            chain.inverseMass[i] = 1 / masses[first + i / 3];
        const double eps = 1e-7, tau = 0.003;
        for (int i = 0; i + 1 < numAtoms; i++) {
            const double d = random.uniform(0.13, 0.15);
            integrator.addDistanceConstraint(first + i, first + i + 1, d, eps * (i + 1), tau);
            chain.holonomic.push_back(
                    {[=](const VectorXd& x) { return distance(x, i, i + 1) - d; }, eps * (i + 1), tau});
        }
        const int last = numAtoms - 1;
        const Vec3 place(0.1, -0.2, random.uniform(0, 0.1));
        integrator.addPositionConstraint(first + last, place, 2e-6);
        for (int j = 0; j < 3; j++)
            chain.holonomic.push_back({[=](const VectorXd& x) { return x[3 * last + j] - place[j]; }, 2e-6, 2 * h});
        if (numAtoms > 2) {
            integrator.addHolonomicConstraint({first, first + 2, first + 1}, "x2*y3+distance(p1,p2)^2-0.1");
            chain.holonomic.push_back(
                    {[=](const VectorXd& x) { return x[6] * x[4] + distance(x, 0, 2) * distance(x, 0, 2) - 0.1; }, 1e-8,
                     2 * h});
        }
        integrator.addVelocityConstraint({first + last, first + last - 1}, {"y1-y2", "0", "1", "t*x1", "2", "0"},
                                         "sin(3*t)+z1", 1e-6);
        const double w = std::sin(3 * time) + x[3 * (first + last) + 2];
        chain.onVelocities.push_back({[=](const VectorXd& x) {
                                          VectorXd A = VectorXd::Zero(x.size());
                                          A[3 * last] = x[3 * last + 1] - x[3 * last - 2];
                                          A[3 * last + 2] = 1;
                                          A[3 * last - 3] = time * x[3 * last];
                                          A[3 * last - 2] = 2;
                                          return A;
                                      },
                                      w, 1e-6});
    }

    template <class Batches, class Visit>
    void visitAll(const Batches& batches, const OpenMMStiff::ConstraintSet& set, Visit&& visit) const {
        typename Batches::value_type::Workspace work(batches, set);
        for (const auto& batch : batches) {
            gather(batch, x.data(), work.x);
            gather(batch, v.data(), work.v);
            gather(batch, a.data(), work.a);
            evaluateConstraints(batch, time, box, work);
            visit(batch, work);
        }
    }
};

/** More than fill a batch of lanes: they begin another. */
const int numChains = Lanes::count + 1;

/** Check a claim for large chains, and for small ones. */
template <class Check> void forAll(Check&& check) {
    for (int numAtoms : {2, 3, 6, 40}) {
        const Chains chains(numChains, numAtoms);
        auto checkBatch = [&](const auto& batch, auto& work) { check(chains, batch, work); };
        chains.forEachBatch<double>(checkBatch);
        chains.forEachBatch<Lanes>(checkBatch);
    }
}

/** The kinds of blocks that are meant to be tested are there. */
CLAIM(testLargeBlocksAreSparseAndSmallOnesFillLanes) {
    const Chains small(numChains, 6), large(numChains, 40);
    int numLarge = 0, numInLanes = 0;
    large.forEachBatch<Lanes>([&](const auto& batch, auto&) { numLarge += (batch.sparse && batch.numLanes == 1); });
    small.forEachBatch<Lanes>([&](const auto& batch, auto&) { numInLanes += (batch.count == Lanes::count); });
    ASSERT_EQUAL(numChains, numLarge);
    ASSERT_EQUAL(1, numInLanes);
}

/** Velocities and multipliers after the kick are those of the paper's equation, and so are the violations. */
CLAIM(testKickIsThePapersEquation) {
    forAll([](const Chains& chains, const auto& batch, auto& work) {
        const auto values = work.values;
        computeViolations(batch, work);
        const auto violations = work.multipliers;
        const auto positive = kickSpook(batch, h, 2 * h, work);
        for (int l = 0; l < batch.count; l++) {
            ASSERT(LaneTraits<std::decay_t<decltype(work.values[0])>>::lane(positive, l));
            const int m = batch.particles[l].back() / chains.numAtoms, first = m * chains.numAtoms;
            DenseSpook dense = chains.dense[m];
            const VectorXd x = chains.ofChain(chains.x, m), v = chains.ofChain(chains.v, m);
            const VectorXd kicked = dense.kick(x, v, chains.ofChain(chains.a, m));
            for (size_t i = 0; i < batch.particles[l].size(); i++)
                for (int j = 0; j < 3; j++)
                    ASSERT_EQUAL_TOL(kicked[3 * (batch.particles[l][i] - first) + j], laneOf(work.v[i][j], l), 1e-7);
            // The integrator has the constraint on velocities last.
            const double w = dense.onVelocities[0].w, rate = dense.onVelocities[0].A(x).dot(v);
            for (size_t p = 0; p < batch.terms[l].size(); p++) {
                const bool onVelocities = batch.row(p).kind == Constraint::Kind::Velocity;
                ASSERT(onVelocities || p < dense.holonomic.size());
                const double multiplier = dense.multipliers[onVelocities ? 0 : 1 + p],
                             violation = onVelocities ? rate - w : dense.holonomic[p].g(x);
                ASSERT_EQUAL_TOL(multiplier, laneOf(work.multipliers[p], l), 1e-6);
                ASSERT_EQUAL_TOL(violation, laneOf(violations[p], l), 1e-12);
                if (onVelocities)
                    ASSERT_EQUAL_TOL(w, laneOf(values[p], l), 1e-12);
            }
        }
    });
}

/** A matrix that cannot be factored is noticed in its lane. */
CLAIM(testFailureIsNoticedInItsLane) {
    const Chains chains(4, 3);
    chains.forEachBatch<Lanes>([&](const auto& batch, auto& work) {
        using Real = std::decay_t<decltype(work.values[0])>;
        LaneTraits<Real>::lane(work.inverseMasses[0], 2) = std::nan(""); // an entry of the diagonal
        ASSERT_EQUAL(2, findFalse<Real>(kickSpook(batch, h, 2 * h, work), batch.count));
    });
}

} // namespace

CHECK_CLAIMS
