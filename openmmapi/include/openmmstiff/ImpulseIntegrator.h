#ifndef OPENMM_STIFF_IMPULSE_INTEGRATOR_H_
#define OPENMM_STIFF_IMPULSE_INTEGRATOR_H_

#include "StiffIntegrator.h"
#include "internal/StiffForceSelection.h"

namespace OpenMMStiff {

/**
 * A multiple time step integrator for systems with stiff bonds and angles, at constant energy: the projected impulse
 * method and its relatives (Lubich and Weiss 2014). With the potential split as V = V0 + V1, V1 the stiff terms, M the
 * masses and h the step size, a step is
 *
 *     v <- v + h/2 a0(x)
 *     (x, v) <- the motion over h under V1 alone, by micro-steps of velocity Verlet
 *     v <- v + h/2 a0(x)
 *
 * V1 couples atoms of one molecule only, so that the micro-steps are taken molecule by molecule and need no
 * evaluation of the force field; there is one in a step. The kick a0 is what the slow forces -grad V0 do to
 * the velocities; setKick() chooses it. The default leaves alone the directions of the fastest vibrations: these
 * keep their actions (energy over frequency), and the rest moves as molecules with constraints do, at the same step
 * sizes, with an error of order h^2 + 1/(frequency of the vibrations).
 */
class OPENMM_EXPORT_STIFF ImpulseIntegrator : public StiffIntegrator, public StiffForceSelection {
public:
    /**
     * This is an enumeration of the ways in which slow forces act on the velocities. P(x) is the projection on the
     * tangent space of the stiff coordinates (bond lengths and angles) that setProjectedPeriod() chooses, orthogonal
     * in the metric of the masses.
     */
    enum KickMethod {
        /**
         * a0 = -M^-1 grad V0(x): the impulse method, also known as Verlet-I or r-RESPA. Symplectic, but it excites the
         * vibrations, most of all where h is close to a multiple of half a period.
         */
        Plain = 0,
        /**
         * a0 = -M^-1 A'(x)^T grad V0(A(x)), where A(x) is the molecule with the same coordinates brought to their
         * equilibrium values (the point nearest to x in the metric of the masses). Symplectic. The equilibrium
         * values must be compatible with each other, which in rings they often are not.
         */
        Mollified = 1,
        /**
         * a0 = -P(x) M^-1 grad V0(x). Not symplectic, but time-reversible, and for any molecule.
         */
        Projected = 2
    };
    /**
     * Create an ImpulseIntegrator.
     *
     * @param stepSize   the step size with which to integrate the system [ps]
     */
    explicit ImpulseIntegrator(double stepSize);
    /**
     * Get the way in which slow forces act on the velocities. The default is Projected.
     */
    KickMethod getKick() const {
        return kick;
    }
    /**
     * Set the way in which slow forces act on the velocities: Projected, Mollified or Plain.
     *
     * @param kick   the way; an OpenMMException if it is none of these
     */
    void setKick(KickMethod kick);
    /**
     * Get the period below which coordinates are projected [ps]. See setProjectedPeriod() for details.
     */
    double getProjectedPeriod() const {
        return projectedPeriod;
    }
    /**
     * Set which stiff coordinates the projected and the mollified kick leave alone: those that vibrate with a period
     * shorter than this when all others are at equilibrium. The default, 0.02 ps, chooses bonds to hydrogen and
     * the angle of flexible water. In a protein, the bonds between heavier atoms and the angles vibrate at
     * the frequencies of angles and torsions; the method needs a gap between the frequencies that it projects and
     * all others, and heats the molecule if there is none.
     *
     * @param period   the period [ps]; infinity for all stiff coordinates; an OpenMMException if it is negative
     */
    void setProjectedPeriod(double period);
    /**
     * Get the number of micro-steps in a step that has been set, 0 while it is chosen: computeNumMicroSteps() tells
     * what is chosen. See setNumMicroSteps() for details.
     */
    int getNumMicroSteps() const {
        return numMicroSteps;
    }
    /**
     * Set the number of micro-steps of the motion under the stiff terms in each step. By default it is chosen, see
     * setUseDefaultNumMicroSteps(). ImpulseLangevinIntegrator divides them between two halves of a step and therefore
     * takes one more if the number is odd.
     *
     * A number so small that a micro-step exceeds the stability limit of Verlet, omega d = 2, leads to
     * an OpenMMException at the next step.
     *
     * @param number   the number of micro-steps; an OpenMMException if it is not positive
     */
    void setNumMicroSteps(int number);
    /**
     * Get whether the number of micro-steps is chosen. See setUseDefaultNumMicroSteps() for details.
     */
    bool getUseDefaultNumMicroSteps() const {
        return numMicroSteps == 0;
    }
    /**
     * Set whether the number of micro-steps is chosen, which is the default: there are as many as it takes to keep
     * omega d below 0.35, where d is the size of a micro-step and omega bounds the angular frequency of the stiffest
     * mode; see computeNumMicroSteps().
     *
     * If more than 1000 would have to be chosen, a step fails with an OpenMMException: its size is then often meant in
     * femtoseconds. Set the number if it is not.
     *
     * @param use   whether it is chosen; false is for where setNumMicroSteps() has set a number, and else an
     *              OpenMMException
     */
    void setUseDefaultNumMicroSteps(bool use);
    /**
     * Compute the number of micro-steps that a step takes in the present Context. The frequency of the stiffest
     * mode is taken at the positions that were set last.
     *
     * @return the number of micro-steps; an OpenMMException if a step with it would fail
     */
    int computeNumMicroSteps();

protected:
    const char* getClassName() const override {
        return "ImpulseIntegrator";
    }
    std::unique_ptr<StiffMotion> findStiffMotion() override;

private:
    KickMethod kick;
    double projectedPeriod;
    int numMicroSteps; // 0 if it is chosen
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_IMPULSE_INTEGRATOR_H_ */
