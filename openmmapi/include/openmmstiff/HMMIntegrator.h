#ifndef OPENMM_STIFF_HMM_INTEGRATOR_H_
#define OPENMM_STIFF_HMM_INTEGRATOR_H_

#include "StiffIntegrator.h"
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * An integrator for systems that are vibrated: the asynchronous heterogeneous multiscale method of Calvo and Sanz-Serna
 * (2010). The forces f(x, theta), theta = omega t, oscillate fast and may be large, of the order of omega; the motion is
 * slow but for a small fast part, and obeys an averaged force F(X) that one need not know. A macro-step of size H is
 * velocity Verlet with that force,
 *
 *     V <- V + H/2 M^-1 F(X),    X <- X + H V,    V <- V + H/2 M^-1 F(X),
 *
 * and F(X) is found by a micro-integration of M x'' = f(x, theta) that starts afresh from x = X at rest, at theta = 0:
 * the forces along it are averaged over a window of some periods. Constraints of the System are those of SHAKE in both;
 * averaged then are forces and constraint forces. What the step takes does not depend on omega. It is
 * time-reversible, and symplectic up to O(1/omega) if the forces are gradients.
 *
 * The oscillating force is any Force that depends on a global parameter, the phase theta in radians, with a period of
 * 2 pi and an average over it that is of the order of 1; if the forces at theta and theta + 2 pi differ where a run
 * starts, its first step is an error. After a step, the Context is at the macro-state, and the parameter has the value
 * that it had before. The vibration must be so fast that the averaged motion hardly goes on during the window.
 */
class OPENMM_EXPORT_STIFF HMMIntegrator : public StiffIntegrator {
public:
    /**
     * This is an enumeration of the filters by which the forces of a micro-integration are averaged.
     */
    enum Filter {
        /**
         * Weights proportional to exp(5 / (s^2 - 1)), -1 < s < 1, over a window of several periods, half of it before
         * theta = 0 (equations 2.13 and 2.15): for all forces.
         */
        Bump = 0,
        /**
         * The same weights over the half of the window after theta = 0, for forces that are even in theta.
         */
        HalfBump = 1,
        /**
         * Equal weights over half a period (equation 2.16), for forces that are even in theta: by far the cheapest.
         */
        Simple = 2
    };
    /**
     * This is an enumeration of the ways in which macro-steps treat constraints. Positions are the same with both.
     */
    enum MacroMethod {
        /**
         * Velocities are not projected (section 4.2).
         */
        SHAKE = 0,
        /**
         * Velocities satisfy the constraints (section 4.3).
         */
        RATTLE = 1
    };
    /**
     * Create an HMMIntegrator.
     *
     * @param macroStepSize      the size H of the macro-steps, with which to integrate the averaged motion [ps]
     * @param angularFrequency   the angular frequency omega of the vibration [radian/ps]; an OpenMMException if it is
     *                           not positive
     */
    HMMIntegrator(double macroStepSize, double angularFrequency);
    /**
     * Get the angular frequency omega of the vibration [radian/ps]. In Python the unit of the Quantity is 1/ps.
     */
    double getAngularFrequency() const {
        return frequency;
    }
    /**
     * Set the angular frequency omega of the vibration.
     *
     * @param frequency   the angular frequency [radian/ps]; an OpenMMException if it is not positive
     */
    void setAngularFrequency(double frequency);
    /**
     * Get the name of the global parameter that is the phase.
     */
    std::string getPhaseParameter() const {
        return phaseParameter;
    }
    /**
     * Set the name of the global parameter that is the phase theta of the vibration, in radians. The default is theta.
     *
     * @param name   the name
     */
    void setPhaseParameter(const std::string& name) {
        phaseParameter = name;
    }
    /**
     * Get the filter by which forces are averaged.
     */
    Filter getFilter() const {
        return filter;
    }
    /**
     * Set the filter by which forces are averaged. The default is Bump. If a filter for even forces is given, and the
     * forces at theta and -theta differ at the positions where a run starts, its first step is an error.
     *
     * @param filter   the filter
     */
    void setFilter(Filter filter);
    /**
     * Get the number of micro-steps in a period of the vibration.
     */
    int getNumMicroStepsPerPeriod() const {
        return numMicroSteps;
    }
    /**
     * Set the number of micro-steps in a period of the vibration. The default is 40. The error of the averaged force
     * goes as its inverse square, so that it should grow with the inverse of the macro-step.
     *
     * @param number   the number; an OpenMMException if it is odd, less than 4 or more than
     *                 10000
     */
    void setNumMicroStepsPerPeriod(int number);
    /**
     * Get the length of the window of the filters Bump and HalfBump, in periods of the vibration.
     */
    int getNumPeriods() const {
        return numPeriods;
    }
    /**
     * Set the length of the window of the filters Bump and HalfBump, in periods of the vibration. The default is 40.
     * (With HalfBump only half of it is integrated over.)
     *
     * @param number   the number; an OpenMMException if it is odd, less than 2 or more than
     *                 10000
     */
    void setNumPeriods(int number);
    /**
     * Get which force groups have been chosen to be vibrated; 0 while they are those of the phase. See
     * setVibratedForceGroups() for details.
     */
    int getVibratedForceGroups() const {
        return vibratedForceGroups;
    }
    /**
     * Set which force groups are evaluated in micro-steps, as a set of bit flags; all others are evaluated once a
     * macro-step. By default they are those of the phase, see setUseDefaultVibratedForceGroups(). Put what
     * does not depend on it into other groups, or it is evaluated in each micro-step too; that costs time, and is more
     * accurate by O(1/omega) if such forces vary along the vibration.
     *
     * @param groups   the bit flags of the vibrated force groups; an OpenMMException if there is none, call
     *                 setUseDefaultVibratedForceGroups(true) to restore the default
     */
    void setVibratedForceGroups(int groups);
    /**
     * Get whether the vibrated groups are those of the phase. See setUseDefaultVibratedForceGroups() for details.
     */
    bool getUseDefaultVibratedForceGroups() const {
        return vibratedForceGroups == 0;
    }
    /**
     * Set whether the vibrated groups are those of the forces that depend on the phase, which is the default.
     *
     * @param use   whether they are; false is for where setVibratedForceGroups() has chosen groups, and else an
     *              OpenMMException
     */
    void setUseDefaultVibratedForceGroups(bool use);
    /**
     * Compute the number of evaluations of the vibrated forces in a macro-step.
     */
    int computeNumMicroEvaluations() const;
    /**
     * Get how constraints are treated in macro-steps. For research: see setMacroMethod() for details.
     */
    MacroMethod getMacroMethod() const {
        return macroMethod;
    }
    /**
     * Set how constraints are treated in macro-steps. The default is RATTLE. For research: SHAKE, the paper's other
     * way.
     *
     * @param method   the method
     */
    void setMacroMethod(MacroMethod method);

protected:
    const char* getClassName() const override {
        return "HMMIntegrator";
    }

private:
    double frequency;
    std::string phaseParameter;
    Filter filter;
    MacroMethod macroMethod;
    int numMicroSteps, numPeriods, vibratedForceGroups; // the groups are 0 if they are those of the phase
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_HMM_INTEGRATOR_H_ */
