#ifndef STIFFCORE_BLOCKS_BLOCK_SYSTEM_H_
#define STIFFCORE_BLOCKS_BLOCK_SYSTEM_H_

#include "../coordinates/Angle.h"
#include "../coordinates/Bend.h"
#include "../coordinates/Distance.h"
#include "../solve/SymmetricSolve.h"
#include "../terms/Function.h"
#include "../terms/Harmonic.h"
#include "../terms/Taylor.h"
#include "BlockPattern.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

/**
 * What the headers of this folder compute, they compute for one block at a time: the functions take a BlockInstance
 * and the Workspace of the calling thread, so that different blocks may be worked on at the same time. They take no
 * memory. Arrays of a whole System are indexed by particle and component, [3 particle + component]; those in a
 * Workspace by the place of a particle in its block.
 */
namespace stiffcore {

/** One block: its pattern, and what is its own. Large matrices stay with it; small ones are a thread's. */
template <class Real> struct BlockInstance {
    const BlockPattern* pattern;
    std::vector<int> particles;
    /// The masses [dalton] of the mobile particles, which come first.
    std::vector<double> masses;
    std::vector<int> terms, functionTerms;
    std::vector<Harmonic<double>> potentials;
    /// The parameters of each function term.
    std::vector<std::vector<double>> parameters;
    /// Whether each row is one of those that define the block's tangent space, and its manifold of equilibrium values.
    std::vector<char> inTangentSpace, onManifold;
    /// Whether each row is one of those that are smooth at equilibrium.
    std::vector<char> smooth;
    std::unique_ptr<SparseMatrix<Real>> hessian, schur;

    int getNumMobile() const {
        return masses.size();
    }
};

/** The scratch memory of one thread. */
template <class Real> struct Workspace {
    using Vectors = std::vector<Vector3<Real>>;
    /// A small matrix, and a right side for any matrix.
    std::vector<Real> values, rhs;
    /// One for each row: Lagrange multipliers, and the scale of its gradient.
    std::vector<Real> multipliers, scales;
    /// One for each particle.
    Vectors positions, velocities, forces, start, residual, direction, image;
    /// For each row, its gradient with respect to three atoms, the direction of a bend, the 3x3 blocks of its Hessian.
    Vectors gradients, bendDirections;
    std::vector<Matrix3<Real>> hessians;
    /// The functions of function terms; the gradients of a term's coordinates, four for each.
    std::vector<Function> functions;
    Vectors coordinateGradients;
    /// For third derivatives: positions along a line, and the coordinates of a term, with their gradients.
    std::vector<Vector3<Taylor>> line, lineGradients;
    std::vector<Taylor> lineCoordinates, slopes;
};

/**
 * The blocks of a System. Blocks of the same build share a pattern.
 */
template <class Real> class BlockSystem {
public:
    /** @param thirdDerivatives   whether those of function terms will be asked for */
    BlockSystem(const std::vector<Block>& blocks, const StiffTerms& terms, const std::vector<double>& masses,
                bool thirdDerivatives = false)
            : functions(terms.functions), thirdDerivatives(thirdDerivatives) {
        for (const StiffTerm& term : terms.coordinates)
            harmonic.push_back(term.harmonic);
        for (const Block& block : blocks) {
            size_t i = 0;
            while (i < patterns.size() && !patterns[i]->matches(block, terms))
                i++;
            if (i == patterns.size())
                patterns.push_back(std::make_unique<BlockPattern>(block, terms));
            const BlockPattern& pattern = *patterns[i];
            BlockInstance<Real> instance = {
                    &pattern, block.particles, {},     block.terms, block.functionTerms, {}, {}, {}, {},
                    {},       nullptr,         nullptr};
            for (int j = 0; j < block.numMobile; j++)
                instance.masses.push_back(masses[block.particles[j]]);
            if (pattern.hessian.isSparse())
                instance.hessian = std::make_unique<SparseMatrix<Real>>(pattern.hessian);
            if (pattern.schur.layout.isSparse())
                instance.schur = std::make_unique<SparseMatrix<Real>>(pattern.schur.layout);
            instances.push_back(std::move(instance));
        }
        setParameters(terms);
    }

    int getNumBlocks() const {
        return instances.size();
    }
    const BlockInstance<Real>& operator[](int block) const {
        return instances[block];
    }

    /** Take the parameters of the terms, the same terms as before. */
    void setParameters(const StiffTerms& terms) {
        for (BlockInstance<Real>& instance : instances) {
            instance.potentials.clear();
            for (int t : instance.terms)
                instance.potentials.push_back({terms.coordinates[t].k, terms.coordinates[t].s0});
            instance.parameters.clear();
            for (int t : instance.functionTerms)
                instance.parameters.push_back(terms.functionTerms[t].parameters);
        }
        chooseTangentSpace(tangentPeriod);
    }

    /** The period given to chooseTangentSpace() [ps]. */
    double getTangentPeriod() const {
        return tangentPeriod;
    }

    /**
     * Choose the coordinates that define the tangent spaces: those that vibrate with a period shorter than the
     * given one [ps] when all others are held at equilibrium. The default, infinity, chooses all that have a
     * force constant or a function for their potential. Angles have a period if the lengths of their legs are known:
     * those of stiff bonds.
     */
    void chooseTangentSpace(double period) {
        tangentPeriod = period;
        const double pi = 3.14159265358979323846;
        for (BlockInstance<Real>& instance : instances) {
            for (auto* rows : {&instance.inTangentSpace, &instance.onManifold, &instance.smooth})
                rows->clear();
            const std::map<std::pair<int, int>, double> lengths = findBondLengths(instance);
            for (const PatternRow& row : instance.pattern->rows) {
                const int t = row.term;
                const bool chosen =
                        std::isinf(period) || squaredFrequency(instance, t, lengths) * period * period > 4 * pi * pi;
                const bool stiff = (instance.potentials[t].k != 0 || !harmonic[instance.terms[t]]);
                instance.inTangentSpace.push_back(stiff && chosen && row.bend < 0);
                instance.onManifold.push_back(stiff && chosen && row.smooth);
                instance.smooth.push_back(row.smooth);
            }
        }
    }

    Workspace<Real> createWorkspace() const {
        size_t numValues = 0, numParticles = 0, numRows = 0, numCoordinates = 0;
        for (const auto& pattern : patterns) {
            for (const MatrixLayout* layout : {&pattern->hessian, &pattern->schur.layout})
                if (!layout->isSparse())
                    numValues = std::max<size_t>(numValues, layout->getNumValues() + 1);
            numParticles = std::max<size_t>(numParticles, pattern->numParticles);
            numRows = std::max<size_t>(numRows, pattern->rows.size());
            for (const PatternFunction& term : pattern->functions)
                numCoordinates = std::max<size_t>(numCoordinates, term.coordinates.size());
        }
        Workspace<Real> work;
        work.values.resize(numValues);
        work.rhs.resize(std::max(3 * numParticles, numRows));
        work.multipliers.resize(numRows);
        work.scales.resize(numRows);
        for (auto* vectors : {&work.positions, &work.velocities, &work.forces, &work.start, &work.residual,
                              &work.direction, &work.image})
            vectors->resize(numParticles);
        work.gradients.resize(3 * numRows);
        work.bendDirections.assign(numRows, Vector3<Real>::Zero());
        work.hessians.resize(6 * numRows);
        for (const OpenMMStiff::TermFunction& function : functions)
            work.functions.emplace_back(function, thirdDerivatives ? 3 : 2);
        work.coordinateGradients.resize(4 * numCoordinates);
        if (thirdDerivatives) {
            work.line.resize(numParticles);
            work.lineGradients.resize(4 * numCoordinates);
            work.lineCoordinates.resize(numCoordinates);
            work.slopes.resize(numCoordinates);
        }
        return work;
    }

private:
    using Lengths = std::map<std::pair<int, int>, double>;

    /** The equilibrium lengths of the bonds of a block, by the places of their atoms. */
    static Lengths findBondLengths(const BlockInstance<Real>& instance) {
        Lengths lengths;
        for (size_t t = 0; t < instance.terms.size(); t++) {
            const PatternTerm& term = instance.pattern->terms[t];
            if (term.coordinate == StiffTerm::Coordinate::Distance && instance.potentials[t].k != 0)
                for (int a : {0, 1})
                    lengths[{term.atoms[a], term.atoms[1 - a]}] = instance.potentials[t].s0;
        }
        return lengths;
    }

    /** k g M^-1 g^T of a term at equilibrium [1/ps^2]; 0 for an angle between legs of unknown lengths. */
    static double squaredFrequency(const BlockInstance<Real>& instance, int t, const Lengths& lengths) {
        const PatternTerm& term = instance.pattern->terms[t];
        const Harmonic<double>& potential = instance.potentials[t];
        auto inverseMass = [&](int a) {
            return term.atoms[a] < instance.getNumMobile() ? 1 / instance.masses[term.atoms[a]] : 0;
        };
        if (term.coordinate == StiffTerm::Coordinate::Distance)
            return potential.k * (inverseMass(0) + inverseMass(1));
        const auto leg1 = lengths.find({term.atoms[1], term.atoms[0]}),
                   leg2 = lengths.find({term.atoms[1], term.atoms[2]});
        if (leg1 == lengths.end() || leg2 == lengths.end())
            return 0;
        const double c1 = 1 / leg1->second, c2 = 1 / leg2->second;
        return potential.k * (c1 * c1 * inverseMass(0) + c2 * c2 * inverseMass(2) +
                              (c1 * c1 + c2 * c2 - 2 * c1 * c2 * std::cos(potential.s0)) * inverseMass(1));
    }

    std::vector<std::unique_ptr<BlockPattern>> patterns;
    std::vector<BlockInstance<Real>> instances;
    std::vector<OpenMMStiff::TermFunction> functions;
    bool thirdDerivatives;
    std::vector<char> harmonic; // of each coordinate, whether its potential is
    double tangentPeriod = std::numeric_limits<double>::infinity();
};

/** Copy the vectors of the first `count` particles of a block from an array of the whole System. */
template <class Real>
void gather(const BlockInstance<Real>& block, int count, const double* array, std::vector<Vector3<Real>>& local) {
    for (int i = 0; i < count; i++) {
        const double* vector = array + 3 * block.particles[i];
        local[i] = Vector3<Real>(vector[0], vector[1], vector[2]);
    }
}

template <class Real> void gatherPositions(const BlockInstance<Real>& block, const double* x, Workspace<Real>& work) {
    gather(block, block.particles.size(), x, work.positions);
}

template <class Real>
void gatherMobile(const BlockInstance<Real>& block, const double* array, std::vector<Vector3<Real>>& local) {
    gather(block, block.getNumMobile(), array, local);
}

/** Copy the vectors of the mobile particles of a block to an array of the whole System. */
template <class Real>
void scatterMobile(const BlockInstance<Real>& block, const std::vector<Vector3<Real>>& local, double* array) {
    for (int i = 0; i < block.getNumMobile(); i++)
        for (int j = 0; j < 3; j++)
            array[3 * block.particles[i] + j] = local[i][j];
}

/** Whether the vectors of the mobile particles of a block are finite. */
template <class Real> bool areFinite(const BlockInstance<Real>& block, const std::vector<Vector3<Real>>& local) {
    Vector3<Real> sum = Vector3<Real>::Zero();
    for (int i = 0; i < block.getNumMobile(); i++)
        sum += local[i];
    return std::isfinite(sum[0] + sum[1] + sum[2]);
}

/** Call visit with the internal coordinate of a term, at positions by place in the block. */
template <class Scalar, class Visit>
void visitCoordinate(const PatternTerm& term, const std::vector<Vector3<Scalar>>& positions, const Box& box,
                     Visit&& visit) {
    auto leg = [&](int from, int to) {
        return displacement(positions, term.atoms[from], term.atoms[to], term.periodic, box);
    };
    if (term.coordinate == StiffTerm::Coordinate::Distance)
        visit(Distance<Scalar>(leg(0, 1)));
    else
        visit(Angle<Scalar>(leg(1, 0), leg(1, 2)));
}

/** The same at the gathered positions. */
template <class Real, class Visit>
void visitCoordinate(const PatternTerm& term, const Workspace<Real>& work, const Box& box, Visit&& visit) {
    visitCoordinate(term, work.positions, box, visit);
}

/** The directions across a straight angle in which it bends: both legs are along them, but for the bend. */
template <class Real> void chooseBendDirections(const BlockPattern& pattern, const Box& box, Workspace<Real>& work) {
    for (size_t p = 0; p < pattern.rows.size(); p++) {
        if (pattern.rows[p].bend < 0)
            continue;
        const PatternTerm& term = pattern.termOfRow(p);
        const Vector3<Real> leg =
                displacement(work.positions, term.atoms[1], term.atoms[0], term.periodic, box).normalized();
        const Vector3<Real> across = perpendicular(leg);
        work.bendDirections[p] = (pattern.rows[p].bend == 0 ? across : Vector3<Real>(leg.cross(across)));
    }
}

/** Call visit with the coordinate of a row at the gathered positions; bends are in work.bendDirections. */
template <class Real, class Visit>
void visitRow(const BlockPattern& pattern, int p, const Workspace<Real>& work, const Box& box, Visit&& visit) {
    const PatternTerm& term = pattern.termOfRow(p);
    if (pattern.rows[p].bend < 0)
        return visitCoordinate(term, work, box, visit);
    auto leg = [&](int to) { return displacement(work.positions, term.atoms[1], term.atoms[to], term.periodic, box); };
    visit(Bend<Real>(leg(0), leg(2), work.bendDirections[p]));
}

/** Call visit(a, place) for each mobile atom a of a term. */
template <class Visit> void forEachMobile(const PatternTerm& term, int numMobile, Visit&& visit) {
    for (int a = 0; a < term.getNumAtoms(); a++)
        if (term.atoms[a] < numMobile)
            visit(a, term.atoms[a]);
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_BLOCK_SYSTEM_H_ */
