/**
 * The extended system of a mass penalty against its equations, with dense Eigen: for small blocks, one at a time and in
 * lanes, and for large ones.
 */

#include "Claims.h"
#include "DenseAlgebra.h"
#include "Derivatives.h"
#include "RandomGeometry.h"
#include "stiffcore/methods/Drift.h"
#include "stiffcore/methods/ExtendedMass.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include "stiffcore/pairs/MassRoot.h"
#include <limits>
#include <numeric>

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

namespace {

const Box box = {{{1e3, 0, 0}, {0, 1e3, 0}, {0, 0, 1e3}}};
const double infinity = std::numeric_limits<double>::infinity();

/** Molecules of the same build, each with masses, inertias and positions of its own. */
struct Molecules {
    int numAtoms;
    vector<double> masses, x, v;
    vector<PenalizedPair> pairs;
    vector<PairInertia> bonds;
    vector<Block> blocks;

    /**
     * Zigzag chains with a pair for each bond and each 1-3 distance, 2 numAtoms - 3 in all.
     *
     * @param constrainedEvery   of the bonds each so many is constrained to its present length; 0 for none
     * @param copies             how often each pair is there
     * @param inertOf            of three successive bonds so many have an inertia
     */
    Molecules(int count, int numAtoms, int constrainedEvery, unsigned seed, int copies = 1, int inertOf = 0)
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
                    PenalizedPair pair = {block.particles[i], block.particles[i + apart],
                                          constrained ? infinity : random.uniform(1, 200), 0, false};
                    if (constrained)
                        pair.distance = length(pair);
                    for (int copy = 0; copy < copies; copy++) {
                        block.terms.push_back(pairs.size());
                        pairs.push_back(pair);
                    }
                }
            for (int i = 0; i + 1 < numAtoms; i++)
                if (i % 3 < inertOf) {
                    block.otherTerms.push_back(bonds.size());
                    bonds.push_back({block.particles[i], block.particles[i + 1], random.uniform(1, 10)});
                }
            blocks.push_back(block);
        }
    }
    PairTerms getTerms() const {
        return {pairs, bonds};
    }
    double length(const PenalizedPair& pair) const {
        Eigen::Vector3d d;
        for (int j = 0; j < 3; j++)
            d[j] = x[3 * pair.particle2 + j] - x[3 * pair.particle1 + j];
        return d.norm();
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
    MatrixXd mass, inverseMass, inverseMassOfAtoms, compliance;
    vector<PenalizedPair> pairs;
    int first;

    /** @param constrainedOnly   the pairs that are constrained, with the masses alone */
    Dense(const Molecules& molecules, int m, bool constrainedOnly = false) : first(molecules.blocks[m].particles[0]) {
        const int n = 3 * molecules.numAtoms;
        mass = MatrixXd::Zero(n, n);
        for (int i = 0; i < n; i++)
            mass(i, i) = molecules.masses[first + i / 3];
        const MatrixXd ofAtoms = mass;
        if (!constrainedOnly)
            for (int b : molecules.blocks[m].otherTerms) {
                const PairInertia& bond = molecules.bonds[b];
                MatrixXd relative = MatrixXd::Zero(3, n);
                relative.middleCols<3>(3 * (bond.particle1 - first)) = -Eigen::Matrix3d::Identity();
                relative.middleCols<3>(3 * (bond.particle2 - first)) = Eigen::Matrix3d::Identity();
                mass += bond.inertia * relative.transpose() * relative;
            }
        inverseMass = inverseOf(mass);
        inverseMassOfAtoms = inverseOf(ofAtoms);
        for (int t : molecules.blocks[m].terms)
            if (!constrainedOnly || molecules.pairs[t].isConstrained())
                pairs.push_back(molecules.pairs[t]);
        compliance = MatrixXd::Zero(pairs.size(), pairs.size());
        for (size_t p = 0; p < pairs.size(); p++)
            compliance(p, p) = 1 / pairs[p].inertia;
    }
    VectorXd lengths(const VectorXd& x) const {
        VectorXd s(pairs.size());
        for (size_t p = 0; p < pairs.size(); p++)
            s[p] = (x.segment<3>(3 * (pairs[p].particle2 - first)) - x.segment<3>(3 * (pairs[p].particle1 - first)))
                           .norm();
        return s;
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

VectorXd segment(const vector<double>& values, const Molecules& molecules, int m) {
    return Eigen::Map<const VectorXd>(values.data() + 3 * molecules.numAtoms * m, 3 * molecules.numAtoms);
}

/** What a batch holds in one lane, as one vector. */
template <class Real> VectorXd lane(const vector<Vector3<Real>>& vectors, int count, int which) {
    VectorXd result(3 * count);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 3; j++)
            result[3 * i + j] = LaneTraits<Real>::lane(vectors[i][j], which);
    return result;
}

template <class Real> VectorXd lane(const vector<Real>& values, int count, int which) {
    VectorXd result(count);
    for (int i = 0; i < count; i++)
        result[i] = LaneTraits<Real>::lane(values[i], which);
    return result;
}

/** Sizes of chains whose blocks are small, and one that is large; more of them than fill a batch of lanes. */
const int sizes[] = {2, 3, 6, 25};
const int numMolecules = Lanes::count + 1;

/** Begin a step with positions and velocities of all molecules. */
template <class Real>
void load(const PairBatch<Real>& batch, const double* x, const double* v, const stiffcore::Box& box,
          PairWorkspace<Real>& work) {
    gather(batch, x, work.x);
    gatherVelocities(batch, v, work.v);
    beginTied(batch, box, work);
    factorThere(batch, work);
}

/**
 * Check a claim for chains of all sizes, some constraints or none, some bonds with an inertia or none, each pair once or
 * twice, in lanes and alone.
 */
template <class Check> void forAll(Check&& check, bool withCopies = true) {
    for (int numAtoms : sizes)
        for (int constrainedEvery : {0, 1, 3, -1})
            for (int inertOf : {0, 2, 3}) {
                const int copies = (constrainedEvery < 0 ? 2 : 1);
                if (copies > 1 && !withCopies)
                    continue;
                const Molecules molecules(numMolecules, numAtoms, std::abs(constrainedEvery), 10 * numAtoms + 1, copies,
                                          inertOf);
                auto checkBatch = [&](const auto& batch, auto& work) {
                    load(batch, molecules.x.data(), molecules.v.data(), box, work);
                    check(molecules, batch, work);
                };
                molecules.forEachBatch<double>(checkBatch);
                molecules.forEachBatch<Lanes>(checkBatch);
            }
}

/** Call check(dense, molecule, lane) for each molecule of a batch. */
template <class Batch, class Check> void forEachLane(const Molecules& molecules, const Batch& batch, Check&& check) {
    for (int l = 0; l < batch.count; l++) {
        const int m = batch.particles[l][0] / molecules.numAtoms;
        check(Dense(molecules, m), m, l);
    }
}

void testLargeBlocksAreSparseAndSmallOnesFillLanes() {
    const Molecules small(Lanes::count + 1, 6, 0, 1), large(2, 25, 0, 1);
    const BatchSystem<PairBatch, Lanes> ofSmall(small.blocks, small.getTerms(), small.masses);
    ASSERT_EQUAL(2, (int) ofSmall.batches.size());
    ASSERT_EQUAL(1, ofSmall.batches[1].count);
    ASSERT(ofSmall.largeBlocks.empty());
    const BatchSystem<PairBatch, Lanes> ofLarge(large.blocks, large.getTerms(), large.masses);
    ASSERT_EQUAL(2, (int) ofLarge.largeBlocks.size());
    ASSERT(ofLarge.batches.empty());
}

/** Between steps w is G v, and 0 for constraints. */
void testLoadedStateHasRates() {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        forEachLane(molecules, batch, [&](const Dense& dense, int m, int l) {
            const VectorXd rates =
                    dense.jacobian(segment(molecules.x, molecules, m)) * segment(molecules.v, molecules, m);
            const VectorXd w = lane(work.w, batch.numRows(), l);
            for (int p = 0; p < batch.numRows(); p++)
                ASSERT_EQUAL_TOL(dense.pairs[p].isConstrained() ? 0 : rates[p], w[p], 1e-12);
        });
    });
}

/** Tied velocities are the closest to what they were, in the metric of the kinetic energy, with w = G v. */
void testTiedVelocitiesAreTheClosest() {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        const auto freeW = work.w;
        for (int p = 0; p < batch.numRows(); p++)
            work.w[p] = freeW[p] + (batch.row(p).constrained ? 0 : 0.3 * (p + 1));
        const auto untied = work.w;
        tieVelocities(batch, work);
        forEachLane(molecules, batch, [&](const Dense& dense, int m, int l) {
            const VectorXd v0 = segment(molecules.v, molecules, m), w0 = lane(untied, batch.numRows(), l);
            const MatrixXd G = dense.jacobian(segment(molecules.x, molecules, m));
            const VectorXd multipliers = solveDense(dense.A(segment(molecules.x, molecules, m)), G * v0 - w0);
            const VectorXd v = v0 - dense.inverseMass * G.transpose() * multipliers;
            // With copies of constraints only the regularization keeps A from being singular.
            const double tolerance = (batch.numRows() > 2 * molecules.numAtoms - 3 ? 1e-6 : 1e-9);
            ASSERT((v - lane(work.v, molecules.numAtoms, l)).norm() < tolerance * v0.norm());
            ASSERT((w0 + dense.compliance * multipliers - lane(work.w, batch.numRows(), l)).norm() <
                   tolerance * (1 + w0.norm()));
            // The regularization leaves a little of w - G v.
            ASSERT((G * v - lane(work.w, batch.numRows(), l)).norm() < 1e-6 * v0.norm());
        });
    });
}

/** The metric force is -kT/2 times the gradient of ln det A, less that of the constraints' own determinant. */
void testMetricForceIsTheGradient() {
    const double kT = 2.5;
    forAll(
            [&](const Molecules& molecules, const auto& batch, auto& work) {
                for (int i = 0; i < molecules.numAtoms; i++)
                    work.a[i].setZero();
                addMetricForces(batch, kT, work);
                forEachLane(molecules, batch, [&](const Dense& dense, int m, int l) {
                    const Dense constrained(molecules, m, true);
                    const VectorXd x = segment(molecules.x, molecules, m);
                    const VectorXd gradient = differentiate(x, 1e-4, [&](const VectorXd& at) {
                                                  VectorXd value(1);
                                                  value << dense.logDeterminant(at) - constrained.logDeterminant(at);
                                                  return value;
                                              }).transpose();
                    const VectorXd a = -0.5 * kT * dense.inverseMassOfAtoms * gradient;
                    ASSERT((a - lane(work.a, molecules.numAtoms, l)).norm() < 1e-7 * (1 + a.norm()));
                });
            },
            false); // differences of the logarithm of a nearly vanishing determinant would be noise
}

/** Accelerations and noise become those of M': W F, and random vectors with the covariance W. */
void testForcesAndNoiseAreThoseOfTheMassTensor() {
    forAll([](const Molecules& molecules, const auto& batch, auto& work) {
        // M^-1/2 C^T for noise that is C of M^-1/2 xi, column by column.
        vector<MatrixXd> roots(batch.numLanes, MatrixXd::Zero(3 * molecules.numAtoms, 3 * molecules.numAtoms));
        for (int column = 0; column < 3 * molecules.numAtoms; column++) {
            for (int i = 0; i < molecules.numAtoms; i++)
                work.noise[i].setZero();
            using std::sqrt;
            work.noise[column / 3][column % 3] = sqrt(batch.inverseMasses[column / 3]);
            multiplyGroups(batch, batch.noiseRoot, work, work.noise);
            for (int l = 0; l < batch.count; l++)
                roots[l].col(column) = lane(work.noise, molecules.numAtoms, l);
        }
        for (int i = 0; i < molecules.numAtoms; i++)
            for (int j = 0; j < 3; j++)
                work.a[i][j] = batch.inverseMasses[i] * (i + 0.3 * j); // of forces i + 0.3 j
        spread(batch, work);
        forEachLane(molecules, batch, [&](const Dense& dense, int, int l) {
            VectorXd forces(3 * molecules.numAtoms);
            for (int i = 0; i < forces.size(); i++)
                forces[i] = i / 3 + 0.3 * (i % 3);
            ASSERT((dense.inverseMass * forces - lane(work.a, molecules.numAtoms, l)).norm() < 1e-12 * forces.norm());
            ASSERT((roots[l] * roots[l].transpose() - dense.inverseMass).norm() < 1e-12);
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
                                                  {Uniform::Decay, 1}};
        return values.at(which);
    }
    stiffcore::Box box() const {
        return ::box;
    }
    void loadForces(const PairBatch<Real>& batch, Vectors3<Real>& vectors) const {
        for (int i = 0; i < batch.numMobile; i++)
            vectors[i].setConstant(Real(1 / batch.inverseMasses[i]));
    }
    void load(const PairBatch<Real>&, KeptVector, Vectors3<Real>&) const {
        throw std::logic_error("with a heat bath nothing is kept");
    }
    void keep(const PairBatch<Real>&, KeptVector, const Vectors3<Real>&) const {
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
void testBondsMayComeWithoutPairs() {
    const PenaltyMethod method = {true, true};
    Molecules molecules(numMolecules, 3, 0, 4, 1, 2);
    molecules.pairs.clear();
    for (Block& block : molecules.blocks)
        block.terms.clear();
    auto check = [&](const auto& batch, auto& work) {
        using Real = std::decay_t<decltype(work.r[0])>;
        load(batch, molecules.x.data(), molecules.v.data(), box, work);
        QuietPort<Real> port;
        for (const PhaseList<PenaltyMethod::Phase>& list : method.getKernels())
            for (PenaltyMethod::Phase phase : list.phases)
                method.execute(phase, batch, work, port);
        ASSERT(findFalse<Real>(port.succeeded, batch.count) < 0);
        forEachLane(molecules, batch, [&](const Dense&, int m, int l) {
            const VectorXd v = segment(molecules.v, molecules, m) + VectorXd::Constant(9, 0.002);
            ASSERT((lane(work.v, 3, l) - v).norm() < 1e-12);
            ASSERT((lane(work.x, 3, l) - segment(molecules.x, molecules, m) - 0.002 * v).norm() < 1e-12);
        });
    };
    molecules.forEachBatch<double>(check);
    molecules.forEachBatch<Lanes>(check);
}

/** The motion solves its equations, over a way of some hundredths of the bond lengths, and keeps constraints. */
void testDriftSolvesItsEquations() {
    const double t = 0.005;
    forAll([&](const Molecules& molecules, const auto& batch, auto& work) {
        tieVelocities(batch, work);
        const auto x0 = work.x, v0 = work.v;
        const auto w0 = work.w, r0 = work.r;
        ASSERT(findFalse<std::decay_t<decltype(work.r[0])>>(driftTied(batch, t, 1e-12, box, work), batch.count) < 0);
        forEachLane(molecules, batch, [&](const Dense& dense, int, int l) {
            const int n = molecules.numAtoms;
            const VectorXd before = lane(x0, n, l), after = lane(work.x, n, l), v = lane(work.v, n, l);
            const VectorXd w = lane(work.w, batch.numRows(), l);
            // x' = x + t v' and z' = z + t w' with the new velocities, which differ by M^-1 G0^T l and l / kappa.
            ASSERT((before + t * v - after).norm() < 1e-12);
            const MatrixXd G0 = dense.jacobian(before), weighted = dense.inverseMass * G0.transpose();
            const VectorXd impulse = lane(v0, n, l) - v;
            const VectorXd multipliers = leastSquares(weighted, impulse);
            ASSERT((weighted * multipliers - impulse).norm() < 1e-9 * impulse.norm());
            const bool unique = (batch.numRows() == 2 * n - 3);
            ASSERT(!unique ||
                   (dense.compliance * multipliers - w + lane(w0, batch.numRows(), l)).norm() < 1e-8 * (1 + w.norm()));
            const VectorXd s = dense.lengths(after);
            for (int p = 0; p < batch.numRows(); p++) {
                const bool constrained = dense.pairs[p].isConstrained();
                ASSERT_EQUAL_TOL(constrained ? dense.pairs[p].distance : lane(r0, batch.numRows(), l)[p] + t * w[p],
                                 s[p], 1e-11);
            }
        });
    });
}

/** A molecule that turns by 10 degrees at once, where the old factors of a large matrix lead astray. */
void testDriftOverLongWays() {
    int numConverged = 0, numTried = 0;
    for (int numAtoms : {3, 18}) {
        const Molecules molecules(4, numAtoms, 1, 3);
        auto turn = [&](const auto& batch, auto& work) {
            load(batch, molecules.x.data(), molecules.v.data(), box, work);
            // A rigid rotation is tied already.
            for (int i = 0; i < numAtoms; i++)
                for (int l = 0; l < batch.numLanes; l++) {
                    using Real = std::decay_t<decltype(work.r[0])>;
                    auto at = [&](int atom, int j) { return LaneTraits<Real>::lane(work.x[atom][j], l); };
                    LaneTraits<Real>::lane(work.v[i][0], l) = -(at(i, 1) - at(numAtoms / 2, 1));
                    LaneTraits<Real>::lane(work.v[i][1], l) = at(i, 0) - at(numAtoms / 2, 0);
                    LaneTraits<Real>::lane(work.v[i][2], l) = 0;
                }
            for (int p = 0; p < batch.numRows(); p++)
                work.w[p] = 0;
            using Real = std::decay_t<decltype(work.r[0])>;
            numTried++;
            numConverged += findFalse<Real>(driftTied(batch, 0.18, 1e-10, box, work), batch.count) < 0;
            forEachLane(molecules, batch, [&](const Dense& dense, int m, int l) {
                const VectorXd s = dense.lengths(lane(work.x, numAtoms, l)),
                               before = dense.lengths(segment(molecules.x, molecules, m));
                for (int p = 0; p < batch.numRows(); p++)
                    if (dense.pairs[p].isConstrained()) {
                        ASSERT_EQUAL_TOL(before[p], s[p], 1e-9);
                    }
            });
        };
        molecules.forEachBatch<double>(turn);
        molecules.forEachBatch<Lanes>(turn);
    }
    ASSERT_EQUAL(numTried, numConverged);
}

/** Where there is no solution, that is said, and for which molecule. */
void testFailureIsNoticedInItsLane() {
    const Molecules molecules(4, 3, 1, 5);
    molecules.forEachBatch<Lanes>([&](const auto& batch, auto& work) {
        using Real = std::decay_t<decltype(work.r[0])>;
        load(batch, molecules.x.data(), molecules.v.data(), box, work);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                LaneTraits<Real>::lane(work.v[i][j], 2) = 1e3 * (i - 1);
        ASSERT_EQUAL(2, findFalse<Real>(driftTied(batch, 0.002, 1e-8, box, work), batch.count));
    });
}

/** The matrices of the root of a molecule and of its inverse, in lanes or not. */
template <class Real> vector<std::array<MatrixXd, 2>> computeRoots(const Molecules& molecules) {
    const PairTerms terms = molecules.getTerms();
    const BatchSystem<RootBatch, Real> system(molecules.blocks, terms, molecules.masses);
    RootWorkspace<Real> work(system.batches, terms);
    RootWorkspace<double> largeWork(system.largeBlocks, terms);
    const int n = 3 * molecules.numAtoms;
    vector<std::array<MatrixXd, 2>> roots(molecules.blocks.size(), {MatrixXd(n, n), MatrixXd(n, n)});
    auto visit = [&](const auto& batch, auto& work) {
        gather(batch, molecules.x.data(), work.x);
        factorRoot(batch, box, work);
        for (int inverse : {0, 1})
            for (int i = 0; i < n; i++) {
                for (auto& v : work.v)
                    v.setZero();
                work.v[i / 3][i % 3] = 1;
                inverse ? applyInverseRoot(batch, work) : applyRoot(batch, work);
                for (int lane = 0; lane < batch.count; lane++)
                    for (int k = 0; k < n; k++)
                        roots[batch.particles[lane][0] / molecules.numAtoms][inverse](k, i) =
                                laneOf(work.v[k / 3][k % 3], lane);
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
 * redundant. N changes no momentum, nor a velocity that is common to all; and, if M' = M, no angular momentum.
 */
template <class Real> void checkRoot() {
    // The last one has so many constraints that are connected that they do not come first.
    for (const auto& [numAtoms, constrainedEvery, copies, inertOf] :
         {std::tuple(3, 0, 1, 0), std::tuple(5, 0, 2, 0), std::tuple(40, 0, 1, 0), std::tuple(5, 0, 2, 2),
          std::tuple(40, 0, 1, 3), std::tuple(3, 1, 1, 2), std::tuple(4, 2, 2, 2), std::tuple(8, 2, 2, 2),
          std::tuple(40, 2, 1, 3), std::tuple(60, 1, 1, 1)}) {
        const Molecules molecules(3, numAtoms, constrainedEvery, 21, copies, inertOf);
        const auto roots = computeRoots<Real>(molecules);
        // Constraints that depend on each other are as good as their regularization.
        const double tolerance = constrainedEvery > 0 ? 2e-7 : 1e-10;
        for (int m = 0; m < 3; m++) {
            const Dense dense(molecules, m);
            const int n = 3 * numAtoms, start = 3 * dense.first;
            const auto& [N, inverse] = roots[m];
            const VectorXd x = Eigen::Map<const VectorXd>(molecules.x.data() + start, n);
            const MatrixXd mass = inverseOf(dense.inverseMassOfAtoms), G = dense.jacobian(x);
            MatrixXd extended = dense.mass, forbidden = MatrixXd::Zero(1, n);
            for (size_t p = 0; p < dense.pairs.size(); p++)
                if (dense.pairs[p].isConstrained()) {
                    forbidden.conservativeResize(forbidden.rows() + 1, n);
                    forbidden.bottomRows(1) = G.row(p);
                }
                else
                    extended += dense.pairs[p].inertia * G.row(p).transpose() * G.row(p);
            const MatrixXd allowed = orthonormalized(kernelOf(forbidden, 1e-9));
            ASSERT((forbidden * N * allowed).cwiseAbs().maxCoeff() < tolerance);
            ASSERT((allowed.transpose() * (N.transpose() * extended * N - mass) * allowed).cwiseAbs().maxCoeff() <
                   tolerance * mass.maxCoeff());
            ASSERT(((N * inverse - MatrixXd::Identity(n, n)) * allowed).cwiseAbs().maxCoeff() < tolerance);
            const MatrixXd change = mass * (N - MatrixXd::Identity(n, n)) * allowed;
            for (int axis = 0; axis < 3; axis++) {
                VectorXd shift = VectorXd::Zero(n), turn = VectorXd::Zero(n);
                for (int i = 0; i < numAtoms; i++) {
                    shift[3 * i + axis] = 1;
                    turn.segment<3>(3 * i) = Eigen::Vector3d::Unit(axis).cross(Eigen::Vector3d(x.segment<3>(3 * i)));
                }
                ASSERT((shift.transpose() * change).cwiseAbs().maxCoeff() < 1e-9);
                ASSERT((N * shift - shift).cwiseAbs().maxCoeff() < tolerance);
                // The inertia of a bond is not along it.
                ASSERT(inertOf > 0 || (turn.transpose() * change).cwiseAbs().maxCoeff() < 1e-9);
            }
        }
    }
}
void testTheMassRootTurnsMassesIntoThoseWithInertias() {
    checkRoot<double>();
    checkRoot<Lanes>();
}

} // namespace

int main() {
    return checkClaims({CLAIM(testTheMassRootTurnsMassesIntoThoseWithInertias),
                        CLAIM(testLargeBlocksAreSparseAndSmallOnesFillLanes), CLAIM(testLoadedStateHasRates),
                        CLAIM(testTiedVelocitiesAreTheClosest), CLAIM(testMetricForceIsTheGradient),
                        CLAIM(testForcesAndNoiseAreThoseOfTheMassTensor), CLAIM(testBondsMayComeWithoutPairs),
                        CLAIM(testDriftSolvesItsEquations), CLAIM(testDriftOverLongWays),
                        CLAIM(testFailureIsNoticedInItsLane)});
}
