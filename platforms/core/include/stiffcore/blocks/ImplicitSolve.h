#ifndef STIFFCORE_BLOCKS_IMPLICIT_SOLVE_H_
#define STIFFCORE_BLOCKS_IMPLICIT_SOLVE_H_

#include "BlockSystem.h"
#include "FunctionTerms.h"
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

namespace stiffcore {

/**
 * Visit the contributions to c H1(x) at the gathered positions.
 *
 * @param visit   called as visit(slots, atoms, i, j, h) with the 3x3 block h of the atoms i >= j of a term, where it
 *                goes in the matrix, and the places of the term's atoms in the block
 */
template <class Real, class Visit>
void visitHessian(const BlockInstance<Real>& block, double c, const Box& box, Workspace<Real>& work, Visit&& visit) {
    const BlockPattern& pattern = *block.pattern;
    for (size_t t = 0; t < pattern.terms.size(); t++) {
        if (block.potentials[t].k == 0)
            continue; // among the functions, or nothing
        const PatternTerm& term = pattern.terms[t];
        const Harmonic<Real> scaled = {c * block.potentials[t].k, block.potentials[t].s0};
        visitCoordinate(term, work, box, [&](const auto& coordinate) {
            addHessian(scaled, coordinate, [&](int i, int j, const Matrix3<Real>& h) {
                visit(term.hessianSlots, term.atoms.data(), i, j, h);
            });
        });
    }
    for (size_t t = 0; t < pattern.functions.size(); t++) {
        const PatternFunction& term = pattern.functions[t];
        addHessian(block, t, c, box, work,
                   [&](int i, int j, const Matrix3<Real>& h) { visit(term.hessianSlots, term.atoms.data(), i, j, h); });
    }
}

/**
 * Fill in and factor M + c H1(x) at the gathered positions.
 *
 * @return whether it is positive definite
 */
template <class Real>
bool factorImplicitMatrix(const BlockInstance<Real>& block, double c, const Box& box, Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    Real* values = (block.hessian ? block.hessian->values.data() : work.values.data());
    std::fill(values, values + pattern.hessian.getNumValues(), Real(0));
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            values[pattern.diagonalSlots[3 * i + j]] = block.masses[i];
    visitHessian(block, c, box, work, [&](const auto& slots, const int*, int i, int j, const Matrix3<Real>& h) {
        const auto& target = slots[i * (i + 1) / 2 + j];
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 3; column++)
                values[target[3 * row + column]] += h(row, column);
    });
    return factorMatrix(block.hessian.get(), pattern.hessian.getSize(), values);
}

/**
 * Solve with M + c H1(x) where it is not positive definite, by LU factorization with pivoting. This is rare, and takes
 * memory.
 *
 * @param rhs   the right side, replaced by the solution
 */
template <class Real>
void solveIndefinite(const BlockInstance<Real>& block, double c, const Box& box, Workspace<Real>& work,
                     std::vector<Real>& rhs) {
    const int numMobile = block.getNumMobile(), size = 3 * numMobile;
    Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic> matrix(size, size);
    matrix.setZero();
    for (int i = 0; i < size; i++)
        matrix(i, i) = block.masses[i / 3];
    visitHessian(block, c, box, work, [&](const auto&, const int* atoms, int i, int j, const Matrix3<Real>& h) {
        const int a = atoms[i], b = atoms[j];
        if (a >= numMobile || b >= numMobile)
            return;
        matrix.template block<3, 3>(3 * a, 3 * b) += h;
        if (a != b)
            matrix.template block<3, 3>(3 * b, 3 * a) += h.transpose();
    });
    Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, 1>> x(rhs.data(), size);
    x = matrix.partialPivLu().solve(x).eval();
}

/**
 * Solve (M + c H1(x)) a = F for the particles of one block.
 *
 * @param x                 positions [nm]
 * @param F                 forces [kJ/mol/nm]
 * @param c                 factor of the Hessian [ps^2]
 * @param mayBeIndefinite   whether M + c H1 need not be positive definite
 * @param a                 accelerations [nm/ps^2], written
 * @return whether M + c H1 is positive definite, if it must be, and all numbers are finite; if not, a is not written
 */
template <class Real>
bool solveAccelerations(const BlockInstance<Real>& block, const double* x, const double* F, double c,
                        bool mayBeIndefinite, const Box& box, Workspace<Real>& work, double* a) {
    gatherPositions(block, x, work);
    const bool definite = factorImplicitMatrix(block, c, box, work);
    if (!definite && !mayBeIndefinite)
        return false;
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            work.rhs[3 * i + j] = F[3 * block.particles[i] + j];
    if (definite)
        solveMatrix(block.hessian.get(), block.pattern->hessian.getSize(),
                    block.hessian ? block.hessian->values.data() : work.values.data(), work.rhs.data());
    else
        solveIndefinite(block, c, box, work, work.rhs);
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
