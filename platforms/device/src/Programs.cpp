#include "Programs.h"
#include "BlockKind.h"
#include "FreePhases.h"
#include "ImplicitPhases.h"
#include "ImpulsePhases.h"
#include "PenaltyPhases.h"

using namespace stiffdevice;
using std::string;
using std::vector;
using stiffcore::Block;

namespace {

KernelText finish(const string& name, const BlockText& text) {
    return {name, text.getText(), text.getNumRandoms()};
}

/** Record the kernel of a phase for particles without a block, with body(text). */
template <class Body> KernelText recordFree(const string& name, Body&& body) {
    BlockText text(name + "Free");
    body(text);
    return finish(name + "Free", text);
}

/**
 * Record the kernels of blocks.
 *
 * @param phases   for blocks of a kind: called as phases(record), where record(name, body) records a kernel with
 *                 body(text, batch, workspace)
 */
template <template <class> class Batch, class Phases>
Recorded recordBlocks(const Blocks& blocks, const typename Batch<double>::Terms& terms, const vector<double>& masses,
                      Phases&& phases) {
    Recorded recorded;
    const auto kinds = BlockKind<Batch>::sort(blocks, terms, masses);
    for (size_t i = 0; i < kinds.size(); i++) {
        const BlockKind<Batch>& kind = kinds[i];
        auto record = [&](const string& name, auto&& body) {
            BlockText text(name + std::to_string(i));
            kind.record(text, terms, masses, body);
            return finish(name + std::to_string(i), text);
        };
        RecordedKind all = {phases(record), {}, kind.getParameters(), kind.getSets()};
        for (const Block& block : kind.getBlocks())
            all.blocks.push_back(block.particles);
        recorded.push_back(all);
    }
    return recorded;
}

/** Add the kernels of particles that are in none of the blocks, nor in those outside. */
void addFree(Recorded& recorded, const Blocks& blocks, const Blocks& outside, const vector<double>& masses,
             const vector<KernelText>& kernels) {
    vector<char> isFree;
    for (double mass : masses)
        isFree.push_back(mass > 0);
    for (const Blocks* some : {&blocks, &outside})
        for (const Block& block : *some)
            for (int i = 0; i < block.numMobile; i++)
                isFree[block.particles[i]] = false;
    RecordedKind ofFree = {kernels, {}, {0}, {}};
    for (size_t i = 0; i < masses.size(); i++)
        if (isFree[i])
            ofFree.blocks.push_back({int(i)});
    ofFree.sets.assign(ofFree.blocks.size(), 0);
    if (!ofFree.blocks.empty())
        recorded.push_back(ofFree);
}
template <template <class> class Batch, class Phases>
Recorded recordAll(const Blocks& blocks, const typename Batch<double>::Terms& terms, const vector<double>& masses,
                   Phases&& phases, const vector<KernelText>& free) {
    Recorded recorded = recordBlocks<Batch>(blocks, terms, masses, phases);
    addFree(recorded, blocks, {}, masses, free);
    return recorded;
}

} // namespace

Recorded stiffdevice::record(const stiffhost::PenaltyProgram& program, const Blocks& blocks, const Blocks& outside,
                             const stiffcore::PairTerms& pairs, const vector<double>& masses) {
    auto moveLangevin = [&](BlockText& text, const auto& batch, auto& work) {
        recordPenaltyLangevin(text, batch, work, program.metricCorrection);
    };
    Recorded recorded = recordBlocks<stiffcore::PairBatch>(blocks, pairs, masses, [&](auto&& record) {
        return program.langevin ? vector<KernelText>{{}, record("moveLangevin", moveLangevin), {}, {}, {}}
                                : vector<KernelText>{record("start", recordPenaltyStart),
                                                     record("move", recordPenaltyMove),
                                                     record("kick", recordPenaltyKick),
                                                     {},
                                                     {}};
    });
    for (RecordedKind& kind : recordBlocks<stiffcore::RootBatch>(blocks, pairs, masses, [](auto&& record) {
             return vector<KernelText>{
                     {}, {}, {}, record("show", recordPenaltyShow), record("propagate", recordPenaltyPropagate)};
         })) {
        kind.keepsVelocities = true;
        recorded.push_back(kind);
    }
    addFree(recorded, blocks, outside, masses,
            program.langevin ? vector<KernelText>{{}, recordFree("moveLangevin", recordFreeLangevin), {}, {}, {}}
                             : vector<KernelText>{recordFree("start", recordFreeStart),
                                                  recordFree("move", recordFreeMove),
                                                  recordFree("kick", recordFreeKick),
                                                  {},
                                                  {}});
    return recorded;
}

Recorded stiffdevice::record(const stiffhost::ImpulseProgram& program, const Blocks& blocks,
                             const stiffcore::StiffTerms& terms, const vector<double>& masses) {
    if (program.langevin)
        return recordAll<stiffcore::StiffBatch>(
                blocks, terms, masses,
                [](auto&& record) {
                    return vector<KernelText>{{}, record("moveLangevin", recordImpulseLangevin)};
                },
                {{}, recordFree("moveLangevin", recordFreeLangevin)});
    return recordAll<stiffcore::StiffBatch>(blocks, terms, masses,
                                            [](auto&& record) {
                                                return vector<KernelText>{record("start", recordImpulseStart),
                                                                          record("move", recordImpulseMove),
                                                                          record("kick", recordImpulseKick)};
                                            },
                                            {recordFree("start", recordFreeStart), recordFree("move", recordFreeMove),
                                             recordFree("kick", recordFreeKick)});
}

Recorded stiffdevice::record(const stiffhost::ImplicitProgram& program, const Blocks& blocks,
                             const stiffcore::StiffTerms& terms, const vector<double>& masses) {
    auto finish = [&](BlockText& text, const auto& batch, auto& work) {
        recordImplicitFinish(text, batch, work, program.langevin, program.projectsNoise);
    };
    return recordAll<stiffcore::StiffBatch>(
            blocks, terms, masses,
            [&](auto&& record) {
                return vector<KernelText>{record("begin", recordImplicitBegin), record("start", recordImplicitStart),
                                          record("move", recordImplicitMove), record("finish", finish)};
            },
            {recordFree("begin", recordFreeImplicitBegin), recordFree("start", recordFreeImplicitStart),
             recordFree("move", recordFreeImplicitMove),
             recordFree("finish", [&](BlockText& text) { recordFreeImplicitFinish(text, program.langevin); })});
}

string stiffdevice::getText(const Recorded& recorded) {
    string text = BlockText::getHead();
    for (const RecordedKind& kind : recorded)
        for (const KernelText& kernel : kind.phases)
            text += kernel.text;
    return text;
}
