#ifndef STIFFCORE_CONSTRAINTS_CONSTRAINT_BATCH_H_
#define STIFFCORE_CONSTRAINTS_CONSTRAINT_BATCH_H_

#include "../batch/Batches.h"
#include "../model/Constraint.h"
#include "../rows/Rows.h"
#include "../terms/PatternFunction.h"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

/**
 * Constraints as rows of a Jacobian; connected ones form blocks.
 */
namespace stiffcore {

/** A constraint by the places of its particles in their block: see Constraint. */
struct PatternConstraint : Row {
    Constraint::Kind kind;
    int axis;
    std::vector<PatternFunction> functions;
    std::vector<int> components;
    double turn;
};

/** What all blocks of the same build have in common. */
struct ConstraintPattern {
    using RowType = PatternConstraint;
    int numParticles, numMobile;
    RowPattern<PatternConstraint> rows;
    bool hasFunctions = false;

    ConstraintPattern(const Block& block, const ConstraintSet& all)
            : numParticles(block.particles.size()), numMobile(block.numMobile),
              rows(localConstraints(block, all), numMobile) {
        for (const PatternConstraint& constraint : rows.rows)
            hasFunctions |= !constraint.functions.empty();
    }

    bool isLarge() const {
        return rows.isLarge();
    }

    static std::vector<std::string> describeShared(const ConstraintSet& all) {
        return stiffcore::describe(all.functions);
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
            for (const PatternFunction& function : constraint.functions)
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
            local.push_back({{block.findPlaces(constraint.particles), numGradients},
                             constraint.kind,
                             constraint.axis,
                             {},
                             constraint.components,
                             constraint.turn});
            for (const FunctionTerm& term : constraint.functions)
                local.back().functions.emplace_back(term, constraint.particles, block);
            numGradients += constraint.particles.size();
        }
        return local;
    }
};

template <class Real> struct ConstraintWorkspace;

/** Some blocks with the same pattern, one a lane. */
template <class Real> struct ConstraintBatch : RowBatch<Real, ConstraintPattern> {
    using Terms = ConstraintSet;
    using Workspace = ConstraintWorkspace<Real>;
    /// For each constraint its value, compliance and damping time, see Constraint; damping 0 is the default.
    std::vector<Real> values, compliances, dampings;

    ConstraintBatch(const ConstraintPattern& pattern, const std::vector<const Block*>& blocks, const ConstraintSet& all,
                    const std::vector<double>& masses)
            : RowBatch<Real, ConstraintPattern>(pattern, blocks, masses), values(this->numRows()),
              compliances(this->numRows()), dampings(this->numRows()) {
        this->deriveCouplings();
        setParameters(all);
    }

    void setParameters(const ConstraintSet& all) {
        for (int lane = 0; lane < this->numLanes; lane++)
            for (int p = 0; p < this->numRows(); p++) {
                const Constraint& constraint = all.constraints[this->terms[lane][p]];
                LaneTraits<Real>::lane(values[p], lane) = constraint.value;
                LaneTraits<Real>::lane(compliances[p], lane) = constraint.compliance;
                LaneTraits<Real>::lane(dampings[p], lane) = constraint.damping;
            }
    }
};

/** The scratch memory of one thread. */
template <class Real> struct ConstraintWorkspace : RowWorkspace<Real> {
    /// For each constraint: g, or w of those on velocities.
    std::vector<Real> values;
    /// The functions; positions in one lane, and the gradients of a function's coordinates, four for each.
    std::vector<FunctionCopy> functions;
    std::vector<Vector3<double>> laneOfX, coordinateGradients;

    ConstraintWorkspace(const std::vector<ConstraintBatch<Real>>& all, const ConstraintSet& set)
            : RowWorkspace<Real>(all), values(this->numRows), laneOfX(this->x.size()) {
        size_t numCoordinates = 0;
        for (const auto& function : set.functions) {
            numCoordinates = std::max(numCoordinates, function->coordinates.size());
            functions.emplace_back(*function, 1);
        }
        coordinateGradients.resize(4 * numCoordinates);
    }
};

/** Evaluate a constraint given by expressions, in one lane. */
template <class Real>
void evaluateFunctions(const PatternConstraint& constraint, int p, int lane, double time, const Box& box,
                       ConstraintWorkspace<Real>& work) {
    const bool onVelocities = (constraint.kind == Constraint::Kind::Velocity);
    auto prepare = [&](const PatternFunction& term) -> TermFunction& {
        TermFunction& function = *work.functions[term.function];
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
    TermFunction& function = prepare(constraint.functions[0]);
    const double value = function.value(), turn = constraint.turn;
    LaneTraits<Real>::lane(work.values[p], lane) = turn == 0 ? value : value - turn * std::round(value / turn);
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

/** Evaluate all constraints at work.x and a time [ps]: values, gradients, and the diagonal of G M^-1 G^T. */
template <class Real>
void evaluateConstraints(const ConstraintBatch<Real>& batch, double time, const Box& box,
                         ConstraintWorkspace<Real>& work) {
    const std::vector<PatternConstraint>& constraints = batch.pattern->rows.rows;
    for (int p = 0; p < batch.numRows(); p++) {
        const PatternConstraint& constraint = constraints[p];
        Vector3<Real>* gradient = &work.gradients[constraint.firstGradient];
        if (constraint.kind == Constraint::Kind::Distance) {
            gradient[1] = work.x[constraint.atoms[1]] - work.x[constraint.atoms[0]];
            work.values[p] = normalize(gradient[1]) - batch.values[p];
            gradient[0] = -gradient[1];
        }
        else if (constraint.kind == Constraint::Kind::Component) {
            work.values[p] = work.x[constraint.atoms[0]][constraint.axis] - batch.values[p];
            gradient[0].setZero();
            gradient[0][constraint.axis] = 1;
        }
    }
    for (int lane = 0; lane < batch.numLanes && batch.pattern->hasFunctions; lane++) {
        copyLane(batch, work.x, lane, work.laneOfX);
        for (int p = 0; p < batch.numRows(); p++)
            if (!constraints[p].functions.empty())
                evaluateFunctions(constraints[p], p, lane, time, box, work);
    }
    computeInverseMasses(batch, work);
}

/** Whether a constraint's value and gradient are finite, in which lanes. */
template <class Real> auto isFinite(int p, const ConstraintWorkspace<Real>& work) {
    return isFinite(Real(work.values[p] + work.inverseMasses[p]));
}

/** Compute by how much constraints are violated, g or A v - w, into work.multipliers. */
template <class Real> void computeViolations(const ConstraintBatch<Real>& batch, ConstraintWorkspace<Real>& work) {
    for (int p = 0; p < batch.numRows(); p++) {
        const PatternConstraint& constraint = batch.row(p);
        work.multipliers[p] =
                constraint.kind == Constraint::Kind::Velocity
                        ? Real(computeRate(constraint, work.gradients.data(), work.v.data()) - work.values[p])
                        : work.values[p];
    }
}

} // namespace stiffcore

#endif /* STIFFCORE_CONSTRAINTS_CONSTRAINT_BATCH_H_ */
