#ifndef STIFFCOMMON_DEVICE_KERNEL_H_
#define STIFFCOMMON_DEVICE_KERNEL_H_

#include "Device.h"
#include "openmm/KernelFactory.h"
#include "openmm/State.h"
#include "openmm/internal/ContextImpl.h"
#include "openmm/OpenMMException.h"
#include "openmmstiff/StiffKernels.h"
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
        inSteps = true;
        adopted = false; // others may have changed the Context
    }
    void adoptState(OpenMM::ContextImpl& contextImpl) override {
        if (adopted && isOnDevice() && isCurrent())
            return;
        askForFailure();
        useHost().adoptState(contextImpl);
        adopted = true;
        countAtAdoption = contextImpl.getStepCount();
        forcesKnown = false;
        if (!arranged || !isCurrent())
            arranged = arrange();
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
        useHost();
        leaveHost();
        inSteps = false;
    }

    // What is left to the host.

    void getState(OpenMM::ContextImpl& contextImpl, Vectors& positions, Vectors& velocities) override {
        useHost().getState(contextImpl, positions, velocities);
    }
    void setState(OpenMM::ContextImpl& contextImpl, const Vectors& positions, const Vectors& velocities) override {
        useHost().setState(contextImpl, positions, velocities);
    }
    void beginCollisions(OpenMM::ContextImpl& contextImpl) override {
        useHost().beginCollisions(contextImpl);
    }
    void endCollisions(OpenMM::ContextImpl& contextImpl) override {
        useHost().endCollisions(contextImpl);
    }
    void stateChanged(OpenMM::State::DataType changed) override {
        forcesKnown = false;
        if (changed == OpenMM::State::Positions || changed == OpenMM::State::Velocities)
            adopted = false;
        host->stateChanged(changed);
    }
    double computeKineticEnergy(OpenMM::ContextImpl& contextImpl) override {
        return useHost().computeKineticEnergy(contextImpl);
    }
    void createCheckpoint(OpenMM::ContextImpl& contextImpl, std::ostream& stream) const override {
        host->createCheckpoint(contextImpl, stream);
    }
    void loadCheckpoint(OpenMM::ContextImpl& contextImpl, std::istream& stream) override {
        useHost().loadCheckpoint(contextImpl, stream);
    }
    void serializeState(OpenMM::ContextImpl& contextImpl, OpenMM::SerializationNode& node) const override {
        host->serializeState(contextImpl, node);
    }
    void deserializeState(OpenMM::ContextImpl& contextImpl, const OpenMM::SerializationNode& node) override {
        useHost().deserializeState(contextImpl, node);
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
        device = std::make_unique<Device>(context);
        numParticles = contextImpl.getSystem().getNumParticles();
    }

    /** Get ready for what the host has prepared; whether the device can do it. */
    virtual bool arrange() = 0;
    /** Whether that is still what the integrator asks for. */
    virtual bool isCurrent() = 0;

    /** Whether the device takes the next step. */
    bool isOnDevice() const {
        return arranged && device->areTogether();
    }
    /** The host's kernel, which is told of the device's steps before it works; the device is left in peace. */
    Shared& useHost() {
        if (inSteps && !inHost) {
            host->beginSteps();
            inHost = true;
        }
        if (numUntold > 0) {
            numUntold = 0;
            host->stepsHaveBeenTaken();
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
        const DeviceFailure failure = device->recover(contextImpl);
        numUntold = 0;
        adopted = forcesKnown = false;
        Shared& shared = useHost();
        shared.stepHasFailed(failure.positions, failure.velocities, contextImpl.getStepCount() == countAtAdoption);
        if (failure.particle >= 0)
            shared.refuseVelocity(failure.particle);
        shared.refuseBlock(failure.block);
    }

    OpenMM::ContextImpl& contextImpl;
    OpenMM::ComputeContext& context;
    std::unique_ptr<Shared> host;
    std::unique_ptr<Device> device;
    int numParticles = 0;
    /// Whether the device's random numbers are ours.
    bool hasRandom = true;
    /// Whether the forces on the device are those at the present positions.
    bool forcesKnown = false;

private:
    const OpenMM::KernelFactory& anyPlatform;
    bool inSteps = false, inHost = false;
    bool adopted = false, arranged = false;
    /// How many steps the host has not been told of.
    long long numUntold = 0;
    long long countAtAdoption = 0;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_KERNEL_H_ */
