/**
 * The nearest point of the manifold of equilibrium values, and the pull-back of forces from there.
 */

#include "Claims.h"
#include "CountAllocations.h"
#include "ModelSystem.h"
#include "stiffcore/blocks/Manifold.h"

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

const double untouched = -12345.678;

/** A ModelSystem and the BlockSystem of it. */
struct Fixture {
    const ModelSystem& model;
    vector<Block> blocks;
    BlockSystem<double> system;
    Workspace<double> work;
    vector<double> q;

    explicit Fixture(const ModelSystem& model)
            : model(model), blocks(model.getBlocks()), system(blocks, model.getStiffTerms(), model.masses),
              work(system.createWorkspace()), q(model.getPositions()) {
    }
    /** A(q), all blocks. */
    vector<double> nearest(const vector<double>& q) {
        vector<double> A = q;
        for (int block = 0; block < system.getNumBlocks(); block++)
            ASSERT(findNearestPoint(system[block], q.data(), model.box, work, A.data()));
        return A;
    }
    /** The pull-back of forces F that are not those of the terms. */
    vector<double> pull(const vector<double>& A, vector<double> F) {
        vector<double> a(F.size(), untouched);
        ModelSystem moved = model;
        moved.setPositions(A);
        for (const Block& block : blocks) {
            const VectorXd gradient = moved.gradient(block);
            for (int i = 0; i < block.numMobile; i++)
                for (int j = 0; j < 3; j++)
                    F[3 * block.particles[i] + j] -= gradient[3 * i + j];
        }
        for (int block = 0; block < system.getNumBlocks(); block++)
            ASSERT(pullBack(system[block], q.data(), A.data(), F.data(), model.box, work, a.data()));
        return a;
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
    model.renumber();
    return model;
}

/** s(A) = s0, and M (A - q) is a combination of the gradients at A. */
void testNearestPointSolvesItsEquations() {
    for (int seed = 1; seed <= 4; seed++) {
        const ModelSystem model = createMolecules(seed);
        Fixture fixture(model);
        const vector<double> A = fixture.nearest(fixture.q);
        ModelSystem moved = model;
        moved.setPositions(A);
        for (const Block& block : fixture.blocks) {
            ASSERT(model.deviations(block).cwiseAbs().maxCoeff() > 1e-3);
            ASSERT(moved.deviations(block).cwiseAbs().maxCoeff() < 1e-8); // what the regularization leaves
            const VectorXd step = ModelSystem::gather(block, A) - ModelSystem::gather(block, fixture.q);
            const VectorXd force = model.massDiagonal(block).cwiseProduct(step);
            const MatrixXd transposed = moved.jacobian(block).transpose();
            const VectorXd multipliers = transposed.colPivHouseholderQr().solve(force);
            ASSERT((transposed * multipliers - force).norm() < 1e-9 * force.norm());
        }
        for (size_t i = 0; i < model.masses.size(); i++)
            if (model.masses[i] == 0) {
                ASSERT(A[3 * i] == fixture.q[3 * i]);
            }
    }
}

void testPointsOfTheManifoldStay() {
    ModelSystem model(5);
    model.stretch = model.bend = 0;
    model.addWater();
    model.addChain(12);
    Fixture fixture(model);
    const vector<double> A = fixture.nearest(fixture.q);
    for (size_t i = 0; i < A.size(); i++)
        ASSERT(std::abs(A[i] - fixture.q[i]) < 1e-10);
}

/** F . dA = a . M dq for any displacement dq, dA by differences of A. */
void testPullBackIsTheTransposedJacobian() {
    for (int seed = 6; seed <= 9; seed++) {
        ModelSystem model = createMolecules(seed, 0.02);
        Fixture fixture(model);
        const vector<double> F = model.randomArray(1000), direction = model.randomArray(1);
        const vector<double> a = fixture.pull(fixture.nearest(fixture.q), F);
        const double d = 3e-5;
        auto displaced = [&](double length) {
            vector<double> q = fixture.q;
            for (size_t i = 0; i < q.size(); i++)
                q[i] += model.masses[i / 3] > 0 ? length * direction[i] : 0;
            return fixture.nearest(q);
        };
        const vector<double> far = displaced(2 * d), near = displaced(d), back = displaced(-d),
                             behind = displaced(-2 * d);
        double largestError = 0;
        for (const Block& block : fixture.blocks) {
            auto gather = [&](const vector<double>& values) { return ModelSystem::gather(block, values); };
            const VectorXd change = (8 * (gather(near) - gather(back)) - (gather(far) - gather(behind))) / (12 * d);
            const double expected = gather(F).dot(change);
            const double found = gather(a).dot(model.massDiagonal(block).cwiseProduct(gather(direction)));
            // Differences are accurate to d^4 over the fourth power of bond lengths, and A itself to 1e-12 / d.
            ASSERT(std::abs(found - expected) < 1e-6 * gather(F).norm() * gather(direction).norm());
            // The projection alone, without the curvature, would not do.
            vector<double> projected(F.size());
            for (size_t i = 0; i < F.size(); i++)
                projected[i] = model.masses[i / 3] > 0 ? F[i] / model.masses[i / 3] : 0;
            const size_t index = &block - &fixture.blocks[0];
            ASSERT(projectOnTangentSpace(fixture.system[index], fixture.q.data(), model.box, fixture.work,
                                         projected.data()));
            const double approximate = gather(projected).dot(model.massDiagonal(block).cwiseProduct(gather(direction)));
            largestError = std::max(largestError,
                                    std::abs(approximate - expected) / gather(F).norm() / gather(direction).norm());
        }
        ASSERT(largestError > 1e-4);
    }
}

/** On the manifold, A' = P: the pulled-back acceleration is the projected one. */
void testPullBackIsTheProjectionOnTheManifold() {
    ModelSystem model(10);
    model.stretch = model.bend = 0;
    model.addWater();
    model.addChain(20);
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000), a = fixture.pull(fixture.q, F);
    vector<double> projected(F.size());
    for (size_t i = 0; i < F.size(); i++)
        projected[i] = F[i] / model.masses[i / 3];
    for (int block = 0; block < fixture.system.getNumBlocks(); block++) {
        ASSERT(projectOnTangentSpace(fixture.system[block], fixture.q.data(), model.box, fixture.work,
                                     projected.data()));
    }
    for (size_t i = 0; i < F.size(); i++)
        ASSERT(std::abs(a[i] - projected[i]) < 1e-6 * 1000);
}

/** A chain whose angles are all 180 degrees at equilibrium, with what is known of it. */
struct StraightChain {
    ModelSystem model;
    /// The places of the atoms along the line, from their centre of mass.
    vector<double> places;
    double mass = 0;

    /** @param bend   by how much the chain is bent and stretched; none leaves it straight to the bit along an axis */
    StraightChain(int seed, int numAtoms, double bend) : model(seed) {
        model.beginMolecule();
        model.stretch = model.bend = 0;
        double place = 0, centre = 0;
        for (int i = 0; i < numAtoms; i++) {
            const double m = model.random.uniform(1, 16);
            place += 0.125 * (1 + i % 2);
            places.push_back(place);
            centre += m * place;
            mass += m;
            model.addAtom(m, Eigen::Vector3d(place, 0, 0));
            if (i > 0)
                model.addBond(i - 1, i);
        }
        for (double& p : places)
            p -= centre / mass;
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
    /** sum of m_i t_i q_i: its direction is that of the nearest line. */
    Eigen::Vector3d moment(const vector<double>& q) const {
        Eigen::Vector3d sum = Eigen::Vector3d::Zero();
        for (size_t i = 0; i < places.size(); i++)
            sum += model.masses[i] * places[i] * Eigen::Vector3d(q[3 * i], q[3 * i + 1], q[3 * i + 2]);
        return sum;
    }
    /**
     * The nearest straight chain: of c + t_i e the sum of m_i |q_i - c - t_i e|^2 is least for the centre of mass c and
     * e along the moment, with the sign of the latter.
     */
    vector<double> nearest(const vector<double>& q) const {
        const Eigen::Vector3d e = moment(q).normalized();
        Eigen::Vector3d c = Eigen::Vector3d::Zero();
        for (size_t i = 0; i < places.size(); i++)
            c += model.masses[i] / mass * Eigen::Vector3d(q[3 * i], q[3 * i + 1], q[3 * i + 2]);
        vector<double> A;
        for (double place : places)
            for (int j = 0; j < 3; j++)
                A.push_back(c[j] + place * e[j]);
        return A;
    }
    /** M^-1 A'(q)^T F, by differentiating that. */
    vector<double> pull(const vector<double>& q, const vector<double>& F) const {
        const Eigen::Vector3d S = moment(q), e = S.normalized();
        Eigen::Vector3d force = Eigen::Vector3d::Zero(), turning = force;
        for (size_t i = 0; i < places.size(); i++) {
            const Eigen::Vector3d own(F[3 * i], F[3 * i + 1], F[3 * i + 2]);
            force += own;
            turning += places[i] * own;
        }
        turning -= e * e.dot(turning);
        vector<double> a;
        for (double place : places)
            for (int j = 0; j < 3; j++)
                a.push_back(force[j] / mass + place * turning[j] / S.norm());
        return a;
    }
};

/** At 180 degrees both bends vanish: the nearest point and the pulled-back forces are those of a rod. */
void testStraightMoleculesAreRods() {
    for (int numAtoms : {3, 4, 5, 12})
        for (double bend : {0.0, 1e-12, 1e-7, 1e-3, 0.01}) {
            const StraightChain chain(20, numAtoms, bend);
            Fixture fixture(chain.model);
            const vector<double> A = fixture.nearest(fixture.q), expected = chain.nearest(fixture.q);
            for (size_t i = 0; i < A.size(); i++)
                ASSERT(std::abs(A[i] - expected[i]) < 1e-8); // what the regularization leaves
            ModelSystem model = chain.model;
            const vector<double> F = model.randomArray(1000);
            vector<double> a(F.size(), untouched);
            // At A the stiff terms exert no force.
            ASSERT(pullBack(fixture.system[0], fixture.q.data(), A.data(), F.data(), model.box, fixture.work,
                            a.data()));
            const vector<double> pulled = chain.pull(fixture.q, F);
            for (size_t i = 0; i < a.size(); i++)
                ASSERT(std::abs(a[i] - pulled[i]) < 1e-5 * 1000);
        }
}

/** A molecule folded by more than 90 degrees is not taken for straight. */
void testFoldedIsNotStraight() {
    StraightChain chain(21, 3, 0);
    for (double fold : {0.0, 0.001}) {
        chain.model.positions[2] = Eigen::Vector3d(chain.model.positions[0][0], fold, 0);
        Fixture fixture(chain.model);
        vector<double> A = fixture.q;
        if (findNearestPoint(fixture.system[0], fixture.q.data(), chain.model.box, fixture.work, A.data())) {
            ASSERT((A[0] - A[3]) * (A[6] - A[3]) + (A[1] - A[4]) * (A[7] - A[4]) < 0);
        }
    }
}

/** Equilibrium values that contradict each other, as six angles at one atom do, are reported; nothing is written. */
void testContradictionsAreReported() {
    ModelSystem model(11);
    model.addTetrahedron();
    model.addWater();
    Fixture fixture(model);
    vector<double> A(fixture.q.size(), untouched);
    ASSERT(!findNearestPoint(fixture.system[0], fixture.q.data(), model.box, fixture.work, A.data()));
    for (double component : A)
        ASSERT_EQUAL(untouched, component);
    ASSERT(findNearestPoint(fixture.system[1], fixture.q.data(), model.box, fixture.work, A.data()));
}

/** So is a molecule that lies in one point, or nowhere. */
void testImpossiblePositionsAreReported() {
    ModelSystem model(12);
    model.addWater();
    Fixture fixture(model);
    vector<double> A(fixture.q.size(), untouched);
    for (double value : {0.0, std::nan("")}) {
        const vector<double> q(fixture.q.size(), value);
        ASSERT(!findNearestPoint(fixture.system[0], q.data(), model.box, fixture.work, A.data()));
        ASSERT_EQUAL(untouched, A[0]);
    }
    const vector<double> F(fixture.q.size(), std::nan(""));
    ASSERT(!pullBack(fixture.system[0], fixture.q.data(), fixture.q.data(), F.data(), model.box, fixture.work,
                     A.data()));
    ASSERT_EQUAL(untouched, A[0]);
}

void testNoMemoryIsAllocated() {
    if (!canCountAllocations)
        return;
    ModelSystem model = createMolecules(13);
    Fixture fixture(model);
    const vector<double> F = model.randomArray(1000);
    vector<double> A = fixture.q, a = F;
    ASSERT(isCountRight());
    ASSERT_EQUAL(0, countAllocations([&] {
                     for (int block = 0; block < fixture.system.getNumBlocks(); block++) {
                         findNearestPoint(fixture.system[block], fixture.q.data(), model.box, fixture.work, A.data());
                         pullBack(fixture.system[block], fixture.q.data(), A.data(), F.data(), model.box, fixture.work,
                                  a.data());
                     }
                 }));
}

int main() {
    return checkClaims({
            CLAIM(testNearestPointSolvesItsEquations),
            CLAIM(testPointsOfTheManifoldStay),
            CLAIM(testPullBackIsTheTransposedJacobian),
            CLAIM(testPullBackIsTheProjectionOnTheManifold),
            CLAIM(testStraightMoleculesAreRods),
            CLAIM(testFoldedIsNotStraight),
            CLAIM(testContradictionsAreReported),
            CLAIM(testImpossiblePositionsAreReported),
            CLAIM(testNoMemoryIsAllocated),
    });
}
