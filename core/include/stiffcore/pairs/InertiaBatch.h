#ifndef STIFFCORE_PAIRS_INERTIA_BATCH_H_
#define STIFFCORE_PAIRS_INERTIA_BATCH_H_

#include "../batch/Batches.h"
#include "../model/PairInertia.h"
#include "../model/Sets.h"
#include "../rows/Rows.h"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

/**
 * Rows with an inertia kappa, or of constraints, which is an infinite one, with the matrix A = G W G^T + 1/kappa. W is the
 * inverse of the masses, to which the inertia of some bonds may belong: it has an entry for any two atoms of a group that
 * these connect. See PairBatch and RootBatch.
 */
namespace stiffcore {

/** What all blocks of the same build have in common. */
struct InertiaPattern {
    using RowType = DistanceRow;
    int numParticles, numMobile;
    /// Bonds whose inertia belongs to the masses.
    std::vector<DistanceRow> bonds;
    /// For each mobile atom its group, and its place there; and the groups that bonds connect, of one atom where there are
    /// none.
    std::vector<int> groupOf, placeInGroup;
    std::vector<std::vector<int>> groups;
    RowPattern<DistanceRow> rows;

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

protected:
    /** @param constraintsFirst   whether constraints, which come first, are to be eliminated before all others */
    InertiaPattern(const Block& block, const std::vector<DistanceRow>& bonds, const std::vector<DistanceRow>& rows,
                   bool constraintsFirst, int leastSparse)
            : numParticles(block.particles.size()), numMobile(block.numMobile), bonds(bonds), groups(connectBonds()),
              rows(reachAtoms(rows), groups.size(), constraintsFirst ? count(rows, &DistanceRow::constrained) : 0,
                   leastSparse) {
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

private:
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
};

/** Some blocks with the same pattern, one a lane. */
template <class Real, class Pattern> struct InertiaBatch : RowBatch<Real, Pattern> {
    using Terms = PairTerms;
    /// For each row 1/kappa, 0 if it is constrained [1/dalton].
    std::vector<Real> inverseInertias;
    /// D, which is 1/kappa or, for a constraint, the regularization; and the diagonal of G W G^T [1/dalton].
    std::vector<Real> added, inverseReducedMasses;
    /// With bonds, for each group W by rows.
    std::vector<std::vector<Real>> W;

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

protected:
    InertiaBatch(const Pattern& pattern, const std::vector<const Block*>& blocks, const std::vector<double>& masses)
            : RowBatch<Real, Pattern>(pattern, blocks, masses), inverseInertias(this->numRows()) {
    }
    /** What the row of a lane is made of. */
    const PairInertia& getTerm(const PairTerms& all, int p, int lane) const {
        const DistanceRow& row = this->row(p);
        return row.axis < 0 ? all.pairs[this->terms[lane][row.term]] : all.bonds[this->otherTerms[lane][row.term]];
    }
    void setInertias(const PairTerms& all) {
        for (int p = 0; p < this->numRows(); p++)
            for (int lane = 0; lane < this->numLanes; lane++)
                LaneTraits<Real>::lane(inverseInertias[p], lane) = 1 / getTerm(all, p, lane).inertia;
    }
    /** From inertias and masses. */
    void deriveRows() {
        for (auto* numbers : {&added, &inverseReducedMasses, &this->couplings, &this->weights})
            numbers->clear();
        auto mobility = [&](int i, int j) { return getMobility(i, j); };
        for (int p = 0; p < this->numRows(); p++) {
            const DistanceRow& row = this->row(p);
            for (int atom : row.reached)
                this->weights.push_back(sumOver(row, [&](int i) { return mobility(atom, i); }));
            inverseReducedMasses.push_back(couple(row, row, mobility));
            added.push_back(row.constrained ? Real(getRowRegularization<Real>() * inverseReducedMasses[p])
                                            : inverseInertias[p]);
        }
        for (const auto& [p, a, q, b] : this->rowPattern->schur.couplings) {
            // Rows may be coupled by two groups, of each other's atoms.
            const int group = this->row(p).groups[a];
            this->couplings.push_back(couple(this->row(p), this->row(q), [&](int i, int j) {
                return this->pattern->groupOf[i] == group ? mobility(i, j) : Real(0);
            }));
        }
    }
    template <class Matrix> Real couple(const DistanceRow& p, const DistanceRow& q, Matrix&& matrix) const {
        return sumOver(p, [&](int i) { return sumOver(q, [&](int j) { return Real(matrix(i, j)); }); });
    }

private:
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
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_INERTIA_BATCH_H_ */
