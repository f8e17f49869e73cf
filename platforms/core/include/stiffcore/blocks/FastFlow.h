#ifndef STIFFCORE_BLOCKS_FAST_FLOW_H_
#define STIFFCORE_BLOCKS_FAST_FLOW_H_

#include "BlockSystem.h"

namespace stiffcore {

/** Compute the stiff forces -grad V1 on the mobile atoms at work.positions, into work.forces. */
template <class Real> void computeStiffForces(const BlockInstance<Real>& block, const Box& box, Workspace<Real>& work) {
    const BlockPattern& pattern = *block.pattern;
    for (int i = 0; i < block.getNumMobile(); i++)
        work.forces[i].setZero();
    for (size_t t = 0; t < pattern.terms.size(); t++) {
        const PatternTerm& term = pattern.terms[t];
        const Harmonic<double>& potential = block.potentials[t];
        visitCoordinate(term, work, box, [&](const auto& coordinate) {
            const Real slope = potential.first(coordinate.value);
            forEachMobile(term, pattern.numMobile,
                          [&](int a, int atom) { work.forces[atom] -= slope * coordinate.gradient(a); });
        });
    }
}

/**
 * Compute what is left of the forces on one block without the stiff ones, as accelerations M^-1 (F + grad V1(x)),
 * into work.velocities. The positions x [nm] are left in work.positions.
 *
 * @param F   forces, all terms [kJ/mol/nm]
 */
template <class Real>
void computeSlowAccelerations(const BlockInstance<Real>& block, const double* x, const double* F, const Box& box,
                              Workspace<Real>& work) {
    gatherPositions(block, x, work);
    computeStiffForces(block, box, work);
    gatherMobile(block, F, work.velocities);
    for (int i = 0; i < block.getNumMobile(); i++)
        work.velocities[i] = (work.velocities[i] - work.forces[i]) / block.masses[i];
}

/**
 * The flow of 1/2 v^T M v + V1(x) on one block over a time t: M x'' = -grad V1(x), by steps of velocity Verlet.
 *
 * @param t              the time [ps]
 * @param numMicroSteps  the number of Verlet steps, at least 1
 * @param x              positions [nm], replaced
 * @param v              velocities [nm/ps], replaced
 * @return whether all numbers are finite; if not, x and v are as before
 */
template <class Real>
bool flowFast(const BlockInstance<Real>& block, double t, int numMicroSteps, const Box& box, Workspace<Real>& work,
              double* x, double* v) {
    const double d = t / numMicroSteps;
    auto kick = [&](double time) {
        computeStiffForces(block, box, work);
        for (int i = 0; i < block.getNumMobile(); i++)
            work.velocities[i] += time / block.masses[i] * work.forces[i];
    };
    gatherPositions(block, x, work);
    gatherMobile(block, v, work.velocities);
    kick(0.5 * d);
    for (int step = 1; step <= numMicroSteps; step++) {
        for (int i = 0; i < block.getNumMobile(); i++)
            work.positions[i] += d * work.velocities[i];
        kick(step < numMicroSteps ? d : 0.5 * d);
    }
    if (!areFinite(block, work.positions) || !areFinite(block, work.velocities))
        return false;
    scatterMobile(block, work.positions, x);
    scatterMobile(block, work.velocities, v);
    return true;
}

} // namespace stiffcore

#endif /* STIFFCORE_BLOCKS_FAST_FLOW_H_ */
