#ifndef STIFFCORE_BLOCK_SYSTEM_H_
#define STIFFCORE_BLOCK_SYSTEM_H_

#include "BlockPattern.h"
#include "solve/DenseLdlt.h"
#include "terms/Harmonic.h"
#include <cmath>
#include <memory>
#include <vector>

namespace stiffcore {

/**
 * The linear algebra of the stiff terms, block by block: the solve with M + c H1, and the projection on the tangent
 * space of the stiff coordinates. All arrays are indexed by particle and component, [3 particle + component].
 * Different blocks may be worked on at the same time by threads with a Workspace each; no memory is allocated.
 */
template <class Real> class BlockSystem {
public:
    /** The scratch memory of one thread. */
    struct Workspace {
        std::vector<Real> values, rhs, multipliers;
        std::vector<Vector3<Real>> positions, gradients;
    };

    BlockSystem(const std::vector<Block>& blocks, const std::vector<StiffTerm>& terms,
                const std::vector<double>& masses) {
        for (const Block& block : blocks) {
            int pattern = 0;
            while (pattern < (int) patterns.size() && !patterns[pattern]->matches(block, terms))
                pattern++;
            if (pattern == (int) patterns.size())
                patterns.push_back(std::make_unique<BlockPattern>(block, terms));
            Instance instance = {pattern, block.particles, {}, {}, block.terms, nullptr, nullptr};
            for (int i = 0; i < block.numMobile; i++)
                instance.masses.push_back(masses[block.particles[i]]);
            instances.push_back(std::move(instance));
        }
        for (Instance& instance : instances) {
            const BlockPattern& pattern = *patterns[instance.pattern];
            if (pattern.hessian.isSparse())
                instance.hessian = std::make_unique<SparseMatrix>(pattern.hessian);
            if (pattern.schur.isSparse())
                instance.schur = std::make_unique<SparseMatrix>(pattern.schur);
        }
        setParameters(terms);
    }

    int getNumBlocks() const {
        return instances.size();
    }
    /** The particles of a block; the first getNumMobile() are mobile. */
    const std::vector<int>& getParticles(int block) const {
        return instances[block].particles;
    }
    int getNumMobile(int block) const {
        return instances[block].masses.size();
    }

    /** Take the parameters of the terms, the same terms as before. */
    void setParameters(const std::vector<StiffTerm>& terms) {
        for (Instance& instance : instances) {
            instance.potentials.clear();
            for (int t : instance.terms)
                instance.potentials.push_back({terms[t].k, terms[t].s0});
        }
    }

    Workspace createWorkspace() const {
        size_t numValues = 0, numRows = 0, numParticles = 0, numTerms = 0;
        for (const auto& pattern : patterns) {
            for (const MatrixLayout* layout : {&pattern->hessian, &pattern->schur})
                if (!layout->isSparse())
                    numValues = std::max<size_t>(numValues, layout->getNumValues() + 1);
            numRows = std::max<size_t>(numRows, pattern->hessian.getSize());
            numParticles = std::max<size_t>(numParticles, pattern->numParticles);
            numTerms = std::max<size_t>(numTerms, pattern->terms.size());
        }
        return {std::vector<Real>(numValues), std::vector<Real>(numRows), std::vector<Real>(numTerms),
                std::vector<Vector3<Real>>(numParticles), std::vector<Vector3<Real>>(3 * numTerms)};
    }

    /**
     * Solve (M + c H1(x)) a = F for the particles of one block.
     *
     * @param x   positions [nm]
     * @param F   forces [kJ/mol/nm]
     * @param c   factor of the Hessian [ps^2]
     * @param a   accelerations [nm/ps^2], written
     * @return whether M + c H1 is positive definite and all numbers are finite; if not, a is not written
     */
    bool solveAccelerations(int block, const double* x, const double* F, double c, const Box& box, Workspace& work,
                            double* a) const {
        const Instance& instance = instances[block];
        const BlockPattern& pattern = *patterns[instance.pattern];
        gather(instance, x, work);
        Real* values = (instance.hessian ? instance.hessian->values.data() : work.values.data());
        std::fill(values, values + pattern.hessian.getNumValues(), Real(0));
        for (size_t i = 0; i < instance.masses.size(); i++)
            for (int j = 0; j < 3; j++)
                values[pattern.diagonalSlots[3 * i + j]] = instance.masses[i];
        for (size_t t = 0; t < pattern.terms.size(); t++) {
            const PatternTerm& term = pattern.terms[t];
            const Harmonic<Real> scaled = {c * instance.potentials[t].k, instance.potentials[t].s0};
            visitCoordinate(term, work, box, [&](const auto& coordinate) {
                addHessian(scaled, coordinate, [&](int i, int j, const Matrix3<Real>& h) {
                    const auto& slots = term.hessianSlots[i * (i + 1) / 2 + j];
                    for (int row = 0; row < 3; row++)
                        for (int column = 0; column < 3; column++)
                            values[slots[3 * row + column]] += h(row, column);
                });
            });
        }
        for (size_t i = 0; i < instance.masses.size(); i++)
            for (int j = 0; j < 3; j++)
                work.rhs[3 * i + j] = F[3 * instance.particles[i] + j];
        if (!factorAndSolve(instance.hessian.get(), pattern.hessian.getSize(), values, work.rhs.data()))
            return false;
        Real sum = 0;
        for (size_t i = 0; i < 3 * instance.masses.size(); i++)
            sum += work.rhs[i];
        if (!std::isfinite(sum))
            return false;
        for (size_t i = 0; i < instance.masses.size(); i++)
            for (int j = 0; j < 3; j++)
                a[3 * instance.particles[i] + j] = work.rhs[3 * i + j];
        return true;
    }

    /**
     * Project the velocities of one block on the tangent space {v: G(x) v = 0} of its stiff coordinates, orthogonally
     * in the metric of the masses: v <- v - M^-1 G^T (G M^-1 G^T)^-1 G v. Dependent coordinates (rings, tetrahedral
     * centres) are allowed. Terms with force constant 0 do not count.
     *
     * @param x   positions [nm]
     * @param v   velocities [nm/ps]
     */
    void projectOnTangentSpace(int block, const double* x, const Box& box, Workspace& work, double* v) const {
        const Instance& instance = instances[block];
        const BlockPattern& pattern = *patterns[instance.pattern];
        Real* values = assembleSchur(instance, pattern, x, box, work);
        for (size_t p = 0; p < pattern.terms.size(); p++) {
            Real rate = 0;
            forEachMobile(pattern.terms[p], pattern.numMobile, [&](int a, int atom) {
                for (int j = 0; j < 3; j++)
                    rate += work.gradients[3 * p + a][j] * v[3 * instance.particles[atom] + j];
            });
            work.multipliers[p] = rate;
        }
        factorAndSolve(instance.schur.get(), pattern.schur.getSize(), values, work.multipliers.data());
        for (size_t p = 0; p < pattern.terms.size(); p++)
            forEachMobile(pattern.terms[p], pattern.numMobile, [&](int a, int atom) {
                const Real scale = work.multipliers[p] / instance.masses[atom];
                for (int j = 0; j < 3; j++)
                    v[3 * instance.particles[atom] + j] -= scale * work.gradients[3 * p + a][j];
            });
    }

    /**
     * Count the independent stiff coordinates of one block: the rank of their Jacobian G(x).
     */
    int countCoordinates(int block, const double* x, const Box& box, Workspace& work) const {
        const Instance& instance = instances[block];
        const BlockPattern& pattern = *patterns[instance.pattern];
        Real* values = assembleSchur(instance, pattern, x, box, work);
        if (instance.schur) {
            instance.schur->solver->factor(values);
            return instance.schur->solver->countPivots(minIndependentPivot);
        }
        const int size = pattern.schur.getSize();
        DenseLdlt<Real>::factor(values, size);
        int rank = 0;
        for (int p = 0; p < size; p++)
            rank += (1 / values[p * size + p] > minIndependentPivot);
        return rank;
    }

private:
    /// Added to the unit diagonal of the scaled G M^-1 G^T, which keeps it definite if coordinates are dependent. Of
    /// a normal velocity along an eigenvector with eigenvalue e it leaves the fraction regularization/e behind; e is
    /// small only if coordinates are nearly dependent, as the angles of a nearly flat group are.
    static constexpr double regularization = 1e-9;
    /// A coordinate is independent of the earlier ones if its pivot exceeds this. (With the unit diagonal, a pivot
    /// is the squared sine of the angle between its gradient and those of the earlier coordinates.)
    static constexpr double minIndependentPivot = 1e-6;

    struct SparseMatrix {
        std::vector<Real> values;
        std::shared_ptr<SparseLdlt> solver;
        explicit SparseMatrix(const MatrixLayout& layout)
                : values(layout.getNumValues() + 1), solver(layout.createSparse()) {
        }
    };

    /** One block: its pattern, and what is its own. Large matrices stay with it; small ones are a thread's. */
    struct Instance {
        int pattern;
        std::vector<int> particles;
        std::vector<double> masses;
        std::vector<Harmonic<double>> potentials;
        std::vector<int> terms;
        std::unique_ptr<SparseMatrix> hessian, schur;
    };

    static void gather(const Instance& instance, const double* x, Workspace& work) {
        for (size_t i = 0; i < instance.particles.size(); i++) {
            const double* position = x + 3 * instance.particles[i];
            work.positions[i] = Vector3<Real>(position[0], position[1], position[2]);
        }
    }

    /** Call visit with the internal coordinate of a term at the gathered positions. */
    template <class Visit>
    static void visitCoordinate(const PatternTerm& term, const Workspace& work, const Box& box, Visit&& visit) {
        auto displacement = [&](int from, int to) {
            const Vector3<Real> d = work.positions[term.atoms[to]] - work.positions[term.atoms[from]];
            return term.periodic ? box.minimumImage(d) : d;
        };
        if (term.coordinate == StiffTerm::Coordinate::Distance)
            visit(Distance<Real>(displacement(0, 1)));
        else
            visit(Angle<Real>(displacement(1, 0), displacement(1, 2)));
    }

    template <class Visit> static void forEachMobile(const PatternTerm& term, int numMobile, Visit&& visit) {
        for (int a = 0; a < term.getNumAtoms(); a++)
            if (term.atoms[a] < numMobile)
                visit(a, term.atoms[a]);
    }

    /**
     * Assemble G M^-1 G^T with the gradients scaled to a unit diagonal; they are left in the workspace. A coordinate
     * without gradient, or whose term has force constant 0, becomes a row of its own that does nothing.
     */
    static Real* assembleSchur(const Instance& instance, const BlockPattern& pattern, const double* x, const Box& box,
                               Workspace& work) {
        gather(instance, x, work);
        Real* values = (instance.schur ? instance.schur->values.data() : work.values.data());
        std::fill(values, values + pattern.schur.getNumValues(), Real(0));
        for (size_t p = 0; p < pattern.terms.size(); p++) {
            const PatternTerm& term = pattern.terms[p];
            Vector3<Real>* g = &work.gradients[3 * p];
            Real diagonal = 0;
            visitCoordinate(term, work, box, [&](const auto& coordinate) {
                forEachMobile(term, pattern.numMobile, [&](int a, int atom) {
                    g[a] = coordinate.gradient(a);
                    diagonal += g[a].squaredNorm() / instance.masses[atom];
                });
            });
            const bool used = (instance.potentials[p].k != 0 && diagonal > 0);
            const Real scale = (used ? 1 / std::sqrt(diagonal) : Real(0));
            forEachMobile(term, pattern.numMobile, [&](int a, int) { g[a] *= scale; });
            values[pattern.schurDiagonalSlots[p]] = (used ? 1 + regularization : regularization);
        }
        for (const Coupling& coupling : pattern.couplings) {
            const int atom = pattern.terms[coupling.p].atoms[coupling.a];
            values[coupling.slot] +=
                    work.gradients[3 * coupling.p + coupling.a].dot(work.gradients[3 * coupling.q + coupling.b]) /
                    instance.masses[atom];
        }
        return values;
    }

    /** Factor the assembled matrix and solve in place. Water's sizes are known to the compiler. */
    static bool factorAndSolve(SparseMatrix* sparse, int size, Real* values, Real* rhs) {
        if (sparse != nullptr) {
            if (!sparse->solver->factor(values))
                return false;
            sparse->solver->solve(rhs);
            return true;
        }
        switch (size) {
        case 3:
            return factorAndSolveDense<3>(size, values, rhs);
        case 9:
            return factorAndSolveDense<9>(size, values, rhs);
        default:
            return factorAndSolveDense<0>(size, values, rhs);
        }
    }

    template <int Size> static bool factorAndSolveDense(int size, Real* values, Real* rhs) {
        if (!DenseLdlt<Real, Size>::factor(values, size))
            return false;
        DenseLdlt<Real, Size>::solve(values, size, rhs);
        return true;
    }

    std::vector<std::unique_ptr<BlockPattern>> patterns;
    std::vector<Instance> instances;
};

} // namespace stiffcore

#endif /* STIFFCORE_BLOCK_SYSTEM_H_ */
