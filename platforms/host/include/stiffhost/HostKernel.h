#ifndef STIFFHOST_HOST_KERNEL_H_
#define STIFFHOST_HOST_KERNEL_H_

#include "HostParticles.h"
#include "HostState.h"
#include "openmm/Platform.h"
#include "openmm/internal/ContextImpl.h"
#include <iostream>
#include <memory>
#include <string>

namespace stiffhost {

/**
 * What all kernels have in common that work in the memory of the host. See HostParticles for the Backend; Base is what
 * an integrator asks of its kernel.
 */
template <class Backend, class Base> class HostKernel : public Base {
public:
    using Turn = HostState::Turn;

    HostKernel(const std::string& name, const OpenMM::Platform& platform, std::unique_ptr<Backend> backend,
               OpenMM::ContextImpl& context)
            : Base(name, platform), ownBackend(std::move(backend)), ownState(ownBackend->makeState(context)),
              backend(*ownBackend), state(*ownState), particles(*ownBackend, *ownState) {
    }

    void initializeRandom(int seed) override {
        backend.initializeRandom(seed);
    }

    void beginSteps() final {
        state.beginSteps();
    }
    void endSteps() final {
        state.endSteps();
    }
    void forcesHaveActed(bool onPositions) final {
        state.forcesHaveActed(onPositions);
    }

    void stateChanged(OpenMM::State::DataType changed) final {
        state.haveBeenSet(changed);
        forget(changed);
    }
    void rememberState(OpenMM::ContextImpl&) final {
        const Turn turn(state);
        rememberedPositions = state.positions();
        rememberedVelocities = state.velocities();
    }
    void bringBackState(OpenMM::ContextImpl&) final {
        const Turn turn(state);
        state.changePositions() = rememberedPositions;
        state.changeVelocities() = rememberedVelocities;
    }

    void createCheckpoint(OpenMM::ContextImpl&, std::ostream& stream) const final {
        const Turn turn(state);
        state.write(stream);
        writeHidden(stream);
        backend.write(stream);
    }
    void loadCheckpoint(OpenMM::ContextImpl&, std::istream& stream) final {
        const Turn turn(state);
        state.read(stream);
        readHidden(stream);
        backend.read(stream);
    }

private:
    // The kernel goes before its state, and that before what it may be working with.
    const std::unique_ptr<Backend> ownBackend;
    const std::unique_ptr<HostState> ownState;
    Vectors rememberedPositions, rememberedVelocities;

protected:
    /** What is remembered of the last step may be void, see StiffStepKernel::stateChanged(). */
    virtual void forget(OpenMM::State::DataType changed) = 0;
    /** The hidden state of the method, in checkpoints, see StiffStepKernel. A turn is held. */
    virtual void writeHidden(std::ostream& stream) const = 0;
    virtual void readHidden(std::istream& stream) = 0;

    Backend& backend;
    HostState& state;
    HostParticles<Backend> particles;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_KERNEL_H_ */
