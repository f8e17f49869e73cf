#include "Blocks.h"
#include "openmm/Force.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/internal/Message.h"
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

void refuseConstraints(const System& system, const vector<int>& blockOf, const string& className) {
    for (int i = 0; i < system.getNumConstraints(); i++) {
        int particle1, particle2;
        double distance;
        system.getConstraintParameters(i, particle1, particle2, distance);
        if (blockOf[particle1] < 0 && blockOf[particle2] < 0)
            continue;
        const int inBlock = (blockOf[particle1] >= 0 ? particle1 : particle2);
        throw OpenMMException(
                message(className, ": constraint ", i, " of the System, between particles ", particle1, " and ",
                        particle2, ", acts on particle ", inBlock, ", which has stiff terms too.",
                        " Remove the constraints of this molecule: create the System with constraints=None and",
                        " rigidWater=False"));
    }
}

} // namespace

vector<Block> OpenMMStiff::connect(const System& system, const vector<vector<int>>& particles, size_t numOwn) {
    const int numParticles = system.getNumParticles(), numTerms = particles.size();
    auto isMobile = [&](int particle) { return system.getParticleMass(particle) > 0; };

    // Join the mobile particles of each term.

    Sets sets(numParticles);
    vector<int> firstMobile(numTerms, -1);
    for (int t = 0; t < numTerms; t++)
        for (int particle : particles[t]) {
            if (!isMobile(particle))
                continue;
            if (firstMobile[t] < 0)
                firstMobile[t] = particle;
            sets.join(particle, firstMobile[t]);
        }

    // Number the blocks in the order of their first particles.

    vector<bool> hasTerm(numParticles, false);
    for (int t = 0; t < numTerms; t++)
        if (firstMobile[t] >= 0)
            hasTerm[sets.find(firstMobile[t])] = true;
    vector<int> blockOfRoot(numParticles, -1);
    vector<Block> blocks;
    for (int i = 0; i < numParticles; i++) {
        const int root = sets.find(i);
        if (!hasTerm[root])
            continue;
        if (blockOfRoot[root] < 0) {
            blockOfRoot[root] = blocks.size();
            blocks.push_back({{}, 0, {}, {}});
        }
        blocks[blockOfRoot[root]].particles.push_back(i);
        blocks[blockOfRoot[root]].numMobile++;
    }

    // Distribute the terms, and add the anchors behind the mobile particles.

    for (int t = 0; t < numTerms; t++) {
        if (firstMobile[t] < 0)
            continue;
        Block& block = blocks[blockOfRoot[sets.find(firstMobile[t])]];
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
    for (const StiffCoordinate& term : terms.coordinates) {
        particles.emplace_back(term.particles.begin(), term.particles.begin() + term.getNumParticles());
        refuseVirtualSite(system, particles.back(), term.force, term.index, className);
    }
    for (const FunctionTerm& term : terms.functionTerms) {
        particles.push_back(term.getParticles());
        refuseVirtualSite(system, particles.back(), term.force, term.index, className);
    }
    vector<Block> blocks = connect(system, particles, terms.coordinates.size());
    vector<int> blockOf(system.getNumParticles(), -1);
    for (size_t i = 0; i < blocks.size(); i++)
        for (int j = 0; j < blocks[i].numMobile; j++)
            blockOf[blocks[i].particles[j]] = i;
    refuseConstraints(system, blockOf, className);
    return blocks;
}
