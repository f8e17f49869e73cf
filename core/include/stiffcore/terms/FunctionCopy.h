#ifndef STIFFCORE_TERMS_FUNCTION_COPY_H_
#define STIFFCORE_TERMS_FUNCTION_COPY_H_

#include "../model/TermFunction.h"
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stiffcore {

/**
 * A thread's own copy of a TermFunction V(q1, q2, ...), with its derivatives.
 */
class FunctionCopy {
public:
    /** @param order   up to which order derivatives will be asked for, 0 to 3 */
    FunctionCopy(const TermFunction& function, int order) : order(order), own(function.clone(order)) {
        for (int n = 0; n <= order; n++) {
            derivatives[n].resize(own->count(n));
            for (size_t i = 0; i < derivatives[n].size(); i++)
                std::copy_n(own->index(n, i), n, derivatives[n][i].begin());
        }
    }
    FunctionCopy(const FunctionCopy& other) : FunctionCopy(*other.own, other.order) {
    }
    FunctionCopy(FunctionCopy&&) = default;
    FunctionCopy& operator=(const FunctionCopy& other) {
        return *this = FunctionCopy(other);
    }
    FunctionCopy& operator=(FunctionCopy&&) = default;

    /** Take the values of the Context's parameters; one that it does not have yet is no number. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        double* value = arguments() + own->coordinates.size() + own->parameters.size();
        for (const std::string& name : own->globals) {
            const auto found = parameters.find(name);
            *value++ = found == parameters.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
        }
    }

    /** Where the values of the coordinates go; the parameters of a term follow. */
    double* arguments() {
        return own->arguments();
    }

    double value() {
        return derivatives[0].empty() ? 0 : own->evaluate(0, 0);
    }
    /** Call add(k, V_k), add(k, l, V_kl) or add(k, l, m, V_klm), k <= l <= m, for derivatives that do not vanish. */
    template <class Add> void first(Add&& add) {
        visit(1, [&](const Index& q, double derivative) { add(q[0], derivative); });
    }
    template <class Add> void second(Add&& add) {
        visit(2, [&](const Index& q, double derivative) { add(q[0], q[1], derivative); });
    }
    template <class Add> void third(Add&& add) {
        visit(3, [&](const Index& q, double derivative) { add(q[0], q[1], q[2], derivative); });
    }

private:
    using Index = std::array<int, 3>;

    template <class Visit> void visit(int order, Visit&& visit) {
        const std::vector<Index>& ofOrder = derivatives[order];
        for (size_t i = 0; i < ofOrder.size(); i++)
            visit(ofOrder[i], own->evaluate(order, i));
    }

    int order;
    std::unique_ptr<TermFunction> own;
    std::vector<Index> derivatives[4]; // by their order: the coordinates by which they are taken
};

} // namespace stiffcore

#endif /* STIFFCORE_TERMS_FUNCTION_COPY_H_ */
