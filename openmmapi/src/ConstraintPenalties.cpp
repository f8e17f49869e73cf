#include "openmmstiff/ConstraintPenalties.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/Masses.h"
#include "setup/CollectTerms.h"
#include "openmm/CustomBondForce.h"
#include "openmm/HarmonicBondForce.h"
#include "openmm/State.h"
#include <cmath>
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

ConstraintPenalties::ConstraintPenalties(System& system, double period, Form form) : form(form) {
    require(form == Squared || form == Linear, "ConstraintPenalties: there is no form ", int(form),
            "; give Squared or Linear");
    require(period > 0 && std::isfinite(period), "ConstraintPenalties: the period must be a positive number, not ",
            period, " ps; with a tenth of the period of the fastest motion that counts, the constraints hold well");
    require(system.getNumConstraints() > 0, "ConstraintPenalties: the System has no constraints to replace; create it",
            " with rigidWater=True or constraints=HBonds");
    const double omega = 2 * 3.14159265358979323846 / period;
    auto linear = std::make_unique<HarmonicBondForce>();
    auto squared = std::make_unique<CustomBondForce>("0.5*w2*(r^2-d^2)^2");
    squared->addPerBondParameter("d");
    squared->addPerBondParameter("w2");
    for (int i = 0; i < system.getNumConstraints(); i++) {
        Constraint constraint;
        system.getConstraintParameters(i, constraint.particle1, constraint.particle2, constraint.distance);
        require(form == Linear || constraint.distance > 0, "ConstraintPenalties: constraint ", i,
                ", between particles ", constraint.particle1, " and ", constraint.particle2,
                ", has the distance 0, whose square no penalty", " holds. Use the form Linear");
        const double inverse = inverseReducedMass(system, constraint.particle1, constraint.particle2);
        const double k = (inverse > 0 ? omega * omega / inverse : 0);
        // The second derivative of 1/2 w^2 (r^2 - d^2)^2 at r = d is 4 w^2 d^2.
        constraint.stiffness = (form == Linear ? k : k / (4 * constraint.distance * constraint.distance));
        require(inverse == 0 || (constraint.stiffness > 0 && std::isfinite(constraint.stiffness)),
                "ConstraintPenalties: with a period of ", period, " ps constraint ", i, " has a stiffness of ",
                constraint.stiffness, ". Periods are in ps; a tenth of the fastest motion's holds well");
        if (form == Linear)
            linear->addBond(constraint.particle1, constraint.particle2, constraint.distance, k);
        else
            squared->addBond(constraint.particle1, constraint.particle2, {constraint.distance, constraint.stiffness});
        constraints.push_back(constraint);
    }
    Force* force = (form == Linear ? static_cast<Force*>(linear.release()) : squared.release());
    force->setName(penaltyForceName);
    forceIndex = system.addForce(force);
    while (system.getNumConstraints() > 0)
        system.removeConstraint(system.getNumConstraints() - 1);
}

void ConstraintPenalties::getConstraintParameters(int index, int& particle1, int& particle2, double& distance,
                                                  double& stiffness) const {
    requireIndex("ConstraintPenalties", "constraint", "", index, getNumConstraints());
    particle1 = constraints[index].particle1;
    particle2 = constraints[index].particle2;
    distance = constraints[index].distance;
    stiffness = constraints[index].stiffness;
}

bool ConstraintPenalties::isIn(const Force& force) const {
    const auto* linear = dynamic_cast<const HarmonicBondForce*>(&force);
    const auto* squared = dynamic_cast<const CustomBondForce*>(&force);
    if (form == Linear ? linear == nullptr : squared == nullptr || squared->getNumPerBondParameters() != 2)
        return false;
    if ((form == Linear ? linear->getNumBonds() : squared->getNumBonds()) != getNumConstraints())
        return false;
    vector<double> parameters(2);
    for (int i = 0; i < getNumConstraints(); i++) {
        int particle1, particle2;
        if (form == Linear)
            linear->getBondParameters(i, particle1, particle2, parameters[0], parameters[1]);
        else
            squared->getBondParameters(i, particle1, particle2, parameters);
        const Constraint& constraint = constraints[i];
        if (particle1 != constraint.particle1 || particle2 != constraint.particle2 ||
            parameters[0] != constraint.distance || parameters[1] != constraint.stiffness)
            return false;
    }
    return true;
}

/** Wherever their Force is now: the index changes where others before it are removed. */
void ConstraintPenalties::requirePenalties(const System& system) const {
    bool found = false;
    for (int i = 0; i < system.getNumForces() && !found; i++)
        found = isIn(system.getForce(i));
    require(found, "ConstraintPenalties: the Context belongs to another System, with ", system.getNumParticles(),
            " particles, or the penalties have been changed: it has no Force with these ", getNumConstraints(),
            " springs. Give a Context of the System whose constraints were replaced");
}

vector<double> ConstraintPenalties::computeViolations(const Context& context) const {
    requirePenalties(context.getSystem());
    const vector<Vec3> positions = context.getState(State::Positions).getPositions();
    vector<double> violations;
    for (const Constraint& constraint : constraints) {
        const Vec3 d = positions[constraint.particle1] - positions[constraint.particle2];
        const double r = std::sqrt(d.dot(d));
        violations.push_back(form == Linear ? r - constraint.distance
                                            : (r - constraint.distance) * (r + constraint.distance));
    }
    return violations;
}

vector<double> ConstraintPenalties::computeMultipliers(const Context& context) const {
    vector<double> multipliers = computeViolations(context);
    for (size_t i = 0; i < multipliers.size(); i++)
        multipliers[i] *= -constraints[i].stiffness;
    return multipliers;
}
