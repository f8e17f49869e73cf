/**
 * What is recorded of operations on Traced numbers. That the kernels made of it compute what the host does is claimed in
 * tests/devices.
 */

#include "CoreTest.h"
#include "stiffcore/linear/DenseLdlt.h"
#include "stiffcore/trace/Traced.h"
#include <charconv>
#include <clocale>

namespace {

int count(const string& text, const string& words) {
    int number = 0;
    for (size_t place = text.find(words); place != string::npos; place = text.find(words, place + 1))
        number++;
    return number;
}

/** Constants are computed, zeros and ones left out, and nothing is recorded twice. */
CLAIM(testNothingIsRecordedInVain) {
    Trace trace;
    const Traced x = trace.read("x"), two = Traced(1) + 1;
    const Traced first = (x * two + 0) * 1 - Traced(0) * x, again = x * 2;
    ASSERT(first.isSame(again));
    ASSERT((two * 3).is(6) && (x * 0).is(0) && !(x < x).isConstant() && (two > 1).isConstant());
    ASSERT(count(trace.getText(), "*") == 1 && count(trace.getText(), " + ") == 0);
    ASSERT(!(x - x).isConstant()); // which is not 0 if x is not finite
}

/** The factorization of a matrix with an empty corner takes no operation there. */
CLAIM(testZerosOfAMatrixAreLeftOut) {
    auto countProducts = [](bool full) {
        Trace trace;
        Traced A[9];
        for (int i : {0, 3, 4, 7, 8})
            A[i] = trace.read("A[" + std::to_string(i) + "]");
        if (full)
            A[6] = trace.read("A[6]");
        DenseLdlt<Traced, 3>::factor(A, 3);
        return count(trace.getText(), "*");
    };
    ASSERT(countProducts(true) == 7);
    ASSERT(countProducts(false) == 4);
}

/** A loop has variables for what changes in it, and for that alone; their new values are given all at once. */
CLAIM(testLoopsCarryWhatChanges) {
    Trace trace;
    Traced a = trace.read("a"), b = trace.read("b"), constant = trace.read("c");
    Control<Traced>::repeat(
            [&] {
                const Traced sum = a + b;
                a = b;
                b = sum + constant * 0;
                return b > 100;
            },
            a, b, constant);
    ASSERT(count(trace.getText(), "while (true) {") == 1 && count(trace.getText(), "break;") == 1);
    ASSERT(count(trace.getText(), "    mixed c") == 2);
    // a takes what b was before b takes the sum.
    const size_t copy = trace.getText().rfind("const mixed"), sum = trace.getText().rfind(" = t");
    ASSERT(copy != string::npos && copy < sum);
    ASSERT(constant.isSame(trace.read("c")));
}

/** A loop that changes what it does not carry would be recorded with the value of its first iteration: an error. */
CLAIM(testLoopsMustCarryWhatChanges) {
    Trace trace;
    Traced a = trace.read("a"), forgotten = trace.read("b");
    assertThrows(
            [&] {
                Control<Traced>::repeat(
                        [&] {
                            forgotten = forgotten * 2;
                            a = a + forgotten;
                            return a > 100;
                        },
                        a);
            },
            {"not carried"});
}

/** Literals are those of C whatever the locale of the process; they come back as they were. */
CLAIM(testLiteralsKeepTheirPoint) {
    Trace trace;
    const char* const before = std::setlocale(LC_ALL, "de_DE.UTF-8"); // null if it is not there
    for (double number : {0.5, 1.0 / 3, -2.0, 1e300, 1e-30}) {
        const string literal = Traced(number).describe();
        ASSERT(literal.find(',') == string::npos && literal.find_first_of(".e") != string::npos);
        double back = 0;
        std::from_chars(literal.data() + string("NUMBER(").size(), literal.data() + literal.size(), back);
        ASSERT_EQUAL(number, back);
    }
    if (before != nullptr)
        std::setlocale(LC_ALL, "C");
}

/** A branch on a constant is none; one on a number has variables for what it changes. */
CLAIM(testBranches) {
    Trace trace;
    Traced x = trace.read("x"), y = 1;
    Control<Traced>::when(
            Traced(1) > 2, [&] { y = x; }, y);
    ASSERT(y.is(1) && count(trace.getText(), "if") == 0);
    Control<Traced>::when(
            x > 2, [&] { y = x * x; }, x, y);
    ASSERT(!y.isConstant() && count(trace.getText(), "if (") == 1);
    ASSERT(count(trace.getText(), "mixed c") == 1);
    // What was computed inside is not known outside.
    const int products = count(trace.getText(), "*");
    (void) (x * x);
    ASSERT(count(trace.getText(), "*") == products + 1);
}

} // namespace

CHECK_CLAIMS
