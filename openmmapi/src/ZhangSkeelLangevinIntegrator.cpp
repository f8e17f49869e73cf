#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/Thermometer.h"
#include "openmm/CMMotionRemover.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/reference/SimTKOpenMMRealType.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

ZhangSkeelLangevinIntegrator::ZhangSkeelLangevinIntegrator(double temperature, double frictionCoeff, double stepSize)
        : ZhangSkeelIntegrator(stepSize), LangevinThermostat(temperature, frictionCoeff), thermalizeStiffModes(true) {
}

vector<Vec3> ZhangSkeelLangevinIntegrator::getVelocitiesForTemperature(const System& system, double temperature,
                                                                       int randomSeed) const {
    vector<Vec3> velocities = Integrator::getVelocitiesForTemperature(system, temperature, randomSeed);
    if (!thermalizeStiffModes && context != nullptr)
        getKernel<ZhangSkeelQueries>().projectOnTangentSpace(velocities);
    return velocities;
}

double ZhangSkeelLangevinIntegrator::computeSystemTemperature() {
    requireContext();
    const System& system = context->getSystem();
    int degreesOfFreedom = 0;
    for (const FreeGroup& group : findFreeGroups(system))
        degreesOfFreedom += group.degreesOfFreedom;
    for (int i = 0; i < system.getNumForces(); i++)
        if (dynamic_cast<const CMMotionRemover*>(&system.getForce(i)) != nullptr) {
            degreesOfFreedom -= 3;
            break;
        }
    if (!thermalizeStiffModes)
        degreesOfFreedom -= getKernel<ZhangSkeelQueries>().countStiffCoordinates();
    require(degreesOfFreedom > 0, getClassName(),
            ": the System has no degrees of freedom that are thermalized, so it has no temperature");
    return 2 * computeKineticEnergy() / (degreesOfFreedom * BOLTZ);
}
