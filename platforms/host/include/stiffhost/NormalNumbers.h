#ifndef STIFFHOST_NORMAL_NUMBERS_H_
#define STIFFHOST_NORMAL_NUMBERS_H_

#include "openmm/Vec3.h"
#include "sfmt/SFMT.h"
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace stiffhost {

/**
 * Normally distributed numbers for what happens between steps. They follow from the velocities at hand, so that they
 * leave the platform's random numbers alone, and a run that is repeated or resumed draws them again.
 */
class NormalNumbers {
public:
    explicit NormalNumbers(const std::vector<OpenMM::Vec3>& velocities) {
        uint32_t seed = 1;
        for (const OpenMM::Vec3& v : velocities)
            for (int j = 0; j < 3; j++) {
                const double component = v[j];
                uint64_t bits;
                std::memcpy(&bits, &component, sizeof(bits));
                seed = seed * 31 + uint32_t(bits ^ (bits >> 32));
            }
        OpenMM_SFMT::init_gen_rand(seed, sfmt);
    }
    /** A number, by Box and Muller's method. */
    double operator()() {
        const double u = 1 - OpenMM_SFMT::genrand_real2(sfmt), phase = OpenMM_SFMT::genrand_real2(sfmt);
        return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * phase);
    }
    OpenMM::Vec3 vector() {
        const double x = (*this)(), y = (*this)(), z = (*this)();
        return OpenMM::Vec3(x, y, z);
    }

private:
    OpenMM_SFMT::SFMT sfmt;
};

} // namespace stiffhost

#endif /* STIFFHOST_NORMAL_NUMBERS_H_ */
