#include "Constraints.h"
#include "Blocks.h"
#include "PenalizedPairs.h"
#include "expressions/Expressions.h"
#include "openmm/MonteCarloAnisotropicBarostat.h"
#include "openmm/MonteCarloBarostat.h"
#include "openmm/MonteCarloFlexibleBarostat.h"
#include "openmm/MonteCarloMembraneBarostat.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/internal/Checks.h"
#include "openmmstiff/internal/Message.h"
#include "stiffcore/model/Sets.h"
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <tuple>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

/// The time [ps], the parameter of the functions of velocity constraints.
const char* const timeVariable = "t";

/** Turns what a user has given into Constraints. */
class ConstraintCollector {
public:
    ConstraintCollector(const System& system, const SpookIntegrator& integrator, const string& className)
            : system(system), integrator(integrator), className(className) {
    }

    void addSystemConstraints(const ConstraintSet& ofSystem) {
        const int number = ofSystem.constraints.size();
        for (int index : integrator.getSystemConstraintsWithParameters())
            require(index < number, className, ": parameters have been set for constraint ", index,
                    " of the System, which has only ", number, ". Take them back with setSystemConstraintParameters(",
                    index, ", 0, 0)");
        for (int i = 0; i < number; i++) {
            Constraint constraint = ofSystem.constraints[i];
            integrator.getSystemConstraintParameters(i, constraint.compliance, constraint.damping);
            add(constraint);
        }
    }

    void addDistanceConstraints() {
        for (int i = 0; i < integrator.getNumDistanceConstraints(); i++) {
            Constraint constraint = {Constraint::Kind::Distance, "distance", i, {0, 0}};
            integrator.getDistanceConstraintParameters(i, constraint.particles[0], constraint.particles[1],
                                                       constraint.value, constraint.compliance, constraint.damping);
            requireParticles(constraint);
            add(constraint);
        }
    }

    void addPositionConstraints() {
        for (int i = 0; i < integrator.getNumPositionConstraints(); i++) {
            Constraint constraint = {Constraint::Kind::Component, "position", i, {0}};
            Vec3 position;
            integrator.getPositionConstraintParameters(i, constraint.particles[0], position, constraint.compliance,
                                                       constraint.damping);
            requireParticles(constraint);
            for (int axis = 0; axis < 3; axis++) {
                constraint.axis = axis;
                constraint.value = position[axis];
                add(constraint);
            }
        }
    }

    void addHolonomicConstraints() {
        for (int i = 0; i < integrator.getNumHolonomicConstraints(); i++) {
            Constraint constraint = {Constraint::Kind::Holonomic, "holonomic", i, {}};
            string expression;
            integrator.getHolonomicConstraintParameters(i, constraint.particles, expression, constraint.compliance,
                                                        constraint.damping);
            requireParticles(constraint);
            constraint.functions.push_back(makeTerm(constraint, expression, {}));
            const vector<int> used = constraint.functions[0].getParticles();
            requireEffect(constraint, std::any_of(used.begin(), used.end(), [&](int p) { return isMobile(p); }));
            readAngle(constraint);
            add(constraint);
        }
    }

    void addVelocityConstraints() {
        for (int i = 0; i < integrator.getNumVelocityConstraints(); i++) {
            Constraint constraint = {Constraint::Kind::Velocity, "velocity", i, {}};
            vector<string> coefficients;
            string rate;
            integrator.getVelocityConstraintParameters(i, constraint.particles, coefficients, rate,
                                                       constraint.compliance);
            requireParticles(constraint);
            constraint.functions.push_back(makeTerm(constraint, rate, {timeVariable}));
            for (size_t k = 0; k < coefficients.size(); k++) {
                FunctionTerm term = makeTerm(constraint, coefficients[k], {timeVariable});
                if (set.functions[term.function]->count(0) == 0)
                    continue;
                constraint.functions.push_back(std::move(term));
                constraint.components.push_back(k);
            }
            requireEffect(constraint, std::any_of(constraint.components.begin(), constraint.components.end(),
                                                  [&](int k) { return isMobile(constraint.particles[k / 3]); }));
            add(constraint);
        }
    }

    ConstraintSet set;

private:
    /** Add a constraint; what has not been given is the integrator's. */
    void add(Constraint constraint) {
        const bool onVelocities = (constraint.kind == Constraint::Kind::Velocity);
        if (constraint.compliance == 0)
            constraint.compliance = (onVelocities ? integrator.getVelocityCompliance() : integrator.getCompliance());
        set.constraints.push_back(std::move(constraint));
    }

    bool isMobile(int particle) const {
        return system.getParticleMass(particle) > 0;
    }

    void requireEffect(const Constraint& constraint, bool hasEffect) const {
        if (!hasEffect)
            refuse(constraint, "depends on no particle that can move. Check its expressions");
    }

    [[noreturn]] void refuse(const Constraint& constraint, const string& reason) const {
        throw OpenMMException(className + ": " + constraint.describe() + " " + reason);
    }

    /** A dihedral angle jumps by a whole turn, which is none; and where an angle is straight it has no gradient. */
    void readAngle(Constraint& constraint) const {
        using Kind = InternalCoordinate::Kind;
        const FunctionTerm& term = constraint.functions[0];
        FunctionCopy function(*set.functions[term.function], 0);
        if (term.coordinates.size() != 1)
            return;
        auto valueAt = [&](double angle) {
            *function->arguments() = angle;
            return function->value();
        };
        const double pi = 3.14159265358979323846, start = valueAt(0), slope = valueAt(1) - start;
        for (double angle : {-pi, -2.0, -0.3, 0.6, 2.2, pi})
            if (!(std::abs(valueAt(angle) - start - slope * angle) <= 1e-10 * std::abs(slope) * (1 + std::abs(start))))
                return; // it is not linear
        if (slope == 0)
            return;
        if (term.coordinates[0].kind == Kind::Dihedral)
            constraint.turn = 2 * pi * std::abs(slope);
        else if (const double angle = -start / slope;
                 term.coordinates[0].kind == Kind::Angle && !(std::min(angle, pi - angle) > 0.01))
            refuse(constraint, message("holds an angle at ", angle, " rad: they are from 0 to pi, where they have no",
                                       " gradient. For a straight angle constrain the distance of its ends"));
    }

    void requireParticles(const Constraint& constraint) const {
        bool mobile = false;
        for (int particle : constraint.particles) {
            const string name = "particle " + std::to_string(particle);
            if (particle < 0 || particle >= system.getNumParticles())
                refuse(constraint, "acts on " + name + ", but the System has " +
                                           std::to_string(system.getNumParticles()) + " particles, from 0 on");
            if (system.isVirtualSite(particle))
                refuse(constraint,
                       "acts on " + name + ", a virtual site. Constrain the particles that the site depends on");
            mobile |= isMobile(particle);
        }
        if (!mobile)
            refuse(constraint, "acts on massless particles only, which never move, such as particle " +
                                       std::to_string(constraint.particles[0]) +
                                       ". Remove it, or give the particle a mass");
    }

    FunctionTerm makeTerm(const Constraint& constraint, const string& expression, const vector<string>& parameters) {
        const int numParticles = constraint.particles.size();
        const auto [place, isNew] =
                known.try_emplace({expression, numParticles, parameters.size()}, set.functions.size());
        if (isNew)
            try {
                parsed.push_back(parseParticleFunction(expression, numParticles, parameters, {}));
                set.functions.push_back(parsed.back().function);
            }
            catch (const std::exception& e) {
                refuse(constraint, "has the expression '" + expression + "': " + e.what());
            }
        const int function = place->second;
        FunctionTerm term = {function, {}, {}, false, -1, constraint.index};
        for (const LocalCoordinate& coordinate : parsed[function].coordinates) {
            term.coordinates.push_back(coordinate.place(constraint.particles));
            vector<int> places = coordinate.places;
            std::sort(places.begin(), places.end());
            if (std::adjacent_find(places.begin(), places.end()) != places.end())
                refuse(constraint,
                       "has the expression '" + expression + "', with a function of the same particle twice");
        }
        return term;
    }

    const System& system;
    const SpookIntegrator& integrator;
    string className;
    // Expressions by their text, number of particles and number of other variables.
    std::map<std::tuple<string, int, int>, int> known;
    vector<ParsedFunction> parsed;
};

/** Whether a Force is one of some kinds of barostats, and is not switched off. */
template <class... Barostats> bool acts(const Force& force) {
    auto actsAs = [](const auto* barostat) { return barostat != nullptr && barostat->getFrequency() > 0; };
    return (actsAs(dynamic_cast<const Barostats*>(&force)) || ...);
}

} // namespace

ConstraintSet OpenMMStiff::collectSystemConstraints(const System& system) {
    ConstraintSet set;
    for (const PairInertia& pair : readConstraints(system)) {
        const int index = set.constraints.size();
        set.constraints.push_back(
                {Constraint::Kind::Distance, "System", index, {pair.particle1, pair.particle2}, 0, pair.distance});
    }
    return set;
}

ConstraintSet OpenMMStiff::collectConstraints(const System& system, const ConstraintSet& ofSystem,
                                              const SpookIntegrator& integrator, const string& className) {
    ConstraintCollector collector(system, integrator, className);
    collector.addSystemConstraints(ofSystem);
    collector.addDistanceConstraints();
    collector.addPositionConstraints();
    collector.addHolonomicConstraints();
    collector.addVelocityConstraints();
    return std::move(collector.set);
}

vector<vector<int>> OpenMMStiff::findDivided(const System& system, const ConstraintSet& set) {
    Sets ofSystem(system.getNumParticles());
    for (const PairInertia& pair : readConstraints(system))
        if (system.getParticleMass(pair.particle1) > 0 && system.getParticleMass(pair.particle2) > 0)
            ofSystem.join(pair.particle1, pair.particle2);
    vector<vector<int>> all, divided;
    for (const Constraint& constraint : set.constraints)
        all.push_back(constraint.particles);
    for (const Block& block : connect(system, all))
        if (ofSystem.getSize(block.particles[0]) < block.numMobile)
            divided.emplace_back(block.particles.begin(), block.particles.begin() + block.numMobile);
    return divided;
}

void OpenMMStiff::requireWithinMolecules(const System& system, const ConstraintSet& set,
                                         const vector<vector<int>>& molecules, const string& className) {
    bool hasBarostat = false;
    for (int f = 0; f < system.getNumForces(); f++)
        hasBarostat |= acts<MonteCarloBarostat, MonteCarloAnisotropicBarostat, MonteCarloFlexibleBarostat,
                            MonteCarloMembraneBarostat>(system.getForce(f));
    if (!hasBarostat)
        return;
    vector<int> moleculeOf(system.getNumParticles());
    for (size_t m = 0; m < molecules.size(); m++)
        for (int particle : molecules[m])
            moleculeOf[particle] = m;
    for (const Constraint& constraint : set.constraints)
        for (int particle : constraint.particles)
            require(constraint.kind == Constraint::Kind::Velocity ||
                            moleculeOf[particle] == moleculeOf[constraint.particles[0]],
                    className, ": ", constraint.describe(), " joins particles ", constraint.particles[0], " and ",
                    particle, ", which to OpenMM are of different molecules, and the barostat moves molecules apart.",
                    " Give the System the constraint, by addConstraint(), or a bond between them, of any strength");
}
