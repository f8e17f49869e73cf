#ifndef STIFFCORE_TERMS_FUNCTION_DERIVATIVES_H_
#define STIFFCORE_TERMS_FUNCTION_DERIVATIVES_H_

#include "Expansion.h"
#include "Hessian.h"
#include "StiffBatch.h"
#include <algorithm>

/**
 * Derivatives of V(q1(x), q2(x), ...) by the chain rule, with V_k = dV/dq_k and so on, in one lane: expressions are
 * evaluated one at a time.
 */
namespace stiffcore {

/** The function of a term, which has been given the term's parameters. */
template <class Real>
TermFunction& functionOf(const StiffBatch<Real>& batch, int t, int lane, StiffWorkspace<Real>& work) {
    const PatternFunction& term = batch.pattern->functions[t];
    const std::vector<double>& parameters = batch.parameters[t][lane];
    TermFunction& function = *work.functions[term.function];
    std::copy(parameters.begin(), parameters.end(), function.arguments() + term.coordinates.size());
    return function;
}

/**
 * Add c times the Hessian of a function term at work.laneOfX,
 *
 *     Hess V = sum_k V_k Hess q_k + sum_kl V_kl grad q_k grad q_l^T
 *
 * @param t     the index of the term in the pattern
 * @param add   called as add(a, b, h) with the 3x3 block h of the term's atoms a >= b, perhaps several times
 */
template <class Real, class Add>
void addFunctionHessian(const StiffBatch<Real>& batch, int t, int lane, double c, const Box& box,
                        StiffWorkspace<Real>& work, Add&& add) {
    const PatternFunction& term = batch.pattern->functions[t];
    TermFunction& function = functionOf(batch, t, lane, work);
    evaluateCoordinates(term, work.laneOfX, box, function.arguments(), work.coordinateGradients);
    function.first([&](int k, double first) {
        const InternalCoordinate& coordinate = term.coordinates[k];
        visitCoordinate(term, coordinate, work.laneOfX, box, [&](const auto& q) {
            addHessian(Expansion<double>{c * first, 0}, q, [&](int i, int j, const Matrix3<double>& h) {
                const int a = coordinate.particles[i], b = coordinate.particles[j];
                if (a >= b)
                    add(a, b, h);
                else
                    add(b, a, h.transpose());
            });
        });
    });
    function.second([&](int k, int l, double second) {
        const InternalCoordinate &one = term.coordinates[k], &other = term.coordinates[l];
        for (int i = 0; i < one.getNumParticles(); i++)
            for (int j = 0; j < other.getNumParticles(); j++) {
                const int a = one.particles[i], b = other.particles[j];
                const Matrix3<double> h = c * second * work.coordinateGradients[4 * k + i] *
                                          work.coordinateGradients[4 * l + j].transpose();
                if (a == b)
                    add(a, a, k == l ? h : h + h.transpose());
                else if (a > b)
                    add(a, b, h);
                else if (k != l)
                    add(b, a, h.transpose());
            }
    });
}

/**
 * Add the gradient of a function term along the line work.line, as a polynomial, see Taylor.
 *
 * @param add   called as add(place, gradient) with a place in the block, perhaps several times
 */
template <class Real, class Add>
void addLineGradient(const StiffBatch<Real>& batch, int t, int lane, const Box& box, StiffWorkspace<Real>& work,
                     Add&& add) {
    const PatternFunction& term = batch.pattern->functions[t];
    const int numCoordinates = term.coordinates.size();
    TermFunction& function = functionOf(batch, t, lane, work);
    std::vector<Taylor>&q = work.lineCoordinates, &V = work.slopes;
    evaluateCoordinates(term, work.line, box, q.data(), work.lineGradients);
    for (int k = 0; k < numCoordinates; k++)
        function.arguments()[k] = q[k].c0;
    // V_k(q(t)) to the second order in t
    std::fill_n(V.begin(), numCoordinates, Taylor());
    function.first([&](int k, double first) { V[k].c0 = first; });
    function.second([&](int k, int l, double second) {
        V[k] += Taylor(0, second * q[l].c1, second * q[l].c2);
        if (k != l)
            V[l] += Taylor(0, second * q[k].c1, second * q[k].c2);
    });
    function.third([&](int k, int l, int m, double third) {
        // 1/2 V_klm q_l' q_m' of V_k, for each order of the indices
        int order[3] = {k, l, m};
        do
            V[order[0]].c2 += 0.5 * third * q[order[1]].c1 * q[order[2]].c1;
        while (std::next_permutation(order, order + 3));
    });
    for (int k = 0; k < numCoordinates; k++)
        for (int a = 0; a < term.coordinates[k].getNumParticles(); a++)
            add(term.atoms[term.coordinates[k].particles[a]], V[k] * work.lineGradients[4 * k + a]);
}

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_FUNCTION_DERIVATIVES_H_ */
