#include "Programs.h"
#include "BlockKind.h"
#include "TeamText.h"
#include "stiffcore/pairs/MassRoot.h"
#include <algorithm>

using namespace stiffdevice;
using std::string;
using std::vector;
using stiffcore::Block, stiffcore::PairTerms, stiffcore::PenaltyMethod;

namespace {

/**
 * Add the kernels of blocks.
 *
 * @param recordKernels   for blocks of a kind: called as recordKernels(record), where record(name, body) records a kernel
 *                        with body(text, batch, workspace); returns them
 */
template <class RecordKernels>
void addBlocks(RecordedProgram& program, const Blocks& blocks, const PairTerms& terms, const vector<double>& masses,
               RecordKernels&& recordKernels) {
    for (const auto& kind : BlockKind::sort(blocks, terms, masses)) {
        auto record = [&](const string& ofPhases, auto&& body) {
            const string name = ofPhases + std::to_string(program.kinds.size());
            BlockText text(name);
            kind.record(text, terms, masses, body);
            return KernelText{name, text.getText(), text.getNumRandoms() * (int) kind.getBlocks().size()};
        };
        RecordedKind all = {recordKernels(record), {}, kind.getParameters(), kind.getSets(), terms.ofRoot};
        for (const Block& block : kind.getBlocks())
            all.blocks.push_back(block.particles);
        program.kinds.push_back(all);
    }
}
void addThreads(RecordedProgram& program, const PenaltyMethod& method, const Blocks& blocks, const PairTerms& terms,
                const vector<double>& masses) {
    addBlocks(program, blocks, terms, masses, [&](auto&& record) {
        vector<KernelText> kernels;
        for (const auto& list : method.getKernels())
            kernels.push_back(list.phases.empty()
                                      ? KernelText()
                                      : record(list.name, [&](BlockText& text, const auto& batch, auto& work) {
                                            text.record(method, list, batch, work);
                                        }));
        kernels.resize(method.Propagate + 1);
        return kernels;
    });
}

/** Add the programs of teams, with the kernels of getKernels(text, team). */
template <class GetKernels>
void addTeams(Recorded& recorded, const vector<TeamBlocks>& teams, GetKernels&& getKernels) {
    for (const TeamBlocks& team : teams) {
        const TeamText text(team);
        RecordedKind all = {getKernels(text, team), team.particles, team.parameters, team.tables, team.ofRoots};
        all.numThreads = TeamBlocks::teamSize;
        all.numScratch = team.inScratch ? team.getMatrixSize() : 0;
        recorded.push_back({BlockText::getHead() + text.getHead(), {all}});
    }
}
void addTeams(Recorded& recorded, const PenaltyMethod& method, const Blocks& blocks, const PairTerms& terms,
              const PairTerms& root, const vector<double>& masses) {
    auto getKernels = [&](const TeamText& text, const TeamBlocks& team) {
        vector<KernelText> kernels;
        for (const auto& list : method.getKernels()) {
            const auto& phases = list.phases;
            const bool draws = std::find(phases.begin(), phases.end(), method.Thermalize) != phases.end();
            kernels.push_back(phases.empty() ? KernelText()
                                             : KernelText{list.name, text.getKernel(list.name, method, list),
                                                          draws ? team.numRandoms : 0});
        }
        kernels.resize(method.Propagate + 1);
        return kernels;
    };
    addTeams(recorded, makeTeams(blocks, terms, masses), getKernels);
    auto getVelocities = [&](const TeamText& text, const TeamBlocks&) {
        vector<KernelText> kernels(method.Show);
        kernels.push_back({"show", text.getShow("show")});
        kernels.push_back({"propagate", text.getPropagate("propagate")});
        return kernels;
    };
    addTeams(recorded, makeTeams(blocks, root, masses), getVelocities);
}

// The velocities of the mass penalty. Those that move the particles are kept while others are shown.

using Root = stiffcore::PairBatch<stiffcore::Traced>;
using RootScratch = stiffcore::PairWorkspace<stiffcore::Traced>;

void recordShow(BlockText& text, const Root& batch, RootScratch& work) {
    text.loadState(batch, work);
    factorRoot(batch, text.box(), work);
    text.keep(batch, KeptVector::Velocity, work.v);
    applyInverseRoot(batch, work);
    for (int i = 0; i < batch.numMobile; i++)
        text.storeVelocity(i, work.v[i]);
}
void recordPropagate(BlockText& text, const Root& batch, RootScratch& work) {
    text.load(batch, KeptVector::Velocity, work.v);
    for (int i = 0; i < batch.numMobile; i++)
        text.storeVelocity(i, work.v[i]);
}

void addVelocities(RecordedProgram& program, const PenaltyMethod& method, const Blocks& blocks, const PairTerms& root,
                   const vector<double>& masses) {
    addBlocks(program, selectBound(blocks), root, masses, [&](auto&& record) {
        vector<KernelText> kernels(method.Show);
        kernels.push_back(record("show", recordShow));
        kernels.push_back(record("propagate", recordPropagate));
        return kernels;
    });
}

// Where a block is moved. The velocities that are shown have a row for each pair, and three for each bond with an inertia.

size_t countRootRows(const Block& block) {
    return block.terms.size() + 3 * block.otherTerms.size();
}
/** What a thread does is unrolled, and its text grows with the cube of the rows, see docs/developing.md. */
bool isForThread(const Block& block) {
    return block.terms.size() <= 3 && countRootRows(block) < stiffcore::MatrixLayout::minSparseSize;
}
/** A team has the vectors of a block in its local memory, and a dense matrix. */
bool isForTeam(const Block& block, const PairTerms& terms) {
    const size_t maxPairs = 160, maxRootRows = 320, maxAtoms = 160;
    return block.terms.size() <= maxPairs && countRootRows(block) <= maxRootRows &&
           block.particles.size() <= maxAtoms && !stiffcore::PairPattern::hasManyConnectedIn(block, terms);
}

} // namespace

Recorded stiffdevice::record(const PenaltyMethod& method, const Blocks& blocks, const PairTerms& terms,
                             const vector<double>& masses) {
    Blocks ofThreads, ofTeams;
    for (const Block& block : blocks) {
        const bool isSmall = isForThread(block);
        if (!isSmall && !isForTeam(block, terms))
            return {};
        (isSmall ? ofThreads : ofTeams).push_back(block);
    }
    // A device may have room for fewer teams than there are: the longest first, so that none is waited for at the end.
    std::stable_sort(ofTeams.begin(), ofTeams.end(),
                     [](const Block& one, const Block& other) { return one.terms.size() > other.terms.size(); });
    PairTerms root = terms;
    root.ofRoot = true;
    Recorded recorded;
    if (!ofThreads.empty()) {
        recorded.push_back({BlockText::getHead(), {}});
        addThreads(recorded[0], method, ofThreads, terms, masses);
        addVelocities(recorded[0], method, ofThreads, root, masses);
    }
    addTeams(recorded, method, ofTeams, terms, root, masses);
    return recorded;
}

string RecordedProgram::getText() const {
    string text = head;
    for (const RecordedKind& kind : kinds)
        for (const KernelText& kernel : kind.kernels)
            text += kernel.text;
    return text;
}
