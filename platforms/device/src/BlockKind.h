#ifndef STIFFDEVICE_BLOCK_KIND_H_
#define STIFFDEVICE_BLOCK_KIND_H_

#include "BlockText.h"
#include "stiffcore/pairs/PairBatch.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stiffdevice {

/**
 * Blocks of the same build, such as all water molecules, as a device works on them: one a thread. What may differ from
 * block to block are parameters; blocks with the same share a set of them.
 */
class BlockKind {
public:
    /** Sort blocks by their build. */
    static std::vector<BlockKind> sort(const std::vector<stiffcore::Block>& blocks, const stiffcore::PairTerms& terms,
                                       const std::vector<double>& masses) {
        std::vector<BlockKind> kinds;
        std::map<std::vector<int>, int> kindOfBuild;
        for (const stiffcore::Block& block : blocks) {
            const auto [place, isNew] =
                    kindOfBuild.try_emplace(stiffcore::PairPattern::describe(block, terms), kinds.size());
            if (isNew)
                kinds.push_back(BlockKind(block, terms));
            kinds[place->second].add(block, terms, masses);
        }
        return kinds;
    }

    const std::vector<stiffcore::Block>& getBlocks() const {
        return blocks;
    }
    /** The sets of parameters, one after the other, and where in them that of each block begins. */
    const std::vector<double>& getParameters() const {
        return parameters;
    }
    const std::vector<int>& getSets() const {
        return sets;
    }

    /** Record a kernel, with body(text, batch, workspace). */
    template <class Body>
    void record(BlockText& text, const stiffcore::PairTerms& terms, const std::vector<double>& masses,
                Body&& body) const {
        std::vector<stiffcore::PairBatch<Traced>> batches;
        batches.emplace_back(*pattern, std::vector<const stiffcore::Block*>{&blocks[0]}, terms, masses);
        stiffcore::PairWorkspace<Traced> workspace(batches, terms);
        batches[0].visitParameters([&](Traced& number) { number = text.parameter(); });
        batches[0].derive();
        body(text, batches[0], workspace);
    }

private:
    BlockKind(const stiffcore::Block& example, const stiffcore::PairTerms& terms)
            : pattern(std::make_unique<stiffcore::PairPattern>(example, terms)) {
    }

    void add(const stiffcore::Block& block, const stiffcore::PairTerms& terms, const std::vector<double>& masses) {
        std::vector<double> own;
        stiffcore::PairBatch<double> batch(*pattern, std::vector<const stiffcore::Block*>{&block}, terms, masses);
        batch.visitParameters([&](double number) { own.push_back(number); });
        const auto [place, isNew] = setOfParameters.try_emplace(own, parameters.size());
        if (isNew)
            parameters.insert(parameters.end(), own.begin(), own.end());
        sets.push_back(place->second);
        blocks.push_back(block);
    }

    std::unique_ptr<stiffcore::PairPattern> pattern;
    std::vector<stiffcore::Block> blocks;
    std::vector<double> parameters;
    std::vector<int> sets;
    std::map<std::vector<double>, int> setOfParameters;
};

} // namespace stiffdevice

#endif /* STIFFDEVICE_BLOCK_KIND_H_ */
