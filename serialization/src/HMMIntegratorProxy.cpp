#include "openmmstiff/serialization/HMMIntegratorProxy.h"
#include "IntegratorSettings.h"
#include "openmmstiff/HMMIntegrator.h"
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;

HMMIntegratorProxy::HMMIntegratorProxy() : SerializationProxy("HMMIntegrator") {
}

void HMMIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    const auto& integrator = serializedIntegrator<HMMIntegrator>(object);
    writeVersion(node, 1);
    writeIntegrator(node, integrator);
    node.setDoubleProperty("frequency", integrator.getFrequency());
    node.setStringProperty("phaseParameter", integrator.getPhaseParameter());
    node.setIntProperty("filter", integrator.getFilter());
    node.setIntProperty("macroMethod", integrator.getMacroMethod());
    node.setIntProperty("numMicroSteps", integrator.getNumMicroSteps());
    node.setIntProperty("numPeriods", integrator.getNumPeriods());
    node.setIntProperty("vibratedForceGroups", integrator.getVibratedForceGroups());
}

void* HMMIntegratorProxy::deserialize(const SerializationNode& node) const {
    readVersion(node, getTypeName(), 1);
    auto integrator =
            std::make_unique<HMMIntegrator>(node.getDoubleProperty("stepSize"), node.getDoubleProperty("frequency"));
    readIntegrator(node, *integrator);
    integrator->setPhaseParameter(node.getStringProperty("phaseParameter"));
    integrator->setFilter(static_cast<HMMIntegrator::Filter>(node.getIntProperty("filter")));
    integrator->setMacroMethod(static_cast<HMMIntegrator::MacroMethod>(node.getIntProperty("macroMethod")));
    integrator->setNumMicroSteps(node.getIntProperty("numMicroSteps"));
    integrator->setNumPeriods(node.getIntProperty("numPeriods"));
    integrator->setVibratedForceGroups(node.getIntProperty("vibratedForceGroups"));
    return static_cast<Integrator*>(integrator.release());
}
