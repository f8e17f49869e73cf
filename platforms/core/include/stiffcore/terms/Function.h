#ifndef STIFFCORE_FUNCTION_H_
#define STIFFCORE_FUNCTION_H_

#include "../model/TermFunction.h"
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace stiffcore {

/**
 * A thread's own copy of a TermFunction V(q1, q2, ...), with its derivatives.
 */
class Function {
public:
    /** @param order   up to which order derivatives will be asked for, 1 to 3 */
    Function(const TermFunction& function, int order) : order(order), own(function.clone(order)) {
    }
    Function(const Function& other) : Function(*other.own, other.order) {
    }
    Function(Function&&) = default;
    Function& operator=(Function other) {
        order = other.order;
        own = std::move(other.own);
        return *this;
    }

    /** Take the values of the Context's parameters. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        double* value = arguments() + own->coordinates.size() + own->parameters.size();
        for (const std::string& name : own->globals)
            *value++ = parameters.at(name);
    }

    /** Where the values of the coordinates go; the parameters of a term follow. */
    double* arguments() {
        return own->arguments();
    }

    double value() {
        return own->count(0) == 0 ? 0 : own->evaluate(0, 0);
    }
    /** Call add(k, V_k), add(k, l, V_kl) or add(k, l, m, V_klm), k <= l <= m, for derivatives that do not vanish. */
    template <class Add> void first(Add&& add) {
        visit(1, [&](const int* q, double derivative) { add(q[0], derivative); });
    }
    template <class Add> void second(Add&& add) {
        visit(2, [&](const int* q, double derivative) { add(q[0], q[1], derivative); });
    }
    template <class Add> void third(Add&& add) {
        visit(3, [&](const int* q, double derivative) { add(q[0], q[1], q[2], derivative); });
    }

private:
    template <class Visit> void visit(int order, Visit&& visit) {
        for (int i = 0; i < own->count(order); i++)
            visit(own->index(order, i), own->evaluate(order, i));
    }

    int order;
    std::unique_ptr<TermFunction> own;
};

} // namespace stiffcore

#endif /* STIFFCORE_FUNCTION_H_ */
