#ifndef STIFFCORE_TERMS_STIFF_BATCH_H_
#define STIFFCORE_TERMS_STIFF_BATCH_H_

#include "../batch/Batches.h"
#include "../coordinates/Angle.h"
#include "../coordinates/Bend.h"
#include "../coordinates/Distance.h"
#include "../linear/MatrixLayout.h"
#include "../model/StiffTerms.h"
#include "../rows/Rows.h"
#include "Harmonic.h"
#include "PatternFunction.h"
#include "Taylor.h"
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/**
 * The stiff terms of blocks: coordinates s(x), which are rows of a Jacobian G, harmonic potentials of them, and
 * functions of other coordinates. Together these make the potential V1(x) with the Hessian H1.
 */
namespace stiffcore {

/** A harmonic potential of a distance or an angle, by the places of its particles in their block. */
struct PatternTerm {
    StiffCoordinate::Kind kind;
    bool periodic;
    std::vector<int> atoms;
    /// Which of the coordinates of the block, in the order of Block::terms.
    int coordinate;
    HessianSlots hessianSlots;
};

/** A row of G: a distance, an angle, or one of the two bends that take the place of a straight angle (see Bend). */
struct StiffRow : Row {
    StiffCoordinate::Kind kind;
    bool periodic;
    /// Which of the two bends; -1 for the coordinate itself.
    int bend;
    /// Which of the harmonic potentials of the block is one of this coordinate; -1 if none is.
    int harmonic;
};

/** What all blocks of the same build have in common. */
struct StiffPattern {
    using RowType = StiffRow;
    int numParticles, numMobile;
    std::vector<PatternTerm> harmonics;
    std::vector<PatternFunction> functions;
    /// The rows that a method imposes, and those that are smooth at equilibrium with the couplings between them.
    RowPattern<StiffRow> rows;
    std::vector<StiffRow> smoothRows;
    std::vector<Coupling> smoothCouplings;
    /// The matrix M + c H1, three rows for each mobile particle, and where its diagonal is; if the method has one.
    std::unique_ptr<MatrixLayout> hessian;
    std::vector<int> diagonalSlots;

    StiffPattern(const Block& block, const StiffTerms& all)
            : numParticles(block.particles.size()), numMobile(block.numMobile), harmonics(findHarmonics(block, all)),
              functions(findFunctions(block, all)), rows(findRows(block, all, false), numMobile),
              smoothRows(findRows(block, all, true)), smoothCouplings(findCouplings(smoothRows, numMobile)) {
        if (!all.needs.hessian)
            return;
        hessian = std::make_unique<MatrixLayout>(3 * numMobile, findHessianEntries());
        for (PatternTerm& term : harmonics)
            term.hessianSlots = findHessianSlots(term.atoms);
        for (PatternFunction& term : functions)
            term.hessianSlots = findHessianSlots(term.atoms);
        for (int i = 0; i < 3 * numMobile; i++)
            diagonalSlots.push_back(hessian->slot(i, i));
    }

    bool isLarge() const {
        return 3 * numMobile >= MatrixLayout::minSparseSize || rows.isLarge();
    }

    static std::vector<std::string> describeShared(const StiffTerms& all) {
        std::vector<std::string> shared = stiffcore::describe(all.functions);
        for (bool need : {all.needs.hessian, all.needs.thirdDerivatives, all.needs.frequency})
            shared.push_back(std::to_string(need));
        return shared;
    }

    /** The build of a block. */
    static std::vector<int> describe(const Block& block, const StiffTerms& all) {
        std::vector<int> build = {(int) block.particles.size(), block.numMobile};
        for (int t : block.terms) {
            const StiffCoordinate& s = all.coordinates[t];
            build.insert(build.end(),
                         {int(s.kind), s.periodic, s.isHarmonic, int(s.use), all.needs.frequency && s.straight});
            for (int atom : block.findPlaces(s.getParticles()))
                build.push_back(atom);
        }
        for (const PatternFunction& term : findFunctions(block, all)) {
            build.insert(build.end(), {-1, term.function, term.periodic});
            for (const InternalCoordinate& coordinate : term.coordinates)
                for (int a = 0; a < coordinate.getNumParticles(); a++)
                    build.push_back(term.atoms[coordinate.particles[a]]);
            for (const InternalCoordinate& coordinate : term.coordinates)
                build.push_back(int(coordinate.kind));
        }
        return build;
    }

private:
    static std::vector<PatternTerm> findHarmonics(const Block& block, const StiffTerms& all) {
        std::vector<PatternTerm> found;
        for (size_t i = 0; i < block.terms.size(); i++) {
            const StiffCoordinate& s = all.coordinates[block.terms[i]];
            if (s.isHarmonic)
                found.push_back({s.kind, s.periodic, block.findPlaces(s.getParticles()), (int) i, {}});
        }
        return found;
    }

    static std::vector<PatternFunction> findFunctions(const Block& block, const StiffTerms& all) {
        std::vector<PatternFunction> found;
        for (int t : block.otherTerms) {
            const FunctionTerm& term = all.functionTerms[t];
            found.emplace_back(term, term.getParticles(), block);
        }
        return found;
    }

    /** The rows that are used; or those of harmonic potentials that are smooth: any but a straight angle itself. */
    static std::vector<StiffRow> findRows(const Block& block, const StiffTerms& all, bool smooth) {
        using Use = StiffCoordinate::Use;
        std::vector<StiffRow> found;
        if (smooth && !all.needs.frequency)
            return found;
        int numHarmonics = 0, firstGradient = 0;
        for (int t : block.terms) {
            const StiffCoordinate& s = all.coordinates[t];
            const int harmonic = (s.isHarmonic ? numHarmonics++ : -1);
            Use use = s.use;
            if (smooth)
                use = (harmonic < 0 ? Use::None : s.straight ? Use::Bends : Use::Coordinate);
            if (use == Use::None)
                continue;
            const bool bends = (use == Use::Bends);
            for (int bend = (bends ? 0 : -1); bend < (bends ? 2 : 0); bend++) {
                found.push_back(
                        {{block.findPlaces(s.getParticles()), firstGradient}, s.kind, s.periodic, bend, harmonic});
                firstGradient += s.getNumParticles();
            }
        }
        return found;
    }

    std::vector<std::pair<int, int>> findHessianEntries() const {
        std::vector<std::pair<int, int>> entries;
        auto append = [&](const std::vector<int>& atoms) {
            for (int a : atoms)
                for (int b : atoms)
                    if (b <= a && a < numMobile)
                        for (int row = 0; row < 3; row++)
                            for (int column = 0; column < 3; column++)
                                entries.push_back({3 * a + row, 3 * b + column});
        };
        for (const PatternTerm& term : harmonics)
            append(term.atoms);
        for (const PatternFunction& term : functions)
            append(term.atoms);
        return entries;
    }

    HessianSlots findHessianSlots(const std::vector<int>& atoms) const {
        HessianSlots slots;
        for (size_t a = 0; a < atoms.size(); a++)
            for (size_t b = 0; b <= a; b++) {
                slots.emplace_back();
                const bool fixed = atoms[a] >= numMobile || atoms[b] >= numMobile;
                for (int row = 0; row < 3; row++)
                    for (int column = 0; column < 3; column++) {
                        const bool repeated = (a == b && row < column);
                        slots.back()[3 * row + column] =
                                (fixed || repeated ? hessian->unusedSlot()
                                                   : hessian->slot(3 * atoms[a] + row, 3 * atoms[b] + column));
                    }
            }
        return slots;
    }
};

template <class Real> struct StiffWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct StiffBatch : RowBatch<Real, StiffPattern> {
    using Terms = StiffTerms;
    using Workspace = StiffWorkspace<Real>;
    /// 1/inverseMasses of the mobile particles [dalton].
    std::vector<Real> masses;
    /// The harmonic potentials; and the parameters of each function, in each lane.
    std::vector<Harmonic<Real>> harmonics;
    std::vector<std::array<std::vector<double>, BlockBatch<Real>::numLanes>> parameters;
    /// M + c H1 if it is large. Small ones are a thread's.
    std::unique_ptr<SparseMatrix<Real>> hessian;

    StiffBatch(const StiffPattern& pattern, const std::vector<const Block*>& blocks, const StiffTerms& all,
               const std::vector<double>& masses)
            : RowBatch<Real, StiffPattern>(pattern, blocks, masses), harmonics(pattern.harmonics.size()),
              parameters(pattern.functions.size()) {
        this->deriveCouplings();
        for (int i = 0; i < this->numMobile; i++)
            this->masses.push_back(1 / this->inverseMasses[i]);
        if constexpr (std::is_same_v<Real, double>)
            if (pattern.hessian && pattern.hessian->isSparse())
                hessian = std::make_unique<SparseMatrix<double>>(*pattern.hessian);
        setParameters(all);
    }

    void setParameters(const StiffTerms& all) {
        for (int lane = 0; lane < this->numLanes; lane++) {
            for (size_t i = 0; i < harmonics.size(); i++) {
                const StiffCoordinate& s = all.coordinates[this->terms[lane][this->pattern->harmonics[i].coordinate]];
                LaneTraits<Real>::lane(harmonics[i].k, lane) = s.k;
                LaneTraits<Real>::lane(harmonics[i].s0, lane) = s.s0;
            }
            for (size_t i = 0; i < parameters.size(); i++)
                parameters[i][lane] = all.functionTerms[this->otherTerms[lane][i]].parameters;
        }
    }
};

/** The scratch memory of one thread. */
template <class Real> struct StiffWorkspace : RowWorkspace<Real> {
    /// For each particle: forces [kJ/mol/nm], where a solve starts [nm], and what iterations need.
    Vectors3<Real> forces, start, residual, direction, image;
    /// The small matrix M + c H1, and the solution of a system with it.
    std::vector<Real> hessian, solution;
    /// For each row, the blocks of its Hessian; the direction of a bend.
    std::vector<Matrix3<Real>> rowHessians;
    Vectors3<Real> bendDirections;
    /// For the bound of a frequency: gradients of the smooth rows, their couplings, and two numbers for each row.
    Vectors3<Real> smoothGradients;
    std::vector<Real> stiffness, couplings, current, next;
    /// The functions of function terms; positions in one lane, the gradients of a term's coordinates, four for each,
    /// and the blocks of its Hessian.
    std::vector<FunctionCopy> functions;
    std::vector<Vector3<double>> laneOfX, coordinateGradients;
    std::vector<Matrix3<Real>> termHessian;
    /// For third derivatives: positions along a line, and the coordinates of a term, with their gradients; the sum.
    std::vector<Vector3<Taylor>> line, lineGradients;
    std::vector<Taylor> lineCoordinates, slopes;
    std::vector<Vector3<double>> contraction;

    StiffWorkspace(const std::vector<StiffBatch<Real>>& all, const StiffTerms& terms) : RowWorkspace<Real>(all) {
        size_t numValues = 0, numSmooth = 0, numCouplings = 0, numAtoms = 0, numCoordinates = 0;
        for (const auto& batch : all) {
            const StiffPattern& pattern = *batch.pattern;
            if (pattern.hessian && !batch.hessian)
                numValues = std::max<size_t>(numValues, pattern.hessian->getNumValues() + 1);
            numSmooth = std::max(numSmooth, pattern.smoothRows.size());
            numCouplings = std::max(numCouplings, pattern.smoothCouplings.size());
            for (const PatternFunction& term : pattern.functions) {
                numAtoms = std::max(numAtoms, term.atoms.size());
                numCoordinates = std::max(numCoordinates, term.coordinates.size());
            }
        }
        const size_t numParticles = this->x.size();
        for (auto* vectors : {&forces, &start, &residual, &direction, &image})
            vectors->resize(numParticles);
        hessian.resize(numValues);
        solution.resize(3 * numParticles);
        rowHessians.resize(6 * this->numRows);
        bendDirections.assign(std::max(this->numRows, numSmooth), Vector3<Real>::Zero());
        smoothGradients.resize(3 * numSmooth);
        couplings.resize(numCouplings);
        for (auto* numbers : {&stiffness, &current, &next})
            numbers->resize(numSmooth);
        for (const auto& function : terms.functions)
            functions.emplace_back(*function, terms.needs.thirdDerivatives ? 3 : 2);
        laneOfX.resize(terms.functions.empty() && !terms.needs.thirdDerivatives ? 0 : numParticles);
        coordinateGradients.resize(4 * numCoordinates);
        termHessian.resize(numAtoms * (numAtoms + 1) / 2);
        if (terms.needs.thirdDerivatives) {
            line.resize(numParticles);
            contraction.resize(numParticles);
            lineGradients.resize(4 * numCoordinates);
            lineCoordinates.resize(numCoordinates);
            slopes.resize(numCoordinates);
        }
    }

    Real* hessianValues(const StiffBatch<Real>& batch) {
        return batch.hessian ? batch.hessian->values.data() : hessian.data();
    }
};

/** Call visit with a distance or an angle of some atoms. */
template <class Scalar, class Visit>
void visitCoordinate(StiffCoordinate::Kind kind, const std::vector<int>& atoms, bool periodic,
                     const std::vector<Vector3<Scalar>>& positions, const Box& box, Visit&& visit) {
    auto leg = [&](int from, int to) { return displacement(positions, atoms[from], atoms[to], periodic, box); };
    if (kind == StiffCoordinate::Kind::Distance)
        visit(Distance<Scalar>(leg(0, 1)));
    else
        visit(Angle<Scalar>(leg(1, 0), leg(1, 2)));
}
template <class Scalar, class Visit>
void visitCoordinate(const PatternTerm& term, const std::vector<Vector3<Scalar>>& positions, const Box& box,
                     Visit&& visit) {
    visitCoordinate(term.kind, term.atoms, term.periodic, positions, box, visit);
}

/** The directions across straight angles in which they bend: both legs are along them, but for the bend. */
template <class Real>
void chooseBendDirections(const std::vector<StiffRow>& rows, const Box& box, StiffWorkspace<Real>& work) {
    for (size_t p = 0; p < rows.size(); p++) {
        if (rows[p].bend < 0)
            continue;
        const Vector3<Real> leg = displacement(work.x, rows[p].atoms[1], rows[p].atoms[0], rows[p].periodic, box);
        const Vector3<Real> along = leg * inverseNorm(leg), across = perpendicular(along);
        work.bendDirections[p] = (rows[p].bend == 0 ? across : Vector3<Real>(along.cross(across)));
    }
}

/** Call visit with the coordinate of a row at work.x; bends are in work.bendDirections. */
template <class Real, class Visit>
void visitRow(const std::vector<StiffRow>& rows, int p, const StiffWorkspace<Real>& work, const Box& box,
              Visit&& visit) {
    const StiffRow& row = rows[p];
    if (row.bend < 0)
        return visitCoordinate(row.kind, row.atoms, row.periodic, work.x, box, visit);
    auto leg = [&](int to) { return displacement(work.x, row.atoms[1], row.atoms[to], row.periodic, box); };
    visit(Bend<Real>(leg(0), leg(2), work.bendDirections[p]));
}

/** Compute the gradients of rows at work.x. */
template <class Real>
void computeGradients(const std::vector<StiffRow>& rows, const Box& box, StiffWorkspace<Real>& work,
                      Vectors3<Real>& gradients) {
    chooseBendDirections(rows, box, work);
    for (size_t p = 0; p < rows.size(); p++)
        visitRow(rows, p, work, box, [&](const auto& coordinate) {
            for (size_t a = 0; a < rows[p].atoms.size(); a++)
                gradients[rows[p].firstGradient + a] = coordinate.gradient(a);
        });
}

/** Compute the forces -grad of the harmonic potentials at work.x, into work.forces [kJ/mol/nm]. */
template <class Real>
void computeStiffForces(const StiffBatch<Real>& batch, const Box& box, StiffWorkspace<Real>& work) {
    for (int i = 0; i < batch.numParticles(); i++)
        work.forces[i].setZero();
    for (size_t t = 0; t < batch.harmonics.size(); t++) {
        const PatternTerm& term = batch.pattern->harmonics[t];
        visitCoordinate(term, work.x, box, [&](const auto& coordinate) {
            const Real slope = batch.harmonics[t].first(coordinate.value);
            for (size_t a = 0; a < term.atoms.size(); a++)
                work.forces[term.atoms[a]] -= coordinate.gradient(a) * slope;
        });
    }
}

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_STIFF_BATCH_H_ */
