#ifndef STIFFCORE_ELEMENTARY_H_
#define STIFFCORE_ELEMENTARY_H_

#include <cmath>

/**
 * The elementary maps that steps are composed of, each for the particles [begin, end) of arrays indexed
 * [3 particle + component]. Massless particles stay as they are.
 */
namespace stiffcore {

/// [nm/ps] No particle is faster: a step that makes it so has failed, though its numbers may be finite.
constexpr double speedOfLight = 299792.458;

/** v <- v + t a */
inline void kick(double t, const double* a, const double* masses, double* v, int begin, int end) {
    for (int i = begin; i < end; i++)
        if (masses[i] > 0)
            for (int j = 0; j < 3; j++)
                v[3 * i + j] += t * a[3 * i + j];
}

/** x <- x + t v */
inline void drift(double t, const double* v, const double* masses, double* x, int begin, int end) {
    for (int i = begin; i < end; i++)
        if (masses[i] > 0)
            for (int j = 0; j < 3; j++)
                x[3 * i + j] += t * v[3 * i + j];
}

/**
 * The exact flow of dv = -gamma v dt + sqrt(2 gamma kT / m) dW over a time t, v <- decay v + amplitude/sqrt(m)
 * xi. The coefficients are right in the limit gamma t -> 0.
 */
struct OrnsteinUhlenbeck {
    double decay, amplitude;

    OrnsteinUhlenbeck(double gamma, double kT, double t)
            : decay(std::exp(-gamma * t)), amplitude(std::sqrt(-std::expm1(-2 * gamma * t) * kT)) {
    }

    /** Draw the noise amplitude/sqrt(m) xi; gaussian() returns independent standard normal numbers. */
    template <class Gaussian>
    static void drawNoise(double amplitude, const double* masses, double* noise, int begin, int end,
                          Gaussian&& gaussian) {
        for (int i = begin; i < end; i++) {
            const double scale = (masses[i] > 0 ? amplitude / std::sqrt(masses[i]) : 0);
            for (int j = 0; j < 3; j++)
                noise[3 * i + j] = (scale > 0 ? scale * gaussian() : 0);
        }
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_ELEMENTARY_H_ */
