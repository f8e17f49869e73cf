#ifndef STIFFCORE_MODEL_TERM_FUNCTION_H_
#define STIFFCORE_MODEL_TERM_FUNCTION_H_

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace stiffcore {

/**
 * A function V(q1, q2, ...) of a few internal coordinates, such as the energy that many terms share, and its
 * derivatives. How it is evaluated is left to others.
 */
class TermFunction {
public:
    virtual ~TermFunction() = default;

    /// The names of its variables: coordinates and parameters, which each term has, and parameters of the Context.
    std::vector<std::string> coordinates, parameters, globals;
    /// The text that it comes from, by which functions are told apart.
    std::string text;

    /** All of these: functions that are described alike are the same. */
    std::string describe() const {
        std::string all = text;
        for (const auto* names : {&coordinates, &parameters, &globals})
            for (const std::string& name : *names)
                all += ";" + name;
        return all;
    }

    /** A copy, for one thread, that knows its derivatives up to an order, 0 to 3, and those that this one knows. */
    virtual std::unique_ptr<TermFunction> clone(int order) const = 0;

    /** Where the values of the coordinates go, then the parameters of a term, then the globals. */
    virtual double* arguments() = 0;
    /** Take the values of the Context's parameters; one that it does not have yet is no number. */
    void setGlobals(const std::map<std::string, double>& all) {
        double* value = arguments() + coordinates.size() + parameters.size();
        for (const std::string& name : globals) {
            const auto found = all.find(name);
            *value++ = found == all.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
        }
    }

    /**
     * The number of derivatives of an order that are known and do not vanish. Of mixed ones, that with ascending
     * indices counts. The function itself is of order 0.
     */
    virtual int count(int order) const = 0;
    double value() {
        return count(0) == 0 ? 0 : evaluate(0, 0);
    }
    /** Call add(k, V_k), add(k, l, V_kl) or add(k, l, m, V_klm), k <= l <= m, for derivatives that do not vanish. */
    template <class Add> void first(Add&& add) {
        for (int i = 0, number = count(1); i < number; i++)
            add(index(1, i)[0], evaluate(1, i));
    }
    template <class Add> void second(Add&& add) {
        for (int i = 0, number = count(2); i < number; i++) {
            const int* q = index(2, i);
            add(q[0], q[1], evaluate(2, i));
        }
    }
    template <class Add> void third(Add&& add) {
        for (int i = 0, number = count(3); i < number; i++) {
            const int* q = index(3, i);
            add(q[0], q[1], q[2], evaluate(3, i));
        }
    }

private:
    /** The coordinates by which a derivative is taken, in ascending order. */
    virtual const int* index(int order, int derivative) const = 0;
    /** Its value at the arguments. */
    virtual double evaluate(int order, int derivative) = 0;
};

/// Functions are shared, and copied where they are evaluated.
using TermFunctions = std::vector<std::shared_ptr<const TermFunction>>;

/** A thread's own copy of a function. */
class FunctionCopy {
public:
    /** @param order   up to which order derivatives will be asked for, 0 to 3 */
    FunctionCopy(const TermFunction& function, int order) : own(function.clone(order)) {
    }
    FunctionCopy(const FunctionCopy& other) : FunctionCopy(*other.own, 0) {
    }
    FunctionCopy(FunctionCopy&&) = default;
    FunctionCopy& operator=(FunctionCopy other) {
        own = std::move(other.own);
        return *this;
    }
    TermFunction& operator*() {
        return *own;
    }
    TermFunction* operator->() {
        return own.get();
    }

private:
    std::unique_ptr<TermFunction> own;
};

inline std::vector<std::string> describe(const TermFunctions& functions) {
    std::vector<std::string> all;
    for (const auto& function : functions)
        all.push_back(function->describe());
    return all;
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_TERM_FUNCTION_H_ */
