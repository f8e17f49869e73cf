#ifndef STIFFCORE_MODEL_CONSTRAINT_H_
#define STIFFCORE_MODEL_CONSTRAINT_H_

#include "FunctionTerm.h"
#include "TermFunction.h"
#include <string>
#include <vector>

namespace stiffcore {

/**
 * A scalar constraint on a few particles: g(x) = 0, or A(x, t) v = w(x, t).
 */
struct Constraint {
    enum class Kind {
        /// g = |x2 - x1| - value
        Distance,
        /// g = x - value, a component of one particle
        Component,
        /// g is functions[0]
        Holonomic,
        /// w is functions[0]; component `components[i]` of A, numbered [3 particle + axis], is functions[1 + i]. Their
        /// only parameter is the time t [ps].
        Velocity
    };
    Kind kind;
    /// How error messages call it: what it is among, and its index there.
    const char* name;
    int index;
    /// Each once.
    std::vector<int> particles;
    /// The axis of a component.
    int axis = 0;
    /// A distance or a component of a position [nm].
    double value = 0;
    /// epsilon, or gamma of a velocity constraint; tau [ps], 0 for the integrator's.
    double compliance = 0, damping = 0;
    std::vector<FunctionTerm> functions = {};
    std::vector<int> components = {};
    /// What g grows by in a whole turn, if it is linear in a dihedral angle; or 0.
    double turn = 0;

    bool operator==(const Constraint& other) const {
        return kind == other.kind && std::string(name) == other.name && index == other.index &&
               particles == other.particles && axis == other.axis && value == other.value &&
               compliance == other.compliance && damping == other.damping && functions == other.functions &&
               components == other.components;
    }
    std::string describe() const {
        return std::string(name) + " constraint " + std::to_string(index);
    }
};

/**
 * Constraints, and the functions that they share.
 */
struct ConstraintSet {
    TermFunctions functions;
    std::vector<Constraint> constraints;

    bool operator==(const ConstraintSet& other) const {
        return stiffcore::describe(functions) == stiffcore::describe(other.functions) &&
               constraints == other.constraints;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_CONSTRAINT_H_ */
