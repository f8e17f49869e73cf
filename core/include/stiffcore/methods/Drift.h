#ifndef STIFFCORE_METHODS_DRIFT_H_
#define STIFFCORE_METHODS_DRIFT_H_

#include "../batch/Control.h"
#include "../linear/DenseLu.h"
#include "ExtendedMass.h"
#include <Eigen/SparseLU>
#include <algorithm>
#include <cmath>
#include <limits>

/**
 * The motion of the extended system without forces over a time t, by RATTLE (Andersen 1983): with G0 = G(x) before it,
 * find l such that
 *
 *     x' = x + t v + M^-1 G0^T l,    z' = z + t w - l / kappa,    s(x') = z',
 *
 * where z = s(x), or the length of a constraint; velocities change by these moves over t. The residual z' - s(x')
 * depends on l with the Jacobian -(G(x') M^-1 G0^T + 1/kappa), close to -A: small blocks are solved by Newton's method,
 * large ones with the factors of A while that converges (M-SHAKE and its quasi-Newton form, Kraeutler, van Gunsteren
 * and Huenenberger 2001). The iterations make one more correction after the residual has become small enough: it costs
 * little, and what it leaves is far below the tolerance, so that energy does not drift.
 */
namespace stiffcore {

constexpr int maxDriftIterations = 50;
/// Lengths are not known better than this (relative): a stricter tolerance means this one.
constexpr double minDriftTolerance = 1e-14;
/// With the old factors of a large matrix the residual falls by some factor each time; if it falls by less than this,
/// Newton's method with a new matrix takes over.
constexpr double slowConvergence = 0.3;

/**
 * Compute the residual for work.multipliers at work.x, into work.correction; the mask is where it is small enough.
 * Directions are computed if the method needs them.
 */
template <bool withDirections, class Real>
auto computeResidual(const PairBatch<Real>& batch, UniformOf<Real> tolerance, const BoxFor<Real>& box,
                     PairWorkspace<Real>& work) {
    using std::abs;
    computeLengths<withDirections>(batch, box, work);
    MaskOf<Real> converged(true);
    for (int p = 0; p < batch.numRows(); p++) {
        work.correction[p] = work.z[p] - batch.inverseInertias[p] * work.multipliers[p] - work.r[p];
        converged = converged & (abs(work.correction[p]) <= Real(tolerance) * work.z[p]);
    }
    return converged;
}

/** Move by a correction of the multipliers. */
template <class Real> void applyCorrection(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++)
        work.multipliers[p] += work.correction[p];
    addImpulses(batch, work.gradientsBefore, work.correction, work.x);
}

/**
 * The entries of a product G W H^T + D of the gradients of the pairs at two places, which is not symmetric.
 *
 * @param add   called as add(p, q, value), perhaps several times for an entry
 */
template <class Real, class Add>
void visitProduct(const PairBatch<Real>& batch, const Vectors3<Real>& one, const Vectors3<Real>& other, Add&& add) {
    const RowPattern<DistanceRow>& pattern = *batch.rowPattern;
    const Vector3<Real>*g = one.data(), *h = other.data();
    for (int p = 0; p < batch.numRows(); p++)
        add(p, p, Real(batch.inverseReducedMasses[p] * g[p].dot(h[p]) + batch.added[p]));
    for (size_t i = 0; i < pattern.couplings.size(); i++) {
        add(pattern.couplings[i].p, pattern.couplings[i].q, multiplyCoupled(pattern, i, batch.couplings[i], g, h));
        add(pattern.couplings[i].q, pattern.couplings[i].p, multiplyCoupled(pattern, i, batch.couplings[i], h, g));
    }
}

/** Newton's method for small blocks, all lanes at once; the last correction takes the factors of the one before. */
template <class Real>
[[gnu::flatten]] auto iterateSmall(const PairBatch<Real>& batch, UniformOf<Real> tolerance, const BoxFor<Real>& box,
                                   PairWorkspace<Real>& work) {
    const int n = batch.numRows();
    Real* A = work.newtonMatrix.data();
    UniformOf<Real> iteration = 0;
    MaskOf<Real> converged(false);
    auto iterate = [&] {
        converged = computeResidual<true>(batch, tolerance, box, work);
        const auto last = (iteration >= maxDriftIterations) | Control<Real>::all(converged, batch.count);
        auto factor = [&] {
            std::fill_n(A, n * n, Real(0));
            visitProduct(batch, work.gradients, work.gradientsBefore,
                         [&](int p, int q, const Real& value) { A[p * n + q] += value; });
            n == 3 ? DenseLu<Real, 3>::factor(A, n) : DenseLu<Real>::factor(A, n);
        };
        Control<Real>::when((iteration <= 0) | !last, factor, work.newtonMatrix);
        Real* correction = work.correction.data();
        n == 3 ? DenseLu<Real, 3>::solve(A, n, correction) : DenseLu<Real>::solve(A, n, correction);
        applyCorrection(batch, work);
        iteration += 1;
        return last;
    };
    Control<Real>::repeat(iterate, iteration, work.x, work.multipliers, work.newtonMatrix, converged);
    return converged;
}

/**
 * Newton's method for a large block, where the old factors do not do: with pivoting, and with memory, for rare cases.
 * Real is double; as a template it is compiled only where it is called.
 */
template <class Real>
bool iterateNewton(const PairBatch<Real>& batch, double tolerance, const Box& box, PairWorkspace<Real>& work) {
    using Matrix = Eigen::SparseMatrix<Real>;
    const int n = batch.numRows();
    Eigen::SparseLU<Matrix> solver;
    std::vector<Eigen::Triplet<Real>> entries;
    Matrix A(n, n);
    for (int iteration = 0;; iteration++) {
        const bool converged = computeResidual<true>(batch, tolerance, box, work);
        entries.clear();
        visitProduct(batch, work.gradients, work.gradientsBefore,
                     [&](int p, int q, Real value) { entries.emplace_back(p, q, value); });
        A.setFromTriplets(entries.begin(), entries.end());
        if (iteration == 0)
            solver.analyzePattern(A);
        solver.factorize(A);
        if (solver.info() != Eigen::Success)
            return false;
        Eigen::Map<Eigen::VectorX<Real>> correction(work.correction.data(), n);
        correction = solver.solve(correction).eval();
        applyCorrection(batch, work);
        if (converged || iteration == maxDriftIterations)
            return converged;
    }
}

/** For a large block: with the factors of A from before the motion while that converges, else by Newton's method. */
template <class Real>
bool iterateLarge(const PairBatch<Real>& batch, double tolerance, const Box& box, PairWorkspace<Real>& work) {
    double last = std::numeric_limits<double>::infinity();
    for (int iteration = 0; iteration < maxDriftIterations; iteration++) {
        const bool converged = computeResidual<false>(batch, tolerance, box, work);
        double largest = 0;
        for (int p = 0; p < batch.numRows(); p++)
            largest = std::max(largest, std::abs(work.correction[p]));
        if (!converged && !(largest < slowConvergence * last))
            break;
        last = largest;
        solveRows(batch, work, work.correction);
        applyCorrection(batch, work);
        if (converged)
            return true;
    }
    // From where it began: the old factors may have led astray.
    for (int i = 0; i < batch.numMobile; i++)
        work.x[i] = work.start[i];
    std::fill_n(work.multipliers.begin(), batch.numRows(), 0.0);
    return iterateNewton(batch, tolerance, box, work);
}

/**
 * Execute the motion. Before it, arrive() has been called; after it, at the new positions. Velocities are not tied.
 *
 * @param tolerance   how accurately lengths agree with z', relative
 * @return in which lanes the solve converged
 */
template <class Real>
auto driftTied(const PairBatch<Real>& batch, UniformOf<Real> t, UniformOf<Real> tolerance, const BoxFor<Real>& box,
               PairWorkspace<Real>& work) {
    using std::max;
    const int n = batch.numRows();
    tolerance = max(tolerance, UniformOf<Real>(minDriftTolerance));
    for (int p = 0; p < n; p++) {
        work.z[p] = (batch.row(p).constrained ? batch.lengths[p] : Real(work.r[p] + t * work.w[p]));
        work.multipliers[p] = 0;
        work.gradientsBefore[p] = work.gradients[p];
    }
    for (int i = 0; i < batch.numMobile; i++) {
        work.x[i] += work.v[i] * Real(t);
        work.start[i] = work.x[i];
    }
    auto converged = [&] {
        if constexpr (std::is_same_v<Real, double>)
            if (batch.sparse)
                return iterateLarge(batch, tolerance, box, work);
        return iterateSmall(batch, tolerance, box, work);
    }();
    for (int p = 0; p < n; p++)
        work.multipliers[p] = work.multipliers[p] * (1 / t);
    addImpulses(batch, work.gradientsBefore, work.multipliers, work.v);
    for (int p = 0; p < n; p++)
        work.w[p] -= batch.inverseInertias[p] * work.multipliers[p];
    arrive(batch, box, work);
    return converged;
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_DRIFT_H_ */
