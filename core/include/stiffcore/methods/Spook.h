#ifndef STIFFCORE_METHODS_SPOOK_H_
#define STIFFCORE_METHODS_SPOOK_H_

#include "../constraints/ConstraintBatch.h"
#include "../rows/Rows.h"

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

/** Particles in one place have no direction: a constraint without a gradient exerts no force, whatever its rate. */
template <class Real>
void exertNothingWithoutGradient(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++)
        work.multipliers[p] = select(work.inverseMasses[p] > Real(0), work.multipliers[p], Real(0));
}

/**
 * v <- v', and work.multipliers <- lambda.
 *
 * @param damping   tau of constraints that have none of their own [ps]
 * @return in which lanes there was a solution
 */
template <class Real>
[[gnu::flatten]] auto kickSpook(const ConstraintBatch<Real>& batch, double h, double damping,
                                ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++) {
        if (batch.row(p).kind == Constraint::Kind::Velocity) {
            work.multipliers[p] = work.values[p];
            work.added[p] = batch.compliances[p] * (1 / h);
        }
        else {
            const Real tau = select(batch.dampings[p] > Real(0), batch.dampings[p], Real(damping));
            const Real upsilon = 1 / (1 + tau * (4 / h));
            work.multipliers[p] = upsilon * (computeRate(batch.row(p), work.gradients.data(), work.v.data()) -
                                             work.values[p] * (4 / h));
            work.added[p] = batch.compliances[p] * upsilon * (4 / (h * h));
        }
    }
    addScaled(batch, Real(h), work.a, work.v);
    assembleRows(batch, work);
    const auto positive = factorRows(batch, work);
    exertNothingWithoutGradient(batch, work);
    imposeRates(batch, work, work.v);
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
    MaskOf<Real> all(true);
    for (int p = 0; p < batch.numRows(); p++) {
        const PatternConstraint& constraint = batch.row(p);
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
 * Factor J M^-1 J^T, regularized for constraints that depend on each other; in which lanes that was possible.
 */
template <class Real> auto factorRigidly(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    addRegularization(batch, work);
    assembleRows(batch, work);
    return factorRows(batch, work);
}

/** v <- the closest velocities, in the metric of the masses, that the constraints allow. */
template <class Real> auto projectVelocities(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++) {
        const bool onVelocities = (batch.row(p).kind == Constraint::Kind::Velocity);
        work.multipliers[p] = (onVelocities ? work.values[p] : Real(0));
    }
    const auto positive = factorRigidly(batch, work);
    exertNothingWithoutGradient(batch, work);
    imposeRates(batch, work, work.v);
    return positive;
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_SPOOK_H_ */
