#ifndef STIFFHOST_STEP_SESSION_H_
#define STIFFHOST_STEP_SESSION_H_

#include "Backend.h"
#include "Device.h"
#include "HostParticles.h"
#include "HostState.h"
#include "LastStep.h"
#include "Machine.h"
#include "openmm/Platform.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/serialization/SerializationNode.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/LangevinThermostat.h"
#include "openmmstiff/internal/windowsExportStiff.h"
#include <array>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>

namespace stiffhost {

/**
 * What every step needs and no method should know: where it is taken, in the memory of the host or on a device; what was
 * before a step that fails; who has the present state; what is remembered, saved and brought back.
 *
 * The kernel of a method derives from it. It says what its step is made of, once for both, see takeStep(bool). On the host
 * its phases work on the state, on a device they are kernels. Everything but steps is done on the host.
 */
class OPENMM_EXPORT_STIFF StepSession : public OpenMMStiff::StiffStepKernel {
public:
    /** @param useDevice   whether devices have a program for the method */
    StepSession(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<PlatformResources> resources,
                OpenMM::ContextImpl& context, bool useDevice);

    void initialize(const OpenMMStiff::StiffIntegrator& integrator, const std::string& className) final;
    void requirePossible() final;
    void beginSteps() final;
    void takeStep() final;
    void finishSteps() final;
    void endSteps() final;
    void stateChanged(OpenMM::State::DataType changed) final;
    double computeKineticEnergy() final;
    void createCheckpoint(std::ostream& stream) final;
    void loadCheckpoint(std::istream& stream) final;
    void bringBackState() final;
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

    // What a method says of itself. A turn is held, but where it is said.

    /** The Context has come into being. */
    virtual void start() = 0;
    /** Bring what is taken from the System up to date; throw an exception if no step can be taken with it. */
    virtual void prepare() = 0;
    /** Take over the state that a step begins with. */
    virtual void adopt() {
        prepare();
    }
    /** Let the Context have what the method shows between calls. */
    virtual void show() {
    }
    /** Something is about to change velocities of some particles as if they were shown, and has. No turn is held. */
    virtual void beginCollisions() {
    }
    virtual void endCollisions() {
    }
    /** Whether a velocity that is common to all particles is no motion of the method as any other. */
    virtual bool hasAnchors() const {
        return false;
    }
    /**
     * The course of a step. On the host a turn is held, and its end propagates the Context's positions.
     *
     * @param known   whether the step begins where the last one has ended
     */
    virtual void takeStep(bool known) = 0;
    /** The settings on which accelerations depend. No turn is held. */
    virtual SettingNumbers getSettings() const {
        return {};
    }
    /** What is remembered of the last step may be void. No turn is held. */
    virtual void forget(OpenMM::State::DataType changed);
    virtual double findKineticEnergy() {
        return particles.computeKineticEnergy();
    }
    /** The hidden state in checkpoints and saved States: what a step needs beyond positions and velocities. */
    virtual void writeHidden(std::ostream&) {
    }
    virtual void readHidden(std::istream&) {
    }
    virtual void writeHidden(OpenMM::SerializationNode&) {
    }
    virtual void readHidden(const OpenMM::SerializationNode&) {
    }
    /** A step begins: hand its numbers to the machine, with those of the method. No turn is held. */
    virtual void begin(stiffcore::StepNumbers&) {
    }

    // Of steps on the host. They begin with the positions that the method propagates.

    virtual const Vectors& getPropagated() {
        return state.positions();
    }
    /** A step has ended at positions that it propagates: show what the method shows. */
    virtual void stepHasEnded(const Vectors& /*propagated*/) {
    }

    // Of steps on a device.

    /** What a program is compiled for: terms, and one of the variants of the method; none has no steps on devices. */
    struct Program {
        static constexpr int none = -1;
        int terms, variant;
        bool operator==(const Program& other) const {
            return terms == other.terms && variant == other.variant;
        }
    };
    /** The first that is said. No turn is held. */
    virtual void beforeDeviceIsReady() {
    }
    /** The program that a step would need now, with the terms as they are. No turn is held. */
    virtual Program getProgram() {
        return {0, Program::none};
    }
    virtual void compile() {
    }
    /** Whether adopt() has nothing to bring up to date. No turn is held. */
    virtual bool isUpToDate() {
        return false;
    }
    /** A step begins with the state that the device has, and one has ended: the same as adopt() and show(), there. */
    virtual void goOnThere() {
    }
    virtual void showThere() {
    }
    /** Give the device what the Context does not have; take what the method chooses for steps that follow. */
    virtual void handOver() {
    }
    /** Steps have been taken since, which have led to a state. No turn is held. */
    virtual void stepsHaveBeenTaken(const Device::State& /*state*/) {
    }
    /** A step has failed, and the Context has the state before it. isFirst: no step of this call has been taken. */
    virtual void stepHasFailedThere(const Device::State& /*before*/, bool /*isFirst*/) {
    }
    /** Throw the error of a step that has failed because of a molecule, or of the forces on it. No turn is held. */
    [[noreturn]] virtual void refuseMolecule(const std::string& molecule, bool forces) const;

    /** Whether the present step is taken on the device. */
    bool isOnDevice() const {
        return lead == Lead::Device;
    }

    // Of steps that are made of kicks and of a motion between them.

    /**
     * Half a kick, the motion, and half a kick; with a heat bath one kick, and a motion that holds the heat bath.
     *
     * @tparam Method    has the kernels Start, which leaves what the first kick needs, Move and Finish
     * @param execute    executes one of them
     * @param hasForces  whether they need forces
     */
    template <class Method, class Execute> void kickAndMove(bool known, bool hasForces, Execute&& execute) {
        auto begin = [&](int kernel) {
            if (hasForces)
                computeForces();
            execute(kernel);
        };
        if (thermostat != nullptr) {
            begin(Method::Move);
            return computeVirtualSites();
        }
        if (!known)
            begin(Method::Start);
        execute(Method::Move);
        computeVirtualSites();
        begin(Method::Finish);
    }
    /** Execute phases of the method on the host. */
    template <class Machine, class... Phases> void run(Machine& machine, Phases... phases) {
        require(machine.run(std::array<typename Machine::Phase, sizeof...(Phases)>{phases...}));
    }
    /** Execute a kernel of the method on the device. */
    template <class Machine> void executeThere(Machine& machine, int kernel) {
        if (machine.executeThere(kernel))
            askForFailure();
    }
    /** Throw the error of blocks for which phases did not succeed, if there are any. */
    void require(const FailedBlock& failed) const {
        if (failed.particles != nullptr)
            refuseBlock(*failed.particles, failed.isPushed);
    }

    // Phases that all methods have.

    void computeForces();
    /** After a motion. On the host, one that has no end is found out before forces are asked for there. */
    void computeVirtualSites();

    /** kT [kJ/mol], 0 without a heat bath. */
    double getThermalEnergy() const;
    /** Throw the error of a step that has failed on the device, if one has. */
    void askForFailure();

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

private:
    /** Who has what the next step begins with: the device if it has taken steps since. */
    enum class Lead { Host, Both, Device };
    /** What is going on: OpenMM announces a checkpoint as changes of everything, Energy last. */
    enum class Activity { None, Steps, LoadingCheckpoint, BringingBack };
    /** A state of the Context, for the case that a checkpoint is refused after OpenMM has loaded its part. */
    struct Remembered {
        bool known = false, onDevice = false;
        Device::State state;
        OpenMM::Vec3 box[3];
        std::map<std::string, double> parameters;
        double time = 0;
        long long stepCount = 0;
    };

    void adoptState();
    bool updateContextState();
    void forcesHaveActed(bool onPositions);
    stiffcore::StepNumbers findNumbers();
    void remember();
    void refuseBlock(const std::vector<int>& particles, bool forces) const;
    bool canUseDevice() const {
        return hasProgram && device->areTogether();
    }
    /** Let the method know what steps of the device have led to. */
    HostState& hear();

    Lead lead = Lead::Host;
    Activity activity = Activity::None;
    Remembered remembered;
    Program compiledFor = {0, Program::none};
    /// Whether the device has that program, and random numbers that are the integrator's.
    bool hasProgram = false, deviceHasRandom = false;
    long long countAtBeginning = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_STEP_SESSION_H_ */
