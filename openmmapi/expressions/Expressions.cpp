#include "Expressions.h"
#include "LeptonFunction.h"
#include "lepton/CustomFunction.h"
#include "lepton/ExpressionTreeNode.h"
#include "lepton/Operation.h"
#include "lepton/ParsedExpression.h"
#include "lepton/Parser.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using Lepton::ExpressionTreeNode;
using Lepton::Operation;
using Lepton::ParsedExpression;
using std::string;
using std::vector;

namespace {

using Kind = InternalCoordinate::Kind;

/**
 * Replaces the functions of a CustomCompoundBondForce: those of particles by variables, that of points by what it
 * means.
 */
class FunctionReplacer {
public:
    /** @param numParticles   of each term; they are called p1, p2, ... */
    FunctionReplacer(int numParticles, vector<LocalCoordinate>& coordinates, vector<string>& names)
            : coordinates(coordinates), names(names) {
        for (int p = 0; p < numParticles; p++)
            places["p" + std::to_string(p + 1)] = p;
    }

    ExpressionTreeNode replace(const ExpressionTreeNode& node) {
        const Operation& operation = node.getOperation();
        if (operation.getId() == Operation::CUSTOM) {
            const string name = operation.getName();
            if (name == "distance")
                return particleFunction(node, Kind::Distance);
            if (name == "angle")
                return particleFunction(node, Kind::Angle);
            if (name == "dihedral")
                return particleFunction(node, Kind::Dihedral);
            if (name == "pointdistance" || name == "periodicdistance")
                return pointDistance(node);
            throw NoHessian("the function '" + name + "' in its expression is not supported");
        }
        return ExpressionTreeNode(operation.clone(), replaceAll(node.getChildren()));
    }

private:
    vector<ExpressionTreeNode> replaceAll(const vector<ExpressionTreeNode>& nodes) {
        vector<ExpressionTreeNode> replaced;
        for (const ExpressionTreeNode& node : nodes)
            replaced.push_back(replace(node));
        return replaced;
    }

    ExpressionTreeNode particleFunction(const ExpressionTreeNode& node, Kind kind) {
        LocalCoordinate coordinate = {kind, {}};
        string name = node.getOperation().getName();
        for (const ExpressionTreeNode& child : node.getChildren()) {
            const auto place = places.find(child.getOperation().getName());
            if (place == places.end())
                throw OpenMMException("Unknown particle '" + child.getOperation().getName() + "' in " +
                                      node.getOperation().getName() + "()");
            coordinate.places.push_back(place->second);
            name += "_" + place->first;
        }
        if (std::find(names.begin(), names.end(), name) == names.end()) {
            names.push_back(name);
            coordinates.push_back(coordinate);
        }
        return ExpressionTreeNode(new Operation::Variable(name));
    }

    ExpressionTreeNode pointDistance(const ExpressionTreeNode& node) {
        const vector<ExpressionTreeNode> points = replaceAll(node.getChildren());
        auto square = [&](int i) {
            return ExpressionTreeNode(new Operation::Square(),
                                      ExpressionTreeNode(new Operation::Subtract(), points[i], points[i + 3]));
        };
        return ExpressionTreeNode(new Operation::Sqrt(),
                                  ExpressionTreeNode(new Operation::Add(),
                                                     ExpressionTreeNode(new Operation::Add(), square(0), square(1)),
                                                     square(2)));
    }

    vector<LocalCoordinate>& coordinates;
    vector<string>& names;
    std::map<string, int> places;
};

/** Parse the expression of a CustomCompoundBondForce or CustomExternalForce, leaving functions of particles as such. */
ParsedExpression parseOfParticles(const string& text) {
    vector<std::unique_ptr<Lepton::PlaceholderFunction>> placeholders;
    std::map<string, Lepton::CustomFunction*> functions;
    for (const auto& [name, numArguments] : std::map<string, int>{{"distance", 2},
                                                                  {"angle", 3},
                                                                  {"dihedral", 4},
                                                                  {"pointdistance", 6},
                                                                  {"periodicdistance", 6},
                                                                  {"pointangle", 9},
                                                                  {"pointdihedral", 12}}) {
        placeholders.push_back(std::make_unique<Lepton::PlaceholderFunction>(numArguments));
        functions[name] = placeholders.back().get();
    }
    return Lepton::Parser::parse(text, functions);
}

/** The coordinates x1, y1, z1, x2, ... of the particles of a term, and their names. */
struct ParticleCoordinates {
    vector<string> names;
    vector<LocalCoordinate> coordinates;

    explicit ParticleCoordinates(int numParticles) {
        for (int p = 0; p < numParticles; p++)
            for (Kind kind : {Kind::X, Kind::Y, Kind::Z}) {
                names.push_back(string(1, "xyz"[int(kind)]) + std::to_string(p + 1));
                coordinates.push_back({kind, {p}});
            }
    }
    /** Which particle three expressions are the coordinates of, or -1. */
    int findParticle(const ExpressionTreeNode* point) const {
        auto isCoordinate = [&](int c, size_t place) {
            const Operation& operation = point[c].getOperation();
            return operation.getId() == Operation::VARIABLE && operation.getName() == names[place];
        };
        for (size_t place = 0; place < names.size(); place += 3)
            if (isCoordinate(0, place) && isCoordinate(1, place + 1) && isCoordinate(2, place + 2))
                return place / 3;
        return -1;
    }
};

void findVariables(const ExpressionTreeNode& node, std::set<string>& names) {
    if (node.getOperation().getId() == Operation::VARIABLE)
        names.insert(node.getOperation().getName());
    for (const ExpressionTreeNode& child : node.getChildren())
        findVariables(child, names);
}

/** The first of the functions in an expression that are not Lepton's own, or null. */
const ExpressionTreeNode* findFunction(const ExpressionTreeNode& node) {
    if (node.getOperation().getId() == Operation::CUSTOM)
        return &node;
    for (const ExpressionTreeNode& child : node.getChildren())
        if (const ExpressionTreeNode* const found = findFunction(child))
            return found;
    return nullptr;
}

/** An expression with a variable wherever a part of it stands. */
ExpressionTreeNode substitute(const ExpressionTreeNode& node, const ExpressionTreeNode& part, const string& variable) {
    if (node == part)
        return ExpressionTreeNode(new Operation::Variable(variable));
    vector<ExpressionTreeNode> children;
    for (const ExpressionTreeNode& child : node.getChildren())
        children.push_back(substitute(child, part, variable));
    return ExpressionTreeNode(node.getOperation().clone(), children);
}

/**
 * Throw an exception if a part of an expression without variables is not finite, or its derivatives would not be: Lepton
 * does not return from optimizing what is not a number.
 */
void requireFiniteConstants(const ExpressionTreeNode& node, const string& text) {
    std::set<string> variables;
    findVariables(node, variables);
    if (variables.empty() && node.getOperation().getId() != Operation::CUSTOM) {
        const double value = ParsedExpression(node).evaluate();
        if (std::isnan(value))
            throw OpenMMException("a part of the expression '" + text + "' is nan. Change the expression");
        if (std::isinf(value))
            throw NoHessian("a part of its expression is infinite");
        return;
    }
    for (const ExpressionTreeNode& child : node.getChildren())
        requireFiniteConstants(child, text);
}

/** A function of the coordinates and globals among those that are named; with a parameter list. */
ParsedFunction makeFunction(const ParsedExpression& energy, const string& text, const vector<string>& names,
                            const vector<LocalCoordinate>& coordinates, const vector<string>& parameters,
                            const vector<string>& globals) {
    const ParsedExpression optimized = energy.optimize();
    std::set<string> used;
    findVariables(optimized.getRootNode(), used);
    ParsedFunction result;
    vector<string> usedNames, usedGlobals;
    for (size_t k = 0; k < names.size(); k++)
        if (used.count(names[k])) {
            usedNames.push_back(names[k]);
            result.coordinates.push_back(coordinates[k]);
        }
    for (const string& global : globals)
        if (used.count(global))
            usedGlobals.push_back(global);
    for (const vector<string>* known : {&names, &parameters, &globals})
        for (const string& name : *known)
            used.erase(name);
    if (!used.empty())
        throw OpenMMException("there is no variable '" + *used.begin() + "'");
    result.function = std::make_shared<LeptonFunction>(optimized, text, usedNames, parameters, usedGlobals);
    return result;
}

/** The same for a text in named coordinates, which may have functions of particles and points. */
ParsedFunction parseInCoordinates(const string& text, int numParticles, vector<string> names,
                                  vector<LocalCoordinate> coordinates, const vector<string>& parameters,
                                  const vector<string>& globals) {
    const ParsedExpression energy(
            FunctionReplacer(numParticles, coordinates, names).replace(parseOfParticles(text).getRootNode()));
    requireFiniteConstants(energy.getRootNode(), text);
    return makeFunction(energy, text, names, coordinates, parameters, globals);
}

} // namespace

InternalCoordinate LocalCoordinate::place(const vector<int>& particles) const {
    InternalCoordinate coordinate = {kind, {-1, -1, -1, -1}};
    for (size_t a = 0; a < places.size(); a++)
        coordinate.particles[a] = particles[places[a]];
    return coordinate;
}

ParsedFunction OpenMMStiff::parseFunction(const string& text, const vector<string>& names,
                                          const vector<LocalCoordinate>& coordinates, const vector<string>& parameters,
                                          const vector<string>& globals) {
    return makeFunction(Lepton::Parser::parse(text), text, names, coordinates, parameters, globals);
}

ParsedFunction OpenMMStiff::parseParticleFunction(const string& text, int numParticles,
                                                  const vector<string>& parameters, const vector<string>& globals) {
    const ParticleCoordinates particles(numParticles);
    return parseInCoordinates(text, numParticles, particles.names, particles.coordinates, parameters, globals);
}

ParsedFunction OpenMMStiff::parsePositionFunction(const string& text, const vector<string>& parameters,
                                                  const vector<string>& globals) {
    return parseInCoordinates(text, 0, {"x", "y", "z"}, ParticleCoordinates(1).coordinates, parameters, globals);
}

std::optional<PointAngle> OpenMMStiff::parsePointAngle(const string& text, int numParticles,
                                                       const vector<string>& parameters,
                                                       const vector<string>& globals) {
    const string name = "pointangle";
    if (text.find(name) == string::npos) // which is quicker than to parse it
        return {};
    const ParsedExpression whole = parseOfParticles(text);
    const ExpressionTreeNode* const angle = findFunction(whole.getRootNode());
    if (angle == nullptr || angle->getOperation().getName() != name)
        return {};
    const ParticleCoordinates particles(numParticles);
    const ExpressionTreeNode* const points = angle->getChildren().data();
    const int first = particles.findParticle(points), second = particles.findParticle(points + 6);
    if (first < 0 || second < 0 || first == second || std::any_of(points + 3, points + 6, findFunction))
        return {};
    const ExpressionTreeNode energy = substitute(whole.getRootNode(), *angle, name);
    std::set<string> variables;
    findVariables(energy, variables);
    if (findFunction(energy) != nullptr ||
        std::any_of(particles.names.begin(), particles.names.end(), [&](auto& each) { return variables.count(each); }))
        return {};
    requireFiniteConstants(energy, text);
    return PointAngle{makeFunction(ParsedExpression(energy), text, {name}, {{Kind::Angle, {}}}, parameters, globals),
                      {first, second}};
}
