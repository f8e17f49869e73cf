#ifndef STIFFCORE_TRACE_TRACED_H_
#define STIFFCORE_TRACE_TRACED_H_

#include "../Geometry.h"
#include "../batch/Control.h"
#include "../batch/Lanes.h"
#include <Eigen/Core>
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
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
        known.emplace_back();
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
        text.append(4 * known.size(), ' ').append(content).append("\n");
    }
    const std::string& getText() const {
        return text;
    }
    /** That of what is recorded now. */
    static Trace& get() {
        return *current;
    }

private:
    friend class Traced;
    friend class Carried;
    friend struct Control<Traced>;

    /** The name of what an expression gives. */
    int record(const char* type, const std::string& expression) {
        for (const auto& scope : known) {
            const auto place = scope.find(expression);
            if (place != scope.end())
                return place->second;
        }
        const int name = addName("t");
        add(std::string("const ") + type + " " + names[name] + " = " + expression + ";");
        known.back()[expression] = name;
        return name;
    }
    int addName(const char* prefix) {
        names.push_back(prefix + std::to_string(names.size()));
        return names.size() - 1;
    }
    void open(const std::string& head) {
        add(head + " {");
        known.emplace_back();
    }
    void close() {
        known.pop_back();
        add("}");
    }
    static inline thread_local Trace* current = nullptr;
    Trace* const outer;
    std::string text;
    std::vector<std::string> names;
    /// What has been computed in each of the scopes that are open.
    std::vector<std::map<std::string, int>> known;
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
            return name < 0;
        }
        bool getConstant() const {
            return constant;
        }
        std::string describe() const {
            return name < 0 ? (constant ? "true" : "false") : Trace::get().names[name];
        }
        bool isSame(const Mask& other) const {
            return name == other.name && (name >= 0 || constant == other.constant);
        }
        static Mask record(const std::string& expression) {
            return named(Trace::get().record("bool", expression));
        }

    private:
        friend class Carried;

        static Mask named(int name) {
            Mask mask;
            mask.name = name;
            return mask;
        }
        static Mask join(const Mask& a, const char* operation, const Mask& b) {
            return Mask::record(a.describe() + operation + b.describe());
        }
        int name = -1;
        bool constant;
    };

    Traced(double constant = 0) : constant(constant) {
    }
    bool isConstant() const {
        return name < 0;
    }
    bool is(double value) const {
        return name < 0 && constant == value;
    }
    /** Whether it is the same number by name, or as a constant. */
    bool isSame(const Traced& other) const {
        return name == other.name && (name >= 0 || constant == other.constant);
    }
    std::string describe() const {
        if (name >= 0)
            return Trace::get().names[name];
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

    static Traced named(int name) {
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
    int name = -1;
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

/** Numbers and conditions that loops and branches hand on, see Control. */
class Carried {
public:
    template <class... Arrays> [[gnu::noinline]] explicit Carried(Arrays&... arrays) {
        (append(arrays), ...);
        remember();
        changes.resize(slots.size());
        variables.assign(slots.size(), -1);
    }
    /** Go back to how all began, but with variables instead of what changes. */
    [[gnu::noinline]] void begin(Trace& trace) {
        for (size_t i = 0; i < slots.size(); i++) {
            slots[i].set(initial[i]);
            if (changes[i]) {
                variables[i] = declare(trace, slots[i]);
                slots[i].name(variables[i]);
            }
        }
    }
    /** See what has changed; whether that was known of all of it. */
    [[gnu::noinline]] bool findChanges() {
        bool complete = true;
        for (size_t i = 0; i < slots.size(); i++)
            if (!changes[i] && !slots[i].isSame(initial[i])) {
                changes[i] = true;
                complete = false;
            }
        return complete;
    }
    /** Declare variables with the initial values of what has changed. */
    [[gnu::noinline]] void declareChanged(Trace& trace) {
        for (size_t i = 0; i < slots.size(); i++)
            if (changes[i]) {
                const Value present = slots[i].get();
                slots[i].set(initial[i]);
                variables[i] = declare(trace, slots[i]);
                slots[i].set(present);
            }
    }
    /** Give the variables the present values, all at once: one may be the old value of another. */
    [[gnu::noinline]] void assign(Trace& trace) {
        std::vector<std::string> values(slots.size());
        for (size_t i = 0; i < slots.size(); i++) {
            if (variables[i] < 0)
                continue;
            values[i] = slots[i].describe();
            bool isVariable = false;
            for (int other : variables)
                isVariable |= (other >= 0 && values[i] == trace.names[other]);
            if (values[i] == trace.names[variables[i]])
                values[i].clear();
            else if (isVariable) {
                const std::string copy = trace.names[trace.addName("t")];
                trace.add(std::string("const ") + slots[i].type() + " " + copy + " = " + values[i] + ";");
                values[i] = copy;
            }
        }
        for (size_t i = 0; i < slots.size(); i++)
            if (!values[i].empty())
                trace.add(trace.names[variables[i]] + " = " + values[i] + ";");
    }
    /** From now on the variables are what is carried. */
    [[gnu::noinline]] void end() {
        for (size_t i = 0; i < slots.size(); i++)
            if (variables[i] >= 0)
                slots[i].name(variables[i]);
    }

private:
    struct Value {
        Traced number;
        Traced::Mask mask;
    };
    /** The place of a number or of a condition. */
    struct Slot {
        Traced* number;
        Traced::Mask* mask;

        const char* type() const {
            return number != nullptr ? "mixed" : "bool";
        }
        std::string describe() const {
            return number != nullptr ? number->describe() : mask->describe();
        }
        Value get() const {
            return number != nullptr ? Value{*number, {}} : Value{0, *mask};
        }
        void set(const Value& value) {
            if (number != nullptr)
                *number = value.number;
            else
                *mask = value.mask;
        }
        void name(int name) {
            set(number != nullptr ? Value{Traced::named(name), {}} : Value{0, Traced::Mask::named(name)});
        }
        bool isSame(const Value& value) const {
            return number != nullptr ? number->isSame(value.number) : mask->isSame(value.mask);
        }
    };

    void append(Traced& number) {
        slots.push_back({&number, nullptr});
    }
    void append(Traced::Mask& mask) {
        slots.push_back({nullptr, &mask});
    }
    template <int Rows> void append(Eigen::Matrix<Traced, Rows, 1>& vector) {
        for (int i = 0; i < Rows; i++)
            append(vector[i]);
    }
    template <class Element> void append(std::vector<Element>& array) {
        for (Element& element : array)
            append(element);
    }
    void remember() {
        for (const Slot& slot : slots)
            initial.push_back(slot.get());
    }
    static int declare(Trace& trace, const Slot& slot) {
        const int variable = trace.addName("c");
        trace.add(slot.type() + (" " + trace.names[variable]) + " = " + slot.describe() + ";");
        return variable;
    }

    std::vector<Slot> slots;
    std::vector<Value> initial;
    std::vector<char> changes;
    std::vector<int> variables;
};

/** Loops and branches become those of the text. */
template <> struct Control<Traced> {
    using Condition = Traced::Mask;

    static Condition all(const Traced::Mask& mask, int) {
        return mask;
    }

    /**
     * The body is recorded until no more turns out to change from one iteration to the next; and once more, to find out
     * whether something has changed that is not carried.
     */
    template <class Body, class... Arrays> static void repeat(Body&& body, Arrays&... arrays) {
        Trace& trace = Trace::get();
        const std::string text = trace.text;
        const auto names = trace.names;
        const auto known = trace.known;
        Carried carried(arrays...);
        std::string recorded;
        while (true) {
            carried.begin(trace);
            trace.open("while (true)");
            const Traced::Mask done = body();
            const bool complete = carried.findChanges();
            if (complete && !recorded.empty() && trace.text != recorded)
                throw std::logic_error("Control::repeat(): the body changes a number that is not carried");
            if (complete && !recorded.empty()) {
                carried.assign(trace);
                trace.add("if (" + done.describe() + ")");
                trace.add("    break;");
                trace.close();
                return carried.end();
            }
            if (complete)
                recorded = trace.text;
            trace.text = text;
            trace.names = names;
            trace.known = known;
        }
    }

    template <class Body, class... Arrays>
    static void when(const Condition& condition, Body&& body, Arrays&... arrays) {
        if (condition.isConstant()) {
            if (condition.getConstant())
                body();
            return;
        }
        Trace& trace = Trace::get();
        Carried carried(arrays...);
        std::string before, inside;
        before.swap(trace.text);
        trace.known.emplace_back();
        body();
        trace.known.pop_back();
        inside.swap(trace.text);
        before.swap(trace.text);
        carried.findChanges();
        carried.declareChanged(trace);
        trace.open("if (" + condition.describe() + ")");
        trace.text += inside;
        carried.assign(trace);
        trace.close();
        carried.end();
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_TRACE_TRACED_H_ */
