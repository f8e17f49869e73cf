/**
 * The nearest point of the manifold of equilibrium values, and the pull-back of forces from there.
 */

#include "CoreTest.h"
#include "StiffFixture.h"
#include "stiffcore/methods/Manifold.h"

namespace {

const double untouched = -12345.678;

template <class Real> struct Fixture : StiffFixture<Real> {
    const vector<double>& q;

    explicit Fixture(const ModelSystem& model) : StiffFixture<Real>(model, true), q(this->x) {
    }
    /** A(q); the blocks for which it is not found are returned. */
    vector<int> findNearest(const vector<double>& q, vector<double>& A) {
        return this->findFailures([&](const auto& batch, auto& work) {
            return findNearestPoint(batch, q.data(), this->model.box, work, A.data());
        });
    }
    vector<double> nearest(const vector<double>& q) {
        vector<double> A = q;
        ASSERT(findNearest(q, A).empty());
        return A;
    }
    vector<int> tryPull(const vector<double>& A, const vector<double>& F, vector<double>& a) {
        return this->findFailures([&](const auto& batch, auto& work) {
            return pullBack(batch, q.data(), A.data(), F.data(), this->model.box, work, a.data());
        });
    }
    /** The pull-back of forces F that are not those of the terms. */
    vector<double> pull(const vector<double>& A, vector<double> F) {
        vector<double> a(F.size(), untouched);
        ModelSystem moved = this->model;
        moved.setPositions(A);
        for (const Block& block : this->blocks) {
            const VectorXd gradient = moved.gradient(block);
            for (int i = 0; i < block.numMobile; i++)
                for (int j = 0; j < 3; j++)
                    F[3 * block.particles[i] + j] -= gradient[3 * i + j];
        }
        ASSERT(tryPull(A, F, a).empty());
        return a;
    }
    /** M^-1 F, projected on the tangent space at q. */
    vector<double> project(const vector<double>& F) {
        vector<double> v(F.size());
        for (size_t i = 0; i < F.size(); i++)
            v[i] = this->model.masses[i / 3] > 0 ? F[i] / this->model.masses[i / 3] : 0;
        ASSERT(this->findFailures([&](const auto& batch, auto& work) {
                       gather(batch, q.data(), work.x);
                       gatherVelocities(batch, v.data(), work.v);
                       return scatter(projectOnTangentSpace(batch, this->model.box, work, work.v), batch, work.v,
                                      v.data());
                   }).empty());
        return v;
    }
};

/** Molecules whose coordinates are independent, dense and sparse, away from their equilibrium values. */
ModelSystem createMolecules(int seed, double bend = 0.1) {
    ModelSystem model(seed);
    model.bend = bend;
    if (seed % 2 == 0) {
        model.box = model.random.box();
        model.periodic = true;
    }
    model.addWater();
    model.addChain(6);
    model.addWater(3.024);
    model.addChain(4, 0.0);
    model.addChain(30);
    for (int i = 0; i < 4; i++) {
        model.addWater();
        model.addChain(6);
        model.addChain(4, 0.0);
    }
    model.renumber();
    return model;
}

/** s(A) = s0, and M (A - q) is a combination of the gradients at A. */
CLAIM_WITH_LANES(testNearestPointSolvesItsEquations) {
    for (int seed = 1; seed <= 4; seed++) {
        const ModelSystem model = createMolecules(seed);
        Fixture<Real> fixture(model);
        const vector<double> A = fixture.nearest(fixture.q);
        ModelSystem moved = model;
        moved.setPositions(A);
        for (const Block& block : fixture.blocks) {
            ASSERT(model.deviations(block).cwiseAbs().maxCoeff() > 1e-3);
            ASSERT(moved.deviations(block).cwiseAbs().maxCoeff() < 1e-8); // what the regularization leaves
            const VectorXd step = ModelSystem::gather(block, A) - ModelSystem::gather(block, fixture.q);
            const VectorXd force = model.massDiagonal(block).cwiseProduct(step);
            const MatrixXd transposed = moved.jacobian(block).transpose();
            const VectorXd multipliers = leastSquares(transposed, force);
            ASSERT((transposed * multipliers - force).norm() < 1e-9 * force.norm());
        }
        for (size_t i = 0; i < model.masses.size(); i++)
            if (model.masses[i] == 0) {
                ASSERT(A[3 * i] == fixture.q[3 * i]);
            }
    }
}

/** F . dA = a . M dq for any displacement dq, dA by differences of A. */
CLAIM_WITH_LANES(testPullBackIsTheTransposedJacobian) {
    for (int seed = 6; seed <= 9; seed++) {
        ModelSystem model = createMolecules(seed, 0.02);
        Fixture<Real> fixture(model);
        const vector<double> F = model.randomArray(1000), direction = model.randomArray(1);
        const vector<double> a = fixture.pull(fixture.nearest(fixture.q), F);
        const VectorXd changes = slopeAtZero(3e-5, [&](double length) {
            vector<double> q = fixture.q;
            for (size_t i = 0; i < q.size(); i++)
                q[i] += model.masses[i / 3] > 0 ? length * direction[i] : 0;
            q = fixture.nearest(q);
            return VectorXd(Eigen::Map<VectorXd>(q.data(), q.size()));
        });
        const vector<double> dA(changes.data(), changes.data() + changes.size());
        // The projection alone, without the curvature, would not do.
        const vector<double> projected = fixture.project(F);
        double largestError = 0;
        for (const Block& block : fixture.blocks) {
            auto gather = [&](const vector<double>& values) { return ModelSystem::gather(block, values); };
            const VectorXd momenta = model.massDiagonal(block).cwiseProduct(gather(direction));
            const double expected = gather(F).dot(gather(dA)), scale = gather(F).norm() * gather(direction).norm();
            // Differences are accurate to d^4 over the fourth power of bond lengths, and A itself to 1e-12 / d.
            ASSERT(std::abs(gather(a).dot(momenta) - expected) < 1e-6 * scale);
            largestError = std::max(largestError, std::abs(gather(projected).dot(momenta) - expected) / scale);
        }
        ASSERT(largestError > 1e-4);
    }
}

/** On the manifold, where points stay, A' = P: the pulled-back acceleration is the projected one. */
CLAIM_WITH_LANES(testPointsOfTheManifoldStay) {
    ModelSystem model(10);
    model.stretch = model.bend = 0;
    model.addWater();
    model.addChain(12);
    model.addChain(20);
    Fixture<Real> fixture(model);
    const vector<double> A = fixture.nearest(fixture.q), F = model.randomArray(1000);
    const vector<double> a = fixture.pull(fixture.q, F), projected = fixture.project(F);
    for (size_t i = 0; i < F.size(); i++)
        ASSERT(std::abs(A[i] - fixture.q[i]) < 1e-10 && std::abs(a[i] - projected[i]) < 1e-6 * 1000);
}

/** A chain whose angles are all 180 degrees at equilibrium, with what is known of it. */
struct StraightChain {
    using Points = Eigen::Matrix3Xd;
    ModelSystem model;
    /// The masses of the atoms, and their places along the line, from the centre of mass.
    VectorXd masses, places;

    /** @param bend   by how much the chain is bent and stretched; none leaves it straight to the bit along an axis */
    StraightChain(int seed, int numAtoms, double bend) : model(seed), masses(numAtoms), places(numAtoms) {
        model.beginMolecule();
        model.stretch = model.bend = 0;
        double place = 0;
        for (int i = 0; i < numAtoms; i++) {
            masses[i] = model.random.uniform(1, 16);
            places[i] = place += 0.125 * (1 + i % 2);
            model.addAtom(masses[i], Eigen::Vector3d(place, 0, 0));
            if (i > 0)
                model.addBond(i - 1, i);
        }
        places.array() -= masses.dot(places) / masses.sum();
        for (int i = 2; i < numAtoms; i++) {
            model.addAngle(i - 2, i - 1, i);
            model.terms.back().s0 = M_PI;
        }
        if (bend == 0)
            return;
        const Eigen::Vector3d e = model.random.direction();
        const Eigen::Quaterniond turn = Eigen::Quaterniond::FromTwoVectors(Eigen::Vector3d::UnitX(), e);
        for (Eigen::Vector3d& x : model.positions)
            x = turn * x + model.random.vector(bend);
    }
    static Points pointsOf(const vector<double>& values) {
        return Eigen::Map<const Points>(values.data(), 3, values.size() / 3);
    }
    /** sum of m_i t_i q_i: its direction is that of the nearest line. */
    Eigen::Vector3d moment(const Points& q) const {
        return q * masses.cwiseProduct(places);
    }
    /**
     * The nearest straight chain: of c + t_i e the sum of m_i |q_i - c - t_i e|^2 is least for the centre of mass c and
     * e along the moment, with the sign of the latter.
     */
    Points nearest(const Points& q) const {
        const Eigen::Vector3d c = q * masses / masses.sum();
        return (moment(q).normalized() * places.transpose()).colwise() + c;
    }
    /** M^-1 A'(q)^T F, by differentiating that. */
    Points pull(const Points& q, const Points& F) const {
        const Eigen::Vector3d S = moment(q), e = S.normalized(), force = F.rowwise().sum();
        const Eigen::Vector3d turning = F * places - e * e.dot(F * places);
        return (turning / S.norm() * places.transpose()).colwise() + Eigen::Vector3d(force / masses.sum());
    }
};

/** At 180 degrees both bends vanish: the nearest point and the pulled-back forces are those of a rod. */
CLAIM_WITH_LANES(testStraightMoleculesAreRods) {
    for (int numAtoms : {3, 4, 5, 12})
        for (double bend : {0.0, 1e-12, 1e-7, 1e-3, 0.01}) {
            const StraightChain chain(20, numAtoms, bend);
            const auto pointsOf = &StraightChain::pointsOf;
            Fixture<Real> fixture(chain.model);
            const vector<double> A = fixture.nearest(fixture.q), F = ModelSystem(chain.model).randomArray(1000);
            const Eigen::Matrix3Xd q = pointsOf(fixture.q);
            // What the regularization leaves.
            ASSERT((pointsOf(A) - chain.nearest(q)).cwiseAbs().maxCoeff() < 1e-8);
            vector<double> a(F.size(), untouched);
            // At A the stiff terms exert no force.
            ASSERT(fixture.tryPull(A, F, a).empty());
            ASSERT((pointsOf(a) - chain.pull(q, pointsOf(F))).cwiseAbs().maxCoeff() < 1e-5 * 1000);
        }
}

/** A molecule folded by more than 90 degrees is not taken for straight: it is reported. */
CLAIM_WITH_LANES(testFoldedIsNotStraight) {
    StraightChain chain(21, 3, 0);
    for (double fold : {0.0, 0.001}) {
        chain.model.positions[2] = Eigen::Vector3d(chain.model.positions[0][0], fold, 0);
        Fixture<Real> fixture(chain.model);
        vector<double> A = fixture.q;
        ASSERT(fixture.findNearest(fixture.q, A) == vector<int>{0});
    }
}

/**
 * Equilibrium values that contradict each other, as six angles at one atom do, are reported; nothing is written there,
 * and others are found.
 */
CLAIM_WITH_LANES(testContradictionsAreReported) {
    ModelSystem model(11);
    for (int i = 0; i < 4; i++) {
        model.addTetrahedron();
        model.addWater();
    }
    Fixture<Real> fixture(model);
    vector<double> A(fixture.q.size(), untouched);
    ASSERT_EQUAL_CONTAINERS(vector<int>({0, 2, 4, 6}), fixture.findNearest(fixture.q, A));
    for (int block = 0; block < fixture.size(); block++)
        ASSERT_EQUAL(block % 2 == 0, (ModelSystem::gather(fixture.blocks[block], A).array() == untouched).all());
}

/** So is a molecule that lies in one point, or nowhere; others in its batch are as they would be without it. */
CLAIM_WITH_LANES(testImpossiblePositionsAreReported) {
    ModelSystem model(12);
    for (int i = 0; i < 5; i++)
        model.addWater();
    Fixture<Real> fixture(model);
    const vector<double> nowhere(fixture.q.size(), untouched), A = fixture.nearest(fixture.q);
    const vector<double> F = model.randomArray(1000);
    vector<double> a = nowhere;
    ASSERT(fixture.tryPull(A, F, a).empty());
    for (int bad = 0; bad < 5; bad++) {
        auto expect = [&](const vector<double>& good, const vector<double>& found) {
            for (int i = 0; i < 45; i++)
                ASSERT_EQUAL(i / 9 == bad ? untouched : good[i], found[i]);
        };
        for (double value : {0.0, std::nan("")}) {
            vector<double> q = fixture.q, found = nowhere;
            std::fill_n(q.begin() + 9 * bad, 9, value);
            ASSERT_EQUAL_CONTAINERS(vector<int>({bad}), fixture.findNearest(q, found));
            expect(A, found);
        }
        vector<double> bads = F, found = nowhere;
        bads[9 * bad + 4] = std::nan("");
        ASSERT_EQUAL_CONTAINERS(vector<int>({bad}), fixture.tryPull(A, bads, found));
        expect(a, found);
    }
}

/** One at a time or side by side, molecules get the same points and accelerations. */
CLAIM(testLanesAgreeWithSingleBlocks) {
    ModelSystem model = createMolecules(14, 0.02);
    for (int i = 0; i < 5; i++)
        model.addLine();
    Fixture<double> one(model);
    Fixture<Lanes> four(model);
    const vector<double> A = one.nearest(one.q), B = four.nearest(four.q), F = model.randomArray(1000);
    const vector<double> a = one.pull(A, F), b = four.pull(A, F);
    for (size_t i = 0; i < A.size(); i++)
        ASSERT(std::abs(A[i] - B[i]) < 1e-11); // Newton's iterations end there
    for (const Block& block : one.blocks) {
        const VectorXd expected = ModelSystem::gather(block, a);
        // The tolerance of the solve, and the condition of G M^-1 G^T, some 100.
        ASSERT((expected - ModelSystem::gather(block, b)).norm() <= 1e-11 * expected.norm());
    }
}

} // namespace

CHECK_CLAIMS
