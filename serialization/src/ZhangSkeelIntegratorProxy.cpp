#include "openmmstiff/serialization/ZhangSkeelIntegratorProxy.h"
#include "IntegratorSettings.h"
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;

ZhangSkeelIntegratorProxy::ZhangSkeelIntegratorProxy() : SerializationProxy("ZhangSkeelIntegrator") {
}

void ZhangSkeelIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    writeVersion(node, 2);
    writeZhangSkeel(node, serializedIntegrator<ZhangSkeelIntegrator>(object));
}

void* ZhangSkeelIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 2);
    auto integrator = std::make_unique<ZhangSkeelIntegrator>(node.getDoubleProperty("stepSize"));
    readZhangSkeel(node, *integrator);
    return static_cast<Integrator*>(integrator.release());
}
