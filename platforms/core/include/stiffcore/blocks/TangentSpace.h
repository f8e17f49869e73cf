#ifndef STIFFCORE_BLOCKS_TANGENT_SPACE_H_
#define STIFFCORE_BLOCKS_TANGENT_SPACE_H_

#include "BlockSystem.h"
#include <algorithm>
#include <cmath>
#include <limits>

/**
 * The tangent space {v: G(x) v = 0} of the stiff coordinates s(x) of a block, G = ds/dx, and the projection on it that
 * is orthogonal in the metric of the masses, P = 1 - M^-1 G^T (G M^-1 G^T)^-1 G.
 *
 * Gradients are scaled to a unit diagonal of G M^-1 G^T. Dependent coordinates (rings, tetrahedral centres) are
 * allowed. Rows that are not in BlockInstance::inTangentSpace do not count, nor do coordinates without a gradient:
 * each becomes a row of its own that does nothing.
 */
namespace stiffcore {

/// Added to the unit diagonal of the scaled G M^-1 G^T, which keeps it definite if coordinates are dependent. Of
/// a normal velocity along an eigenvector with eigenvalue e it leaves the fraction regularization/e behind; e is
/// small only if coordinates are nearly dependent, as the angles of a nearly flat group are.
constexpr double tangentRegularization = 1e-9;
/// A coordinate is independent of the earlier ones if its pivot exceeds this. (With the unit diagonal, a pivot
/// is the squared sine of the angle between its gradient and those of the earlier coordinates.)
constexpr double minIndependentPivot = 1e-6;

template <class Real> Real* schurValues(const BlockInstance<Real>& block, Workspace<Real>& work) {
    return block.schur ? block.schur->values.data() : work.values.data();
}

/**
 * Compute the scaled gradients at work.positions, of the rows whose entry in `used` is true.
 */
template <class Real>
void computeGradients(const BlockInstance<Real>& block, const std::vector<char>& used, const Box& box,
                      Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    chooseBendDirections(pattern, box, work);
    for (size_t p = 0; p < pattern.rows.size(); p++) {
        const PatternTerm& term = pattern.termOfRow(p);
        Vector3<Real>* g = &work.gradients[3 * p];
        Real diagonal = 0;
        visitRow(pattern, p, work, box, [&](const auto& coordinate) {
            forEachMobile(term, pattern.numMobile, [&](int a, int atom) {
                g[a] = coordinate.gradient(a);
                diagonal += g[a].squaredNorm() / block.masses[atom];
            });
        });
        const bool counts = used[p] && diagonal > 0;
        work.scales[p] = (counts ? 1 / std::sqrt(diagonal) : Real(0));
        forEachMobile(term, pattern.numMobile, [&](int a, int) { g[a] *= work.scales[p]; });
    }
}

/** g_pa . g_qb / m of a coupling, from the scaled gradients. */
template <class Real>
Real coupledGradients(const BlockInstance<Real>& block, const Coupling& coupling, const Workspace<Real>& work) {
    const int atom = block.pattern->termOfRow(coupling.p).atoms[coupling.a];
    return work.gradients[3 * coupling.p + coupling.a].dot(work.gradients[3 * coupling.q + coupling.b]) /
           block.masses[atom];
}

/**
 * Compute the scaled gradients at work.positions, of the rows whose entry in `used` is true, and factor G M^-1 G^T.
 *
 * @return whether that was possible: it always is, unless numbers are not finite
 */
template <class Real>
bool factorRows(const BlockInstance<Real>& block, const std::vector<char>& used, const Box& box,
                Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    computeGradients(block, used, box, work);
    Real* values = schurValues(block, work);
    std::fill(values, values + pattern.schur.layout.getNumValues(), Real(0));
    for (size_t p = 0; p < pattern.rows.size(); p++)
        values[pattern.schur.diagonalSlots[p]] = tangentRegularization + (work.scales[p] > 0 ? 1 : 0);
    for (const Coupling& coupling : pattern.schur.couplings)
        values[coupling.slot] += coupledGradients(block, coupling, work);
    return factorMatrix(block.schur.get(), pattern.schur.layout.getSize(), values);
}

/** The same, of the rows that define the tangent space. */
template <class Real> bool factorTangentSpace(const BlockInstance<Real>& block, const Box& box, Workspace<Real>& work) {
    return factorRows(block, block.inTangentSpace, box, work);
}

/** Whether any row defines the tangent space of a block; if none does, there is nothing to project. */
template <class Real> bool hasTangentSpace(const BlockInstance<Real>& block) {
    const std::vector<char>& rows = block.inTangentSpace;
    return std::find(rows.begin(), rows.end(), true) != rows.end();
}

/** The rate of each scaled coordinate under velocities, multipliers <- G v. */
template <class Real>
void computeRates(const BlockInstance<Real>& block, const std::vector<Vector3<Real>>& v, Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    for (size_t p = 0; p < pattern.rows.size(); p++) {
        Real rate = 0;
        forEachMobile(pattern.termOfRow(p), pattern.numMobile,
                      [&](int a, int atom) { rate += work.gradients[3 * p + a].dot(v[atom]); });
        work.multipliers[p] = rate;
    }
}

/** Solve with the factors of G M^-1 G^T, in place, multipliers <- (G M^-1 G^T)^-1 multipliers. */
template <class Real> void solveMultipliers(const BlockInstance<Real>& block, Workspace<Real>& work) {
    solveMatrix(block.schur.get(), block.pattern->schur.layout.getSize(), schurValues(block, work),
                work.multipliers.data());
}

/** v <- v - M^-1 G^T multipliers */
template <class Real>
void subtractNormal(const BlockInstance<Real>& block, const Workspace<Real>& work, std::vector<Vector3<Real>>& v) {
    const BlockPattern& pattern = *block.pattern;
    for (size_t p = 0; p < pattern.rows.size(); p++)
        forEachMobile(pattern.termOfRow(p), pattern.numMobile, [&](int a, int atom) {
            v[atom] -= work.multipliers[p] / block.masses[atom] * work.gradients[3 * p + a];
        });
}

/** v <- P v, for the tangent space that was factored last. */
template <class Real>
void projectLocally(const BlockInstance<Real>& block, Workspace<Real>& work, std::vector<Vector3<Real>>& v) {
    computeRates(block, v, work);
    solveMultipliers(block, work);
    subtractNormal(block, work, v);
}

/**
 * Project the velocities of one block on the tangent space of its stiff coordinates, v <- P(x) v.
 *
 * @param x   positions [nm]
 * @param v   velocities [nm/ps]
 * @return whether all numbers are finite; if not, v is not written
 */
template <class Real>
bool projectOnTangentSpace(const BlockInstance<Real>& block, const double* x, const Box& box, Workspace<Real>& work,
                           double* v) {
    gatherPositions(block, x, work);
    gatherMobile(block, v, work.velocities);
    if (!factorTangentSpace(block, box, work))
        return false;
    projectLocally(block, work, work.velocities);
    if (!areFinite(block, work.velocities))
        return false;
    scatterMobile(block, work.velocities, v);
    return true;
}

/**
 * Count the independent stiff coordinates of one block: the rank of their Jacobian G(x); -1 if that is not finite.
 */
template <class Real>
int countCoordinates(const BlockInstance<Real>& block, const double* x, const Box& box, Workspace<Real>& work) {
    gatherPositions(block, x, work);
    if (!factorTangentSpace(block, box, work))
        return -1;
    if (block.schur)
        return block.schur->solver->countPivots(minIndependentPivot);
    const int size = block.pattern->schur.layout.getSize();
    int rank = 0;
    for (int p = 0; p < size; p++)
        rank += (1 / work.values[p * size + p] > minIndependentPivot);
    return rank;
}

/**
 * Bound the angular frequency of the stiffest mode of one block [1/ps].
 *
 * With s scaled by the roots of the force constants, the squared frequencies are the eigenvalues of the matrix
 * B = K^1/2 G M^-1 G^T K^1/2. For any positive numbers x, none exceeds the largest of (|B| x)_p / x_p (Collatz and
 * Wielandt), and x <- |B| x makes that bound smaller. A few such iterations bring it to 1 % above the
 * frequency for water, and to 5 to 15 % for larger molecules.
 */
template <class Real>
Real boundFrequency(const BlockInstance<Real>& block, const double* x, const Box& box, Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    const int numRows = pattern.rows.size(), numIterations = 20;
    gatherPositions(block, x, work);
    computeGradients(block, block.smooth, box, work);
    // The scales become the roots of the diagonal of B: those of the force constants over what unit gradients took.
    for (int p = 0; p < numRows; p++) {
        const Real k = std::abs(block.potentials[pattern.rows[p].term].k);
        work.scales[p] = (work.scales[p] > 0 ? std::sqrt(k) / work.scales[p] : Real(0));
    }
    std::vector<Real>&current = work.multipliers, &next = work.rhs;
    std::fill_n(current.begin(), numRows, Real(1));
    Real bound = std::numeric_limits<Real>::infinity();
    for (int iteration = 0; iteration < numIterations; iteration++) {
        for (int p = 0; p < numRows; p++)
            next[p] = work.scales[p] * work.scales[p] * current[p];
        for (const Coupling& coupling : pattern.schur.couplings) {
            const int p = coupling.p, q = coupling.q;
            const Real entry = work.scales[p] * work.scales[q] * std::abs(coupledGradients(block, coupling, work));
            next[p] += entry * current[q];
            next[q] += entry * current[p];
        }
        Real largestRatio = 0, largest = 0;
        for (int p = 0; p < numRows; p++)
            if (work.scales[p] > 0) {
                largestRatio = std::max(largestRatio, next[p] / current[p]);
                largest = std::max(largest, next[p]);
            }
        bound = std::min(bound, largestRatio);
        for (int p = 0; p < numRows; p++)
            current[p] = next[p] / largest;
    }
    return std::sqrt(bound);
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_TANGENT_SPACE_H_ */
