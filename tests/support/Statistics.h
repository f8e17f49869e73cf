#ifndef STIFFTEST_STATISTICS_H_
#define STIFFTEST_STATISTICS_H_

#include "Assertions.h"
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

namespace stifftest {

/**
 * The mean of a series of correlated numbers with its standard error, from the means of blocks (much longer than the
 * correlation time).
 */
class BlockedMean {
public:
    explicit BlockedMean(const std::vector<double>& series, int numBlocks = 32) {
        const size_t length = series.size() / numBlocks;
        std::vector<double> means;
        for (int b = 0; b < numBlocks; b++) {
            double sum = 0;
            for (size_t i = b * length; i < (b + 1) * length; i++)
                sum += series[i];
            means.push_back(sum / length);
        }
        for (double m : means)
            mean += m / numBlocks;
        double squares = 0;
        for (double m : means)
            squares += (m - mean) * (m - mean);
        error = std::sqrt(squares / (numBlocks * (numBlocks - 1.0)));
    }
    /** Whether it is a number, but for four errors, and for what else is allowed. */
    bool isNear(double number, double allowed = 0) const {
        return std::abs(mean - number) < 4 * error + allowed;
    }
    double mean = 0, error = 0;
};

/** Print a mean, and assert that it is a number, but for four errors, and for what else is allowed. */
inline void assertMean(const std::string& what, const BlockedMean& found, double expected, double allowed = 0) {
    std::cout << what << ": " << found.mean << " +- " << found.error << ", expected " << expected << std::endl;
    ASSERT(found.isNear(expected, allowed));
}

/** The slope of log(y) against log(x), by least squares. */
inline double logSlope(const std::vector<double>& x, const std::vector<double>& y) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    const int n = x.size();
    for (int i = 0; i < n; i++) {
        const double lx = std::log(x[i]), ly = std::log(y[i]);
        sx += lx;
        sy += ly;
        sxx += lx * lx;
        sxy += lx * ly;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

/** The order in h of error(h). */
template <class Error> double orderOf(Error&& error, const std::vector<double>& steps) {
    std::vector<double> errors;
    for (double h : steps)
        errors.push_back(error(h));
    return logSlope(steps, errors);
}

} // namespace stifftest

#endif /* STIFFTEST_STATISTICS_H_ */
