#include "openmmstiff/serialization/ImpulseLangevinIntegratorProxy.h"
#include "IntegratorSettings.h"
#include "openmmstiff/ImpulseLangevinIntegrator.h"

using namespace OpenMM;
using namespace OpenMMStiff;

ImpulseLangevinIntegratorProxy::ImpulseLangevinIntegratorProxy() : SerializationProxy("ImpulseLangevinIntegrator") {
}

void ImpulseLangevinIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    const auto& integrator = serializedIntegrator<ImpulseLangevinIntegrator>(object);
    writeVersion(node, 1);
    writeImpulse(node, integrator);
    writeThermostat(node, integrator);
}

void* ImpulseLangevinIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 1);
    auto integrator = createLangevin<ImpulseLangevinIntegrator>(node);
    readImpulse(node, *integrator);
    readThermostat(node, *integrator);
    return static_cast<Integrator*>(integrator.release());
}
