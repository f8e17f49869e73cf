#ifndef STIFFDEVICE_TEAM_TEXT_H_
#define STIFFDEVICE_TEAM_TEXT_H_

#include "TeamTables.h"
#include "stiffcore/methods/PenaltyMethod.h"
#include <string>

namespace stiffdevice {

/**
 * The text of the kernels of the mass penalty that move blocks by teams of threads, each a group: one text for all
 * builds of blocks, which tables describe. Of a System it has only sizes, which are rounded up: a compiler that keeps what
 * it has compiled has that of most Systems. It is written by hand after stiffcore/methods/ExtendedMass.h and Drift.h,
 * whose names its functions have, in the C that OpenMM's platforms for devices have in common; its kernels have the
 * arguments of BlockText::getHead(), the number of particles of all blocks, and memory for matrices.
 *
 * A thread has every 64th of the rows and of the atoms. The product of two rows' directions always comes with the same
 * weight, so that the matrix is C_pq u_p.u_q + D with a constant C. In place of its factor its inverse is held: to solve
 * is to multiply, with two barriers in place of two for each row, and metric forces have what they need.
 */
class TeamText {
public:
    explicit TeamText(const TeamBlocks& team) : team(team) {
    }
    /** What comes before the kernels of a program. */
    std::string getHead() const;

    using Method = stiffcore::PenaltyMethod;
    std::string getKernel(const std::string& name, const Method& method,
                          const stiffcore::PhaseList<Method::Phase>& list) const;
    std::string getShow(const std::string& name) const;
    std::string getPropagate(const std::string& name) const;

private:
    /** A kernel that goes through the blocks. */
    std::string frame(const std::string& name, const std::string& body) const;

    const TeamBlocks& team;
};

} // namespace stiffdevice

#endif /* STIFFDEVICE_TEAM_TEXT_H_ */
