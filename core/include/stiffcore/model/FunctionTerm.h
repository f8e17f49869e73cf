#ifndef STIFFCORE_MODEL_FUNCTION_TERM_H_
#define STIFFCORE_MODEL_FUNCTION_TERM_H_

#include "InternalCoordinate.h"
#include <algorithm>
#include <vector>

namespace stiffcore {

/**
 * A term of the potential: a function of internal coordinates of a few particles.
 */
struct FunctionTerm {
    /// Index of its TermFunction.
    int function;
    std::vector<InternalCoordinate> coordinates;
    std::vector<double> parameters;
    /// Whether displacements follow the minimum image convention.
    bool periodic;
    /// Where the term comes from: index of the Force in the System, and of the term in the Force.
    int force, index;

    /** All its particles, each once. */
    std::vector<int> getParticles() const {
        std::vector<int> all;
        for (const InternalCoordinate& coordinate : coordinates)
            for (int a = 0; a < coordinate.getNumParticles(); a++)
                if (std::find(all.begin(), all.end(), coordinate.particles[a]) == all.end())
                    all.push_back(coordinate.particles[a]);
        return all;
    }
    bool operator==(const FunctionTerm& other) const {
        return function == other.function && coordinates == other.coordinates && parameters == other.parameters &&
               periodic == other.periodic && force == other.force && index == other.index;
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_FUNCTION_TERM_H_ */
