#ifndef OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_
#define OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_

#include "StiffIntegrator.h"
#include "internal/StiffForceSelection.h"
#include "openmm/Vec3.h"

namespace OpenMMStiff {

/**
 * A linearly implicit integrator for systems with stiff terms, at constant energy: the family of Zhang and Skeel (Tao
 * and Owhadi 2014). With the potential split as V = V0 + V1, V1 the stiff terms, M the masses, h the step size and b
 * the parameter beta, a step of the default method, StiffHessian (their Integrator 5, Z&Ss stiff), is
 *
 *     v <- v + h/2 a(x)
 *     x <- x + h v
 *     (M + b h^2 H1(x)) a(x) = -grad V0(x) - grad V1(x),   H1 = Hess V1
 *     v <- v + h/2 a(x)
 *
 * V1 couples atoms of one molecule only, so that the linear system falls into one small block for each connected
 * group of atoms. There is one force evaluation in a step. The method is of second order, time-reversible, and
 * conserves linear momentum; it is not symplectic. setMethod() chooses its relatives, some of which are.
 *
 * The Context holds q = x + b h^2 a(x), because at b = 1/4 it is q that has the Boltzmann distribution of the
 * stiff coordinates; getPropagatedPositions() returns the papers' x. Particles bound by System constraints
 * show x itself.
 */
class OPENMM_EXPORT_STIFF ZhangSkeelIntegrator : public StiffIntegrator, public StiffForceSelection {
public:
    /**
     * This is an enumeration of the methods. In all but the last, a step is x <- x + h v + h^2/2 f(x) and
     * v <- v + h/2 (f + f'), with f' at the new positions, and they differ in f. F = -grad V, and Integrator numbers
     * are those of Tao and Owhadi 2014.
     */
    enum Method {
        /**
         * f = a, (M + b h^2 H1) a = F, with the Hessian of the stiff forces alone: the default (Z&Ss stiff, Integrator
         * 5). Not symplectic.
         */
        StiffHessian = 0,
        /**
         * f = a, (M + b h^2 H) a = F, with the Hessian H of the whole potential (Z&Ss, Integrator 4). Not symplectic.
         * Every Force must have a Hessian, which a NonbondedForce has only without a cutoff.
         */
        FullHessian = 1,
        /**
         * f = a - 1/2 b^2 h^4 M^-1 (a . V''' . a), (M + b h^2 H) a = F, with third derivatives of the potential (Z&S,
         * the method of Zhang and Skeel itself, Integrator 1). Symplectic: conserves the angular momentum, and the
         * energy without drift at moderate step sizes. V is the whole potential by default; if setStiffForceGroups()
         * has chosen groups, V is that of the stiff forces, to which alone a belongs, and f has M^-1 F0 added, with F0
         * the other forces: that is symplectic too.
         */
        ThirdDerivatives = 2,
        /**
         * f = a, M a = F(x + b h^2 a): the push-forward Newmark method (Integrator 3). Symplectic, to the tolerance of
         * setNewtonTolerance(). The nonlinear equations are solved by Newton's method with the Hessian of the stiff
         * forces; each iteration takes an evaluation of all forces.
         */
        Newmark = 3,
        /**
         * For research: the Newmark method (Integrator 2) with one Newton iteration for the new positions: with
         * a = M^-1 F(x), x <- x + (M + b h^2 H1)^-1 M (h v + h^2/2 a) and v <- v + h/2 (a + a'). Neither symplectic
         * nor time-reversible: energy and angular momentum drift.
         */
        NewmarkOneIteration = 4
    };
    /**
     * Create a ZhangSkeelIntegrator.
     *
     * @param stepSize   the step size with which to integrate the system [ps]
     */
    explicit ZhangSkeelIntegrator(double stepSize);
    /**
     * Get the method. The default is StiffHessian.
     */
    Method getMethod() const {
        return method;
    }
    /**
     * Set the method. If a Context exists, the change takes effect at the next step.
     *
     * @param method   the method; an OpenMMException if it is none of the enumeration or, for the System of a Context
     *                 that exists, not possible, as where it needs the Hessian of a Force that has none
     */
    void setMethod(Method method);
    /**
     * Get the tolerance of Newton's method. The default is 0. See setNewtonTolerance() for details.
     */
    double getNewtonTolerance() const {
        return newtonTolerance;
    }
    /**
     * Set the tolerance of Newton's method, for the method Newmark: iterations end when no acceleration changes by more
     * than this, relative to the largest acceleration in the System. With 0, the default, they end at what the
     * forces of the platform allow: 1e-10 in double precision; where forces are rounded (the CPU platform's
     * NonbondedForce, below 1e-4; devices, below 1e-2, or 1e-6 in double precision) as soon as changes hardly become
     * smaller.
     *
     * Where a tolerance cannot be met, a step fails with an OpenMMException that says what has been reached. Forces
     * that jump at a cutoff leave equations without a solution: give them a switching function.
     *
     * @param tolerance   the tolerance (dimensionless); an OpenMMException if it is negative
     */
    void setNewtonTolerance(double tolerance);
    /**
     * Get how many iterations Newton's method took in the last step; 0 if the method has none. Each is an evaluation of
     * the forces.
     */
    int getNumNewtonIterations() const;
    /**
     * Get the parameter b of the method (beta in Tao and Owhadi 2014). The default is 0.25.
     */
    double getBeta() const {
        return beta;
    }
    /**
     * Set the parameter b of the method (beta in Tao and Owhadi 2014). Linear stiff modes are stable for any step
     * size if b >= 1/4; at b = 1/4 their positions have the exact Boltzmann variance. With b = 0 the method is
     * velocity Verlet.
     *
     * @param beta   the parameter (dimensionless); an OpenMMException if it is negative
     */
    void setBeta(double beta);
    /**
     * Get the positions x that the method propagates. They differ from the Context's positions
     * by the offset b h^2 a(x), which is 0 after Context::setPositions().
     *
     * @return the position of every particle [nm]
     */
    std::vector<OpenMM::Vec3> getPropagatedPositions() const;

protected:
    const char* getClassName() const override {
        return "ZhangSkeelIntegrator";
    }
    std::unique_ptr<StiffMotion> findStiffMotion() override;
    bool isLimitedByStiffMotion() const override {
        return true;
    }

private:
    Method method;
    double beta, newtonTolerance;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_ */
