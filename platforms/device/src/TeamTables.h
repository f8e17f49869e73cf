#ifndef STIFFDEVICE_TEAM_TABLES_H_
#define STIFFDEVICE_TEAM_TABLES_H_

#include "stiffcore/model/Block.h"
#include "stiffcore/model/PairInertia.h"
#include <algorithm>
#include <vector>

namespace stiffdevice {

/**
 * Blocks of any builds that a kernel of TeamText works on, one a team of threads, and the tables by which it does. All
 * have the vectors of a block in local memory; the matrix is there, too, or in the memory of the device.
 */
struct TeamBlocks {
    /// Local memory is at least 32 kB everywhere; so many numbers of a block may be there in double precision.
    static constexpr int maxNumbers = 4000;
    /// A team has a thread for each entry of a tile of the matrix.
    static constexpr int tileSize = 8, teamSize = tileSize * tileSize;
    /// Of each block its table, parameters, particles and random numbers: where they begin.
    static constexpr int headSize = 4;

    /// Whether these are the kernels of the velocities that are shown, see stiffcore/pairs/MassRoot.h.
    bool ofRoots = false;
    bool inScratch = false;
    /// So many atoms and rows a block may have: rounded up, so that most Systems have the same text.
    int numAtoms = 0, numRows = 0;
    /// Of all blocks; of random numbers, elements of four.
    int numParticles = 0, numRandoms = 0;
    std::vector<std::vector<int>> particles;
    /// The heads of the blocks, and the tables of builds: see describe() in TeamTables.cpp.
    std::vector<int> tables;
    /// Blocks with equal ones share them.
    std::vector<double> parameters;

    /** Have room for another block. */
    void makeRoom(int forAtoms, int forRows) {
        const int least = 4 * tileSize, unit = 2 * tileSize; // blocks that are cut have no more
        auto roundUp = [&](int number) { return (std::max(number, least) + unit - 1) / unit * unit; };
        numAtoms = std::max(numAtoms, roundUp(forAtoms));
        numRows = std::max(numRows, roundUp(forRows));
    }
    /** From one row of the matrix to the next: a column more, so that a right side fits; odd, for banks of memory. */
    static int getStride(int numRows) {
        return (numRows + 1) | 1;
    }
    int getMatrixSize() const {
        return numRows * getStride(numRows);
    }
    /** Tiles along an edge of the matrix. */
    int countTiles() const {
        return numRows / tileSize;
    }
    int countVectors() const {
        return (ofRoots ? 6 * numAtoms + 5 * numRows : 9 * numAtoms + 11 * numRows) + 2 * tileSize * countTiles();
    }
    int countNumbers() const {
        return countVectors() + (inScratch ? 0 : getMatrixSize());
    }
};

/** The tables of blocks, those first whose matrices are in local memory. */
std::vector<TeamBlocks> makeTeams(const std::vector<stiffcore::Block>& blocks, const stiffcore::PairTerms& terms,
                                  const std::vector<double>& masses);

} // namespace stiffdevice

#endif /* STIFFDEVICE_TEAM_TABLES_H_ */
