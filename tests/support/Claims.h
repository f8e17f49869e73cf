#ifndef STIFF_TEST_CLAIMS_H_
#define STIFF_TEST_CLAIMS_H_

#include "Assertions.h"
#include <exception>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace stifftest {

/** A test: a function that throws if what its name claims is not so. It may be given something to test. */
template <class... Subject> struct Claim {
    const char* name;
    void (*check)(Subject&...);
};

/** The claims of a program that are given subjects of these types, in the order of its file. */
template <class... Subject> std::vector<Claim<Subject...>>& claimsAbout() {
    static std::vector<Claim<Subject...>> claims;
    return claims;
}

/** The number of all claims of a program. */
inline size_t numClaims = 0;

/** Puts a claim into these lists before main() begins. */
struct Registration {
    template <class... Subject> Registration(const char* name, void (*check)(Subject&...)) {
        claimsAbout<Subject...>().push_back({name, check});
        numClaims++;
    }
};

/**
 * Check all claims about these subjects, print those that fail, and return the exit status of the program, which fails
 * if it has other claims, too.
 */
template <class... Subject> int checkClaims(Subject&... subject) {
    size_t passed = 0;
    for (const auto& claim : claimsAbout<Subject...>())
        try {
            claim.check(subject...);
            passed++;
        }
        catch (const std::exception& e) {
            std::cout << "FAILED " << claim.name << ": " << e.what() << std::endl;
        }
    std::cout << passed << " of " << numClaims << " claims hold" << std::endl;
    return numClaims > 0 && passed == numClaims ? 0 : 1;
}

/** Check a claim for each line of a table; the error says for which it does not hold. */
template <class Row, class Check> void checkEach(const std::vector<Row>& rows, Check&& check) {
    for (const Row& row : rows)
        try {
            check(row);
        }
        catch (const std::exception& e) {
            throw std::runtime_error(row.name + ": " + e.what());
        }
}

/** The message of the exception that an action throws; empty if it throws none. */
inline std::string catchMessage(const std::function<void()>& action) {
    try {
        action();
    }
    catch (const std::exception& e) {
        return e.what();
    }
    return "";
}

/** Assert that a message is not empty, and that it contains each of some words. */
inline void assertHasWords(const std::string& message, const std::vector<std::string>& words) {
    if (message.empty())
        throwException(__FILE__, __LINE__, "No exception was thrown");
    for (const std::string& word : words)
        if (message.find(word) == std::string::npos)
            throwException(__FILE__, __LINE__, "No '" + word + "' in the message: " + message);
}

/** Assert that an action throws an exception whose message contains each of some words. */
inline void assertThrows(const std::function<void()>& action, const std::vector<std::string>& words) {
    assertHasWords(catchMessage(action), words);
}

} // namespace stifftest

/// A claim's function, which checkClaims() calls: its name, and its parameters.
#define CLAIM(function, ...)                                                                                           \
    void function(__VA_ARGS__);                                                                                        \
    const stifftest::Registration function##IsAClaim(#function, function);                                             \
    void function(__VA_ARGS__)

/// One that holds for one molecule at a time, and for several side by side: a template over the scalar type Real.
#define CLAIM_WITH_LANES(function)                                                                                     \
    template <class Real> void function();                                                                             \
    const stifftest::Registration function##IsAClaim(#function "<double>", function<double>),                          \
            function##IsAClaimWithLanes(#function "<Lanes>", function<stiffcore::Lanes>);                              \
    template <class Real> void function()

/// The main program of tests without subjects.
#define CHECK_CLAIMS                                                                                                   \
    int main() {                                                                                                       \
        return stifftest::checkClaims();                                                                               \
    }

#endif /* STIFF_TEST_CLAIMS_H_ */
