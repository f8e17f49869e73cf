#ifndef STIFFCORE_BLOCKS_IMPLICIT_SOLVE_H_
#define STIFFCORE_BLOCKS_IMPLICIT_SOLVE_H_

#include "../terms/Hessian.h"
#include "BlockSystem.h"
#include <algorithm>
#include <cmath>

namespace stiffcore {

/**
 * Solve (M + c H1(x)) a = F for the particles of one block.
 *
 * @param x   positions [nm]
 * @param F   forces [kJ/mol/nm]
 * @param c   factor of the Hessian [ps^2]
 * @param a   accelerations [nm/ps^2], written
 * @return whether M + c H1 is positive definite and all numbers are finite; if not, a is not written
 */
template <class Real>
bool solveAccelerations(const BlockInstance<Real>& block, const double* x, const double* F, double c, const Box& box,
                        Workspace<Real>& work, double* a) {
    const BlockPattern& pattern = *block.pattern;
    gatherPositions(block, x, work);
    Real* values = (block.hessian ? block.hessian->values.data() : work.values.data());
    std::fill(values, values + pattern.hessian.getNumValues(), Real(0));
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            values[pattern.diagonalSlots[3 * i + j]] = block.masses[i];
    for (size_t t = 0; t < pattern.terms.size(); t++) {
        const PatternTerm& term = pattern.terms[t];
        const Harmonic<Real> scaled = {c * block.potentials[t].k, block.potentials[t].s0};
        visitCoordinate(term, work, box, [&](const auto& coordinate) {
            addHessian(scaled, coordinate, [&](int i, int j, const Matrix3<Real>& h) {
                const auto& slots = term.hessianSlots[i * (i + 1) / 2 + j];
                for (int row = 0; row < 3; row++)
                    for (int column = 0; column < 3; column++)
                        values[slots[3 * row + column]] += h(row, column);
            });
        });
    }
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            work.rhs[3 * i + j] = F[3 * block.particles[i] + j];
    if (!factorMatrix(block.hessian.get(), pattern.hessian.getSize(), values))
        return false;
    solveMatrix(block.hessian.get(), pattern.hessian.getSize(), values, work.rhs.data());
    Real sum = 0;
    for (int i = 0; i < 3 * block.getNumMobile(); i++)
        sum += work.rhs[i];
    if (!std::isfinite(sum))
        return false;
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            a[3 * block.particles[i] + j] = work.rhs[3 * i + j];
    return true;
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_IMPLICIT_SOLVE_H_ */
