#include "OpenMM.h"
#include "OpenMMStiff.h"
#include <cmath>
#include <cstdio>

using namespace OpenMM;

/** 216 flexible TIP3P waters at 8 fs: their temperature and their energy, ten times. */
int main() {
    for (const char* folder : {PLUGINS}) // from CMakeLists.txt
        Platform::loadPluginsFromDirectory(folder);

    System system;
    auto bonds = new HarmonicBondForce();
    auto angles = new HarmonicAngleForce();
    auto nonbonded = new NonbondedForce();
    const int width = 6; // molecules, 0.3107 nm apart
    const double length = 0.09572, angle = 1.8242, spacing = 0.3107;
    std::vector<Vec3> positions;
    for (int i = 0; i < width * width * width; i++) {
        const Vec3 place = Vec3(i % width, i / width % width, i / (width * width)) * spacing;
        const int o = system.addParticle(15.999), h1 = system.addParticle(1.008), h2 = system.addParticle(1.008);
        positions.push_back(place);
        positions.push_back(place + Vec3(length, 0, 0));
        positions.push_back(place + Vec3(std::cos(angle), std::sin(angle), 0) * length);
        bonds->addBond(o, h1, length, 462750.4);
        bonds->addBond(o, h2, length, 462750.4);
        angles->addAngle(h1, o, h2, angle, 836.8);
        nonbonded->addParticle(-0.834, 0.315075, 0.635968);
        nonbonded->addParticle(0.417, 1, 0);
        nonbonded->addParticle(0.417, 1, 0);
        nonbonded->addException(o, h1, 0, 1, 0);
        nonbonded->addException(o, h2, 0, 1, 0);
        nonbonded->addException(h1, h2, 0, 1, 0);
    }
    const double edge = width * spacing;
    system.setDefaultPeriodicBoxVectors(Vec3(edge, 0, 0), Vec3(0, edge, 0), Vec3(0, 0, edge));
    nonbonded->setNonbondedMethod(NonbondedForce::PME);
    nonbonded->setCutoffDistance(0.9);
    for (Force* force : std::initializer_list<Force*>{bonds, angles, nonbonded})
        system.addForce(force); // which is the System's from now on

    OpenMMStiff::MassPenaltyLangevinIntegrator integrator(300, 5, 0.008); // K, 1/ps, ps
    Context context(system, integrator);
    context.setPositions(positions);
    LocalEnergyMinimizer::minimize(context);
    context.setVelocitiesToTemperature(300);
    std::printf("%s platform\n", context.getPlatform().getName().c_str());
    for (int i = 0; i < 10; i++) {
        integrator.step(50);
        const State state = context.getState(State::Energy);
        const double temperature = 2 * state.getKineticEnergy() / (3 * system.getNumParticles() * 0.0083145);
        std::printf("%.1f ps: %.0f K, %.0f kJ/mol\n", state.getTime(), temperature, state.getPotentialEnergy());
    }
    return 0;
}
