#ifndef STIFFTEST_VIBRATED_SYSTEMS_H_
#define STIFFTEST_VIBRATED_SYSTEMS_H_

#include "Systems.h"

/**
 * The pendulums on a vibrated pivot of HMMIntegrator's paper.
 */
namespace stifftest {

const double gravity = 9.8, length = 0.2, speed = 4;

/**
 * The inverted pendulum (equation 2.2): the coordinate x of a particle is the angle from the upward vertical,
 * q'' = (g + v_max omega cos(theta)) sin(q) / l.
 */
inline OpenMM::System makePendulum(double omega, int numParticles = 1, double k = 0) {
    OpenMM::System system = makeParticles(std::vector<double>(numParticles, 1));
    addExternal(system, "(g+vw*cos(theta))/l*cos(x)+k*y*y*x",
                {{"theta", 0.3}, {"g", gravity}, {"vw", speed * omega}, {"l", length}, {"k", k}});
    return system;
}

/** The double pendulum of section 4.2, its pivot a huge mass. */
inline Model makeVibratedDoublePendulum(double omega) {
    Model model;
    addParticles(model.system, {1e9, 0.01, 0.005});
    addExternal(model.system, "m*(g+vw*cos(theta))*y", {{"theta", 1.5}, {"g", gravity}, {"vw", speed * omega}}, {1, 2});
    model.system.addConstraint(0, 1, 0.2);
    model.system.addConstraint(1, 2, 0.1);
    model.positions = {OpenMM::Vec3(), OpenMM::Vec3(0.2 * std::sin(0.5), 0.2 * std::cos(0.5), 0)};
    model.positions.push_back(model.positions[1] + OpenMM::Vec3(0, 0.1, 0));
    return model;
}

} // namespace stifftest

#endif /* STIFFTEST_VIBRATED_SYSTEMS_H_ */
