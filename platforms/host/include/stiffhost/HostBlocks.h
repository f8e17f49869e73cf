#ifndef STIFFHOST_HOST_BLOCKS_H_
#define STIFFHOST_HOST_BLOCKS_H_

#include "HostState.h"
#include "openmm/System.h"
#include "openmmstiff/internal/Blocks.h"
#include "openmmstiff/internal/StiffTerms.h"
#include "stiffcore/blocks/BlockSystem.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * Which terms an integrator asks for, see collectStiffTerms().
 */
struct TermSelection {
    OpenMMStiff::TermScope scope;
    int stiffGroups, integrationGroups;
    /// Whether third derivatives will be asked for.
    bool thirdDerivatives;

    bool operator==(const TermSelection& other) const {
        return scope == other.scope && stiffGroups == other.stiffGroups &&
               integrationGroups == other.integrationGroups && thirdDerivatives == other.thirdDerivatives;
    }
};

/**
 * The stiff terms of a Context and their blocks, kept up to date with it. See HostParticles for the Backend.
 */
template <class Backend> class HostBlocks {
public:
    using Instance = stiffcore::BlockInstance<double>;
    using Workspace = stiffcore::Workspace<double>;

    explicit HostBlocks(Backend& backend) : backend(backend) {
    }

    /**
     * Bring the stiff terms and their blocks up to date.
     *
     * @param masses        the masses of all particles [dalton]
     * @param tangentPeriod   see BlockSystem::chooseTangentSpace()
     * @return whether anything has changed
     */
    bool prepare(const OpenMM::System& system, const std::vector<double>& masses, const TermSelection& selection,
                 const std::string& className, double tangentPeriod = std::numeric_limits<double>::infinity()) {
        const bool changed = prepareTerms(system, masses, selection, className);
        if (tangentPeriod == blocks->getTangentPeriod())
            return changed;
        blocks->chooseTangentSpace(tangentPeriod);
        return true;
    }

    /** Take the values of the Context's parameters. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        for (Workspace& work : workspaces)
            for (stiffcore::Function& function : work.functions)
                function.setGlobals(parameters);
    }

    /** The parameters of the terms may have changed. */
    void forgetParameters() {
        parametersKnown = false;
    }

    int size() const {
        return blocks->getNumBlocks();
    }
    /** The masses of the particles that belong to no block; 0 for those that do. */
    const std::vector<double>& getFreeMasses() const {
        return freeMasses;
    }

    /**
     * Work on all blocks, on all threads.
     *
     * @param work   called as work(instance, workspace); returns whether it succeeded
     * @return the first block for which it did not, or -1
     */
    template <class Work> [[nodiscard]] int forEach(Work&& work) {
        std::atomic<int> failed(size());
        backend.forEachBlock(size(), [&](int block, int thread) {
            if (!work((*blocks)[block], workspaces[thread])) {
                int first = failed;
                while (block < first && !failed.compare_exchange_weak(first, block)) {
                }
            }
        });
        return failed < size() ? int(failed) : -1;
    }

    /** Compute a number of each block, with compute(instance, workspace), and return the largest, at least 0. */
    template <class Compute> double largest(Compute&& compute) {
        double result = 0;
        for (int block = 0; block < size(); block++)
            result = std::max(result, double(compute((*blocks)[block], workspaces[0])));
        return result;
    }

    /** Whether vectors of a block's mobile particles are finite. */
    bool areFinite(int block, const std::vector<OpenMM::Vec3>& vectors) const {
        OpenMM::Vec3 sum;
        for (int i = 0; i < (*blocks)[block].getNumMobile(); i++)
            sum += vectors[(*blocks)[block].particles[i]];
        return std::isfinite(sum[0] + sum[1] + sum[2]);
    }

    /** How error messages call a block. */
    std::string describe(int block) const {
        return describeMolecule((*blocks)[block].particles, (*blocks)[block].getNumMobile());
    }

private:
    bool prepareTerms(const OpenMM::System& system, const std::vector<double>& masses, const TermSelection& selection,
                      const std::string& className) {
        const bool sameSelection = (blocks != nullptr && selection == known);
        if (sameSelection && parametersKnown)
            return false;
        OpenMMStiff::StiffTerms present = OpenMMStiff::collectStiffTerms(system, selection.scope, selection.stiffGroups,
                                                                         selection.integrationGroups, className);
        parametersKnown = true;
        if (sameSelection && present.hasSameStructure(terms)) {
            if (present.hasSameParameters(terms))
                return false;
            terms = std::move(present);
            blocks->setParameters(terms);
            return true;
        }
        terms = std::move(present);
        blocks = std::make_unique<stiffcore::BlockSystem<double>>(OpenMMStiff::findBlocks(system, terms, className),
                                                                  terms, masses, selection.thirdDerivatives);
        workspaces.assign(backend.getNumThreads(), blocks->createWorkspace());
        freeMasses = masses;
        for (int block = 0; block < blocks->getNumBlocks(); block++)
            for (int i = 0; i < (*blocks)[block].getNumMobile(); i++)
                freeMasses[(*blocks)[block].particles[i]] = 0;
        known = selection;
        return true;
    }

    Backend& backend;
    TermSelection known = {};
    OpenMMStiff::StiffTerms terms;
    std::unique_ptr<stiffcore::BlockSystem<double>> blocks;
    std::vector<Workspace> workspaces;
    std::vector<double> freeMasses;
    bool parametersKnown = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_BLOCKS_H_ */
