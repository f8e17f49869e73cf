#ifndef OPENMM_STIFF_EXPRESSIONS_H_
#define OPENMM_STIFF_EXPRESSIONS_H_

#include "openmm/OpenMMException.h"
#include "stiffcore/model/InternalCoordinate.h"
#include "stiffcore/model/TermFunction.h"
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/*
 * Functions given as text. This folder alone knows that Lepton parses and differentiates them.
 */
namespace OpenMMStiff {

/** A coordinate of the particles of a term, by their numbers in the term. */
struct LocalCoordinate {
    stiffcore::InternalCoordinate::Kind kind;
    std::vector<int> places;

    stiffcore::InternalCoordinate place(const std::vector<int>& particles) const;
};

/** A function with the coordinates that its variables stand for. */
struct ParsedFunction {
    std::shared_ptr<const stiffcore::TermFunction> function;
    std::vector<LocalCoordinate> coordinates;
};

/** An energy that depends on positions by one angle alone: that between two particles, seen from a point. */
struct PointAngle {
    /// The energy as a function of the angle [rad].
    ParsedFunction energy;
    /// The particles, by their numbers in the term.
    std::array<int, 2> ends;
};

/** There are no derivatives of a function. What it says follows the name of that which has the function. */
class NoHessian : public OpenMM::OpenMMException {
public:
    using OpenMMException::OpenMMException;
};

/**
 * Parse an expression. Coordinates and globals that it does not use are left out.
 *
 * @param text          the expression
 * @param names         the variables that are coordinates
 * @param coordinates   which coordinates these are
 * @param parameters    the names of parameters that each term has
 * @param globals       the names of parameters of the Context
 * @throws OpenMMException   if it cannot be parsed, or has unknown functions or variables
 */
ParsedFunction parseFunction(const std::string& text, const std::vector<std::string>& names,
                             const std::vector<LocalCoordinate>& coordinates,
                             const std::vector<std::string>& parameters, const std::vector<std::string>& globals);

/**
 * Parse an expression in the coordinates x1, y1, z1, x2, ... of a few particles p1, p2, ... and in the functions
 * distance(p1, p2), angle(p1, p2, p3) and dihedral(p1, p2, p3, p4) of them, as that of a CustomCompoundBondForce.
 *
 * @param text           the expression
 * @param numParticles   the number of particles
 * @param parameters     the names of parameters that each term has
 * @param globals        the names of parameters of the Context
 * @throws NoHessian         if it has functions that are not supported, or an infinite part
 * @throws OpenMMException   if it cannot be parsed, or has unknown variables
 */
ParsedFunction parseParticleFunction(const std::string& text, int numParticles,
                                     const std::vector<std::string>& parameters,
                                     const std::vector<std::string>& globals);

/**
 * Parse an expression in the coordinates x, y, z of one particle, as that of a CustomExternalForce. The function
 * periodicdistance(x, y, z, x0, y0, z0) is the distance of two points, whatever the box.
 *
 * @param text           the expression
 * @param parameters     the names of parameters that each term has
 * @param globals        the names of parameters of the Context
 * @throws NoHessian         if it has an infinite part
 * @throws OpenMMException   if it cannot be parsed, or has unknown functions or variables
 */
ParsedFunction parsePositionFunction(const std::string& text, const std::vector<std::string>& parameters,
                                     const std::vector<std::string>& globals);

/**
 * Parse an expression of a few particles if all that it depends on, besides parameters, is one angle between two of
 * them, pointangle(xi, yi, zi, x, y, z, xj, yj, zj): AMOEBA's in-plane angles, in which (x, y, z) is a third particle
 * projected onto the plane of the others.
 *
 * @param text           the expression
 * @param numParticles   the number of particles
 * @param parameters     the names of parameters that each term has
 * @param globals        the names of parameters of the Context
 * @return nothing if it depends on anything else
 * @throws NoHessian         if it has an infinite part
 * @throws OpenMMException   if it cannot be parsed, or has unknown variables
 */
std::optional<PointAngle> parsePointAngle(const std::string& text, int numParticles,
                                          const std::vector<std::string>& parameters,
                                          const std::vector<std::string>& globals);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_EXPRESSIONS_H_ */
