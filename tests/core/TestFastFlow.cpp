/**
 * The motion of molecules under their stiff terms alone, by micro-steps.
 */

#include "CoreTest.h"
#include "StiffFixture.h"
#include "stiffcore/methods/FastFlow.h"
#include "stiffcore/methods/TangentSpace.h"

namespace {

/** With velocities. */
template <class Real> struct Fixture : StiffFixture<Real> {
    using StiffFixture<Real>::model;
    using StiffFixture<Real>::blocks;
    using StiffFixture<Real>::x;
    vector<double> v;

    Fixture(const ModelSystem& model, double speed)
            : StiffFixture<Real>(model), v(ModelSystem(model).randomArray(speed)) {
    }
    /** The flow of one batch; lanes that fail are not written. */
    template <class Batch, class Workspace>
    auto flow(const Batch& batch, Workspace& work, double t, int numMicroSteps) {
        gather(batch, x.data(), work.x);
        gatherVelocities(batch, v.data(), work.v);
        flowFast(batch, t, numMicroSteps, model.box, work);
        const auto finite = areFinite(batch, work.x) & areFinite(batch, work.v);
        scatter(finite, batch, work.x, x.data());
        return scatter(finite, batch, work.v, v.data());
    }
    /** That of all blocks; the ones for which it fails are returned. */
    vector<int> tryFlow(double t, int numMicroSteps) {
        return this->findFailures([&](const auto& batch, auto& work) { return flow(batch, work, t, numMicroSteps); });
    }
    void flow(double t, int numMicroSteps) {
        ASSERT(tryFlow(t, numMicroSteps).empty());
    }
    /** The bound of the frequency of each block. */
    vector<double> boundFrequencies() {
        vector<double> bounds(this->size());
        this->forEachBatch([&](const auto& batch, auto& work) {
            gather(batch, x.data(), work.x);
            const auto bound = boundFrequency(batch, model.box, work);
            for (int lane = 0; lane < batch.count; lane++)
                bounds[this->findBlock(batch, lane)] = laneOf(bound, lane);
        });
        return bounds;
    }
};

double largestDifference(const vector<double>& a, const vector<double>& b) {
    double largest = 0;
    for (size_t i = 0; i < a.size(); i++)
        largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

CLAIM_WITH_LANES(testStiffForcesAreMinusTheGradient) {
    for (int seed = 1; seed <= 4; seed++) {
        ModelSystem model = ModelSystem::makeMixture(seed);
        Fixture<Real> fixture(model, 1);
        const vector<double> F = model.randomArray(1000);
        fixture.forEachBlock(
                [&](const auto& batch, auto& work) {
                    // What is left of given forces without the stiff ones.
                    computeSlowAccelerations(batch, fixture.x.data(), F.data(), model.box, work);
                },
                [&](const auto& batch, auto& work, int lane, int number) {
                    const Block& block = fixture.blocks[number];
                    const VectorXd gradient = model.gradient(block), masses = model.massDiagonal(block);
                    const VectorXd expected = (ModelSystem::gather(block, F) + gradient).cwiseQuotient(masses);
                    const VectorXd forces = laneOfVectors(work.forces, batch.numMobile, lane);
                    const VectorXd a = laneOfVectors(work.a, batch.numMobile, lane);
                    const double size = gradient.norm() + expected.norm();
                    ASSERT((forces + gradient).norm() <= 1e-10 * size);
                    ASSERT((a - expected).norm() <= 1e-10 * size);
                    const int numFixed = block.particles.size() - block.numMobile;
                    ASSERT(laneOfVectors(work.a, batch.numParticles(), lane).tail(3 * numFixed).isZero(0));
                });
    }
}

/** Verlet's solution for a harmonic bond along a line is known: a cosine of which each step advances the phase. */
CLAIM_WITH_LANES(testDiatomicFollowsVerletsSolution) {
    ModelSystem model(5);
    model.beginMolecule();
    const double m1 = 12, m2 = 1, k = 3e5, amplitude = 0.004, length = 0.11, d = 0.0005;
    model.addAtom(m1, Eigen::Vector3d(0.3, 0, 0));
    model.addAtom(m2, Eigen::Vector3d(0.3 + length + amplitude, 0, 0));
    model.addBond(0, 1, k);
    model.terms[0].s0 = length;
    Fixture<Real> fixture(model, 0);
    const double omega2 = k * (1 / m1 + 1 / m2), phase = std::acos(1 - 0.5 * omega2 * d * d);
    int steps = 0;
    for (int number : {1, 2, 7, 50}) {
        fixture.flow(number * d, number);
        steps += number;
        const double stretch = fixture.x[3] - fixture.x[0] - length;
        ASSERT_EQUAL_TOL(amplitude, amplitude + stretch - amplitude * std::cos(steps * phase), 1e-12);
        // The velocity of velocity Verlet, (x_{n+1} - x_{n-1}) / 2d.
        const double rate = -amplitude * std::sin(phase) / d * std::sin(steps * phase);
        ASSERT(std::abs(fixture.v[3] - fixture.v[0] - rate) < 1e-9);
    }
}

CLAIM_WITH_LANES(testFlowIsReversibleAndHalvesMakeAWhole) {
    ModelSystem model(6);
    model.addMixture();
    model.addAlike();
    Fixture<Real> whole(model, 1), halves(model, 1);
    const vector<double> start = whole.x;
    whole.flow(0.003, 10);
    ASSERT(largestDifference(whole.x, start) > 1e-4);
    halves.flow(0.0015, 5);
    halves.flow(0.0015, 5);
    ASSERT(largestDifference(whole.x, halves.x) < 1e-13);
    ASSERT(largestDifference(whole.v, halves.v) < 1e-9);
    for (double& component : whole.v)
        component = -component;
    whole.flow(0.003, 10);
    ASSERT(largestDifference(whole.x, start) < 1e-12);
}

/** Total and angular momentum are kept to rounding: forces within a molecule add up to none. */
CLAIM_WITH_LANES(testMomentaAreKept) {
    ModelSystem model(9);
    model.addWater();
    model.addTree(20);
    Fixture<Real> fixture(model, 1);
    auto momenta = [&] {
        Eigen::Matrix<double, 6, 1> sum = Eigen::Matrix<double, 6, 1>::Zero();
        for (size_t i = 0; i < model.masses.size(); i++) {
            const Eigen::Vector3d p = model.masses[i] * Eigen::Map<Eigen::Vector3d>(&fixture.v[3 * i]);
            sum.head<3>() += p;
            sum.tail<3>() += Eigen::Map<Eigen::Vector3d>(&fixture.x[3 * i]).cross(p);
        }
        return sum;
    };
    const auto before = momenta();
    fixture.flow(0.05, 200);
    ASSERT((momenta() - before).norm() < 1e-10 * before.norm());
}

/** At the minimum the bound is never below the frequency of the stiffest mode, and close to it. */
CLAIM_WITH_LANES(testFrequencyIsBounded) {
    for (int seed = 10; seed < 14; seed++) {
        ModelSystem model(seed);
        model.stretch = model.bend = 0;
        model.addMixture();
        model.addAlike();
        for (StiffCoordinate& term : model.terms)
            if (term.kind == StiffCoordinate::Kind::Angle && term.s0 >= 3)
                term.k = 0; // those that are not at their minimum
        model.renumber();
        Fixture<Real> fixture(model, 0);
        const vector<double> bounds = fixture.boundFrequencies();
        for (int i = 0; i < fixture.size(); i++) {
            const double frequency = std::sqrt(model.squaredFrequencies(fixture.blocks[i]).maxCoeff());
            ASSERT(bounds[i] > frequency * (1 - 1e-9));
            ASSERT(bounds[i] < frequency * 1.2);
        }
    }
}

CLAIM_WITH_LANES(testFrequencyOfWaterIsTightlyBounded) {
    ModelSystem model(14);
    model.stretch = model.bend = 0;
    model.addWater();
    Fixture<Real> fixture(model, 0);
    const double square = model.squaredFrequencies(fixture.blocks[0]).maxCoeff();
    ASSERT(fixture.boundFrequencies()[0] < 1.03 * std::sqrt(square));
}

/** Also where a straight angle or an infinite force constant has its part in it; a block without terms has none. */
CLAIM_WITH_LANES(testFrequencyOfUnusualBlocks) {
    ModelSystem model(17);
    for (int i = 0; i < 5; i++)
        model.addLine();
    for (int t = 6; t < 9; t++)
        model.terms[t].k = 0;
    model.terms[9].k = -model.terms[9].k;
    Fixture<Real> fixture(model, 0);
    const vector<double> bounds = fixture.boundFrequencies();
    ASSERT_EQUAL(0, bounds[2]);
    ASSERT_EQUAL_TOL(bounds[1], Fixture<double>(model, 0).boundFrequencies()[1], 1e-12);
    for (int i : {0, 1, 3, 4})
        ASSERT(bounds[i] > 100 && bounds[i] < 1000);
    fixture.x[3 * fixture.blocks[1].particles[0]] = std::nan("");
    const vector<double> others = fixture.boundFrequencies();
    for (int i : {0, 2, 3, 4})
        ASSERT_EQUAL(bounds[i], others[i]);
}

/** A block that is torn apart is reported, and its particles are left where they were; others move as without it. */
CLAIM_WITH_LANES(testWhatIsNotFiniteIsNotWritten) {
    ModelSystem model(15);
    for (int i = 0; i < 6; i++)
        model.addWater();
    Fixture<Real> good(model, 1);
    good.flow(0.001, 2);
    for (int bad = 0; bad < 6; bad++)
        for (double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
            Fixture<Real> fixture(model, 1);
            fixture.v[9 * bad] = value;
            const vector<double> x = fixture.x, v = fixture.v;
            ASSERT_EQUAL_CONTAINERS(vector<int>({bad}), fixture.tryFlow(0.001, 2));
            for (int i = 0; i < 54; i++) {
                ASSERT_EQUAL(i / 9 == bad ? x[i] : good.x[i], fixture.x[i]);
                if (i != 9 * bad)
                    ASSERT_EQUAL(i / 9 == bad ? v[i] : good.v[i], fixture.v[i]);
            }
        }
}

/** One at a time or side by side, molecules move alike. */
CLAIM(testLanesAgreeWithSingleBlocks) {
    ModelSystem model(18);
    model.addMixture();
    model.addAlike();
    model.renumber();
    Fixture<double> one(model, 1);
    Fixture<Lanes> four(model, 1);
    const vector<double> bounds = one.boundFrequencies(), others = four.boundFrequencies();
    for (int i = 0; i < one.size(); i++)
        ASSERT(std::abs(bounds[i] - others[i]) <= 1e-12 * bounds[i]);
    one.flow(0.001, 10);
    four.flow(0.001, 10);
    ASSERT(largestDifference(one.x, four.x) < 1e-13);
    ASSERT(largestDifference(one.v, four.v) < 1e-9);
}

} // namespace

CHECK_CLAIMS
