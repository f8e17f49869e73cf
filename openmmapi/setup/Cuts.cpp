#include "Cuts.h"
#include "stiffcore/model/Sets.h"
#include <algorithm>
#include <utility>

using namespace OpenMMStiff;
using std::vector;

namespace {

/** Blocks that are joined, with the pairs in them. */
class Blocks {
public:
    Blocks(int numParticles, const vector<Tie>& ties)
            : ties(ties), sets(numParticles), members(numParticles), tiesOf(numParticles), numPairs(numParticles) {
        for (int i = 0; i < numParticles; i++)
            members[i] = {i};
        for (size_t t = 0; t < ties.size(); t++)
            for (int i : {ties[t].i, ties[t].j})
                tiesOf[i].push_back(t);
    }
    int find(int i) {
        return sets.find(i);
    }
    size_t getSize(int block) const {
        return members[block].size();
    }
    /** Join two blocks, unless they would have more pairs than this. */
    void join(int a, int b, int mostPairs) {
        if (members[a].size() < members[b].size())
            std::swap(a, b);
        int number = numPairs[a] + numPairs[b];
        for (int i : members[b])
            for (int t : tiesOf[i])
                number += ties[t].isPair && find(ties[t].i == i ? ties[t].j : ties[t].i) == a;
        if (number > mostPairs)
            return;
        sets.join(a, b);
        const int joined = find(a);
        vector<int> all = std::move(members[a]);
        all.insert(all.end(), members[b].begin(), members[b].end());
        members[joined] = std::move(all);
        numPairs[joined] = number;
    }

private:
    const vector<Tie>& ties;
    stiffcore::Sets sets;
    vector<vector<int>> members, tiesOf;
    vector<int> numPairs;
};

} // namespace

vector<int> OpenMMStiff::cut(int numParticles, const vector<Tie>& ties, int mostPairs) {
    const int any = ties.size();
    const size_t leftover = 4; // particles, as a methyl group has
    const int mostWithLeftover = mostPairs + mostPairs / 3;
    Blocks blocks(numParticles, ties);
    vector<const Tie*> order;
    for (const Tie& tie : ties)
        order.push_back(&tie);
    std::stable_sort(order.begin(), order.end(),
                     [](const Tie* a, const Tie* b) { return a->stiffness > b->stiffness; });
    auto join = [&](int most, auto&& choose) {
        for (const Tie* tie : order) {
            const int a = blocks.find(tie->i), b = blocks.find(tie->j);
            if (a != b && choose(*tie, std::min(blocks.getSize(a), blocks.getSize(b))))
                blocks.join(a, b, most);
        }
    };
    join(any, [](const Tie& tie, size_t) { return !tie.mayBeCut; });
    join(mostPairs, [](const Tie& tie, size_t) { return tie.isBond; });
    join(mostWithLeftover, [&](const Tie& tie, size_t smaller) { return tie.isBond && smaller <= leftover; });
    vector<int> blockOf;
    for (int i = 0; i < numParticles; i++)
        blockOf.push_back(blocks.find(i));
    return blockOf;
}
