#ifndef STIFFCOMMON_DEVICE_KERNEL_H_
#define STIFFCOMMON_DEVICE_KERNEL_H_

#include "Device.h"
#include "openmm/KernelFactory.h"
#include "openmm/State.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/StiffKernels.h"
#include <algorithm>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

namespace stiffcommon {

/**
 * A kernel that takes steps on a device, without a transfer, for molecules that are small enough for one of its threads.
 * Everything else, and the steps of other Systems, is done by the kernel for any platform in the memory of the host.
 *
 * @tparam Shared   that kernel's interface, see stiffhost::SharedKernel
 * @tparam Base     what an integrator asks of its kernel, from which Shared is derived
 */
template <class Base, class Shared> class DeviceKernel : public Base {
public:
    using Vectors = std::vector<OpenMM::Vec3>;

    /** @param anyPlatform   makes the kernel for any platform */
    DeviceKernel(const std::string& name, const OpenMM::Platform& platform, OpenMM::ContextImpl& contextImpl,
                 OpenMM::ComputeContext& context, const OpenMM::KernelFactory& anyPlatform)
            : Base(name, platform), contextImpl(contextImpl), context(context), anyPlatform(anyPlatform) {
    }

    void initializeRandom(int seed) override {
        hasRandom = device->initializeRandom(seed);
        host->initializeRandom(seed);
    }

    // Steps.

    void beginSteps() override {
        // Somebody may have changed the Context without a word.
        adopted = adopted && rememberedThere && device->isAsRemembered();
        if (!adopted)
            useHost(); // it is told what the steps have led to, not what has been made of that
        inSteps = true;
    }
    void prepare(OpenMM::ContextImpl& contextImpl) override {
        useHost().prepare(contextImpl);
    }
    std::string adoptState(OpenMM::ContextImpl& contextImpl) override {
        if (adopted && isOnDevice() && isCurrent())
            return {};
        askForFailure();
        const std::string remark = useHost().adoptState(contextImpl);
        adopted = true;
        countAtAdoption = contextImpl.getStepCount();
        forcesKnown = false;
        if (!arranged || !isCurrent())
            arranged = arrange();
        if (isOnDevice())
            takeAdopted();
        return remark;
    }
    void forcesHaveActed(bool onPositions) override {
        if (onPositions) {
            askForFailure();
            forcesKnown = false;
        }
        if (inHost)
            host->forcesHaveActed(onPositions);
    }
    void finishSteps(OpenMM::ContextImpl&) override {
        askForFailure();
    }
    void endSteps() override {
        leaveHost();
        inSteps = false;
    }
    void rememberState(OpenMM::ContextImpl& contextImpl) override {
        rememberedThere = (numUntold > 0);
        if (rememberedThere)
            device->remember();
        else
            host->rememberState(contextImpl);
    }

    // What is left to the host.

    void bringBackState(OpenMM::ContextImpl& contextImpl) override {
        if (!rememberedThere)
            return useHost().bringBackState(contextImpl);
        const auto state = device->recall();
        contextImpl.setPositions(state.positions);
        contextImpl.setVelocities(state.velocities);
        device->remember(); // as it is now, rounded
        adopted = false;
    }
    void beginCollisions(OpenMM::ContextImpl& contextImpl) override {
        useHost().beginCollisions(contextImpl);
    }
    void endCollisions(OpenMM::ContextImpl& contextImpl) override {
        useHost().endCollisions(contextImpl);
    }
    void stateChanged(OpenMM::State::DataType changed) override {
        forcesKnown = false;
        if (changed != OpenMM::State::Positions && changed != OpenMM::State::Velocities)
            return host->stateChanged(changed);
        adopted = false;
        useHost().stateChanged(changed);
    }
    double computeKineticEnergy(OpenMM::ContextImpl& contextImpl) override {
        return useHost().computeKineticEnergy(contextImpl);
    }
    // A run that goes on begins again from what has been saved, to be the same as one that is resumed.

    void createCheckpoint(OpenMM::ContextImpl& contextImpl, std::ostream& stream) const override {
        useHost().createCheckpoint(contextImpl, stream);
        writeHidden(stream);
        adopted = false;
    }
    void loadCheckpoint(OpenMM::ContextImpl& contextImpl, std::istream& stream) override {
        useHost().loadCheckpoint(contextImpl, stream);
        readHidden(stream);
        adopted = false;
    }
    void serializeState(OpenMM::ContextImpl& contextImpl, OpenMM::SerializationNode& node) const override {
        useHost().serializeState(contextImpl, node);
        adopted = false;
    }
    void deserializeState(OpenMM::ContextImpl& contextImpl, const OpenMM::SerializationNode& node) override {
        useHost().deserializeState(contextImpl, node);
        adopted = false;
    }

protected:
    /** Make the host's kernel and the device ready. */
    template <class Integrator> void initializeShared(const Integrator& integrator) {
        std::unique_ptr<OpenMM::KernelImpl> made(
                anyPlatform.createKernelImpl(this->getName(), this->getPlatform(), contextImpl));
        host.reset(dynamic_cast<Shared*>(made.get()));
        if (host == nullptr)
            throw OpenMM::OpenMMException("The kernels for any platform are of another build of OpenMM-Stiff");
        made.release();
        host->initialize(contextImpl, static_cast<const OpenMMStiff::StiffIntegrator&>(integrator), this->className);
        device = std::make_unique<Device>(contextImpl, context);
        const OpenMM::System& system = contextImpl.getSystem();
        for (int i = 0; i < system.getNumParticles(); i++)
            masses.push_back(system.getParticleMass(i));
    }

    /** Molecules whose matrix has more rows than this are left to the host, see docs/platforms.md. */
    static constexpr int maxRows = 18;

    /** Get ready for what the host has prepared; whether the device can do it. */
    virtual bool arrange() = 0;
    /** Whether that is still what the integrator asks for. */
    virtual bool isCurrent() = 0;

    /** What a checkpoint holds beside what the host and OpenMM write. */
    virtual void writeHidden(std::ostream&) const {
    }
    virtual void readHidden(std::istream&) {
    }

    /** The host has adopted a state: take what of it the Context does not have. */
    virtual void takeAdopted() {
    }

    /**
     * Record and compile the kernels for all particles.
     *
     * @param texts   the kernels of a kind: called as texts(record) with record(name, body), see BlockKind::record()
     * @param free    those for free particles
     * @param large, outside   blocks that somebody else moves, and their particles
     */
    template <template <class> class Batch, class Texts>
    void compile(const std::vector<stiffcore::Block>& blocks, const typename Batch<double>::Terms& terms, Texts&& texts,
                 const std::vector<KernelText>& free, const std::vector<stiffcore::Block>& large = {},
                 const std::vector<int>& outside = {}) {
        device->clear();
        const auto kinds = BlockKind<Batch>::sort(blocks, terms, masses);
        for (size_t i = 0; i < kinds.size(); i++)
            device->add(kinds[i], texts([&](const std::string& name, auto&& body) {
                            return kinds[i].record(name + std::to_string(i), terms, masses, body);
                        }));
        std::vector<char> isFree(masses.size());
        for (size_t i = 0; i < masses.size(); i++)
            isFree[i] = masses[i] > 0;
        for (const auto* some : {&blocks, &large})
            for (const stiffcore::Block& block : *some)
                for (int i = 0; i < block.numMobile; i++)
                    isFree[block.particles[i]] = false;
        std::vector<int> particles;
        for (size_t i = 0; i < masses.size(); i++)
            if (isFree[i])
                particles.push_back(i);
        device->addFree(particles, free);
        if (!large.empty())
            device->addOutside(large, outside);
        device->compile();
    }

    /** Whether the device takes the next step. */
    bool isOnDevice() const {
        return arranged && device->areTogether();
    }
    /** The host's kernel, which is told of the device's steps before it works; the device is left in peace. */
    Shared& useHost() const {
        if (numUntold > 0) {
            if (inSteps)
                device->remember();
            numUntold = 0;
            host->stepsHaveBeenTaken(device->recall());
        }
        if (inSteps && !inHost) {
            host->beginSteps();
            inHost = true;
        }
        return *host;
    }
    void leaveHost() {
        if (inHost)
            host->endSteps();
        inHost = false;
    }

    /** Take a step on the device, by launching kernels. */
    template <class Work> void step(double h, Work&& work) {
        leaveHost();
        device->beginStep(contextImpl.getTime(), contextImpl.getStepCount());
        numUntold++;
        work();
        contextImpl.setTime(contextImpl.getTime() + h);
        contextImpl.setStepCount(contextImpl.getStepCount() + 1);
        if (device->isTimeToAsk())
            askForFailure();
        device->endStep();
    }
    /** Throw the error of a step that has failed on the device, if one has. */
    void askForFailure() {
        if (!device->hasFailed())
            return;
        const Device::Failure failure = device->recover();
        numUntold = 0;
        adopted = forcesKnown = false;
        Shared& shared = useHost();
        shared.stepHasFailed(failure.before, contextImpl.getStepCount() == countAtAdoption);
        if (failure.particle >= 0)
            shared.refuseVelocity(failure.particle);
        shared.refuseBlock(failure.block, failure.forces);
    }

    /** Whether the forces on the device, of some groups, are those at the present positions in the present box. */
    bool areForcesKnown(int groups) const {
        OpenMM::Vec3 present[3];
        contextImpl.getPeriodicBoxVectors(present[0], present[1], present[2]);
        return forcesKnown && groups == forceGroups && std::equal(present, present + 3, forceBox);
    }
    /** A step has ended with forces of some groups, which begin the next one unless something changes. */
    void keepForces(int groups) {
        forcesKnown = true;
        forceGroups = groups;
        contextImpl.getPeriodicBoxVectors(forceBox[0], forceBox[1], forceBox[2]);
    }

    OpenMM::ContextImpl& contextImpl;
    OpenMM::ComputeContext& context;
    std::unique_ptr<Shared> host;
    std::unique_ptr<Device> device;
    std::vector<double> masses;
    /// Whether the device's random numbers are ours.
    bool hasRandom = true;

private:
    const OpenMM::KernelFactory& anyPlatform;
    /// Whether nothing has changed since the forces were kept that is told, and what is not: groups and the box.
    bool forcesKnown = false;
    int forceGroups = 0;
    OpenMM::Vec3 forceBox[3];
    bool inSteps = false;
    // Whether the host's kernel is at work, and how many steps it has not been told of.
    mutable bool inHost = false;
    mutable long long numUntold = 0;
    /// Whether the device, rather than the host, remembers a state.
    bool rememberedThere = false;
    /// Whether the host has adopted the state that the device goes on with; what the device is ready for.
    mutable bool adopted = false;
    bool arranged = false;
    long long countAtAdoption = 0;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_KERNEL_H_ */
