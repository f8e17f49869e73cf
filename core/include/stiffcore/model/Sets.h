#ifndef STIFFCORE_MODEL_SETS_H_
#define STIFFCORE_MODEL_SETS_H_

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace stiffcore {

/** The numbers from 0 on in sets that are joined, by union-find with path halving. */
class Sets {
public:
    explicit Sets(int number) : parent(number), size(number, 1) {
        std::iota(parent.begin(), parent.end(), 0);
    }
    /** The number that stands for the set of one: the smallest in it. */
    int find(int i) {
        while (parent[i] != i)
            i = parent[i] = parent[parent[i]];
        return i;
    }
    /** Join two sets, unless they would have more elements than this. */
    void join(int i, int j, int most = std::numeric_limits<int>::max()) {
        i = find(i);
        j = find(j);
        if (i == j || size[i] > most - size[j])
            return;
        parent[std::max(i, j)] = std::min(i, j);
        size[std::min(i, j)] += size[std::max(i, j)];
    }
    /** The sets, in ascending order as their elements are. */
    std::vector<std::vector<int>> collect() {
        std::vector<std::vector<int>> sets;
        std::vector<int> setOf(parent.size(), -1);
        for (int i = 0; i < (int) parent.size(); i++) {
            int& set = setOf[find(i)];
            if (set < 0) {
                set = sets.size();
                sets.emplace_back();
            }
            sets[set].push_back(i);
        }
        return sets;
    }

private:
    std::vector<int> parent, size;
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_SETS_H_ */
