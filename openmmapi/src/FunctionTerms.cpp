#include "openmmstiff/internal/FunctionTerms.h"
#include "lepton/CustomFunction.h"
#include "lepton/ExpressionTreeNode.h"
#include "lepton/Operation.h"
#include "lepton/Parser.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/CustomExternalForce.h"
#include "openmm/CustomTorsionForce.h"
#include "openmm/NonbondedForce.h"
#include "openmm/OpenMMException.h"
#include "openmm/PeriodicTorsionForce.h"
#include "openmm/RBTorsionForce.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

using namespace OpenMM;
using namespace OpenMMStiff;
using Lepton::ExpressionTreeNode;
using Lepton::Operation;
using Lepton::ParsedExpression;
using std::string;
using std::vector;

namespace {

using Kind = InternalCoordinate::Kind;

/** A part of the potential has no Hessian. What it says follows the name of the Force. */
struct NoHessian {
    string reason;
};

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
            if (name == "pointdistance")
                return pointDistance(node);
            throw NoHessian{"the function '" + name + "' in its expression is not supported"};
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

/** Functions that the text of an energy may have, beside Lepton's own: they only hold places. */
class PlaceholderFunctions {
public:
    explicit PlaceholderFunctions(const std::map<string, int>& numArguments) {
        for (const auto& function : numArguments) {
            owned.push_back(std::make_unique<Lepton::PlaceholderFunction>(function.second));
            functions[function.first] = owned.back().get();
        }
    }
    std::map<string, Lepton::CustomFunction*> functions;

private:
    vector<std::unique_ptr<Lepton::CustomFunction>> owned;
};

void findVariables(const ExpressionTreeNode& node, std::set<string>& names) {
    if (node.getOperation().getId() == Operation::VARIABLE)
        names.insert(node.getOperation().getName());
    for (const ExpressionTreeNode& child : node.getChildren())
        findVariables(child, names);
}

/**
 * Throw an exception if a part of an expression without variables is not finite: Lepton does not return from optimizing
 * one that is not a number.
 */
void requireFiniteConstants(const ExpressionTreeNode& node) {
    std::set<string> variables;
    findVariables(node, variables);
    if (variables.empty() && node.getOperation().getId() != Operation::CUSTOM) {
        const double value = ParsedExpression(node).evaluate();
        if (!std::isfinite(value))
            throw OpenMMException("a part of it is " + std::to_string(value));
        return;
    }
    for (const ExpressionTreeNode& child : node.getChildren())
        requireFiniteConstants(child);
}

/** A function of one coordinate, or of those that are named; with a parameter list. */
ParticleFunction makeFunction(const ParsedExpression& energy, const string& text, const vector<string>& names,
                              const vector<LocalCoordinate>& coordinates, const vector<string>& parameters,
                              const vector<string>& globals) {
    ParticleFunction result = {{energy.optimize(), {}, parameters, {}, text}, {}};
    std::set<string> used;
    findVariables(result.function.energy.getRootNode(), used);
    for (size_t k = 0; k < names.size(); k++)
        if (used.count(names[k])) {
            result.function.coordinates.push_back(names[k]);
            result.coordinates.push_back(coordinates[k]);
        }
    for (const string& global : globals)
        if (used.count(global))
            result.function.globals.push_back(global);
    return result;
}

ParticleFunction makeFunction(const string& text, const string& variable, const LocalCoordinate& coordinate,
                              const vector<string>& parameters, const vector<string>& globals = {}) {
    return makeFunction(Lepton::Parser::parse(text), text, {variable}, {coordinate}, parameters, globals);
}

template <class ForceType> vector<string> globalNames(const ForceType& force) {
    vector<string> names;
    for (int i = 0; i < force.getNumGlobalParameters(); i++)
        names.push_back(force.getGlobalParameterName(i));
    return names;
}

/** Collects the terms of one Force. */
class TermCollector {
public:
    TermCollector(const System& system, int force, vector<TermFunction>& functions, vector<FunctionTerm>& terms)
            : system(system), forceIndex(force), periodic(system.getForce(force).usesPeriodicBoundaryConditions()),
              functions(functions), terms(terms), firstFunction(functions.size()) {
    }

    /** Add a function, and return its index. */
    int addFunction(const ParticleFunction& function) {
        functions.push_back(function.function);
        coordinates.push_back(function.coordinates);
        return functions.size() - 1;
    }

    /** Add a term of a function of this Force; one with the same particle twice in a coordinate is left out. */
    void addTerm(int function, int index, const vector<int>& particles, const vector<double>& parameters) {
        FunctionTerm term = {function, {}, parameters, periodic, forceIndex, index};
        for (const LocalCoordinate& local : coordinates[function - firstFunction]) {
            const InternalCoordinate coordinate = local.place(particles);
            for (size_t a = 0; a < local.places.size(); a++)
                for (size_t b = 0; b < a; b++)
                    if (coordinate.particles[a] == coordinate.particles[b])
                        return;
            term.coordinates.push_back(coordinate);
        }
        const vector<int> all = term.getParticles();
        if (std::any_of(all.begin(), all.end(), [&](int particle) { return system.getParticleMass(particle) > 0; }))
            terms.push_back(term);
    }

private:
    const System& system;
    int forceIndex;
    bool periodic;
    vector<TermFunction>& functions;
    vector<FunctionTerm>& terms;
    int firstFunction;
    vector<vector<LocalCoordinate>> coordinates; // of each function of this Force
};

const LocalCoordinate distance = {Kind::Distance, {0, 1}}, angle = {Kind::Angle, {0, 1, 2}},
                      dihedral = {Kind::Dihedral, {0, 1, 2, 3}};

void append(const PeriodicTorsionForce& force, TermCollector& collector) {
    const int function =
            collector.addFunction(makeFunction("k*(1+cos(n*theta-theta0))", "theta", dihedral, {"n", "theta0", "k"}));
    int i, j, k, l, n;
    double phase, strength;
    for (int t = 0; t < force.getNumTorsions(); t++) {
        force.getTorsionParameters(t, i, j, k, l, n, phase, strength);
        collector.addTerm(function, t, {i, j, k, l}, {double(n), phase, strength});
    }
}

void append(const RBTorsionForce& force, TermCollector& collector) {
    // psi = theta - 180 degrees
    const int function = collector.addFunction(
            makeFunction("c0-c1*cos(theta)+c2*cos(theta)^2-c3*cos(theta)^3+c4*cos(theta)^4-c5*cos(theta)^5", "theta",
                         dihedral, {"c0", "c1", "c2", "c3", "c4", "c5"}));
    int i, j, k, l;
    vector<double> c(6);
    for (int t = 0; t < force.getNumTorsions(); t++) {
        force.getTorsionParameters(t, i, j, k, l, c[0], c[1], c[2], c[3], c[4], c[5]);
        collector.addTerm(function, t, {i, j, k, l}, c);
    }
}

void append(const CustomBondForce& force, TermCollector& collector) {
    vector<string> names;
    for (int p = 0; p < force.getNumPerBondParameters(); p++)
        names.push_back(force.getPerBondParameterName(p));
    const int function =
            collector.addFunction(makeFunction(force.getEnergyFunction(), "r", distance, names, globalNames(force)));
    int i, j;
    vector<double> parameters;
    for (int t = 0; t < force.getNumBonds(); t++) {
        force.getBondParameters(t, i, j, parameters);
        collector.addTerm(function, t, {i, j}, parameters);
    }
}

void append(const CustomAngleForce& force, TermCollector& collector) {
    vector<string> names;
    for (int p = 0; p < force.getNumPerAngleParameters(); p++)
        names.push_back(force.getPerAngleParameterName(p));
    const int function =
            collector.addFunction(makeFunction(force.getEnergyFunction(), "theta", angle, names, globalNames(force)));
    int i, j, k;
    vector<double> parameters;
    for (int t = 0; t < force.getNumAngles(); t++) {
        force.getAngleParameters(t, i, j, k, parameters);
        collector.addTerm(function, t, {i, j, k}, parameters);
    }
}

void append(const CustomTorsionForce& force, TermCollector& collector) {
    vector<string> names;
    for (int p = 0; p < force.getNumPerTorsionParameters(); p++)
        names.push_back(force.getPerTorsionParameterName(p));
    const int function = collector.addFunction(
            makeFunction(force.getEnergyFunction(), "theta", dihedral, names, globalNames(force)));
    int i, j, k, l;
    vector<double> parameters;
    for (int t = 0; t < force.getNumTorsions(); t++) {
        force.getTorsionParameters(t, i, j, k, l, parameters);
        collector.addTerm(function, t, {i, j, k, l}, parameters);
    }
}

void append(const CustomExternalForce& force, TermCollector& collector) {
    if (force.usesPeriodicBoundaryConditions())
        throw NoHessian{"the function 'periodicdistance' in its expression is not supported"};
    const ParsedExpression energy = Lepton::Parser::parse(force.getEnergyFunction());
    const vector<string> names = {"x", "y", "z"};
    const vector<LocalCoordinate> coordinates = {{Kind::X, {0}}, {Kind::Y, {0}}, {Kind::Z, {0}}};
    vector<string> parameters;
    for (int p = 0; p < force.getNumPerParticleParameters(); p++)
        parameters.push_back(force.getPerParticleParameterName(p));
    const int function = collector.addFunction(
            makeFunction(energy, force.getEnergyFunction(), names, coordinates, parameters, globalNames(force)));
    int particle;
    vector<double> values;
    for (int t = 0; t < force.getNumParticles(); t++) {
        force.getParticleParameters(t, particle, values);
        collector.addTerm(function, t, {particle}, values);
    }
}

/** Parse an expression in the coordinates of a few particles, see parseParticleFunction(). */
ParticleFunction parse(const string& text, int numParticles, const vector<string>& parameters,
                       const vector<string>& globals) {
    PlaceholderFunctions placeholders({{"distance", 2},
                                       {"angle", 3},
                                       {"dihedral", 4},
                                       {"pointdistance", 6},
                                       {"pointangle", 9},
                                       {"pointdihedral", 12}});
    ParsedExpression energy = Lepton::Parser::parse(text, placeholders.functions);
    vector<string> names;
    vector<LocalCoordinate> coordinates;
    for (int p = 0; p < numParticles; p++)
        for (Kind kind : {Kind::X, Kind::Y, Kind::Z}) {
            names.push_back(string(1, "xyz"[int(kind)]) + std::to_string(p + 1));
            coordinates.push_back({kind, {p}});
        }
    energy = ParsedExpression(FunctionReplacer(numParticles, coordinates, names).replace(energy.getRootNode()));
    requireFiniteConstants(energy.getRootNode());
    return makeFunction(energy, text, names, coordinates, parameters, globals);
}

void append(const CustomCompoundBondForce& force, TermCollector& collector) {
    if (force.getNumTabulatedFunctions() > 0)
        throw NoHessian{"it has tabulated functions"};
    if (force.usesPeriodicBoundaryConditions() && force.getEnergyFunction().find("pointdistance") != string::npos)
        throw NoHessian{"the function 'pointdistance' in its expression is not supported with periodic boundary "
                        "conditions"};
    vector<string> parameters;
    for (int p = 0; p < force.getNumPerBondParameters(); p++)
        parameters.push_back(force.getPerBondParameterName(p));
    const int function = collector.addFunction(
            parse(force.getEnergyFunction(), force.getNumParticlesPerBond(), parameters, globalNames(force)));
    vector<int> particles;
    vector<double> values;
    for (int t = 0; t < force.getNumBonds(); t++) {
        force.getBondParameters(t, particles, values);
        collector.addTerm(function, t, particles, values);
    }
}

void append(const NonbondedForce& force, TermCollector& collector) {
    if (force.getNonbondedMethod() != NonbondedForce::NoCutoff)
        throw NoHessian{"it has a cutoff"};
    if (force.getNumParticleParameterOffsets() > 0 || force.getNumExceptionParameterOffsets() > 0)
        throw NoHessian{"it has parameter offsets"};
    const int charged = collector.addFunction(makeFunction("qq/r", "r", distance, {"qq"}));
    const int full = collector.addFunction(
            makeFunction("qq/r+4*epsilon*((sigma/r)^12-(sigma/r)^6)", "r", distance, {"qq", "sigma", "epsilon"}));
    int index = 0;
    auto addPair = [&](int i, int j, double chargeProduct, double sigma, double epsilon) {
        const double qq = ONE_4PI_EPS0 * chargeProduct;
        if (epsilon != 0)
            collector.addTerm(full, index, {i, j}, {qq, sigma, epsilon});
        else if (qq != 0)
            collector.addTerm(charged, index, {i, j}, {qq});
        index++;
    };
    std::set<std::pair<int, int>> exceptions;
    for (int t = 0; t < force.getNumExceptions(); t++) {
        int i, j;
        double chargeProduct, sigma, epsilon;
        force.getExceptionParameters(t, i, j, chargeProduct, sigma, epsilon);
        exceptions.insert(ordered(i, j));
        addPair(i, j, chargeProduct, sigma, epsilon);
    }
    vector<double> charges(force.getNumParticles()), sigmas(charges), epsilons(charges);
    for (int i = 0; i < force.getNumParticles(); i++) {
        force.getParticleParameters(i, charges[i], sigmas[i], epsilons[i]);
        for (int j = 0; j < i; j++)
            if (!exceptions.count({j, i}))
                addPair(j, i, charges[i] * charges[j], 0.5 * (sigmas[i] + sigmas[j]),
                        std::sqrt(epsilons[i] * epsilons[j]));
    }
}

/** Append the terms of a Force if it is of a type. */
template <class ForceType> bool appendIf(const Force& force, TermCollector& collector) {
    const auto* found = dynamic_cast<const ForceType*>(&force);
    if (found != nullptr)
        append(*found, collector);
    return found != nullptr;
}

} // namespace

vector<int> FunctionTerm::getParticles() const {
    vector<int> all;
    for (const InternalCoordinate& coordinate : coordinates)
        for (int a = 0; a < coordinate.getNumParticles(); a++)
            if (std::find(all.begin(), all.end(), coordinate.particles[a]) == all.end())
                all.push_back(coordinate.particles[a]);
    return all;
}

InternalCoordinate LocalCoordinate::place(const vector<int>& particles) const {
    InternalCoordinate coordinate = {kind, {-1, -1, -1, -1}};
    for (size_t a = 0; a < places.size(); a++)
        coordinate.particles[a] = particles[places[a]];
    return coordinate;
}

ParticleFunction OpenMMStiff::parseParticleFunction(const string& text, int numParticles,
                                                    const vector<string>& parameters) {
    ParticleFunction result;
    try {
        result = parse(text, numParticles, parameters, {});
    }
    catch (const NoHessian& none) {
        throw OpenMMException(none.reason);
    }
    std::set<string> used;
    findVariables(result.function.energy.getRootNode(), used);
    for (const vector<string>& known : {result.function.coordinates, parameters})
        for (const string& name : known)
            used.erase(name);
    if (!used.empty())
        throw OpenMMException("there is no variable '" + *used.begin() + "'");
    return result;
}

vector<InternalCoordinate> OpenMMStiff::placeCoordinates(const ParticleFunction& function,
                                                         const vector<int>& particles) {
    vector<InternalCoordinate> coordinates;
    for (const LocalCoordinate& local : function.coordinates)
        coordinates.push_back(local.place(particles));
    return coordinates;
}

string OpenMMStiff::appendFunctionTerms(const System& system, int force, vector<TermFunction>& functions,
                                        vector<FunctionTerm>& terms) {
    TermCollector collector(system, force, functions, terms);
    const Force& candidate = system.getForce(force);
    try {
        if (appendIf<PeriodicTorsionForce>(candidate, collector) || appendIf<RBTorsionForce>(candidate, collector) ||
            appendIf<CustomBondForce>(candidate, collector) || appendIf<CustomAngleForce>(candidate, collector) ||
            appendIf<CustomTorsionForce>(candidate, collector) || appendIf<CustomExternalForce>(candidate, collector) ||
            appendIf<CustomCompoundBondForce>(candidate, collector) || appendIf<NonbondedForce>(candidate, collector))
            return "";
    }
    catch (const NoHessian& none) {
        return none.reason;
    }
    return "a force of its kind is not supported";
}
