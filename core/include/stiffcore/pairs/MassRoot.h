#ifndef STIFFCORE_PAIRS_MASS_ROOT_H_
#define STIFFCORE_PAIRS_MASS_ROOT_H_

#include "PairBatch.h"
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

/**
 * Velocities as others know them: u, which have the distribution of the masses M, in place of v = N u, by which a mass
 * penalty moves atoms, with
 *
 *     N^T (M' + G^T kappa G) N = M,
 *
 * so that 1/2 u^T M u is the kinetic energy of the extended system. N acts along pairs and bonds: momentum stays what
 * it is where no atom has an inertia of its own, and angular momentum where no bond has one; and it is continuous in
 * the positions and the inertias.
 *
 * The rows are those of constraints, of the three axes of each bond with an inertia, and of pairs. To add the inertia
 * kappa of one row g to masses M_k changes velocities along y = M_k^-1 g alone, by the factor s,
 *
 *     v <- v - (1 - s) y (g.v) / (g.y),    s = (1 + kappa g.y)^(-1/2)
 *
 * and N is the product of these for all rows. With L D L^T = A = G M^-1 G^T + 1/kappa, the y_k are the columns of
 * M^-1 G^T L^-T, and g_k.y_k = D_k - 1/kappa_k, so that s_k = (kappa_k D_k)^(-1/2). As matrices, S being diagonal with
 * s,
 *
 *     N = 1 - M^-1 G^T L^-T D^-1 (L + S)^-1 G,    N^-1 = 1 + M^-1 G^T (L + S)^-T (D S)^-1 G.
 *
 * A constraint has s = 0: what it forbids is lost. If constraints are eliminated first, that is an M-orthogonal
 * projection, and u is what others may have: N turns the velocities that are allowed into such. Where very many
 * constraints are connected (all bonds of a protein), that would fill the matrix; N is the power -1/2 of M^-1 (M' + G^T
 * kappa G) among the allowed velocities there, by Lanczos' method.
 */
namespace stiffcore {

/**
 * The row of a pair, or of one axis of a bond with an inertia; twice the same atom is one alone. Masses couple no atoms
 * here: a group is an atom.
 */
struct RootRow : DistanceRow {
    bool periodic, constrained;
    /// That of a bond; -1 of a pair. Which of the block's pairs, or bonds, it is.
    int axis, term;
};

template <class Real> Real computeRate(const RootRow& row, const Vector3<Real>* g, const Vector3<Real>* v) {
    const Vector3<Real>& u = g[row.firstGradient];
    const auto& [i, j] = row.atoms;
    return i == j ? Real(u.dot(v[j])) : Real(u.dot(v[j] - v[i]));
}

/** What all blocks of the same build have in common. */
struct RootPattern {
    /// So many connected constraints, and their neighbours, may be a dense part of the matrix.
    static constexpr int maxConnected = 40;
    int numParticles, numMobile;
    std::vector<RootRow> all;
    bool hasManyConnected;
    RowPattern<RootRow> rows;

    RootPattern(const Block& block, const PairTerms& terms)
            : numParticles(block.particles.size()), numMobile(block.numMobile), all(makeRows(block, terms)),
              hasManyConnected(hasManyConnectedIn(block, terms)),
              rows(all, numMobile, hasManyConnected ? 0 : countConstraints()) {
    }
    bool isLarge() const {
        return rows.isLarge();
    }
    /** Whether mobile atoms connect more constraints than may be a dense part. */
    static bool hasManyConnectedIn(const Block& block, const PairTerms& terms) {
        Sets sets(block.numMobile);
        std::map<int, int> count;
        int most = 0;
        auto forEachConstraint = [&](auto&& visit) {
            for (int t : block.terms)
                if (terms.pairs[t].isConstrained()) {
                    const auto [i, j] = std::minmax(
                            {block.findPlace(terms.pairs[t].particle1), block.findPlace(terms.pairs[t].particle2)});
                    visit(i, j);
                }
        };
        forEachConstraint([&](int i, int j) {
            if (j < block.numMobile)
                sets.join(i, j);
        });
        forEachConstraint([&](int i, int) { most = std::max(most, ++count[sets.find(i)]); });
        return most > maxConnected;
    }
    static std::vector<std::string> describeShared(const PairTerms&) {
        return {};
    }
    static std::vector<int> describe(const Block& block, const PairTerms& terms) {
        return PairPattern::describe(block, terms);
    }

private:
    static std::vector<RootRow> makeRows(const Block& block, const PairTerms& terms) {
        std::vector<RootRow> rows;
        int numWeights = 0;
        auto add = [&](const auto& particles, bool periodic, bool constrained, int axis, int term) {
            const int p = rows.size();
            const int i = particles.particle1, j = particles.particle2;
            RootRow row = {
                    {{block.findPlace(i), block.findPlace(j < 0 ? i : j)}, p}, periodic, constrained, axis, term};
            for (int atom : row.atoms)
                if (atom < block.numMobile && (row.groups.empty() || row.groups[0] != atom))
                    row.groups.push_back(atom);
            row.reached = row.groups;
            row.firstWeight = numWeights;
            numWeights += row.reached.size();
            rows.push_back(row);
        };
        auto addPairs = [&](bool constrained) {
            for (size_t t = 0; t < block.terms.size(); t++) {
                const PenalizedPair& pair = terms.pairs[block.terms[t]];
                if (pair.isConstrained() == constrained)
                    add(pair, pair.periodic, constrained, -1, t);
            }
        };
        addPairs(true);
        for (size_t t = 0; t < block.otherTerms.size(); t++)
            for (int axis = 0; axis < 3; axis++)
                add(terms.bonds[block.otherTerms[t]], false, false, axis, t);
        addPairs(false);
        return rows;
    }
    int countConstraints() const {
        return std::count_if(all.begin(), all.end(), [](const RootRow& row) { return row.constrained; });
    }
};

template <class Real> struct RootWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct RootBatch : RowBatch<Real, RootRow> {
    using Pattern = RootPattern;
    using Terms = PairTerms;
    using Workspace = RootWorkspace<Real>;
    const RootPattern* pattern;
    /// For each row 1/kappa, 0 if it is constrained; D, which is 1/kappa or, for a constraint, the regularization; and
    /// the diagonal of G M^-1 G^T [1/dalton].
    std::vector<Real> inverseInertias, added, inverseReducedMasses;

    RootBatch(const RootPattern& pattern, const std::vector<const Block*>& blocks, const PairTerms& terms,
              const std::vector<double>& masses)
            : RowBatch<Real, RootRow>(pattern, pattern.rows, blocks, masses), pattern(&pattern),
              inverseInertias(this->numRows()) {
        setParameters(terms);
    }
    void setParameters(const PairTerms& terms) {
        for (int p = 0; p < this->numRows(); p++)
            for (int lane = 0; lane < this->numLanes; lane++) {
                const RootRow& row = this->row(p);
                const double inertia = row.axis < 0 ? terms.pairs[this->terms[lane][row.term]].inertia
                                                    : terms.bonds[this->otherTerms[lane][row.term]].inertia;
                LaneTraits<Real>::lane(inverseInertias[p], lane) = 1 / inertia;
            }
        derive();
    }
    /** Call visit with each number in which blocks of the same build may differ. Those that follow are derive()d. */
    template <class Visit> void visitParameters(Visit&& visit) {
        for (int i = 0; i < this->numMobile; i++)
            visit(this->inverseMasses[i]);
        for (int p = 0; p < this->numRows(); p++)
            if (!this->row(p).constrained && this->row(p).axis <= 0)
                visit(inverseInertias[p]);
    }
    void derive() {
        for (auto* numbers : {&added, &inverseReducedMasses, &this->weights, &this->couplings})
            numbers->clear();
        auto isSecond = [&](int p, int atom) { return this->row(p).atoms[1] == atom; };
        for (int p = 0; p < this->numRows(); p++) {
            const RootRow& row = this->row(p);
            if (row.axis > 0)
                inverseInertias[p] = inverseInertias[p - 1];
            Real sum = 0;
            for (int atom : row.reached) {
                const Real& inverseMass = this->inverseMasses[atom];
                this->weights.push_back(isSecond(p, atom) ? inverseMass : Real(-inverseMass));
                sum += inverseMass;
            }
            inverseReducedMasses.push_back(sum);
            added.push_back(row.constrained ? Real(getRowRegularization<Real>() * sum) : inverseInertias[p]);
        }
        for (const Coupling& coupling : this->rowPattern->schur.couplings) {
            const int atom = this->row(coupling.p).groups[coupling.a];
            const Real& inverseMass = this->inverseMasses[atom];
            const bool same = isSecond(coupling.p, atom) == isSecond(coupling.q, atom);
            this->couplings.push_back(same ? inverseMass : Real(-inverseMass));
        }
    }
};

/** The scratch memory of one thread. */
template <class Real> struct RootWorkspace : RowWorkspace<Real> {
    /// For each row s and 1/D; of Lanczos' method its vectors.
    std::vector<Real> scales, inversePivots;
    std::vector<Vectors3<Real>> krylov;

    RootWorkspace(const std::vector<RootBatch<Real>>& batches, const PairTerms&) : RowWorkspace<Real>(batches) {
        scales.resize(this->numRows);
        inversePivots.resize(this->numRows);
    }
};

/** Get ready for the root at work.x. */
template <class Real>
[[gnu::flatten]] void factorRoot(const RootBatch<Real>& batch, const BoxFor<Real>& box, RootWorkspace<Real>& work) {
    using std::sqrt;
    const double tiny = 1e-200; // two particles in one place have no direction: 0
    for (int p = 0; p < batch.numRows(); p++) {
        const RootRow& row = batch.row(p);
        Vector3<Real>& u = work.gradients[p];
        if (row.axis >= 0) {
            u.setZero();
            u[row.axis] = 1;
            continue;
        }
        u = work.x[row.atoms[1]] - work.x[row.atoms[0]];
        if (row.periodic)
            u = box.minimumImage(u);
        u = u * Real(1 / sqrt(u.squaredNorm() + tiny));
    }
    const bool all = !batch.pattern->hasManyConnected;
    assembleRows(batch, batch.inverseReducedMasses, batch.couplings, batch.added, work,
                 [&](int p) { return all || batch.row(p).constrained; });
    factorRows(batch, work);
    for (int p = 0; p < batch.numRows(); p++) {
        work.inversePivots[p] = getInversePivot(batch.sparse.get(), batch.numRows(), work.matrixValues(batch), p);
        work.scales[p] = sqrt(batch.inverseInertias[p] * work.inversePivots[p]);
    }
}

/**
 * v <- (M^-1 (M' + G^T kappa G))^power v among the velocities that constraints allow, on which others are projected.
 */
inline void applyPower(const RootBatch<double>& batch, double power, RootWorkspace<double>& work) {
    const int maxIterations = 1000;
    const double tolerance = 1e-12;
    auto forEachAtom = [&](auto&& visit) {
        for (int i = 0; i < batch.numMobile; i++)
            visit(i);
    };
    auto multiply = [&](const Vectors3<double>& a, const Vectors3<double>& b) {
        double sum = 0;
        forEachAtom([&](int i) { sum += a[i].dot(b[i]) / batch.inverseMasses[i]; });
        return sum;
    };
    auto push = [&](bool constraints, Vectors3<double>& v) {
        for (int p = 0; p < batch.numRows(); p++) {
            const double rate = computeRate(batch.row(p), work.gradients.data(), v.data());
            work.multipliers[p] = batch.row(p).constrained != constraints ? 0
                                  : constraints                           ? -rate
                                                                          : rate / batch.inverseInertias[p];
        }
        if (constraints)
            solveRows(batch, work, work.multipliers);
        addImpulses(batch, work.gradients, work.multipliers, v);
    };
    auto project = [&](Vectors3<double>& v) { // twice, for the regularization leaves something
        push(true, v);
        push(true, v);
    };
    std::vector<double> diagonal, below;
    std::vector<Vectors3<double>>& q = work.krylov;
    project(work.v);
    const double norm = std::sqrt(multiply(work.v, work.v));
    if (!(norm > 0))
        return;
    q.resize(std::max<size_t>(q.size(), 1));
    q[0] = work.v;
    forEachAtom([&](int i) { q[0][i] /= norm; });
    // What the method of conjugate gradients would leave, which converges as slowly.
    double left = 1, pivot = 1;
    for (int k = 0; k < maxIterations; k++) {
        if ((int) q.size() == k + 1)
            q.push_back(q[k]);
        else
            q[k + 1] = q[k];
        push(false, q[k + 1]);
        project(q[k + 1]);
        diagonal.push_back(multiply(q[k], q[k + 1]));
        forEachAtom([&](int i) {
            q[k + 1][i] -= q[k][i] * diagonal[k];
            if (k > 0)
                q[k + 1][i] -= q[k - 1][i] * below[k - 1];
        });
        pivot = diagonal[k] - (k > 0 ? below[k - 1] * below[k - 1] / pivot : 0);
        const double size = std::sqrt(multiply(q[k + 1], q[k + 1]));
        left *= size / pivot;
        if (!(left > tolerance))
            break;
        below.push_back(size);
        forEachAtom([&](int i) { q[k + 1][i] /= size; });
    }
    const int n = diagonal.size();
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
    solver.computeFromTridiagonal(Eigen::Map<Eigen::VectorXd>(diagonal.data(), n),
                                  Eigen::Map<Eigen::VectorXd>(below.data(), n - 1));
    // None is below 1, but for what rounding has left along constraints.
    const Eigen::VectorXd powers = solver.eigenvalues().array().max(1.0).pow(power);
    const Eigen::VectorXd coefficients =
            norm * (solver.eigenvectors() * (powers.asDiagonal() * solver.eigenvectors().row(0).transpose()));
    forEachAtom([&](int i) {
        work.v[i].setZero();
        for (int k = 0; k < n; k++)
            work.v[i] += q[k][i] * coefficients[k];
    });
}

/**
 * work.v <- N work.v: from velocities that have the distribution of the masses to those of the method. Or, of an
 * acceleration M^-1 F, what it does to the former: M^-1 N^T F.
 */
template <bool ofAccelerations = false, class Real>
[[gnu::flatten]] void applyRoot(const RootBatch<Real>& batch, RootWorkspace<Real>& work) {
    if constexpr (std::is_same_v<Real, double>)
        if (batch.pattern->hasManyConnected)
            return applyPower(batch, -0.5, work);
    const int n = batch.numRows();
    const Real* values = work.matrixValues(batch);
    for (int p = 0; p < n; p++) {
        work.multipliers[p] = computeRate(batch.row(p), work.gradients.data(), work.v.data());
        work.added[p] = 0;
    }
    const std::vector<Real>&lower = ofAccelerations ? work.added : work.scales,
          &upper = ofAccelerations ? work.scales : work.added;
    solveLower(batch.sparse.get(), n, values, lower.data(), work.multipliers.data());
    for (int p = 0; p < n; p++)
        work.multipliers[p] *= -work.inversePivots[p];
    solveUpper(batch.sparse.get(), n, values, upper.data(), work.multipliers.data());
    addImpulses(batch, work.gradients, work.multipliers, work.v);
}

/** work.v <- N^-1 work.v. */
template <class Real> [[gnu::flatten]] void applyInverseRoot(const RootBatch<Real>& batch, RootWorkspace<Real>& work) {
    if constexpr (std::is_same_v<Real, double>)
        if (batch.pattern->hasManyConnected)
            return applyPower(batch, 0.5, work);
    const int n = batch.numRows();
    for (int p = 0; p < n; p++) {
        const RootRow& row = batch.row(p);
        work.multipliers[p] = row.constrained ? Real(0)
                                              : Real(computeRate(row, work.gradients.data(), work.v.data()) *
                                                     work.inversePivots[p] / work.scales[p]);
    }
    solveUpper(batch.sparse.get(), n, work.matrixValues(batch), work.scales.data(), work.multipliers.data());
    addImpulses(batch, work.gradients, work.multipliers, work.v);
}

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_MASS_ROOT_H_ */
