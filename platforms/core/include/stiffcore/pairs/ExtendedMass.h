#ifndef STIFFCORE_EXTENDED_MASS_H_
#define STIFFCORE_EXTENDED_MASS_H_

#include "PairSystem.h"
#include <cmath>

/**
 * The extended system of a mass penalty: kinetic energy 1/2 v^T M v + 1/2 sum kappa_p w_p^2, tied by w = G(x) v, where
 * G = ds/dx. With the matrix A = G M^-1 G^T + 1/kappa, the velocities (v, w) closest to given ones, in the metric of
 * the kinetic energy, that are tied are
 *
 *     A l = G v - w,    v <- v - M^-1 G^T l,    w <- w + l / kappa.
 *
 * For constraints 1/kappa = 0 and w = 0. A is positive definite whatever the penalized pairs are; constraints may
 * depend on each other thanks to a small regularization of theirs.
 */
namespace stiffcore {

/// What is added to the diagonal of A for constraints, relative to the diagonal of G M^-1 G^T.
constexpr double pairRegularization = 1e-9;

/** Compute lengths and directions of the pairs at work.x. */
template <class Real> void computeDirections(const PairBatch<Real>& batch, const Box& box, PairWorkspace<Real>& work) {
    using std::sqrt;
    const double tiny = 1e-200; // two particles in one place have no direction: 0
    for (int p = 0; p < batch.size(); p++) {
        const PatternPair& pair = batch.pattern->pairs[p];
        Vector3<Real> d = work.x[pair.atoms[1]] - work.x[pair.atoms[0]];
        if (pair.periodic)
            d = box.minimumImage(d);
        work.r[p] = sqrt(d.squaredNorm() + tiny);
        work.u[p] = d * Real(1 / work.r[p]);
    }
}

/** The rate of each length under velocities, G v. */
template <class Real> Real computeRate(const PairBatch<Real>& batch, int p, const PairWorkspace<Real>& work) {
    const PatternPair& pair = batch.pattern->pairs[p];
    return work.u[p].dot(work.v[pair.atoms[1]] - work.v[pair.atoms[0]]);
}

/** vectors <- vectors - M^-1 G^T multipliers, with the given directions. */
template <class Real>
void subtractImpulses(const PairBatch<Real>& batch, const std::vector<Vector3<Real>>& directions,
                      const std::vector<Real>& multipliers, std::vector<Vector3<Real>>& vectors) {
    for (int p = 0; p < batch.size(); p++) {
        const auto& [i, j] = batch.pattern->pairs[p].atoms;
        const Vector3<Real> impulse = directions[p] * multipliers[p];
        vectors[i] += impulse * batch.inverseMasses[i];
        vectors[j] -= impulse * batch.inverseMasses[j];
    }
}

/**
 * The diagonal of A for a pair whose direction has turned by an angle with this cosine: if it has not, the inverse
 * reduced mass and 1/kappa or, for a constraint, the regularization.
 */
template <class Real> Real diagonalEntry(const PairBatch<Real>& batch, int p, const Real& cosine) {
    const auto& [i, j] = batch.pattern->pairs[p].atoms;
    const Real inverseMass = batch.inverseMasses[i] + batch.inverseMasses[j];
    if (batch.pattern->pairs[p].constrained)
        return inverseMass * (cosine + pairRegularization);
    return inverseMass * cosine + batch.compliances[p];
}

/** Assemble A at work.u. If constrainedOnly, rows and columns of penalized pairs become those of the identity. */
template <class Real> void assemble(const PairBatch<Real>& batch, bool constrainedOnly, PairWorkspace<Real>& work) {
    const SchurPattern& schur = batch.pattern->schur;
    const std::vector<PatternPair>& pairs = batch.pattern->pairs;
    Real* A = work.matrixValues(batch);
    std::fill_n(A, schur.layout.getNumValues(), Real(0));
    for (int p = 0; p < batch.size(); p++)
        A[schur.diagonalSlots[p]] =
                constrainedOnly && !pairs[p].constrained ? Real(1) : diagonalEntry(batch, p, Real(1));
    for (size_t i = 0; i < schur.couplings.size(); i++) {
        const Coupling& coupling = schur.couplings[i];
        if (!constrainedOnly || (pairs[coupling.p].constrained && pairs[coupling.q].constrained))
            A[coupling.slot] += batch.couplings[i] * work.u[coupling.p].dot(work.u[coupling.q]);
    }
}

template <class Real> auto factor(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    return factorMatrix(batch.schur.get(), batch.size(), work.matrixValues(batch));
}

/** multipliers <- A^-1 multipliers, with the factors of A. */
template <class Real>
void solve(const PairBatch<Real>& batch, PairWorkspace<Real>& work, std::vector<Real>& multipliers) {
    solveMatrix(batch.schur.get(), batch.size(), work.matrixValues(batch), multipliers.data());
}

/** Get ready for what takes place at work.x: compute the directions, and factor A. */
template <class Real> void arrive(const PairBatch<Real>& batch, const Box& box, PairWorkspace<Real>& work) {
    computeDirections(batch, box, work);
    if constexpr (std::is_same_v<Real, double>)
        if (batch.factoredAt) {
            // A step begins where the last one has ended: large matrices are still there.
            std::vector<Vector3<double>>& factoredAt = *batch.factoredAt;
            const auto end = work.x.begin() + batch.pattern->numParticles;
            if (!batch.pattern->hasPeriodic && std::equal(work.x.begin(), end, factoredAt.begin(), factoredAt.end()))
                return;
            factoredAt.assign(work.x.begin(), end);
        }
    assemble(batch, false, work);
    factor(batch, work);
}

/** Tie the velocities, (v, w) <- the closest ones with w = G v. */
template <class Real> void tieVelocities(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    for (int p = 0; p < batch.size(); p++)
        work.multipliers[p] = computeRate(batch, p, work) - work.w[p];
    solve(batch, work, work.multipliers);
    subtractImpulses(batch, work.u, work.multipliers, work.v);
    for (int p = 0; p < batch.size(); p++)
        work.w[p] += batch.compliances[p] * work.multipliers[p];
}

/** Take positions and velocities of a batch from those of the whole System, with the rates w = G v. */
template <class Real>
void loadTied(const PairBatch<Real>& batch, const double* x, const double* v, const Box& box,
              PairWorkspace<Real>& work) {
    gather(batch, x, work.x);
    gather(batch, v, work.v);
    for (int i = batch.pattern->numMobile; i < batch.pattern->numParticles; i++)
        work.v[i].setZero();
    computeDirections(batch, box, work);
    for (int p = 0; p < batch.size(); p++)
        work.w[p] = (batch.pattern->pairs[p].constrained ? Real(0) : computeRate(batch, p, work));
}

/** The same, and factor A. */
template <class Real>
void load(const PairBatch<Real>& batch, const double* x, const double* v, const Box& box, PairWorkspace<Real>& work) {
    loadTied(batch, x, v, box, work);
    arrive(batch, box, work);
}

/** work.a += -scale M^-1 grad ln det A / 2, with the factors that are at hand. */
template <class Real>
void addDeterminantForces(const PairBatch<Real>& batch, const Real& scale, bool constrainedOnly,
                          PairWorkspace<Real>& work) {
    const SchurPattern& schur = batch.pattern->schur;
    const std::vector<PatternPair>& pairs = batch.pattern->pairs;
    const int n = batch.size();
    invertMatrix(batch.schur.get(), n, work.matrixValues(batch), work.inverse.data());
    for (int p = 0; p < n; p++)
        work.y[p].setZero();
    // d(ln det A) = sum_pq (A^-1)_pq dA_pq = 2 sum_p du_p . y_p
    for (size_t i = 0; i < schur.couplings.size(); i++) {
        const Coupling& coupling = schur.couplings[i];
        const int p = coupling.p, q = coupling.q;
        if (constrainedOnly && !(pairs[p].constrained && pairs[q].constrained))
            continue;
        const Real entry = work.inverse[coupling.slot] * batch.couplings[i];
        work.y[p] += work.u[q] * entry;
        work.y[q] += work.u[p] * entry;
    }
    for (int p = 0; p < n; p++) {
        const Real length = work.u[p].dot(work.y[p]), factor = scale / work.r[p];
        const Vector3<Real> force = (work.y[p] - work.u[p] * length) * factor;
        const auto& [i, j] = pairs[p].atoms;
        work.a[i] += force * batch.inverseMasses[i];
        work.a[j] -= force * batch.inverseMasses[j];
    }
}

/**
 * Add the force that undoes the bias of the inertia on the positions, -kT/2 grad (ln det A - ln det A_cc), to the
 * accelerations work.a. A_cc is the part of A that belongs to constraints: constrained molecules are sampled as by any
 * other integrator, which is with the bias of their constraints.
 */
template <class Real> void addMetricForces(const PairBatch<Real>& batch, double kT, PairWorkspace<Real>& work) {
    if (!batch.pattern->hasPenalized)
        return;
    addDeterminantForces(batch, Real(kT), false, work);
    if (!batch.pattern->hasConstrained)
        return;
    assemble(batch, true, work);
    factor(batch, work);
    addDeterminantForces(batch, Real(-kT), true, work);
    assemble(batch, false, work);
    factor(batch, work);
}

/** v <- v + t a, tied. */
template <class Real> void kick(const PairBatch<Real>& batch, double t, PairWorkspace<Real>& work) {
    for (int i = 0; i < batch.pattern->numMobile; i++)
        work.v[i] += work.a[i] * Real(t);
    tieVelocities(batch, work);
}

/** The Ornstein-Uhlenbeck flow of v and w, tied. The noise of both has been gathered. */
template <class Real> void thermalize(const PairBatch<Real>& batch, double damping, PairWorkspace<Real>& work) {
    for (int i = 0; i < batch.pattern->numMobile; i++)
        work.v[i] = work.v[i] * Real(damping) + work.noise[i];
    for (int p = 0; p < batch.size(); p++)
        work.w[p] = work.w[p] * damping + work.pairNoise[p];
    tieVelocities(batch, work);
}

/**
 * By how much the inertias raise the logarithm of the determinant of the masses on the tangent space of the
 * constraints, ln det(M + G^T kappa G) - ln det M = ln det A - ln det A_cc + sum ln kappa_p, of all blocks.
 */
template <class Real> double computeLogMassRatio(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    double sum = 0;
    auto addDeterminant = [&](double sign) {
        for (int lane = 0; lane < batch.count; lane++)
            sum += sign * logDeterminant(batch.schur.get(), batch.size(), work.matrixValues(batch), lane);
    };
    if (batch.pattern->hasConstrained) {
        assemble(batch, true, work);
        factor(batch, work);
        addDeterminant(-1);
    }
    assemble(batch, false, work);
    factor(batch, work);
    addDeterminant(1);
    for (int lane = 0; lane < batch.count; lane++)
        for (int p = 0; p < batch.size(); p++)
            if (!batch.pattern->pairs[p].constrained)
                sum -= std::log(LaneTraits<Real>::lane(batch.compliances[p], lane));
    return sum;
}

/** The kinetic energy of the penalized motion, 1/2 sum kappa_p w_p^2, of all blocks [kJ/mol]. */
template <class Real> double computePenaltyEnergy(const PairBatch<Real>& batch, const PairWorkspace<Real>& work) {
    double energy = 0;
    for (int lane = 0; lane < batch.count; lane++)
        for (int p = 0; p < batch.size(); p++)
            if (!batch.pattern->pairs[p].constrained) {
                const double w = LaneTraits<Real>::lane(work.w[p], lane);
                energy += 0.5 * w * w / LaneTraits<Real>::lane(batch.compliances[p], lane);
            }
    return energy;
}

} // namespace stiffcore

#endif /* STIFFCORE_EXTENDED_MASS_H_ */
