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

    /**
     * Bring what is taken from the System up to date, and tell whether it has become another; throw an exception if no
     * step can be taken with it. See update().
     */
    virtual bool prepare() = 0;
    /** What the Context shows between calls of step(), and what steps propagate. */
    enum class Form { Shown, Propagated };
    /** Give the Context's velocities another form, or take over positions in it. */
    virtual void turnInto(Form, const Turn&) {
    }
    /** What a CMMotionRemover has to take out. */
    struct CommonMotion {
        /// Of what is shown: what steps propagate has no motion that is common to all.
        bool ofShown = false;
        /// With these masses; null for those of the System.
        const std::vector<double>* masses = nullptr;
    };
    virtual CommonMotion getCommonMotion() const {
        return {};
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
    /** A step has ended on the host: show what the method shows after each. The turn goes on. */
    virtual void stepHasEnded() {
    }
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
    /** Compile for the device what has been prepared; whether it can take steps. */
    virtual bool compile() {
        return false;
    }

    /** Have what is taken from the System brought up to date. */
    void update();
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
    std::unique_ptr<Device> device; // null if steps are never taken on one
    HostState& state;
    HostParticles particles;
    LastStep lastStep;
    KnownVelocities lastVelocities;

private:
    /** Who has what the next step begins with: the device if it has taken steps since, which it remembers at their end. */
    enum class Lead { Host, Both, Device };
    /** What is going on: OpenMM announces a checkpoint as changes of everything, Energy last. */
    enum class Activity { None, Steps, LoadingCheckpoint };
    /** What the device has been told of what prepare() takes: nothing yet, in vain, or all. */
    enum class Program { Outdated, Impossible, Ready };

    void adoptState();
    void beginPropagating(const Turn& turn);
    bool updateContextState();
    void removeMotion(const std::vector<double>& masses);
    void forcesHaveActed(bool onPositions);
    stiffcore::StepNumbers findNumbers();
    void askForFailure();
    void undo(const Device::State& before);
    void refuseBlock(const std::vector<int>& particles, bool forces) const;
    bool canUseDevice() const {
        return program == Program::Ready && device->areTogether();
    }
    /** Let the method know what steps of the device have led to. */
    HostState& hear();
    void know(const Device::State& there);

    Lead lead = Lead::Host;
    Activity activity = Activity::None;
    Program program = Program::Outdated;
    /// What the Context has; and whether the device has turned it into what is propagated by itself.
    Form form = Form::Shown;
    bool begunThere = false;
    long long countAtBeginning = 0;
    Vectors beforeCollision; // velocities
    /// When the present step began, once it has arrived at its end.
    std::optional<double> departure;
};

} // namespace stiffhost

#endif /* STIFFHOST_STEP_SESSION_H_ */
