#ifndef STIFF_TEST_CLAIMS_H_
#define STIFF_TEST_CLAIMS_H_

#include "Assertions.h"
#include <exception>
#include <functional>
#include <initializer_list>
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
template <class... Subject> Claim(const char*, void (*)(Subject&...)) -> Claim<Subject...>;

/** Check all claims, print those that fail, and return the exit status of the program. */
template <class... Subject> int checkClaims(std::initializer_list<Claim<Subject...>> claims, Subject&... subject) {
    size_t passed = 0;
    for (const auto& claim : claims)
        try {
            claim.check(subject...);
            passed++;
        }
        catch (const std::exception& e) {
            std::cout << "FAILED " << claim.name << ": " << e.what() << std::endl;
        }
    std::cout << passed << " of " << claims.size() << " claims hold" << std::endl;
    return passed == claims.size() ? 0 : 1;
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

/// A Claim with the name of its function.
#define CLAIM(function)                                                                                                \
    stifftest::Claim {                                                                                                 \
#function, function                                                                                            \
    }

/// Claims that hold one molecule at a time, and for several side by side.
#define CLAIM_WITH_LANES(function) CLAIM(function<double>), CLAIM(function<stiffcore::Lanes>)

#endif /* STIFF_TEST_CLAIMS_H_ */
