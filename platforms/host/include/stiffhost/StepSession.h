#ifndef STIFFHOST_STEP_SESSION_H_
#define STIFFHOST_STEP_SESSION_H_

#include "Backend.h"
#include "Device.h"
#include "HostParticles.h"
#include "HostState.h"
#include "LastStep.h"
#include "openmm/Platform.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/LangevinThermostat.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

namespace stiffhost {

/** Velocities that a Context has shown last, and those that move its particles there; none if they are the same. */
struct KnownVelocities {
    Vectors shown, propagated;
};

/** What a step needs beyond the positions and velocities of a Context, in checkpoints and saved States. */
struct HiddenState {
    /// One for each particle, if there are any.
    Vectors vectors;
    std::vector<double> numbers;
};

/**
 * What every step needs and no method should know: where it is taken, in the memory of the host or on a device; what was
 * before a step that fails; who has the present state; what is remembered, saved and brought back.
 *
 * The kernel of a method derives from it. It says what its step is made of, see takeStep(bool). Everything but steps is
 * done on the host.
 */
class OPENMM_EXPORT_STIFF StepSession : public OpenMMStiff::StiffStepKernel {
public:
    /** @param useDevice   whether devices have a program for the method */
    StepSession(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<PlatformResources> resources,
                OpenMM::ContextImpl& context, bool useDevice);

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) override;
    void requirePossible() final;
    void beginSteps() final;
    void takeStep() final;
    void finishSteps() final;
    void endSteps() final;
    void stateChanged(OpenMM::State::DataType changed) final;
    double computeKineticEnergy() override;
    void createCheckpoint(std::ostream& stream) final;
    void loadCheckpoint(std::istream& stream) final;
    void serializeState(OpenMM::SerializationNode& node) final;
    void deserializeState(const OpenMM::SerializationNode& node) final;

protected:
    /** A call during which the method works in the memory of the host, and knows of all steps. */
    class Turn {
    public:
        explicit Turn(StepSession& session) : turn(session.hear()) {
        }

    private:
        const HostState::Turn turn;
    };

    // What a method says of itself. Only where it gets a Turn may it use the state.

    /** The Context has come into being. */
    virtual void start(const Turn&) = 0;
    /** Bring what is taken from the System up to date; throw an exception if no step can be taken with it. */
    virtual void prepare(const Turn&) = 0;
    /** Take over the state that a step begins with. */
    virtual void adopt(const Turn& turn) {
        prepare(turn);
    }
    /** Turn velocities that the Context shows between calls of step() into those that steps move particles by; and back. */
    virtual void propagate(const Turn&) {
    }
    virtual void show(const Turn&) {
    }
    /** Whether a velocity that is common to all particles is no motion of the method as any other. */
    virtual bool hasAnchors() const {
        return false;
    }
    /** The masses whose motion a CMMotionRemover has to take out, if they are not those of the System; or none. */
    virtual const std::vector<double>& getInertias() const {
        static const std::vector<double> none;
        return none;
    }
    /** A thermostat may have drawn velocities, other than those before. */
    virtual void haveCollided(const Turn&, const Vectors& /*before*/) {
    }
    /** A step begins, with numbers to which the method adds its own. Returns settings on which accelerations depend. */
    virtual SettingNumbers begin(stiffcore::StepNumbers&) {
        return {};
    }
    /**
     * The course of a step. On the host a turn is held, and its end propagates the Context's positions.
     *
     * @param goesOn   whether the step begins where the last one has ended
     */
    virtual void takeStep(bool goesOn) = 0;
    /** What is remembered of the last step may be void. */
    virtual void forget(OpenMM::State::DataType changed);
    /** The hidden state; and that of another Context, or of another time, of which the Context has the rest. */
    virtual HiddenState getHidden(const Turn&) {
        return {lastVelocities.propagated, {}};
    }
    virtual void setHidden(const Turn&, const HiddenState& hidden) {
        if (hidden.vectors.size() == lastVelocities.propagated.size())
            lastVelocities = {state.velocities(), hidden.vectors};
    }
    /** Throw the error of a step that has failed because of a molecule, or of the forces on it. */
    [[noreturn]] virtual void refuseMolecule(const std::string& molecule, bool forces) const;

    // Of steps on the host. They begin with the positions that the method propagates.

    virtual const Vectors& getPropagated() {
        return state.positions();
    }
    /** A step has ended at positions that it propagates: show what the method shows. */
    virtual void stepHasEnded(const Vectors& /*propagated*/) {
    }

    // Of steps on a device.

    /** Whether the device has been told all that adopt() would bring up to date. */
    virtual bool isUpToDate() {
        return false;
    }
    /** Compile what a step needs, unless that has been done; whether the device can take steps. */
    virtual bool compile() {
        return false;
    }

    /** Whether the present step is taken on the device. */
    bool isOnDevice() const {
        return lead == Lead::Device;
    }
    /** What throws the error of a block for which phases of the method have not succeeded, see Machine. */
    auto refusal() const {
        return [this](const std::vector<int>& block, bool forces) { refuseBlock(block, forces); };
    }

    // Phases that all methods have.

    void computeForces();
    /**
     * A motion has come to the positions and the time of the end of the step: virtual sites follow. On the host, a motion
     * that has no end is found out before forces are asked for there.
     */
    void arrive();

    /** kT [kJ/mol], 0 without a heat bath. */
    double getThermalEnergy() const;

    const OpenMMStiff::StiffIntegrator* integrator = nullptr;
    /// The heat bath of the integrator, or null.
    const OpenMMStiff::LangevinThermostat* thermostat = nullptr;
    std::string className; // the integrator's
    OpenMM::ContextImpl& context;
    Backend backend;

private:
    const std::unique_ptr<HostState> ownState;

protected:
    const std::unique_ptr<Device> device;
    HostState& state;
    HostParticles particles;
    LastStep lastStep;
    KnownVelocities lastVelocities;

private:
    /** Who has what the next step begins with: the device if it has taken steps since. */
    enum class Lead { Host, Both, Device };
    /** What is going on: OpenMM announces a checkpoint as changes of everything, Energy last. */
    enum class Activity { None, Steps, LoadingCheckpoint };

    void adoptState();
    void beginPropagating(const Turn& turn);
    bool updateContextState();
    void removeMotion();
    void forcesHaveActed(bool onPositions);
    stiffcore::StepNumbers findNumbers();
    void askForFailure();
    void undo(const Device::State& before);
    void refuseBlock(const std::vector<int>& particles, bool forces) const;
    bool canUseDevice() const {
        return hasProgram && device->areTogether();
    }
    /** Let the method know what steps of the device have led to. */
    HostState& hear();
    void know(const Device::State& there);

    Lead lead = Lead::Host;
    Activity activity = Activity::None;
    /// Whether the Context has the velocities that move the particles; and whether the device has taken them up by itself.
    bool propagates = false, begunThere = false;
    /// Whether the device has a program for the next step, and random numbers that are the integrator's.
    bool hasProgram = false, deviceHasRandom = false;
    /// Whether steps have ended on the device, which remembers the state there.
    bool isRemembered = false;
    long long countAtBeginning = 0;
    Vectors beforeCollision; // velocities
    /// When the present step began, once it has arrived at its end.
    std::optional<double> departure;
};

} // namespace stiffhost

#endif /* STIFFHOST_STEP_SESSION_H_ */
