#include "FunctionTerms.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/CustomExternalForce.h"
#include "openmm/CustomTorsionForce.h"
#include "openmm/NonbondedForce.h"
#include "openmm/PeriodicTorsionForce.h"
#include "openmm/RBTorsionForce.h"
#include "openmm/reference/SimTKOpenMMRealType.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

using Kind = InternalCoordinate::Kind;

ParsedFunction makeFunction(const string& text, const string& variable, const LocalCoordinate& coordinate,
                            const vector<string>& parameters, const vector<string>& globals = {}) {
    return parseFunction(text, {variable}, {coordinate}, parameters, globals);
}

/** The names getName(0), getName(1), ... */
template <class GetName> vector<string> collectNames(int number, GetName&& getName) {
    vector<string> names;
    for (int i = 0; i < number; i++)
        names.push_back(getName(i));
    return names;
}

template <class ForceType> vector<string> globalNames(const ForceType& force) {
    return collectNames(force.getNumGlobalParameters(), [&](int i) { return force.getGlobalParameterName(i); });
}

vector<string> parameterNames(const CustomCompoundBondForce& force) {
    return collectNames(force.getNumPerBondParameters(), [&](int p) { return force.getPerBondParameterName(p); });
}

/** Collects the terms of one Force. */
class TermCollector {
public:
    TermCollector(const System& system, int force, TermFunctions& functions, vector<FunctionTerm>& terms)
            : system(system), forceIndex(force), periodic(system.getForce(force).usesPeriodicBoundaryConditions()),
              functions(functions), terms(terms), firstFunction(functions.size()) {
    }

    /** Add a function, and return its index. */
    int addFunction(const ParsedFunction& function) {
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
    TermFunctions& functions;
    vector<FunctionTerm>& terms;
    int firstFunction;
    vector<vector<LocalCoordinate>> coordinates; // of each function of this Force
};

const LocalCoordinate distance = {Kind::Distance, {0, 1}}, angle = {Kind::Angle, {0, 1, 2}},
                      dihedral = {Kind::Dihedral, {0, 1, 2, 3}};

/** Add terms of one function, with so many particles each; get(t, particles, parameters) reads them. */
template <class Get>
void addTerms(TermCollector& collector, const ParsedFunction& energy, int numTerms, int numParticles, Get&& get) {
    const int function = collector.addFunction(energy);
    vector<int> p(numParticles);
    vector<double> own;
    for (int t = 0; t < numTerms; t++) {
        get(t, p, own);
        collector.addTerm(function, t, p, own);
    }
}

void append(const PeriodicTorsionForce& force, TermCollector& collector) {
    addTerms(collector, makeFunction("k*(1+cos(n*theta-theta0))", "theta", dihedral, {"n", "theta0", "k"}),
             force.getNumTorsions(), 4, [&](int t, auto& p, auto& own) {
                 int n;
                 own.resize(3);
                 force.getTorsionParameters(t, p[0], p[1], p[2], p[3], n, own[1], own[2]);
                 own[0] = n;
             });
}

void append(const RBTorsionForce& force, TermCollector& collector) {
    // psi = theta - 180 degrees
    addTerms(collector,
             makeFunction("c0-c1*cos(theta)+c2*cos(theta)^2-c3*cos(theta)^3+c4*cos(theta)^4-c5*cos(theta)^5", "theta",
                          dihedral, {"c0", "c1", "c2", "c3", "c4", "c5"}),
             force.getNumTorsions(), 4, [&](int t, auto& p, auto& c) {
                 c.resize(6);
                 force.getTorsionParameters(t, p[0], p[1], p[2], p[3], c[0], c[1], c[2], c[3], c[4], c[5]);
             });
}

void append(const CustomBondForce& force, TermCollector& collector) {
    addTerms(collector, parseEnergy(force), force.getNumBonds(), 2,
             [&](int t, auto& p, auto& own) { force.getBondParameters(t, p[0], p[1], own); });
}

void append(const CustomAngleForce& force, TermCollector& collector) {
    addTerms(collector, parseEnergy(force), force.getNumAngles(), 3,
             [&](int t, auto& p, auto& own) { force.getAngleParameters(t, p[0], p[1], p[2], own); });
}

void append(const CustomTorsionForce& force, TermCollector& collector) {
    const vector<string> names = collectNames(force.getNumPerTorsionParameters(),
                                              [&](int p) { return force.getPerTorsionParameterName(p); });
    addTerms(collector, makeFunction(force.getEnergyFunction(), "theta", dihedral, names, globalNames(force)),
             force.getNumTorsions(), 4,
             [&](int t, auto& p, auto& own) { force.getTorsionParameters(t, p[0], p[1], p[2], p[3], own); });
}

void append(const CustomExternalForce& force, TermCollector& collector) {
    if (force.usesPeriodicBoundaryConditions())
        throw NoHessian("the function 'periodicdistance' in its expression is not supported");
    addTerms(collector, parseEnergy(force), force.getNumParticles(), 1,
             [&](int t, auto& p, auto& own) { force.getParticleParameters(t, p[0], own); });
}

void append(const CustomCompoundBondForce& force, TermCollector& collector) {
    if (force.getNumTabulatedFunctions() > 0)
        throw NoHessian("it has tabulated functions");
    if (force.usesPeriodicBoundaryConditions() && force.getEnergyFunction().find("pointdistance") != string::npos)
        throw NoHessian("the function 'pointdistance' in its expression is not supported with periodic boundary "
                        "conditions");
    const int numParticles = force.getNumParticlesPerBond();
    addTerms(collector,
             parseParticleFunction(force.getEnergyFunction(), numParticles, parameterNames(force), globalNames(force)),
             force.getNumBonds(), numParticles, [&](int t, auto& p, auto& own) { force.getBondParameters(t, p, own); });
}

void append(const NonbondedForce& force, TermCollector& collector) {
    if (force.getNonbondedMethod() != NonbondedForce::NoCutoff)
        throw NoHessian("it has a cutoff");
    if (force.getNumParticleParameterOffsets() > 0 || force.getNumExceptionParameterOffsets() > 0)
        throw NoHessian("it has parameter offsets");
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

ParsedFunction OpenMMStiff::parseEnergy(const CustomBondForce& force) {
    const vector<string> parameters =
            collectNames(force.getNumPerBondParameters(), [&](int p) { return force.getPerBondParameterName(p); });
    return makeFunction(force.getEnergyFunction(), "r", distance, parameters, globalNames(force));
}

ParsedFunction OpenMMStiff::parseEnergy(const CustomAngleForce& force) {
    const vector<string> parameters =
            collectNames(force.getNumPerAngleParameters(), [&](int p) { return force.getPerAngleParameterName(p); });
    return makeFunction(force.getEnergyFunction(), "theta", angle, parameters, globalNames(force));
}

ParsedFunction OpenMMStiff::parseEnergy(const CustomExternalForce& force) {
    const vector<string> parameters = collectNames(force.getNumPerParticleParameters(),
                                                   [&](int p) { return force.getPerParticleParameterName(p); });
    return parsePositionFunction(force.getEnergyFunction(), parameters, globalNames(force));
}

std::optional<PointAngle> OpenMMStiff::parsePointAngle(const CustomCompoundBondForce& force) {
    if (force.getNumTabulatedFunctions() > 0)
        return {};
    try {
        return parsePointAngle(force.getEnergyFunction(), force.getNumParticlesPerBond(), parameterNames(force),
                               globalNames(force));
    }
    catch (const NoHessian&) {
        return {};
    }
}

string OpenMMStiff::appendFunctionTerms(const System& system, int force, TermFunctions& functions,
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
        return none.what();
    }
    return "a force of its kind is not supported";
}
