#ifndef STIFFCORE_FILTER_WEIGHTS_H_
#define STIFFCORE_FILTER_WEIGHTS_H_

#include <cmath>
#include <vector>

/**
 * Weights w_k, k = 0, 1, ..., whose sum is 1, of the mean of a function over one half of a window that is symmetric
 * about k = 0, by the trapezoidal rule. The mean over the whole window is that of the means over both halves.
 */
namespace stiffcore {

/** Let the weights, which are given up to a factor, have the sum 1. The one at k = 0 belongs to both halves. */
inline void normalizeHalfWindow(std::vector<double>& weights) {
    weights[0] *= 0.5;
    double total = 0;
    for (double weight : weights)
        total += weight;
    for (double& weight : weights)
        weight /= total;
}

/** All of a period of n points alike: harmonics up to the n-th, which is aliased, have the mean 0. n is even. */
inline void computePeriodWeights(int n, std::vector<double>& weights) {
    weights.assign(n / 2 + 1, 1.0);
    weights.back() *= 0.5;
    normalizeHalfWindow(weights);
}

/** exp(5 / (s^2 - 1)) for s = k / count: what has many periods in the window has a mean of almost 0. */
inline void computeBumpWeights(int count, std::vector<double>& weights) {
    weights.resize(count);
    for (int k = 0; k < count; k++) {
        const double s = double(k) / count;
        weights[k] = std::exp(5 / (s * s - 1));
    }
    normalizeHalfWindow(weights);
}

} // namespace stiffcore

#endif /* STIFFCORE_FILTER_WEIGHTS_H_ */
