/**
 * Where large molecules are cut into blocks.
 */

#include "SystemTest.h"
#include "setup/Cuts.h"

namespace {

/** A chain of groups of particles: those of a group are tied to its first one, and groups to each other. */
vector<Tie> makeChain(int numGroups, int size, bool mayBeCut) {
    vector<Tie> ties;
    for (int g = 0; g < numGroups; g++) {
        const int first = g * size;
        for (int i = 1; i < size; i++)
            ties.push_back({first, first + i, 2, true, true, mayBeCut});
        if (g > 0)
            ties.push_back({first - size, first, 1, true, true, true});
    }
    return ties;
}

/** The pairs within each block, and the number of pairs between blocks. */
std::pair<std::map<int, int>, int> countPairs(const vector<Tie>& ties, const vector<int>& blockOf) {
    std::map<int, int> within;
    int between = 0;
    for (int block : blockOf)
        within[block];
    for (const Tie& tie : ties)
        if (blockOf[tie.i] == blockOf[tie.j])
            within[blockOf[tie.i]] += tie.isPair;
        else
            between += tie.isPair;
    return {within, between};
}

int countBlocks(const vector<int>& blockOf) {
    return std::set<int>(blockOf.begin(), blockOf.end()).size();
}

/** Blocks have the pairs that they should have at most, and the softest bonds are those that are cut. */
CLAIM(testTheSoftestBondsAreCut) {
    const int numGroups = 12, size = 6;
    const vector<Tie> ties = makeChain(numGroups, size, true);
    for (int most : {5, 11, 12, 23, 1000}) {
        const vector<int> blockOf = cut(numGroups * size, ties, most);
        const auto [within, between] = countPairs(ties, blockOf);
        for (const auto& [block, number] : within)
            ASSERT(number <= most);
        for (const Tie& tie : ties)
            ASSERT(tie.stiffness < 2 || blockOf[tie.i] == blockOf[tie.j]);
        ASSERT_EQUAL((int) within.size() - 1, between);
        // Of n groups a block has 6 n - 1 pairs.
        ASSERT_EQUAL(numGroups / std::min(numGroups, (most + 1) / size), countBlocks(blockOf));
    }
}

/** What must not be cut stays together, however large it is; a pair that is no bond does not hold blocks together. */
CLAIM(testWhatMustNotBeCutIsNot) {
    const int size = 10;
    vector<Tie> ties = makeChain(2, size, false);
    ASSERT_EQUAL(2, countBlocks(cut(2 * size, ties, 3)));
    ties.back().mayBeCut = false;
    ASSERT_EQUAL(1, countBlocks(cut(2 * size, ties, 3)));
    ties.back().isPair = false; // as the bond of a hydrogen with an inertia alone
    ASSERT_EQUAL(1, countBlocks(cut(2 * size, ties, 3)));
    ties.back() = {0, size, 1, true, false, true};
    ASSERT_EQUAL(2, countBlocks(cut(2 * size, ties, 1000)));
}

/** A methyl group is no block of its own, unless its neighbour has too many pairs. */
CLAIM(testFewParticlesAreNoBlock) {
    const int size = 10;
    for (int few : {1, 4, 5}) {
        vector<Tie> ties = makeChain(2, size, false);
        for (int i = 1; i < few; i++)
            ties.push_back({2 * size, 2 * size + i, 3, true, true, false});
        ties.push_back({0, 2 * size, 1.5, true, true, true});
        ASSERT_EQUAL(few < 5 ? 2 : 3, countBlocks(cut(2 * size + few, ties, 12)));
        ASSERT_EQUAL(3, countBlocks(cut(2 * size + few, ties, 7)));
    }
}

} // namespace

CHECK_CLAIMS
