#ifndef STIFFCORE_METHODS_FAST_FLOW_H_
#define STIFFCORE_METHODS_FAST_FLOW_H_

#include "../terms/StiffBatch.h"

/**
 * The motion of the impulse methods between the kicks.
 */
namespace stiffcore {

/**
 * The flow of 1/2 v^T M v + V1(x) over a time t, M x'' = -grad V1(x), by steps of velocity Verlet, from work.x and
 * work.v. V1 are the harmonic potentials.
 *
 * @param t               the time [ps]
 * @param numMicroSteps   the number of Verlet steps, at least 1
 */
template <class Real>
[[gnu::flatten]] void flowFast(const StiffBatch<Real>& batch, double t, int numMicroSteps, const Box& box,
                               StiffWorkspace<Real>& work) {
    if (batch.harmonics.empty())
        numMicroSteps = 1; // a straight line
    const double d = t / numMicroSteps;
    auto kick = [&](double time) {
        computeStiffForces(batch, box, work);
        for (int i = 0; i < batch.numMobile; i++)
            work.v[i] += work.forces[i] * Real(batch.inverseMasses[i] * time);
    };
    kick(0.5 * d);
    for (int left = numMicroSteps - 1; left >= 0; left--) {
        for (int i = 0; i < batch.numMobile; i++)
            work.x[i] += work.v[i] * Real(d);
        kick(left > 0 ? d : 0.5 * d);
    }
}

/**
 * What is left of forces without the stiff ones, as accelerations: M^-1 (F + grad V1(x)) instead of F in work.a.
 */
template <class Real>
[[gnu::flatten]] void leaveSlowAccelerations(const StiffBatch<Real>& batch, const Box& box,
                                             StiffWorkspace<Real>& work) {
    computeStiffForces(batch, box, work);
    for (int i = 0; i < batch.numMobile; i++)
        work.a[i] = (work.a[i] - work.forces[i]) * batch.inverseMasses[i];
    for (int i = batch.numMobile; i < batch.numParticles(); i++)
        work.a[i].setZero();
}

/**
 * The same with positions and forces of the whole System. The positions are left in work.x.
 *
 * @param x   positions [nm]
 * @param F   forces, all terms [kJ/mol/nm]
 */
template <class Real>
void computeSlowAccelerations(const StiffBatch<Real>& batch, const double* x, const double* F, const Box& box,
                              StiffWorkspace<Real>& work) {
    gather(batch, x, work.x);
    gather(batch, F, work.a);
    leaveSlowAccelerations(batch, box, work);
}

} // namespace stiffcore

#endif /* STIFFCORE_METHODS_FAST_FLOW_H_ */
