#ifndef STIFFCORE_PAIRS_PAIR_BATCH_H_
#define STIFFCORE_PAIRS_PAIR_BATCH_H_

#include "InertiaBatch.h"
#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>
#include <set>
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
 */
namespace stiffcore {

/** What all blocks of the same build have in common: their rows are those of pairs, in the order of the block's terms. */
struct PairPattern : InertiaPattern {
    /// The rows of constraints, with the masses alone, where these do not make up A.
    RowPattern<DistanceRow> constraints;
    bool hasPenalized = false, hasConstrained = false, hasPeriodic = false, hasRigidShape = false;

    PairPattern(const Block& block, const PairTerms& all, int leastSparse = MatrixLayout::minSparseSize)
            : InertiaPattern(block, makeRows(block, block.otherTerms, all.bonds),
                             makeRows(block, block.terms, all.pairs), false, leastSparse),
              constraints(constraintsAmong(rows.rows), numMobile, 0, leastSparse) {
        const int numConstrained = count(rows.rows, &DistanceRow::constrained);
        hasPenalized = numConstrained < (int) rows.rows.size();
        hasConstrained = numConstrained > 0;
        hasPeriodic = count(rows.rows, &DistanceRow::periodic) > 0;
        hasRigidShape = numParticles == numMobile && areAllDistancesConstrained();
    }

    bool hasBonds() const {
        return !bonds.empty();
    }

private:
    /** Then the shape is rigid. Constraints that depend on each other may be as many, and leave it flexible. */
    bool areAllDistancesConstrained() const {
        std::set<std::pair<int, int>> constrained;
        for (const DistanceRow& pair : rows.rows)
            if (pair.constrained)
                constrained.insert(std::minmax(pair.atoms[0], pair.atoms[1]));
        return (int) constrained.size() == numParticles * (numParticles - 1) / 2;
    }
    std::vector<DistanceRow> constraintsAmong(const std::vector<DistanceRow>& all) const {
        std::vector<DistanceRow> found;
        std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                     [](const DistanceRow& pair) { return pair.constrained; });
        if (bonds.empty() && found.size() == all.size())
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
template <class Real> struct PairBatch : InertiaBatch<Real, PairPattern> {
    using Workspace = PairWorkspace<Real>;
    /// For each pair the length it is constrained to [nm].
    std::vector<Real> lengths;
    /// Of constraints, which are sampled as by other integrators: the diagonal of G M^-1 G^T with their regularization,
    /// and its couplings; and the matrix if it is large.
    std::vector<Real> ofMasses, addedToMasses, couplingsOfMasses;
    std::unique_ptr<SparseMatrix<Real>> sparseOfConstraints;
    /// With bonds, for each group what turns M^-1/2 times random numbers into W^1/2 times such, by rows.
    std::vector<std::vector<Real>> noiseRoot;
    /// The positions at which a large matrix was factored last.
    std::unique_ptr<std::vector<Vector3<double>>> factoredAt;

    PairBatch(const PairPattern& pattern, const std::vector<const Block*>& blocks, const PairTerms& terms,
              const std::vector<double>& masses)
            : InertiaBatch<Real, PairPattern>(pattern, blocks, masses), lengths(this->numRows()) {
        for (int lane = 0; lane < this->numLanes; lane++)
            for (int i = 0; i < this->numMobile; i++)
                this->masses[lane].push_back(masses[this->particles[lane][i]]);
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
        this->setInertias(terms);
        for (int lane = 0; lane < this->numLanes; lane++) {
            for (int p = 0; p < this->numRows(); p++)
                LaneTraits<Real>::lane(lengths[p], lane) = this->getTerm(terms, p, lane).distance;
            if (this->pattern->hasBonds())
                invertMasses(lane, terms.bonds);
        }
        derive();
        if (factoredAt)
            factoredAt->clear();
    }

    /** Call visit with each number in which blocks of the same build may differ. Those that follow are derive()d. */
    template <class Visit> void visitParameters(Visit&& visit) {
        for (int i = 0; i < this->numMobile; i++)
            visit(this->inverseMasses[i]);
        for (int p = 0; p < this->numRows(); p++)
            visit(this->row(p).constrained ? lengths[p] : this->inverseInertias[p]);
        for (auto* matrices : {&this->W, &noiseRoot})
            for (auto& matrix : *matrices)
                for (Real& entry : matrix)
                    visit(entry);
    }
    void derive() {
        this->deriveRows();
        for (auto* numbers : {&ofMasses, &addedToMasses, &couplingsOfMasses})
            numbers->clear();
        const RowPattern<DistanceRow>& constraints = this->pattern->constraints;
        for (const DistanceRow& pair : constraints.rows) {
            ofMasses.push_back(
                    this->couple(pair, pair, [&](int i, int j) { return i == j ? this->inverseMasses[i] : Real(0); }));
            addedToMasses.push_back(getRowRegularization<Real>() * ofMasses.back());
        }
        for (const auto& [p, a, q, b] : constraints.schur.couplings) {
            const int atom = constraints.rows[p].groups[a];
            couplingsOfMasses.push_back(this->couple(constraints.rows[p], constraints.rows[q], [&](int i, int j) {
                return i == atom && j == atom ? this->inverseMasses[atom] : Real(0);
            }));
        }
    }

private:
    /** W, and the matrix C with C C^T = W that is to act on M^-1/2 xi: by Cholesky's factors, in double precision. */
    void invertMasses(int lane, const std::vector<PairInertia>& inertias) {
        const PairPattern& pattern = *this->pattern;
        std::vector<Eigen::MatrixXd> ofGroups(pattern.groups.size());
        this->W.resize(ofGroups.size());
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
            for (const auto& [matrix, values] : {std::pair(&inverse, &this->W[g]), std::pair(&root, &noiseRoot[g])}) {
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
            for (const auto* sparse : {batch.sparse.get(), batch.sparseOfConstraints.get()})
                reserve(inverse, sparse ? sparse->values.size() : numConstraints * numConstraints);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_PAIR_BATCH_H_ */
