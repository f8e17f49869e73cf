/**
 * The solvers for whole blocks against dense matrices that automatic differentiation fills.
 */

#include "Claims.h"
#include "CountAllocations.h"
#include "ModelSystem.h"
#include "stiffcore/blocks/ImplicitSolve.h"
#include "stiffcore/blocks/TangentSpace.h"
#include <thread>

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;
using Solver = BlockSystem<double>;

const double roundoff = 0x1p-53;
const double untouched = -12345.678;
const double regularization = tangentRegularization;

/** A ModelSystem and the BlockSystem of it. */
struct Fixture {
    const ModelSystem& model;
    vector<Block> blocks;
    Solver solver;
    Workspace<double> work;
    vector<double> x;

    explicit Fixture(const ModelSystem& model)
            : model(model), blocks(model.getBlocks()), solver(blocks, model.getStiffTerms(), model.masses),
              work(solver.createWorkspace()), x(model.getPositions()) {
    }
    int size() const {
        return blocks.size();
    }
    bool solve(int block, const vector<double>& F, double c, vector<double>& a) {
        return solveAccelerations(solver[block], x.data(), F.data(), c, false, model.box, work, a.data());
    }
    vector<double> project(vector<double> v) {
        for (int block = 0; block < size(); block++)
            projectOnTangentSpace(solver[block], x.data(), model.box, work, v.data());
        return v;
    }
    int count(int block) {
        return countCoordinates(solver[block], x.data(), model.box, work);
    }
    /** M + c H1 of a block. */
    MatrixXd matrix(int block, double c) const {
        MatrixXd result = c * model.hessian(blocks[block]);
        result.diagonal() += model.massDiagonal(blocks[block]);
        return result;
    }
};

double leastEigenvalue(const MatrixXd& matrix) {
    return Eigen::SelfAdjointEigenSolver<MatrixXd>(matrix, Eigen::EigenvaluesOnly).eigenvalues()[0];
}

/** Check the accelerations of all blocks; they must be positive definite. */
void checkAccelerations(Fixture& fixture, const vector<double>& F, double c) {
    vector<double> a(F.size(), untouched);
    for (int block = 0; block < fixture.size(); block++) {
        ASSERT(fixture.solve(block, F, c, a));
        // The condition number is that of the masses times 1 + c k/m, at most 1e5 here, and errors are 1e-16 times
        // that.
        const VectorXd forces = ModelSystem::gather(fixture.blocks[block], F);
        const VectorXd expected = fixture.matrix(block, c).ldlt().solve(forces);
        const VectorXd found = ModelSystem::gather(fixture.blocks[block], a);
        ASSERT((found - expected).norm() <= 1e-10 * expected.norm());
    }
    for (size_t i = 0; i < fixture.model.masses.size(); i++)
        if (fixture.model.masses[i] == 0)
            ASSERT(a[3 * i] == untouched && a[3 * i + 1] == untouched && a[3 * i + 2] == untouched);
}

void testAccelerationsSolveTheImplicitEquation() {
    for (int seed = 1; seed <= 4; seed++) {
        ModelSystem model(seed);
        model.addMixture();
        if (seed > 1)
            model.renumber();
        Fixture fixture(model);
        for (double c : {0.0, 1e-7, 1e-6, 4e-6})
            checkAccelerations(fixture, model.randomArray(1000), c);
    }
}

void testAccelerationsOfVeryStiffTermsAreAccurate() {
    // At their minimum terms have positive semi-definite Hessians, and c may be as large as one likes.
    ModelSystem model(5);
    model.stretch = model.bend = 0;
    model.addMixture();
    for (StiffTerm& term : model.terms)
        if (term.coordinate == StiffTerm::Coordinate::Angle && term.s0 == 3)
            term.k = 0; // the one that is not at its minimum
    Fixture fixture(model);
    checkAccelerations(fixture, model.randomArray(1000), 1e-4);
}

void testTermsReachAcrossThePeriodicBox() {
    ModelSystem model(6);
    model.box = model.random.box();
    model.periodic = true;
    model.addMixture();
    model.renumber();
    const vector<double> F = model.randomArray(1000);
    vector<double> whole(F.size()), split(F.size());
    Fixture together(model);
    checkAccelerations(together, F, 1e-6);
    for (int block = 0; block < together.size(); block++)
        ASSERT(together.solve(block, F, 1e-6, whole));

    for (Eigen::Vector3d& position : model.positions)
        for (const auto& vector : model.box.vectors)
            position += (model.random.integer(5) - 2.0) * Eigen::Vector3d(vector[0], vector[1], vector[2]);
    Fixture apart(model);
    checkAccelerations(apart, F, 1e-6);
    for (int block = 0; block < apart.size(); block++) {
        ASSERT(apart.solve(block, F, 1e-6, split));
        const VectorXd expected = ModelSystem::gather(apart.blocks[block], whole);
        // Positions up to 20 nm long have roundings of 1e-15 nm, 1e-14 of a bond.
        ASSERT((ModelSystem::gather(apart.blocks[block], split) - expected).norm() <= 1e-11 * expected.norm());
        ASSERT_EQUAL(together.count(block), apart.count(block));
    }
}

void testMoleculesOfOneKindMayDifferInMassesAndParameters() {
    ModelSystem model(7);
    for (int i = 0; i < 5; i++)
        model.addWater(1 + i);
    for (int i = 0; i < 2; i++)
        model.addRing(20);
    for (StiffTerm& term : model.terms)
        term.k *= model.random.uniform(0.5, 2);
    Fixture fixture(model);
    checkAccelerations(fixture, model.randomArray(1000), 1e-6);
}

void testMoleculesOfOneSizeMayDifferInTheirTerms() {
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
    Fixture fixture(model);
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

void testDenseAndSparseSolversAgree() {
    // The same chain below the size from which on matrices are held sparse, and lifted above it by what does
    // nothing.
    const int numAtoms = (MatrixLayout::minSparseSize - 1) / 3;
    const ModelSystem small = createChain(numAtoms, 0), large = createChain(numAtoms, 2);
    ASSERT(!MatrixLayout(3 * numAtoms, {}).isSparse() && MatrixLayout(3 * numAtoms + 6, {}).isSparse());
    Fixture dense(small), sparse(large);
    Random random(8);
    vector<double> F(sparse.x.size());
    for (double& f : F)
        f = random.gaussian();
    vector<double> a(dense.x.size()), b(sparse.x.size());
    ASSERT(dense.solve(0, F, 1e-6, a) && sparse.solve(0, F, 1e-6, b));
    for (size_t i = 0; i < a.size(); i++)
        ASSERT_EQUAL_TOL(a[i], b[i], 1e-13);
}

void testDenseAndSparseProjectionsAgree() {
    const int numAtoms = 8;
    const ModelSystem small = createChain(numAtoms, 0);
    const int numTerms = small.terms.size();
    ASSERT(numTerms < MatrixLayout::minSparseSize);
    const ModelSystem large = createChain(numAtoms, MatrixLayout::minSparseSize - numTerms);
    Fixture dense(small), sparse(large);
    Random random(9);
    vector<double> v(dense.x.size()), w;
    for (double& component : v)
        component = random.gaussian();
    w = v;
    w.resize(sparse.x.size(), 1.0);
    const vector<double> projected = dense.project(v), others = sparse.project(w);
    for (size_t i = 0; i < w.size(); i++)
        ASSERT_EQUAL_TOL(i < v.size() ? projected[i] : 1.0, others[i], 1e-10);
    ASSERT_EQUAL(dense.count(0), sparse.count(0));
}

void testDefinitenessIsThatOfTheEigenvalues() {
    // Distorted molecules, from harmless to hopeless: indefinite for a large enough c.
    int numDefinite = 0, numIndefinite = 0;
    for (int seed = 10; seed < 20; seed++) {
        ModelSystem model(seed);
        model.stretch = 0.05;
        model.bend = 1;
        model.addMixture();
        Fixture fixture(model);
        const vector<double> F = model.randomArray(1000);
        for (int block = 0; block < fixture.size(); block++)
            for (double c : {1e-7, 1e-6, 1e-5, 1e-4}) {
                const MatrixXd matrix = fixture.matrix(block, c);
                const double least = leastEigenvalue(matrix);
                ASSERT(std::abs(least) > 1e-10 * matrix.norm()); // not lost in roundings
                vector<double> a(F.size(), untouched);
                ASSERT_EQUAL(least > 0, fixture.solve(block, F, c, a));
                (least > 0 ? numDefinite : numIndefinite)++;
                if (least < 0)
                    ASSERT(a == vector<double>(F.size(), untouched));
            }
    }
    ASSERT(numDefinite > 100 && numIndefinite > 100);
}

void testWaterFarFromItsAngleIsRefused() {
    // Squeezed to 0.3 rad, water's angle pushes outwards and its out-of-plane curvature is negative: a curvature
    // of k (0.3 - 1.82) cot(0.3) / r^2, some -4e5 kJ/mol/nm^2, against a mass of 1.
    ModelSystem model(20);
    model.addWater();
    const Eigen::Vector3d o = model.positions[0], first = model.positions[1] - o, second = model.positions[2] - o;
    model.positions[2] = o + Eigen::AngleAxisd(0.3, first.cross(second).normalized()) * first;
    model.terms[2].s0 = 1.82;
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> a(9, untouched);
    ASSERT(leastEigenvalue(fixture.matrix(0, 1e-7)) > 0.1);
    ASSERT(leastEigenvalue(fixture.matrix(0, 1e-5)) < -0.1);
    ASSERT(!fixture.solve(0, F, 1e-5, a));
    ASSERT(a == vector<double>(9, untouched));
    ASSERT(fixture.solve(0, F, 1e-7, a));
}

void testNotANumberIsRefused() {
    ModelSystem model(21);
    model.addMixture();
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000), x = fixture.x, nothing(F.size(), untouched);
    for (int block = 0; block < fixture.size(); block++) {
        const Block& b = fixture.blocks[block];
        for (double bad : {(double) NAN, (double) INFINITY, -(double) INFINITY}) {
            for (size_t i = 0; i < b.particles.size(); i++) {
                const int component = 3 * b.particles[i] + i % 3;
                vector<double> a = nothing;
                fixture.x[component] = bad;
                ASSERT(!fixture.solve(block, F, 1e-6, a) && a == nothing);
                fixture.x = x;
                if ((int) i >= b.numMobile)
                    continue;
                vector<double> badForces = F;
                badForces[component] = bad;
                ASSERT(!fixture.solve(block, badForces, 1e-6, a) && a == nothing);
            }
        }
        // What has failed leaves no trace.
        vector<double> a = nothing;
        ASSERT(fixture.solve(block, F, 1e-6, a) && a != nothing);
    }
}

void testAFailureConcernsItsOwnBlockAlone() {
    ModelSystem model(22);
    model.addMixture();
    Fixture fixture(model);
    vector<double> F = model.randomArray(1000), expected(F.size(), untouched), found = expected;
    for (int block = 0; block < fixture.size(); block++)
        ASSERT(fixture.solve(block, F, 1e-6, expected));
    for (int bad = 0; bad < fixture.size(); bad += 3) {
        const int particle = fixture.blocks[bad].particles[0];
        const vector<double> before = F;
        F[3 * particle] = NAN;
        for (int block = 0; block < fixture.size(); block++)
            ASSERT_EQUAL(block != bad, fixture.solve(block, F, 1e-6, found));
        F = before;
    }
    ASSERT(fixture.solve(0, F, 1e-6, found));
    for (int block = 1; block < fixture.size(); block++)
        if (block % 3 != 0)
            ASSERT(ModelSystem::gather(fixture.blocks[block], found) ==
                   ModelSystem::gather(fixture.blocks[block], expected));
}

/**
 * The projection by singular values: with J = G M^(-1/2), rows scaled to length 1, M^(1/2) v loses its part in the
 * row space of J.
 */
struct DenseProjection {
    int rank = 0;
    /// The least of the nonzero eigenvalues of J J^T.
    double least = 1;
    MatrixXd jacobian, projector;

    DenseProjection(const ModelSystem& model, const Block& block) {
        const VectorXd root = model.massDiagonal(block).cwiseSqrt();
        jacobian = model.jacobian(block) * root.cwiseInverse().asDiagonal();
        for (int p = 0; p < jacobian.rows(); p++)
            if (model.terms[block.terms[p]].k == 0)
                jacobian.row(p).setZero();
            else
                jacobian.row(p).normalize();
        const Eigen::BDCSVD<MatrixXd> svd(jacobian, Eigen::ComputeThinU | Eigen::ComputeThinV);
        for (int i = 0; i < svd.singularValues().size(); i++) {
            const double eigenvalue = svd.singularValues()[i] * svd.singularValues()[i];
            ASSERT(eigenvalue > 1e-5 || eigenvalue < 1e-20); // dependent or not: nothing in between
            if (eigenvalue > 1e-5) {
                rank++;
                least = eigenvalue;
            }
        }
        const MatrixXd rows = svd.matrixV().leftCols(rank);
        const int n = root.size();
        projector = root.cwiseInverse().asDiagonal() * (MatrixXd::Identity(n, n) - rows * rows.transpose()) *
                    root.asDiagonal();
    }
    /**
     * The regularization r leaves r / (r + least) of a normal velocity at most; roundings are amplified by the
     * condition of the matrix.
     */
    double tolerance() const {
        return regularization / least + 1e3 * roundoff / least;
    }
};

double massNorm(const VectorXd& masses, const VectorXd& v) {
    return std::sqrt(v.dot(masses.cwiseProduct(v)));
}

/** Molecules with their velocities, projected. */
template <class Check> void checkProjections(ModelSystem& model, Check&& check) {
    Fixture fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v), twice = fixture.project(projected);
    for (const Block& block : fixture.blocks)
        check(block, DenseProjection(model, block), ModelSystem::gather(block, v),
              ModelSystem::gather(block, projected), ModelSystem::gather(block, twice));
    for (size_t i = 0; i < model.masses.size(); i++)
        if (model.masses[i] == 0)
            for (int j = 0; j < 3; j++)
                ASSERT_EQUAL(v[3 * i + j], projected[3 * i + j]);
}

ModelSystem createMixture(int seed) {
    ModelSystem model(seed);
    if (seed % 2 == 0) {
        model.box = model.random.box();
        model.periodic = true;
    }
    model.addMixture();
    model.renumber();
    return model;
}

void testProjectedVelocitiesLeaveTheCoordinatesAsTheyAre() {
    // In the direction of an eigenvector of J J^T with the eigenvalue e, sqrt(e) r / (e + r) of the velocity is
    // left in J v, r the regularization: at most r / sqrt(least).
    for (int seed = 30; seed < 34; seed++) {
        ModelSystem model = createMixture(seed);
        checkProjections(model, [&](const Block& block, const DenseProjection& dense, const VectorXd& v,
                                    const VectorXd& projected, const VectorXd&) {
            const VectorXd masses = model.massDiagonal(block);
            const VectorXd rates = dense.jacobian * masses.cwiseSqrt().cwiseProduct(projected);
            ASSERT(rates.norm() <= (regularization / std::sqrt(dense.least) + 1e-12) * massNorm(masses, v));
        });
    }
}

void testProjectionAgreesWithThePseudoInverse() {
    for (int seed = 34; seed < 38; seed++) {
        ModelSystem model = createMixture(seed);
        checkProjections(model, [&](const Block& block, const DenseProjection& dense, const VectorXd& v,
                                    const VectorXd& projected, const VectorXd&) {
            const VectorXd masses = model.massDiagonal(block);
            ASSERT(massNorm(masses, projected - dense.projector * v) <= dense.tolerance() * massNorm(masses, v));
        });
    }
}

void testProjectionIsIdempotentAndOrthogonal() {
    for (int seed = 38; seed < 40; seed++) {
        ModelSystem model = createMixture(seed);
        checkProjections(model, [&](const Block& block, const DenseProjection& dense, const VectorXd& v,
                                    const VectorXd& projected, const VectorXd& twice) {
            const VectorXd masses = model.massDiagonal(block);
            const double size = massNorm(masses, v);
            ASSERT(massNorm(masses, twice - projected) <= dense.tolerance() * size);
            ASSERT(std::abs((v - projected).dot(masses.cwiseProduct(projected))) <= dense.tolerance() * size * size);
            ASSERT(massNorm(masses, projected) <= size);
        });
    }
}

void testProjectionConservesMomentum() {
    // Coordinates do not change when a molecule moves or turns as a whole, so that the projection removes nothing
    // of that, whatever the regularization.
    ModelSystem model(40);
    model.addMixture();
    Fixture fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v);
    int numFree = 0;
    for (const Block& block : fixture.blocks) {
        if (block.numMobile < (int) block.particles.size())
            continue; // anchors exchange momentum
        numFree++;
        Eigen::Vector3d momentum = Eigen::Vector3d::Zero(), angularMomentum = momentum;
        double scale = 0;
        for (int i : block.particles) {
            const Eigen::Vector3d change(projected[3 * i] - v[3 * i], projected[3 * i + 1] - v[3 * i + 1],
                                         projected[3 * i + 2] - v[3 * i + 2]);
            momentum += model.masses[i] * change;
            angularMomentum += model.masses[i] * model.positions[i].cross(change);
            scale += model.masses[i];
        }
        // Forces between atoms sum to zero but for roundings, amplified by the solve.
        ASSERT(momentum.norm() <= 1e-13 * scale);
        ASSERT(angularMomentum.norm() <= 1e-12 * scale);
    }
    ASSERT_EQUAL(12, numFree);
}

void testCountIsTheRankOfTheJacobian() {
    for (int seed = 41; seed < 45; seed++) {
        const ModelSystem model = createMixture(seed);
        Fixture fixture(model);
        for (int block = 0; block < fixture.size(); block++) {
            const DenseProjection dense(model, fixture.blocks[block]);
            ASSERT_EQUAL(dense.rank, fixture.count(block));
        }
    }
}

void testRedundantCoordinatesAreCountedOnce() {
    ModelSystem model(45);
    model.addWater();
    model.addTetrahedron();
    model.addRing(5);
    model.addLine();
    const int first = model.terms.size();
    model.addTree(4);
    const StiffTerm again = model.terms[first];
    model.terms.push_back(again);
    Fixture fixture(model);
    ASSERT_EQUAL(3, fixture.count(0));
    ASSERT_EQUAL(4 + 5, fixture.count(1));
    ASSERT_EQUAL(3 * 5 - 6, fixture.count(2)); // of 5 bonds and 5 angles
    ASSERT_EQUAL(3, fixture.count(3));
    ASSERT_EQUAL((int) model.terms.size() - 1 - first, fixture.count(4));
}

void testTermsOfForceConstantZeroDoNotCount() {
    ModelSystem model = createMixture(46);
    for (StiffTerm& term : model.terms)
        if (model.random.integer(3) == 0)
            term.k = 0;
    Fixture fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v);
    const vector<double> F = model.randomArray(1000);
    checkAccelerations(fixture, F, 1e-6);
    for (int block = 0; block < fixture.size(); block++) {
        const DenseProjection dense(model, fixture.blocks[block]);
        ASSERT_EQUAL(dense.rank, fixture.count(block));
        const VectorXd masses = model.massDiagonal(fixture.blocks[block]);
        const VectorXd w = ModelSystem::gather(fixture.blocks[block], v);
        ASSERT(massNorm(masses, ModelSystem::gather(fixture.blocks[block], projected) - dense.projector * w) <=
               dense.tolerance() * massNorm(masses, w));
    }
}

void testNewParametersTakeEffect() {
    ModelSystem model = createMixture(47);
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000);
    checkAccelerations(fixture, F, 1e-6);
    vector<double> before(F.size()), after(F.size());
    for (int block = 0; block < fixture.size(); block++)
        ASSERT(fixture.solve(block, F, 1e-6, before));
    for (StiffTerm& term : model.terms) {
        term.k *= model.random.uniform(0.5, 1);
        term.s0 += model.random.uniform(-0.001, 0.001);
    }
    fixture.solver.setParameters(model.getStiffTerms());
    checkAccelerations(fixture, F, 1e-6);
    for (int block = 0; block < fixture.size(); block++) {
        ASSERT(fixture.solve(block, F, 1e-6, after));
        const Block& b = fixture.blocks[block];
        ASSERT(ModelSystem::gather(b, before) != ModelSystem::gather(b, after));
    }
}

void testThreadsGiveBitwiseTheSame() {
    ModelSystem model(48);
    for (int i = 0; i < 5; i++)
        model.addMixture();
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000), v = model.randomArray(1);
    vector<double> a(F.size(), untouched), projected = v;
    for (int block = 0; block < fixture.size(); block++) {
        ASSERT(fixture.solve(block, F, 1e-6, a));
        projectOnTangentSpace(fixture.solver[block], fixture.x.data(), model.box, fixture.work, projected.data());
    }
    const int numThreads = 2;
    vector<Workspace<double>> works(numThreads, fixture.solver.createWorkspace());
    for (int repeat = 0; repeat < 20; repeat++) {
        vector<double> b(F.size(), untouched), w = v;
        auto work = [&](int thread) {
            for (int block = thread; block < fixture.size(); block += numThreads) {
                solveAccelerations(fixture.solver[block], fixture.x.data(), F.data(), 1e-6, false, model.box,
                                   works[thread], b.data());
                projectOnTangentSpace(fixture.solver[block], fixture.x.data(), model.box, works[thread], w.data());
            }
        };
        vector<std::thread> threads;
        for (int thread = 0; thread < numThreads; thread++)
            threads.emplace_back(work, thread);
        for (std::thread& thread : threads)
            thread.join();
        ASSERT(a == b && projected == w);
    }
}

void testNoMemoryIsAllocated() {
    if (!canCountAllocations)
        return;
    ModelSystem model = createMixture(49);
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> a(F.size()), v = F;
    ASSERT(isCountRight());
    ASSERT_EQUAL(0, countAllocations([&] {
                     for (int block = 0; block < fixture.size(); block++) {
                         fixture.solve(block, F, 1e-6, a);
                         fixture.count(block);
                         projectOnTangentSpace(fixture.solver[block], fixture.x.data(), model.box, fixture.work,
                                               v.data());
                     }
                 }));
}

void testNoBlocksNeedNothing() {
    const Solver solver({}, {}, {1.0, 2.0});
    ASSERT_EQUAL(0, solver.getNumBlocks());
    solver.createWorkspace();
}

void testBlocksKnowTheirParticles() {
    ModelSystem model = createMixture(50);
    Fixture fixture(model);
    ASSERT_EQUAL((int) fixture.blocks.size(), fixture.solver.getNumBlocks());
    for (int block = 0; block < fixture.size(); block++) {
        ASSERT_EQUAL_CONTAINERS(fixture.blocks[block].particles, fixture.solver[block].particles);
        ASSERT_EQUAL(fixture.blocks[block].numMobile, fixture.solver[block].getNumMobile());
    }
}

int main() {
    return checkClaims({
            CLAIM(testAccelerationsSolveTheImplicitEquation),
            CLAIM(testAccelerationsOfVeryStiffTermsAreAccurate),
            CLAIM(testTermsReachAcrossThePeriodicBox),
            CLAIM(testMoleculesOfOneKindMayDifferInMassesAndParameters),
            CLAIM(testMoleculesOfOneSizeMayDifferInTheirTerms),
            CLAIM(testDenseAndSparseSolversAgree),
            CLAIM(testDenseAndSparseProjectionsAgree),
            CLAIM(testDefinitenessIsThatOfTheEigenvalues),
            CLAIM(testWaterFarFromItsAngleIsRefused),
            CLAIM(testNotANumberIsRefused),
            CLAIM(testAFailureConcernsItsOwnBlockAlone),
            CLAIM(testProjectedVelocitiesLeaveTheCoordinatesAsTheyAre),
            CLAIM(testProjectionAgreesWithThePseudoInverse),
            CLAIM(testProjectionIsIdempotentAndOrthogonal),
            CLAIM(testProjectionConservesMomentum),
            CLAIM(testCountIsTheRankOfTheJacobian),
            CLAIM(testRedundantCoordinatesAreCountedOnce),
            CLAIM(testTermsOfForceConstantZeroDoNotCount),
            CLAIM(testNewParametersTakeEffect),
            CLAIM(testThreadsGiveBitwiseTheSame),
            CLAIM(testNoMemoryIsAllocated),
            CLAIM(testNoBlocksNeedNothing),
            CLAIM(testBlocksKnowTheirParticles),
    });
}
