#include "openmmstiff/serialization/MassPenaltyLangevinIntegratorProxy.h"
#include "IntegratorSettings.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"

using namespace OpenMM;
using namespace OpenMMStiff;

MassPenaltyLangevinIntegratorProxy::MassPenaltyLangevinIntegratorProxy()
        : SerializationProxy("MassPenaltyLangevinIntegrator") {
}

void MassPenaltyLangevinIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    const auto& integrator = serializedIntegrator<MassPenaltyLangevinIntegrator>(object);
    writeVersion(node, 1);
    writeMassPenalty(node, integrator);
    writeThermostat(node, integrator);
    node.setBoolProperty("metricCorrection", integrator.getMetricCorrection());
}

void* MassPenaltyLangevinIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 1);
    auto integrator = createLangevin<MassPenaltyLangevinIntegrator>(node);
    readMassPenalty(node, *integrator);
    readThermostat(node, *integrator);
    integrator->setMetricCorrection(node.getBoolProperty("metricCorrection"));
    return static_cast<Integrator*>(integrator.release());
}
