#ifndef STIFF_TEST_CORE_TEST_MAIN_H_
#define STIFF_TEST_CORE_TEST_MAIN_H_

#include "openmm/internal/AssertionUtilities.h"
#include <exception>
#include <initializer_list>
#include <iostream>

namespace stifftest {

/** A test: a function that throws if what its name claims is not so. */
struct Claim {
    const char* name;
    void (*check)();
};

/** Check all claims, print those that fail, and return the exit status of the program. */
inline int checkClaims(std::initializer_list<Claim> claims) {
    size_t passed = 0;
    for (const Claim& claim : claims) {
        try {
            claim.check();
            passed++;
        }
        catch (const std::exception& e) {
            std::cout << "FAILED " << claim.name << ": " << e.what() << std::endl;
        }
    }
    std::cout << passed << " of " << claims.size() << " claims hold" << std::endl;
    return passed == claims.size() ? 0 : 1;
}

} // namespace stifftest

/// A Claim with the name of its function.
#define CLAIM(function) stifftest::Claim({#function, function})

#endif /* STIFF_TEST_CORE_TEST_MAIN_H_ */
