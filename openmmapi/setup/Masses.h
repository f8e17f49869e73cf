#ifndef OPENMM_STIFF_SETUP_MASSES_H_
#define OPENMM_STIFF_SETUP_MASSES_H_

#include "openmm/System.h"
#include <array>
#include <cmath>

namespace OpenMMStiff {

/** 1/m of a particle, 0 if it never moves [1/dalton]. */
inline double inverseMass(const OpenMM::System& system, int particle) {
    const double mass = system.getParticleMass(particle);
    return mass > 0 ? 1 / mass : 0;
}

/** 1/m1 + 1/m2 of two particles; of one if there is no second one (-1). */
inline double inverseReducedMass(const OpenMM::System& system, int particle1, int particle2) {
    return inverseMass(system, particle1) + (particle2 < 0 ? 0 : inverseMass(system, particle2));
}

/** g M^-1 g^T of an angle, its vertex in the middle (Wilson, Decius and Cross 1955) [1/(dalton nm^2)]. */
inline double inverseMassOfAngle(const OpenMM::System& system, const std::array<int, 3>& particles, double leg1,
                                 double leg2, double theta) {
    const auto& [i, vertex, j] = particles;
    const double c1 = 1 / leg1, c2 = 1 / leg2;
    return c1 * c1 * inverseMass(system, i) + c2 * c2 * inverseMass(system, j) +
           (c1 * c1 + c2 * c2 - 2 * c1 * c2 * std::cos(theta)) * inverseMass(system, vertex);
}

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_MASSES_H_ */
