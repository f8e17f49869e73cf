#include "openmmstiff/serialization/ImpulseIntegratorProxy.h"
#include "IntegratorSettings.h"
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;

ImpulseIntegratorProxy::ImpulseIntegratorProxy() : SerializationProxy("ImpulseIntegrator") {
}

void ImpulseIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    writeVersion(node, 1);
    writeImpulse(node, serializedIntegrator<ImpulseIntegrator>(object));
}

void* ImpulseIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 1);
    auto integrator = std::make_unique<ImpulseIntegrator>(node.getDoubleProperty("stepSize"));
    readImpulse(node, *integrator);
    return static_cast<Integrator*>(integrator.release());
}
