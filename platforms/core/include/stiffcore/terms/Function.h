#ifndef STIFFCORE_FUNCTION_H_
#define STIFFCORE_FUNCTION_H_

#include "openmmstiff/internal/FunctionTerms.h"
#include "lepton/ExpressionProgram.h"
#include "lepton/Operation.h"
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace stiffcore {

/**
 * An expression as a program whose variables are numbered. Lepton's compiled expressions are not used: their layout
 * depends on how OpenMM was built.
 */
class Program {
public:
    Program(const Lepton::ParsedExpression& expression, const std::vector<std::string>& variables)
            : program(expression.createProgram()), stack(program.getStackSize() + 1) {
        for (int i = 0; i < program.getNumOperations(); i++) {
            const Lepton::Operation& operation = program.getOperation(i);
            variable.push_back(operation.getId() == Lepton::Operation::VARIABLE
                                       ? std::find(variables.begin(), variables.end(), operation.getName()) -
                                                 variables.begin()
                                       : -1);
        }
    }

    double evaluate(const std::vector<double>& values) {
        // Arguments lie in ascending order, the first on top of a stack that grows downwards.
        int top = stack.size() - 1;
        for (size_t i = 0; i < variable.size(); i++) {
            if (variable[i] >= 0) {
                stack[--top] = values[variable[i]];
                continue;
            }
            const Lepton::Operation& operation = program.getOperation(i);
            const int numArguments = operation.getNumArguments();
            const double result = operation.evaluate(&stack[top], noVariables);
            top += numArguments - 1;
            stack[top] = result;
        }
        return stack[top];
    }

private:
    Lepton::ExpressionProgram program;
    std::vector<int> variable; // the number of the variable that an operation is, or -1
    std::vector<double> stack;
    std::map<std::string, double> noVariables;
};

/**
 * A function V(q1, q2, ...) and its derivatives, by Lepton's symbolic differentiation. Each thread has its own.
 */
class Function {
public:
    Function(const OpenMMStiff::TermFunction& function, bool thirdDerivatives)
            : numCoordinates(function.coordinates.size()) {
        names = function.coordinates;
        names.insert(names.end(), function.parameters.begin(), function.parameters.end());
        firstGlobal = names.size();
        globals = function.globals;
        names.insert(names.end(), globals.begin(), globals.end());
        values.resize(names.size());
        // Of mixed derivatives that with ascending indices is kept; those that vanish are not.
        for (int k = 0; k < numCoordinates; k++) {
            const Lepton::ParsedExpression Vk = differentiate(function.energy, k);
            keep(Vk, {k});
            for (int l = k; l < numCoordinates; l++) {
                const Lepton::ParsedExpression Vkl = differentiate(Vk, l);
                keep(Vkl, {k, l});
                for (int m = l; m < numCoordinates && thirdDerivatives; m++)
                    keep(differentiate(Vkl, m), {k, l, m});
            }
        }
    }

    /** Take the values of the Context's parameters. */
    void setGlobals(const std::map<std::string, double>& parameters) {
        for (size_t i = 0; i < globals.size(); i++)
            values[firstGlobal + i] = parameters.at(globals[i]);
    }

    /** Where the values of the coordinates go; the parameters of a term follow. */
    double* arguments() {
        return values.data();
    }

    /** Call add(k, V_k), add(k, l, V_kl) or add(k, l, m, V_klm), k <= l <= m, for derivatives that do not vanish. */
    template <class Add> void first(Add&& add) {
        for (Derivative& d : derivatives[0])
            add(d.index[0], d.program.evaluate(values));
    }
    template <class Add> void second(Add&& add) {
        for (Derivative& d : derivatives[1])
            add(d.index[0], d.index[1], d.program.evaluate(values));
    }
    template <class Add> void third(Add&& add) {
        for (Derivative& d : derivatives[2])
            add(d.index[0], d.index[1], d.index[2], d.program.evaluate(values));
    }

private:
    struct Derivative {
        std::vector<int> index;
        Program program;
    };

    Lepton::ParsedExpression differentiate(const Lepton::ParsedExpression& expression, int k) const {
        return expression.differentiate(names[k]).optimize();
    }

    void keep(const Lepton::ParsedExpression& derivative, const std::vector<int>& index) {
        const Lepton::Operation& root = derivative.getRootNode().getOperation();
        if (root.getId() != Lepton::Operation::CONSTANT || derivative.evaluate() != 0)
            derivatives[index.size() - 1].push_back({index, Program(derivative, names)});
    }

    int numCoordinates, firstGlobal;
    std::vector<std::string> names, globals;
    std::vector<double> values;
    std::vector<Derivative> derivatives[3];
};

} // namespace stiffcore

#endif /* STIFFCORE_FUNCTION_H_ */
