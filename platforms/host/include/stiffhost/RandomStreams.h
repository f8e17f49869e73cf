#ifndef STIFFHOST_RANDOM_STREAMS_H_
#define STIFFHOST_RANDOM_STREAMS_H_

#include "openmm/internal/OSRngSeed.h"
#include "sfmt/SFMT.h"
#include "Checkpoints.h"
#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

namespace stiffhost {

/**
 * Streams of normally distributed numbers. Their number is fixed, so that a seed gives the same noise with any number
 * of threads, and a checkpoint can be loaded on another machine.
 */
class RandomStreams {
public:
    static constexpr int count = 16;

    /** @param seed   0 for one that is chosen */
    void initialize(int seed) {
        streams = std::vector<Stream>(count);
        uint32_t next = (seed != 0 ? seed : osrngseed());
        for (Stream& stream : streams) {
            OpenMM_SFMT::init_gen_rand(next, stream.uniform);
            stream.hasSpare = false;
            next = 1664525u * next + 1013904223u; // other seeds for the others, by a linear congruence
        }
    }
    /** By Marsaglia's polar method, which gives two at a time. */
    double operator()(int index) {
        Stream& stream = streams[index];
        if (stream.hasSpare) {
            stream.hasSpare = false;
            return stream.spare;
        }
        double x, y, r2;
        do {
            x = 2 * OpenMM_SFMT::genrand_res53(stream.uniform) - 1;
            y = 2 * OpenMM_SFMT::genrand_res53(stream.uniform) - 1;
            r2 = x * x + y * y;
        } while (r2 >= 1 || r2 == 0);
        const double scale = std::sqrt(-2 * std::log(r2) / r2);
        stream.spare = scale * y;
        stream.hasSpare = true;
        return scale * x;
    }

    void write(std::ostream& out) {
        for (Stream& stream : streams) {
            stream.uniform.createCheckpoint(out);
            writeCheckpoint(out, stream.spare);
            writeCheckpoint(out, stream.hasSpare);
        }
    }
    void read(std::istream& in) {
        for (Stream& stream : streams) {
            stream.uniform.loadCheckpoint(in);
            readCheckpoint(in, &stream.spare, 1);
            readCheckpoint(in, &stream.hasSpare, 1);
        }
    }

private:
    // What threads draw from at the same time must not lie in one line of the cache.
    struct alignas(64) Stream {
        OpenMM_SFMT::SFMT uniform;
        double spare = 0;
        bool hasSpare = false;
    };
    /// Empty without a heat bath.
    std::vector<Stream> streams;
};

} // namespace stiffhost

#endif /* STIFFHOST_RANDOM_STREAMS_H_ */
