#ifndef STIFFCORE_METHODS_EXTENDED_MASS_H_
#define STIFFCORE_METHODS_EXTENDED_MASS_H_

#include "../pairs/PairBatch.h"
#include <cmath>

/**
 * The extended system of a mass penalty: kinetic energy 1/2 v^T M v + 1/2 sum kappa_p w_p^2, tied by w = G(x) v, where
 * G = ds/dx: implicit mass-matrix penalization (Bennett 1975; Plechac and Rousset 2010; see docs/mass-penalty.md). With
 * the matrix A = G M^-1 G^T + 1/kappa, the velocities (v, w) closest to given ones, in the metric of the kinetic
 * energy, that are tied are
 *
 *     A l = w - G v,    v <- v + M^-1 G^T l,    w <- w - l / kappa.
 *
 * Where bonds have an inertia, M' stands for M (see PairBatch): everything but the metric force of constraints is as with
 * M. It is constant, so that it biases nothing.
 *
 * For constraints 1/kappa = 0 and w = 0. A is positive definite whatever the penalized pairs are; constraints may
 * depend on each other thanks to a small regularization of theirs. The metric force is that of Fixman (1974).
 */
namespace stiffcore {

/** Compute the lengths of the pairs at work.x and, if asked for, their directions. */
template <bool withDirections, class Real>
void computeLengths(const PairBatch<Real>& batch, const BoxFor<Real>& box, PairWorkspace<Real>& work) {
    const Vector3<Real>* x = work.x.data();
    Vector3<Real>* u = work.gradients.data();
    Real* r = work.r.data();
    for (int p = 0, n = batch.numRows(); p < n; p++) {
        const DistanceRow& pair = batch.row(p);
        Vector3<Real> d = x[pair.atoms[1]] - x[pair.atoms[0]];
        if (pair.periodic)
            d = box.minimumImage(d);
        r[p] = getLength(d);
        if (withDirections)
            u[p] = d * Real(1 / r[p]);
    }
}

/** Factor A at work.x, where the directions have been computed. */
template <class Real> [[gnu::flatten]] void factorThere(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    if constexpr (std::is_same_v<Real, double>)
        if (batch.factoredAt) {
            // A step begins where the last one has ended: large matrices are still there.
            std::vector<Vector3<double>>& factoredAt = *batch.factoredAt;
            const auto end = work.x.begin() + batch.pattern->numParticles;
            if (!batch.pattern->hasPeriodic && std::equal(work.x.begin(), end, factoredAt.begin(), factoredAt.end()))
                return;
            factoredAt.assign(work.x.begin(), end);
        }
    assembleRows(*batch.rowPattern, batch.inverseReducedMasses, batch.couplings, batch.added, work.gradients.data(),
                 work.matrixValues(batch));
    factorRows(batch, work);
}

/** Get ready for what takes place at work.x: compute the directions, and factor A. */
template <class Real> void arrive(const PairBatch<Real>& batch, const BoxFor<Real>& box, PairWorkspace<Real>& work) {
    computeLengths<true>(batch, box, work);
    factorThere(batch, work);
}

/** Tie the velocities, (v, w) <- the closest ones with w = G v. */
template <class Real> [[gnu::flatten]] void tieVelocities(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    std::copy_n(work.w.begin(), batch.numRows(), work.multipliers.begin());
    imposeRates(batch, work, work.v);
    for (int p = 0; p < batch.numRows(); p++)
        work.w[p] -= batch.inverseInertias[p] * work.multipliers[p];
}

/** Begin at work.x with the velocities work.v: compute the directions, and the rates w = G v. */
template <class Real>
[[gnu::flatten]] void beginTied(const PairBatch<Real>& batch, const BoxFor<Real>& box, PairWorkspace<Real>& work) {
    computeLengths<true>(batch, box, work);
    for (int p = 0; p < batch.numRows(); p++)
        work.w[p] =
                (batch.row(p).constrained ? Real(0) : computeRate(batch.row(p), work.gradients.data(), work.v.data()));
}

/**
 * work.a += -scale M^-1 grad ln det A / 2, of the matrix A of some rows. (M, as work.a has it: see spread().)
 *
 * @param weights   of the couplings
 * @param factors   of A: its values, if it is small
 */
template <class Real>
[[gnu::flatten]] void addDeterminantForces(const PairBatch<Real>& batch, const Real& scale,
                                           const RowPattern<DistanceRow>& pattern, const Real* weights,
                                           const SparseMatrix<Real>* sparse, const Real* factors,
                                           PairWorkspace<Real>& work) {
    const int n = pattern.rows.size();
    invertMatrix(sparse, n, factors, work.inverse.data());
    for (int p = 0; p < n; p++)
        work.y[p].setZero();
    // d(ln det A) = sum_pq (A^-1)_pq dA_pq = 2 sum_p du_p . y_p. The couplings of a pair p follow each other.
    const std::vector<Coupling>& couplings = pattern.couplings;
    const Real* inverse = work.inverse.data();
    const Vector3<Real>* u = work.gradients.data();
    Vector3<Real>* y = work.y.data();
    for (size_t i = 0; i < couplings.size();) {
        const int p = couplings[i].p;
        const Vector3<Real> direction = u[pattern.rows[p].firstGradient];
        Vector3<Real> sum = y[p];
        for (; i < couplings.size() && couplings[i].p == p; i++) {
            const int q = couplings[i].q;
            const Real entry = inverse[pattern.slots[i]] * weights[i];
            sum += u[pattern.rows[q].firstGradient] * entry;
            y[q] += direction * entry;
        }
        y[p] = sum;
    }
    for (int p = 0; p < n; p++) {
        const int row = pattern.rows[p].firstGradient; // among all
        const Real length = u[row].dot(work.y[p]), factor = scale / work.r[row];
        const Vector3<Real> force = (work.y[p] - u[row] * length) * factor;
        const auto& [i, j] = pattern.rows[p].atoms;
        work.a[i] += force * batch.inverseMasses[i];
        work.a[j] -= force * batch.inverseMasses[j];
    }
}

/**
 * Add the force that undoes the bias of the inertia on the positions, -kT/2 grad (ln det A - ln det A_cc), to the
 * accelerations work.a. A_cc is the part of A that belongs to constraints, with the masses alone: constrained molecules are
 * sampled as by any other integrator, which is with the bias of their constraints.
 */
template <class Real>
[[gnu::flatten]] void addMetricForces(const PairBatch<Real>& batch, UniformOf<Real> kT, PairWorkspace<Real>& work) {
    const PairPattern& pattern = *batch.pattern;
    if (!pattern.hasMetric)
        return;
    addDeterminantForces(batch, Real(kT), pattern.rows, batch.couplings.data(), batch.sparse.get(),
                         work.matrixValues(batch), work);
    if (!pattern.hasConstrained)
        return;
    SparseMatrix<Real>* sparse = batch.sparseOfConstraints.get();
    Real* A = sparse != nullptr ? sparse->values.data() : work.matrixOfConstraints.data();
    assembleRows(pattern.constraints, batch.ofMasses, batch.couplingsOfMasses, batch.addedToMasses,
                 work.gradients.data(), A);
    factorMatrix(sparse, pattern.constraints.rows.size(), A);
    addDeterminantForces(batch, Real(-kT), pattern.constraints, batch.couplingsOfMasses.data(), sparse, A, work);
}

/** Multiply vectors of atoms by the matrix of each group in which bonds have an inertia. */
template <class Real>
[[gnu::flatten]] void multiplyGroups(const PairBatch<Real>& batch, const std::vector<std::vector<Real>>& matrices,
                                     PairWorkspace<Real>& work, Vectors3<Real>& vectors) {
    for (size_t g = 0; g < matrices.size(); g++) {
        if (matrices[g].empty())
            continue;
        const std::vector<int>& group = batch.pattern->groups[g];
        const Real* entry = matrices[g].data();
        for (size_t i = 0; i < group.size(); i++)
            work.ofGroup[i] = vectors[group[i]];
        for (int atom : group) {
            vectors[atom].setZero();
            for (size_t j = 0; j < group.size(); j++)
                vectors[atom] += work.ofGroup[j] * *entry++;
        }
    }
}

/** What accelerations M^-1 F, work.a, are with the inertia of bonds: W F. */
template <class Real> void spread(const PairBatch<Real>& batch, PairWorkspace<Real>& work) {
    for (size_t g = 0; g < batch.W.size(); g++)
        if (!batch.W[g].empty())
            for (int atom : batch.pattern->groups[g])
                work.a[atom] = work.a[atom] * Real(1 / batch.inverseMasses[atom]);
    multiplyGroups(batch, batch.W, work, work.a);
}

/** v <- v + t a, tied. */
template <class Real> void kick(const PairBatch<Real>& batch, UniformOf<Real> t, PairWorkspace<Real>& work) {
    addScaled(batch, Real(t), work.a, work.v);
    tieVelocities(batch, work);
}

/** The Ornstein-Uhlenbeck flow of v and w, tied. The noise of both has been gathered, that of v for the masses alone. */
template <class Real> void thermalize(const PairBatch<Real>& batch, UniformOf<Real> decay, PairWorkspace<Real>& work) {
    multiplyGroups(batch, batch.noiseRoot, work, work.noise);
    scaleAndAdd(batch, Real(decay), work.noise, work.v);
    for (int p = 0; p < batch.numRows(); p++)
        work.w[p] = work.w[p] * decay + work.pairNoise[p];
    tieVelocities(batch, work);
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_EXTENDED_MASS_H_ */
