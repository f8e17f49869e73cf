#ifndef STIFFCORE_ROWS_ROWS_H_
#define STIFFCORE_ROWS_ROWS_H_

#include "../batch/Batches.h"
#include "../linear/MatrixLayout.h"
#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

/**
 * What all methods do that move atoms along the gradients of some coordinates s(x), the rows of the Jacobian
 * G = ds/dx: with the matrix A = G M^-1 G^T + D, change velocities such that coordinates move at given rates r,
 *
 *     A lambda = r - G v,    v <- v + M^-1 G^T lambda.
 *
 * With D = 0 that is the projection on the velocities that are allowed, orthogonal in the metric of the masses.
 * Dependent coordinates (rings, tetrahedral centres) have a singular G M^-1 G^T; a small D, relative to its diagonal,
 * mends that. D may also be what the method wants there: 1/kappa of an inertia, the compliance of a constraint.
 */
namespace stiffcore {

/// D relative to the diagonal of G M^-1 G^T where coordinates are to be imposed exactly, as far as they are
/// independent. With unit diagonal, it leaves of a velocity along an eigenvector with eigenvalue e the fraction
/// regularization/e.
constexpr double rowRegularization = 1e-9;
/** The same as a Real: where numbers are recorded, that depends on their precision. */
template <class Real> Real getRowRegularization() {
    return Real(rowRegularization);
}
/// A coordinate is independent of the earlier ones if its pivot, relative to the diagonal, exceeds this. (That is the
/// squared sine of the angle between its gradient and those of the earlier coordinates.)
constexpr double minIndependentPivot = 1e-6;

/** A row with a gradient for each of its atoms. */
struct Row {
    /// The places of the atoms in their block.
    std::vector<int> atoms;
    /// Where the first gradient is among those of all rows.
    int firstGradient;
    int numGradients() const {
        return atoms.size();
    }
    int gradientOf(int atom) const {
        return firstGradient + atom;
    }
    /** What rows are coupled by. */
    const std::vector<int>& coupledBy() const {
        return atoms;
    }
};

/**
 * The row of a distance: its atoms have opposite gradients -u and u, and u, of length 1, is kept once. Or that of one axis
 * of the relative velocity of its atoms, u being that axis, or where it has twice the same atom, of the velocity of this
 * one. An impulse along it moves the atoms that it reaches: these, and others where the matrix of the masses is not
 * diagonal.
 */
struct DistanceRow {
    std::array<int, 2> atoms;
    /// Which of the block's terms it is of, or of its other terms.
    int term;
    bool periodic, constrained;
    /// -1 of a distance.
    int axis = -1;
    int firstGradient = 0;
    /// The groups of its mobile atoms that the matrix of the masses couples, and all atoms of these.
    std::vector<int> groups = {}, reached = {};
    /// Where the first of its weights is among those of all rows: by how much an impulse u moves an atom [1/dalton].
    int firstWeight = 0;
    int numGradients() const {
        return 1;
    }
    int gradientOf(int) const {
        return firstGradient;
    }
    const std::vector<int>& coupledBy() const {
        return groups;
    }
};

/**
 * Two different rows p > q of a Jacobian G that share a mobile atom, atom a of p and b of q: it contributes
 * g_pa . g_qb / m to the matrix G M^-1 G^T. (Or a group of atoms whose masses are coupled.)
 */
struct Coupling {
    int p, a, q, b;
};

/**
 * Find the couplings of rows.
 *
 * @param numMobile   atoms from this number on are fixed and contribute nothing
 */
template <class RowType> std::vector<Coupling> findCouplings(const std::vector<RowType>& rows, int numMobile) {
    std::vector<Coupling> couplings;
    std::vector<std::vector<std::pair<int, int>>> rowsOfAtom(numMobile);
    for (int p = 0; p < (int) rows.size(); p++) {
        const std::vector<int>& atoms = rows[p].coupledBy();
        for (int a = 0; a < (int) atoms.size(); a++) {
            if (atoms[a] >= numMobile)
                continue;
            auto& others = rowsOfAtom[atoms[a]];
            for (const auto& [q, b] : others)
                if (p != q)
                    couplings.push_back({p, a, q, b});
            others.push_back({p, a});
        }
    }
    return couplings;
}

/**
 * The rows of blocks of the same build, and where the entries of their matrix G M^-1 G^T + D come from and go to. For
 * the three distances of a water, O-H1, O-H2 and H1-H2, whose rows act on (O, H1), (O, H2) and (H1, H2),
 *
 *           O-H1   O-H2   H1-H2
 *     O-H1   d0     O      H1          d0, d1, d2: the diagonal
 *     O-H2   .      d1     H2          O, H1, H2: the atom by which two rows are coupled
 *     H1-H2  .      .      d2          .: by symmetry
 *
 * (see the reduced camera matrix of Ceres Solver for the same in another field).
 */
template <class RowType> struct RowPattern {
    std::vector<RowType> rows;
    std::vector<Coupling> couplings;
    MatrixLayout layout;
    /// Where the diagonal entries are among the values of the matrix, and where that of each coupling is.
    std::vector<int> diagonalSlots, slots;
    int numGradients = 0;

    /**
     * @param num           how many mobile atoms there are, or groups, that rows are coupled by
     * @param numFirst      how many rows are to be eliminated before all others
     * @param leastSparse   the size from which on the matrix is sparse
     */
    RowPattern(const std::vector<RowType>& rows, int num, int numFirst = 0,
               int leastSparse = MatrixLayout::minSparseSize)
            : rows(rows), couplings(findCouplings(rows, num)),
              layout(rows.size(), findEntries(), numFirst, leastSparse) {
        for (const Coupling& coupling : couplings)
            slots.push_back(layout.slot(coupling.p, coupling.q));
        for (size_t p = 0; p < rows.size(); p++) {
            diagonalSlots.push_back(layout.slot(p, p));
            numGradients = std::max(numGradients, rows[p].firstGradient + rows[p].numGradients());
        }
    }
    bool isLarge() const {
        return layout.isSparse();
    }

private:
    std::vector<std::pair<int, int>> findEntries() const {
        std::vector<std::pair<int, int>> entries;
        for (const Coupling& coupling : couplings)
            entries.push_back({coupling.p, coupling.q});
        return entries;
    }
};

/** The rows of a batch. */
template <class Real, class PatternType> struct RowBatch : BlockBatch<Real> {
    using Pattern = PatternType;
    using RowType = typename Pattern::RowType;
    const Pattern* pattern;
    const RowPattern<RowType>* rowPattern;
    /// For each coupling, what the product of its gradients counts [1/dalton]: 1/m of the common atom; of distances the
    /// sum of W over their atoms in the common group, with signs.
    std::vector<Real> couplings;
    /// Of distances, see DistanceRow.
    std::vector<Real> weights;
    /// A if it is large. Small ones are a thread's.
    std::unique_ptr<SparseMatrix<Real>> sparse;

    RowBatch(const Pattern& pattern, const std::vector<const Block*>& blocks, const std::vector<double>& masses)
            : BlockBatch<Real>(pattern, blocks, masses), pattern(&pattern), rowPattern(&pattern.rows) {
        if constexpr (std::is_same_v<Real, double>)
            if (rowPattern->isLarge())
                sparse = std::make_unique<SparseMatrix<double>>(rowPattern->layout);
    }

    int numRows() const {
        return rowPattern->rows.size();
    }
    const RowType& row(int p) const {
        return rowPattern->rows[p];
    }
    /** What addImpulse() takes: of distances their weights, of other rows the inverse masses of atoms. */
    const Real* getWeights() const {
        return std::is_base_of_v<DistanceRow, RowType> ? weights.data() : this->inverseMasses.data();
    }

protected:
    /** The couplings of rows with a gradient for each atom. */
    void deriveCouplings() {
        couplings.clear();
        for (const Coupling& coupling : rowPattern->couplings)
            couplings.push_back(this->inverseMasses[row(coupling.p).atoms[coupling.a]]);
    }
};

/** The scratch memory of a thread for rows. */
template <class Real> struct RowWorkspace : BatchWorkspace<Real> {
    /// The gradients of all rows [unit of s / nm].
    std::vector<Vector3<Real>> gradients;
    /// For each row: the diagonal of G M^-1 G^T [unit of s^2 / (dalton nm^2)], D in the same unit, and rates that
    /// become multipliers.
    std::vector<Real> inverseMasses, added, multipliers;
    /// A, if it is small.
    std::vector<Real> matrix;

    template <class Pattern> Real* matrixValues(const RowBatch<Real, Pattern>& batch) {
        return batch.sparse ? batch.sparse->values.data() : matrix.data();
    }

protected:
    /// The most rows that a block has, and the values of the largest small matrix.
    size_t numRows = 0, numValues = 0;

    template <class Batches> explicit RowWorkspace(const Batches& all) : BatchWorkspace<Real>(all) {
        size_t numGradients = 0;
        for (const auto& batch : all) {
            numRows = std::max<size_t>(numRows, batch.numRows());
            numGradients = std::max<size_t>(numGradients, batch.rowPattern->numGradients);
            if (!batch.sparse)
                numValues = std::max<size_t>(numValues, batch.numRows() * batch.numRows());
        }
        gradients.resize(numGradients);
        for (auto* numbers : {&inverseMasses, &added, &multipliers})
            numbers->resize(numRows);
        matrix.resize(numValues);
    }
};

// One row. Arrays are handed on as pointers, which stay in registers: to the compiler, what is written might be the
// pointers of the vectors.

/** The length of the vector between two particles, so that in one place they have no direction, 0. */
template <class Real> Real getLength(const Vector3<Real>& d) {
    using std::sqrt;
    const double tiny = 1e-200;
    return sqrt(d.squaredNorm() + tiny);
}
/** Make that vector a direction, and return its length. */
template <class Real> Real normalize(Vector3<Real>& d) {
    const Real r = getLength(d);
    d = d * Real(1 / r);
    return r;
}
/** Compute the gradient of a row from the positions of its atoms. */
template <class Real>
void computeDirection(const DistanceRow& row, const BoxFor<Real>& box, const Vector3<Real>* x, Vector3<Real>* g) {
    Vector3<Real>& u = g[row.firstGradient];
    if (row.axis >= 0) {
        u.setZero();
        u[row.axis] = 1;
        return;
    }
    u = x[row.atoms[1]] - x[row.atoms[0]];
    if (row.periodic)
        u = box.minimumImage(u);
    normalize(u);
}

/** The rate of a row's coordinate under velocities, G v. */
template <class Real> Real computeRate(const Row& row, const Vector3<Real>* g, const Vector3<Real>* v) {
    Real rate = 0;
    for (size_t a = 0; a < row.atoms.size(); a++)
        rate += g[row.firstGradient + a].dot(v[row.atoms[a]]);
    return rate;
}
template <class Real> Real computeRate(const DistanceRow& row, const Vector3<Real>* g, const Vector3<Real>* v) {
    const auto& [i, j] = row.atoms;
    const Vector3<Real>& u = g[row.firstGradient];
    return i == j ? Real(u.dot(v[j])) : Real(u.dot(v[j] - v[i]));
}

/** v <- v + M^-1 G^T lambda of a row */
template <class Real>
void addImpulse(const Row& row, const Vector3<Real>* g, const Real& lambda, const Real* inverseMasses,
                Vector3<Real>* v) {
    for (size_t a = 0; a < row.atoms.size(); a++)
        v[row.atoms[a]] += g[row.firstGradient + a] * Real(lambda * inverseMasses[row.atoms[a]]);
}
template <class Real>
void addImpulse(const DistanceRow& row, const Vector3<Real>* g, const Real& lambda, const Real* weights,
                Vector3<Real>* v) {
    const Vector3<Real> impulse = g[row.firstGradient] * lambda;
    for (size_t k = 0; k < row.reached.size(); k++)
        v[row.reached[k]] += impulse * weights[row.firstWeight + k];
}

/** The product of a row's gradients with others of the same row, g M^-1 h^T. */
template <class Real>
Real multiplyRow(const Row& row, const Vector3<Real>* g, const Vector3<Real>* h, const Real* inverseMasses) {
    Real sum = 0;
    for (size_t a = 0; a < row.atoms.size(); a++)
        sum += inverseMasses[row.atoms[a]] * g[row.firstGradient + a].dot(h[row.firstGradient + a]);
    return sum;
}

// All rows of a batch.

/** The contribution g_pa . h_qb / m of a coupling. */
template <class Real, class RowType>
Real multiplyCoupled(const RowPattern<RowType>& pattern, size_t coupling, const Real& weight, const Vector3<Real>* g,
                     const Vector3<Real>* h) {
    const auto& [p, a, q, b] = pattern.couplings[coupling];
    return weight * g[pattern.rows[p].gradientOf(a)].dot(h[pattern.rows[q].gradientOf(b)]);
}

/** Compute the diagonal of G M^-1 G^T, work.inverseMasses, from the gradients. */
template <class Real, class Pattern>
void computeInverseMasses(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work) {
    const Vector3<Real>* g = work.gradients.data();
    for (int p = 0; p < batch.numRows(); p++)
        work.inverseMasses[p] = multiplyRow(batch.row(p), g, g, batch.inverseMasses.data());
}

/** D <- what imposes the coordinates as well as rounding allows; a row without a gradient is one that does nothing. */
template <class Real, class Pattern>
void addRegularization(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++) {
        const Real inverseMass = work.inverseMasses[p];
        work.added[p] = getRowRegularization<Real>() * select(inverseMass > Real(0), inverseMass, Real(1));
    }
}

/**
 * Assemble A = G M^-1 G^T + D.
 *
 * @param inverseMasses   the diagonal of G M^-1 G^T
 * @param weights         of the couplings
 * @param g               the gradients
 * @param A               written
 * @param uses            uses(p) is whether a row counts; if not, it becomes that of the identity
 */
template <class Real, class RowType, class Uses>
void assembleRows(const RowPattern<RowType>& pattern, const std::vector<Real>& inverseMasses,
                  const std::vector<Real>& weights, const std::vector<Real>& D, const Vector3<Real>* g, Real* A,
                  Uses&& uses) {
    std::fill_n(A, pattern.layout.getNumValues(), Real(0));
    for (size_t p = 0; p < pattern.rows.size(); p++)
        A[pattern.diagonalSlots[p]] = uses(p) ? Real(inverseMasses[p] + D[p]) : Real(1);
    for (size_t i = 0; i < pattern.couplings.size(); i++)
        if (uses(pattern.couplings[i].p) && uses(pattern.couplings[i].q))
            A[pattern.slots[i]] += multiplyCoupled(pattern, i, weights[i], g, g);
}
template <class Real, class RowType>
void assembleRows(const RowPattern<RowType>& pattern, const std::vector<Real>& inverseMasses,
                  const std::vector<Real>& weights, const std::vector<Real>& D, const Vector3<Real>* g, Real* A) {
    assembleRows(pattern, inverseMasses, weights, D, g, A, [](int) { return true; });
}
/** The same, with what work.inverseMasses and work.added hold. */
template <class Real, class Pattern> void assembleRows(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work) {
    assembleRows(*batch.rowPattern, work.inverseMasses, batch.couplings, work.added, work.gradients.data(),
                 work.matrixValues(batch));
}

/** Factor A; in which lanes it is positive definite. */
template <class Real, class Pattern>
MaskOf<Real> factorRows(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work) {
    return factorMatrix(batch.sparse.get(), batch.numRows(), work.matrixValues(batch));
}

/** Count the independent rows, the rank of G, in one lane, with the factors of A and a D that regularizes it. */
template <class Real, class Pattern>
int countIndependent(const RowBatch<Real, Pattern>& batch, int lane, const RowWorkspace<Real>& work) {
    const int size = batch.numRows();
    int rank = 0;
    for (int p = 0; p < size; p++) {
        const double inverseMass = laneOf(work.inverseMasses[p], lane);
        const double pivot =
                batch.sparse ? batch.sparse->solver->pivot(p) : 1 / laneOf(work.matrix[p * size + p], lane);
        rank += inverseMass > 0 && pivot > minIndependentPivot * inverseMass;
    }
    return rank;
}

/** multipliers <- A^-1 multipliers, with the factors of A. */
template <class Real, class Pattern>
void solveRows(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work, std::vector<Real>& multipliers) {
    solveMatrix(batch.sparse.get(), batch.numRows(), work.matrixValues(batch), multipliers.data());
}

/** v <- v + M^-1 G^T multipliers */
template <class Real, class Pattern>
void addImpulses(const RowBatch<Real, Pattern>& batch, const Vectors3<Real>& gradients,
                 const std::vector<Real>& multipliers, Vectors3<Real>& vectors) {
    const auto* rows = batch.rowPattern->rows.data();
    const Vector3<Real>* g = gradients.data();
    const Real *lambda = multipliers.data(), *weights = batch.getWeights();
    Vector3<Real>* v = vectors.data();
    for (int p = 0, n = batch.numRows(); p < n; p++)
        addImpulse(rows[p], g, lambda[p], weights, v);
}

/**
 * Change velocities such that coordinates move at the rates work.multipliers (if D is 0), with the factors of A. The
 * multipliers lambda come instead of the rates.
 */
template <class Real, class Pattern>
void imposeRates(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work, Vectors3<Real>& v) {
    for (int p = 0; p < batch.numRows(); p++)
        work.multipliers[p] -= computeRate(batch.row(p), work.gradients.data(), v.data());
    solveRows(batch, work, work.multipliers);
    addImpulses(batch, work.gradients, work.multipliers, v);
}

/** Change velocities to the closest ones under which no coordinate moves, with the factors of A. */
template <class Real, class Pattern>
void projectOnRows(const RowBatch<Real, Pattern>& batch, RowWorkspace<Real>& work, Vectors3<Real>& v) {
    std::fill_n(work.multipliers.begin(), batch.numRows(), Real(0));
    imposeRates(batch, work, v);
}

} // namespace stiffcore

#endif /* STIFFCORE_ROWS_ROWS_H_ */
