#ifndef STIFFCORE_PAIRS_PAIR_BATCH_H_
#define STIFFCORE_PAIRS_PAIR_BATCH_H_

#include "../batch/Batches.h"
#include "../model/PairInertia.h"
#include "../model/Sets.h"
#include "../rows/Rows.h"
#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
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
 * Its matrix is A = G W G^T + 1/kappa.
 *
 * The root of the masses (see MassRoot.h) has rows of these bonds, too, and W = M^-1.
 */
namespace stiffcore {

/**
 * What all blocks of the same build have in common. Their rows are those of pairs, in the order of the block's terms;
 * of the root those of constraints, of the three axes of each bond with an inertia, and of pairs.
 */
struct PairPattern {
    using RowType = DistanceRow;
    /// So many connected constraints, and their neighbours, may be a dense part of the matrix of a root.
    static constexpr int maxConnected = 40;
    int numParticles, numMobile;
    bool ofRoot, hasManyConnected;
    /// Bonds whose inertia belongs to the masses.
    std::vector<DistanceRow> bonds;
    /// For each mobile atom its group, and its place there; and the groups that bonds connect, of one atom where there
    /// are none.
    std::vector<int> groupOf, placeInGroup;
    std::vector<std::vector<int>> groups;
    RowPattern<DistanceRow> rows;
    /// The rows of constraints, with the masses alone, where these do not make up A.
    RowPattern<DistanceRow> constraints;
    bool hasConstrained = false, hasPeriodic = false;
    /// Whether there are forces of the metric (see addMetricForces()): not if there is no A, or it is that of the
    /// constraints, or its determinant is constant.
    bool hasMetric = false;

    PairPattern(const Block& block, const PairTerms& all, int leastSparse = MatrixLayout::minSparseSize)
            : PairPattern(block, all, all.ofRoot ? makeRootRows(block, all) : makeRows(block, block.terms, all.pairs),
                          all.ofRoot ? MatrixLayout::minSparseSize : leastSparse) {
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
        for (const auto& rows : {makeRows(block, block.terms, all.pairs), makeRows(block, block.otherTerms, all.bonds)})
            for (const DistanceRow& row : rows)
                build.insert(build.end(), {row.atoms[0], row.atoms[1], row.periodic, row.constrained});
        return build;
    }

    /** Whether mobile atoms connect more constraints than may be a dense part. */
    static bool hasManyConnectedIn(const Block& block, const PairTerms& all) {
        Sets sets(block.numMobile);
        std::vector<int> first, count(block.numMobile);
        for (const DistanceRow& row : makeRows(block, block.terms, all.pairs)) {
            const auto [i, j] = std::minmax(row.atoms[0], row.atoms[1]);
            if (row.constrained)
                first.push_back(i); // which is mobile
            if (row.constrained && j < block.numMobile)
                sets.join(i, j);
        }
        return std::any_of(first.begin(), first.end(), [&](int i) { return ++count[sets.find(i)] > maxConnected; });
    }

private:
    PairPattern(const Block& block, const PairTerms& all, const std::vector<DistanceRow>& own, int leastSparse)
            : numParticles(block.particles.size()), numMobile(block.numMobile), ofRoot(all.ofRoot),
              hasManyConnected(ofRoot && hasManyConnectedIn(block, all)),
              bonds(ofRoot ? std::vector<DistanceRow>() : makeRows(block, block.otherTerms, all.bonds)),
              groups(connectBonds()),
              rows(reachAtoms(own), groups.size(),
                   ofRoot && !hasManyConnected ? count(own, &DistanceRow::constrained) : 0, leastSparse),
              constraints(findConstraints(), numMobile, 0, leastSparse) {
        const int numConstrained = count(own, &DistanceRow::constrained);
        hasConstrained = numConstrained > 0;
        hasPeriodic = count(own, &DistanceRow::periodic) > 0;
        const bool hasPenalized = numConstrained < (int) own.size();
        const bool isRigid = numParticles == numMobile && areAllDistancesConstrained(own);
        hasMetric = !ofRoot && (hasPenalized || (hasConstrained && !bonds.empty() && !isRigid));
    }
    /** Then the shape is rigid. Constraints that depend on each other may be as many, and leave it flexible. */
    bool areAllDistancesConstrained(const std::vector<DistanceRow>& own) const {
        std::set<std::pair<int, int>> constrained;
        for (const DistanceRow& pair : own)
            if (pair.constrained)
                constrained.insert(std::minmax(pair.atoms[0], pair.atoms[1]));
        return (int) constrained.size() == numParticles * (numParticles - 1) / 2;
    }
    static int count(const std::vector<DistanceRow>& rows, bool DistanceRow::*flag) {
        return std::count_if(rows.begin(), rows.end(), [&](const DistanceRow& row) { return row.*flag; });
    }
    /** Rows of distances, of some terms of a block. */
    static std::vector<DistanceRow> makeRows(const Block& block, const std::vector<int>& terms,
                                             const std::vector<PairInertia>& all) {
        std::vector<DistanceRow> rows;
        for (int t : terms) {
            const int i = all[t].particle1, j = all[t].particle2, term = rows.size();
            rows.push_back({{block.findPlace(i), block.findPlace(j < 0 ? i : j)},
                            term,
                            all[t].periodic,
                            all[t].isConstrained()});
        }
        return rows;
    }
    static std::vector<DistanceRow> makeRootRows(const Block& block, const PairTerms& all) {
        std::vector<DistanceRow> rows;
        for (DistanceRow row : makeRows(block, block.otherTerms, all.bonds))
            for (row.axis = 0; row.axis < 3; row.axis++)
                rows.push_back(row);
        for (const DistanceRow& row : makeRows(block, block.terms, all.pairs))
            rows.push_back(row);
        std::stable_partition(rows.begin(), rows.end(), [](const DistanceRow& row) { return row.constrained; });
        return rows;
    }
    std::vector<std::vector<int>> connectBonds() {
        groupOf.resize(numMobile);
        placeInGroup.resize(numMobile);
        Sets sets(numMobile);
        for (const DistanceRow& bond : bonds)
            if (std::max(bond.atoms[0], bond.atoms[1]) < numMobile)
                sets.join(bond.atoms[0], bond.atoms[1]);
        const std::vector<std::vector<int>> found = sets.collect();
        for (size_t group = 0; group < found.size(); group++)
            for (size_t place = 0; place < found[group].size(); place++) {
                groupOf[found[group][place]] = group;
                placeInGroup[found[group][place]] = place;
            }
        return found;
    }
    /** The rows, with their gradients and the groups and atoms that they reach. */
    std::vector<DistanceRow> reachAtoms(std::vector<DistanceRow> all) const {
        int numRows = 0, numWeights = 0;
        for (DistanceRow& row : all) {
            row.firstGradient = numRows++;
            row.firstWeight = numWeights;
            for (int atom : row.atoms)
                if (atom < numMobile && (row.groups.empty() || row.groups[0] != groupOf[atom])) {
                    const std::vector<int>& group = groups[groupOf[atom]];
                    row.groups.push_back(groupOf[atom]);
                    row.reached.insert(row.reached.end(), group.begin(), group.end());
                }
            numWeights += row.reached.size();
        }
        return all;
    }
    std::vector<DistanceRow> findConstraints() const {
        std::vector<DistanceRow> found;
        if (ofRoot)
            return found;
        std::copy_if(rows.rows.begin(), rows.rows.end(), std::back_inserter(found),
                     [](const DistanceRow& pair) { return pair.constrained; });
        if (bonds.empty() && found.size() == rows.rows.size())
            found.clear();
        for (DistanceRow& pair : found) {
            pair.groups.clear();
            std::copy_if(pair.atoms.begin(), pair.atoms.end(), std::back_inserter(pair.groups),
                         [&](int atom) { return atom < numMobile; });
        }
        return found;
    }
};

template <class Real> struct PairWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct PairBatch : RowBatch<Real, PairPattern> {
    using Terms = PairTerms;
    using Workspace = PairWorkspace<Real>;
    /// For each row 1/kappa, 0 if it is constrained [1/dalton], and the length it is constrained to [nm].
    std::vector<Real> inverseInertias, lengths;
    /// D, which is 1/kappa or, for a constraint, the regularization; and the diagonal of G W G^T [1/dalton].
    std::vector<Real> added, inverseReducedMasses;
    /// Of constraints, which are sampled as by other integrators: the diagonal of G M^-1 G^T with their regularization,
    /// and its couplings; and the matrix if it is large.
    std::vector<Real> ofMasses, addedToMasses, couplingsOfMasses;
    std::unique_ptr<SparseMatrix<Real>> sparseOfConstraints;
    /// With bonds, for each group W, and what turns M^-1/2 times random numbers into W^1/2 times such, by rows.
    std::vector<std::vector<Real>> W, noiseRoot;
    /// The positions at which a large matrix was factored last.
    std::unique_ptr<std::vector<Vector3<double>>> factoredAt;

    PairBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks, const PairTerms& terms,
              const std::vector<double>& masses)
            : RowBatch<Real, PairPattern>(pattern, blocks, masses), inverseInertias(this->numRows()),
              lengths(this->numRows()) {
        for (int lane = 0; lane < this->numLanes; lane++)
            for (int i = 0; i < this->numMobile; i++)
                this->masses[lane].push_back(masses[this->particles[lane][i]]);
        if constexpr (std::is_same_v<Real, double>)
            if (pattern.constraints.isLarge())
                sparseOfConstraints = std::make_unique<SparseMatrix<double>>(pattern.constraints.layout);
        if (this->sparse) {
            factoredAt = std::make_unique<std::vector<Vector3<double>>>();
            factoredAt->reserve(pattern.numParticles);
        }
        setParameters(terms);
    }

    void setParameters(const PairTerms& terms) {
        for (int lane = 0; lane < this->numLanes; lane++) {
            for (int p = 0; p < this->numRows(); p++) {
                const DistanceRow& row = this->row(p);
                const PairInertia& term = row.axis < 0 ? terms.pairs[this->terms[lane][row.term]]
                                                       : terms.bonds[this->otherTerms[lane][row.term]];
                LaneTraits<Real>::lane(inverseInertias[p], lane) = 1 / term.inertia;
                LaneTraits<Real>::lane(lengths[p], lane) = term.distance;
            }
            if (!this->pattern->bonds.empty())
                invertMasses(lane, terms.bonds);
        }
        derive();
        if (factoredAt)
            factoredAt->clear();
    }

    /** The entry of W for two mobile atoms, 0 if they are not in the same group. */
    Real getMobility(int i, int j) const {
        const int group = this->pattern->groupOf[i];
        if (group != this->pattern->groupOf[j])
            return Real(0);
        if (W.empty() || W[group].empty())
            return this->inverseMasses[i];
        return W[group]
                [this->pattern->placeInGroup[i] * this->pattern->groups[group].size() + this->pattern->placeInGroup[j]];
    }

    /** Call visit with each number in which blocks of the same build may differ. Those that follow are derive()d. */
    template <class Visit> void visitParameters(Visit&& visit) {
        for (int i = 0; i < this->numMobile; i++)
            visit(this->inverseMasses[i]);
        for (int p = 0; p < this->numRows(); p++)
            if (this->row(p).axis <= 0) // a bond has one inertia
                visit(this->row(p).constrained ? lengths[p] : inverseInertias[p]);
        for (auto* matrices : {&W, &noiseRoot})
            for (auto& matrix : *matrices)
                for (Real& entry : matrix)
                    visit(entry);
    }
    void derive() {
        for (auto* numbers : {&added, &inverseReducedMasses, &this->couplings, &this->weights, &ofMasses,
                              &addedToMasses, &couplingsOfMasses})
            numbers->clear();
        auto mobility = [&](int i, int j) { return getMobility(i, j); };
        for (int p = 0; p < this->numRows(); p++) {
            const DistanceRow& row = this->row(p);
            if (row.axis > 0)
                inverseInertias[p] = inverseInertias[p - 1];
            for (int atom : row.reached)
                this->weights.push_back(sumOver(row, [&](int i) { return mobility(atom, i); }));
            inverseReducedMasses.push_back(couple(row, row, mobility));
            added.push_back(row.constrained ? Real(getRowRegularization<Real>() * inverseReducedMasses[p])
                                            : inverseInertias[p]);
        }
        for (const auto& [p, a, q, b] : this->rowPattern->couplings) {
            // Rows may be coupled by two groups, of each other's atoms.
            const int group = this->row(p).groups[a];
            this->couplings.push_back(couple(this->row(p), this->row(q), [&](int i, int j) {
                return this->pattern->groupOf[i] == group ? mobility(i, j) : Real(0);
            }));
        }
        const RowPattern<DistanceRow>& constraints = this->pattern->constraints;
        for (const DistanceRow& pair : constraints.rows) {
            ofMasses.push_back(
                    couple(pair, pair, [&](int i, int j) { return i == j ? this->inverseMasses[i] : Real(0); }));
            addedToMasses.push_back(getRowRegularization<Real>() * ofMasses.back());
        }
        for (const auto& [p, a, q, b] : constraints.couplings) {
            const int atom = constraints.rows[p].groups[a];
            couplingsOfMasses.push_back(couple(constraints.rows[p], constraints.rows[q], [&](int i, int j) {
                return i == atom && j == atom ? this->inverseMasses[atom] : Real(0);
            }));
        }
    }

private:
    template <class Matrix> Real couple(const DistanceRow& p, const DistanceRow& q, Matrix&& matrix) const {
        return sumOver(p, [&](int i) { return sumOver(q, [&](int j) { return Real(matrix(i, j)); }); });
    }
    /** number(second atom) - number(first atom) of a row, for mobile atoms; of one atom its number. */
    template <class Number> Real sumOver(const DistanceRow& row, Number&& number) const {
        const auto& [i, j] = row.atoms;
        Real sum = 0;
        if (j < this->numMobile)
            sum += number(j);
        if (i < this->numMobile && i != j)
            sum -= number(i);
        return sum;
    }
    /** W, and the matrix C with C C^T = W that is to act on M^-1/2 xi: by Cholesky's factors, in double precision. */
    void invertMasses(int lane, const std::vector<PairInertia>& inertias) {
        const PairPattern& pattern = *this->pattern;
        std::vector<Eigen::MatrixXd> ofGroups(pattern.groups.size());
        W.resize(ofGroups.size());
        noiseRoot.resize(ofGroups.size());
        for (const DistanceRow& bond : pattern.bonds) {
            const auto& [i, j] = bond.atoms;
            const int group = pattern.groupOf[std::min(i, j)]; // that atom is mobile
            const double inertia = inertias[this->otherTerms[lane][bond.term]].inertia;
            Eigen::MatrixXd& M = ofGroups[group];
            if (M.size() == 0)
                M = getMasses(lane, pattern.groups[group]).asDiagonal();
            auto add = [&](int a, int b, double value) {
                if (std::max(a, b) < this->numMobile)
                    M(pattern.placeInGroup[a], pattern.placeInGroup[b]) += value;
            };
            add(i, i, inertia);
            if (i == j)
                continue; // it has no second atom
            add(j, j, inertia);
            add(i, j, -inertia);
            add(j, i, -inertia);
        }
        for (size_t g = 0; g < ofGroups.size(); g++) {
            const int n = ofGroups[g].rows();
            if (n == 0)
                continue;
            const Eigen::MatrixXd inverse = ofGroups[g].llt().solve(Eigen::MatrixXd::Identity(n, n));
            const Eigen::VectorXd roots = getMasses(lane, pattern.groups[g]).cwiseSqrt();
            const Eigen::MatrixXd root = Eigen::MatrixXd(inverse.llt().matrixL()) * roots.asDiagonal();
            for (const auto& [matrix, values] : {std::pair(&inverse, &W[g]), std::pair(&root, &noiseRoot[g])}) {
                values->resize(n * n);
                for (int k = 0; k < n * n; k++)
                    LaneTraits<Real>::lane((*values)[k], lane) = (*matrix)(k / n, k % n);
            }
        }
    }
    Eigen::VectorXd getMasses(int lane, const std::vector<int>& group) const {
        Eigen::VectorXd ofGroup(group.size());
        for (size_t i = 0; i < group.size(); i++)
            ofGroup[i] = masses[lane][group[i]];
        return ofGroup;
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
    /// Of the root, for each row s and 1/D; and the vectors of Lanczos' method.
    std::vector<Real> scales, inversePivots;
    std::vector<Vectors3<Real>> krylov;
    /// A small matrix that is not symmetric, a small one of constraints alone, and the inverse of A or of that one.
    std::vector<Real> newtonMatrix, matrixOfConstraints, inverse;

    PairWorkspace(const std::vector<PairBatch<Real>>& all, const PairTerms&) : RowWorkspace<Real>(all) {
        for (auto* vectors : {&noise, &start, &ofGroup})
            vectors->resize(this->x.size());
        for (auto* vectors : {&gradientsBefore, &y})
            vectors->resize(this->numRows);
        for (auto* values : {&r, &z, &w, &pairNoise, &correction, &scales, &inversePivots})
            values->resize(this->numRows);
        for (auto* values : {&newtonMatrix, &inverse})
            values->resize(this->numValues);
        // The entries of the inverse of a large matrix are as many as its own.
        auto reserve = [](std::vector<Real>& values, size_t size) { values.resize(std::max(values.size(), size)); };
        for (const auto& batch : all) {
            if (!batch.pattern->hasMetric)
                continue;
            const size_t numConstraints = batch.pattern->constraints.rows.size();
            if (!batch.sparseOfConstraints)
                reserve(matrixOfConstraints, numConstraints * numConstraints);
            for (const auto* sparse : {batch.sparse.get(), batch.sparseOfConstraints.get()})
                reserve(inverse, sparse ? sparse->values.size() : numConstraints * numConstraints);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_PAIR_BATCH_H_ */
