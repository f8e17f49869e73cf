#include "Blocks.h"
#include "PenalizedPairs.h"
#include "openmm/Force.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/internal/Checks.h"
#include "stiffcore/model/Sets.h"
#include <algorithm>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

void refuseVirtualSite(const System& system, const vector<int>& particles, int force, int index,
                       const string& className) {
    for (int particle : particles)
        if (system.isVirtualSite(particle))
            throw OpenMMException(message(
                    className, ": term ", index, " of the stiff force '", system.getForce(force).getName(),
                    "' acts on particle ", particle,
                    ", a virtual site, for which there is no Hessian. Define the term between the particles that",
                    " the site depends on, or use the method StiffHessian or Newmark, for which it is slow"));
}

void refuseConstraints(const System& system, const vector<Block>& blocks, const string& className) {
    vector<bool> isInBlock(system.getNumParticles(), false);
    for (const Block& block : blocks)
        for (int i = 0; i < block.numMobile; i++)
            isInBlock[block.particles[i]] = true;
    const vector<PairInertia> constraints = readConstraints(system);
    for (size_t i = 0; i < constraints.size(); i++) {
        const int particle1 = constraints[i].particle1, particle2 = constraints[i].particle2;
        require(!isInBlock[particle1] && !isInBlock[particle2], className, ": constraint ", i,
                " of the System, between particles ", particle1, " and ", particle2, ", acts on particle ",
                isInBlock[particle1] ? particle1 : particle2,
                ", which has stiff terms too. Remove the constraints of this molecule: create the System with"
                " constraints=None and rigidWater=False");
    }
}

} // namespace

vector<Block> OpenMMStiff::connect(const System& system, const vector<vector<int>>& particles, size_t numOwn) {
    const int numParticles = system.getNumParticles(), numTerms = particles.size();
    auto isMobile = [&](int particle) { return system.getParticleMass(particle) > 0; };

    // Join the mobile particles of each term. Blocks are in the order of their first particles.

    Sets sets(numParticles);
    vector<int> firstMobile(numTerms, -1), blockOf(numParticles, -1); // of the first particle of a set
    for (int t = 0; t < numTerms; t++)
        for (int particle : particles[t])
            if (isMobile(particle)) {
                if (firstMobile[t] < 0)
                    firstMobile[t] = particle;
                sets.join(particle, firstMobile[t]);
            }
    for (int first : firstMobile)
        if (first >= 0)
            blockOf[sets.find(first)] = 0;
    vector<Block> blocks;
    for (const vector<int>& set : sets.collect())
        if (int& block = blockOf[set[0]]; block >= 0) {
            block = blocks.size();
            blocks.push_back({set, (int) set.size(), {}, {}});
        }

    // Distribute the terms, and add the anchors behind the mobile particles.

    for (int t = 0; t < numTerms; t++) {
        if (firstMobile[t] < 0)
            continue;
        Block& block = blocks[blockOf[sets.find(firstMobile[t])]];
        if (size_t(t) < numOwn)
            block.terms.push_back(t);
        else
            block.otherTerms.push_back(t - numOwn);
        for (int particle : particles[t]) {
            if (isMobile(particle))
                continue;
            const auto anchors = block.particles.begin() + block.numMobile;
            const auto place = std::lower_bound(anchors, block.particles.end(), particle);
            if (place == block.particles.end() || *place != particle)
                block.particles.insert(place, particle);
        }
    }
    return blocks;
}

void OpenMMStiff::addFreeParticles(const System& system, vector<Block>& blocks) {
    vector<char> isFree;
    for (int i = 0; i < system.getNumParticles(); i++)
        isFree.push_back(system.getParticleMass(i) > 0);
    for (const Block& block : blocks)
        for (int particle : block.particles)
            isFree[particle] = false;
    for (size_t i = 0; i < isFree.size(); i++)
        if (isFree[i])
            blocks.push_back({{int(i)}, 1, {}, {}});
}

vector<Block> OpenMMStiff::findBlocks(const System& system, const StiffTerms& terms, const string& className) {
    vector<vector<int>> particles;
    auto add = [&](const auto& term) {
        particles.push_back(term.getParticles());
        refuseVirtualSite(system, particles.back(), term.force, term.index, className);
    };
    std::for_each(terms.coordinates.begin(), terms.coordinates.end(), add);
    std::for_each(terms.functionTerms.begin(), terms.functionTerms.end(), add);
    vector<Block> blocks = connect(system, particles, terms.coordinates.size());
    refuseConstraints(system, blocks, className);
    return blocks;
}

vector<Block> OpenMMStiff::findBlocks(const System& system, const PairTerms& terms) {
    vector<vector<int>> particles;
    for (const auto* list : {&terms.pairs, &terms.bonds})
        for (const PairInertia& pair : *list)
            particles.push_back(pair.getParticles());
    return connect(system, particles, terms.pairs.size());
}
