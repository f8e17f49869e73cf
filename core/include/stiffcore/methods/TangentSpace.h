#ifndef STIFFCORE_METHODS_TANGENT_SPACE_H_
#define STIFFCORE_METHODS_TANGENT_SPACE_H_

#include "../rows/Rows.h"
#include "../terms/StiffBatch.h"
#include <algorithm>
#include <cmath>
#include <limits>

/**
 * The tangent space {v: G(x) v = 0} of the rows of a batch, and the projection on it that is orthogonal in the metric
 * of the masses, P = 1 - M^-1 G^T (G M^-1 G^T)^-1 G.
 */
namespace stiffcore {

/** Compute the gradients at work.x and factor G M^-1 G^T; false where numbers are not finite. */
template <class Real>
[[gnu::flatten]] MaskOf<Real> factorTangentSpace(const StiffBatch<Real>& batch, const Box& box,
                                                 StiffWorkspace<Real>& work) {
    computeGradients(batch.pattern->rows.rows, box, work, work.gradients);
    computeInverseMasses(batch, work);
    addRegularization(batch, work);
    assembleRows(batch, work);
    return batch.numRows() == 0 ? allLanes(batch) : factorRows(batch, work);
}

/** Project vectors on the tangent space at work.x. */
template <class Real>
[[gnu::flatten]] MaskOf<Real> projectOnTangentSpace(const StiffBatch<Real>& batch, const Box& box,
                                                    StiffWorkspace<Real>& work, std::vector<Vector3<Real>>& vectors) {
    if (batch.numRows() == 0)
        return allLanes(batch);
    const MaskOf<Real> factored = factorTangentSpace(batch, box, work);
    projectOnRows(batch, work, vectors);
    return factored;
}

/**
 * Bound the angular frequency of the stiffest harmonic mode of a batch at work.x [1/ps].
 *
 * With s scaled by the roots of the force constants, the squared frequencies are the eigenvalues of the matrix
 * B = K^1/2 G M^-1 G^T K^1/2. For any positive numbers x, none exceeds the largest of (|B| x)_p / x_p (Collatz and
 * Wielandt), and x <- |B| x makes that bound smaller. A few such iterations bring it to 1 % above the
 * frequency for water, and to 5 to 15 % for larger molecules.
 */
template <class Real> Real boundFrequency(const StiffBatch<Real>& batch, const Box& box, StiffWorkspace<Real>& work) {
    using std::abs;
    using std::max;
    using std::sqrt;
    const StiffPattern& pattern = *batch.pattern;
    const std::vector<StiffRow>& rows = pattern.smoothRows;
    const int numRows = rows.size(), numIterations = 20;
    computeGradients(rows, box, work, work.smoothGradients);
    auto gradient = [&](int p, int a) -> const Vector3<Real>& { return work.smoothGradients[rows[p].gradientOf(a)]; };
    for (int p = 0; p < numRows; p++) {
        work.stiffness[p] = sqrt(abs(batch.harmonics[rows[p].harmonic].k));
        work.current[p] = 1;
    }
    for (size_t i = 0; i < pattern.smoothCouplings.size(); i++) {
        const auto& [p, a, q, b] = pattern.smoothCouplings[i];
        const Real inverseMass = batch.inverseMasses[rows[p].atoms[a]];
        work.couplings[i] =
                work.stiffness[p] * work.stiffness[q] * abs(Real(inverseMass * gradient(p, a).dot(gradient(q, b))));
    }
    Real stiffest = 0;
    for (int p = 0; p < numRows; p++) {
        work.stiffness[p] *= work.stiffness[p] * multiplyRow(rows[p], work.smoothGradients.data(),
                                                             work.smoothGradients.data(), batch.inverseMasses.data());
        stiffest = max(stiffest, work.stiffness[p]);
    }
    Real bound = select(stiffest > Real(0), Real(std::numeric_limits<double>::infinity()), Real(0));
    for (int iteration = 0; iteration < numIterations; iteration++) {
        for (int p = 0; p < numRows; p++)
            work.next[p] = work.stiffness[p] * work.current[p];
        for (size_t i = 0; i < pattern.smoothCouplings.size(); i++) {
            const int p = pattern.smoothCouplings[i].p, q = pattern.smoothCouplings[i].q;
            work.next[p] += work.couplings[i] * work.current[q];
            work.next[q] += work.couplings[i] * work.current[p];
        }
        Real largestRatio = 0, largest = 0;
        for (int p = 0; p < numRows; p++) {
            // Rows that do nothing have no part in it, nor has what is not a number.
            const Real ratio = work.next[p] / work.current[p];
            largestRatio = select((work.stiffness[p] > Real(0)) & (ratio > largestRatio), ratio, largestRatio);
            largest = select(work.next[p] > largest, work.next[p], largest);
        }
        bound = select((largestRatio > Real(0)) & (bound > largestRatio), largestRatio, bound);
        for (int p = 0; p < numRows; p++)
            work.current[p] = work.next[p] / largest;
    }
    return sqrt(bound);
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_TANGENT_SPACE_H_ */
