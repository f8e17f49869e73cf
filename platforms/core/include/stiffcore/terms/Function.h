#ifndef STIFFCORE_FUNCTION_H_
#define STIFFCORE_FUNCTION_H_

#include "openmmstiff/internal/FunctionTerms.h"
#include "lepton/ExpressionProgram.h"
#include "lepton/Operation.h"
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stiffcore {

/**
 * An expression as a program whose variables are numbered. Lepton's compiled expressions are not used: their layout
 * depends on how OpenMM was built. Copies share the program, which evaluation does not change.
 */
class Program {
public:
    Program(const Lepton::ParsedExpression& expression, const std::vector<std::string>& variables)
            : program(std::make_shared<Lepton::ExpressionProgram>(expression.createProgram())),
              stack(program->getStackSize() + 1) {
        for (int i = 0; i < program->getNumOperations(); i++) {
            const Lepton::Operation& operation = program->getOperation(i);
            const bool isVariable = (operation.getId() == Lepton::Operation::VARIABLE);
            const auto place = std::find(variables.begin(), variables.end(), operation.getName());
            instructions.push_back(
                    {&operation, operation.getNumArguments(), isVariable ? int(place - variables.begin()) : -1});
        }
    }

    double evaluate(const std::vector<double>& values) {
        // Arguments lie in ascending order, the first on top of a stack that grows downwards.
        double* top = &stack.back();
        for (const Instruction& instruction : instructions) {
            const double result = (instruction.variable >= 0 ? values[instruction.variable]
                                                             : instruction.operation->evaluate(top, noVariables));
            top += instruction.numArguments - 1;
            *top = result;
        }
        return *top;
    }

private:
    struct Instruction {
        const Lepton::Operation* operation;
        int numArguments, variable; // the number of the variable that it is, or -1
    };
    std::shared_ptr<const Lepton::ExpressionProgram> program;
    std::vector<Instruction> instructions;
    std::vector<double> stack;
    std::map<std::string, double> noVariables;
};

/**
 * A function V(q1, q2, ...) and its derivatives, by Lepton's symbolic differentiation. Each thread has its own.
 */
class Function {
public:
    /** @param order   up to which order derivatives will be asked for, 1 to 3 */
    Function(const OpenMMStiff::TermFunction& function, int order) : numCoordinates(function.coordinates.size()) {
        names = function.coordinates;
        names.insert(names.end(), function.parameters.begin(), function.parameters.end());
        firstGlobal = names.size();
        globals = function.globals;
        names.insert(names.end(), globals.begin(), globals.end());
        values.resize(names.size());
        keep(function.energy, {});
        // Of mixed derivatives that with ascending indices is kept; those that vanish are not.
        for (int k = 0; k < numCoordinates; k++) {
            const Lepton::ParsedExpression Vk = differentiate(function.energy, k);
            keep(Vk, {k});
            for (int l = k; l < numCoordinates && order > 1; l++) {
                const Lepton::ParsedExpression Vkl = differentiate(Vk, l);
                keep(Vkl, {k, l});
                for (int m = l; m < numCoordinates && order > 2; m++)
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

    double value() {
        return derivatives[0].empty() ? 0 : derivatives[0][0].program.evaluate(values);
    }
    /** Call add(k, V_k), add(k, l, V_kl) or add(k, l, m, V_klm), k <= l <= m, for derivatives that do not vanish. */
    template <class Add> void first(Add&& add) {
        for (Derivative& d : derivatives[1])
            add(d.index[0], d.program.evaluate(values));
    }
    template <class Add> void second(Add&& add) {
        for (Derivative& d : derivatives[2])
            add(d.index[0], d.index[1], d.program.evaluate(values));
    }
    template <class Add> void third(Add&& add) {
        for (Derivative& d : derivatives[3])
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
            derivatives[index.size()].push_back({index, Program(derivative, names)});
    }

    int numCoordinates, firstGlobal;
    std::vector<std::string> names, globals;
    std::vector<double> values;
    std::vector<Derivative> derivatives[4]; // by their order; of order 0 is the function itself
};

} // namespace stiffcore

#endif /* STIFFCORE_FUNCTION_H_ */
