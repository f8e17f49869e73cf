#include "openmmstiff/internal/StiffTerms.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/CMMotionRemover.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/HarmonicAngleForce.h"
#include "openmm/HarmonicBondForce.h"
#include "openmm/MonteCarloAnisotropicBarostat.h"
#include "openmm/MonteCarloBarostat.h"
#include "openmm/MonteCarloFlexibleBarostat.h"
#include "openmm/MonteCarloMembraneBarostat.h"
#include "openmm/OpenMMException.h"
#include <algorithm>
#include <set>
#include <sstream>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::vector;

namespace {

using Pair = std::pair<int, int>;

void readTerm(const HarmonicBondForce& force, StiffTerm& term) {
    force.getBondParameters(term.index, term.particles[0], term.particles[1], term.s0, term.k);
}

void readTerm(const HarmonicAngleForce& force, StiffTerm& term) {
    force.getAngleParameters(term.index, term.particles[0], term.particles[1], term.particles[2], term.s0, term.k);
}

/** Whether a term has something to do. */
template <class Particles> bool isFree(const Particles& particles, int count, const std::set<Pair>& constraints) {
    bool degenerate = false, constrained = count > 1;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < a; b++) {
            degenerate |= particles[a] == particles[b];
            constrained &= constraints.count(ordered(particles[a], particles[b])) > 0;
        }
    return !degenerate && !constrained;
}

/** Whether a term acts on a virtual site. */
template <class Particles> bool hasVirtualSite(const System& system, const Particles& particles, int count) {
    return std::any_of(particles.begin(), particles.begin() + count,
                       [&](int particle) { return system.isVirtualSite(particle); });
}

template <class ForceType>
void appendTerms(const ForceType& force, int forceIndex, int numTerms, StiffTerm::Coordinate coordinate,
                 const std::set<Pair>& constraints, vector<StiffTerm>& terms) {
    for (int i = 0; i < numTerms; i++) {
        StiffTerm term = {coordinate, {-1, -1, -1}, 0, 0, force.usesPeriodicBoundaryConditions(), forceIndex, i};
        readTerm(force, term);
        if (isFree(term.particles, term.getNumParticles(), constraints))
            terms.push_back(term);
    }
}

/** The bonds and angles among function terms are stiff coordinates too. */
void appendCoordinates(const Force& force, const vector<FunctionTerm>& functionTerms, size_t first,
                       vector<StiffTerm>& coordinates) {
    const bool bonds = dynamic_cast<const CustomBondForce*>(&force) != nullptr,
               angles = dynamic_cast<const CustomAngleForce*>(&force) != nullptr;
    for (size_t t = first; t < functionTerms.size() && (bonds || angles); t++) {
        const FunctionTerm& term = functionTerms[t];
        const std::array<int, 4>& p = term.coordinates[0].particles;
        coordinates.push_back({bonds ? StiffTerm::Coordinate::Distance : StiffTerm::Coordinate::Angle,
                               {p[0], p[1], p[2]},
                               0,
                               0,
                               term.periodic,
                               term.force,
                               term.index,
                               false});
    }
}

/** Forces that act on the state between steps and contribute nothing to the potential. */
bool hasNoPotential(const Force& force) {
    return dynamic_cast<const CMMotionRemover*>(&force) != nullptr ||
           dynamic_cast<const AndersenThermostat*>(&force) != nullptr ||
           dynamic_cast<const MonteCarloBarostat*>(&force) != nullptr ||
           dynamic_cast<const MonteCarloAnisotropicBarostat*>(&force) != nullptr ||
           dynamic_cast<const MonteCarloFlexibleBarostat*>(&force) != nullptr ||
           dynamic_cast<const MonteCarloMembraneBarostat*>(&force) != nullptr;
}

} // namespace

StiffTerms OpenMMStiff::collectStiffTerms(const System& system, TermScope scope, int stiffForceGroups,
                                          int integrationGroups, const string& className) {
    std::set<Pair> constraints;
    for (int i = 0; i < system.getNumConstraints(); i++) {
        int particle1, particle2;
        double distance;
        system.getConstraintParameters(i, particle1, particle2, distance);
        constraints.insert(ordered(particle1, particle2));
    }
    const bool everything = (scope == TermScope::Everything), byKind = (!everything && stiffForceGroups == 0);
    StiffTerms terms;
    bool foundForce = false;
    for (int i = 0; i < system.getNumForces(); i++) {
        const Force& force = system.getForce(i);
        const int group = 1 << force.getForceGroup();
        if ((integrationGroups & group) == 0 || (!byKind && !everything && (stiffForceGroups & group) == 0))
            continue;
        if (auto bonds = dynamic_cast<const HarmonicBondForce*>(&force)) {
            appendTerms(*bonds, i, bonds->getNumBonds(), StiffTerm::Coordinate::Distance, constraints,
                        terms.coordinates);
            foundForce = true;
        }
        else if (auto angles = dynamic_cast<const HarmonicAngleForce*>(&force)) {
            appendTerms(*angles, i, angles->getNumAngles(), StiffTerm::Coordinate::Angle, constraints,
                        terms.coordinates);
            foundForce = true;
        }
        else if (scope == TermScope::HarmonicForces)
            continue;
        else if (byKind ? force.getName() == penaltyForceName : !hasNoPotential(force)) {
            std::stringstream message;
            message << className << ": the force '" << force.getName() << "' (index " << i << " in the System) ";
            if (scope == TermScope::Harmonic) {
                if (byKind)
                    message << "is stiff, but not a HarmonicBondForce. Make the penalties with the form Linear";
                else
                    message << "is in stiff force group " << force.getForceGroup()
                            << ", but is neither a HarmonicBondForce nor a HarmonicAngleForce. Move the force to"
                            << " another group with setForceGroup(), or change setStiffForceGroups()";
                throw OpenMMException(message.str());
            }
            const size_t first = terms.functionTerms.size();
            const string reason = appendFunctionTerms(system, i, terms.functions, terms.functionTerms);
            if (!reason.empty()) {
                if (everything)
                    message << "has no Hessian, which the method needs of the whole potential: " << reason
                            << ". Use the method SimplifiedStiff or Newmark, which needs that of stiff forces only, or"
                            << " remove the force";
                else
                    message << "is in stiff force group " << force.getForceGroup()
                            << ", but there is no Hessian for it: " << reason
                            << ". Move the force to another group with setForceGroup(), or change"
                            << " setStiffForceGroups()";
                throw OpenMMException(message.str());
            }
            auto isIdle = [&](const FunctionTerm& term) {
                const vector<int> particles = term.getParticles();
                const bool cartesian = std::any_of(term.coordinates.begin(), term.coordinates.end(),
                                                   [](const auto& coordinate) { return coordinate.isCartesian(); });
                return !cartesian && !isFree(particles, particles.size(), constraints);
            };
            terms.functionTerms.erase(
                    std::remove_if(terms.functionTerms.begin() + first, terms.functionTerms.end(), isIdle),
                    terms.functionTerms.end());
            appendCoordinates(force, terms.functionTerms, first, terms.coordinates);
            foundForce = true;
        }
    }
    if (scope != TermScope::WholeStiffForces && !everything) {
        auto onSite = [&](const StiffTerm& term) {
            return hasVirtualSite(system, term.particles, term.getNumParticles());
        };
        auto functionOnSite = [&](const FunctionTerm& term) {
            const vector<int> particles = term.getParticles();
            return hasVirtualSite(system, particles, particles.size());
        };
        vector<StiffTerm>& coordinates = terms.coordinates;
        vector<FunctionTerm>& functionTerms = terms.functionTerms;
        coordinates.erase(std::remove_if(coordinates.begin(), coordinates.end(), onSite), coordinates.end());
        functionTerms.erase(std::remove_if(functionTerms.begin(), functionTerms.end(), functionOnSite),
                            functionTerms.end());
    }
    if (!byKind && !everything && !foundForce) {
        std::stringstream message;
        message << className << ": no force of the System is in the stiff force groups (mask " << stiffForceGroups
                << ") and integrated (mask " << integrationGroups
                << "). Put the stiff forces into one of these groups with setForceGroup(), or call"
                << " setStiffForceGroups(0) to choose them by kind";
        throw OpenMMException(message.str());
    }
    return terms;
}
