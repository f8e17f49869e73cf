#ifndef STIFFCORE_TRACE_TRACED_H_
#define STIFFCORE_TRACE_TRACED_H_

#include "../Geometry.h"
#include "../batch/Control.h"
#include "../batch/Lanes.h"
#include <Eigen/Core>
#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace stiffcore {

class Traced;
class Carried;

/**
 * Writes down what is done to Traced numbers, as the body of a kernel in the C that OpenCL, CUDA and HIP have in common:
 * a line for each operation on numbers of the type `mixed`. Loops over atoms, rows and terms are unrolled, as they are
 * executed while recording; those of Control become loops. Constants are computed, zeros left out, and what has been
 * computed before is not computed again. (What records is not inlined, as hot functions of the numerics ask for.)
 *
 * The text uses NUMBER(x), a literal of the type mixed, TINY, a number that is next to nothing there, and
 * isFiniteNumber(x).
 */
class Trace {
public:
    /** What is recorded from now on, on this thread, goes here, until the end of this object's life. */
    Trace() : outer(current) {
        current = this;
        state.known.emplace_back();
    }
    ~Trace() {
        current = outer;
    }
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

    /** A number that the text knows by an expression. */
    inline Traced read(const std::string& expression);
    /** Add a line to the text as it is. */
    void add(const std::string& content) {
        state.text.append(4 * state.known.size(), ' ').append(content).append("\n");
    }
    const std::string& getText() const {
        return state.text;
    }
    /** That of what is recorded now. */
    static Trace& get() {
        return *current;
    }

private:
    friend class Traced;
    friend class Carried;
    friend struct Control<Traced>;

    /** What has been recorded, to which one can go back. */
    struct State {
        std::string text;
        /// What has been computed in each of the scopes that are open, with the names that it has.
        std::vector<std::map<std::string, std::string>> known;
        int numNames = 0;
    };

    /** The name of what an expression gives. */
    std::string record(const char* type, const std::string& expression) {
        for (const auto& scope : state.known) {
            const auto place = scope.find(expression);
            if (place != scope.end())
                return place->second;
        }
        return state.known.back()[expression] = declare(std::string("const ") + type, "t", expression);
    }
    /** Declare a number or condition with a name that begins like that, and return the name. */
    std::string declare(const std::string& type, const char* prefix, const std::string& value) {
        const std::string name = makeName(prefix);
        add(type + " " + name + " = " + value + ";");
        return name;
    }
    std::string makeName(const char* prefix) {
        return prefix + std::to_string(state.numNames++);
    }
    void open(const std::string& head) {
        add(head + " {");
        state.known.emplace_back();
    }
    void close() {
        state.known.pop_back();
        add("}");
    }
    static inline thread_local Trace* current = nullptr;
    Trace* const outer;
    State state;
};

/**
 * A number that records what is done to it: a scalar type instead of a double or of Lanes, with which the numerics
 * of a method become the text of a kernel for one block. What is known while recording is a constant.
 */
class Traced {
public:
    /** A condition, see Traced. */
    class Mask {
    public:
        Mask(bool constant = false) : constant(constant) {
        }
        [[gnu::noinline]] friend Mask operator&(const Mask& a, const Mask& b) {
            return a.isConstant() ? (a.constant ? b : a) : b.isConstant() ? (b.constant ? a : b) : join(a, " && ", b);
        }
        [[gnu::noinline]] friend Mask operator|(const Mask& a, const Mask& b) {
            return a.isConstant() ? (a.constant ? a : b) : b.isConstant() ? (b.constant ? b : a) : join(a, " || ", b);
        }
        [[gnu::noinline]] friend Mask operator!(const Mask& a) {
            return a.isConstant() ? Mask(!a.constant) : Mask::record("!" + a.describe());
        }
        bool isConstant() const {
            return name.empty();
        }
        bool getConstant() const {
            return constant;
        }
        std::string describe() const {
            return isConstant() ? (constant ? "true" : "false") : name;
        }
        static Mask record(const std::string& expression) {
            return named(Trace::get().record("bool", expression));
        }

    private:
        friend class Carried;

        static Mask named(const std::string& name) {
            Mask mask;
            mask.name = name;
            return mask;
        }
        static Mask join(const Mask& a, const char* operation, const Mask& b) {
            return Mask::record(a.describe() + operation + b.describe());
        }
        std::string name; // empty for a constant
        bool constant;
    };

    Traced(double constant = 0) : constant(constant) {
    }
    bool isConstant() const {
        return name.empty();
    }
    bool is(double value) const {
        return isConstant() && constant == value;
    }
    /** Whether it is the same number by name, or as a constant. */
    bool isSame(const Traced& other) const {
        return name == other.name && (!isConstant() || constant == other.constant);
    }
    std::string describe() const {
        if (!isConstant())
            return name;
        if (constant != 0 && std::abs(constant) < 1e-37)
            return constant > 0 ? "TINY" : "(-TINY)";
        char digits[40]; // not by printf, which writes a comma where the process's locale does
        std::string literal(digits, std::to_chars(digits, digits + sizeof(digits), constant).ptr);
        if (literal.find_first_of(".en") == std::string::npos)
            literal += ".0";
        return "NUMBER(" + literal + ")";
    }

    Traced& operator+=(const Traced& b) {
        return *this = *this + b;
    }
    Traced& operator-=(const Traced& b) {
        return *this = *this - b;
    }
    Traced& operator*=(const Traced& b) {
        return *this = *this * b;
    }
    Traced& operator/=(const Traced& b) {
        return *this = *this / b;
    }
    [[gnu::noinline]] friend Traced operator+(const Traced& a, const Traced& b) {
        if (a.isConstant() && b.isConstant())
            return a.constant + b.constant;
        return a.is(0) ? b : b.is(0) ? a : combine(a, " + ", b);
    }
    [[gnu::noinline]] friend Traced operator-(const Traced& a, const Traced& b) {
        if (a.isConstant() && b.isConstant())
            return a.constant - b.constant;
        return a.is(0) ? -b : b.is(0) ? a : combine(a, " - ", b);
    }
    [[gnu::noinline]] friend Traced operator*(const Traced& a, const Traced& b) {
        if (a.isConstant() && b.isConstant())
            return a.constant * b.constant;
        if (a.is(0) || b.is(0))
            return 0;
        return a.is(1) ? b : b.is(1) ? a : a.is(-1) ? -b : b.is(-1) ? -a : combine(a, "*", b);
    }
    [[gnu::noinline]] friend Traced operator/(const Traced& a, const Traced& b) {
        if (a.isConstant() && b.isConstant())
            return a.constant / b.constant;
        return a.is(0) || b.is(1) ? a : combine(a, "/", b);
    }
    [[gnu::noinline]] friend Traced operator-(const Traced& a) {
        return a.isConstant() ? Traced(-a.constant) : Traced::record("-" + a.describe());
    }
    [[gnu::noinline]] friend Mask operator>(const Traced& a, const Traced& b) {
        return a.isConstant() && b.isConstant() ? Mask(a.constant > b.constant) : compare(a, " > ", b);
    }
    [[gnu::noinline]] friend Mask operator>=(const Traced& a, const Traced& b) {
        return a.isConstant() && b.isConstant() ? Mask(a.constant >= b.constant) : compare(a, " >= ", b);
    }
    [[gnu::noinline]] friend Mask operator<(const Traced& a, const Traced& b) {
        return b > a;
    }
    [[gnu::noinline]] friend Mask operator<=(const Traced& a, const Traced& b) {
        return b >= a;
    }
    [[gnu::noinline]] friend Traced select(const Mask& condition, const Traced& ifTrue, const Traced& ifFalse) {
        if (condition.isConstant())
            return condition.getConstant() ? ifTrue : ifFalse;
        if (ifTrue.isSame(ifFalse))
            return ifTrue;
        return Traced::record("(" + condition.describe() + " ? " + ifTrue.describe() + " : " + ifFalse.describe() +
                              ")");
    }
    [[gnu::noinline]] friend Traced max(const Traced& a, const Traced& b) {
        return select(a < b, b, a);
    }
    [[gnu::noinline]] friend Traced sqrt(const Traced& a) {
        return a.isConstant() ? Traced(std::sqrt(a.constant)) : call("sqrt", a);
    }
    [[gnu::noinline]] friend Traced abs(const Traced& a) {
        return a.isConstant() ? Traced(std::abs(a.constant)) : call("fabs", a);
    }
    [[gnu::noinline]] friend Traced floor(const Traced& a) {
        return a.isConstant() ? Traced(std::floor(a.constant)) : call("floor", a);
    }

private:
    friend class Trace;
    friend class Carried;

    static Traced named(const std::string& name) {
        Traced result;
        result.name = name;
        return result;
    }
    static Traced record(const std::string& expression) {
        return named(Trace::get().record("mixed", expression));
    }
    static Traced combine(const Traced& a, const char* operation, const Traced& b) {
        return record(a.describe() + operation + b.describe());
    }
    static Mask compare(const Traced& a, const char* operation, const Traced& b) {
        return Mask::record(a.describe() + operation + b.describe());
    }
    static Traced call(const char* function, const Traced& a) {
        return record(function + ("(" + a.describe()) + ")");
    }
    std::string name; // empty for a constant
    double constant;
};

/** Whether a number is finite: the text has a function for that, as compilers may be told that all are. */
inline Traced::Mask isFinite(const Traced& x) {
    return Traced::Mask::record("isFiniteNumber(" + x.describe() + ")");
}

inline Traced Trace::read(const std::string& expression) {
    return Traced::record(expression);
}

template <> struct UniformTraits<Traced> { using Type = Traced; };

template <> struct LaneTraits<Traced> {
    static constexpr int count = 1;
    using Mask = Traced::Mask;
    static Traced& lane(Traced& value, int) {
        return value;
    }
};

} // namespace stiffcore

namespace Eigen {

template <> struct NumTraits<stiffcore::Traced> : GenericNumTraits<double> {
    using Real = stiffcore::Traced;
    using NonInteger = stiffcore::Traced;
    using Nested = stiffcore::Traced;
    using Literal = stiffcore::Traced;
    enum {
        IsInteger = 0,
        IsSigned = 1,
        IsComplex = 0,
        RequireInitialization = 1,
        ReadCost = 2,
        AddCost = 2,
        MulCost = 2
    };
};

} // namespace Eigen

namespace stiffcore {

/** Numbers and conditions that loops and branches hand on, see Control: those that a body changes become variables. */
class Carried {
public:
    /**
     * The body is recorded until no more turns out to change, and this forgotten. (What begins as zero may stay that.)
     */
    template <class Body, class... Arrays>
    [[gnu::noinline]] Carried(Trace& trace, Body&& body, Arrays&... arrays) : trace(trace) {
        (append(arrays), ...);
        const Trace::State before = trace.state;
        const std::tuple<Arrays...> initial(arrays...);
        trace.state.numNames += 1000000; // none of these names comes again: it would tell of what should be forgotten
        for (bool isComplete = false; !isComplete;) {
            begin();
            std::vector<std::string> values;
            for (const Slot& slot : slots)
                values.push_back(slot.describe());
            trace.state.known.emplace_back();
            body();
            isComplete = true;
            for (size_t i = 0; i < slots.size(); i++)
                if (slots[i].variable.empty() && slots[i].describe() != values[i]) {
                    slots[i].variable = trace.makeName("c");
                    isComplete = false;
                }
            trace.state.text = before.text;
            trace.state.known = before.known;
            std::tie(arrays...) = initial;
        }
        trace.state = before;
        slots.erase(std::remove_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.variable.empty(); }),
                    slots.end());
        for (Slot& slot : slots)
            slot.variable = trace.declare(slot.type(), "c", slot.describe());
        begin();
    }
    /** The variables are what is carried. */
    [[gnu::noinline]] void begin() {
        for (const Slot& slot : slots)
            if (!slot.variable.empty())
                slot.name();
    }
    /** Give the variables the present values, all at once: one may be the old value of another. */
    [[gnu::noinline]] void end() {
        std::vector<std::string> values;
        for (const Slot& slot : slots) {
            values.push_back(slot.describe());
            const bool isVariable = std::any_of(slots.begin(), slots.end(),
                                                [&](const Slot& other) { return values.back() == other.variable; });
            if (isVariable && values.back() != slot.variable)
                values.back() = trace.declare(std::string("const ") + slot.type(), "t", values.back());
        }
        for (size_t i = 0; i < slots.size(); i++)
            if (values[i] != slots[i].variable)
                trace.add(slots[i].variable + " = " + values[i] + ";");
        begin();
    }

private:
    /** The place of a number or of a condition, and its variable. */
    struct Slot {
        Traced* number;
        Traced::Mask* mask;
        std::string variable;

        const char* type() const {
            return number != nullptr ? "mixed" : "bool";
        }
        std::string describe() const {
            return number != nullptr ? number->describe() : mask->describe();
        }
        void name() const {
            if (number != nullptr)
                *number = Traced::named(variable);
            else
                *mask = Traced::Mask::named(variable);
        }
    };

    void append(Traced& number) {
        slots.push_back({&number, nullptr, {}});
    }
    void append(Traced::Mask& mask) {
        slots.push_back({nullptr, &mask, {}});
    }
    template <int Rows> void append(Eigen::Matrix<Traced, Rows, 1>& vector) {
        for (int i = 0; i < Rows; i++)
            append(vector[i]);
    }
    template <class Element> void append(std::vector<Element>& array) {
        for (Element& element : array)
            append(element);
    }

    Trace& trace;
    std::vector<Slot> slots;
};

/** Loops and branches become those of the text. */
template <> struct Control<Traced> {
    using Condition = Traced::Mask;

    static Condition all(const Traced::Mask& mask, int) {
        return mask;
    }

    /** The body is recorded twice, to find out whether something has changed that is not carried. */
    template <class Body, class... Arrays> static void repeat(Body&& body, Arrays&... arrays) {
        Trace& trace = Trace::get();
        Carried carried(trace, body, arrays...);
        trace.open("while (true)");
        const Trace::State before = trace.state;
        body();
        const std::string first = trace.state.text;
        trace.state = before;
        carried.begin();
        const Traced::Mask done = body();
        if (trace.state.text != first)
            throw std::logic_error("Control::repeat(): the body changes a number that is not carried");
        carried.end();
        trace.add("if (" + done.describe() + ")");
        trace.add("    break;");
        trace.close();
    }

    template <class Body, class... Arrays>
    static void when(const Condition& condition, Body&& body, Arrays&... arrays) {
        if (condition.isConstant()) {
            if (condition.getConstant())
                body();
            return;
        }
        Trace& trace = Trace::get();
        Carried carried(trace, body, arrays...);
        trace.open("if (" + condition.describe() + ")");
        body();
        carried.end();
        trace.close();
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_TRACE_TRACED_H_ */
