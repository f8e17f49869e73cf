#include "openmmstiff/serialization/ZhangSkeelLangevinIntegratorProxy.h"
#include "IntegratorSettings.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"

using namespace OpenMM;
using namespace OpenMMStiff;

ZhangSkeelLangevinIntegratorProxy::ZhangSkeelLangevinIntegratorProxy()
        : SerializationProxy("ZhangSkeelLangevinIntegrator") {
}

void ZhangSkeelLangevinIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    const auto& integrator = serializedIntegrator<ZhangSkeelLangevinIntegrator>(object);
    writeVersion(node, 2);
    writeZhangSkeel(node, integrator);
    writeThermostat(node, integrator);
    node.setBoolProperty("thermalizeStiffModes", integrator.getThermalizeStiffModes());
}

void* ZhangSkeelLangevinIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 2);
    auto integrator = createLangevin<ZhangSkeelLangevinIntegrator>(node);
    readZhangSkeel(node, *integrator);
    readThermostat(node, *integrator);
    integrator->setThermalizeStiffModes(node.getBoolProperty("thermalizeStiffModes"));
    return static_cast<Integrator*>(integrator.release());
}
