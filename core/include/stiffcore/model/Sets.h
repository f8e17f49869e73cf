#ifndef STIFFCORE_MODEL_SETS_H_
#define STIFFCORE_MODEL_SETS_H_

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace stiffcore {

/** The numbers from 0 on in sets that are joined, by union-find with path halving. */
class Sets {
public:
    explicit Sets(int number) : parent(number), size(number, 1) {
        std::iota(parent.begin(), parent.end(), 0);
        next = parent;
    }
    /** The number that stands for the set of one: the smallest in it. */
    int find(int i) {
        while (parent[i] != i)
            i = parent[i] = parent[parent[i]];
        return i;
    }
    int getSize(int i) {
        return size[find(i)];
    }
    /** Join two sets, unless they would have more elements than this. */
    void join(int i, int j, int most = std::numeric_limits<int>::max()) {
        i = find(i);
        j = find(j);
        if (i == j || size[i] > most - size[j])
            return;
        parent[std::max(i, j)] = std::min(i, j);
        size[std::min(i, j)] += size[std::max(i, j)];
        std::swap(next[i], next[j]);
    }
    /** Call visit with each element of the set of one, which is the first. */
    template <class Visit> void visitSet(int i, Visit&& visit) const {
        int k = i;
        do
            visit(k);
        while ((k = next[k]) != i);
    }
    /** The sets, in ascending order as their elements are. */
    std::vector<std::vector<int>> collect() {
        std::vector<std::vector<int>> sets;
        for (int i = 0; i < (int) parent.size(); i++)
            if (find(i) == i) {
                sets.emplace_back();
                visitSet(i, [&](int k) { sets.back().push_back(k); });
                std::sort(sets.back().begin(), sets.back().end());
            }
        return sets;
    }

private:
    /// Each element names another of its set, whose root names itself; and the next one, in a circle.
    std::vector<int> parent, next, size;
};

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_SETS_H_ */
