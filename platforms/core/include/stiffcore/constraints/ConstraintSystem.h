#ifndef STIFFCORE_CONSTRAINT_SYSTEM_H_
#define STIFFCORE_CONSTRAINT_SYSTEM_H_

#include "../Batches.h"
#include "../terms/Function.h"
#include "../terms/LocalFunction.h"
#include "openmmstiff/internal/Constraints.h"
#include <algorithm>
#include <cmath>
#include <vector>

/**
 * Constraints as rows of a Jacobian: connected ones form blocks, and what the headers of this folder compute, they
 * compute for a batch of blocks of the same build. Functions take the Workspace of the calling thread, and no memory.
 */
namespace stiffcore {

using OpenMMStiff::Constraint;
using OpenMMStiff::ConstraintSet;

/** A constraint by the places of its particles in their block. */
struct PatternConstraint {
    Constraint::Kind kind;
    int axis;
    std::vector<int> atoms;
    /// See Constraint.
    std::vector<LocalFunction> functions;
    std::vector<int> components;
    /// Where the gradients with respect to its atoms stand in the workspace.
    int firstGradient;
};

/** What all blocks of the same build have in common. */
struct ConstraintPattern {
    int numParticles, numMobile;
    std::vector<PatternConstraint> constraints;
    bool hasFunctions;
    /// All gradients.
    int numGradients;
    /// The matrix G M^-1 G^T, one row a constraint.
    SchurPattern schur;

    ConstraintPattern(const Block& block, const ConstraintSet& all)
            : numParticles(block.particles.size()), numMobile(block.numMobile),
              constraints(localConstraints(block, all)), hasFunctions(false), numGradients(0),
              schur(atomsOfConstraints(), numMobile) {
        for (const PatternConstraint& constraint : constraints) {
            hasFunctions |= !constraint.functions.empty();
            numGradients += constraint.atoms.size();
        }
    }

    /** The build of a block. */
    static std::vector<int> describe(const Block& block, const ConstraintSet& all) {
        std::vector<int> build = {(int) block.particles.size(), block.numMobile};
        auto append = [&](const std::vector<int>& numbers) {
            build.push_back(numbers.size());
            build.insert(build.end(), numbers.begin(), numbers.end());
        };
        for (const PatternConstraint& constraint : localConstraints(block, all)) {
            build.insert(build.end(), {int(constraint.kind), constraint.axis});
            append(constraint.atoms);
            append(constraint.components);
            // The coordinates of a function differ at most in their particles, which it takes from the constraint.
            for (const LocalFunction& function : constraint.functions)
                build.push_back(function.function);
        }
        return build;
    }

private:
    static std::vector<PatternConstraint> localConstraints(const Block& block, const ConstraintSet& all) {
        std::vector<PatternConstraint> local;
        int numGradients = 0;
        for (int t : block.terms) {
            const Constraint& constraint = all.constraints[t];
            local.push_back({constraint.kind, constraint.axis, {}, {}, constraint.components, numGradients});
            for (int particle : constraint.particles)
                local.back().atoms.push_back(block.findPlace(particle));
            for (const OpenMMStiff::FunctionTerm& term : constraint.functions)
                local.back().functions.emplace_back(term, constraint.particles, block);
            numGradients += constraint.particles.size();
        }
        return local;
    }

    std::vector<std::vector<int>> atomsOfConstraints() const {
        std::vector<std::vector<int>> atoms;
        for (const PatternConstraint& constraint : constraints)
            atoms.push_back(constraint.atoms);
        return atoms;
    }
};

template <class Real> struct ConstraintWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct ConstraintBatch : BlockBatch<Real> {
    using Pattern = ConstraintPattern;
    using Terms = ConstraintSet;
    using Workspace = ConstraintWorkspace<Real>;
    const ConstraintPattern* pattern;
    /// For each constraint its value, compliance and damping time, see Constraint; damping 0 is the default.
    std::vector<Real> values, compliances, dampings;
    /// For each coupling of two constraints the 1/m of their common atom.
    std::vector<Real> couplings;

    ConstraintBatch(const ConstraintPattern& pattern, const std::vector<const Block*>& blocks, const ConstraintSet& all,
                    const std::vector<double>& masses)
            : BlockBatch<Real>(pattern, blocks, masses), pattern(&pattern), values(this->size()),
              compliances(this->size()), dampings(this->size()) {
        for (int lane = 0; lane < this->numLanes; lane++)
            for (int p = 0; p < this->size(); p++) {
                const Constraint& constraint = all.constraints[this->terms[lane][p]];
                LaneTraits<Real>::lane(values[p], lane) = constraint.value;
                LaneTraits<Real>::lane(compliances[p], lane) = constraint.compliance;
                LaneTraits<Real>::lane(dampings[p], lane) = constraint.damping;
            }
        for (const Coupling& coupling : pattern.schur.couplings)
            couplings.push_back(this->inverseMasses[pattern.constraints[coupling.p].atoms[coupling.a]]);
    }
};

/** The scratch memory of one thread: the state of a batch, and what is computed from it. */
template <class Real> struct ConstraintWorkspace : BatchWorkspace<Real> {
    /// For each constraint: g, or w of those on velocities; the diagonal of G M^-1 G^T, and what is added to it; and
    /// multipliers.
    std::vector<Real> values, inverseMasses, diagonal, multipliers;
    /// For each atom of each constraint, the gradient: a part of the row of G, or A.
    std::vector<Vector3<Real>> gradients;
    /// The functions; positions in one lane, and the gradients of a function's coordinates, four for each.
    std::vector<Function> functions;
    std::vector<Vector3<double>> laneOfX, coordinateGradients;

    ConstraintWorkspace(const std::vector<ConstraintBatch<Real>>& all, const ConstraintSet& set)
            : BatchWorkspace<Real>(all) {
        size_t numGradients = 0, numCoordinates = 0;
        for (const auto& batch : all)
            numGradients = std::max<size_t>(numGradients, batch.pattern->numGradients);
        for (const OpenMMStiff::TermFunction& function : set.functions) {
            numCoordinates = std::max(numCoordinates, function.coordinates.size());
            functions.emplace_back(function, 1);
        }
        for (auto* numbers : {&values, &inverseMasses, &diagonal, &multipliers})
            numbers->resize(this->numRows);
        gradients.resize(numGradients);
        laneOfX.resize(this->x.size());
        coordinateGradients.resize(4 * numCoordinates);
    }
};

template <class Real> using ConstraintSystem = BatchSystem<ConstraintBatch, Real>;

/** Evaluate a constraint given by expressions, in one lane. */
template <class Real>
void evaluateFunctions(const PatternConstraint& constraint, int p, int lane, double time, const Box& box,
                       ConstraintWorkspace<Real>& work) {
    const bool onVelocities = (constraint.kind == Constraint::Kind::Velocity);
    auto prepare = [&](const LocalFunction& term) -> Function& {
        Function& function = work.functions[term.function];
        evaluateCoordinates(term, work.laneOfX, box, function.arguments(), work.coordinateGradients);
        if (onVelocities)
            function.arguments()[term.coordinates.size()] = time;
        return function;
    };
    auto component = [&](int k) -> double& {
        return LaneTraits<Real>::lane(work.gradients[constraint.firstGradient + k / 3][k % 3], lane);
    };
    for (size_t k = 0; k < 3 * constraint.atoms.size(); k++)
        component(k) = 0;
    Function& function = prepare(constraint.functions[0]);
    LaneTraits<Real>::lane(work.values[p], lane) = function.value();
    if (onVelocities)
        for (size_t i = 0; i < constraint.components.size(); i++)
            component(constraint.components[i]) = prepare(constraint.functions[1 + i]).value();
    else
        function.first([&](int k, double first) {
            const InternalCoordinate& coordinate = constraint.functions[0].coordinates[k];
            for (int a = 0; a < coordinate.getNumParticles(); a++)
                for (int j = 0; j < 3; j++)
                    component(3 * coordinate.particles[a] + j) += first * work.coordinateGradients[4 * k + a][j];
        });
}

/** The diagonal entry of G M^-1 G^T for a constraint. */
template <class Real>
Real computeInverseMass(const ConstraintBatch<Real>& batch, int p, const ConstraintWorkspace<Real>& work) {
    const PatternConstraint& constraint = batch.pattern->constraints[p];
    Real sum = 0;
    for (size_t a = 0; a < constraint.atoms.size(); a++)
        sum += batch.inverseMasses[constraint.atoms[a]] * work.gradients[constraint.firstGradient + a].squaredNorm();
    return sum;
}

/** Evaluate all constraints at work.x and a time [ps]: values, gradients, and the diagonal of G M^-1 G^T. */
template <class Real>
void evaluateConstraints(const ConstraintBatch<Real>& batch, double time, const Box& box,
                         ConstraintWorkspace<Real>& work) {
    using std::sqrt;
    const double tiny = 1e-200; // two particles in one place have no direction: 0
    const ConstraintPattern& pattern = *batch.pattern;
    for (int p = 0; p < batch.size(); p++) {
        const PatternConstraint& constraint = pattern.constraints[p];
        Vector3<Real>* gradient = &work.gradients[constraint.firstGradient];
        if (constraint.kind == Constraint::Kind::Distance) {
            const Vector3<Real> d = work.x[constraint.atoms[1]] - work.x[constraint.atoms[0]];
            const Real r = sqrt(d.squaredNorm() + tiny);
            work.values[p] = r - batch.values[p];
            gradient[1] = d * Real(1 / r);
            gradient[0] = -gradient[1];
        }
        else if (constraint.kind == Constraint::Kind::Component) {
            work.values[p] = work.x[constraint.atoms[0]][constraint.axis] - batch.values[p];
            gradient[0].setZero();
            gradient[0][constraint.axis] = 1;
        }
    }
    for (int lane = 0; lane < batch.numLanes && pattern.hasFunctions; lane++) {
        for (int i = 0; i < pattern.numParticles; i++)
            for (int j = 0; j < 3; j++)
                work.laneOfX[i][j] = LaneTraits<Real>::lane(work.x[i][j], lane);
        for (int p = 0; p < batch.size(); p++)
            if (!pattern.constraints[p].functions.empty())
                evaluateFunctions(pattern.constraints[p], p, lane, time, box, work);
    }
    for (int p = 0; p < batch.size(); p++)
        work.inverseMasses[p] = computeInverseMass(batch, p, work);
}

/** The rate of a constraint under velocities, G v. */
template <class Real>
Real computeRate(const ConstraintBatch<Real>& batch, int p, const std::vector<Vector3<Real>>& v,
                 const ConstraintWorkspace<Real>& work) {
    const PatternConstraint& constraint = batch.pattern->constraints[p];
    Real rate = 0;
    for (size_t a = 0; a < constraint.atoms.size(); a++)
        rate += work.gradients[constraint.firstGradient + a].dot(v[constraint.atoms[a]]);
    return rate;
}

/** Whether a constraint's value and gradient are finite, in which lanes. */
template <class Real> auto isFinite(int p, const ConstraintWorkspace<Real>& work) {
    using std::abs;
    // Of what is finite the difference with itself is 0.
    const Real sum = work.values[p] + work.inverseMasses[p], difference = sum - sum;
    return abs(difference) <= Real(0);
}

/** Compute by how much constraints are violated, g or A v - w, into work.multipliers. */
template <class Real> void computeViolations(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.size(); p++)
        work.multipliers[p] = batch.pattern->constraints[p].kind == Constraint::Kind::Velocity
                                      ? Real(computeRate(batch, p, work.v, work) - work.values[p])
                                      : work.values[p];
}

} // namespace stiffcore

#endif /* STIFFCORE_CONSTRAINT_SYSTEM_H_ */
