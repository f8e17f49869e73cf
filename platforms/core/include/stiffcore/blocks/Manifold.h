#ifndef STIFFCORE_BLOCKS_MANIFOLD_H_
#define STIFFCORE_BLOCKS_MANIFOLD_H_

#include "../terms/Hessian.h"
#include "../terms/Linear.h"
#include "TangentSpace.h"
#include <algorithm>
#include <cmath>

/**
 * The manifold {A: s(A) = s0} on which the stiff coordinates of a block have their equilibrium values, and the map
 * A(q) to the point of it that is nearest to q in the metric of the masses (Lubich and Weiss 2014, Eq. 15):
 *
 *     M (A - q) + G(A)^T l = 0,     s(A) = s0.
 */
namespace stiffcore {

/// The iteration ends when no atom moves further than this [nm].
constexpr double manifoldTolerance = 1e-12;
/// Coordinates this close to their equilibrium values [nm or rad] have reached them: what the regularization leaves
/// of independent ones is less by orders of magnitude.
constexpr double equilibriumTolerance = 1e-7;
constexpr int maxManifoldIterations = 100, maxConjugateGradientIterations = 100;

/**
 * Find A(q) for one block. Each iteration solves the equations with g(A) = s(A) - s0 linearized at the last A,
 *
 *     G M^-1 G^T l = g + G (q - A),     A <- q - M^-1 G^T l,
 *
 * a Newton iteration that leaves the curvature of s out of its matrix; errors shrink by a factor of about the
 * relative distortion of the molecule.
 *
 * @param q   positions [nm]
 * @param A   the nearest positions on the manifold [nm], written for the mobile particles
 * @return whether the iteration converges to a point of the manifold; if not, A is not written
 */
template <class Real>
bool findNearestPoint(const BlockInstance<Real>& block, const double* q, const Box& box, Workspace<Real>& work,
                      double* A) {
    const BlockPattern& pattern = *block.pattern;
    gatherPositions(block, q, work);
    gatherMobile(block, q, work.start);
    for (int iteration = 0; iteration < maxManifoldIterations; iteration++) {
        if (!factorTangentSpace(block, box, work))
            return false;
        for (int i = 0; i < block.getNumMobile(); i++)
            work.direction[i] = work.start[i] - work.positions[i];
        computeRates(block, work.direction, work);
        Real deviation = 0;
        for (size_t p = 0; p < pattern.terms.size(); p++)
            visitCoordinate(pattern.terms[p], work, box, [&](const auto& coordinate) {
                const Real g = (work.scales[p] > 0 ? coordinate.value - block.potentials[p].s0 : Real(0));
                work.multipliers[p] += work.scales[p] * g;
                deviation = std::max(deviation, std::abs(g));
            });
        solveMultipliers(block, work);
        std::copy_n(work.start.begin(), block.getNumMobile(), work.direction.begin());
        subtractNormal(block, work, work.direction);
        Real largestMove = 0;
        for (int i = 0; i < block.getNumMobile(); i++) {
            largestMove = std::max(largestMove, (work.direction[i] - work.positions[i]).cwiseAbs().maxCoeff());
            work.positions[i] = work.direction[i];
        }
        if (largestMove < manifoldTolerance) {
            if (!(deviation < equilibriumTolerance))
                return false;
            scatterMobile(block, work.positions, A);
            return true;
        }
    }
    return false;
}

/** result <- K v, K = M + the Hessians of the terms in work.hessians. */
template <class Real>
void multiplyCurvature(const BlockInstance<Real>& block, const Workspace<Real>& work,
                       const std::vector<Vector3<Real>>& v, std::vector<Vector3<Real>>& result) {
    const BlockPattern& pattern = *block.pattern;
    for (int i = 0; i < block.getNumMobile(); i++)
        result[i] = block.masses[i] * v[i];
    for (size_t p = 0; p < pattern.terms.size(); p++)
        forEachMobile(pattern.terms[p], pattern.numMobile, [&](int a, int i) {
            forEachMobile(pattern.terms[p], pattern.numMobile, [&](int b, int j) {
                if (b > a)
                    return;
                const Matrix3<Real>& h = work.hessians[6 * p + a * (a + 1) / 2 + b];
                result[i] += h * v[j];
                if (a != b)
                    result[j] += h.transpose() * v[i];
            });
        });
}

/**
 * Pull a force at A(q) back to q: compute a = M^-1 A'(q)^T F for one block, with the exact Jacobian A'. Differentiating
 * the equations of A(q) gives A' = Y M, where a = Y F is the solution of
 *
 *     [ K  G^T ] [a ]   [F]
 *     [ G   0  ] [mu] = [0],     K = M + sum l_p Hess s_p(A).
 *
 * It is found by conjugate gradients in the tangent space, for the operator P M^-1 K. As K differs from M by the
 * relative distortion of the molecule only, a few iterations suffice, with no other factorization than that of
 * G M^-1 G^T.
 *
 * @param q   positions [nm]
 * @param A   A(q) [nm]
 * @param F   forces at A(q) without the stiff ones [kJ/mol/nm]
 * @param a   accelerations [nm/ps^2], written
 * @return whether K is positive definite on the tangent space and the iteration converges; if not, a is not written
 */
template <class Real>
bool pullBack(const BlockInstance<Real>& block, const double* q, const double* A, const double* F, const Box& box,
              Workspace<Real>& work, double* a) {
    const BlockPattern& pattern = *block.pattern;
    const int n = block.getNumMobile();
    auto massProduct = [&](const std::vector<Vector3<Real>>& u, const std::vector<Vector3<Real>>& v) {
        Real sum = 0;
        for (int i = 0; i < n; i++)
            sum += block.masses[i] * u[i].dot(v[i]);
        return sum;
    };
    gatherPositions(block, A, work);
    gatherMobile(block, q, work.start);
    if (!factorTangentSpace(block, box, work))
        return false;

    // The multipliers l at A(q), and with them the curvature.

    for (int i = 0; i < n; i++)
        work.direction[i] = work.start[i] - work.positions[i];
    computeRates(block, work.direction, work);
    solveMultipliers(block, work);
    for (size_t p = 0; p < pattern.terms.size(); p++) {
        const Linear<Real> potential = {work.multipliers[p] * work.scales[p]};
        visitCoordinate(pattern.terms[p], work, box, [&](const auto& coordinate) {
            addHessian(potential, coordinate, [&](int i, int j, const Matrix3<Real>& h) {
                work.hessians[6 * p + i * (i + 1) / 2 + j] = h;
            });
        });
    }

    // Conjugate gradients for P M^-1 K a = P M^-1 F in the inner product of M: the solution in velocities.

    gatherMobile(block, F, work.residual);
    for (int i = 0; i < n; i++) {
        work.residual[i] /= block.masses[i];
        work.velocities[i].setZero();
    }
    projectLocally(block, work, work.residual);
    std::copy_n(work.residual.begin(), n, work.direction.begin());
    Real square = massProduct(work.residual, work.residual);
    const Real target = 1e-26 * square;
    for (int iteration = 0; square > target; iteration++) {
        multiplyCurvature(block, work, work.direction, work.image);
        for (int i = 0; i < n; i++)
            work.image[i] /= block.masses[i];
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
    if (!std::isfinite(square) || !areFinite(block, work.velocities))
        return false;
    scatterMobile(block, work.velocities, a);
    return true;
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_MANIFOLD_H_ */
