#ifndef STIFFTEST_HEAT_BATH_H_
#define STIFFTEST_HEAT_BATH_H_

#include "PlatformTest.h"
#include "Statistics.h"
#include "Systems.h"

namespace stifftest {

/** The temperatures of flexible waters in a cluster, and of the centres of the molecules, with a heat bath of 300 K. */
inline std::vector<BlockedMean> measureTemperatures(const char* name, OpenMM::Integrator& integrator,
                                                    OpenMM::Platform& platform, int numFirst, int numSamples,
                                                    int interval) {
    Model model = makeWaterCluster(2);
    addWell(model);
    ModelContext context(model, integrator, platform, deterministic(platform));
    context.setVelocitiesToTemperature(300, 5);
    integrator.step(numFirst);
    std::vector<double> temperatures, centres;
    for (int sample = 0; sample < numSamples; sample++) {
        integrator.step(interval);
        temperatures.push_back(2 * kineticEnergy(context) / (72 * boltzmann));
        centres.push_back(centreTemperature(getVelocities(context)));
    }
    const std::vector<BlockedMean> means = {BlockedMean(temperatures), BlockedMean(centres)};
    for (const BlockedMean& mean : means)
        std::cout << name << ": temperature " << mean.mean << " +- " << mean.error << " K" << std::endl;
    return means;
}

/** Both are 300 K, within four errors that are small. */
inline void assertTemperatures(const char* name, OpenMM::Integrator& integrator, OpenMM::Platform& platform,
                               int numFirst, int interval) {
    for (const BlockedMean& mean : measureTemperatures(name, integrator, platform, numFirst, 6000, interval)) {
        ASSERT_USUALLY_TRUE(mean.isNear(300));
        ASSERT(mean.error < 6);
    }
}

} // namespace stifftest

#endif /* STIFFTEST_HEAT_BATH_H_ */
