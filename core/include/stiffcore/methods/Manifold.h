#ifndef STIFFCORE_METHODS_MANIFOLD_H_
#define STIFFCORE_METHODS_MANIFOLD_H_

#include "../terms/Expansion.h"
#include "../terms/Hessian.h"
#include "FastFlow.h"
#include "TangentSpace.h"
#include <algorithm>
#include <cmath>

/**
 * The manifold {A: s(A) = s0} on which the rows of a batch have their equilibrium values, and the map A(q) to the point
 * of it that is nearest to q in the metric of the masses (Lubich and Weiss 2014, Eq. 15):
 *
 *     M (A - q) + G(A)^T l = 0,     s(A) = s0.
 *
 * An angle of 180 degrees is two conditions, as both of its bends vanish there.
 */
namespace stiffcore {

/// Newton's iteration ends when no atom moves further than this [nm]. What is left then is less by orders of magnitude.
constexpr double manifoldTolerance = 1e-10;
/// How accurately Newton's steps are solved (relative): by so much each makes the error smaller at least.
constexpr double newtonTolerance = 1e-4;
/// How accurately forces are pulled back (relative): as well as rounding allows, for the method to be symplectic.
constexpr double pullBackTolerance = 1e-13;
/// Coordinates this close to their equilibrium values [nm or rad] have reached them: what the regularization leaves
/// of independent ones is less by orders of magnitude.
constexpr double equilibriumTolerance = 1e-7;
constexpr int maxNewtonIterations = 50, maxConjugateGradientIterations = 200;

/** Compute the curvature of the rows at work.x, work.rowHessians <- l_p Hess s_p, with l in work.multipliers. */
template <class Real> void computeCurvature(const StiffBatch<Real>& batch, const Box& box, StiffWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++) {
        const Expansion<Real> potential = {work.multipliers[p], 0};
        visitRow(batch.pattern->rows.rows, p, work, box, [&](const auto& coordinate) {
            addHessian(potential, coordinate, [&](int i, int j, const Matrix3<Real>& h) {
                work.rowHessians[6 * p + i * (i + 1) / 2 + j] = h;
            });
        });
    }
}

/** result <- M^-1 K v, K = M + the Hessians of the rows in work.rowHessians. */
template <class Real>
void applyCurvature(const StiffBatch<Real>& batch, const StiffWorkspace<Real>& work,
                    const std::vector<Vector3<Real>>& v, std::vector<Vector3<Real>>& result) {
    const int n = batch.numMobile;
    for (int i = 0; i < batch.numParticles(); i++)
        result[i] = v[i];
    for (int p = 0; p < batch.numRows(); p++) {
        const std::vector<int>& atoms = batch.row(p).atoms;
        for (size_t a = 0; a < atoms.size(); a++)
            for (size_t b = 0; b <= a; b++) {
                const int i = atoms[a], j = atoms[b];
                if (i >= n || j >= n)
                    continue;
                const Matrix3<Real>& h = work.rowHessians[6 * p + a * (a + 1) / 2 + b];
                result[i] += (h * v[j]) * batch.inverseMasses[i];
                if (a != b)
                    result[j] += (h.transpose() * v[i]) * batch.inverseMasses[j];
            }
    }
}

/** u . M v */
template <class Real>
Real massProduct(const StiffBatch<Real>& batch, const std::vector<Vector3<Real>>& u,
                 const std::vector<Vector3<Real>>& v) {
    Real sum = 0;
    for (int i = 0; i < batch.numMobile; i++)
        sum += batch.masses[i] * u[i].dot(v[i]);
    return sum;
}

/**
 * Solve P M^-1 K y = P r in the tangent space that was factored last, r in work.residual, y into work.v.
 *
 * By conjugate gradients in the inner product of M: as K differs from M by the relative distortion of the molecule
 * only, a few iterations suffice, with no other factorization than that of G M^-1 G^T. Lanes that are done wait for the
 * others.
 *
 * @param tolerance   the residual at the end, relative to that at the beginning
 * @return in which lanes K is positive definite on the tangent space and the iteration converges
 */
template <class Real>
MaskOf<Real> solveOnTangentSpace(const StiffBatch<Real>& batch, double tolerance, StiffWorkspace<Real>& work) {
    const int n = batch.numParticles(); // vectors of fixed ones are 0
    projectOnRows(batch, work, work.residual);
    for (int i = 0; i < n; i++) {
        work.v[i].setZero();
        work.direction[i] = work.residual[i];
    }
    Real square = massProduct(batch, work.residual, work.residual);
    const Real target = tolerance * tolerance * square;
    MaskOf<Real> definite(true), waiting = square > target;
    for (int iteration = 0; iteration < maxConjugateGradientIterations; iteration++) {
        if (findFalse<Real>(!waiting, batch.count) < 0)
            break;
        applyCurvature(batch, work, work.direction, work.image);
        const Real curvature = massProduct(batch, work.direction, work.image);
        definite = definite & ((curvature > Real(0)) | !waiting);
        waiting = waiting & definite;
        const Real length = select(waiting, square / curvature, Real(0));
        for (int i = 0; i < n; i++) {
            work.v[i] += work.direction[i] * length;
            work.residual[i] -= work.image[i] * length;
        }
        projectOnRows(batch, work, work.residual);
        const Real next = massProduct(batch, work.residual, work.residual);
        const Real ratio = select(waiting, next / square, Real(0));
        for (int i = 0; i < n; i++)
            work.direction[i] = work.residual[i] + work.direction[i] * ratio;
        square = select(waiting, next, square);
        waiting = waiting & (square > target);
    }
    return definite & !waiting & isFinite(square) & areFinite(batch, work.v);
}

/**
 * Find A(q) for a batch, by Newton's iteration: with g(A) = s(A) - s0 and the multipliers l of the last iteration,
 *
 *     [ K  G^T ] [dA]   [-M (A - q)]
 *     [ G   0  ] [l ] = [    -g    ],     K = M + sum l_p Hess s_p(A),     A <- A + dA.
 *
 * dA is the sum of a normal part, -M^-1 G^T (G M^-1 G^T)^-1 g, and a tangent part.
 *
 * @param q   positions [nm]
 * @param A   the nearest positions on the manifold [nm], written for the mobile particles
 * @return in which lanes the iteration converges to a point of the manifold; in others A is not written
 */
template <class Real>
MaskOf<Real> findNearestPoint(const StiffBatch<Real>& batch, const double* q, const Box& box,
                              StiffWorkspace<Real>& work, double* A) {
    using std::abs;
    using std::max;
    const int n = batch.numParticles(), numRows = batch.numRows();
    const std::vector<StiffRow>& rows = batch.pattern->rows.rows;
    std::vector<Vector3<Real>>& normal = work.forces;
    gather(batch, q, work.x);
    gather(batch, q, work.start);
    std::fill_n(work.multipliers.begin(), numRows, Real(0));
    MaskOf<Real> found(numRows == 0), possible(true);
    for (int iteration = 0; iteration < maxNewtonIterations; iteration++) {
        if (findFalse<Real>(found | !possible, batch.count) < 0)
            break;
        possible = possible & factorTangentSpace(batch, box, work);
        computeCurvature(batch, box, work);
        Real deviation = 0;
        for (int p = 0; p < numRows; p++)
            visitRow(rows, p, work, box, [&](const auto& coordinate) {
                const Real s0 = (rows[p].bend < 0 ? batch.harmonics[rows[p].harmonic].s0 : Real(0));
                const Real g = coordinate.value - s0;
                work.multipliers[p] = -g;
                deviation = max(deviation, Real(abs(g)));
            });
        for (int i = 0; i < n; i++)
            normal[i].setZero();
        imposeRates(batch, work, normal);

        applyCurvature(batch, work, normal, work.residual);
        for (int i = 0; i < n; i++)
            work.residual[i] = work.start[i] - work.x[i] - work.residual[i];
        const MaskOf<Real> solved = solveOnTangentSpace(batch, newtonTolerance, work);
        if (findFalse<Real>(solved, batch.count) >= 0) {
            // Too far off for Newton: K = M is positive definite at least.
            for (int i = 0; i < n; i++)
                work.residual[i] = work.start[i] - work.x[i];
            projectOnRows(batch, work, work.residual);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < 3; j++)
                    work.v[i][j] = select(solved, work.v[i][j], work.residual[i][j]);
        }

        // The multipliers, and the step; the points that have been found stay.

        for (int i = 0; i < n; i++)
            work.direction[i] = normal[i] + work.v[i];
        applyCurvature(batch, work, work.direction, work.image);
        for (int i = 0; i < n; i++)
            work.image[i] = work.start[i] - work.x[i] - work.image[i];
        for (int p = 0; p < numRows; p++)
            work.multipliers[p] = computeRate(rows[p], work.gradients.data(), work.image.data());
        solveRows(batch, work, work.multipliers);
        Real largestMove = 0;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < 3; j++) {
                const Real move = select(found, Real(0), work.direction[i][j]);
                work.x[i][j] += move;
                largestMove = max(largestMove, Real(abs(move)));
            }
        const MaskOf<Real> arrived = (largestMove <= Real(manifoldTolerance)) & !found;
        possible = possible & ((!arrived) | (deviation <= Real(equilibriumTolerance)));
        found = found | arrived;
    }
    return scatter<Real>(found & possible & areFinite(batch, work.x), batch, work.x, A);
}

/**
 * Pull a force at A(q) back to q: compute a = M^-1 A'(q)^T F for a batch, with the exact Jacobian A'. Differentiating
 * the equations of A(q) gives A' = Y M, where a = Y F is the solution of
 *
 *     [ K  G^T ] [a ]   [F]
 *     [ G   0  ] [mu] = [0],     K = M + sum l_p Hess s_p(A).
 *
 * @param q   positions [nm]
 * @param A   A(q) [nm]
 * @param F   forces at A(q), all terms; those of the stiff ones are taken away [kJ/mol/nm]
 * @param a   accelerations [nm/ps^2], written
 * @return in which lanes K is positive definite on the tangent space and all numbers are finite; in others a is not
 *         written
 */
template <class Real>
MaskOf<Real> pullBack(const StiffBatch<Real>& batch, const double* q, const double* A, const double* F, const Box& box,
                      StiffWorkspace<Real>& work, double* a) {
    const int n = batch.numParticles();
    gather(batch, A, work.x);
    gather(batch, q, work.start);
    const MaskOf<Real> factored = factorTangentSpace(batch, box, work);
    for (int i = 0; i < n; i++)
        work.direction[i] = work.start[i] - work.x[i];
    for (int p = 0; p < batch.numRows(); p++)
        work.multipliers[p] = computeRate(batch.row(p), work.gradients.data(), work.direction.data());
    if (batch.numRows() > 0)
        solveRows(batch, work, work.multipliers);
    computeCurvature(batch, box, work);
    computeSlowAccelerations(batch, A, F, box, work);
    std::copy_n(work.a.begin(), n, work.residual.begin());
    const MaskOf<Real> solved = solveOnTangentSpace(batch, pullBackTolerance, work);
    return scatter<Real>(factored & solved, batch, work.v, a);
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_MANIFOLD_H_ */
