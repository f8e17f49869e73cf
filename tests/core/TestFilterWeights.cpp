/**
 * The weights by which oscillating forces are averaged.
 */

#include "CoreTest.h"
#include "stiffcore/methods/FilterWeights.h"

const double roundoff = 0x1p-53;

/** The mean of cos(2 pi harmonic k / n). */
double computeMean(const vector<double>& weights, int harmonic, int n) {
    double mean = 0;
    for (size_t k = 0; k < weights.size(); k++)
        mean += weights[k] * std::cos(2 * M_PI * harmonic * (long) k / n);
    return mean;
}

CLAIM(testPeriodWeightsLeaveNothingOfHarmonics) {
    vector<double> weights;
    for (int n : {4, 6, 16, 50}) {
        computePeriodWeights(n, weights);
        ASSERT_EQUAL(n / 2 + 1, (int) weights.size());
        ASSERT_EQUAL_TOL(1, computeMean(weights, 0, n), n * roundoff);
        for (int harmonic = 1; harmonic < n; harmonic++)
            ASSERT_EQUAL_TOL(0, computeMean(weights, harmonic, n), 20 * n * roundoff);
        ASSERT_EQUAL_TOL(1, computeMean(weights, n, n), 20 * n * roundoff); // aliased
    }
}

/**
 * The mean of cos(omega s) under exp(5 / (s^2 - 1)), 0 < s < 1, comes from the end, where with u = 1 - s the exponent
 * is -5/2 (1/u + 1/2 + ...): by the method of steepest descent, for large omega, it is at most
 *
 *     exp(-5/4) sqrt(2 pi/5 u0^3) exp(-sqrt(5 omega)) / integral of exp(5 / (s^2 - 1)),   u0 = sqrt(5 / (2 omega)).
 */
CLAIM(testBumpWeightsLeaveAlmostNothingOfVibrations) {
    const int n = 40;
    vector<double> weights;
    for (int periods : {1, 2, 4, 8, 16}) {
        computeBumpWeights(periods * n, weights);
        const double rounding = periods * n * roundoff;
        ASSERT_EQUAL_TOL(1, computeMean(weights, 0, n), rounding);
        const double integral = 0.5 * std::exp(-5) / (weights[0] * periods * n);
        for (int harmonic : {1, 2, 3}) {
            const double omega = 2 * M_PI * periods * harmonic, u0 = std::sqrt(5 / (2 * omega));
            const double bound = std::exp(-5.0 / 4) * std::sqrt(2 * M_PI / 5 * u0 * u0 * u0) *
                                 std::exp(-std::sqrt(5 * omega)) / integral;
            ASSERT(std::abs(computeMean(weights, harmonic, n)) <= bound + rounding);
        }
    }
}

CLAIM(testBumpWeightsFallToTheEnd) {
    vector<double> weights;
    for (int count : {2, 40, 1000}) {
        computeBumpWeights(count, weights);
        ASSERT_EQUAL(count, (int) weights.size());
        ASSERT(weights[0] > 0);
        weights[0] *= 2; // half of it belongs to the other half
        for (int k = 1; k < count; k++)
            ASSERT(weights[k] >= 0 && weights[k] <= weights[k - 1]);
    }
}

CHECK_CLAIMS
