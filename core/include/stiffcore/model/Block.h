#ifndef STIFFCORE_MODEL_BLOCK_H_
#define STIFFCORE_MODEL_BLOCK_H_

#include <algorithm>
#include <iterator>
#include <vector>

namespace stiffcore {

/**
 * A connected group of particles under the stiff terms (or other terms that couple a few particles): one diagonal
 * block of the Hessian.
 */
struct Block {
    /// The particles of the block in ascending order: first the mobile ones, then massless anchors.
    std::vector<int> particles;
    /// How many of them are mobile. The block's matrix has three rows for each.
    int numMobile;
    /// The terms of the block: indices into the list of terms, of a StiffTerms into its coordinates.
    std::vector<int> terms;
    /// Indices into a second list: the function terms of a StiffTerms, the bonds of PairTerms.
    std::vector<int> otherTerms;

    bool operator==(const Block& other) const {
        return particles == other.particles && numMobile == other.numMobile && terms == other.terms &&
               otherTerms == other.otherTerms;
    }
    /** Whether anything binds it. Without terms it is one particle. */
    bool isBound() const {
        return !terms.empty() || !otherTerms.empty();
    }
    /** Where in `particles` a particle of the block stands. */
    int findPlace(int particle) const {
        const auto begin = particles.begin(), mobileEnd = begin + numMobile;
        auto place = std::lower_bound(begin, mobileEnd, particle);
        if (place == mobileEnd || *place != particle)
            place = std::lower_bound(mobileEnd, particles.end(), particle);
        return place - begin;
    }
    std::vector<int> findPlaces(const std::vector<int>& some) const {
        std::vector<int> places;
        for (int particle : some)
            places.push_back(findPlace(particle));
        return places;
    }
};

/** The blocks that are bound. */
inline std::vector<Block> selectBound(const std::vector<Block>& blocks) {
    std::vector<Block> bound;
    std::copy_if(blocks.begin(), blocks.end(), std::back_inserter(bound),
                 [](const Block& block) { return block.isBound(); });
    return bound;
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_BLOCK_H_ */
