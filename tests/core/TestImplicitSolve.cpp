/**
 * The linear systems of the Zhang-Skeel methods against dense matrices that automatic differentiation fills.
 */

#include "CountAllocations.h"
#include "Derivatives.h"
#include "StiffFixture.h"
#include "stiffcore/methods/ImplicitSolve.h"
#include <algorithm>
#include <functional>
#include <map>

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

namespace {

const double untouched = -12345.678;

template <class Real> struct Fixture : StiffFixture<Real> {
    using StiffFixture<Real>::StiffFixture;

    /** Solve for all blocks; the ones for which it fails are returned. */
    vector<int> solve(const vector<double>& F, double c, vector<double>& a, bool mayBeIndefinite = false) {
        return this->findFailures([&](const auto& batch, auto& work) {
            return solveAccelerations(batch, this->x.data(), F.data(), c, mayBeIndefinite, this->model.box, work,
                                      a.data());
        });
    }
    /** a . H1' . a of all blocks. */
    vector<int> contract(const vector<double>& a, vector<double>& w) {
        return this->findFailures([&](const auto& batch, auto& work) {
            return contractThirdDerivatives(batch, this->x.data(), a.data(), this->model.box, work, w.data());
        });
    }
    /** M + c H1 of a block. */
    MatrixXd matrix(int block, double c) const {
        MatrixXd result = c * this->model.hessian(this->blocks[block]);
        result.diagonal() += this->model.massDiagonal(this->blocks[block]);
        return result;
    }
    VectorXd gather(int block, const vector<double>& values) const {
        return ModelSystem::gather(this->blocks[block], values);
    }
};

/** Check the accelerations of all blocks; they must be positive definite. */
template <class Real> void checkAccelerations(Fixture<Real>& fixture, const vector<double>& F, double c) {
    vector<double> a(F.size(), untouched);
    ASSERT(fixture.solve(F, c, a).empty());
    for (int block = 0; block < fixture.size(); block++) {
        // The condition number is that of the masses times 1 + c k/m, at most 1e5 here, and errors are 1e-16 times
        // that.
        const VectorXd expected = solveDense(fixture.matrix(block, c), fixture.gather(block, F));
        ASSERT((fixture.gather(block, a) - expected).norm() <= 1e-10 * expected.norm());
    }
    for (size_t i = 0; i < fixture.model.masses.size(); i++)
        if (fixture.model.masses[i] == 0)
            ASSERT(a[3 * i] == untouched && a[3 * i + 1] == untouched && a[3 * i + 2] == untouched);
}

template <class Real> void testAccelerationsSolveTheImplicitEquation() {
    for (int seed = 1; seed <= 4; seed++) {
        ModelSystem model(seed);
        model.addMixture();
        model.addAlike();
        if (seed > 1)
            model.renumber();
        Fixture<Real> fixture(model);
        for (double c : {0.0, 1e-7, 1e-6, 4e-6})
            checkAccelerations(fixture, model.randomArray(1000), c);
    }
}

template <class Real> void testAccelerationsOfVeryStiffTermsAreAccurate() {
    // At their minimum terms have positive semi-definite Hessians, and c may be as large as one likes.
    ModelSystem model(5);
    model.stretch = model.bend = 0;
    model.addMixture();
    for (ModelTerm& term : model.terms)
        if (term.kind == StiffCoordinate::Kind::Angle && term.s0 == 3)
            term.k = 0; // the one that is not at its minimum
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, model.randomArray(1000), 1e-4);
}

template <class Real> void testTermsReachAcrossThePeriodicBox() {
    ModelSystem model(6);
    model.box = model.random.box();
    model.periodic = true;
    model.addMixture();
    model.addAlike();
    model.renumber();
    const vector<double> F = model.randomArray(1000);
    vector<double> whole(F.size()), split(F.size());
    Fixture<Real> together(model);
    checkAccelerations(together, F, 1e-6);
    ASSERT(together.solve(F, 1e-6, whole).empty());

    for (Eigen::Vector3d& position : model.positions)
        for (const auto& vector : model.box.vectors)
            position += (model.random.integer(5) - 2.0) * Eigen::Vector3d(vector[0], vector[1], vector[2]);
    Fixture<Real> apart(model);
    checkAccelerations(apart, F, 1e-6);
    ASSERT(apart.solve(F, 1e-6, split).empty());
    for (int block = 0; block < apart.size(); block++) {
        const VectorXd expected = apart.gather(block, whole);
        // Positions up to 20 nm long have roundings of 1e-15 nm, 1e-14 of a bond.
        ASSERT((apart.gather(block, split) - expected).norm() <= 1e-11 * expected.norm());
    }
}

template <class Real> void testMoleculesOfOneKindMayDifferInMassesAndParameters() {
    ModelSystem model(7);
    for (int i = 0; i < 5; i++)
        model.addWater(1 + i);
    for (int i = 0; i < 2; i++)
        model.addRing(20);
    for (int i = 0; i < 3; i++)
        model.addRing(4);
    for (ModelTerm& term : model.terms)
        term.k *= model.random.uniform(0.5, 2);
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, model.randomArray(1000), 1e-6);
}

template <class Real> void testMoleculesOfOneSizeMayDifferInTheirTerms() {
    // Three atoms and three terms each: bent, a triangle of bonds, bonds and angle at another atom, one with an
    // anchor, and one across the periodic box beside one that is not periodic.
    ModelSystem model(23);
    model.box = model.random.box();
    model.addWater();
    model.addRing(3);
    model.terms.erase(model.terms.end() - 3, model.terms.end()); // its angles
    model.addLine();
    model.addTree(3, 0);
    model.periodic = true;
    model.addWater();
    model.positions.back()[2] += model.box.vectors[2][2];
    model.positions.back()[1] += model.box.vectors[2][1];
    model.positions.back()[0] += model.box.vectors[2][0];
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, model.randomArray(1000), 1e-7);
}

/** A chain of a given length; further atoms and bonds of force constant 0 make its matrices larger. */
ModelSystem createChain(int numAtoms, int numExtra) {
    ModelSystem model(8);
    model.addTree(numAtoms);
    for (int i = 0; i < numExtra; i++)
        model.addBond(0, model.addAtom(1, model.positions[0] + model.random.vector(0.1)), 0);
    return model;
}

template <class Real> void testDenseAndSparseSolversAgree() {
    // The same chain below the size from which on matrices are held sparse, and lifted above it by what does
    // nothing.
    const int numAtoms = (MatrixLayout::minSparseSize - 1) / 3;
    const ModelSystem small = createChain(numAtoms, 0), large = createChain(numAtoms, 2);
    ASSERT(!MatrixLayout(3 * numAtoms, {}).isSparse() && MatrixLayout(3 * numAtoms + 6, {}).isSparse());
    Fixture<Real> dense(small), sparse(large);
    dense.forEachBatch([](const auto& batch, auto&) { ASSERT(!batch.hessian); });
    sparse.forEachBatch([](const auto& batch, auto&) { ASSERT(batch.hessian); });
    Random random(8);
    vector<double> F(sparse.x.size());
    for (double& f : F)
        f = random.gaussian();
    vector<double> a(dense.x.size()), b(sparse.x.size());
    ASSERT(dense.solve(F, 1e-6, a).empty() && sparse.solve(F, 1e-6, b).empty());
    for (size_t i = 0; i < a.size(); i++)
        ASSERT_EQUAL_TOL(a[i], b[i], 1e-13);
}

/** Distorted molecules, from harmless to hopeless: indefinite for a large enough c. */
ModelSystem createDistorted(int seed) {
    ModelSystem model(seed);
    model.stretch = 0.05;
    model.bend = 1;
    model.addMixture();
    model.addAlike();
    return model;
}

template <class Real> void testDefinitenessIsThatOfTheEigenvalues() {
    int numDefinite = 0, numIndefinite = 0;
    for (int seed = 10; seed < 20; seed++) {
        ModelSystem model = createDistorted(seed);
        Fixture<Real> fixture(model);
        const vector<double> F = model.randomArray(1000);
        for (double c : {1e-7, 1e-6, 1e-5, 1e-4}) {
            vector<double> a(F.size(), untouched);
            vector<int> indefinite;
            const vector<int> failed = fixture.solve(F, c, a);
            for (int block = 0; block < fixture.size(); block++) {
                const MatrixXd matrix = fixture.matrix(block, c);
                const double least = eigenvaluesOf(matrix)[0];
                ASSERT(std::abs(least) > 1e-10 * matrix.norm()); // not lost in roundings
                (least > 0 ? numDefinite : numIndefinite)++;
                if (least > 0)
                    continue;
                indefinite.push_back(block);
                ASSERT((fixture.gather(block, a).array() == untouched).all());
            }
            ASSERT_EQUAL_CONTAINERS(indefinite, failed);
        }
    }
    ASSERT(numDefinite > 100 && numIndefinite > 100);
}

/** Make the angle of a water among waters 0.3 rad. */
void squeeze(ModelSystem& model, int water) {
    Eigen::Vector3d* x = &model.positions[3 * water];
    const Eigen::Vector3d first = x[1] - x[0], second = x[2] - x[0];
    x[2] = x[0] + Eigen::AngleAxisd(0.3, first.cross(second).normalized()) * first;
}

/** Squeezed to 0.3 rad, water's angle pushes outwards and its out-of-plane curvature is negative. */
template <class Real> void testWaterFarFromItsAngleIsRefused() {
    // A curvature of k (0.3 - 1.82) cot(0.3) / r^2, some -4e5 kJ/mol/nm^2, against a mass of 1.
    ModelSystem model(20);
    model.addWater();
    squeeze(model, 0);
    model.terms[2].s0 = 1.82;
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> a(9, untouched);
    ASSERT(eigenvaluesOf(fixture.matrix(0, 1e-7))[0] > 0.1);
    ASSERT(eigenvaluesOf(fixture.matrix(0, 1e-5))[0] < -0.1);
    ASSERT_EQUAL(1, (int) fixture.solve(F, 1e-5, a).size());
    ASSERT(a == vector<double>(9, untouched));
    ASSERT(fixture.solve(F, 1e-7, a).empty());
}

/** Where it need not be positive definite, the matrix is solved with whatever the signs of its eigenvalues. */
template <class Real> void testIndefiniteMatricesAreSolved() {
    int numSeveral[2] = {0, 0}; // small, large
    for (int seed = 60; seed < 66; seed++) {
        ModelSystem model = createDistorted(seed);
        Fixture<Real> fixture(model);
        const vector<double> F = model.randomArray(1000);
        for (double c : {1e-6, 1e-5, 1e-4}) {
            vector<double> a(F.size(), untouched);
            const vector<int> failed = fixture.solve(F, c, a, true);
            for (int block = 0; block < fixture.size(); block++) {
                const MatrixXd matrix = fixture.matrix(block, c);
                const VectorXd spectrum = eigenvaluesOf(matrix);
                if (spectrum.cwiseAbs().minCoeff() < 1e-5 * spectrum.cwiseAbs().maxCoeff())
                    continue; // nearly singular: see there
                ASSERT(!std::binary_search(failed.begin(), failed.end(), block));
                const VectorXd expected = solveDense(matrix, fixture.gather(block, F));
                ASSERT((fixture.gather(block, a) - expected).norm() <= 1e-10 * expected.norm());
                numSeveral[matrix.rows() >= MatrixLayout::minSparseSize] += ((spectrum.array() < 0).count() >= 3);
            }
        }
    }
    ASSERT(numSeveral[0] > 20 && numSeveral[1] > 20);
}

/** Bonds that are stiffer by orders of magnitude, such as penalties for constraints, make no matrix singular. */
template <class Real> void testIndefiniteMatricesWithPenaltiesAreSolved() {
    int numIndefinite = 0;
    for (bool large : {false, true}) {
        ModelSystem model(68);
        model.stretch = 0.05;
        model.bend = 1;
        for (int i = 0; i < 6; i++) {
            model.addChain(large ? 20 : 5);
            for (ModelTerm& term : model.terms)
                if (term.kind == StiffCoordinate::Kind::Distance && term.index % 2 == 0)
                    term.k = 1e10;
        }
        Fixture<Real> fixture(model);
        const vector<double> F = model.randomArray(1000);
        vector<double> a(F.size());
        const double c = 1e-5;
        ASSERT(fixture.solve(F, c, a, true).empty());
        for (int block = 0; block < fixture.size(); block++) {
            const MatrixXd matrix = fixture.matrix(block, c);
            const VectorXd expected = solveDense(matrix, fixture.gather(block, F)),
                           spectrum = eigenvaluesOf(matrix);
            numIndefinite += (spectrum[0] < 0);
            // An entry of 1e5 has roundings of 1e-11, against masses and soft terms of 1.
            ASSERT((fixture.gather(block, a) - expected).norm() <= 1e-8 * expected.norm());
        }
    }
    ASSERT(numIndefinite > 6);
}

/** A matrix with an eigenvalue that vanishes has no solution that means anything; neighbours in other lanes have. */
template <class Real> void testNearlySingularMatricesAreRefused() {
    for (bool large : {false, true}) {
        ModelSystem model(67);
        model.stretch = 0.05;
        model.bend = 1;
        for (int i = 0; i < 4; i++)
            model.addChain(large ? 20 : 5);
        Fixture<Real> fixture(model);
        const vector<double> F = model.randomArray(1000);
        for (int block = 0; block < fixture.size(); block++) {
            // M + c H1 is singular for c = -1/lambda, lambda an eigenvalue of M^-1/2 H1 M^-1/2.
            const double lambda = model.squaredFrequencies(fixture.blocks[block])[0];
            ASSERT(lambda < 0);
            vector<double> a(F.size(), untouched);
            ASSERT_EQUAL_CONTAINERS(vector<int>({block}), fixture.solve(F, -1 / lambda, a, true));
            for (int other = 0; other < fixture.size(); other++)
                ASSERT_EQUAL(other == block, (fixture.gather(other, a).array() == untouched).all());
        }
    }
}

template <class Real> void testNotANumberIsRefused() {
    ModelSystem model(21);
    model.addMixture();
    model.addAlike();
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000), x = fixture.x, nothing(F.size(), untouched);
    for (int block = 0; block < fixture.size(); block++) {
        const Block& b = fixture.blocks[block];
        // A particle of several blocks spoils all of these.
        auto refused = [&](int particle, const vector<double>& F) {
            vector<double> a = nothing;
            vector<int> concerned;
            for (int other = 0; other < fixture.size(); other++) {
                const vector<int>& particles = fixture.blocks[other].particles;
                if (std::find(particles.begin(), particles.end(), particle) != particles.end())
                    concerned.push_back(other);
            }
            const vector<int> failed = fixture.solve(F, 1e-6, a);
            return failed == concerned && (fixture.gather(block, a).array() == untouched).all();
        };
        for (double bad : {(double) NAN, (double) INFINITY, -(double) INFINITY}) {
            for (size_t i = 0; i < b.particles.size(); i++) {
                const int component = 3 * b.particles[i] + i % 3;
                fixture.x[component] = bad;
                ASSERT(refused(b.particles[i], F));
                fixture.x = x;
                if ((int) i >= b.numMobile)
                    continue;
                vector<double> badForces = F;
                badForces[component] = bad;
                ASSERT(refused(b.particles[i], badForces));
            }
        }
    }
    // What has failed leaves no trace.
    vector<double> a = nothing;
    ASSERT(fixture.solve(F, 1e-6, a).empty() && a != nothing);
}

/** Others, also in the same batch, are as they would be without it. */
template <class Real> void testAFailureConcernsItsOwnBlockAlone() {
    ModelSystem model(22);
    model.addMixture();
    model.addAlike();
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000), good = fixture.x;
    for (bool mayBeIndefinite : {false, true}) {
        vector<double> expected(F.size(), untouched);
        ASSERT(fixture.solve(F, 1e-6, expected, mayBeIndefinite).empty());
        for (int bad = 0; bad < fixture.size(); bad++) {
            const int particle = fixture.blocks[bad].particles[0];
            for (bool inForces : {false, true}) {
                vector<double> found(F.size(), untouched), forces = F;
                (inForces ? forces : fixture.x)[3 * particle] = NAN;
                ASSERT_EQUAL_CONTAINERS(vector<int>({bad}), fixture.solve(forces, 1e-6, found, mayBeIndefinite));
                for (int block = 0; block < fixture.size(); block++) {
                    const VectorXd a = fixture.gather(block, expected), b = fixture.gather(block, found);
                    ASSERT(block == bad ? (b.array() == untouched).all() : a == b);
                }
                fixture.x = good;
            }
        }
    }
}

/** A molecule that is not positive definite does not keep those in other lanes from being solved. */
template <class Real> void testIndefiniteNeighboursDoNotDisturb() {
    ModelSystem model(24);
    for (int i = 0; i < 8; i++)
        model.addWater();
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000);
    const double c = 1e-5;
    checkAccelerations(fixture, F, c);
    for (int block : {1, 6})
        squeeze(model, block);
    Fixture<Real> distorted(model);
    vector<double> a(F.size(), untouched), b = a;
    ASSERT_EQUAL_CONTAINERS(vector<int>({1, 6}), distorted.solve(F, c, a));
    ASSERT(distorted.solve(F, c, b, true).empty());
    for (int block = 0; block < distorted.size(); block++) {
        const VectorXd expected = solveDense(distorted.matrix(block, c), distorted.gather(block, F));
        ASSERT((distorted.gather(block, b) - expected).norm() <= 1e-10 * expected.norm());
        ASSERT_EQUAL(block != 1 && block != 6, distorted.gather(block, a) == distorted.gather(block, b));
    }
}

/** One at a time or side by side, molecules get the same accelerations and third derivatives. */
void testLanesAgreeWithSingleBlocks() {
    for (int seed = 70; seed < 73; seed++) {
        ModelSystem model(seed);
        model.addMixture();
        model.addAlike();
        model.renumber();
        Fixture<double> one(model);
        Fixture<Lanes> four(model);
        const vector<double> F = model.randomArray(1000);
        vector<double> a(F.size()), b = a, w = a, u = a;
        for (bool mayBeIndefinite : {false, true}) {
            ASSERT(one.solve(F, 1e-6, a, mayBeIndefinite).empty() && four.solve(F, 1e-6, b, mayBeIndefinite).empty());
            ASSERT(one.contract(a, w).empty() && four.contract(a, u).empty());
            for (int block = 0; block < one.size(); block++) {
                // The condition number is below 100, and that of angles as well.
                ASSERT((one.gather(block, a) - one.gather(block, b)).norm() <= 1e-13 * one.gather(block, a).norm());
                ASSERT((one.gather(block, w) - one.gather(block, u)).norm() <= 1e-12 * one.gather(block, w).norm());
            }
        }
    }
}

/** a . H1' . a is the change of H1 a along a. */
template <class Real> void testThirdDerivativesAreThoseOfTheHessian() {
    ModelSystem model(74);
    model.addMixture();
    model.addAlike();
    Fixture<Real> fixture(model);
    vector<double> a = model.randomArray(1), w(a.size(), untouched);
    ASSERT(fixture.contract(a, w).empty());
    for (size_t i = 0; i < a.size(); i++)
        if (model.masses[i / 3] == 0) {
            ASSERT_EQUAL(untouched, w[i]);
            a[i] = 0; // as it should have been taken
        }
    for (int block = 0; block < fixture.size(); block++) {
        const VectorXd expected = slopeAtZero(2e-5, [&](double t) {
            ModelSystem moved = model;
            vector<double> x = fixture.x;
            for (size_t i = 0; i < x.size(); i++)
                x[i] += t * a[i];
            moved.setPositions(x);
            return VectorXd(moved.hessian(fixture.blocks[block]) * fixture.gather(block, a));
        });
        // Of fourth order at 1e-4 to 1e-3 of the bond lengths; of bent lines those of the potential are larger.
        ASSERT((fixture.gather(block, w) - expected).norm() <= 1e-6 * expected.norm());
    }
}

template <class Real> void testNewParametersTakeEffect() {
    ModelSystem model(47);
    model.addMixture();
    model.addAlike();
    model.renumber();
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000);
    checkAccelerations(fixture, F, 1e-6);
    vector<double> before(F.size()), after(F.size()), asNew(F.size());
    ASSERT(fixture.solve(F, 1e-6, before).empty());
    for (ModelTerm& term : model.terms) {
        term.k *= model.random.uniform(0.5, 1);
        if (term.s0 < 3) // which leaves straight angles straight
            term.s0 += model.random.uniform(-0.001, 0.001);
    }
    ASSERT(fixture.system.takeParameters(fixture.blocks, model.getStiffTerms()));
    ASSERT(fixture.solve(F, 1e-6, after).empty());
    Fixture<Real> other(model);
    checkAccelerations(other, F, 1e-6);
    ASSERT(other.solve(F, 1e-6, asNew).empty());
    ASSERT(after == asNew);
    for (int block = 0; block < fixture.size(); block++)
        ASSERT(fixture.gather(block, before) != fixture.gather(block, after));
}

/** What is built otherwise has to be put into batches anew; nothing of it is taken. */
template <class Real> void testOtherBuildsAreNotAdopted() {
    ModelSystem model(48);
    model.addAlike();
    Fixture<Real> fixture(model);
    const StiffTerms same = model.getStiffTerms();
    const vector<double> F = model.randomArray(1000);
    vector<double> before(F.size()), after(F.size());
    ASSERT(fixture.solve(F, 1e-6, before).empty());
    using Change = std::function<void(StiffTerms&, vector<Block>&)>;
    const vector<Change> changes = {
            [](StiffTerms& terms, vector<Block>&) {
                std::swap(terms.coordinates[0].particles[0], terms.coordinates[0].particles[1]);
            },
            [](StiffTerms& terms, vector<Block>&) { terms.coordinates[1].periodic = true; },
            [](StiffTerms& terms, vector<Block>&) { terms.coordinates[2].use = StiffCoordinate::Use::None; },
            [](StiffTerms& terms, vector<Block>&) { terms.coordinates[2].straight = true; },
            [](StiffTerms& terms, vector<Block>&) { terms.harmonics.erase(terms.harmonics.begin()); },
            [](StiffTerms& terms, vector<Block>&) { terms.needs.hessian = false; },
            [](StiffTerms& terms, vector<Block>&) { terms.needs.thirdDerivatives = false; },
            [](StiffTerms& terms, vector<Block>&) { terms.needs.frequency = false; },
            [](StiffTerms&, vector<Block>& blocks) { blocks.pop_back(); },
            [](StiffTerms&, vector<Block>& blocks) { std::swap(blocks[0], blocks[1]); },
            [](StiffTerms&, vector<Block>& blocks) { blocks[0].terms.pop_back(); },
            [](StiffTerms& terms, vector<Block>& blocks) {
                terms.functionTerms.push_back({});
                blocks[0].otherTerms.push_back(0);
            },
    };
    for (const Change& change : changes) {
        StiffTerms terms = same;
        vector<Block> blocks = fixture.blocks;
        for (HarmonicTerm& term : terms.harmonics)
            term.k *= 2;
        change(terms, blocks);
        ASSERT(!fixture.system.takeParameters(blocks, terms));
        ASSERT(fixture.solve(F, 1e-6, after).empty());
        ASSERT(before == after);
    }
    ASSERT(fixture.system.takeParameters(fixture.blocks, same));
}

template <class Real> void testThreadsGiveBitwiseTheSame() {
    ModelSystem model(48);
    for (int i = 0; i < 5; i++)
        model.addMixture();
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> a(F.size(), untouched);
    ASSERT(fixture.solve(F, 1e-6, a).empty());
    for (int repeat = 0; repeat < 20; repeat++) {
        vector<double> b(F.size(), untouched);
        fixture.forEachBatchOnThreads([&](const auto& batch, auto& work) {
            solveAccelerations(batch, fixture.x.data(), F.data(), 1e-6, false, model.box, work, b.data());
        });
        ASSERT(a == b);
    }
}

template <class Real> void testNoMemoryIsAllocated() {
    ModelSystem model = createDistorted(49);
    Fixture<Real> fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> a(F.size()), w = a;
    int numFailed[2] = {0, 0};
    assertTakesNoMemory([&] {
        fixture.forEachBatch([&](const auto& batch, auto& work) {
            using Scalar = RealOf<std::decay_t<decltype(batch)>>;
            for (bool mayBeIndefinite : {false, true}) {
                const auto solved = solveAccelerations(batch, fixture.x.data(), F.data(), 1e-5, mayBeIndefinite,
                                                       model.box, work, a.data());
                for (int lane = 0; lane < batch.count; lane++)
                    numFailed[mayBeIndefinite] += !LaneTraits<Scalar>::lane(solved, lane);
            }
            contractThirdDerivatives(batch, fixture.x.data(), a.data(), model.box, work, w.data());
        });
    });
    ASSERT(numFailed[0] > 5 && numFailed[1] == 0);
}

void testNoBlocksNeedNothing() {
    const BatchSystem<StiffBatch, Lanes> system({}, {}, {1.0, 2.0});
    ASSERT(system.batches.empty() && system.largeBlocks.empty());
    const StiffWorkspace<Lanes> work(system.batches, {});
    const StiffWorkspace<double> largeWork(system.largeBlocks, {});
}

/** Each block is in one lane of one batch, with others of the same build; only the last batch of these is not full. */
template <class Real> void testBlocksKnowTheirParticles() {
    ModelSystem model(50);
    model.addMixture();
    model.addAlike();
    model.renumber();
    Fixture<Real> fixture(model);
    vector<int> found;
    std::map<const StiffPattern*, int> numNotFull;
    fixture.forEachBatch([&](const auto& batch, auto&) {
        numNotFull[batch.pattern] += (batch.count < batch.numLanes);
        for (int lane = 0; lane < batch.numLanes; lane++) {
            const int number = fixture.findBlock(batch, lane);
            const Block& block = fixture.blocks[number];
            ASSERT_EQUAL_CONTAINERS(block.particles, batch.particles[lane]);
            ASSERT_EQUAL_CONTAINERS(block.terms, batch.terms[lane]);
            ASSERT_EQUAL(block.numMobile, batch.numMobile);
            for (int i = 0; i < batch.numParticles(); i++)
                ASSERT_EQUAL(i < batch.numMobile ? 1 / model.masses[block.particles[i]] : 0,
                             laneOf(batch.inverseMasses[i], lane));
            if (lane < batch.count)
                found.push_back(number);
            else
                ASSERT_EQUAL(found.back(), number);
        }
    });
    for (const auto& [pattern, number] : numNotFull)
        ASSERT(number <= 1);
    std::sort(found.begin(), found.end());
    ASSERT_EQUAL(fixture.size(), (int) found.size());
    for (int block = 0; block < fixture.size(); block++)
        ASSERT_EQUAL(block, found[block]);
}

} // namespace

int main() {
    return checkClaims({
            CLAIM_WITH_LANES(testAccelerationsSolveTheImplicitEquation),
            CLAIM_WITH_LANES(testAccelerationsOfVeryStiffTermsAreAccurate),
            CLAIM_WITH_LANES(testTermsReachAcrossThePeriodicBox),
            CLAIM_WITH_LANES(testMoleculesOfOneKindMayDifferInMassesAndParameters),
            CLAIM_WITH_LANES(testMoleculesOfOneSizeMayDifferInTheirTerms),
            CLAIM_WITH_LANES(testDenseAndSparseSolversAgree),
            CLAIM_WITH_LANES(testDefinitenessIsThatOfTheEigenvalues),
            CLAIM_WITH_LANES(testWaterFarFromItsAngleIsRefused),
            CLAIM_WITH_LANES(testIndefiniteMatricesAreSolved),
            CLAIM_WITH_LANES(testIndefiniteMatricesWithPenaltiesAreSolved),
            CLAIM_WITH_LANES(testNearlySingularMatricesAreRefused),
            CLAIM_WITH_LANES(testNotANumberIsRefused),
            CLAIM_WITH_LANES(testAFailureConcernsItsOwnBlockAlone),
            CLAIM_WITH_LANES(testIndefiniteNeighboursDoNotDisturb),
            CLAIM(testLanesAgreeWithSingleBlocks),
            CLAIM_WITH_LANES(testThirdDerivativesAreThoseOfTheHessian),
            CLAIM_WITH_LANES(testNewParametersTakeEffect),
            CLAIM_WITH_LANES(testOtherBuildsAreNotAdopted),
            CLAIM_WITH_LANES(testThreadsGiveBitwiseTheSame),
            CLAIM_WITH_LANES(testNoMemoryIsAllocated),
            CLAIM(testNoBlocksNeedNothing),
            CLAIM_WITH_LANES(testBlocksKnowTheirParticles),
    });
}
