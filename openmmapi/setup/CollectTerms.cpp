#include "CollectTerms.h"
#include "FunctionTerms.h"
#include "PenalizedPairs.h"
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
#include "openmmstiff/internal/Checks.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using std::string;
using std::vector;

namespace {

void readTerm(const HarmonicBondForce& force, StiffCoordinate& s) {
    force.getBondParameters(s.index, s.particles[0], s.particles[1], s.s0, s.k);
}

void readTerm(const HarmonicAngleForce& force, StiffCoordinate& s) {
    force.getAngleParameters(s.index, s.particles[0], s.particles[1], s.particles[2], s.s0, s.k);
    // Give or take the rounding of force field files: Amber's have 3.141594.
    s.straight = std::abs(s.s0 - 3.14159265358979323846) < 1e-5;
}

/** Tells which terms of a System count. */
class TermFilter {
public:
    /** @param sites   whether terms on virtual sites do */
    TermFilter(const System& system, bool sites) : system(system), sites(sites) {
        for (const PairInertia& constraint : readConstraints(system))
            constraints.insert(ordered(constraint.particle1, constraint.particle2));
    }

    /** Whether a term of internal coordinates of the first particles has something to do. */
    template <class Particles> bool counts(const Particles& particles, int count) const {
        bool degenerate = false, constrained = count > 1;
        for (int a = 0; a < count; a++)
            for (int b = 0; b < a; b++) {
                degenerate |= particles[a] == particles[b];
                constrained &= constraints.count(ordered(particles[a], particles[b])) > 0;
            }
        return !degenerate && !constrained && countsOnSites(particles, count);
    }
    bool counts(const FunctionTerm& term) const {
        const vector<int> particles = term.getParticles();
        const bool cartesian = std::any_of(term.coordinates.begin(), term.coordinates.end(),
                                           [](const auto& coordinate) { return coordinate.isCartesian(); });
        return cartesian ? countsOnSites(particles, particles.size()) : counts(particles, particles.size());
    }

private:
    template <class Particles> bool countsOnSites(const Particles& particles, int count) const {
        return sites || std::none_of(particles.begin(), particles.begin() + count,
                                     [&](int particle) { return system.isVirtualSite(particle); });
    }

    const System& system;
    bool sites;
    std::set<std::pair<int, int>> constraints;
};

template <class ForceType>
void appendHarmonic(const ForceType& force, int forceIndex, int numTerms, StiffCoordinate::Kind kind,
                    const TermFilter& filter, StiffTerms& terms) {
    for (int i = 0; i < numTerms; i++) {
        StiffCoordinate s = {kind, {-1, -1, -1}, force.usesPeriodicBoundaryConditions(), forceIndex, i, true};
        readTerm(force, s);
        if (filter.counts(s.particles, s.getNumParticles()))
            terms.coordinates.push_back(s);
    }
}

/** The bonds and angles among function terms are stiff coordinates too. */
void appendCoordinates(const Force& force, size_t firstFunction, StiffTerms& terms) {
    const bool bonds = isOneOf<CustomBondForce>(force), angles = isOneOf<CustomAngleForce>(force);
    for (size_t t = firstFunction; t < terms.functionTerms.size() && (bonds || angles); t++) {
        const FunctionTerm& term = terms.functionTerms[t];
        const std::array<int, 4>& p = term.coordinates[0].particles;
        terms.coordinates.push_back({bonds ? StiffCoordinate::Kind::Distance : StiffCoordinate::Kind::Angle,
                                     {p[0], p[1], p[2]},
                                     term.periodic,
                                     term.force,
                                     term.index});
    }
}

/** Forces that act on the state between steps and contribute nothing to the potential. */
bool hasNoPotential(const Force& force) {
    return isOneOf<CMMotionRemover, AndersenThermostat, MonteCarloBarostat, MonteCarloAnisotropicBarostat,
                   MonteCarloFlexibleBarostat, MonteCarloMembraneBarostat>(force);
}

} // namespace

StiffTerms OpenMMStiff::collectTerms(const System& system, TermScope scope, int stiffForceGroups, int integrationGroups,
                                     const string& className) {
    const bool everything = (scope == TermScope::Everything), byKind = (!everything && stiffForceGroups == 0);
    const TermFilter filter(system, everything || scope == TermScope::WholeStiffForces);
    StiffTerms terms;
    bool foundForce = false;
    for (int i = 0; i < system.getNumForces(); i++) {
        const Force& force = system.getForce(i);
        const int group = 1 << force.getForceGroup();
        if ((integrationGroups & group) == 0 || (!byKind && !everything && (stiffForceGroups & group) == 0))
            continue;
        if (auto bonds = dynamic_cast<const HarmonicBondForce*>(&force)) {
            appendHarmonic(*bonds, i, bonds->getNumBonds(), StiffCoordinate::Kind::Distance, filter, terms);
            foundForce = true;
        }
        else if (auto angles = dynamic_cast<const HarmonicAngleForce*>(&force)) {
            appendHarmonic(*angles, i, angles->getNumAngles(), StiffCoordinate::Kind::Angle, filter, terms);
            foundForce = true;
        }
        else if (scope == TermScope::HarmonicForces)
            continue;
        else if (byKind ? force.getName() == penaltyForceName : !hasNoPotential(force)) {
            const string which = message(className, ": the force '", force.getName(), "' (index ", i,
                                         " in the System) "),
                         inGroup = message("is in stiff force group ", force.getForceGroup(), ", but "),
                         change = ". Move the force to another group with setForceGroup(), or change"
                                  " setStiffForceGroups()";
            if (scope == TermScope::Harmonic)
                throw OpenMMException(
                        which +
                        (byKind ? "is stiff, but not a HarmonicBondForce. Make the penalties with the form Linear"
                                : inGroup + "is neither a HarmonicBondForce nor a HarmonicAngleForce" + change));
            const size_t first = terms.functionTerms.size();
            const string reason = appendFunctionTerms(system, i, terms.functions, terms.functionTerms);
            if (!reason.empty())
                throw OpenMMException(
                        which + (everything
                                         ? "has no Hessian, which the method needs of the whole potential: " + reason +
                                                   ". Use the method StiffHessian or Newmark, which needs that of"
                                                   " stiff forces only, or remove the force"
                                         : inGroup + "there is no Hessian for it: " + reason + change));
            vector<FunctionTerm>& all = terms.functionTerms;
            all.erase(std::remove_if(all.begin() + first, all.end(), [&](const auto& t) { return !filter.counts(t); }),
                      all.end());
            appendCoordinates(force, first, terms);
            foundForce = true;
        }
    }
    require(byKind || everything || foundForce, className,
            ": no force of the System is in the stiff force groups (mask ", stiffForceGroups, ") and integrated (mask ",
            integrationGroups, "). Put the stiff forces into one of these groups with setForceGroup(), or call",
            " setUseDefaultStiffForceGroups(true) to choose them by kind");
    return terms;
}
