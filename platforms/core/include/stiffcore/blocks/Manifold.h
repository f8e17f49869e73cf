#ifndef STIFFCORE_BLOCKS_MANIFOLD_H_
#define STIFFCORE_BLOCKS_MANIFOLD_H_

#include "../terms/Hessian.h"
#include "../terms/Expansion.h"
#include "FastFlow.h"
#include "TangentSpace.h"
#include <algorithm>
#include <cmath>

/**
 * The manifold {A: s(A) = s0} on which the coordinates of a block's tangent space have their equilibrium values, and
 * the map A(q) to the point of it that is nearest to q in the metric of the masses (Lubich and Weiss 2014, Eq. 15):
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

/** Compute the curvature of the rows at work.positions, work.hessians <- multipliers_p Hess s_p, l not scaled. */
template <class Real> void computeCurvature(const BlockInstance<Real>& block, const Box& box, Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    for (size_t p = 0; p < pattern.rows.size(); p++) {
        const Expansion<Real> potential = {work.multipliers[p], 0};
        visitRow(pattern, p, work, box, [&](const auto& coordinate) {
            addHessian(potential, coordinate,
                       [&](int i, int j, const Matrix3<Real>& h) { work.hessians[6 * p + i * (i + 1) / 2 + j] = h; });
        });
    }
}

/** result <- M^-1 K v, K = M + the Hessians of the rows in work.hessians. */
template <class Real>
void applyCurvature(const BlockInstance<Real>& block, const Workspace<Real>& work, const std::vector<Vector3<Real>>& v,
                    std::vector<Vector3<Real>>& result) {
    const BlockPattern& pattern = *block.pattern;
    for (int i = 0; i < block.getNumMobile(); i++)
        result[i] = v[i];
    for (size_t p = 0; p < pattern.rows.size(); p++)
        forEachMobile(pattern.termOfRow(p), pattern.numMobile, [&](int a, int i) {
            forEachMobile(pattern.termOfRow(p), pattern.numMobile, [&](int b, int j) {
                if (b > a)
                    return;
                const Matrix3<Real>& h = work.hessians[6 * p + a * (a + 1) / 2 + b];
                result[i] += h * v[j] / block.masses[i];
                if (a != b)
                    result[j] += h.transpose() * v[i] / block.masses[j];
            });
        });
}

/**
 * Solve P M^-1 K y = P r in the tangent space that was factored last, r in work.residual, y into work.velocities.
 *
 * By conjugate gradients in the inner product of M: as K differs from M by the relative distortion of the molecule
 * only, a few iterations suffice, with no other factorization than that of G M^-1 G^T.
 *
 * @param tolerance   the residual at the end, relative to that at the beginning
 * @return whether K is positive definite on the tangent space and the iteration converges
 */
template <class Real>
bool solveOnTangentSpace(const BlockInstance<Real>& block, double tolerance, Workspace<Real>& work) {
    const int n = block.getNumMobile();
    auto massProduct = [&](const std::vector<Vector3<Real>>& u, const std::vector<Vector3<Real>>& v) {
        Real sum = 0;
        for (int i = 0; i < n; i++)
            sum += block.masses[i] * u[i].dot(v[i]);
        return sum;
    };
    projectLocally(block, work, work.residual);
    for (int i = 0; i < n; i++) {
        work.velocities[i].setZero();
        work.direction[i] = work.residual[i];
    }
    Real square = massProduct(work.residual, work.residual);
    const Real target = tolerance * tolerance * square;
    for (int iteration = 0; square > target; iteration++) {
        applyCurvature(block, work, work.direction, work.image);
        const Real curvature = massProduct(work.direction, work.image);
        if (!(curvature > 0) || iteration == maxConjugateGradientIterations)
            return false;
        const Real length = square / curvature;
        for (int i = 0; i < n; i++) {
            work.velocities[i] += length * work.direction[i];
            work.residual[i] -= length * work.image[i];
        }
        projectLocally(block, work, work.residual);
        const Real next = massProduct(work.residual, work.residual);
        for (int i = 0; i < n; i++)
            work.direction[i] = work.residual[i] + next / square * work.direction[i];
        square = next;
    }
    return std::isfinite(square) && areFinite(block, work.velocities);
}

/**
 * Find A(q) for one block, by Newton's iteration: with g(A) = s(A) - s0 and the multipliers l of the last iteration,
 *
 *     [ K  G^T ] [dA]   [-M (A - q)]
 *     [ G   0  ] [l ] = [    -g    ],     K = M + sum l_p Hess s_p(A),     A <- A + dA.
 *
 * dA is the sum of a normal part, -M^-1 G^T (G M^-1 G^T)^-1 g, and a tangent part.
 *
 * @param q   positions [nm]
 * @param A   the nearest positions on the manifold [nm], written for the mobile particles
 * @return whether the iteration converges to a point of the manifold; if not, A is not written
 */
template <class Real>
bool findNearestPoint(const BlockInstance<Real>& block, const double* q, const Box& box, Workspace<Real>& work,
                      double* A) {
    const BlockPattern& pattern = *block.pattern;
    const int n = block.getNumMobile(), numRows = pattern.rows.size();
    std::vector<Vector3<Real>>& normal = work.forces;
    gatherPositions(block, q, work);
    gatherMobile(block, q, work.start);
    std::fill_n(work.multipliers.begin(), numRows, Real(0));
    for (int iteration = 0; iteration < maxNewtonIterations; iteration++) {
        computeCurvature(block, box, work);
        if (!factorRows(block, block.onManifold, box, work))
            return false;
        Real deviation = 0;
        for (int p = 0; p < numRows; p++)
            visitRow(pattern, p, work, box, [&](const auto& coordinate) {
                const int term = pattern.rows[p].term;
                const Real s0 = (pattern.rows[p].bend < 0 ? block.potentials[term].s0 : Real(0));
                const Real g = (block.onManifold[p] ? coordinate.value - s0 : Real(0));
                work.multipliers[p] = work.scales[p] * g;
                deviation = std::max(deviation, std::abs(g));
            });
        solveMultipliers(block, work);
        for (int i = 0; i < n; i++)
            normal[i].setZero();
        subtractNormal(block, work, normal);

        applyCurvature(block, work, normal, work.residual);
        for (int i = 0; i < n; i++)
            work.residual[i] = work.start[i] - work.positions[i] - work.residual[i];
        if (!solveOnTangentSpace(block, newtonTolerance, work)) {
            // Too far off for Newton: K = M is positive definite at least.
            for (int i = 0; i < n; i++)
                work.velocities[i] = work.start[i] - work.positions[i];
            projectLocally(block, work, work.velocities);
        }

        // The multipliers, and the step.

        for (int i = 0; i < n; i++)
            work.direction[i] = normal[i] + work.velocities[i];
        applyCurvature(block, work, work.direction, work.image);
        for (int i = 0; i < n; i++)
            work.image[i] = work.start[i] - work.positions[i] - work.image[i];
        computeRates(block, work.image, work);
        solveMultipliers(block, work);
        for (int p = 0; p < numRows; p++)
            work.multipliers[p] *= work.scales[p];
        Real largestMove = 0;
        for (int i = 0; i < n; i++) {
            work.positions[i] += work.direction[i];
            largestMove = std::max(largestMove, work.direction[i].cwiseAbs().maxCoeff());
        }
        if (largestMove < manifoldTolerance) {
            if (!(deviation < equilibriumTolerance) || !areFinite(block, work.positions))
                return false;
            scatterMobile(block, work.positions, A);
            return true;
        }
    }
    return false;
}

/**
 * Pull a force at A(q) back to q: compute a = M^-1 A'(q)^T F for one block, with the exact Jacobian A'. Differentiating
 * the equations of A(q) gives A' = Y M, where a = Y F is the solution of
 *
 *     [ K  G^T ] [a ]   [F]
 *     [ G   0  ] [mu] = [0],     K = M + sum l_p Hess s_p(A).
 *
 * @param q   positions [nm]
 * @param A   A(q) [nm]
 * @param F   forces at A(q), all terms; those of the stiff ones are taken away [kJ/mol/nm]
 * @param a   accelerations [nm/ps^2], written
 * @return whether K is positive definite on the tangent space and all numbers are finite; if not, a is not written
 */
template <class Real>
bool pullBack(const BlockInstance<Real>& block, const double* q, const double* A, const double* F, const Box& box,
              Workspace<Real>& work, double* a) {
    const BlockPattern& pattern = *block.pattern;
    const int n = block.getNumMobile(), numRows = pattern.rows.size();
    gatherPositions(block, A, work);
    gatherMobile(block, q, work.start);
    if (!factorRows(block, block.onManifold, box, work))
        return false;
    for (int i = 0; i < n; i++)
        work.direction[i] = work.start[i] - work.positions[i];
    computeRates(block, work.direction, work);
    solveMultipliers(block, work);
    for (int p = 0; p < numRows; p++)
        work.multipliers[p] *= work.scales[p];
    computeCurvature(block, box, work);
    computeStiffForces(block, box, work);
    gatherMobile(block, F, work.residual);
    for (int i = 0; i < n; i++)
        work.residual[i] = (work.residual[i] - work.forces[i]) / block.masses[i];
    if (!solveOnTangentSpace(block, pullBackTolerance, work))
        return false;
    scatterMobile(block, work.velocities, a);
    return true;
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_MANIFOLD_H_ */
