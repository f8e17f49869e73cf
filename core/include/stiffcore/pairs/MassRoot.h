#ifndef STIFFCORE_PAIRS_MASS_ROOT_H_
#define STIFFCORE_PAIRS_MASS_ROOT_H_

#include "PairBatch.h"
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
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

/** Get ready for the root at work.x. */
template <class Real>
[[gnu::flatten]] void factorRoot(const PairBatch<Real>& batch, const BoxFor<Real>& box, PairWorkspace<Real>& work) {
    using std::sqrt;
    for (int p = 0; p < batch.numRows(); p++)
        computeDirection(batch.row(p), box, work.x.data(), work.gradients.data());
    const bool all = !batch.pattern->hasManyConnected;
    assembleRows(*batch.rowPattern, batch.inverseReducedMasses, batch.couplings, batch.added, work.gradients.data(),
                 work.matrixValues(batch), [&](int p) { return all || batch.row(p).constrained; });
    factorRows(batch, work);
    for (int p = 0; p < batch.numRows(); p++) {
        work.inversePivots[p] = getInversePivot(batch.sparse.get(), batch.numRows(), work.matrixValues(batch), p);
        work.scales[p] = sqrt(batch.inverseInertias[p] * work.inversePivots[p]);
    }
}

/**
 * v <- (M^-1 (M' + G^T kappa G))^power v among the velocities that constraints allow, on which others are projected.
 */
inline void applyPower(const PairBatch<double>& batch, double power, PairWorkspace<double>& work) {
    const int maxIterations = 1000;
    const double tolerance = 1e-12;
    auto flat = [&](Vectors3<double>& v) { return Eigen::Map<Eigen::ArrayXd>(v[0].data(), 3 * batch.numMobile); };
    auto multiply = [&](const Vectors3<double>& a, const Vectors3<double>& b) {
        double sum = 0;
        for (int i = 0; i < batch.numMobile; i++)
            sum += a[i].dot(b[i]) / batch.inverseMasses[i];
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
    flat(q[0]) /= norm;
    // What the method of conjugate gradients would leave, which converges as slowly.
    double left = 1, pivot = 1;
    for (int k = 0; k < maxIterations; k++) {
        q.resize(std::max<size_t>(q.size(), k + 2));
        q[k + 1] = q[k];
        push(false, q[k + 1]);
        project(q[k + 1]);
        diagonal.push_back(multiply(q[k], q[k + 1]));
        flat(q[k + 1]) -= flat(q[k]) * diagonal[k];
        if (k > 0)
            flat(q[k + 1]) -= flat(q[k - 1]) * below[k - 1];
        pivot = diagonal[k] - (k > 0 ? below[k - 1] * below[k - 1] / pivot : 0);
        const double size = std::sqrt(multiply(q[k + 1], q[k + 1]));
        left *= size / pivot;
        if (!(left > tolerance))
            break;
        below.push_back(size);
        flat(q[k + 1]) /= size;
    }
    const int n = diagonal.size();
    Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver;
    solver.computeFromTridiagonal(Eigen::Map<Eigen::VectorXd>(diagonal.data(), n),
                                  Eigen::Map<Eigen::VectorXd>(below.data(), n - 1));
    // None is below 1, but for what rounding has left along constraints.
    const Eigen::VectorXd powers = solver.eigenvalues().array().max(1.0).pow(power);
    const Eigen::VectorXd coefficients =
            norm * (solver.eigenvectors() * (powers.asDiagonal() * solver.eigenvectors().row(0).transpose()));
    flat(work.v).setZero();
    for (int k = 0; k < n; k++)
        flat(work.v) += flat(q[k]) * coefficients[k];
}

/**
 * work.v <- N work.v: from velocities that have the distribution of the masses to those of the method. Or, of an
 * acceleration M^-1 F, what it does to the former: M^-1 N^T F.
 */
template <bool ofAccelerations = false, class Real>
[[gnu::flatten]] void applyRoot(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
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
template <class Real> [[gnu::flatten]] void applyInverseRoot(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    if constexpr (std::is_same_v<Real, double>)
        if (batch.pattern->hasManyConnected)
            return applyPower(batch, 0.5, work);
    const int n = batch.numRows();
    for (int p = 0; p < n; p++) {
        const DistanceRow& row = batch.row(p);
        work.multipliers[p] = row.constrained ? Real(0)
                                              : Real(computeRate(row, work.gradients.data(), work.v.data()) *
                                                     work.inversePivots[p] / work.scales[p]);
    }
    solveUpper(batch.sparse.get(), n, work.matrixValues(batch), work.scales.data(), work.multipliers.data());
    addImpulses(batch, work.gradients, work.multipliers, work.v);
}

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_MASS_ROOT_H_ */
