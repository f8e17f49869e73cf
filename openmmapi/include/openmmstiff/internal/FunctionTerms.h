#ifndef OPENMM_STIFF_FUNCTION_TERMS_H_
#define OPENMM_STIFF_FUNCTION_TERMS_H_

#include "windowsExportStiff.h"
#include "lepton/ParsedExpression.h"
#include "openmm/System.h"
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace OpenMMStiff {

/**
 * An internal coordinate of one to four particles: a Cartesian component, a distance, an angle (its vertex in the
 * middle) or a dihedral angle with OpenMM's sign.
 */
struct InternalCoordinate {
    enum class Kind { X, Y, Z, Distance, Angle, Dihedral };
    Kind kind;
    std::array<int, 4> particles;

    int getNumParticles() const {
        return kind == Kind::Dihedral ? 4 : kind == Kind::Angle ? 3 : kind == Kind::Distance ? 2 : 1;
    }
    bool isCartesian() const {
        return getNumParticles() == 1;
    }
    bool operator==(const InternalCoordinate& other) const {
        return kind == other.kind && particles == other.particles;
    }
};

/** Two particles in ascending order. */
inline std::pair<int, int> ordered(int particle1, int particle2) {
    return {std::min(particle1, particle2), std::max(particle1, particle2)};
}

/**
 * The energy of a few internal coordinates as an expression, which many terms share.
 */
struct TermFunction {
    /// In the variables named below.
    Lepton::ParsedExpression energy;
    /// Coordinates and parameters that each term has; parameters of the Context.
    std::vector<std::string> coordinates, parameters, globals;
    /// The expression as text, by which functions are told apart.
    std::string text;

    bool operator==(const TermFunction& other) const {
        return text == other.text && coordinates == other.coordinates && parameters == other.parameters &&
               globals == other.globals;
    }
};

/**
 * A term of the potential: a function of internal coordinates of a few particles.
 */
struct FunctionTerm {
    int function;
    std::vector<InternalCoordinate> coordinates;
    std::vector<double> parameters;
    /// Whether displacements follow the minimum image convention.
    bool periodic;
    /// Where the term comes from: index of the Force in the System, and of the term in the Force.
    int force, index;

    /** All its particles, each once. */
    OPENMM_EXPORT_STIFF std::vector<int> getParticles() const;

    bool operator==(const FunctionTerm& other) const {
        return function == other.function && coordinates == other.coordinates && parameters == other.parameters &&
               periodic == other.periodic && force == other.force && index == other.index;
    }
};

/** A coordinate of the particles of a term, by their numbers in the term. */
struct LocalCoordinate {
    InternalCoordinate::Kind kind;
    std::vector<int> places;

    InternalCoordinate place(const std::vector<int>& particles) const;
};

/** A function with the coordinates that its variables stand for. */
struct ParticleFunction {
    TermFunction function;
    std::vector<LocalCoordinate> coordinates;
};

/**
 * Parse an expression in the coordinates x1, y1, z1, x2, ... of a few particles p1, p2, ... and in the functions
 * distance(p1, p2), angle(p1, p2, p3) and dihedral(p1, p2, p3, p4) of them, as that of a CustomCompoundBondForce.
 *
 * @param text           the expression
 * @param numParticles   the number of particles
 * @param parameters     the names of other variables
 * @throws OpenMMException   if it cannot be parsed, or has unknown functions or variables
 */
ParticleFunction parseParticleFunction(const std::string& text, int numParticles,
                                       const std::vector<std::string>& parameters);

/** The coordinates of a function for certain particles. */
std::vector<InternalCoordinate> placeCoordinates(const ParticleFunction& function, const std::vector<int>& particles);

/**
 * Append the terms of a Force that has a Hessian: one of the bonded forces (other than the harmonic ones), a
 * CustomExternalForce, or a NonbondedForce without a cutoff.
 *
 * @param system      the System
 * @param force       the index of the Force
 * @param functions   the functions so far
 * @param terms       the terms so far
 * @return empty, or the reason why there is no Hessian, to follow the name of the Force
 */
OPENMM_EXPORT_STIFF std::string appendFunctionTerms(const OpenMM::System& system, int force,
                                                    std::vector<TermFunction>& functions,
                                                    std::vector<FunctionTerm>& terms);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_FUNCTION_TERMS_H_ */
