#ifndef STIFFCORE_METHODS_IMPLICIT_SOLVE_H_
#define STIFFCORE_METHODS_IMPLICIT_SOLVE_H_

#include "../terms/FunctionDerivatives.h"
#include <algorithm>

/**
 * The linear systems of the Zhang-Skeel methods, (M + c H1(x)) a = F with c = beta h^2.
 */
namespace stiffcore {

/**
 * Visit the contributions to c H1(x) at work.x.
 *
 * @param visit   called as visit(term, i, j, h) with a term, which has atoms and hessianSlots, and the 3x3 block h of
 *                its atoms i >= j
 */
template <class Real, class Visit>
void visitHarmonicHessian(const StiffBatch<Real>& batch, double c, const Box& box, StiffWorkspace<Real>& work,
                          Visit&& visit) {
    const StiffPattern& pattern = *batch.pattern;
    for (size_t t = 0; t < pattern.harmonics.size(); t++) {
        const PatternTerm& term = pattern.harmonics[t];
        const Harmonic<Real> scaled = {Real(c * batch.harmonics[t].k), batch.harmonics[t].s0};
        visitCoordinate(term, work.x, box, [&](const auto& coordinate) {
            addHessian(scaled, coordinate, [&](int i, int j, const Matrix3<Real>& h) { visit(term, i, j, h); });
        });
    }
}

/** The same of function terms, which are evaluated one lane after the other. */
template <class Real, class Visit>
void visitFunctionHessian(const StiffBatch<Real>& batch, double c, const Box& box, StiffWorkspace<Real>& work,
                          Visit&& visit) {
    const StiffPattern& pattern = *batch.pattern;
    for (size_t t = 0; t < pattern.functions.size(); t++) {
        const PatternFunction& term = pattern.functions[t];
        const int numAtoms = term.atoms.size(), numBlocks = numAtoms * (numAtoms + 1) / 2;
        std::fill_n(work.termHessian.begin(), numBlocks, Matrix3<Real>::Zero());
        for (int lane = 0; lane < batch.numLanes; lane++) {
            for (int atom : term.atoms)
                for (int j = 0; j < 3; j++)
                    work.laneOfX[atom][j] = LaneTraits<Real>::lane(work.x[atom][j], lane);
            addFunctionHessian(batch, t, lane, c, box, work, [&](int i, int j, const Matrix3<double>& h) {
                Matrix3<Real>& block = work.termHessian[i * (i + 1) / 2 + j];
                for (int row = 0; row < 3; row++)
                    for (int column = 0; column < 3; column++)
                        LaneTraits<Real>::lane(block(row, column), lane) += h(row, column);
            });
        }
        for (int i = 0; i < numAtoms; i++)
            for (int j = 0; j <= i; j++)
                visit(term, i, j, work.termHessian[i * (i + 1) / 2 + j]);
    }
}

/** The same of all terms. */
template <class Real, class Visit>
void visitHessian(const StiffBatch<Real>& batch, double c, const Box& box, StiffWorkspace<Real>& work, Visit&& visit) {
    visitHarmonicHessian(batch, c, box, work, visit);
    visitFunctionHessian(batch, c, box, work, visit);
}

/** Fill in and factor M + c H1(x) at work.x; in which lanes it is positive definite. */
template <class Real>
[[gnu::flatten]] MaskOf<Real> factorImplicitMatrix(const StiffBatch<Real>& batch, double c, const Box& box,
                                                   StiffWorkspace<Real>& work) {
    const StiffPattern& pattern = *batch.pattern;
    Real* values = work.hessianValues(batch);
    std::fill_n(values, pattern.hessian->getNumValues(), Real(0));
    for (int i = 0; i < batch.numMobile; i++)
        for (int j = 0; j < 3; j++)
            values[pattern.diagonalSlots[3 * i + j]] = batch.masses[i];
    visitHessian(batch, c, box, work, [&](const auto& term, int i, int j, const Matrix3<Real>& h) {
        const auto& target = term.hessianSlots[i * (i + 1) / 2 + j];
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 3; column++)
                values[target[3 * row + column]] += h(row, column);
    });
    return factorMatrix(batch.hessian.get(), pattern.hessian->getSize(), values);
}

/** vectors <- (M + c H1)^-1 vectors, with the factors. */
template <class Real>
[[gnu::flatten]] void solveImplicitMatrix(const StiffBatch<Real>& batch, StiffWorkspace<Real>& work,
                                          std::vector<Vector3<Real>>& vectors) {
    for (int i = 0; i < batch.numMobile; i++)
        for (int j = 0; j < 3; j++)
            work.solution[3 * i + j] = vectors[i][j];
    solveMatrix(batch.hessian.get(), batch.pattern->hessian->getSize(), work.hessianValues(batch),
                work.solution.data());
    for (int i = 0; i < batch.numMobile; i++)
        for (int j = 0; j < 3; j++)
            vectors[i][j] = work.solution[3 * i + j];
}

/** The largest component of the vectors of mobile particles. */
template <class Real> Real largestComponent(const StiffBatch<Real>& batch, const std::vector<Vector3<Real>>& vectors) {
    using std::abs;
    using std::max;
    Real largest = 0;
    for (int i = 0; i < batch.numMobile; i++)
        for (int j = 0; j < 3; j++)
            largest = max(largest, Real(abs(vectors[i][j])));
    return largest;
}

/**
 * Improve the solution work.a of (M + c H1(x)) a = F where the matrix is not positive definite. Its factors L D L^T,
 * without pivoting, exist unless a leading minor vanishes, but may be inaccurate; what is missing is made up for by
 * iterative refinement. Lanes whose solution is as good as rounding allows stay as they are.
 *
 * @return in which lanes there is a solution
 */
template <class Real>
MaskOf<Real> refineSolution(const StiffBatch<Real>& batch, double c, const Box& box, StiffWorkspace<Real>& work) {
    using std::abs;
    const int maxRefinements = 10;
    const double tolerance = 1e-12; // of the residual, relative to the terms that cancel in it
    auto subtract = [&](int i, const Vector3<Real>& term) {
        work.residual[i] -= term;
        for (int j = 0; j < 3; j++)
            work.image[i][j] += abs(term[j]);
    };
    for (int iteration = 0;; iteration++) {
        for (int i = 0; i < batch.numMobile; i++) {
            work.residual[i].setZero();
            work.image[i].setZero();
            subtract(i, -work.forces[i]);
            subtract(i, work.a[i] * batch.masses[i]);
        }
        visitHessian(batch, c, box, work, [&](const auto& term, int i, int j, const Matrix3<Real>& h) {
            const int a = term.atoms[i], b = term.atoms[j];
            if (a >= batch.numMobile || b >= batch.numMobile)
                return;
            subtract(a, h * work.a[b]);
            if (a != b)
                subtract(b, h.transpose() * work.a[a]);
        });
        const MaskOf<Real> solved =
                largestComponent(batch, work.residual) <= tolerance * largestComponent(batch, work.image);
        if (iteration == maxRefinements || findFalse<Real>(solved, batch.count) < 0)
            return solved;
        solveImplicitMatrix(batch, work, work.residual);
        for (int i = 0; i < batch.numMobile; i++)
            for (int j = 0; j < 3; j++)
                work.a[i][j] += select(solved, Real(0), work.residual[i][j]);
    }
}

/**
 * Whether M + c H1, which need not be positive definite, is far from singular, judging by the solution work.a: if it is
 * not, inertia and stiff forces cancel each other, and small forces make large accelerations.
 */
template <class Real> MaskOf<Real> isRegular(const StiffBatch<Real>& batch, StiffWorkspace<Real>& work) {
    const double leastRatio = 1e-8;
    for (int i = 0; i < batch.numMobile; i++)
        work.residual[i] = work.a[i] * Real(leastRatio * batch.masses[i]);
    return largestComponent(batch, work.forces) >= largestComponent(batch, work.residual);
}

/**
 * Solve (M + c H1(x)) a = F at work.x with the forces work.forces.
 *
 * @param c                 factor of the Hessian [ps^2]
 * @param mayBeIndefinite   whether M + c H1 need not be positive definite
 * @return in which lanes M + c H1 is positive definite, if it must be, or not singular, and all numbers are finite
 */
template <class Real>
MaskOf<Real> solveImplicitly(const StiffBatch<Real>& batch, double c, bool mayBeIndefinite, const Box& box,
                             StiffWorkspace<Real>& work) {
    std::copy_n(work.forces.begin(), batch.numMobile, work.a.begin());
    if (!batch.isBound()) {
        for (int i = 0; i < batch.numMobile; i++)
            work.a[i] = work.a[i] * batch.inverseMasses[i];
        return areFinite(batch, work.a);
    }
    MaskOf<Real> solved = factorImplicitMatrix(batch, c, box, work);
    solveImplicitMatrix(batch, work, work.a);
    if (mayBeIndefinite) {
        if (findFalse<Real>(solved, batch.count) >= 0)
            solved = refineSolution(batch, c, box, work);
        solved = solved & isRegular(batch, work);
    }
    return solved & areFinite(batch, work.a);
}

/**
 * The same with positions and forces of the whole System.
 *
 * @param x   positions [nm]
 * @param F   forces [kJ/mol/nm]
 * @param a   accelerations [nm/ps^2], written in lanes where there is a solution
 */
template <class Real>
MaskOf<Real> solveAccelerations(const StiffBatch<Real>& batch, const double* x, const double* F, double c,
                                bool mayBeIndefinite, const Box& box, StiffWorkspace<Real>& work, double* a) {
    gather(batch, x, work.x);
    gather(batch, F, work.forces);
    return scatter<Real>(solveImplicitly(batch, c, mayBeIndefinite, box, work), batch, work.a, a);
}

/**
 * Compute a . V1'''(x) . a of a batch.
 *
 * @param x   positions [nm]
 * @param a   the direction, for the mobile particles [nm/ps^2]
 * @param w   kJ/mol/nm^3 (nm/ps^2)^2, written
 * @return in which lanes all numbers are finite; in others w is not written
 */
template <class Real>
MaskOf<Real> contractThirdDerivatives(const StiffBatch<Real>& batch, const double* x, const double* a, const Box& box,
                                      StiffWorkspace<Real>& work, double* w) {
    const StiffPattern& pattern = *batch.pattern;
    for (int lane = 0; lane < batch.count; lane++) {
        const std::vector<int>& particles = batch.particles[lane];
        for (int i = 0; i < pattern.numParticles; i++)
            for (int j = 0; j < 3; j++)
                work.line[i][j] = Taylor(x[3 * particles[i] + j], i < pattern.numMobile ? a[3 * particles[i] + j] : 0);
        std::fill(work.contraction.begin(), work.contraction.end(), Vector3<double>::Zero());
        auto add = [&](int place, const Vector3<Taylor>& gradient) {
            for (int j = 0; j < 3; j++)
                work.contraction[place][j] += 2 * gradient[j].c2;
        };
        for (size_t t = 0; t < pattern.harmonics.size(); t++) {
            const PatternTerm& term = pattern.harmonics[t];
            const Harmonic<Real>& ofAll = batch.harmonics[t];
            const Harmonic<Taylor> potential = {LaneTraits<Real>::lane(ofAll.k, lane),
                                                LaneTraits<Real>::lane(ofAll.s0, lane)};
            visitCoordinate(term, work.line, box, [&](const auto& s) {
                for (size_t i = 0; i < term.atoms.size(); i++)
                    add(term.atoms[i], gradientOf(potential, s, i));
            });
        }
        for (size_t t = 0; t < pattern.functions.size(); t++)
            addLineGradient(batch, t, lane, box, work, add);
        for (int i = 0; i < pattern.numMobile; i++)
            for (int j = 0; j < 3; j++)
                LaneTraits<Real>::lane(work.residual[i][j], lane) = work.contraction[i][j];
    }
    return scatter<Real>(areFinite(batch, work.residual), batch, work.residual, w);
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_IMPLICIT_SOLVE_H_ */
