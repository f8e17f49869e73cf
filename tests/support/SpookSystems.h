#ifndef OPENMM_STIFF_SPOOK_SYSTEMS_H_
#define OPENMM_STIFF_SPOOK_SYSTEMS_H_

#include "OpenMMStiff.h"
#include "Systems.h"

namespace stifftest {

/** g = 1 nm/ps^2 along -y on all particles. */
inline void addGravity(OpenMM::System& system) {
    addExternal(system, "m*y");
}

/** A double pendulum: two rods that lie flat, hanging from a massless particle. */
struct DoublePendulum {
    OpenMM::System system = makeParticles({0, 1, 2});
    std::vector<OpenMM::Vec3> positions = {{0, 0, 0}, {1, 0, 0}, {1.8, 0, 0}};

    DoublePendulum() {
        addGravity(system);
    }
    static void addRods(OpenMMStiff::SpookIntegrator& integrator) {
        integrator.addDistanceConstraint(0, 1, 1);
        integrator.addDistanceConstraint(1, 2, 0.8);
    }
    /** At rest, everything falls freely at first; velocities belong to half a step earlier, or that is overlooked. */
    std::vector<OpenMM::Vec3> velocities(double h, bool overlooked) const {
        const OpenMM::Vec3 v(0, overlooked ? 0 : h / 2, 0);
        return {OpenMM::Vec3(), v, v};
    }
};

} // namespace stifftest

#endif /* OPENMM_STIFF_SPOOK_SYSTEMS_H_ */
