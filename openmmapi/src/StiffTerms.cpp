#include "openmmstiff/internal/StiffTerms.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/CMMotionRemover.h"
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

Pair ordered(int i, int j) {
    return {std::min(i, j), std::max(i, j)};
}

void readTerm(const HarmonicBondForce& force, StiffTerm& term) {
    force.getBondParameters(term.index, term.particles[0], term.particles[1], term.s0, term.k);
}

void readTerm(const HarmonicAngleForce& force, StiffTerm& term) {
    force.getAngleParameters(term.index, term.particles[0], term.particles[1], term.particles[2], term.s0, term.k);
}

template <class ForceType>
void appendTerms(const ForceType& force, int forceIndex, int numTerms, StiffTerm::Coordinate coordinate,
                 const std::set<Pair>& constraints, vector<StiffTerm>& terms) {
    for (int i = 0; i < numTerms; i++) {
        StiffTerm term = {coordinate, {-1, -1, -1}, 0, 0, force.usesPeriodicBoundaryConditions(), forceIndex, i};
        readTerm(force, term);
        bool degenerate = false, constrained = true;
        for (int a = 0; a < term.getNumParticles(); a++)
            for (int b = 0; b < a; b++) {
                degenerate |= term.particles[a] == term.particles[b];
                constrained &= constraints.count(ordered(term.particles[a], term.particles[b])) > 0;
            }
        if (!degenerate && !constrained)
            terms.push_back(term);
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

vector<StiffTerm> OpenMMStiff::collectStiffTerms(const System& system, int stiffForceGroups, int integrationGroups,
                                                 const string& className) {
    std::set<Pair> constraints;
    for (int i = 0; i < system.getNumConstraints(); i++) {
        int particle1, particle2;
        double distance;
        system.getConstraintParameters(i, particle1, particle2, distance);
        constraints.insert(ordered(particle1, particle2));
    }
    const bool byKind = (stiffForceGroups == 0);
    vector<StiffTerm> terms;
    bool foundForce = false;
    for (int i = 0; i < system.getNumForces(); i++) {
        const Force& force = system.getForce(i);
        const int group = 1 << force.getForceGroup();
        if ((integrationGroups & group) == 0 || (!byKind && (stiffForceGroups & group) == 0))
            continue;
        if (auto bonds = dynamic_cast<const HarmonicBondForce*>(&force)) {
            appendTerms(*bonds, i, bonds->getNumBonds(), StiffTerm::Coordinate::Distance, constraints, terms);
            foundForce = true;
        }
        else if (auto angles = dynamic_cast<const HarmonicAngleForce*>(&force)) {
            appendTerms(*angles, i, angles->getNumAngles(), StiffTerm::Coordinate::Angle, constraints, terms);
            foundForce = true;
        }
        else if (!byKind && !hasNoPotential(force)) {
            std::stringstream message;
            message << className << ": the force '" << force.getName() << "' (index " << i
                    << " in the System) is in stiff force group " << force.getForceGroup()
                    << ", but there is no Hessian for it; stiff forces can be HarmonicBondForce and HarmonicAngleForce."
                    << " Move the force to another group with setForceGroup(), or change setStiffForceGroups()";
            throw OpenMMException(message.str());
        }
    }
    if (!byKind && !foundForce) {
        std::stringstream message;
        message << className << ": no force of the System is in the stiff force groups (mask " << stiffForceGroups
                << ") and integrated (mask " << integrationGroups
                << "). Put the stiff forces into one of these groups with setForceGroup(), or call"
                << " setStiffForceGroups(0) to choose them by kind";
        throw OpenMMException(message.str());
    }
    return terms;
}

bool OpenMMStiff::updateStiffTermParameters(const System& system, vector<StiffTerm>& terms) {
    bool changed = false;
    for (StiffTerm& term : terms) {
        const double k = term.k, s0 = term.s0;
        const Force& force = system.getForce(term.force);
        if (term.coordinate == StiffTerm::Coordinate::Distance)
            readTerm(dynamic_cast<const HarmonicBondForce&>(force), term);
        else
            readTerm(dynamic_cast<const HarmonicAngleForce&>(force), term);
        changed |= term.k != k || term.s0 != s0;
    }
    return changed;
}
