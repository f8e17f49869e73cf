#ifndef STIFFCORE_SPOOK_H_
#define STIFFCORE_SPOOK_H_

#include "ConstraintSystem.h"

/**
 * The velocities at the end of a step of SPOOK (Lacoursiere 2007, equations 27 to 29), which is for holonomic
 * constraints with compliance epsilon and damping time tau, and those on velocities with compliance gamma,
 *
 *     M v' = M v + h F + G^T lambda,        G v' + Sigma lambda = Upsilon (G v - 4/h g),    A v' + gamma/h alpha = w,
 *     Upsilon = 1/(1 + 4 tau/h),            Sigma = 4 epsilon Upsilon / h^2.
 *
 * With G and A as the rows of J, and both kinds of multipliers in lambda, v' is eliminated:
 *
 *     (J M^-1 J^T + D) lambda = target - J (v + h M^-1 F),
 *
 * where D is the diagonal of Sigma and gamma/h, and the target is the right side above. J M^-1 J^T is positive
 * semi-definite, and D positive, so that there is a solution whatever the constraints are.
 */
namespace stiffcore {

/** v <- v', and work.multipliers <- lambda, for constraints that have been evaluated at work.x; in which lanes it succeeded. */
template <class Real> auto kickSpook(const ConstraintBatch<Real>& batch, double h, ConstraintWorkspace<Real>& work) {
    const ConstraintPattern& pattern = *batch.pattern;
    const SchurPattern& schur = pattern.schur;
    Real* matrix = work.matrixOf(batch);
    std::fill_n(matrix, schur.layout.getNumValues(), Real(0));
    for (int p = 0; p < batch.size(); p++) {
        const PatternConstraint& constraint = pattern.constraints[p];
        const Real rate = computeRate(batch, p, work.v, work);
        Real &lambda = work.multipliers[p], &diagonal = matrix[schur.diagonalSlots[p]];
        if (constraint.kind == Constraint::Kind::Velocity) {
            lambda = work.values[p];
            diagonal = batch.compliances[p] * (1 / h);
        }
        else {
            const Real upsilon = 1 / (1 + batch.dampings[p] * (4 / h));
            lambda = upsilon * (rate - work.values[p] * (4 / h));
            diagonal = batch.compliances[p] * upsilon * (4 / (h * h));
        }
        lambda -= rate + h * computeRate(batch, p, work.a, work);
        for (size_t a = 0; a < constraint.atoms.size(); a++)
            diagonal += batch.inverseMasses[constraint.atoms[a]] *
                        work.gradients[constraint.firstGradient + a].squaredNorm();
    }
    for (size_t i = 0; i < schur.couplings.size(); i++) {
        const Coupling& coupling = schur.couplings[i];
        const int first = pattern.constraints[coupling.p].firstGradient,
                  second = pattern.constraints[coupling.q].firstGradient;
        matrix[coupling.slot] +=
                batch.couplings[i] * work.gradients[first + coupling.a].dot(work.gradients[second + coupling.b]);
    }
    const auto positive = factorMatrix(batch.schur.get(), batch.size(), matrix);
    solveMatrix(batch.schur.get(), batch.size(), matrix, work.multipliers.data());
    for (int i = 0; i < batch.numMobile; i++)
        work.v[i] += work.a[i] * Real(h);
    for (int p = 0; p < batch.size(); p++) {
        const PatternConstraint& constraint = pattern.constraints[p];
        for (size_t a = 0; a < constraint.atoms.size(); a++)
            work.v[constraint.atoms[a]] += work.gradients[constraint.firstGradient + a] *
                                           Real(work.multipliers[p] * batch.inverseMasses[constraint.atoms[a]]);
    }
    return positive;
}

} // namespace stiffcore

#endif /* STIFFCORE_SPOOK_H_ */
