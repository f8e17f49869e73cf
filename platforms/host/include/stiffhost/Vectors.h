#ifndef STIFFHOST_VECTORS_H_
#define STIFFHOST_VECTORS_H_

#include "openmm/Vec3.h"
#include "openmmstiff/internal/Message.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace stiffhost {

/// A vector for each particle of a System.
using Vectors = std::vector<OpenMM::Vec3>;

/** The components of an array of vectors, one after the other. */
inline double* components(Vectors& vectors) {
    return reinterpret_cast<double*>(vectors.data());
}

inline const double* components(const Vectors& vectors) {
    return reinterpret_cast<const double*>(vectors.data());
}

/** Whether two arrays are the same to the last bit: nobody has changed the one since the other was copied from it. */
inline bool areSame(const Vectors& one, const Vectors& other) {
    return one.size() == other.size() &&
           (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(OpenMM::Vec3)) == 0);
}

/** The first particle that is as fast as a limit, or whose velocity is not finite; -1 if there is none. */
inline int findFasterThan(double limit, const Vectors& velocities) {
    // In sums that do not wait for each other.
    constexpr size_t numSums = 16;
    double sums[numSums] = {}, sum = 0;
    const double* v = components(velocities);
    const size_t number = 3 * velocities.size();
    size_t i = 0;
    for (; i + numSums <= number; i += numSums)
        for (size_t k = 0; k < numSums; k++)
            sums[k] += v[i + k] * v[i + k];
    for (; i < number; i++)
        sum += v[i] * v[i];
    for (double each : sums)
        sum += each;
    if (!(sum < limit * limit))
        for (size_t i = 0; i < velocities.size(); i++)
            if (!(velocities[i].dot(velocities[i]) < limit * limit))
                return i;
    return -1;
}

/** The first particle whose vector is not finite, or its square is not; -1 if there is none. */
inline int findNotFinite(const Vectors& vectors) {
    return findFasterThan(std::numeric_limits<double>::infinity(), vectors);
}

using OpenMMStiff::describeMolecule;

} // namespace stiffhost

#endif /* STIFFHOST_VECTORS_H_ */
