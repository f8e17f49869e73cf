/**
 * The tangent space of the rows of blocks against dense matrices that automatic differentiation fills.
 */

#include "CoreTest.h"
#include "StiffFixture.h"
#include "stiffcore/methods/TangentSpace.h"

namespace {

const double roundoff = 0x1p-53;
const double regularization = rowRegularization;

template <class Real> struct Fixture : StiffFixture<Real> {
    using StiffFixture<Real>::StiffFixture;

    /** Project the velocities in one batch; those in lanes that fail are not written. */
    template <class Batch, class Workspace> auto project(const Batch& batch, Workspace& work, vector<double>& v) const {
        gather(batch, this->x.data(), work.x);
        gatherVelocities(batch, v.data(), work.v);
        const auto projected = projectOnTangentSpace(batch, this->model.box, work, work.v);
        return scatter(projected & areFinite(batch, work.v), batch, work.v, v.data());
    }
    /** Project those of all blocks; the ones for which it fails are returned. */
    vector<int> projectAll(vector<double>& v) {
        return this->findFailures([&](const auto& batch, auto& work) { return project(batch, work, v); });
    }
    vector<double> project(vector<double> v) {
        ASSERT(projectAll(v).empty());
        return v;
    }
    /** The number of independent coordinates of each block. */
    vector<int> count() {
        vector<int> counts(this->size());
        this->forEachBlock(
                [&](const auto& batch, auto& work) {
                    gather(batch, this->x.data(), work.x);
                    factorTangentSpace(batch, this->model.box, work);
                },
                [&](const auto& batch, auto& work, int lane, int block) {
                    counts[block] = countIndependent(batch, lane, work);
                });
        return counts;
    }
};

/** A chain of a given length; further atoms with bonds between them alone, in the same block, enlarge its matrix. */
ModelSystem createChain(int numAtoms, int numExtra) {
    ModelSystem model(8);
    model.addTree(numAtoms);
    for (int i = 0; i < numExtra; i++) {
        const Eigen::Vector3d x = model.somewhere();
        const int first = model.addAtom(1, x);
        model.addBond(first, model.addAtom(1, x + model.random.vector(0.1)));
    }
    return model;
}

CLAIM_WITH_LANES(testDenseAndSparseProjectionsAgree) {
    const ModelSystem small = createChain(8, 0);
    const int numExtra = MatrixLayout::minSparseSize - (int) small.terms.size();
    Fixture<Real> dense(small), sparse(createChain(8, numExtra));
    dense.forEachBatch([](const auto& batch, auto&) { ASSERT(!batch.sparse); });
    sparse.forEachBatch([](const auto& batch, auto&) { ASSERT(batch.sparse); });
    Random random(9);
    vector<double> v(dense.x.size()), w;
    for (double& component : v)
        component = random.gaussian();
    w = v;
    w.resize(sparse.x.size(), 1.0); // in which nothing stretches
    const vector<double> projected = dense.project(v), others = sparse.project(w);
    for (size_t i = 0; i < w.size(); i++)
        ASSERT_EQUAL_TOL(i < v.size() ? projected[i] : 1.0, others[i], 1e-10);
    ASSERT_EQUAL(dense.count()[0] + numExtra, sparse.count()[0]);
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
        const SingularValues singular(jacobian);
        for (int i = 0; i < singular.values.size(); i++) {
            const double eigenvalue = singular.values[i] * singular.values[i];
            ASSERT(eigenvalue > 1e-5 || eigenvalue < 1e-20); // dependent or not: nothing in between
            if (eigenvalue > 1e-5) {
                rank++;
                least = eigenvalue;
            }
        }
        const MatrixXd rows = singular.V.leftCols(rank);
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

/**
 * Projected velocities leave the coordinates as they are; they are those that the pseudo-inverse gives, and the closest
 * such ones in the metric of the masses. Coordinates are counted by the rank of the Jacobian.
 */
template <class Real> void checkProjection(ModelSystem model) {
    Fixture<Real> fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v), twice = fixture.project(projected);
    const vector<int> counts = fixture.count();
    for (int number = 0; number < fixture.size(); number++) {
        const Block& block = fixture.blocks[number];
        const DenseProjection dense(model, block);
        ASSERT_EQUAL(dense.rank, counts[number]);
        const VectorXd masses = model.massDiagonal(block), before = ModelSystem::gather(block, v),
                       after = ModelSystem::gather(block, projected), again = ModelSystem::gather(block, twice);
        const double size = massNorm(masses, before), tolerance = dense.tolerance() * size;
        // In the direction of an eigenvector of J J^T with the eigenvalue e, sqrt(e) r / (e + r) of the velocity is
        // left in J v, r the regularization: at most r / sqrt(least).
        const VectorXd rates = dense.jacobian * masses.cwiseSqrt().cwiseProduct(after);
        ASSERT(rates.norm() <= (regularization / std::sqrt(dense.least) + 1e-12) * size);
        ASSERT(massNorm(masses, after - dense.projector * before) <= tolerance);
        ASSERT(massNorm(masses, again - after) <= tolerance);
        ASSERT(std::abs((before - after).dot(masses.cwiseProduct(after))) <= tolerance * size);
        ASSERT(massNorm(masses, after) <= size);
    }
    for (size_t i = 0; i < v.size(); i++)
        ASSERT(model.masses[i / 3] > 0 || projected[i] == v[i]);
}

CLAIM_WITH_LANES(testProjectionIsTheOrthogonalOne) {
    for (int seed = 30; seed < 44; seed++)
        checkProjection<Real>(ModelSystem::makeMixture(seed));
}

CLAIM_WITH_LANES(testTermsOfForceConstantZeroDoNotCount) {
    ModelSystem model = ModelSystem::makeMixture(46);
    for (StiffCoordinate& term : model.terms)
        if (model.random.integer(3) == 0)
            term.k = 0;
    checkProjection<Real>(model);
}

CLAIM_WITH_LANES(testProjectionConservesMomentum) {
    // Coordinates do not change when a molecule moves or turns as a whole, so that the projection removes nothing
    // of that, whatever the regularization.
    ModelSystem model(40);
    model.addMixture();
    Fixture<Real> fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v);
    int numFree = 0;
    for (const Block& block : fixture.blocks) {
        if (block.numMobile < (int) block.particles.size())
            continue; // anchors exchange momentum
        numFree++;
        Eigen::Vector3d momentum = Eigen::Vector3d::Zero(), angularMomentum = momentum;
        double scale = 0;
        for (int i : block.particles) {
            const Eigen::Vector3d change = Eigen::Vector3d(&projected[3 * i]) - Eigen::Vector3d(&v[3 * i]);
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

CLAIM_WITH_LANES(testRedundantCoordinatesAreCountedOnce) {
    ModelSystem model(45);
    model.addWater();
    model.addTetrahedron();
    model.addRing(5);
    model.addLine();
    const int first = model.terms.size();
    model.addTree(4);
    StiffCoordinate again = model.terms[first];
    again.index = model.terms.size();
    model.terms.push_back(again);
    const vector<int> counts = Fixture<Real>(model).count();
    ASSERT_EQUAL(3, counts[0]);
    ASSERT_EQUAL(4 + 5, counts[1]);
    ASSERT_EQUAL(3 * 5 - 6, counts[2]); // of 5 bonds and 5 angles
    ASSERT_EQUAL(3, counts[3]);
    ASSERT_EQUAL((int) model.terms.size() - 1 - first, counts[4]);
}

/** What has no gradient, or acts on fixed particles alone, is a row that does nothing. */
CLAIM_WITH_LANES(testRowsThatMoveNothingDoNothing) {
    ModelSystem model(51), bare(51);
    for (ModelSystem* each : {&model, &bare})
        for (int i = 0; i < 5; i++)
            each->addChain(4, 0);
    bare.terms[1].k = 0;
    model.terms[1].k = 0;
    for (int i = 0; i < 5; i++) {
        // Each time a bond whose ends meet and one between anchors, among the terms of a molecule.
        const int atom = model.getBlocks()[i].particles[0], anchor = model.getBlocks()[i].particles[3];
        model.addBond(atom, model.addAtom(0, model.positions[atom]));
        model.addBond(atom, model.addAtom(0, model.positions[anchor]));
        model.terms.back().k = 0;
    }
    stiffcore::StiffTerms terms = model.getStiffTerms();
    for (size_t t = bare.terms.size() + 1; t < terms.coordinates.size(); t += 2) {
        // With both of its ends fixed it is a row all the same.
        terms.coordinates[t].particles[0] = terms.coordinates[t - 1].particles[1];
        terms.coordinates[t].use = StiffCoordinate::Use::Coordinate;
    }
    Fixture<Real> with(model, terms), without(bare);
    vector<double> v = bare.randomArray(1), w = v;
    w.resize(with.x.size(), 0.0);
    const vector<double> projected = without.project(v), same = with.project(w);
    for (size_t i = 0; i < v.size(); i++)
        ASSERT_EQUAL_TOL(projected[i], same[i], 1e-12);
    ASSERT_EQUAL_CONTAINERS(without.count(), with.count());
}

/** One at a time or side by side, molecules get the same velocities. */
CLAIM(testLanesAgreeWithSingleBlocks) {
    for (int seed = 52; seed < 55; seed++) {
        ModelSystem model = ModelSystem::makeMixture(seed);
        Fixture<double> one(model);
        Fixture<Lanes> four(model);
        const vector<double> v = model.randomArray(1), projected = one.project(v), same = four.project(v);
        for (const Block& block : one.blocks) {
            const VectorXd masses = model.massDiagonal(block);
            ASSERT(massNorm(masses, ModelSystem::gather(block, projected) - ModelSystem::gather(block, same)) <=
                   1e3 * roundoff / DenseProjection(model, block).least *
                           massNorm(masses, ModelSystem::gather(block, v)));
        }
        ASSERT_EQUAL_CONTAINERS(one.count(), four.count());
    }
}

/** What is not finite is not written; others, also in the same batch, are as they would be without it. */
CLAIM_WITH_LANES(testAFailureConcernsItsOwnBlockAlone) {
    ModelSystem model = ModelSystem::makeMixture(55);
    Fixture<Real> fixture(model);
    const vector<double> v = model.randomArray(1), expected = fixture.project(v), good = fixture.x;
    for (int bad = 0; bad < fixture.size(); bad++) {
        const int component = 3 * fixture.blocks[bad].particles[0];
        for (bool inVelocities : {false, true}) {
            vector<double> found = v;
            (inVelocities ? found : fixture.x)[component] = NAN;
            ASSERT_EQUAL_CONTAINERS(vector<int>({bad}), fixture.projectAll(found));
            found[component] = v[component];
            for (int block = 0; block < fixture.size(); block++)
                ASSERT(ModelSystem::gather(fixture.blocks[block], found) ==
                       ModelSystem::gather(fixture.blocks[block], block == bad ? v : expected));
            fixture.x = good;
        }
    }
}

CLAIM_WITH_LANES(testThreadsGiveBitwiseTheSame) {
    ModelSystem model(48);
    for (int i = 0; i < 5; i++)
        model.addMixture();
    Fixture<Real> fixture(model);
    const vector<double> v = model.randomArray(1), projected = fixture.project(v);
    for (int repeat = 0; repeat < 20; repeat++) {
        vector<double> w = v;
        fixture.forEachBatchOnThreads([&](const auto& batch, auto& work) { fixture.project(batch, work, w); });
        ASSERT(projected == w);
    }
}

} // namespace

CHECK_CLAIMS
