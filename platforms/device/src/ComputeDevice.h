#ifndef STIFFDEVICE_COMPUTE_DEVICE_H_
#define STIFFDEVICE_COMPUTE_DEVICE_H_

#include "BlockText.h"
#include "Programs.h"
#include "openmm/Vec3.h"
#include "openmm/common/ComputeArray.h"
#include "openmm/common/ComputeContext.h"
#include "openmm/common/ContextSelector.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffhost/Device.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace stiffdevice {

using stiffhost::Vectors;

/**
 * A device of OpenMM's: kernels and the arrays that they work on, which follow the order that OpenMM gives to particles.
 */
class ComputeDevice final : public stiffhost::Device {
public:
    ComputeDevice(OpenMM::ContextImpl& contextImpl, OpenMM::ComputeContext& context);
    ~ComputeDevice() override;

    void keepTogether(const std::vector<std::array<int, 2>>& pairs) override;
    void initialize() override;
    bool initializeRandom(int seed) override;

    bool compile(const stiffcore::PenaltyMethod& method, const Blocks& blocks, const stiffcore::PairTerms& terms,
                 const std::vector<double>& masses) override;
    bool areTogether() const override {
        return together;
    }

    void removeMotion() override;
    void beginStep(const stiffcore::StepNumbers& numbers) override;
    void endStep() override;
    void execute(int which) override;

    bool isTimeToAsk() const override;
    bool hasFailed() override;
    Failure recover() override;
    bool isHalfDone() const override {
        return halfDone;
    }
    State recallBefore() const override {
        return read(before);
    }

    void remember() override;
    State recall() const override;
    bool isAsRemembered() override;
    double computeKineticEnergy() override;

private:
    class Listener;
    /** Arrays of the device at some time, in the order that particles had then. */
    struct Copy {
        OpenMM::ComputeArray posq, correction, velm;
        std::vector<int> order;
        std::vector<OpenMM::mm_int4> cells;
        OpenMM::Vec3 box[3];
    };
    struct Moment {
        double time;
        long long stepCount;
        OpenMM::Vec3 box[3];
    };

    /** Blocks of a kind, and the kernels that work on them. */
    struct Group {
        int firstBlock, count, numThreads;
        /// The particles of the blocks: of threads by their place, of teams by their block.
        std::vector<int> particles;
        /// On the device: the particles by where they are there, what else blocks have, and matrices of teams.
        OpenMM::ComputeArray placesThere, setsThere, parametersThere, kept, scratch;
        bool keepsVelocities;
        /// Those of the method, null if it has none, and how many random numbers each takes.
        std::vector<OpenMM::ComputeKernel> kernels;
        std::vector<int> numRandoms;
    };

    /** Put what is the same for all blocks where kernels read it. */
    void setUniform(const stiffcore::StepNumbers& numbers);
    void addGroup(const RecordedKind& kind, const OpenMM::ComputeProgram& program);
    void addStateArguments(const OpenMM::ComputeKernel& kernel, Copy& copy);
    /** Follow the order in which the device has the particles. */
    void followOrder();
    void initialize(Copy& copy);
    /** A number for a kernel in the present step, as failures are told. */
    int getMoment(int which) const;
    void keep(Copy& copy);
    void keepOrder(Copy& copy) const;
    State read(const Copy& copy) const;
    bool isPrecise() const {
        return context.getUseDoublePrecision() || context.getUseMixedPrecision();
    }
    int getMixedSize() const {
        return isPrecise() ? sizeof(double) : sizeof(float);
    }

    OpenMM::ContextImpl& contextImpl;
    OpenMM::ComputeContext& context;
    Listener* listener;
    int numParticles = 0;
    std::vector<std::unique_ptr<Group>> groups;
    std::vector<std::vector<int>> blocks;
    OpenMM::ComputeArray uniform, failure, changed;
    Copy before, remembered;
    OpenMM::ComputeKernel compare, remove;
    /// The masses of particles with their inertias; on the device, if they are there, as weights by the place of each.
    std::vector<double> inertias;
    bool weighs = false;
    OpenMM::ComputeArray weights;
    std::array<double, numUniforms> uniformValues = {};
    bool together = true, halfDone = false;
    // Of the steps since the last time that a failure was asked for.
    std::vector<Moment> moments;
    int failed[2] = {0, 0};
};

} // namespace stiffdevice

#endif /* STIFFDEVICE_COMPUTE_DEVICE_H_ */
