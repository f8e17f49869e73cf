#include "Cuts.h"
#include "stiffcore/model/Sets.h"
#include <algorithm>
#include <utility>

using namespace OpenMMStiff;
using std::vector;
using stiffcore::Sets;

vector<int> OpenMMStiff::cut(int numParticles, const vector<Tie>& ties, int mostPairs) {
    const int any = ties.size();
    const int leftover = 4; // particles, as a methyl group has
    const int mostWithLeftover = mostPairs + mostPairs / 3;
    Sets blocks(numParticles);
    vector<int> numPairs(numParticles); // in the block that a particle stands for
    vector<vector<int>> partners(numParticles);
    vector<const Tie*> order;
    for (const Tie& tie : ties) {
        order.push_back(&tie);
        if (tie.isPair) {
            partners[tie.i].push_back(tie.j);
            partners[tie.j].push_back(tie.i);
        }
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Tie* a, const Tie* b) { return a->stiffness > b->stiffness; });
    auto join = [&](int most, auto&& choose) { // unless they would have more pairs than this
        for (const Tie* tie : order) {
            int a = blocks.find(tie->i), b = blocks.find(tie->j);
            if (blocks.getSize(a) < blocks.getSize(b))
                std::swap(a, b);
            if (a == b || !choose(*tie, blocks.getSize(b)))
                continue;
            int number = numPairs[a] + numPairs[b];
            blocks.visitSet(b, [&](int i) {
                for (int j : partners[i])
                    number += blocks.find(j) == a;
            });
            if (number > most)
                continue;
            blocks.join(a, b);
            numPairs[blocks.find(a)] = number;
        }
    };
    join(any, [](const Tie& tie, int) { return !tie.mayBeCut; });
    join(mostPairs, [](const Tie& tie, int) { return tie.isBond; });
    join(mostWithLeftover, [&](const Tie& tie, int smaller) { return tie.isBond && smaller <= leftover; });
    vector<int> blockOf;
    for (int i = 0; i < numParticles; i++)
        blockOf.push_back(blocks.find(i));
    return blockOf;
}
