#include "BondGraph.h"
#include <algorithm>
#include <set>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::vector;

BondGraph::BondGraph(const System& system, const vector<PairInertia>& constraints, const BondedStiffness* bonded)
        : neighbours(system.getNumParticles()), constraintsOf(system.getNumParticles()),
          anglesOf(system.getNumParticles()) {
    // Of angles of some 100 degrees. No ring of three atoms has sides as different as this.
    const double ofAngle = 1.25;
    auto add = [&](int i, int j, double length) {
        if (!system.isVirtualSite(i) && !system.isVirtualSite(j) && lengths.insert({ordered(i, j), length}).second) {
            neighbours[i].push_back(j);
            neighbours[j].push_back(i);
        }
    };
    for (const auto& [i, j, inertia, length, periodic, isGiven] : constraints) {
        add(i, j, length);
        constraintsOf[i].push_back({j, length});
        constraintsOf[j].push_back({i, length});
    }
    if (bonded != nullptr)
        for (const BondedStiffness::Pair& pair : bonded->pairs) {
            if (pair.isBond)
                add(pair.particle1, pair.particle2, pair.length);
            else if (pair.stiffness > 0)
                anglesOf[pair.particle1].push_back({pair.particle2, pair.length});
        }
    vector<std::pair<int, int>> across;
    for (const PairInertia& constraint : constraints) {
        const int i = constraint.particle1, j = constraint.particle2;
        const double longest = constraint.distance / ofAngle;
        if (std::any_of(neighbours[i].begin(), neighbours[i].end(), [&](int k) {
                const auto other = lengths.find(ordered(k, j));
                return other != lengths.end() && other->second < longest && lengths.at(ordered(i, k)) < longest;
            }))
            across.push_back(ordered(i, j));
    }
    for (const auto& [i, j] : across) {
        if (lengths.erase({i, j}) == 0)
            continue;
        neighbours[i].erase(std::find(neighbours[i].begin(), neighbours[i].end(), j));
        neighbours[j].erase(std::find(neighbours[j].begin(), neighbours[j].end(), i));
    }
}

vector<int> BondGraph::findNear(const vector<int>& particles, int numBonds) const {
    vector<int> found = particles;
    std::set<int> known(particles.begin(), particles.end());
    size_t next = 0;
    for (int bond = 0; bond < numBonds; bond++)
        for (const size_t end = found.size(); next < end; next++)
            for (int neighbour : neighbours[found[next]])
                if (known.insert(neighbour).second)
                    found.push_back(neighbour);
    return found;
}

vector<int> BondGraph::findRing(int particle1, int particle2, int mostBonds) const {
    std::map<int, int> from = {{particle1, -1}};
    vector<int> queue = {particle1}, path;
    size_t next = 0;
    for (int bond = 0; bond < mostBonds && !from.count(particle2); bond++)
        for (const size_t end = queue.size(); next < end; next++)
            for (int neighbour : neighbours[queue[next]])
                if ((queue[next] != particle1 || neighbour != particle2) &&
                    from.insert({neighbour, queue[next]}).second)
                    queue.push_back(neighbour);
    if (from.count(particle2))
        for (int particle = particle2; particle >= 0; particle = from[particle])
            path.push_back(particle);
    return path;
}
