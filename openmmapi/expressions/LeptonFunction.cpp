#include "LeptonFunction.h"
#include "lepton/Operation.h"
#include <algorithm>
#include <map>

using namespace OpenMMStiff;
using namespace stiffcore;
using Lepton::Operation;
using Lepton::ParsedExpression;
using std::string;
using std::vector;

namespace {

const std::map<string, double> noVariables;

} // namespace

LeptonFunction::LeptonFunction(const ParsedExpression& energy, const string& text, const vector<string>& coordinates,
                               const vector<string>& parameters, const vector<string>& globals) {
    this->coordinates = coordinates;
    this->parameters = parameters;
    this->globals = globals;
    this->text = text;
    for (const vector<string>* names : {&coordinates, &parameters, &globals})
        variables.insert(variables.end(), names->begin(), names->end());
    values.resize(variables.size());
    keep({}, energy);
}

std::unique_ptr<stiffcore::TermFunction> LeptonFunction::clone(int order) const {
    auto copy = std::make_unique<LeptonFunction>(*this);
    for (int& known = copy->knownOrder; known < order; known++)
        for (const auto& derivative : copy->derivatives[known]) {
            vector<int> index = derivative->index;
            index.push_back(0);
            for (int k = (known == 0 ? 0 : index[known - 1]); k < (int) coordinates.size(); k++) {
                index[known] = k;
                copy->keep(index, derivative->expression.differentiate(variables[k]).optimize());
            }
        }
    return copy;
}

void LeptonFunction::keep(const vector<int>& index, const ParsedExpression& expression) {
    const Operation& root = expression.getRootNode().getOperation();
    if (root.getId() == Operation::CONSTANT && expression.evaluate() == 0)
        return;
    derivatives[index.size()].push_back(std::make_shared<Derivative>(index, expression, variables));
    // One more, for a program of an argument or a constant alone.
    stack.resize(std::max<size_t>(stack.size(), derivatives[index.size()].back()->program.getStackSize() + 1));
}

LeptonFunction::Derivative::Derivative(const vector<int>& index, const ParsedExpression& expression,
                                       const vector<string>& variables)
        : index(index), expression(expression), program(expression.createProgram()) {
    for (int i = 0; i < program.getNumOperations(); i++) {
        const Operation& operation = program.getOperation(i);
        Instruction instruction = {&operation, operation.getNumArguments(), -1, 0};
        if (operation.getId() == Operation::VARIABLE)
            instruction.variable =
                    std::find(variables.begin(), variables.end(), operation.getName()) - variables.begin();
        else if (operation.getId() == Operation::CONSTANT) {
            instruction.operation = nullptr;
            instruction.constant = operation.evaluate(nullptr, noVariables);
        }
        instructions.push_back(instruction);
    }
}

double LeptonFunction::evaluate(int order, int derivative) {
    // Arguments lie in ascending order, the first on top of a stack that grows downwards.
    double* top = &stack.back();
    for (const auto& instruction : derivatives[order][derivative]->instructions) {
        const double result = (instruction.variable >= 0          ? values[instruction.variable]
                               : instruction.operation == nullptr ? instruction.constant
                                                                  : instruction.operation->evaluate(top, noVariables));
        top += instruction.numArguments - 1;
        *top = result;
    }
    return *top;
}
