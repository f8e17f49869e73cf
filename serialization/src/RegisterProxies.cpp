#include "openmmstiff/serialization/RegisterProxies.h"
#include "OpenMMStiff.h"
#include "Settings.h"
#include "openmmstiff/internal/Checks.h"
#include "openmmstiff/internal/Version.h"
#include "openmm/OpenMMException.h"
#include "openmm/serialization/SerializationProxy.h"
#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;
using std::vector;

namespace {

/// Of all classes. Forms that earlier versions of OpenMM-Stiff have written are refused.
constexpr int formVersion = 5;

/**
 * The XML form of a class: visits the settings of an object, those of its bases first, to write or to read them. Each
 * class has a specialization.
 */
template <class T> void describe(Settings& xml, T& object) = delete;

template <class... Bases, class T> void describeBases(Settings& xml, T& object) {
    (describe<Bases>(xml, object), ...);
}

template <> void describe(Settings& xml, StiffIntegrator& integrator) {
    using T = StiffIntegrator;
    xml.setting("stepSize", integrator, &T::getStepSize, &T::setStepSize);
    xml.setting("constraintTolerance", integrator, &T::getConstraintTolerance, &T::setConstraintTolerance);
    xml.setting("integrationForceGroups", integrator, &T::getIntegrationForceGroups, &T::setIntegrationForceGroups);
}

void describeStiffForces(Settings& xml, StiffForceSelection& selection) {
    using T = StiffForceSelection;
    xml.settingOrDefault("useDefaultStiffForceGroups", "stiffForceGroups", selection, &T::getUseDefaultStiffForceGroups,
                         &T::setUseDefaultStiffForceGroups, &T::getStiffForceGroups, &T::setStiffForceGroups);
}

template <> void describe(Settings& xml, LangevinThermostat& thermostat) {
    using T = LangevinThermostat;
    xml.setting("temperature", thermostat, &T::getTemperature, &T::setTemperature);
    xml.setting("friction", thermostat, &T::getFriction, &T::setFriction);
    xml.setting("randomSeed", thermostat, &T::getRandomNumberSeed, &T::setRandomNumberSeed);
}

template <> void describe(Settings& xml, ZhangSkeelIntegrator& integrator) {
    using T = ZhangSkeelIntegrator;
    describeBases<StiffIntegrator>(xml, integrator);
    describeStiffForces(xml, integrator);
    xml.setting("beta", integrator, &T::getBeta, &T::setBeta);
    xml.setting("method", integrator, &T::getMethod, &T::setMethod);
    xml.setting("newtonTolerance", integrator, &T::getNewtonTolerance, &T::setNewtonTolerance);
}

template <> void describe(Settings& xml, ZhangSkeelLangevinIntegrator& integrator) {
    using T = ZhangSkeelLangevinIntegrator;
    describeBases<ZhangSkeelIntegrator, LangevinThermostat>(xml, integrator);
    xml.setting("thermalizeStiffModes", integrator, &T::getThermalizeStiffModes, &T::setThermalizeStiffModes);
}

template <> void describe(Settings& xml, ImpulseIntegrator& integrator) {
    using T = ImpulseIntegrator;
    describeBases<StiffIntegrator>(xml, integrator);
    describeStiffForces(xml, integrator);
    xml.setting("kick", integrator, &T::getKick, &T::setKick);
    xml.setting("projectedPeriod", integrator, &T::getProjectedPeriod, &T::setProjectedPeriod);
    xml.settingOrDefault("useDefaultNumMicroSteps", "numMicroSteps", integrator, &T::getUseDefaultNumMicroSteps,
                         &T::setUseDefaultNumMicroSteps, &T::getNumMicroSteps, &T::setNumMicroSteps);
}

template <> void describe(Settings& xml, ImpulseLangevinIntegrator& integrator) {
    describeBases<ImpulseIntegrator, LangevinThermostat>(xml, integrator);
}

template <> void describe(Settings& xml, MassPenaltyIntegrator& integrator) {
    using T = MassPenaltyIntegrator;
    describeBases<StiffIntegrator>(xml, integrator);
    xml.settingOrDefault("useDefaultPenalizedPeriod", "penalizedPeriod", integrator, &T::getUseDefaultPenalizedPeriod,
                         &T::setUseDefaultPenalizedPeriod, &T::getPenalizedPeriod, &T::setPenalizedPeriod);
    xml.setting("useBondedForces", integrator, &T::getUseBondedForces, &T::setUseBondedForces);
    const auto pairs = [&](const char* listName, const char* childName, int number, auto getter, auto adder) {
        xml.elements(listName, childName, number, integrator, getter, adder, "p1", "p2", "inertia");
    };
    pairs("Pairs", "Pair", integrator.getNumPairs(), &T::getPairParameters, &T::addPair);
    xml.settingOrDefault("useDefaultBondInertia", "bondInertia", integrator, &T::getUseDefaultBondInertia,
                         &T::setUseDefaultBondInertia, &T::getBondInertia, &T::setBondInertia);
    xml.setting("maxBlockSize", integrator, &T::getMaxBlockSize, &T::setMaxBlockSize);
    pairs("BondInertias", "Bond", integrator.getNumBondInertias(), &T::getBondInertiaParameters, &T::addBondInertia);
}

template <> void describe(Settings& xml, MassPenaltyLangevinIntegrator& integrator) {
    using T = MassPenaltyLangevinIntegrator;
    describeBases<MassPenaltyIntegrator, LangevinThermostat>(xml, integrator);
    xml.setting("metricCorrection", integrator, &T::getMetricCorrection, &T::setMetricCorrection);
}

template <> void describe(Settings& xml, HMMIntegrator& integrator) {
    using T = HMMIntegrator;
    describeBases<StiffIntegrator>(xml, integrator);
    xml.setting("angularFrequency", integrator, &T::getAngularFrequency, &T::setAngularFrequency);
    xml.setting("phaseParameter", integrator, &T::getPhaseParameter, &T::setPhaseParameter);
    xml.setting("filter", integrator, &T::getFilter, &T::setFilter);
    xml.setting("macroMethod", integrator, &T::getMacroMethod, &T::setMacroMethod);
    xml.setting("numMicroStepsPerPeriod", integrator, &T::getNumMicroStepsPerPeriod, &T::setNumMicroStepsPerPeriod);
    xml.setting("numPeriods", integrator, &T::getNumPeriods, &T::setNumPeriods);
    xml.settingOrDefault("useDefaultVibratedForceGroups", "vibratedForceGroups", integrator,
                         &T::getUseDefaultVibratedForceGroups, &T::setUseDefaultVibratedForceGroups,
                         &T::getVibratedForceGroups, &T::setVibratedForceGroups);
}

template <> void describe(Settings& xml, SpookIntegrator& integrator) {
    using T = SpookIntegrator;
    describeBases<StiffIntegrator>(xml, integrator);
    xml.setting("compliance", integrator, &T::getCompliance, &T::setCompliance);
    xml.setting("velocityCompliance", integrator, &T::getVelocityCompliance, &T::setVelocityCompliance);

    bool inSteps = integrator.getUseDampingSteps();
    xml.value("useDampingSteps", inSteps);
    if (inSteps)
        xml.setting("dampingSteps", integrator, &T::getDampingSteps, &T::setDampingSteps);
    else
        xml.setting("damping", integrator, &T::getDamping, &T::setDamping);

    const vector<int> ofSystem = integrator.getSystemConstraintsWithParameters();
    xml.list("SystemConstraints", "Constraint", ofSystem.size(), [&](int i, Settings constraint) {
        int index = constraint.isReading() ? 0 : ofSystem[i];
        double compliance = 0, damping = 0;
        if (!constraint.isReading())
            integrator.getSystemConstraintParameters(index, compliance, damping);
        constraint.value("index", index);
        constraint.value("compliance", compliance);
        constraint.value("damping", damping);
        if (constraint.isReading())
            integrator.setSystemConstraintParameters(index, compliance, damping);
    });
    const auto list = [&](const char* name, int number, auto getter, auto adder, const auto&... names) {
        xml.elements(name, "Constraint", number, integrator, getter, adder, names...);
    };
    const Settings::Children particles = {"Particle", "index"}, coefficients = {"Coefficient", "c"};
    const std::array<const char*, 3> position = {"x", "y", "z"};
    list("DistanceConstraints", integrator.getNumDistanceConstraints(), &T::getDistanceConstraintParameters,
         &T::addDistanceConstraint, "p1", "p2", "d", "compliance", "damping");
    list("PositionConstraints", integrator.getNumPositionConstraints(), &T::getPositionConstraintParameters,
         &T::addPositionConstraint, "p", position, "compliance", "damping");
    list("HolonomicConstraints", integrator.getNumHolonomicConstraints(), &T::getHolonomicConstraintParameters,
         &T::addHolonomicConstraint, particles, "g", "compliance", "damping");
    list("VelocityConstraints", integrator.getNumVelocityConstraints(), &T::getVelocityConstraintParameters,
         &T::addVelocityConstraint, particles, coefficients, "w", "compliance");
}

/** Writes and reads integrators of one class, by its describe(). */
template <class T> class Proxy : public SerializationProxy {
public:
    using Create = std::function<std::unique_ptr<T>()>;

    Proxy(const string& className, const Create& create) : SerializationProxy(className), create(create) {
    }

    void serialize(const void* object, SerializationNode& node) const override {
        // XmlSerializer passes every integrator as an Integrator*, and as that it must come back from deserialize():
        // a class with a second base may keep its Integrator part at another address than its own. Writing does not
        // change it.
        write(static_cast<T&>(*const_cast<Integrator*>(static_cast<const Integrator*>(object))), node);
    }

    void* deserialize(const SerializationNode& node) const override {
        try {
            return static_cast<Integrator*>(read(node).release());
        }
        catch (const std::exception& error) {
            const string reason = error.what(), name = getTypeName() + ": ";
            throw OpenMMException(reason.compare(0, name.size(), name) == 0 ? reason : name + reason);
        }
    }

private:
    static void write(T& integrator, SerializationNode& node) {
        node.setIntProperty("version", formVersion);
        Settings xml(node);
        describe(xml, integrator);
    }

    std::unique_ptr<T> read(const SerializationNode& node) const {
        int version;
        Settings xml(node);
        xml.value("version", version);
        require(version == formVersion, "unsupported version ", version,
                " of the XML form; this version of OpenMM-Stiff reads version ", formVersion);
        std::unique_ptr<T> integrator = create();
        describe(xml, *integrator);

        SerializationNode known;
        write(*integrator, known);
        requireKnown(node, known);
        return integrator;
    }

    /** What is misspelt must not be passed over: names are those that are written of the object that was read. */
    static void requireKnown(const SerializationNode& node, const SerializationNode& known, bool isList = false) {
        for (const auto& [name, value] : node.getProperties())
            require(name == "type" || known.hasProperty(name), "there is no attribute '", name, "' in its XML form");
        const vector<SerializationNode>& others = known.getChildren();
        for (const SerializationNode& child : node.getChildren()) {
            const auto same = std::find_if(others.begin(), others.end(), [&](const SerializationNode& other) {
                return other.getName() == child.getName();
            });
            require(same != others.end() || (isList && others.empty()), "there is no '", child.getName(),
                    "' in its XML form");
            if (same != others.end())
                requireKnown(child, *same, true);
        }
    }

    Create create;
};

/**
 * @param className   the name of the class
 * @param arguments   of its constructor: any that are valid, for the settings are read afterwards
 */
template <class T, class... Arguments> void registerProxy(const char* className, Arguments... arguments) {
    SerializationProxy::registerProxy(
            typeid(T), new Proxy<T>(className, [arguments...] { return std::make_unique<T>(arguments...); }));
}

bool registerProxies() {
    if (!isOpenMMCompatible())
        return false;
    registerProxy<ZhangSkeelIntegrator>("ZhangSkeelIntegrator", 0);
    registerProxy<ZhangSkeelLangevinIntegrator>("ZhangSkeelLangevinIntegrator", 0, 0, 0);
    registerProxy<ImpulseIntegrator>("ImpulseIntegrator", 0);
    registerProxy<ImpulseLangevinIntegrator>("ImpulseLangevinIntegrator", 0, 0, 0);
    registerProxy<MassPenaltyIntegrator>("MassPenaltyIntegrator", 0);
    registerProxy<MassPenaltyLangevinIntegrator>("MassPenaltyLangevinIntegrator", 0, 0, 0);
    registerProxy<SpookIntegrator>("SpookIntegrator", 0);
    registerProxy<HMMIntegrator>("HMMIntegrator", 0, 1);
    return true;
}

} // namespace

extern "C" OPENMM_EXPORT_STIFF void registerOpenMMStiffSerializationProxies() {
    // Each platform library calls this; C++ initializes a static once, even with several threads.
    static const bool registered = registerProxies();
    (void) registered;
}
