#include "openmmstiff/serialization/MassPenaltyIntegratorProxy.h"
#include "IntegratorSettings.h"
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;

MassPenaltyIntegratorProxy::MassPenaltyIntegratorProxy() : SerializationProxy("MassPenaltyIntegrator") {
}

void MassPenaltyIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    writeVersion(node, 1);
    writeMassPenalty(node, serializedIntegrator<MassPenaltyIntegrator>(object));
}

void* MassPenaltyIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 1);
    auto integrator = std::make_unique<MassPenaltyIntegrator>(node.getDoubleProperty("stepSize"));
    readMassPenalty(node, *integrator);
    return static_cast<Integrator*>(integrator.release());
}
