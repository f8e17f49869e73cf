#ifndef OPENMM_STIFF_CONSTRAINT_PENALTIES_H_
#define OPENMM_STIFF_CONSTRAINT_PENALTIES_H_

#include "internal/windowsExportStiff.h"
#include "openmm/Context.h"
#include "openmm/Force.h"
#include "openmm/System.h"
#include <vector>

namespace OpenMMStiff {

/**
 * Stiff springs instead of a System's constraints: a penalty 1/2 w^2 g^2 for each constraint g = 0 (Tao and
 * Owhadi 2014, equation 7). The stiffer the springs, the closer the motion is to the constrained one, with an error of
 * order 1/w^2, and the average of -w^2 g over a short time is the Lagrange multiplier of the constraint (Theorem 1.2).
 *
 * The integrators of the Zhang-Skeel family take such springs as stiff terms by themselves; the impulse integrators
 * take those of the form Linear. Start from velocities that setVelocitiesToTemperature() draws, not from those of a
 * constrained simulation.
 */
class OPENMM_EXPORT_STIFF ConstraintPenalties {
public:
    /**
     * This is an enumeration of the forms of a constraint between two particles at the distance r.
     */
    enum Form {
        /**
         * g = r^2 - d^2, smooth for all positions, as in the paper: a CustomBondForce.
         */
        Squared = 0,
        /**
         * g = r - d: a HarmonicBondForce.
         */
        Linear = 1
    };
    /**
     * Replace all constraints of a System, those of rigid waters too, by penalties. Do so before a Context is created.
     *
     * @param system   the System: its constraints are removed, and a Force with the penalties is added
     * @param period   the period with which each pair of particles would vibrate on its own spring [ps]; it fixes the
     *                 spring from the reduced mass of the pair
     * @param form     the form of the constraints
     * @throws OpenMMException   if the System has no constraints, or one of length 0 that is to be squared, or the
     *                           period is not positive
     */
    ConstraintPenalties(OpenMM::System& system, double period, Form form);
    /**
     * Get the form of the constraints.
     */
    Form getForm() const {
        return form;
    }
    /**
     * Get the index in the System of the Force with the penalties.
     */
    int getForceIndex() const {
        return forceIndex;
    }
    /**
     * Get the number of constraints that were replaced.
     */
    int getNumConstraints() const {
        return constraints.size();
    }
    /**
     * Get a constraint that was replaced.
     *
     * @param index       the index of the constraint, from 0
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param distance    the distance d [nm]
     * @param stiffness   w^2: in kJ/mol/nm^4 for the form Squared, in kJ/mol/nm^2 for Linear
     */
    void getConstraintParameters(int index, int& particle1, int& particle2, double& distance, double& stiffness) const;
    /**
     * Compute how far each constraint is violated: g at the Context's positions.
     *
     * @param context   a Context of the System; an OpenMMException if its System has no Force with these
     *                  penalties
     * @return g, one for each constraint: in nm^2 for the form Squared, in nm for Linear
     */
    std::vector<double> computeViolations(const OpenMM::Context& context) const;
    /**
     * Compute -w^2 g at the Context's positions, whose average over a short time is the Lagrange multiplier lambda of
     * each constraint: M a = F + lambda grad g.
     *
     * @param context   a Context of the System; an OpenMMException if its System has no Force with these
     *                  penalties
     * @return -w^2 g, one for each constraint: in kJ/mol/nm^2 for the form Squared, in kJ/mol/nm for Linear
     */
    std::vector<double> computeMultipliers(const OpenMM::Context& context) const;

private:
    struct Constraint {
        int particle1, particle2;
        double distance, stiffness;
    };
    bool isIn(const OpenMM::Force& force) const;
    void requirePenalties(const OpenMM::System& system) const;

    Form form;
    int forceIndex;
    std::vector<Constraint> constraints;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_CONSTRAINT_PENALTIES_H_ */
