#ifndef OPENMM_STIFF_SPOOK_INTEGRATOR_H_
#define OPENMM_STIFF_SPOOK_INTEGRATOR_H_

#include "StiffIntegrator.h"
#include "openmm/Vec3.h"
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace OpenMMStiff {

/**
 * An integrator for constrained systems with one linear solve a step: SPOOK, the regularized and stabilized variational
 * stepper of Lacoursiere (2007, equations 27 to 29). A holonomic constraint g(x) = 0 with the gradient G has a
 * compliance epsilon and a damping time tau, a velocity constraint A(x, t) v = w(t) a compliance gamma. With
 * Upsilon = 1/(1 + 4 tau/h), a step is
 *
 *     M v' = M v + h F + G^T lambda + A^T alpha,    x' = x + h v',
 *     G v' + 4 epsilon Upsilon/h^2 lambda = Upsilon (G v - 4/h g(x)),
 *     A v' + gamma/h alpha = w,
 *
 * where A and w are those of the positions x and the time in the middle of the step.
 *
 * No iteration is made: a violation is not removed but decays with the time constant tau, and in motion one of order
 * h^2 is always there. In return there is a solution whatever the constraints are, unless compliances are so small that
 * they are lost to rounding: constraints may depend on each other, contradict each other, or be violated at the start.
 * Linear ones with the same epsilon and tau are stable whatever epsilon > 0, tau > 0 and h are (Theorem 5.1); in
 * experiments so are those with values of their own. For well-posed constraints that are to hold exactly use
 * SHAKE: OpenMM's own integrators.
 *
 * The constraints of the System take part, those of rigid waters too, and more can be added here: distances, positions,
 * functions of the coordinates of a few particles, and constraints on velocities. Where a compliance or damping of 0
 * is given for one of them, it has the integrator's.
 *
 * As in OpenMM's VerletIntegrator, velocities belong to the time half a step before that of the positions; the kinetic
 * energy is computed from the mean of those before and after the present time. Then positions are of second order in h.
 * Where the next step would fail, it is that of the velocities as they are, so that energies help to find the reason.
 *
 * The method is dissipative: violations follow the motion with a lag of tau, and the constraint forces do work on them;
 * the energy changes at a mean rate of h tau^2/2 <lambda' c'> - epsilon tau <lambda'^2>, which is negative, with
 * c = v^T (Hess g) v. By default tau is a quarter of a step, with which molecules keep their energy; with the two steps
 * of the paper, setDampingSteps(2), which are meant for machines, they cool within picoseconds. Velocity constraints
 * whose direction turns at a rate omega take omega^2 h/2 of the velocity in a unit of time. For a constant temperature
 * add an AndersenThermostat to the System.
 */
class OPENMM_EXPORT_STIFF SpookIntegrator : public StiffIntegrator {
public:
    /**
     * Create a SpookIntegrator.
     *
     * @param stepSize   the step size with which to integrate the system [ps]
     */
    explicit SpookIntegrator(double stepSize);
    /**
     * Get the compliance epsilon of holonomic constraints [nm^2*mol/kJ]. See setCompliance() for details.
     */
    double getCompliance() const {
        return compliance;
    }
    /**
     * Set the compliance epsilon of holonomic constraints: the inverse of the force constant of the spring that a
     * constraint stands for. The default is the paper's number, 1e-8, in these units. It decides by how much
     * constraints give way to forces, g = -epsilon lambda, and to each other where they are contradictory; the smaller
     * it is, the closer to singular the linear system of dependent constraints becomes.
     *
     * @param compliance   the compliance [nm^2*mol/kJ]; an OpenMMException if it is not positive
     */
    void setCompliance(double compliance);
    /**
     * Get the compliance gamma of velocity constraints [nm^2*mol/(kJ*ps)]. See setVelocityCompliance() for details.
     */
    double getVelocityCompliance() const {
        return velocityCompliance;
    }
    /**
     * Set the compliance gamma of velocity constraints: the inverse of the friction coefficient of the dashpot that
     * such a constraint stands for. The default is 1e-8. It decides by how much velocities give way to forces.
     *
     * @param compliance   the compliance [nm^2*mol/(kJ*ps)]; an OpenMMException if it is not positive
     */
    void setVelocityCompliance(double compliance);
    /**
     * Get the damping time tau of holonomic constraints [ps]. See setDamping() for details.
     */
    double getDamping() const;
    /**
     * Set the damping time tau of holonomic constraints, with which violations decay, to a time that does not change
     * with the step size; see setDampingSteps() for one that does. The longer it is, the larger are the violations in
     * motion, (h^2/4 + h tau/2) v^T (Hess g) v, and the energy lost. By default it is a quarter of a step: with much
     * less molecules may blow up.
     *
     * @param damping   the damping time [ps]; an OpenMMException if it is not positive; the default is
     *                  setDampingSteps(0.25)
     */
    void setDamping(double damping);
    /**
     * Get the damping time of holonomic constraints in steps of the present size.
     */
    double getDampingSteps() const;
    /**
     * Set the damping time tau of holonomic constraints to so many steps, whatever their size, in place of a time that
     * was set with setDamping(). The default is a quarter, for molecules; the paper's number is 2, for machines.
     *
     * @param steps   the number of steps; an OpenMMException if it is not positive
     */
    void setDampingSteps(double steps);
    /**
     * Get whether the damping time follows the step. See setUseDampingSteps() for details.
     */
    bool getUseDampingSteps() const {
        return dampingSteps > 0;
    }
    /**
     * Set whether the damping time follows the step, as a number of steps, which is the default.
     *
     * @param use   whether it follows the step; as long as neither setDamping() nor setDampingSteps() is called, it is
     *              what it is at the present step size; an OpenMMException if that is 0, unless it does so already
     */
    void setUseDampingSteps(bool use);
    /**
     * Set the compliance and damping of one of the System's constraints. A change takes effect at the next step.
     *
     * @param constraint   the index of the constraint in the System
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void setSystemConstraintParameters(int constraint, double compliance, double damping);
    /**
     * Get the compliance and damping that have been set for one of the System's constraints, 0 if none have.
     *
     * @param constraint   the index of the constraint in the System
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void getSystemConstraintParameters(int constraint, double& compliance, double& damping) const;
    /**
     * Get the indices of the System's constraints whose compliance and damping have been set.
     */
    std::vector<int> getSystemConstraintsWithParameters() const;
    /**
     * Get the number of distance constraints that have been added.
     */
    int getNumDistanceConstraints() const {
        return distances.size();
    }
    /**
     * Add a constraint on the distance between two particles, g = |x1 - x2| - d. One of them may be massless, and is
     * then a fixed point. While they are in one place they have no direction, and the constraint exerts no force.
     *
     * @param particle1    the index of one particle
     * @param particle2    the index of the other particle
     * @param distance     the distance d [nm]; an OpenMMException if it is not positive
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     * @return the index of the distance constraint that was added
     */
    int addDistanceConstraint(int particle1, int particle2, double distance, double compliance = 0, double damping = 0);
    /**
     * Get the parameters of a distance constraint.
     *
     * @param index        the index of the distance constraint
     * @param particle1    the index of one particle
     * @param particle2    the index of the other particle
     * @param distance     the distance d [nm]
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void getDistanceConstraintParameters(int index, int& particle1, int& particle2, double& distance,
                                         double& compliance, double& damping) const;
    /**
     * Set the parameters of a distance constraint. A change takes effect at the next step.
     *
     * @param index        the index of the distance constraint
     * @param particle1    the index of one particle
     * @param particle2    the index of the other particle
     * @param distance     the distance d [nm]; an OpenMMException if it is not positive
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void setDistanceConstraintParameters(int index, int particle1, int particle2, double distance,
                                         double compliance = 0, double damping = 0);
    /**
     * Get the number of position constraints that have been added.
     */
    int getNumPositionConstraints() const {
        return places.size();
    }
    /**
     * Add a constraint that holds a particle at a position. It counts as three constraints, one for each component,
     * g = x - x0 and so on.
     *
     * @param particle     the index of the particle
     * @param position     the position [nm]
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     * @return the index of the position constraint that was added
     */
    int addPositionConstraint(int particle, const OpenMM::Vec3& position, double compliance = 0, double damping = 0);
    /**
     * Get the parameters of a position constraint.
     *
     * @param index        the index of the position constraint
     * @param particle     the index of the particle
     * @param position     the position [nm]
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void getPositionConstraintParameters(int index, int& particle, OpenMM::Vec3& position, double& compliance,
                                         double& damping) const;
    /**
     * Set the parameters of a position constraint. A change takes effect at the next step.
     *
     * @param index        the index of the position constraint
     * @param particle     the index of the particle
     * @param position     the position [nm]
     * @param compliance   its compliance [nm^2*mol/kJ], or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void setPositionConstraintParameters(int index, int particle, const OpenMM::Vec3& position, double compliance = 0,
                                         double damping = 0);
    /**
     * Get the number of holonomic constraints given as expressions that have been added.
     */
    int getNumHolonomicConstraints() const {
        return holonomic.size();
    }
    /**
     * Add a holonomic constraint g(x) = 0 between a few particles, given as an expression in their coordinates x1, y1,
     * z1, x2, ... in nm and the functions distance(p1, p2), angle(p1, p2, p3) and dihedral(p1, p2, p3, p4), as for a
     * CustomCompoundBondForce. Mistakes in it are reported when a Context is created.
     *
     * @param particles    the indices of the particles p1, p2, ...
     * @param expression   g
     * @param compliance   its compliance, in the square of the units of g times mol/kJ, or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     * @return the index of the holonomic constraint that was added
     */
    int addHolonomicConstraint(const std::vector<int>& particles, const std::string& expression, double compliance = 0,
                               double damping = 0);
    /**
     * Get the parameters of a holonomic constraint.
     *
     * @param index        the index of the holonomic constraint
     * @param particles    the indices of the particles p1, p2, ...
     * @param expression   g
     * @param compliance   its compliance, in the square of the units of g times mol/kJ, or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void getHolonomicConstraintParameters(int index, std::vector<int>& particles, std::string& expression,
                                          double& compliance, double& damping) const;
    /**
     * Set the parameters of a holonomic constraint. A change takes effect at the next step.
     *
     * @param index        the index of the holonomic constraint
     * @param particles    the indices of the particles p1, p2, ...
     * @param expression   g
     * @param compliance   its compliance, in the square of the units of g times mol/kJ, or 0 for that of the integrator
     * @param damping      its damping time [ps], or 0 for that of the integrator
     */
    void setHolonomicConstraintParameters(int index, const std::vector<int>& particles, const std::string& expression,
                                          double compliance = 0, double damping = 0);
    /**
     * Get the number of velocity constraints that have been added.
     */
    int getNumVelocityConstraints() const {
        return onVelocities.size();
    }
    /**
     * Add a constraint on the velocities of a few particles, sum_k c_k . v_k = w: a rolling contact, a driven joint.
     * The coefficients and w are expressions, see addHolonomicConstraint(), and may depend on the time t in ps too:
     * that in the middle of a step, or, where velocities are drawn, half a step before the present. Mistakes in them
     * are reported when a Context is created.
     *
     * @param particles      the indices of the particles p1, p2, ...
     * @param coefficients   the x, y and z components of c_1, then those of c_2, ... [expression]
     * @param rate           w [expression], in nm/ps if the coefficients are numbers
     * @param compliance     its compliance [nm^2*mol/(kJ*ps)], or 0 for that of the integrator
     * @return the index of the velocity constraint that was added
     */
    int addVelocityConstraint(const std::vector<int>& particles, const std::vector<std::string>& coefficients,
                              const std::string& rate = "0", double compliance = 0);
    /**
     * Get the parameters of a velocity constraint.
     *
     * @param index          the index of the velocity constraint
     * @param particles      the indices of the particles p1, p2, ...
     * @param coefficients   the x, y and z components of c_1, then those of c_2, ...
     * @param rate           w, in nm/ps if the coefficients are numbers
     * @param compliance     its compliance [nm^2*mol/(kJ*ps)], or 0 for that of the integrator
     */
    void getVelocityConstraintParameters(int index, std::vector<int>& particles, std::vector<std::string>& coefficients,
                                         std::string& rate, double& compliance) const;
    /**
     * Set the parameters of a velocity constraint. A change takes effect at the next step.
     *
     * @param index          the index of the velocity constraint
     * @param particles      the indices of the particles p1, p2, ...
     * @param coefficients   the x, y and z components of c_1, then those of c_2, ... [expression]
     * @param rate           w [expression], in nm/ps if the coefficients are numbers
     * @param compliance     its compliance [nm^2*mol/(kJ*ps)], or 0 for that of the integrator
     */
    void setVelocityConstraintParameters(int index, const std::vector<int>& particles,
                                         const std::vector<std::string>& coefficients, const std::string& rate = "0",
                                         double compliance = 0);
    /**
     * Compute by how much each constraint is violated now: g, and A v - w for velocity constraints, with w at the time
     * of the velocities, half a step ago. The constraints are those of the System, then distances, three for each
     * position constraint, holonomic ones, and those of velocities, each kind in the order of their indices.
     *
     * @return the violations, in nm for distances and positions, in nm/ps or the units of their expressions for others;
     *         0 where no particle can move
     */
    std::vector<double> computeViolations();
    /**
     * Get the Lagrange multiplier of each constraint in the last step, the force that it exerted along the gradient,
     * M a = F + lambda grad g, in the order of computeViolations(). (The lambda of the paper is h times as much.)
     *
     * @return the multipliers, in kJ/mol/nm for distances and positions; an OpenMMException if no step has been made
     */
    std::vector<double> getMultipliers();
    /**
     * Compute the instantaneous temperature of the System, from its kinetic energy and its degrees of freedom: three
     * for each particle with mass, less the independent constraints, of the System and of this integrator, and less
     * three if there is a CMMotionRemover.
     *
     * @return the temperature [K]
     */
    double computeSystemTemperature();

protected:
    const char* getClassName() const override {
        return "SpookIntegrator";
    }
    bool kineticEnergyRequiresForce() const override {
        return true;
    }
    std::vector<OpenMM::Vec3> getVelocitiesForTemperature(const OpenMM::System& system, double temperature,
                                                          int randomSeed) const override;

private:
    double compliance, velocityCompliance, damping, dampingSteps; // one of the last two is 0
    // The parameters of constraints, in the order of their getters; those of the System by its index.
    std::map<int, std::pair<double, double>> ofSystem;
    std::vector<std::tuple<int, int, double, double, double>> distances;
    std::vector<std::tuple<int, OpenMM::Vec3, double, double>> places;
    std::vector<std::tuple<std::vector<int>, std::string, double, double>> holonomic;
    std::vector<std::tuple<std::vector<int>, std::vector<std::string>, std::string, double>> onVelocities;
    int revision;
    friend OPENMM_EXPORT_STIFF int getConstraintRevision(const SpookIntegrator& integrator);
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SPOOK_INTEGRATOR_H_ */
