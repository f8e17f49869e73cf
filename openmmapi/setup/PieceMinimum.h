#ifndef OPENMM_STIFF_SETUP_PIECE_MINIMUM_H_
#define OPENMM_STIFF_SETUP_PIECE_MINIMUM_H_

#include "CollectTerms.h"
#include "stiffcore/Geometry.h"
#include "stiffcore/model/Block.h"
#include "stiffcore/model/TermFunction.h"
#include <Eigen/Core>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace OpenMMStiff {

/** A distance [nm] that is held with a force constant [kJ/mol/nm^2], by the places of its particles in a piece. */
struct HeldDistance {
    int place1, place2;
    double length, stiffness;
};

/** A dihedral angle of an energy map, by its particles, with its force constant [kJ/mol]. */
struct StiffTorsion {
    std::array<int, 4> particles;
    double curvature;
};

/**
 * A piece of a molecule where its own bonded forces are at a minimum: with nothing else to go by than these, so that
 * it is the same whatever the positions of a Context are.
 */
struct PieceMinimum {
    /// By the place of a particle in the piece [nm].
    stiffcore::Vectors3<double> positions;
    /// Of the bonded forces, without what holds distances [kJ/mol/nm^2].
    Eigen::MatrixXd hessian;
    /// What is left of the energy [kJ/mol].
    double energy = 0;
};

/** An order of numbers which may be none, as parameters of a Context may. */
struct BitOrder {
    bool operator()(const std::vector<double>& a, const std::vector<double>& b) const {
        return a.size() != b.size() ? a.size() < b.size()
                                    : std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) < 0;
    }
};

/** The minima of pieces, by all that they depend on: equal pieces, and those that stay as they are, are built once. */
class PieceMinima {
public:
    /**
     * Build a piece, if it is not known: one particle after the other where its terms with those before it have the
     * least energy, and all of them by Newton's method in the end.
     *
     * @param terms        the bonded forces
     * @param piece        its particles, all of them mobile, its coordinates and its function terms
     * @param bonds        the distances of bonds, by which particles follow each other
     * @param held         distances of constraints; and of angles, some of whose terms may reach out of the piece
     * @param guides       about how far particles are from each other in rings, which is of help until these are closed,
     *                     and across angles that nothing holds
     * @param torsions     whose curvature is added to the Hessian
     * @param functions    copies of the functions of terms, which know the global parameters, and their first
     *                     derivatives; of one coordinate, second ones
     */
    std::shared_ptr<const PieceMinimum>
    find(const StiffTerms& terms, const stiffcore::Block& piece, const std::vector<HeldDistance>& bonds,
         const std::vector<HeldDistance>& held, const std::vector<HeldDistance>& guides,
         const std::vector<StiffTorsion>& torsions, std::vector<stiffcore::FunctionCopy>& functions);

    int count() const {
        return minima.size();
    }
    /** How many numbers they have, but for those that were in use when others have been forgotten. */
    size_t getSize() const {
        return size;
    }
    void forgetUnused();

private:
    std::map<std::vector<double>, std::shared_ptr<const PieceMinimum>, BitOrder> minima;
    size_t size = 0;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_PIECE_MINIMUM_H_ */
