#ifndef STIFFCORE_METHODS_MICRO_SHAKE_H_
#define STIFFCORE_METHODS_MICRO_SHAKE_H_

#include "Spook.h"
#include <cmath>

namespace stiffcore {

constexpr int maxMicroShakeIterations = 50;

/**
 * A step of SHAKE for displacements y that are tiny beside the positions X they start from: find v' = v + M^-1 G^T l,
 * with G at X + y, such that distances at X + y + h v' are those at X. Their difference
 *
 *     |d0 + d| - |d0| = (2 d0 . d + d . d) / (|d0 + d| + |d0|)
 *
 * is accurate however small the displacement d between two particles is, where that of two lengths would be rounding.
 * Newton's method with the matrix at X + y takes two or three iterations.
 *
 * @param work   x is X + y, a is y, v is v and then v'
 * @return in which lanes it converged
 */
template <class Real>
auto microShake(const ConstraintBatch<Real>& batch, double h, const Box& box, ConstraintWorkspace<Real>& work) {
    using std::abs;
    using std::sqrt;
    // Of the residual, relative to the way in the step; and to what rounding leaves of the differences that it is made
    // of, also of molecules that move as one.
    const double tolerance = 1e-9, rounding = 1e-14, roundingOfEach = 1e-15;
    auto norm = [](const Vector3<Real>& vector) { return Real(sqrt(vector.squaredNorm())); };
    evaluateConstraints(batch, 0, box, work);
    factorRigidly(batch, work);
    for (int iteration = 0;; iteration++) {
        MaskOf<Real> converged(true);
        for (int p = 0; p < batch.numRows(); p++) {
            const PatternConstraint& constraint = batch.row(p);
            const std::vector<int>& atoms = constraint.atoms;
            const Vector3<Real> way = (work.v[atoms[1]] - work.v[atoms[0]]) * Real(h);
            const Vector3<Real> before = work.a[atoms[1]] - work.a[atoms[0]], d = before + way;
            const Vector3<Real> d0 = work.x[atoms[1]] - work.x[atoms[0]] - before;
            const Real length = norm(d0), now = norm(d0 + d);
            const Real residual = (2 * d0.dot(d) + d.squaredNorm()) / (length + now);
            const Real each = norm(work.a[atoms[0]]) + norm(work.a[atoms[1]]) +
                              h * (norm(work.v[atoms[0]]) + norm(work.v[atoms[1]]));
            const Real bound = tolerance * norm(way) + rounding * norm(d) + roundingOfEach * each;
            converged = converged & (abs(residual) <= bound);
            work.multipliers[p] = computeRate(constraint, work.gradients.data(), work.v.data()) - residual * (1 / h);
        }
        if (iteration == maxMicroShakeIterations || findFalse<Real>(converged, batch.count) < 0)
            return converged;
        imposeRates(batch, work, work.v);
    }
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_MICRO_SHAKE_H_ */
