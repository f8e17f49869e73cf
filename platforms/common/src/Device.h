#ifndef STIFFCOMMON_DEVICE_H_
#define STIFFCOMMON_DEVICE_H_

#include "BlockKind.h"
#include "ReferenceVirtualSites.h"
#include "openmm/Vec3.h"
#include "stiffhost/SharedKernels.h"
#include "openmm/common/ComputeArray.h"
#include "openmm/common/ComputeContext.h"
#include "openmm/common/ContextSelector.h"
#include "openmm/internal/ContextImpl.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace stiffcommon {

/**
 * The device of a Context with what steps need there: kernels and the arrays that they work on, which follow the order
 * that OpenMM gives to particles.
 *
 * Kernels run long after they have been launched, so that whether a step has failed is asked for now and then only.
 * From the failure on, kernels do nothing; what the particles were before it is kept.
 */
class Device {
public:
    using State = stiffhost::SharedKernel::State;
    /** Why a step has failed. */
    struct Failure {
        /// The particles of the block that could not be worked on, and whether forces were the reason; or none, and the
        /// particle whose velocity is not finite, or impossible.
        std::vector<int> block;
        bool forces = false;
        int particle = -1;
        State before;
    };
    using Uniforms = std::array<double, int(Uniform::Count)>;

    Device(OpenMM::ContextImpl& contextImpl, OpenMM::ComputeContext& context);
    ~Device();

    bool isPrecise() const {
        return context.getUseDoublePrecision() || context.getUseMixedPrecision();
    }

    /** Forget all kernels. */
    void clear();
    /** Add the kernels for blocks of a kind, the same number for each kind. */
    template <template <class> class Batch>
    void add(const BlockKind<Batch>& kind, const std::vector<KernelText>& texts) {
        std::vector<std::vector<int>> particles;
        for (const stiffcore::Block& block : kind.getBlocks())
            particles.push_back(block.particles);
        add(texts, particles, kind.getSets(), kind.getParameters());
    }
    /** Add those for particles without a block. */
    void addFree(const std::vector<int>& particles, const std::vector<KernelText>& texts);
    /** Let somebody else move the particles of some blocks. */
    void addOutside(const std::vector<stiffcore::Block>& blocks, const std::vector<int>& particles);
    /** Compile what has been added. */
    void compile();

    /** Begin a step: everything is up to date but for kernels that have been launched before. */
    void beginStep(double time, long long stepCount);
    /** Execute the kernel of an index of all kinds. */
    void execute(int kernel, OpenMM::ArrayInterface& forces);
    /** Get the particles that somebody else moves: positions, velocities and forces. */
    void getOutside(OpenMM::ArrayInterface& forces, std::vector<OpenMM::Vec3>& positions,
                    std::vector<OpenMM::Vec3>& velocities, std::vector<OpenMM::Vec3>& forcesOnThem);
    /**
     * Give them other positions and velocities, in place of a kernel of an index.
     *
     * @param isFirst   whether the step begins with what they were
     */
    void setOutside(int kernel, bool isFirst, const std::vector<OpenMM::Vec3>& positions,
                    const std::vector<OpenMM::Vec3>& velocities);
    /** The step has failed because of one of their blocks or, if it is the velocity's fault, particles. */
    void failOutside(int kernel, FailureKind kind, int index);
    /** End it: particles may be given another order. */
    void endStep();

    /** Set what is the same for all blocks, but for the box, which is set with it. */
    void setUniform(Uniforms values);

    /** Set the offsets that are kept, in the order of the System; other vectors are forgotten. */
    void setOffsets(const std::vector<OpenMM::Vec3>& offsets);

    /** The random numbers of OpenMM's generator; false if somebody else has seeded it with another number. */
    bool initializeRandom(int seed);

    /** Whether it should be asked for failures now, rather than after more steps. */
    bool isTimeToAsk() const;
    /** Wait for all kernels; true if a step has failed. */
    bool hasFailed();
    /**
     * After a failure: put back the time and the box of before, and get the rest of the state. From now on kernels work
     * again.
     */
    Failure recover();

    /** Remember the present state; get it; find out, at little cost, whether it is still that of the Context. */
    void remember();
    State recall() const;
    bool isAsRemembered();

    /** Whether the particles of each block lie together: OpenMM has not moved some of them through the box. */
    bool areTogether() const {
        return together;
    }

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
        std::vector<KernelText> texts;
        int firstBlock, count;
        /// The particles of the blocks, by their place.
        std::vector<int> particles;
        std::vector<int> sets;
        std::vector<double> parameters;
        /// The same on the device, the particles by where they are there.
        OpenMM::ComputeArray placesThere, setsThere, parametersThere, kept;
        std::vector<OpenMM::ComputeKernel> kernels;
    };

    /** Particles that somebody else moves. */
    struct Outside {
        int firstBlock = 0;
        std::vector<int> particles;
        OpenMM::ComputeArray placesThere, packed;
        OpenMM::ComputeKernel pack, unpack;
    };

    void add(const std::vector<KernelText>& texts, const std::vector<std::vector<int>>& blocks,
             const std::vector<int>& sets, const std::vector<double>& parameters);
    /** Follow the order in which the device has the particles. */
    void followOrder();
    void initialize(Copy& copy);
    static size_t placeOfKept(const Group& group, size_t i, Kept which);
    std::vector<OpenMM::Vec3> propagate(const std::vector<OpenMM::Vec3>& shown, Kept offset,
                                        const OpenMM::Vec3 box[3]) const;
    int getPhase(int kernel) const;
    void keepOrder(Copy& copy) const;
    void read(const Copy& copy, bool movedOnly, State& state) const;
    int getMixedSize() const {
        return isPrecise() ? sizeof(double) : sizeof(float);
    }

    OpenMM::ContextImpl& contextImpl;
    OpenMM::ComputeContext& context;
    Listener* listener;
    std::vector<char> mobile;
    std::unique_ptr<OpenMM::ReferenceVirtualSites> sites;
    std::vector<std::unique_ptr<Group>> groups;
    std::unique_ptr<Outside> outside;
    std::vector<std::vector<int>> blocks;
    OpenMM::ComputeArray uniform, failure, changed;
    Copy before, remembered;
    OpenMM::ComputeKernel compare;
    Uniforms uniformValues;
    bool together = true;
    // Of the steps since the last time that a failure was asked for.
    std::vector<Moment> moments;
    int failed[2] = {0, 0};
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_DEVICE_H_ */
