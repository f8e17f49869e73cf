#ifndef OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_
#define OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_

#include "StiffForceSelection.h"
#include "StiffIntegrator.h"
#include "openmm/Vec3.h"

namespace OpenMMStiff {

/**
 * A linearly implicit integrator for systems with stiff bonds and angles, at constant energy: the simplified
 * Zhang-Skeel method for stiff systems (Tao and Owhadi 2014, Integrator 5). With the potential split as
 * V = V0 + V1, V1 the stiff terms, M the masses, h the step size and b the parameter beta, a step is
 *
 *     v <- v + h/2 a(x)
 *     x <- x + h v
 *     (M + b h^2 H1(x)) a(x) = -grad V0(x) - grad V1(x),   H1 = Hess V1
 *     v <- v + h/2 a(x)
 *
 * V1 couples atoms of one molecule only, so that the linear system falls into one small block for each connected
 * group of atoms. There is one force evaluation in a step. The method is of second order, time-reversible, and
 * conserves linear momentum; it is not symplectic.
 *
 * The Context holds q = x + b h^2 a(x), because at b = 1/4 it is q that has the Boltzmann distribution of the
 * stiff coordinates; getPropagatedPositions() returns the papers' x. Particles bound by System constraints
 * show x itself.
 */
class OPENMM_EXPORT_STIFF ZhangSkeelIntegrator : public StiffIntegrator, public StiffForceSelection {
public:
    /**
     * Create a ZhangSkeelIntegrator.
     *
     * @param stepSize   the step size with which to integrate the system [ps]
     */
    explicit ZhangSkeelIntegrator(double stepSize);
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
    std::vector<std::string> getKernelNames() override;
    void initializeKernel() override;
    void advance(bool stateModified) override;

private:
    double beta;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_ZHANG_SKEEL_INTEGRATOR_H_ */
