/**
 * The extended system of a mass penalty against its equations, with dense Eigen: for small blocks, one at a time and in
 * lanes, and for large ones.
 */

#include "CoreTest.h"
#include "StiffFixture.h"
#include "stiffcore/methods/Drift.h"
#include "stiffcore/methods/ExtendedMass.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include "stiffcore/pairs/MassRoot.h"

namespace {

const Box box = {{{1e3, 0, 0}, {0, 1e3, 0}, {0, 0, 1e3}}};
const double infinity = std::numeric_limits<double>::infinity();

/** Molecules of the same build, each with masses, inertias and positions of its own. */
struct Molecules {
    int numAtoms;
    vector<double> masses, x, v;
    vector<PairInertia> pairs;
    vector<PairInertia> bonds;
    vector<Block> blocks;

    /**
     * Zigzag chains with a pair for each bond and each 1-3 distance, 2 numAtoms - 3 in all.
     *
     * @param constrainedEvery   of the bonds each so many is constrained to its present length; 0 for none
     * @param copies             how often each pair is there
     * @param inertOf            of three successive bonds so many have an inertia
     * @param alone              whether each second atom has one by itself
     */
    Molecules(int count, int numAtoms, int constrainedEvery, unsigned seed, int copies = 1, int inertOf = 0,
              bool alone = false)
            : numAtoms(numAtoms) {
        Random random(seed);
        for (int m = 0; m < count; m++) {
            Block block = {{}, numAtoms, {}, {}};
            for (int i = 0; i < numAtoms; i++) {
                block.particles.push_back(masses.size());
                masses.push_back(random.uniform(1, 16));
                const double where[] = {0.12 * i + random.uniform(-0.01, 0.01) + m,
                                        0.08 * (i % 2) + random.uniform(-0.01, 0.01), random.uniform(-0.02, 0.02)};
                x.insert(x.end(), where, where + 3);
                for (int j = 0; j < 3; j++)
                    v.push_back(random.gaussian());
            }
            for (int apart : {1, 2})
                for (int i = 0; i + apart < numAtoms; i++) {
                    const bool constrained = apart == 1 && constrainedEvery > 0 && i % constrainedEvery == 0;
                    PairInertia pair = {block.particles[i], block.particles[i + apart],
                                        constrained ? infinity : random.uniform(1, 200), 0, false};
                    if (constrained)
                        pair.distance = length(pair);
                    for (int copy = 0; copy < copies; copy++) {
                        block.terms.push_back(pairs.size());
                        pairs.push_back(pair);
                    }
                }
            auto addInertia = [&](int i, int j) {
                block.otherTerms.push_back(bonds.size());
                bonds.push_back({i, j, random.uniform(1, 10)});
            };
            for (int i = 0; i + 1 < numAtoms; i++)
                if (i % 3 < inertOf)
                    addInertia(block.particles[i], block.particles[i + 1]);
            for (int i = 1; i < numAtoms && alone; i += 2)
                addInertia(block.particles[i], -1);
            blocks.push_back(block);
        }
    }
    PairTerms getTerms() const {
        return {pairs, bonds};
    }
    double length(const PairInertia& pair) const {
        return (Eigen::Vector3d(&x[3 * pair.particle2]) - Eigen::Vector3d(&x[3 * pair.particle1])).norm();
    }
    /** Of all positions or velocities those of one molecule. */
    VectorXd segment(const vector<double>& values, int m) const {
        return Eigen::Map<const VectorXd>(values.data() + 3 * numAtoms * m, 3 * numAtoms);
    }
    /** Call visit with a batch of each block, in lanes or not, and its workspace. */
    template <class Real, class Visit> void forEachBatch(Visit&& visit) const {
        const BatchSystem<PairBatch, Real> system(blocks, getTerms(), masses);
        PairWorkspace<Real> work(system.batches, getTerms());
        for (const auto& batch : system.batches)
            visit(batch, work);
        PairWorkspace<double> largeWork(system.largeBlocks, getTerms());
        for (const auto& batch : system.largeBlocks)
            visit(batch, largeWork);
    }
};

/** The extended system of one molecule, written down with dense matrices. */
struct Dense {
    int m, first;
    VectorXd x, v;
    MatrixXd mass, inverseMass, inverseMassOfAtoms, compliance;
    vector<PairInertia> pairs;

    /** @param constrainedOnly   the pairs that are constrained, with the masses alone */
    Dense(const Molecules& molecules, int m, bool constrainedOnly = false)
            : m(m), first(m * molecules.numAtoms), x(molecules.segment(molecules.x, m)),
              v(molecules.segment(molecules.v, m)) {
        const int n = x.size();
        mass = MatrixXd::Zero(n, n);
        for (int i = 0; i < n; i++)
            mass(i, i) = molecules.masses[first + i / 3];
        inverseMassOfAtoms = inverseOf(mass);
        if (!constrainedOnly)
            for (int b : molecules.blocks[m].otherTerms) {
                const PairInertia& bond = molecules.bonds[b];
                MatrixXd relative = MatrixXd::Zero(3, n);
                relative.middleCols<3>(3 * (bond.particle1 - first)) = -Eigen::Matrix3d::Identity();
                if (bond.particle2 >= 0)
                    relative.middleCols<3>(3 * (bond.particle2 - first)) = Eigen::Matrix3d::Identity();
                mass += bond.inertia * relative.transpose() * relative;
            }
        inverseMass = inverseOf(mass);
        for (int t : molecules.blocks[m].terms)
            if (!constrainedOnly || molecules.pairs[t].isConstrained())
                pairs.push_back(molecules.pairs[t]);
        compliance = MatrixXd::Zero(pairs.size(), pairs.size());
        for (size_t p = 0; p < pairs.size(); p++)
            compliance(p, p) = 1 / pairs[p].inertia;
    }
    MatrixXd jacobian(const VectorXd& x) const {
        MatrixXd G = MatrixXd::Zero(pairs.size(), x.size());
        for (size_t p = 0; p < pairs.size(); p++) {
            const int i = 3 * (pairs[p].particle1 - first), j = 3 * (pairs[p].particle2 - first);
            const Eigen::Vector3d u = (x.segment<3>(j) - x.segment<3>(i)).normalized();
            G.row(p).segment<3>(i) = -u.transpose();
            G.row(p).segment<3>(j) = u.transpose();
        }
        return G;
    }
    VectorXd lengths(const VectorXd& x) const {
        return jacobian(x) * x;
    }
    MatrixXd A(const VectorXd& x) const {
        const MatrixXd G = jacobian(x);
        MatrixXd A = G * inverseMass * G.transpose() + compliance;
        for (size_t p = 0; p < pairs.size(); p++)
            if (pairs[p].isConstrained())
                A(p, p) *= 1 + rowRegularization;
        return A;
    }
    double logDeterminant(const VectorXd& x) const {
        return pairs.empty() ? 0 : eigenvaluesOf(A(x)).array().log().sum();
    }
};

/** What a batch holds in one lane for its first `count` rows. */
template <class Real> VectorXd laneOfRows(const vector<Real>& values, int count, int lane) {
    VectorXd result(count);
    for (int i = 0; i < count; i++)
        result[i] = laneOf(values[i], lane);
    return result;
}

/** The first lane in which something failed; -1 if there is none. */
template <class Batch, class Mask> int findFailure(const Batch& batch, const Mask& succeeded) {
    return findFalse<RealOf<Batch>>(succeeded, batch.count);
}

/** More than fill a batch of lanes. */
const int numMolecules = Lanes::count + 1;

/** Begin a step with the positions and velocities of all molecules. */
template <class Batch, class Workspace> void load(const Molecules& molecules, const Batch& batch, Workspace& work) {
    gather(batch, molecules.x.data(), work.x);
    gatherVelocities(batch, molecules.v.data(), work.v);
    beginTied(batch, box, work);
    factorThere(batch, work);
}

/** Call check(batch, workspace) in lanes and alone, with a step begun. */
template <class Check> void forAllBatches(const Molecules& molecules, Check&& check) {
    auto checkBatch = [&](const auto& batch, auto& work) {
        load(molecules, batch, work);
        check(batch, work);
    };
    molecules.forEachBatch<double>(checkBatch);
    molecules.forEachBatch<Lanes>(checkBatch);
}

/**
 * Check a claim for chains of all sizes, of which the last makes large blocks, with constraints or none, some bonds
 * and atoms with an inertia or none, each pair once or twice.
 */
template <class Check> void forAll(Check&& check, bool withCopies = true) {
    for (int numAtoms : {2, 3, 6, 25})
        for (int constrainedEvery : {0, 1, 3, -1})
            for (int inertOf : {0, 2, 3}) {
                const int copies = (constrainedEvery < 0 ? 2 : 1);
                if (copies > 1 && !withCopies)
                    continue;
                const Molecules molecules(numMolecules, numAtoms, std::abs(constrainedEvery), 10 * numAtoms + 1, copies,
                                          inertOf, inertOf == 2);
                forAllBatches(molecules, [&](const auto& batch, auto& work) { check(molecules, batch, work); });
            }
}

/** Call check(dense, lane) for each molecule of a batch. */
template <class Batch, class Check> void forEachLane(const Molecules& molecules, const Batch& batch, Check&& check) {
    for (int lane = 0; lane < batch.count; lane++)
        check(Dense(molecules, batch.particles[lane][0] / molecules.numAtoms), lane);
}

CLAIM(testLargeBlocksAreSparseAndSmallOnesFillLanes) {
    const Molecules small(numMolecules, 6, 0, 1), large(2, 25, 0, 1);
    const BatchSystem<PairBatch, Lanes> ofSmall(small.blocks, small.getTerms(), small.masses);
    ASSERT_EQUAL(2, (int) ofSmall.batches.size());
    ASSERT_EQUAL(1, ofSmall.batches[1].count);
    ASSERT(ofSmall.largeBlocks.empty());
    const BatchSystem<PairBatch, Lanes> ofLarge(large.blocks, large.getTerms(), large.masses);
    ASSERT_EQUAL(2, (int) ofLarge.largeBlocks.size());
    ASSERT(ofLarge.batches.empty());
}

/** Many constraints are connected by atoms that they share, not by pairs between them. */
CLAIM(testConstraintsAreConnectedByEachOther) {
    for (int every : {1, 2}) {
        const Molecules chain(1, 100, every, 1);
        ASSERT_EQUAL(every == 1, PairPattern::hasManyConnectedIn(chain.blocks[0], chain.getTerms()));
    }
}

/** Between steps w is G v, and 0 for constraints. */
CLAIM(testLoadedStateHasRates) {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const VectorXd rates = dense.jacobian(dense.x) * dense.v;
            for (int p = 0; p < batch.numRows(); p++)
                ASSERT_EQUAL_TOL(dense.pairs[p].isConstrained() ? 0 : rates[p], laneOf(work.w[p], lane), 1e-12);
        });
    });
}

/** Tied velocities are the closest to what they were, in the metric of the kinetic energy, with w = G v. */
CLAIM(testTiedVelocitiesAreTheClosest) {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        const int numRows = batch.numRows();
        for (int p = 0; p < numRows; p++)
            work.w[p] += (batch.row(p).constrained ? 0 : 0.3 * (p + 1));
        const auto untied = work.w;
        tieVelocities(batch, work);
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const VectorXd w0 = laneOfRows(untied, numRows, lane), w = laneOfRows(work.w, numRows, lane);
            const MatrixXd G = dense.jacobian(dense.x);
            const VectorXd multipliers = solveDense(dense.A(dense.x), G * dense.v - w0);
            const VectorXd v = dense.v - dense.inverseMass * G.transpose() * multipliers;
            // With copies of constraints only the regularization keeps A from being singular.
            const double tolerance = (numRows > 2 * molecules.numAtoms - 3 ? 1e-6 : 1e-9);
            ASSERT((v - laneOfVectors(work.v, molecules.numAtoms, lane)).norm() < tolerance * dense.v.norm());
            ASSERT((w0 + dense.compliance * multipliers - w).norm() < tolerance * (1 + w0.norm()));
            // The regularization leaves a little of w - G v.
            ASSERT((G * v - w).norm() < 1e-6 * dense.v.norm());
        });
    });
}

/** The metric force is -kT/2 times the gradient of ln det A, less that of the constraints' own determinant. */
CLAIM(testMetricForceIsTheGradient) {
    const double kT = 2.5;
    auto check = [&](const Molecules& molecules, const auto& batch, auto& work) {
        for (auto& a : work.a)
            a.setZero();
        addMetricForces(batch, kT, work);
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const Dense constrained(molecules, dense.m, true);
            const MatrixXd gradient = differentiate(dense.x, 1e-4, [&](const VectorXd& x) {
                return VectorXd::Constant(1, dense.logDeterminant(x) - constrained.logDeterminant(x));
            });
            const VectorXd a = -0.5 * kT * dense.inverseMassOfAtoms * gradient.transpose();
            ASSERT((a - laneOfVectors(work.a, molecules.numAtoms, lane)).norm() < 1e-7 * (1 + a.norm()));
        });
    };
    forAll(check, false); // differences of the logarithm of a nearly vanishing determinant would be noise
}

/**
 * A body of five atoms and a sixth one that turns about two of them. Of the body all ten distances are constrained, or
 * nine, which hold it as well: along motions that are allowed the metric force is the same, and it is not zero.
 */
CLAIM(testRedundantConstraintsLeaveTheMetricForce) {
    const double x[] = {0, 0, 0, 0.15, 0, 0, 0.05, 0.14, 0, 0.05, 0.02, 0.15, 0.12, 0.13, 0.14, 0.07, -0.13, 0.02};
    MatrixXd allowed;
    vector<VectorXd> forces;
    for (int numConstraints : {11, 12}) {
        Molecules molecules(1, 6, 0, 1);
        molecules.x.assign(std::begin(x), std::end(x));
        molecules.pairs.clear();
        molecules.bonds = {{2, 5, 60}, {3, 5, 60}};
        Block& block = molecules.blocks[0];
        block.terms.clear();
        block.otherTerms = {0, 1};
        auto constrain = [&](int i, int j) {
            block.terms.push_back(molecules.pairs.size());
            molecules.pairs.push_back({i, j, infinity, 0, false});
            molecules.pairs.back().distance = molecules.length(molecules.pairs.back());
        };
        constrain(5, 0);
        constrain(5, 1);
        for (int i = 0; i < 5; i++)
            for (int j = i + 1; j < 5; j++)
                if ((int) molecules.pairs.size() < numConstraints)
                    constrain(i, j);
        forAllBatches(molecules, [&](const auto& batch, auto& work) {
            for (auto& a : work.a)
                a.setZero();
            addMetricForces(batch, 2.5, work);
            const Dense dense(molecules, 0);
            if (forces.empty())
                allowed = orthonormalized(kernelOf(dense.jacobian(dense.x), 1e-9));
            forces.push_back(allowed.transpose() * inverseOf(dense.inverseMassOfAtoms) * laneOfVectors(work.a, 6, 0));
        });
    }
    for (const VectorXd& force : forces) {
        ASSERT(force.norm() > 0.1);
        ASSERT((force - forces[0]).norm() < 1e-5 * force.norm());
    }
}

/** Accelerations and noise become those of M': W F, and random vectors with the covariance W. */
CLAIM(testForcesAndNoiseAreThoseOfTheMassTensor) {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        const int n = 3 * molecules.numAtoms;
        // M^-1/2 C^T for noise that is C of M^-1/2 xi, column by column.
        vector<MatrixXd> roots(batch.numLanes, MatrixXd::Zero(n, n));
        VectorXd forces(n);
        for (int i = 0; i < n; i++) {
            for (auto& noise : work.noise)
                noise.setZero();
            using std::sqrt;
            work.noise[i / 3][i % 3] = sqrt(batch.inverseMasses[i / 3]);
            multiplyGroups(batch, batch.noiseRoot, work, work.noise);
            for (int lane = 0; lane < batch.count; lane++)
                roots[lane].col(i) = laneOfVectors(work.noise, molecules.numAtoms, lane);
            forces[i] = i / 3 + 0.3 * (i % 3);
            work.a[i / 3][i % 3] = batch.inverseMasses[i / 3] * forces[i];
        }
        spread(batch, work);
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const VectorXd a = laneOfVectors(work.a, molecules.numAtoms, lane);
            ASSERT((dense.inverseMass * forces - a).norm() < 1e-12 * forces.norm());
            ASSERT((roots[lane] * roots[lane].transpose() - dense.inverseMass).norm() < 1e-12);
        });
    });
}

/** A step of 2 fs under forces as large as the masses, with a heat bath that does nothing. */
template <class Real> struct QuietPort {
    MaskOf<Real> succeeded = MaskOf<Real>(true);

    double uniform(Uniform which) const {
        const std::map<Uniform, double> values = {{Uniform::StepSize, 0.002},
                                                  {Uniform::Tolerance, 1e-8},
                                                  {Uniform::ThermalEnergy, 2.5},
                                                  {Uniform::Decay, 1},
                                                  {Uniform::CollisionEnergy, 1e30}};
        return values.at(which);
    }
    stiffcore::Box box() const {
        return ::box;
    }
    void loadForces(const PairBatch<Real>& batch, Vectors3<Real>& vectors) const {
        for (int i = 0; i < batch.numMobile; i++)
            vectors[i].setConstant(Real(1 / batch.inverseMasses[i]));
    }
    void recall(const PairBatch<Real>&, Vectors3<Real>&) const {
        throw std::logic_error("with a heat bath nothing is kept");
    }
    void keep(const PairBatch<Real>&, const Vectors3<Real>&) const {
    }
    void drawNoise(const PairBatch<Real>&, Vectors3<Real>& vectors) const {
        for (auto& vector : vectors)
            vector.setZero();
    }
    void drawTermNoise(const PairBatch<Real>&, std::vector<Real>& numbers) const {
        std::fill(numbers.begin(), numbers.end(), Real(0));
    }
    void require(const MaskOf<Real>& mask) {
        succeeded = succeeded & mask;
    }
};

/** Molecules with an inertia of bonds alone move freely, with their own masses. */
CLAIM(testBondsMayComeWithoutPairs) {
    const PenaltyMethod method = {true, true};
    Molecules molecules(numMolecules, 3, 0, 4, 1, 2);
    molecules.pairs.clear();
    for (Block& block : molecules.blocks)
        block.terms.clear();
    forAllBatches(molecules, [&](const auto& batch, auto& work) {
        QuietPort<RealOf<std::decay_t<decltype(batch)>>> port;
        for (const PhaseList<PenaltyMethod::Phase>& list : method.getKernels())
            for (PenaltyMethod::Phase phase : list.phases)
                method.execute(phase, batch, work, port);
        ASSERT(findFailure(batch, port.succeeded) < 0);
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const VectorXd v = dense.v + VectorXd::Constant(9, 0.002);
            ASSERT((laneOfVectors(work.v, 3, lane) - v).norm() < 1e-12);
            ASSERT((laneOfVectors(work.x, 3, lane) - dense.x - 0.002 * v).norm() < 1e-12);
        });
    });
}

/** The motion solves its equations, over a way of some hundredths of the bond lengths, and keeps constraints. */
CLAIM(testDriftSolvesItsEquations) {
    const double t = 0.005;
    forAll([&](const Molecules& molecules, const auto& batch, auto& work) {
        tieVelocities(batch, work);
        const auto x0 = work.x, v0 = work.v;
        const auto w0 = work.w, r0 = work.r;
        ASSERT(findFailure(batch, driftTied(batch, t, 1e-12, box, work)) < 0);
        forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
            const int n = molecules.numAtoms, numRows = batch.numRows();
            const VectorXd before = laneOfVectors(x0, n, lane), after = laneOfVectors(work.x, n, lane),
                           v = laneOfVectors(work.v, n, lane), w = laneOfRows(work.w, numRows, lane);
            // x' = x + t v' and z' = z + t w' with the new velocities, which differ by M^-1 G0^T l and l / kappa.
            ASSERT((before + t * v - after).norm() < 1e-12);
            const MatrixXd weighted = dense.inverseMass * dense.jacobian(before).transpose();
            const VectorXd impulse = laneOfVectors(v0, n, lane) - v;
            const VectorXd multipliers = leastSquares(weighted, impulse);
            ASSERT((weighted * multipliers - impulse).norm() < 1e-9 * impulse.norm());
            const bool unique = (numRows == 2 * n - 3);
            const VectorXd change = w - laneOfRows(w0, numRows, lane);
            ASSERT(!unique || (dense.compliance * multipliers - change).norm() < 1e-8 * (1 + w.norm()));
            const VectorXd s = dense.lengths(after);
            for (int p = 0; p < numRows; p++) {
                const PairInertia& pair = dense.pairs[p];
                const double z = laneOf(r0[p], lane) + t * w[p];
                ASSERT_EQUAL_TOL(pair.isConstrained() ? pair.distance : z, s[p], 1e-11);
            }
        });
    });
}

/** A molecule that turns by 10 degrees at once, where the old factors of a large matrix lead astray. */
CLAIM(testDriftOverLongWays) {
    for (int numAtoms : {3, 18}) {
        const Molecules molecules(4, numAtoms, 1, 3);
        forAllBatches(molecules, [&](const auto& batch, auto& work) {
            // A rigid rotation is tied already.
            const auto centre = work.x[numAtoms / 2];
            for (int i = 0; i < numAtoms; i++)
                work.v[i] << centre[1] - work.x[i][1], work.x[i][0] - centre[0], 0;
            for (int p = 0; p < batch.numRows(); p++)
                work.w[p] = 0;
            ASSERT(findFailure(batch, driftTied(batch, 0.18, 1e-10, box, work)) < 0);
            forEachLane(molecules, batch, [&](const Dense& dense, int lane) {
                const VectorXd s = dense.lengths(laneOfVectors(work.x, numAtoms, lane)),
                               before = dense.lengths(dense.x);
                for (int p = 0; p < batch.numRows(); p++)
                    ASSERT(!dense.pairs[p].isConstrained() || std::abs(s[p] - before[p]) <= 1e-9);
            });
        });
    }
}

/** Where there is no solution, that is said, and for which molecule. */
CLAIM(testFailureIsNoticedInItsLane) {
    const Molecules molecules(4, 3, 1, 5);
    molecules.forEachBatch<Lanes>([&](const auto& batch, auto& work) {
        load(molecules, batch, work);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                LaneTraits<RealOf<std::decay_t<decltype(batch)>>>::lane(work.v[i][j], 2) = 1e3 * (i - 1);
        ASSERT_EQUAL(2, findFailure(batch, driftTied(batch, 0.002, 1e-8, box, work)));
    });
}

/** The matrices of the root of each molecule, of its inverse and of what it does to accelerations, in lanes or not. */
template <class Real> vector<std::array<MatrixXd, 3>> computeRoots(const Molecules& molecules) {
    PairTerms terms = molecules.getTerms();
    terms.ofRoot = true;
    const BatchSystem<PairBatch, Real> system(molecules.blocks, terms, molecules.masses);
    PairWorkspace<Real> work(system.batches, terms);
    PairWorkspace<double> largeWork(system.largeBlocks, terms);
    const int n = 3 * molecules.numAtoms;
    vector<std::array<MatrixXd, 3>> roots(molecules.blocks.size(), {MatrixXd(n, n), MatrixXd(n, n), MatrixXd(n, n)});
    auto visit = [&](const auto& batch, auto& work) {
        gather(batch, molecules.x.data(), work.x);
        factorRoot(batch, box, work);
        for (int which : {0, 1, 2})
            for (int i = 0; i < n; i++) {
                for (auto& v : work.v)
                    v.setZero();
                work.v[i / 3][i % 3] = 1;
                which == 0   ? applyRoot(batch, work)
                : which == 1 ? applyInverseRoot(batch, work)
                             : applyRoot<true>(batch, work);
                for (int lane = 0; lane < batch.count; lane++)
                    roots[batch.particles[lane][0] / molecules.numAtoms][which].col(i) =
                            laneOfVectors(work.v, molecules.numAtoms, lane);
            }
    };
    for (const auto& batch : system.batches)
        visit(batch, work);
    for (const auto& block : system.largeBlocks)
        visit(block, largeWork);
    return roots;
}

/**
 * N^T (M' + G^T kappa G) N = M among the velocities that constraints allow, which N turns into such, whatever is
 * redundant; accelerations M^-1 F become M^-1 N^T F. Where no atom has an inertia by itself, N changes no momentum, nor
 * a velocity that is common to all; and, if M' = M, no angular momentum.
 */
CLAIM_WITH_LANES(testTheMassRootTurnsMassesIntoThoseWithInertias) {
    auto largest = [](const MatrixXd& matrix) { return matrix.cwiseAbs().maxCoeff(); };
    // The last one has so many constraints that are connected that they do not come first.
    for (const auto& [numAtoms, constrainedEvery, copies, inertOf] :
         {std::tuple(60, 1, 1, 2), std::tuple(5, 0, 1, 1), std::tuple(3, 0, 1, 0), std::tuple(5, 0, 2, 0),
          std::tuple(40, 0, 1, 0), std::tuple(5, 0, 2, 2), std::tuple(40, 0, 1, 3), std::tuple(3, 1, 1, 2),
          std::tuple(4, 2, 2, 2), std::tuple(8, 2, 2, 2), std::tuple(40, 2, 1, 3), std::tuple(60, 1, 1, 1)}) {
        const bool alone = (inertOf == 2);
        const Molecules molecules(3, numAtoms, constrainedEvery, 21, copies, inertOf, alone);
        const auto roots = computeRoots<Real>(molecules);
        // Constraints that depend on each other are as good as their regularization.
        const double tolerance = constrainedEvery > 0 ? 2e-7 : 1e-10;
        for (int m = 0; m < 3; m++) {
            const Dense dense(molecules, m);
            const int n = 3 * numAtoms;
            const auto& [N, inverse, ofAccelerations] = roots[m];
            const MatrixXd I = MatrixXd::Identity(n, n), mass = inverseOf(dense.inverseMassOfAtoms);
            MatrixXd extended = dense.mass, forbidden = dense.jacobian(dense.x);
            for (size_t p = 0; p < dense.pairs.size(); p++)
                if (!dense.pairs[p].isConstrained()) {
                    extended += dense.pairs[p].inertia * forbidden.row(p).transpose() * forbidden.row(p);
                    forbidden.row(p).setZero();
                }
            const MatrixXd allowed = orthonormalized(kernelOf(forbidden, 1e-9));
            ASSERT(largest(forbidden * N * allowed) < tolerance);
            ASSERT(largest(allowed.transpose() * (N.transpose() * extended * N - mass) * allowed) <
                   tolerance * mass.maxCoeff());
            ASSERT(largest((N * inverse - I) * allowed) < tolerance);
            ASSERT(largest(allowed.transpose() * (mass * ofAccelerations - N.transpose() * mass) * allowed) <
                   tolerance * mass.maxCoeff());
            const MatrixXd change = mass * (N - I) * allowed;
            for (int axis = 0; axis < 3 && !alone; axis++) {
                const Eigen::Vector3d e = Eigen::Vector3d::Unit(axis);
                const VectorXd shift = e.replicate(numAtoms, 1);
                VectorXd turn(n);
                for (int i = 0; i < n; i += 3)
                    turn.segment<3>(i) = e.cross(Eigen::Vector3d(dense.x.segment<3>(i)));
                ASSERT(largest(shift.transpose() * change) < 1e-9);
                ASSERT(largest(N * shift - shift) < tolerance);
                // The inertia of a bond is not along it.
                ASSERT(inertOf > 0 || largest(turn.transpose() * change) < 1e-9);
            }
        }
    }
}

} // namespace

CHECK_CLAIMS
