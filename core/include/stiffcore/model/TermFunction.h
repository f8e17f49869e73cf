#ifndef STIFFCORE_MODEL_TERM_FUNCTION_H_
#define STIFFCORE_MODEL_TERM_FUNCTION_H_

#include <map>
#include <memory>
#include <string>
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

    /** A copy, for one thread, that knows its derivatives up to an order, 0 to 3. */
    virtual std::unique_ptr<TermFunction> clone(int order) const = 0;

    /**
     * The number of derivatives of an order that do not vanish. Of mixed ones, that with ascending indices counts. The
     * function itself is of order 0.
     */
    virtual int count(int order) const = 0;
    /** The coordinates by which one of them is taken, in ascending order. */
    virtual const int* index(int order, int derivative) const = 0;
    /** Its value at the arguments. */
    virtual double evaluate(int order, int derivative) = 0;
    /** Where the values of the coordinates go, then the parameters of a term, then the globals. */
    virtual double* arguments() = 0;
};

/// Functions are shared, and copied where they are evaluated.
using TermFunctions = std::vector<std::shared_ptr<const TermFunction>>;

inline std::vector<std::string> describe(const TermFunctions& functions) {
    std::vector<std::string> all;
    for (const auto& function : functions)
        all.push_back(function->describe());
    return all;
}

} // namespace stiffcore

#endif /* STIFFCORE_MODEL_TERM_FUNCTION_H_ */
