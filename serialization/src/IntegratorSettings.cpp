#include "IntegratorSettings.h"
#include "openmm/OpenMMException.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::to_string;

void OpenMMStiff::writeVersion(SerializationNode& node, int version) {
    node.setIntProperty("version", version);
}

int OpenMMStiff::readVersion(const SerializationNode& node, const string& className, int newest) {
    int version = node.getIntProperty("version");
    if (version < 1 || version > newest)
        throw OpenMMException(className + ": unsupported version " + to_string(version) +
                              " of the XML form; this version of OpenMM-Stiff reads versions 1 to " +
                              to_string(newest));
    return version;
}

void OpenMMStiff::writeIntegrator(SerializationNode& node, const Integrator& integrator) {
    node.setDoubleProperty("stepSize", integrator.getStepSize());
    node.setDoubleProperty("constraintTolerance", integrator.getConstraintTolerance());
    node.setIntProperty("integrationForceGroups", integrator.getIntegrationForceGroups());
}

void OpenMMStiff::readIntegrator(const SerializationNode& node, Integrator& integrator) {
    integrator.setConstraintTolerance(node.getDoubleProperty("constraintTolerance"));
    integrator.setIntegrationForceGroups(node.getIntProperty("integrationForceGroups"));
}

void OpenMMStiff::writeStiffForces(SerializationNode& node, const StiffForceSelection& selection) {
    node.setIntProperty("stiffForceGroups", selection.getStiffForceGroups());
}

void OpenMMStiff::readStiffForces(const SerializationNode& node, StiffForceSelection& selection) {
    selection.setStiffForceGroups(node.getIntProperty("stiffForceGroups"));
}

void OpenMMStiff::writeThermostat(SerializationNode& node, const LangevinThermostat& thermostat) {
    node.setDoubleProperty("temperature", thermostat.getTemperature());
    node.setDoubleProperty("friction", thermostat.getFriction());
    node.setIntProperty("randomSeed", thermostat.getRandomNumberSeed());
}

void OpenMMStiff::readThermostat(const SerializationNode& node, LangevinThermostat& thermostat) {
    thermostat.setRandomNumberSeed(node.getIntProperty("randomSeed"));
}

void OpenMMStiff::writeZhangSkeel(SerializationNode& node, const ZhangSkeelIntegrator& integrator) {
    writeIntegrator(node, integrator);
    writeStiffForces(node, integrator);
    node.setIntProperty("method", integrator.getMethod());
    node.setDoubleProperty("beta", integrator.getBeta());
    node.setDoubleProperty("newtonTolerance", integrator.getNewtonTolerance());
}

void OpenMMStiff::readZhangSkeel(const SerializationNode& node, ZhangSkeelIntegrator& integrator) {
    readIntegrator(node, integrator);
    readStiffForces(node, integrator);
    integrator.setBeta(node.getDoubleProperty("beta"));
    // Version 1 has no more.
    integrator.setMethod(static_cast<ZhangSkeelIntegrator::Method>(
            node.getIntProperty("method", ZhangSkeelIntegrator::SimplifiedStiff)));
    integrator.setNewtonTolerance(node.getDoubleProperty("newtonTolerance", integrator.getNewtonTolerance()));
}

void OpenMMStiff::writeImpulse(SerializationNode& node, const ImpulseIntegrator& integrator) {
    writeIntegrator(node, integrator);
    writeStiffForces(node, integrator);
    node.setIntProperty("kick", integrator.getKick());
    node.setDoubleProperty("projectedPeriod", integrator.getProjectedPeriod());
    node.setIntProperty("numMicroSteps", integrator.getNumMicroSteps());
}

void OpenMMStiff::readImpulse(const SerializationNode& node, ImpulseIntegrator& integrator) {
    readIntegrator(node, integrator);
    readStiffForces(node, integrator);
    integrator.setKick(static_cast<ImpulseIntegrator::KickMethod>(node.getIntProperty("kick")));
    integrator.setProjectedPeriod(node.getDoubleProperty("projectedPeriod"));
    integrator.setNumMicroSteps(node.getIntProperty("numMicroSteps"));
}

void OpenMMStiff::writeMassPenalty(SerializationNode& node, const MassPenaltyIntegrator& integrator) {
    writeIntegrator(node, integrator);
    node.setDoubleProperty("penalizedPeriod", integrator.getPenalizedPeriod());
    node.setBoolProperty("useBondedForces", integrator.getUseBondedForces());
    SerializationNode& pairs = node.createChildNode("Pairs");
    for (int i = 0; i < integrator.getNumPairs(); i++) {
        int particle1, particle2;
        double inertia;
        integrator.getPairParameters(i, particle1, particle2, inertia);
        pairs.createChildNode("Pair")
                .setIntProperty("p1", particle1)
                .setIntProperty("p2", particle2)
                .setDoubleProperty("inertia", inertia);
    }
}

void OpenMMStiff::readMassPenalty(const SerializationNode& node, MassPenaltyIntegrator& integrator) {
    readIntegrator(node, integrator);
    integrator.setPenalizedPeriod(node.getDoubleProperty("penalizedPeriod"));
    integrator.setUseBondedForces(node.getBoolProperty("useBondedForces"));
    for (const SerializationNode& pair : node.getChildNode("Pairs").getChildren())
        integrator.addPair(pair.getIntProperty("p1"), pair.getIntProperty("p2"), pair.getDoubleProperty("inertia"));
}
