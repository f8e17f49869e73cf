#ifndef STIFFCORE_PAIRS_PAIR_BATCH_H_
#define STIFFCORE_PAIRS_PAIR_BATCH_H_

#include "../batch/Batches.h"
#include "../model/PenalizedPair.h"
#include "../model/Sets.h"
#include "../rows/Rows.h"
#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

/**
 * Pairs of particles whose distances s_p carry an extra inertia kappa_p, or are constrained, which is an infinite one:
 * the extended system of methods with a mass penalty. Bonds may have an inertia of the relative velocity of their
 * atoms, so that the matrix of the masses is
 *
 *     M' = M + sum_b lambda_b (e_i - e_j) (e_i - e_j)^T (x) 1
 *
 * (Bennett 1975, restricted to bonds), and its inverse W has an entry for any two atoms of a group that such bonds
 * connect. Of a bond that has one atom, it is that of this atom. Atoms that pairs or such bonds connect form a block.
 */
namespace stiffcore {

/** A pair by the places of its particles in their block. */
struct PatternPair : DistanceRow {
    bool periodic, constrained;
};

/** What all blocks of the same build have in common. */
struct PairPattern {
    int numParticles, numMobile;
    /// Bonds with an inertia, twice the same atom where there is no second one; and the groups of mobile atoms that
    /// they connect, of one atom where there are none.
    std::vector<std::array<int, 2>> bonds;
    /// For each mobile atom its group, and its place there.
    std::vector<int> groupOf, placeInGroup;
    std::vector<std::vector<int>> groups;
    /// For each group its bonds, of which one atom may be fixed.
    std::vector<std::vector<int>> bondsOf;
    /// The rows of the matrix A = G W G^T + 1/kappa.
    RowPattern<PatternPair> rows;
    /// Those of constraints among them, with the masses alone, where these do not make up A.
    RowPattern<PatternPair> constraints;
    bool hasPenalized = false, hasConstrained = false, hasPeriodic = false, hasRigidShape = false;

    PairPattern(const Block& block, const PairTerms& all, int leastSparse = MatrixLayout::minSparseSize)
            : numParticles(block.particles.size()), numMobile(block.numMobile), bonds(localBonds(block, all)),
              groups(connectBonds()), bondsOf(groups.size()),
              rows(reachingPairs(block, all.pairs), groups.size(), 0, leastSparse),
              constraints(constraintsAmong(rows.rows), numMobile, 0, leastSparse) {
        for (size_t b = 0; b < bonds.size(); b++) {
            const int atom = std::min(bonds[b][0], bonds[b][1]); // mobile, if one of them is
            if (atom < numMobile)
                bondsOf[groupOf[atom]].push_back(b);
        }
        int numConstrained = 0;
        for (const PatternPair& pair : rows.rows) {
            hasPenalized |= !pair.constrained;
            hasConstrained |= pair.constrained;
            hasPeriodic |= pair.periodic;
            numConstrained += pair.constrained;
        }
        hasRigidShape = numParticles == numMobile && numConstrained >= std::max(1, 3 * numParticles - 6);
    }

    bool hasBonds() const {
        return !bonds.empty();
    }
    bool isLarge() const {
        return rows.isLarge();
    }

    static std::vector<std::string> describeShared(const PairTerms&) {
        return {};
    }

    /** The build of a block. */
    static std::vector<int> describe(const Block& block, const PairTerms& all) {
        std::vector<int> build = {(int) block.particles.size(), block.numMobile, (int) block.terms.size()};
        for (const PatternPair& pair : localPairs(block, all.pairs))
            build.insert(build.end(), {pair.atoms[0], pair.atoms[1], pair.periodic, pair.constrained});
        for (const auto& [i, j] : localBonds(block, all))
            build.insert(build.end(), {i, j});
        return build;
    }

private:
    static std::vector<PatternPair> localPairs(const Block& block, const std::vector<PenalizedPair>& pairs) {
        std::vector<PatternPair> local;
        for (int t : block.terms) {
            const PenalizedPair& pair = pairs[t];
            const int p = local.size();
            local.push_back({{{block.findPlace(pair.particle1), block.findPlace(pair.particle2)}, p},
                             pair.periodic,
                             pair.isConstrained()});
        }
        return local;
    }
    static std::vector<std::array<int, 2>> localBonds(const Block& block, const PairTerms& all) {
        std::vector<std::array<int, 2>> local;
        for (int t : block.otherTerms) {
            const auto& [i, j, inertia] = all.bonds[t];
            local.push_back({block.findPlace(i), block.findPlace(j < 0 ? i : j)});
        }
        return local;
    }
    std::vector<PatternPair> constraintsAmong(const std::vector<PatternPair>& all) const {
        std::vector<PatternPair> found;
        if (bonds.empty() &&
            std::all_of(all.begin(), all.end(), [](const PatternPair& pair) { return pair.constrained; }))
            return found;
        for (PatternPair pair : all)
            if (pair.constrained) {
                pair.groups.clear();
                for (int atom : pair.atoms)
                    if (atom < numMobile)
                        pair.groups.push_back(atom);
                found.push_back(pair);
            }
        return found;
    }
    std::vector<std::vector<int>> connectBonds() {
        groupOf.resize(numMobile);
        placeInGroup.resize(numMobile);
        Sets sets(numMobile);
        for (const auto& [i, j] : bonds)
            if (std::max(i, j) < numMobile)
                sets.join(i, j);
        const std::vector<std::vector<int>> found = sets.collect();
        for (size_t group = 0; group < found.size(); group++)
            for (size_t place = 0; place < found[group].size(); place++) {
                groupOf[found[group][place]] = group;
                placeInGroup[found[group][place]] = place;
            }
        return found;
    }
    /** The pairs, with the groups and atoms that they reach. */
    std::vector<PatternPair> reachingPairs(const Block& block, const std::vector<PenalizedPair>& pairs) const {
        std::vector<PatternPair> local = localPairs(block, pairs);
        int numWeights = 0;
        for (PatternPair& pair : local) {
            for (int atom : pair.atoms)
                if (atom < numMobile && (pair.groups.empty() || pair.groups[0] != groupOf[atom]))
                    pair.groups.push_back(groupOf[atom]);
            pair.firstWeight = numWeights;
            for (int group : pair.groups)
                pair.reached.insert(pair.reached.end(), groups[group].begin(), groups[group].end());
            numWeights += pair.reached.size();
        }
        return local;
    }
};

template <class Real> struct PairWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct PairBatch : RowBatch<Real, PatternPair> {
    using Pattern = PairPattern;
    using Terms = PairTerms;
    using Workspace = PairWorkspace<Real>;
    const PairPattern* pattern;
    /// For each pair 1/kappa, 0 if it is constrained [1/dalton]; and the length it is constrained to [nm].
    std::vector<Real> inverseInertias, lengths;
    /// D, which is 1/kappa or, for a constraint, the regularization; and the diagonal of G W G^T [1/dalton].
    std::vector<Real> added, inverseReducedMasses;
    /// Of constraints, which are sampled as by other integrators: the same of G M^-1 G^T with their regularization, and
    /// its couplings; and the matrix if it is large.
    std::vector<Real> ofMasses, addedToMasses, couplingsOfMasses;
    std::unique_ptr<SparseMatrix<Real>> sparseOfConstraints;
    /// With bonds, for each group: W, and what turns M^-1/2 times random numbers into W^1/2 times such, by rows.
    std::vector<std::vector<Real>> W, noiseRoot;
    /// The positions at which a large matrix was factored last.
    std::unique_ptr<std::vector<Vector3<double>>> factoredAt;

    PairBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks, const PairTerms& terms,
              const std::vector<double>& masses)
            : RowBatch<Real, PatternPair>(pattern, pattern.rows, blocks, masses), pattern(&pattern) {
        for (auto* numbers : {&inverseInertias, &lengths})
            numbers->resize(this->numRows());
        for (int lane = 0; lane < this->numLanes; lane++) {
            const Block& block = *blocks[std::min(lane, this->count - 1)];
            for (int i = 0; i < this->numMobile; i++)
                this->masses[lane].push_back(masses[block.particles[i]]);
        }
        if constexpr (std::is_same_v<Real, double>)
            if (pattern.constraints.isLarge())
                sparseOfConstraints = std::make_unique<SparseMatrix<double>>(pattern.constraints.schur.layout);
        if (this->sparse) {
            factoredAt = std::make_unique<std::vector<Vector3<double>>>();
            factoredAt->reserve(pattern.numParticles);
        }
        setParameters(terms);
    }

    void setParameters(const PairTerms& terms) {
        for (int p = 0; p < this->numRows(); p++) {
            for (int lane = 0; lane < this->numLanes; lane++) {
                const PenalizedPair& pair = terms.pairs[this->terms[lane][p]];
                LaneTraits<Real>::lane(inverseInertias[p], lane) = 1 / pair.inertia;
                LaneTraits<Real>::lane(lengths[p], lane) = pair.distance;
            }
        }
        if (pattern->hasBonds())
            for (int lane = 0; lane < this->numLanes; lane++)
                invertMasses(lane, terms.bonds);
        derive();
        if (factoredAt)
            factoredAt->clear();
    }

    /** Call visit with each number in which blocks of the same build may differ. Those that follow are derive()d. */
    template <class Visit> void visitParameters(Visit&& visit) {
        for (int i = 0; i < this->numMobile; i++)
            visit(this->inverseMasses[i]);
        for (int p = 0; p < this->numRows(); p++)
            visit(this->row(p).constrained ? lengths[p] : inverseInertias[p]);
        for (auto* matrices : {&W, &noiseRoot})
            for (auto& matrix : *matrices)
                for (Real& entry : matrix)
                    visit(entry);
    }
    void derive() {
        const std::vector<Coupling>& couplings = this->rowPattern->schur.couplings;
        auto mobility = [&](int i, int j) { return getMobility(i, j); };
        auto ofMass = [&](int i, int j) { return i == j ? this->inverseMasses[i] : Real(0); };
        for (auto* numbers : {&added, &inverseReducedMasses, &ofMasses, &addedToMasses, &this->couplings,
                              &couplingsOfMasses, &this->weights})
            numbers->clear();
        for (int p = 0; p < this->numRows(); p++) {
            const PatternPair& pair = this->row(p);
            for (int atom : pair.reached)
                this->weights.push_back(sumOver(pair, [&](int i) { return mobility(atom, i); }));
            inverseReducedMasses.push_back(couple(pair, pair, mobility));
            added.push_back(pair.constrained ? Real(getRowRegularization<Real>() * inverseReducedMasses[p])
                                             : inverseInertias[p]);
        }
        for (const Coupling& coupling : couplings) {
            // Rows may be coupled by two groups, of each other's atoms.
            const int group = this->row(coupling.p).groups[coupling.a];
            this->couplings.push_back(couple(this->row(coupling.p), this->row(coupling.q), [&](int i, int j) {
                return pattern->groupOf[i] == group ? mobility(i, j) : Real(0);
            }));
        }
        const RowPattern<PatternPair>& constraints = pattern->constraints;
        for (const PatternPair& pair : constraints.rows) {
            ofMasses.push_back(couple(pair, pair, ofMass));
            addedToMasses.push_back(getRowRegularization<Real>() * ofMasses.back());
        }
        for (const auto& [p, a, q, b] : constraints.schur.couplings) {
            const int atom = constraints.rows[p].groups[a];
            couplingsOfMasses.push_back(couple(constraints.rows[p], constraints.rows[q], [&](int i, int j) {
                return i == atom && j == atom ? this->inverseMasses[atom] : Real(0);
            }));
        }
    }

    /** The entry of W for two mobile atoms, 0 if they are not in the same group. */
    Real getMobility(int i, int j) const {
        const int group = pattern->groupOf[i];
        if (group != pattern->groupOf[j])
            return Real(0);
        if (W.empty() || W[group].empty())
            return this->inverseMasses[i];
        return W[group][pattern->placeInGroup[i] * pattern->groups[group].size() + pattern->placeInGroup[j]];
    }

private:
    /** number(second atom) - number(first atom) of a pair, for mobile atoms. */
    template <class Number> Real sumOver(const PatternPair& pair, Number&& number) const {
        Real sum = 0;
        if (pair.atoms[1] < this->numMobile)
            sum += number(pair.atoms[1]);
        if (pair.atoms[0] < this->numMobile)
            sum -= number(pair.atoms[0]);
        return sum;
    }
    template <class Matrix> Real couple(const PatternPair& p, const PatternPair& q, Matrix&& matrix) const {
        return sumOver(p, [&](int i) { return sumOver(q, [&](int j) { return Real(matrix(i, j)); }); });
    }

    /** W, and the matrix C with C C^T = W that is to act on M^-1/2 xi: by Cholesky's factors, in double precision. */
    void invertMasses(int lane, const std::vector<PairInertia>& bonds) {
        const int numGroups = pattern->groups.size();
        W.resize(numGroups);
        noiseRoot.resize(numGroups);
        for (int g = 0; g < numGroups; g++) {
            const std::vector<int>& group = pattern->groups[g];
            const int n = group.size();
            if (pattern->bondsOf[g].empty())
                continue;
            Eigen::MatrixXd M = Eigen::MatrixXd::Zero(n, n);
            Eigen::VectorXd roots(n);
            for (int i = 0; i < n; i++) {
                M(i, i) = masses[lane][group[i]];
                roots[i] = std::sqrt(M(i, i));
            }
            for (int b : pattern->bondsOf[g]) {
                const int i = pattern->bonds[b][0], j = pattern->bonds[b][1];
                const double inertia = bonds[this->otherTerms[lane][b]].inertia;
                auto add = [&](int a, int b, double value) {
                    if (std::max(a, b) < this->numMobile)
                        M(pattern->placeInGroup[a], pattern->placeInGroup[b]) += value;
                };
                add(i, i, inertia);
                if (i == j)
                    continue; // it has no second atom
                add(j, j, inertia);
                add(i, j, -inertia);
                add(j, i, -inertia);
            }
            const Eigen::MatrixXd inverse = M.llt().solve(Eigen::MatrixXd::Identity(n, n));
            const Eigen::MatrixXd root = Eigen::MatrixXd(inverse.llt().matrixL()) * roots.asDiagonal();
            W[g].resize(n * n);
            noiseRoot[g].resize(n * n);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++) {
                    LaneTraits<Real>::lane(W[g][i * n + j], lane) = inverse(i, j);
                    LaneTraits<Real>::lane(noiseRoot[g][i * n + j], lane) = root(i, j);
                }
        }
    }

    // For each lane, the masses of its mobile atoms.
    std::array<std::vector<double>, BlockBatch<Real>::numLanes> masses;
};

/** The scratch memory of one thread. */
template <class Real> struct PairWorkspace : RowWorkspace<Real> {
    /// For each particle: random numbers, and positions where a solve starts [nm]; for each of a group something.
    Vectors3<Real> noise, start, ofGroup;
    /// For each pair: its direction before a motion (after it, it is its gradient), and a sum of neighbours'
    /// directions.
    Vectors3<Real> gradientsBefore, y;
    /// For each pair: its length [nm], the auxiliary coordinate z [nm] and its velocity w [nm/ps], the noise of that,
    /// and a correction of the multipliers.
    std::vector<Real> r, z, w, pairNoise, correction;
    /// A small matrix that is not symmetric, a small one of constraints alone, and the inverse of A or of that one.
    std::vector<Real> newtonMatrix, matrixOfConstraints, inverse;

    PairWorkspace(const std::vector<PairBatch<Real>>& all, const PairTerms&) : RowWorkspace<Real>(all) {
        for (auto* vectors : {&noise, &start, &ofGroup})
            vectors->resize(this->x.size());
        for (auto* vectors : {&gradientsBefore, &y})
            vectors->resize(this->numRows);
        for (auto* values : {&r, &z, &w, &pairNoise, &correction})
            values->resize(this->numRows);
        for (auto* values : {&newtonMatrix, &inverse})
            values->resize(this->numValues);
        // The entries of the inverse of a large matrix are as many as its own.
        auto reserve = [](std::vector<Real>& values, size_t size) { values.resize(std::max(values.size(), size)); };
        for (const auto& batch : all) {
            const size_t numConstraints = batch.pattern->constraints.rows.size();
            if (!batch.sparseOfConstraints)
                reserve(matrixOfConstraints, numConstraints * numConstraints);
            reserve(inverse, batch.sparseOfConstraints ? batch.sparseOfConstraints->values.size()
                                                       : numConstraints * numConstraints);
            if (batch.sparse)
                reserve(inverse, batch.sparse->values.size());
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_PAIR_BATCH_H_ */
