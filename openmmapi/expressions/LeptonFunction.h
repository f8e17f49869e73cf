#ifndef OPENMM_STIFF_LEPTON_FUNCTION_H_
#define OPENMM_STIFF_LEPTON_FUNCTION_H_

#include "lepton/ExpressionProgram.h"
#include "lepton/ParsedExpression.h"
#include "stiffcore/model/TermFunction.h"
#include <memory>
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * A function and its derivatives by Lepton's symbolic differentiation. Copies share the programs, which evaluation does
 * not change.
 */
class LeptonFunction : public stiffcore::TermFunction {
public:
    /** @param energy   in the variables that are named */
    LeptonFunction(const Lepton::ParsedExpression& energy, const std::string& text,
                   const std::vector<std::string>& coordinates, const std::vector<std::string>& parameters,
                   const std::vector<std::string>& globals);

    std::unique_ptr<TermFunction> clone(int order) const override;

    double* arguments() override {
        return values.data();
    }
    int count(int order) const override {
        return derivatives[order].size();
    }

private:
    const int* index(int order, int derivative) const override {
        return derivatives[order][derivative]->index.data();
    }
    double evaluate(int order, int derivative) override;

    /**
     * A derivative as a program whose variables are numbered. Lepton's compiled expressions are not used: their layout
     * depends on how OpenMM was built.
     */
    struct Derivative {
        struct Instruction {
            const Lepton::Operation* operation; // null for a constant
            int numArguments, variable;         // the number of the variable that it is, or -1
            double constant;
        };
        std::vector<int> index;
        Lepton::ParsedExpression expression;
        Lepton::ExpressionProgram program;
        std::vector<Instruction> instructions;

        Derivative(const std::vector<int>& index, const Lepton::ParsedExpression& expression,
                   const std::vector<std::string>& variables);
        Derivative(const Derivative&) = delete; // instructions point into the program
    };

    void keep(const std::vector<int>& index, const Lepton::ParsedExpression& expression);

    std::vector<std::string> variables;
    std::vector<double> values, stack;
    std::vector<std::shared_ptr<const Derivative>> derivatives[4]; // by their order
    int knownOrder = 0;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_LEPTON_FUNCTION_H_ */
