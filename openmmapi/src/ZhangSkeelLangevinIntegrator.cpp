#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "setup/Thermometer.h"
#include "openmm/internal/ContextImpl.h"

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
    if (!thermalizeStiffModes)
        degreesOfFreedom -= getKernel<ZhangSkeelQueries>().countStiffCoordinates();
    return computeTemperature(system, computeKineticEnergy(), degreesOfFreedom, getClassName());
}
