#ifndef STIFF_TEST_ASSERTIONS_H_
#define STIFF_TEST_ASSERTIONS_H_

/*
 * The assertions of OpenMM, or the same ones for tests that are built without it.
 */
#if __has_include("openmm/internal/AssertionUtilities.h")

#include "openmm/internal/AssertionUtilities.h"

namespace stifftest {
using OpenMM::throwException;
}

#else

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

namespace stifftest {

[[noreturn]] inline void throwException(const char* file, int line, const std::string& details) {
    throw std::runtime_error("Assertion failure at " + std::string(file) + ":" + std::to_string(line) + ". " + details);
}

template <class Expected, class Found>
[[noreturn]] void throwDifference(const Expected& expected, const Found& found, const char* file, int line) {
    std::stringstream details;
    details << "Expected " << expected << ", found " << found;
    throwException(file, line, details.str());
}

template <class Expected, class Found>
void requireEqual(const Expected& expected, const Found& found, const char* file, int line) {
    if (!(expected == found))
        throwDifference(expected, found, file, line);
}

/** Require that two numbers agree, relative to the expected one where that is larger than 1. */
inline void requireClose(double expected, double found, double tolerance, const char* file, int line) {
    const double scale = (std::abs(expected) > 1 ? std::abs(expected) : 1);
    if (!(std::abs(expected - found) / scale <= tolerance))
        throwDifference(expected, found, file, line);
}

} // namespace stifftest

#define ASSERT(condition)                                                                                              \
    {                                                                                                                  \
        if (!(condition))                                                                                              \
            stifftest::throwException(__FILE__, __LINE__, "");                                                         \
    }
#define ASSERT_EQUAL(expected, found) stifftest::requireEqual(expected, found, __FILE__, __LINE__)
#define ASSERT_EQUAL_CONTAINERS(expected, found) ASSERT((expected) == (found))
#define ASSERT_EQUAL_TOL(expected, found, tolerance)                                                                   \
    stifftest::requireClose(expected, found, tolerance, __FILE__, __LINE__)

#endif

#endif /* STIFF_TEST_ASSERTIONS_H_ */
