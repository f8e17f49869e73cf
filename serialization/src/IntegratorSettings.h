#ifndef OPENMM_STIFF_INTEGRATOR_SETTINGS_H_
#define OPENMM_STIFF_INTEGRATOR_SETTINGS_H_

#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/LangevinThermostat.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/ZhangSkeelIntegrator.h"
#include "openmm/serialization/SerializationNode.h"
#include <memory>
#include <string>

namespace OpenMMStiff {

/*
 * The XML attributes that several integrators share, one pair of functions for each group of them. A proxy writes
 * its version and the groups that its class has, then what is its own.
 */

/**
 * Get the integrator that a SerializationProxy is handed. XmlSerializer passes every integrator as an
 * OpenMM::Integrator*, and as that it must come back from deserialize(): a class with a second base may keep
 * its Integrator part at another address than its own.
 */
template <class T> const T& serializedIntegrator(const void* object) {
    return static_cast<const T&>(*static_cast<const OpenMM::Integrator*>(object));
}

/**
 * Write the version of a class's XML form.
 */
void writeVersion(OpenMM::SerializationNode& node, int version);

/**
 * Read the version of a class's XML form.
 *
 * @param node        the node to read from
 * @param className   the name of the class, for the error message
 * @param newest      the newest version that this program can read; an OpenMMException if the node's is newer
 * @return the version of the node
 */
int readVersion(const OpenMM::SerializationNode& node, const std::string& className, int newest);

/** The settings that every Integrator has, less the step size: constructors take that. */
void writeIntegrator(OpenMM::SerializationNode& node, const OpenMM::Integrator& integrator);
void readIntegrator(const OpenMM::SerializationNode& node, OpenMM::Integrator& integrator);

/** The choice of stiff forces. */
void writeStiffForces(OpenMM::SerializationNode& node, const StiffForceSelection& selection);
void readStiffForces(const OpenMM::SerializationNode& node, StiffForceSelection& selection);

/** Create an integrator with a heat bath, from what its constructor takes. */
template <class T> std::unique_ptr<T> createLangevin(const OpenMM::SerializationNode& node) {
    return std::make_unique<T>(node.getDoubleProperty("temperature"), node.getDoubleProperty("friction"),
                               node.getDoubleProperty("stepSize"));
}

/** The settings of a heat bath; reading takes those that createLangevin() has not. */
void writeThermostat(OpenMM::SerializationNode& node, const LangevinThermostat& thermostat);
void readThermostat(const OpenMM::SerializationNode& node, LangevinThermostat& thermostat);

/** The settings of ZhangSkeelIntegrator, those of every Integrator included. */
void writeZhangSkeel(OpenMM::SerializationNode& node, const ZhangSkeelIntegrator& integrator);
void readZhangSkeel(const OpenMM::SerializationNode& node, ZhangSkeelIntegrator& integrator);

/** The settings of ImpulseIntegrator, those of every Integrator included. */
void writeImpulse(OpenMM::SerializationNode& node, const ImpulseIntegrator& integrator);
void readImpulse(const OpenMM::SerializationNode& node, ImpulseIntegrator& integrator);

/** The settings of MassPenaltyIntegrator, those of every Integrator included. */
void writeMassPenalty(OpenMM::SerializationNode& node, const MassPenaltyIntegrator& integrator);
void readMassPenalty(const OpenMM::SerializationNode& node, MassPenaltyIntegrator& integrator);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_INTEGRATOR_SETTINGS_H_ */
