#include "openmmstiff/serialization/SpookIntegratorProxy.h"
#include "IntegratorSettings.h"
#include "openmmstiff/SpookIntegrator.h"
#include <memory>
#include <string>
#include <vector>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::vector;

namespace {

void writeSoftness(SerializationNode& node, double compliance, double damping) {
    node.setDoubleProperty("compliance", compliance).setDoubleProperty("damping", damping);
}

double compliance(const SerializationNode& node) {
    return node.getDoubleProperty("compliance");
}

double damping(const SerializationNode& node) {
    return node.getDoubleProperty("damping");
}

void writeParticles(SerializationNode& node, const vector<int>& particles) {
    for (int particle : particles)
        node.createChildNode("Particle").setIntProperty("index", particle);
}

vector<int> readParticles(const SerializationNode& node) {
    vector<int> particles;
    for (const SerializationNode& child : node.getChildren())
        if (child.getName() == "Particle")
            particles.push_back(child.getIntProperty("index"));
    return particles;
}

} // namespace

SpookIntegratorProxy::SpookIntegratorProxy() : SerializationProxy("SpookIntegrator") {
}

void SpookIntegratorProxy::serialize(const void* object, SerializationNode& node) const {
    const auto& integrator = serializedIntegrator<SpookIntegrator>(object);
    writeVersion(node, 2);
    writeIntegrator(node, integrator);
    node.setDoubleProperty("compliance", integrator.getCompliance());
    node.setDoubleProperty("velocityCompliance", integrator.getVelocityCompliance());
    node.setDoubleProperty("damping", integrator.getDamping());
    node.setDoubleProperty("dampingSteps", integrator.getDampingSteps());
    double softness[2], distance;
    vector<int> particles;
    int particle1, particle2;
    Vec3 position;
    vector<string> coefficients;
    string expression;
    SerializationNode& ofSystem = node.createChildNode("SystemConstraints");
    for (int index : integrator.getSystemConstraintsWithParameters()) {
        integrator.getSystemConstraintParameters(index, softness[0], softness[1]);
        SerializationNode& child = ofSystem.createChildNode("Constraint").setIntProperty("index", index);
        writeSoftness(child, softness[0], softness[1]);
    }
    SerializationNode& distances = node.createChildNode("DistanceConstraints");
    for (int i = 0; i < integrator.getNumDistanceConstraints(); i++) {
        integrator.getDistanceConstraintParameters(i, particle1, particle2, distance, softness[0], softness[1]);
        SerializationNode& child = distances.createChildNode("Constraint");
        child.setIntProperty("p1", particle1).setIntProperty("p2", particle2).setDoubleProperty("d", distance);
        writeSoftness(child, softness[0], softness[1]);
    }
    SerializationNode& positions = node.createChildNode("PositionConstraints");
    for (int i = 0; i < integrator.getNumPositionConstraints(); i++) {
        integrator.getPositionConstraintParameters(i, particle1, position, softness[0], softness[1]);
        SerializationNode& child = positions.createChildNode("Constraint").setIntProperty("p", particle1);
        child.setDoubleProperty("x", position[0]).setDoubleProperty("y", position[1]);
        child.setDoubleProperty("z", position[2]);
        writeSoftness(child, softness[0], softness[1]);
    }
    SerializationNode& holonomic = node.createChildNode("HolonomicConstraints");
    for (int i = 0; i < integrator.getNumHolonomicConstraints(); i++) {
        integrator.getHolonomicConstraintParameters(i, particles, expression, softness[0], softness[1]);
        SerializationNode& child = holonomic.createChildNode("Constraint").setStringProperty("g", expression);
        writeSoftness(child, softness[0], softness[1]);
        writeParticles(child, particles);
    }
    SerializationNode& onVelocities = node.createChildNode("VelocityConstraints");
    for (int i = 0; i < integrator.getNumVelocityConstraints(); i++) {
        integrator.getVelocityConstraintParameters(i, particles, coefficients, expression, softness[0]);
        SerializationNode& child = onVelocities.createChildNode("Constraint").setStringProperty("w", expression);
        child.setDoubleProperty("compliance", softness[0]);
        writeParticles(child, particles);
        for (const string& coefficient : coefficients)
            child.createChildNode("Coefficient").setStringProperty("c", coefficient);
    }
}

void* SpookIntegratorProxy::deserialize(const SerializationNode& node) const {
    const int version = readVersion(node, getTypeName(), 2);
    auto integrator = std::make_unique<SpookIntegrator>(node.getDoubleProperty("stepSize"));
    readIntegrator(node, *integrator);
    integrator->setCompliance(compliance(node));
    integrator->setVelocityCompliance(node.getDoubleProperty("velocityCompliance"));
    if (damping(node) > 0)
        integrator->setDamping(damping(node));
    else // in version 1 it was the paper's two steps
        integrator->setDampingSteps(version == 1 ? 2 : node.getDoubleProperty("dampingSteps"));
    for (const SerializationNode& child : node.getChildNode("SystemConstraints").getChildren())
        integrator->setSystemConstraintParameters(child.getIntProperty("index"), compliance(child), damping(child));
    for (const SerializationNode& child : node.getChildNode("DistanceConstraints").getChildren())
        integrator->addDistanceConstraint(child.getIntProperty("p1"), child.getIntProperty("p2"),
                                          child.getDoubleProperty("d"), compliance(child), damping(child));
    for (const SerializationNode& child : node.getChildNode("PositionConstraints").getChildren())
        integrator->addPositionConstraint(
                child.getIntProperty("p"),
                Vec3(child.getDoubleProperty("x"), child.getDoubleProperty("y"), child.getDoubleProperty("z")),
                compliance(child), damping(child));
    for (const SerializationNode& child : node.getChildNode("HolonomicConstraints").getChildren())
        integrator->addHolonomicConstraint(readParticles(child), child.getStringProperty("g"), compliance(child),
                                           damping(child));
    for (const SerializationNode& child : node.getChildNode("VelocityConstraints").getChildren()) {
        vector<string> coefficients;
        for (const SerializationNode& each : child.getChildren())
            if (each.getName() == "Coefficient")
                coefficients.push_back(each.getStringProperty("c"));
        integrator->addVelocityConstraint(readParticles(child), coefficients, child.getStringProperty("w"),
                                          compliance(child));
    }
    return static_cast<Integrator*>(integrator.release());
}
