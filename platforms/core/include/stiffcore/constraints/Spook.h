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

/**
 * Factor J M^-1 J^T + D, with D from work.diagonal, for constraints that have been evaluated.
 *
 * @return in which lanes it is positive definite
 */
template <class Real> auto factorConstraints(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    const ConstraintPattern& pattern = *batch.pattern;
    const SchurPattern& schur = pattern.schur;
    Real* matrix = work.matrixValues(batch);
    std::fill_n(matrix, schur.layout.getNumValues(), Real(0));
    for (int p = 0; p < batch.size(); p++)
        matrix[schur.diagonalSlots[p]] = work.diagonal[p] + work.inverseMasses[p];
    for (size_t i = 0; i < schur.couplings.size(); i++) {
        const Coupling& coupling = schur.couplings[i];
        const Vector3<Real>&first = work.gradients[pattern.constraints[coupling.p].firstGradient + coupling.a],
              &second = work.gradients[pattern.constraints[coupling.q].firstGradient + coupling.b];
        matrix[coupling.slot] += batch.couplings[i] * first.dot(second);
    }
    return factorMatrix(batch.schur.get(), batch.size(), matrix);
}

/**
 * Change velocities along the gradients until constraints move at given rates: with the targets from work.multipliers
 * and the factors, solve
 *
 *     (J M^-1 J^T + D) lambda = target - J v,    v <- v + M^-1 J^T lambda.
 *
 * The multipliers lambda come in the place of the targets.
 */
template <class Real> void imposeRates(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.size(); p++) {
        // Particles in one place have no direction: a constraint without a gradient exerts no force.
        const Real missing = work.multipliers[p] - computeRate(batch, p, work.v, work);
        work.multipliers[p] = select(work.inverseMasses[p] > Real(0), missing, Real(0));
    }
    solveMatrix(batch.schur.get(), batch.size(), work.matrixValues(batch), work.multipliers.data());
    for (int p = 0; p < batch.size(); p++) {
        const PatternConstraint& constraint = batch.pattern->constraints[p];
        for (size_t a = 0; a < constraint.atoms.size(); a++)
            work.v[constraint.atoms[a]] += work.gradients[constraint.firstGradient + a] *
                                           Real(work.multipliers[p] * batch.inverseMasses[constraint.atoms[a]]);
    }
}

/**
 * v <- v', and work.multipliers <- lambda.
 *
 * @param damping   tau of constraints that have none of their own [ps]
 * @return in which lanes there was a solution
 */
template <class Real>
auto kickSpook(const ConstraintBatch<Real>& batch, double h, double damping, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.size(); p++) {
        if (batch.pattern->constraints[p].kind == Constraint::Kind::Velocity) {
            work.multipliers[p] = work.values[p];
            work.diagonal[p] = batch.compliances[p] * (1 / h);
        }
        else {
            const Real tau = select(batch.dampings[p] > Real(0), batch.dampings[p], Real(damping));
            const Real upsilon = 1 / (1 + tau * (4 / h));
            work.multipliers[p] = upsilon * (computeRate(batch, p, work.v, work) - work.values[p] * (4 / h));
            work.diagonal[p] = batch.compliances[p] * upsilon * (4 / (h * h));
        }
    }
    for (int i = 0; i < batch.numMobile; i++)
        work.v[i] += work.a[i] * Real(h);
    const auto positive = factorConstraints(batch, work);
    imposeRates(batch, work);
    return positive;
}

/// No constrained distance grows by more than this factor in a step that means anything.
constexpr double maxGrowth = 10;

/**
 * Whether the way h v leaves constrained distances within bounds, in which lanes: the linear solve has a solution for
 * any step, also for one in which a distance turns by many radians, which a motion along straight lines cannot do.
 */
template <class Real>
auto hasShortWays(const ConstraintBatch<Real>& batch, double h, const ConstraintWorkspace<Real>& work) {
    typename DenseLdlt<Real>::Mask all(true);
    for (int p = 0; p < batch.size(); p++) {
        const PatternConstraint& constraint = batch.pattern->constraints[p];
        if (constraint.kind != Constraint::Kind::Distance)
            continue;
        const int i = constraint.atoms[0], j = constraint.atoms[1];
        const Vector3<Real> before = work.x[j] - work.x[i], after = before + (work.v[j] - work.v[i]) * Real(h);
        const Real length = before.squaredNorm() + batch.values[p] * batch.values[p];
        all = all & !(after.squaredNorm() > maxGrowth * maxGrowth * length); // what is not finite is found later
    }
    return all;
}

/**
 * Factor J M^-1 J^T, with as much on the diagonal as keeps the matrix of constraints that depend on each other from
 * being singular; in which lanes that was possible.
 */
template <class Real> auto factorRigidly(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    const double regularization = 1e-9; // relative
    for (int p = 0; p < batch.size(); p++) {
        // A constraint without a gradient is a row of its own that does nothing.
        const Real inverseMass = work.inverseMasses[p];
        work.diagonal[p] = regularization * select(inverseMass > Real(0), inverseMass, Real(1));
    }
    return factorConstraints(batch, work);
}

/** v <- the closest velocities, in the metric of the masses, that the constraints allow. */
template <class Real> auto projectVelocities(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.size(); p++) {
        const bool onVelocities = (batch.pattern->constraints[p].kind == Constraint::Kind::Velocity);
        work.multipliers[p] = (onVelocities ? work.values[p] : Real(0));
    }
    const auto positive = factorRigidly(batch, work);
    imposeRates(batch, work);
    return positive;
}

} // namespace stiffcore

#endif /* STIFFCORE_SPOOK_H_ */
