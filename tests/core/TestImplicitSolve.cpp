/**
 * The linear systems of the Zhang-Skeel methods against dense matrices that automatic differentiation fills.
 */

#include "CoreTest.h"
#include "StiffFixture.h"
#include "stiffcore/methods/ImplicitSolve.h"

namespace {

const double untouched = -12345.678;

/** With forces. */
template <class Real> struct Fixture : StiffFixture<Real> {
    vector<double> F;

    explicit Fixture(const ModelSystem& model) : StiffFixture<Real>(model), F(ModelSystem(model).randomArray(1000)) {
    }
    /** Solve for all blocks; the ones for which it fails are returned, and their accelerations are not written. */
    vector<int> trySolve(double c, vector<double>& a, bool mayBeIndefinite = false) {
        a.assign(F.size(), untouched);
        return this->findFailures([&](const auto& batch, auto& work) {
            return solveAccelerations(batch, this->x.data(), F.data(), c, mayBeIndefinite, this->model.box, work,
                                      a.data());
        });
    }
    vector<double> solve(double c, bool mayBeIndefinite = false) {
        vector<double> a;
        ASSERT(trySolve(c, a, mayBeIndefinite).empty());
        return a;
    }
    /** a . H1' . a of all blocks. */
    vector<double> contract(const vector<double>& a) {
        vector<double> w(a.size(), untouched);
        ASSERT(this->findFailures([&](const auto& batch, auto& work) {
                       return contractThirdDerivatives(batch, this->x.data(), a.data(), this->model.box, work,
                                                       w.data());
                   }).empty());
        return w;
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
    bool isUntouched(int block, const vector<double>& a) const {
        return (gather(block, a).array() == untouched).all();
    }
    void checkSolution(int block, const MatrixXd& matrix, const vector<double>& a, double tolerance = 1e-10) const {
        const VectorXd expected = solveDense(matrix, gather(block, F));
        ASSERT((gather(block, a) - expected).norm() <= tolerance * expected.norm());
    }
};

/** Molecules of all kinds, many of them alike. */
ModelSystem createMolecules(int seed, double stretch = 0.005, double bend = 0.1) {
    ModelSystem model(seed);
    model.stretch = stretch;
    model.bend = bend;
    model.addMixture();
    model.addAlike();
    return model;
}

/** Distorted molecules, from harmless to hopeless: indefinite for a large enough c. */
ModelSystem createDistorted(int seed) {
    return createMolecules(seed, 0.05, 1);
}

/** Check the accelerations of all blocks, which must be positive definite, and return them. */
template <class Real> vector<double> checkAccelerations(Fixture<Real>& fixture, double c) {
    const vector<double> a = fixture.solve(c);
    // The condition number is that of the masses times 1 + c k/m, at most 1e5 here, and errors are 1e-16 times that.
    for (int block = 0; block < fixture.size(); block++)
        fixture.checkSolution(block, fixture.matrix(block, c), a);
    for (size_t i = 0; i < a.size(); i++)
        ASSERT(fixture.model.masses[i / 3] > 0 || a[i] == untouched);
    return a;
}

CLAIM_WITH_LANES(testAccelerationsSolveTheImplicitEquation) {
    for (int seed = 1; seed <= 4; seed++) {
        ModelSystem model = createMolecules(seed);
        if (seed > 1)
            model.renumber();
        Fixture<Real> fixture(model);
        for (double c : {0.0, 1e-7, 1e-6, 4e-6})
            checkAccelerations(fixture, c);
    }
}

CLAIM_WITH_LANES(testAccelerationsOfVeryStiffTermsAreAccurate) {
    // At their minimum terms have positive semi-definite Hessians, and c may be as large as one likes.
    ModelSystem model(5);
    model.stretch = model.bend = 0;
    model.addMixture();
    for (StiffCoordinate& term : model.terms)
        if (term.kind == StiffCoordinate::Kind::Angle && term.s0 == 3)
            term.k = 0; // the one that is not at its minimum
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, 1e-4);
}

CLAIM_WITH_LANES(testTermsReachAcrossThePeriodicBox) {
    ModelSystem model = ModelSystem::makeMixture(6);
    Fixture<Real> together(model);
    const vector<double> whole = checkAccelerations(together, 1e-6);
    for (Eigen::Vector3d& position : model.positions)
        for (const auto& vector : model.box.vectors)
            position += (model.random.integer(5) - 2.0) * Eigen::Vector3d(vector);
    Fixture<Real> apart(model);
    apart.F = together.F;
    const vector<double> split = checkAccelerations(apart, 1e-6);
    for (int block = 0; block < apart.size(); block++) {
        const VectorXd expected = apart.gather(block, whole);
        // Positions up to 20 nm long have roundings of 1e-15 nm, 1e-14 of a bond.
        ASSERT((apart.gather(block, split) - expected).norm() <= 1e-11 * expected.norm());
    }
}

CLAIM_WITH_LANES(testMoleculesOfOneSizeMayDifferInTheirTerms) {
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
    model.positions.back() += Eigen::Vector3d(model.box.vectors[2]);
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, 1e-7);
}

/** A chain of a given length; further atoms and bonds of force constant 0 make its matrices larger. */
ModelSystem createChain(int numAtoms, int numExtra) {
    ModelSystem model(8);
    model.addTree(numAtoms);
    for (int i = 0; i < numExtra; i++)
        model.addBond(0, model.addAtom(1, model.positions[0] + model.random.vector(0.1)), 0);
    return model;
}

/** The same chain below the size from which on matrices are held sparse, and lifted above it by what does nothing. */
CLAIM_WITH_LANES(testDenseAndSparseSolversAgree) {
    const int numAtoms = (MatrixLayout::minSparseSize - 1) / 3;
    ASSERT(!MatrixLayout(3 * numAtoms, {}).isSparse() && MatrixLayout(3 * numAtoms + 6, {}).isSparse());
    Fixture<Real> dense(createChain(numAtoms, 0)), sparse(createChain(numAtoms, 2));
    dense.forEachBatch([](const auto& batch, auto&) { ASSERT(!batch.hessian); });
    sparse.forEachBatch([](const auto& batch, auto&) { ASSERT(batch.hessian); });
    Random random(8);
    for (double& f : sparse.F)
        f = random.gaussian();
    std::copy_n(sparse.F.begin(), dense.F.size(), dense.F.begin());
    const vector<double> a = dense.solve(1e-6), b = sparse.solve(1e-6);
    for (size_t i = 0; i < a.size(); i++)
        ASSERT_EQUAL_TOL(a[i], b[i], 1e-13);
}

CLAIM_WITH_LANES(testDefinitenessIsThatOfTheEigenvalues) {
    int numDefinite = 0, numIndefinite = 0;
    for (int seed = 10; seed < 20; seed++) {
        Fixture<Real> fixture(createDistorted(seed));
        for (double c : {1e-7, 1e-6, 1e-5, 1e-4}) {
            vector<double> a;
            vector<int> indefinite;
            const vector<int> failed = fixture.trySolve(c, a);
            for (int block = 0; block < fixture.size(); block++) {
                const MatrixXd matrix = fixture.matrix(block, c);
                const double least = eigenvaluesOf(matrix)[0];
                ASSERT(std::abs(least) > 1e-10 * matrix.norm()); // not lost in roundings
                if (least < 0) {
                    indefinite.push_back(block);
                    ASSERT(fixture.isUntouched(block, a));
                }
            }
            ASSERT_EQUAL_CONTAINERS(indefinite, failed);
            numIndefinite += indefinite.size();
            numDefinite += fixture.size() - indefinite.size();
        }
    }
    ASSERT(numDefinite > 100 && numIndefinite > 100);
}

/**
 * With an angle of 0.3 rad, below its minimum of 1.82, a water is curved downwards out of its plane: by
 * k (0.3 - 1.82) cot(0.3) / r^2, some -4e5 kJ/mol/nm^2, against a mass of 1. Others, in other lanes, are not disturbed.
 */
CLAIM_WITH_LANES(testWaterFarFromItsAngleIsRefused) {
    ModelSystem model(24);
    for (int i = 0; i < 8; i++)
        model.addWater();
    Fixture<Real> atRest(model);
    checkAccelerations(atRest, 1e-5);
    const vector<int> squeezed = {1, 6};
    for (int water : squeezed) {
        Eigen::Vector3d* x = &model.positions[3 * water];
        const Eigen::Vector3d first = x[1] - x[0], second = x[2] - x[0];
        x[2] = x[0] + Eigen::AngleAxisd(0.3, first.cross(second).normalized()) * first;
        model.terms[3 * water + 2].s0 = 1.82;
    }
    Fixture<Real> fixture(model);
    checkAccelerations(fixture, 1e-7);
    vector<double> a;
    ASSERT_EQUAL_CONTAINERS(squeezed, fixture.trySolve(1e-5, a));
    const vector<double> b = fixture.solve(1e-5, true);
    for (int block = 0; block < fixture.size(); block++) {
        const MatrixXd matrix = fixture.matrix(block, 1e-5);
        fixture.checkSolution(block, matrix, b);
        if (block == 1 || block == 6) {
            ASSERT(eigenvaluesOf(matrix)[0] < -0.1 && eigenvaluesOf(fixture.matrix(block, 1e-7))[0] > 0.1);
            ASSERT(fixture.isUntouched(block, a));
        }
        else
            ASSERT(fixture.gather(block, a) == fixture.gather(block, b));
    }
}

/** Where it need not be positive definite, the matrix is solved with whatever the signs of its eigenvalues. */
CLAIM_WITH_LANES(testIndefiniteMatricesAreSolved) {
    int numSeveral[2] = {0, 0}; // small, large
    for (int seed = 60; seed < 66; seed++) {
        Fixture<Real> fixture(createDistorted(seed));
        for (double c : {1e-6, 1e-5, 1e-4}) {
            vector<double> a;
            const vector<int> failed = fixture.trySolve(c, a, true);
            for (int block = 0; block < fixture.size(); block++) {
                const MatrixXd matrix = fixture.matrix(block, c);
                const VectorXd spectrum = eigenvaluesOf(matrix);
                if (spectrum.cwiseAbs().minCoeff() < 1e-5 * spectrum.cwiseAbs().maxCoeff())
                    continue; // nearly singular: see there
                ASSERT(!std::binary_search(failed.begin(), failed.end(), block));
                fixture.checkSolution(block, matrix, a);
                numSeveral[matrix.rows() >= MatrixLayout::minSparseSize] += ((spectrum.array() < 0).count() >= 3);
            }
        }
    }
    ASSERT(numSeveral[0] > 20 && numSeveral[1] > 20);
}

ModelSystem createDistortedChains(int seed, int number, int numAtoms) {
    ModelSystem model(seed);
    model.stretch = 0.05;
    model.bend = 1;
    for (int i = 0; i < number; i++)
        model.addChain(numAtoms);
    return model;
}

/** Bonds that are stiffer by orders of magnitude, such as penalties for constraints, make no matrix singular. */
CLAIM_WITH_LANES(testIndefiniteMatricesWithPenaltiesAreSolved) {
    int numIndefinite = 0;
    for (int numAtoms : {5, 20}) {
        ModelSystem model = createDistortedChains(68, 6, numAtoms);
        for (StiffCoordinate& term : model.terms)
            if (term.kind == StiffCoordinate::Kind::Distance && term.index % 2 == 0)
                term.k = 1e10;
        Fixture<Real> fixture(model);
        const double c = 1e-5;
        const vector<double> a = fixture.solve(c, true);
        for (int block = 0; block < fixture.size(); block++) {
            const MatrixXd matrix = fixture.matrix(block, c);
            numIndefinite += (eigenvaluesOf(matrix)[0] < 0);
            // An entry of 1e5 has roundings of 1e-11, against masses and soft terms of 1.
            fixture.checkSolution(block, matrix, a, 1e-8);
        }
    }
    ASSERT(numIndefinite > 6);
}

/** A matrix with an eigenvalue that vanishes has no solution that means anything; neighbours in other lanes have. */
CLAIM_WITH_LANES(testNearlySingularMatricesAreRefused) {
    for (int numAtoms : {5, 20}) {
        Fixture<Real> fixture(createDistortedChains(67, 4, numAtoms));
        for (int block = 0; block < fixture.size(); block++) {
            // M + c H1 is singular for c = -1/lambda, lambda an eigenvalue of M^-1/2 H1 M^-1/2.
            const double lambda = fixture.model.squaredFrequencies(fixture.blocks[block])[0];
            ASSERT(lambda < 0);
            vector<double> a;
            ASSERT_EQUAL_CONTAINERS(vector<int>({block}), fixture.trySolve(-1 / lambda, a, true));
            for (int other = 0; other < fixture.size(); other++)
                ASSERT_EQUAL(other == block, fixture.isUntouched(other, a));
        }
    }
}

/** What is not finite spoils the blocks of its particle; others, also in the same batch, are as they would be. */
CLAIM_WITH_LANES(testNotANumberConcernsItsOwnBlocksAlone) {
    Fixture<Real> fixture(createMolecules(21));
    const vector<double> expected[] = {fixture.solve(1e-6), fixture.solve(1e-6, true)};
    auto refuse = [&](vector<double>& values, int particle, int component, double bad, bool mayBeIndefinite) {
        const double good = std::exchange(values[3 * particle + component], bad);
        vector<double> a;
        const vector<int> failed = fixture.trySolve(1e-6, a, mayBeIndefinite);
        values[3 * particle + component] = good;
        vector<int> concerned;
        for (int block = 0; block < fixture.size(); block++) {
            const vector<int>& particles = fixture.blocks[block].particles;
            if (std::find(particles.begin(), particles.end(), particle) != particles.end()) {
                concerned.push_back(block);
                ASSERT(fixture.isUntouched(block, a));
            }
            else
                ASSERT(fixture.gather(block, a) == fixture.gather(block, expected[mayBeIndefinite]));
        }
        ASSERT_EQUAL_CONTAINERS(concerned, failed);
    };
    for (const Block& block : fixture.blocks) {
        for (int i = 0; i < (int) block.particles.size(); i++)
            for (double bad : {(double) NAN, (double) INFINITY, -(double) INFINITY}) {
                refuse(fixture.x, block.particles[i], i % 3, bad, false);
                if (i < block.numMobile)
                    refuse(fixture.F, block.particles[i], i % 3, bad, false);
            }
        refuse(fixture.x, block.particles[0], 0, NAN, true);
        refuse(fixture.F, block.particles[0], 0, NAN, true);
    }
    ASSERT(fixture.solve(1e-6) == expected[0]);
}

/** One at a time or side by side, molecules get the same accelerations and third derivatives. */
CLAIM(testLanesAgreeWithSingleBlocks) {
    for (int seed = 70; seed < 73; seed++) {
        ModelSystem model = createMolecules(seed);
        model.renumber();
        Fixture<double> one(model);
        Fixture<Lanes> eight(model);
        for (bool mayBeIndefinite : {false, true}) {
            const vector<double> a = one.solve(1e-6, mayBeIndefinite), b = eight.solve(1e-6, mayBeIndefinite);
            const vector<double> w = one.contract(a), u = eight.contract(a);
            for (int block = 0; block < one.size(); block++) {
                // The condition number is below 100, and that of angles as well.
                ASSERT((one.gather(block, a) - one.gather(block, b)).norm() <= 1e-13 * one.gather(block, a).norm());
                ASSERT((one.gather(block, w) - one.gather(block, u)).norm() <= 1e-12 * one.gather(block, w).norm());
            }
        }
    }
}

/** a . H1' . a is the change of H1 a along a. */
CLAIM_WITH_LANES(testThirdDerivativesAreThoseOfTheHessian) {
    ModelSystem model = createMolecules(74);
    Fixture<Real> fixture(model);
    vector<double> a = model.randomArray(1);
    const vector<double> w = fixture.contract(a);
    for (size_t i = 0; i < a.size(); i++)
        if (model.masses[i / 3] == 0) {
            ASSERT_EQUAL(untouched, w[i]);
            a[i] = 0; // as it should have been taken
        }
    for (int block = 0; block < fixture.size(); block++) {
        const VectorXd expected = slopeAtZero(2e-5, [&](double t) {
            vector<double> x = fixture.x;
            for (size_t i = 0; i < x.size(); i++)
                x[i] += t * a[i];
            ModelSystem moved = model;
            moved.setPositions(x);
            return VectorXd(moved.hessian(fixture.blocks[block]) * fixture.gather(block, a));
        });
        // Of fourth order at 1e-4 to 1e-3 of the bond lengths; of bent lines those of the potential are larger.
        ASSERT((fixture.gather(block, w) - expected).norm() <= 1e-6 * expected.norm());
    }
}

/** So do parameters in which molecules of one kind differ. */
CLAIM_WITH_LANES(testNewParametersTakeEffect) {
    ModelSystem model = createMolecules(47);
    model.renumber();
    Fixture<Real> fixture(model);
    const vector<double> before = checkAccelerations(fixture, 1e-6);
    for (StiffCoordinate& term : model.terms) {
        term.k *= model.random.uniform(0.5, 1);
        if (term.s0 < 3) // which leaves straight angles straight
            term.s0 += model.random.uniform(-0.001, 0.001);
    }
    ASSERT(fixture.system.takeParameters(fixture.blocks, model.getStiffTerms()));
    const vector<double> after = fixture.solve(1e-6);
    Fixture<Real> other(model);
    other.F = fixture.F;
    ASSERT(after == checkAccelerations(other, 1e-6));
    for (int block = 0; block < fixture.size(); block++)
        ASSERT(fixture.gather(block, before) != fixture.gather(block, after));
}

/** What is built otherwise has to be put into batches anew; nothing of it is taken. */
CLAIM_WITH_LANES(testOtherBuildsAreNotAdopted) {
    ModelSystem model(48);
    model.addAlike();
    Fixture<Real> fixture(model);
    const StiffTerms same = model.getStiffTerms();
    const vector<double> before = fixture.solve(1e-6);
    const vector<std::function<void(StiffTerms&, vector<Block>&)>> changes = {
            [](auto& terms, auto&) { std::swap(terms.coordinates[0].particles[0], terms.coordinates[0].particles[1]); },
            [](auto& terms, auto&) { terms.coordinates[1].periodic = true; },
            [](auto& terms, auto&) { terms.coordinates[2].use = StiffCoordinate::Use::None; },
            [](auto& terms, auto&) { terms.coordinates[2].straight = true; },
            [](auto& terms, auto&) { terms.coordinates[0].isHarmonic = false; },
            [](auto& terms, auto&) { terms.needs.hessian = false; },
            [](auto& terms, auto&) { terms.needs.thirdDerivatives = false; },
            [](auto& terms, auto&) { terms.needs.frequency = false; },
            [](auto&, auto& blocks) { blocks.pop_back(); },
            [](auto&, auto& blocks) { std::swap(blocks[0], blocks[1]); },
            [](auto&, auto& blocks) { blocks[0].terms.pop_back(); },
            [](auto& terms, auto& blocks) {
                terms.functionTerms.push_back({});
                blocks[0].otherTerms.push_back(0);
            },
    };
    for (const auto& change : changes) {
        StiffTerms terms = same;
        vector<Block> blocks = fixture.blocks;
        for (StiffCoordinate& s : terms.coordinates)
            s.k *= 2;
        change(terms, blocks);
        ASSERT(!fixture.system.takeParameters(blocks, terms));
        ASSERT(fixture.solve(1e-6) == before);
    }
    ASSERT(fixture.system.takeParameters(fixture.blocks, same));
}

CLAIM_WITH_LANES(testThreadsGiveBitwiseTheSame) {
    ModelSystem model(48);
    for (int i = 0; i < 5; i++)
        model.addMixture();
    Fixture<Real> fixture(model);
    const vector<double> a = fixture.solve(1e-6);
    for (int repeat = 0; repeat < 20; repeat++) {
        vector<double> b(a.size(), untouched);
        fixture.forEachBatchOnThreads([&](const auto& batch, auto& work) {
            solveAccelerations(batch, fixture.x.data(), fixture.F.data(), 1e-6, false, model.box, work, b.data());
        });
        ASSERT(a == b);
    }
}

CLAIM(testNoBlocksNeedNothing) {
    const BatchSystem<StiffBatch, Lanes> system({}, {}, {1.0, 2.0});
    ASSERT(system.batches.empty() && system.largeBlocks.empty());
    const StiffWorkspace<Lanes> work(system.batches, {});
    const StiffWorkspace<double> largeWork(system.largeBlocks, {});
}

/** Each block is in one lane of one batch, with others of the same build; only the last batch of these is not full. */
CLAIM_WITH_LANES(testBlocksKnowTheirParticles) {
    ModelSystem model = createMolecules(50);
    model.renumber();
    Fixture<Real> fixture(model);
    vector<int> timesFound(fixture.size());
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
                timesFound[number]++;
            else
                ASSERT_EQUAL(fixture.findBlock(batch, batch.count - 1), number);
        }
    });
    for (const auto& [pattern, number] : numNotFull)
        ASSERT(number <= 1);
    ASSERT_EQUAL_CONTAINERS(vector<int>(fixture.size(), 1), timesFound);
}

} // namespace

CHECK_CLAIMS
