#include "Programs.h"
#include "BlockKind.h"
#include "TeamText.h"
#include "stiffcore/pairs/MassRoot.h"

using namespace stiffdevice;
using std::string;
using std::vector;
using stiffcore::Block;

namespace {

/**
 * Add the kernels of blocks.
 *
 * @param recordKernels   for blocks of a kind: called as recordKernels(record), where record(name, body) records a kernel
 *                        with body(text, batch, workspace); returns them
 */
template <template <class> class Batch, class RecordKernels>
void addBlocks(Recorded& recorded, const Blocks& blocks, const typename Batch<double>::Terms& terms,
               const vector<double>& masses, bool keepsVelocities, RecordKernels&& recordKernels) {
    for (const auto& kind : BlockKind<Batch>::sort(blocks, terms, masses)) {
        auto record = [&](const string& ofPhases, auto&& body) {
            const string name = ofPhases + std::to_string(recorded.size());
            BlockText text(name);
            kind.record(text, terms, masses, body);
            return KernelText{name, text.getText(), text.getNumRandoms() * (int) kind.getBlocks().size()};
        };
        RecordedKind all = {"", recordKernels(record), {}, kind.getParameters(), kind.getSets(), keepsVelocities};
        for (const Block& block : kind.getBlocks())
            all.blocks.push_back(block.particles);
        recorded.push_back(all);
    }
}
template <class Method>
Recorded recordMethod(const Method& method, const Blocks& blocks,
                      const typename Method::template Batch<double>::Terms& terms, const vector<double>& masses) {
    Recorded recorded;
    addBlocks<Method::template Batch>(recorded, blocks, terms, masses, false, [&](auto&& record) {
        vector<KernelText> kernels;
        for (const auto& list : method.getKernels())
            kernels.push_back(list.phases.empty()
                                      ? KernelText()
                                      : record(list.name, [&](BlockText& text, const auto& batch, auto& work) {
                                            text.record(method, list, batch, work);
                                        }));
        return kernels;
    });
    return recorded;
}

/** Add the kernels of teams, with getKernels(text, name), where name(ofPhases) is that of a kernel. */
template <class GetKernels>
void addTeams(Recorded& recorded, const vector<TeamBlocks>& teams, GetKernels&& getKernels) {
    for (const TeamBlocks& team : teams) {
        const string number = std::to_string(recorded.size());
        const TeamText text(team, number);
        RecordedKind all = {text.getFunctions(), {}, team.particles, team.parameters, team.tables, team.ofRoots};
        all.kernels = getKernels(text, team, [&](const string& ofPhases) { return ofPhases + number; });
        all.numThreads = TeamBlocks::teamSize;
        all.numScratch = team.inScratch ? team.getMatrixSize() : 0;
        recorded.push_back(all);
    }
}
void addTeams(Recorded& recorded, const stiffcore::PenaltyMethod& method, const Blocks& blocks,
              const stiffcore::PairTerms& terms, const vector<double>& masses) {
    auto getKernels = [&](const TeamText& text, const TeamBlocks& team, auto&& name) {
        vector<KernelText> kernels;
        for (const auto& list : method.getKernels()) {
            const auto& phases = list.phases;
            const bool draws = std::find(phases.begin(), phases.end(), method.Thermalize) != phases.end();
            kernels.push_back(phases.empty()
                                      ? KernelText()
                                      : KernelText{name(list.name), text.getKernel(name(list.name), method, list),
                                                   draws ? team.numRandoms : 0});
        }
        kernels.resize(method.Propagate + 1);
        return kernels;
    };
    addTeams(recorded, makeTeams(blocks, terms, masses), getKernels);
    auto getVelocities = [&](const TeamText& text, const TeamBlocks&, auto&& name) {
        vector<KernelText> kernels(method.Show);
        kernels.push_back({name("show"), text.getShow(name("show"))});
        kernels.push_back({name("propagate"), text.getPropagate(name("propagate"))});
        return kernels;
    };
    addTeams(recorded, makeRootTeams(blocks, terms, masses), getVelocities);
}

// The velocities of the mass penalty. Those that move the particles are kept while others are shown.

using Roots = stiffcore::RootBatch<stiffcore::Traced>;
using RootScratch = stiffcore::RootWorkspace<stiffcore::Traced>;

void recordShow(BlockText& text, const Roots& batch, RootScratch& work) {
    text.loadState(batch, work);
    factorRoot(batch, text.box(), work);
    text.keep(batch, KeptVector::Velocity, work.v);
    applyInverseRoot(batch, work);
    for (int i = 0; i < batch.numMobile; i++)
        text.storeVelocity(i, work.v[i]);
}
void recordPropagate(BlockText& text, const Roots& batch, RootScratch& work) {
    text.load(batch, KeptVector::Velocity, work.v);
    for (int i = 0; i < batch.numMobile; i++)
        text.storeVelocity(i, work.v[i]);
}

void addVelocities(Recorded& recorded, const stiffcore::PenaltyMethod& method, const Blocks& blocks,
                   const stiffcore::PairTerms& pairs, const vector<double>& masses) {
    for (RecordedKind& kind : recorded)
        kind.kernels.resize(method.Propagate + 1);
    addBlocks<stiffcore::RootBatch>(recorded, selectBound(blocks), pairs, masses, true, [&](auto&& record) {
        vector<KernelText> kernels(method.Show);
        kernels.push_back(record("show", recordShow));
        kernels.push_back(record("propagate", recordPropagate));
        return kernels;
    });
}

} // namespace

Recorded stiffdevice::record(const stiffhost::Device::Method& method, const Blocks& blocks,
                             stiffhost::Device::Terms terms, const vector<double>& masses) {
    return std::visit(
            [&](const auto& method) {
                using Method = std::decay_t<decltype(method)>;
                const auto& itsTerms = *std::get<const typename Method::template Batch<double>::Terms*>(terms);
                Blocks ofThreads, ofTeams;
                for (const Block& block : blocks)
                    (Method::getPlace(block, itsTerms) == stiffcore::Place::Team ? ofTeams : ofThreads)
                            .push_back(block);
                Recorded recorded = recordMethod(method, ofThreads, itsTerms, masses);
                if constexpr (std::is_same_v<Method, stiffcore::PenaltyMethod>) {
                    addVelocities(recorded, method, ofThreads, itsTerms, masses);
                    addTeams(recorded, method, ofTeams, itsTerms, masses);
                }
                return recorded;
            },
            method);
}

string stiffdevice::getText(const Recorded& recorded) {
    string text = BlockText::getHead();
    if (std::any_of(recorded.begin(), recorded.end(), [](const RecordedKind& kind) { return !kind.head.empty(); }))
        text += TeamText::getHead();
    for (const RecordedKind& kind : recorded) {
        text += kind.head;
        for (const KernelText& kernel : kind.kernels)
            text += kernel.text;
    }
    return text;
}
