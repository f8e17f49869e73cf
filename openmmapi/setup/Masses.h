#ifndef OPENMM_STIFF_SETUP_MASSES_H_
#define OPENMM_STIFF_SETUP_MASSES_H_

#include "openmm/System.h"

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

/** Three for each particle with mass, less the constraints on such particles. */
inline int countDegreesOfFreedom(const OpenMM::System& system) {
    int number = 0;
    for (int i = 0; i < system.getNumParticles(); i++)
        number += (system.getParticleMass(i) > 0 ? 3 : 0);
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int particle1, particle2;
        double distance;
        system.getConstraintParameters(c, particle1, particle2, distance);
        number -= (inverseReducedMass(system, particle1, particle2) > 0);
    }
    return number;
}

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_MASSES_H_ */
