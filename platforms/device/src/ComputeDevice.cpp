#include "ComputeDevice.h"
#include "openmm/common/ComputeForceInfo.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace OpenMM;
using namespace stiffdevice;
using std::vector;

namespace {

/** For how many steps at most nobody asks whether one has failed. */
constexpr size_t maxSteps = 100;
/** Lengths are not known better than this on a device that has them in single precision, relative. */
constexpr double minSingleTolerance = 1e-6;
/** After so many steps OpenMM gives particles another order. */
constexpr int stepsToReorder = 250;

/** More than the kernels of a method. */
constexpr int maxKernels = 8;
/** The arguments of all kernels that change, see BlockText::getHead(). */
enum Argument { MomentArgument = 2, RandomIndex = 3, Random = 9 };

/** Particles that OpenMM must not move through the box one by one. */
class TogetherInfo : public ComputeForceInfo {
public:
    explicit TogetherInfo(const vector<std::array<int, 2>>& pairs) : pairs(pairs) {
    }
    int getNumParticleGroups() override {
        return pairs.size();
    }
    void getParticlesInGroup(int index, vector<int>& particles) override {
        particles.assign(pairs[index].begin(), pairs[index].end());
    }
    /** Whatever differs between molecules follows them when they change places. */
    bool areGroupsIdentical(int, int) override {
        return true;
    }

private:
    const vector<std::array<int, 2>> pairs;
};

/** Vectors as the device keeps them, with a fourth number. */
vector<Vec3> download(const ComputeArray& array, bool isDouble) {
    vector<Vec3> vectors;
    auto append = [&](const auto& elements) {
        for (const auto& element : elements)
            vectors.push_back(Vec3(element.x, element.y, element.z));
    };
    if (isDouble) {
        vector<mm_double4> elements;
        array.download(elements);
        append(elements);
    }
    else {
        vector<mm_float4> elements;
        array.download(elements);
        append(elements);
    }
    return vectors;
}

} // namespace

class ComputeDevice::Listener : public ComputeContext::ReorderListener {
public:
    explicit Listener(ComputeDevice& device) : device(&device) {
    }
    void execute() override {
        if (device != nullptr)
            device->followOrder();
    }
    ComputeDevice* device;
};

ComputeDevice::ComputeDevice(ContextImpl& contextImpl, ComputeContext& context)
        : contextImpl(contextImpl), context(context), listener(new Listener(*this)) {
    context.addReorderListener(listener); // which belongs to the context from now on
}

ComputeDevice::~ComputeDevice() {
    listener->device = nullptr;
}

void ComputeDevice::keepTogether(const vector<std::array<int, 2>>& pairs) {
    context.addForce(new TogetherInfo(pairs)); // which belongs to the context from now on
}

void ComputeDevice::initialize() {
    const ContextSelector selector(context);
    numParticles = contextImpl.getSystem().getNumParticles();
    uniform.initialize(context, numUniforms, getMixedSize(), "stiffUniform");
    failure.initialize<int>(context, 2, "stiffFailure");
    failure.upload(vector<int>{0, 0});
    changed.initialize<int>(context, 1, "stiffChanged");
    weights.initialize(context, context.getPaddedNumAtoms(), getMixedSize(), "stiffWeights");
    initialize(before);
    initialize(remembered);
}

void ComputeDevice::initialize(Copy& copy) {
    const int size = context.getPaddedNumAtoms();
    copy.posq.initialize(context, size, context.getPosq().getElementSize(), "stiffPosq");
    copy.velm.initialize(context, size, context.getVelm().getElementSize(), "stiffVelm");
    if (context.getUseMixedPrecision())
        copy.correction.initialize(context, size, context.getPosqCorrection().getElementSize(), "stiffCorrection");
}

bool ComputeDevice::compile(const stiffcore::PenaltyMethod& method, const Blocks& all,
                            const stiffcore::PairTerms& terms, const vector<double>& masses) {
    const Recorded recorded = record(method, all, terms, masses);
    if (recorded.empty())
        return false;
    const ContextSelector selector(context);
    groups.clear();
    blocks.clear();
    for (const RecordedProgram& own : recorded) {
        const ComputeProgram program = context.compileProgram(own.getText());
        compare = program->createKernel("compareState"); // of all programs the same, as the next one
        remove = program->createKernel("removeMotion");
        for (const RecordedKind& kind : own.kinds)
            addGroup(kind, program);
    }
    compare->addArg(context.getNumAtoms());
    compare->addArg(changed);
    addStateArguments(compare, remembered);
    inertias = stiffcore::addInertias(terms, masses);
    remove->addArg(context.getNumAtoms());
    remove->addArg(weights);
    remove->addArg(context.getVelm());
    followOrder();
    return true;
}

void ComputeDevice::addGroup(const RecordedKind& kind, const ComputeProgram& program) {
    auto group = std::make_unique<Group>();
    const int count = kind.blocks.size();
    group->firstBlock = blocks.size();
    group->count = count;
    group->numThreads = kind.numThreads;
    group->keepsVelocities = kind.keepsVelocities;
    if (kind.numThreads > 1)
        for (const vector<int>& block : kind.blocks)
            group->particles.insert(group->particles.end(), block.begin(), block.end());
    else
        for (size_t i = 0; i < kind.blocks[0].size(); i++)
            for (const vector<int>& block : kind.blocks)
                group->particles.push_back(block[i]);
    blocks.insert(blocks.end(), kind.blocks.begin(), kind.blocks.end());
    group->placesThere.initialize<int>(context, group->particles.size(), "stiffParticles");
    group->setsThere.initialize<int>(context, kind.sets.size(), "stiffSets");
    group->setsThere.upload(kind.sets);
    group->parametersThere.initialize(context, kind.parameters.size(), getMixedSize(), "stiffParameters");
    group->parametersThere.upload(kind.parameters, true);
    group->kept.initialize(context, int(KeptVector::Count) * group->particles.size(),
                           context.getVelm().getElementSize(), "stiffKept");
    context.clearBuffer(group->kept);
    if (kind.numThreads > 1) // and no more teams than this work at a time
        group->scratch.initialize(context, std::max(1, std::min(count, context.getNumThreadBlocks()) * kind.numScratch),
                                  getMixedSize(), "stiffScratch");
    for (const KernelText& kernelText : kind.kernels) {
        group->numRandoms.push_back(kernelText.numRandoms);
        group->kernels.push_back(nullptr);
        if (kernelText.name.empty())
            continue;
        const ComputeKernel kernel = program->createKernel(kernelText.name);
        kernel->addArg(group->count);
        kernel->addArg(group->firstBlock);
        kernel->addArg(); // the moment
        kernel->addArg(); // where the random numbers begin
        kernel->addArg(context.getPaddedNumAtoms());
        kernel->addArg(group->placesThere);
        kernel->addArg(group->setsThere);
        kernel->addArg(group->parametersThere);
        kernel->addArg(uniform);
        kernel->addArg(before.velm); // random numbers; kernels without any take anything
        kernel->addArg(context.getLongForceBuffer());
        kernel->addArg(failure);
        kernel->addArg(group->kept);
        addStateArguments(kernel, before);
        if (kind.numThreads > 1) {
            kernel->addArg((int) group->particles.size());
            kernel->addArg(group->scratch);
        }
        group->kernels.back() = kernel;
    }
    groups.push_back(std::move(group));
}

/** The arguments with the present state and a copy of it, which are the last of a kernel. */
void ComputeDevice::addStateArguments(const ComputeKernel& kernel, Copy& copy) {
    kernel->addArg(context.getVelm());
    kernel->addArg(copy.velm);
    kernel->addArg(context.getPosq());
    kernel->addArg(copy.posq);
    if (context.getUseMixedPrecision()) {
        kernel->addArg(context.getPosqCorrection());
        kernel->addArg(copy.correction);
    }
}

void ComputeDevice::followOrder() {
    const ContextSelector selector(context);
    // When a step has failed, its particles are known in the order that they had then.
    if (moments.empty() || !hasFailed())
        keepOrder(before);
    const vector<int>& order = context.getAtomIndex();
    const vector<mm_int4>& cells = context.getPosCellOffsets();
    vector<int> places(order.size());
    for (size_t place = 0; place < order.size(); place++)
        places[order[place]] = place;
    for (const auto& group : groups) {
        vector<int> there;
        for (int particle : group->particles)
            there.push_back(places[particle]);
        group->placesThere.upload(there);
    }
    weighs = false;
    together = true;
    for (const vector<int>& block : blocks)
        for (int particle : block) {
            const mm_int4 &first = cells[places[block[0]]], &own = cells[places[particle]];
            together &= (first.x == own.x && first.y == own.y && first.z == own.z);
        }
}

void ComputeDevice::keepOrder(Copy& copy) const {
    copy.order = context.getAtomIndex();
    copy.cells = context.getPosCellOffsets();
}

void ComputeDevice::removeMotion() {
    const ContextSelector selector(context);
    if (!weighs) {
        const vector<int>& order = context.getAtomIndex();
        const double sum = std::accumulate(inertias.begin(), inertias.end(), 0.0);
        vector<double> there(context.getPaddedNumAtoms());
        for (int place = 0; place < numParticles; place++)
            there[place] = inertias[order[place]] / sum;
        weights.upload(there, true);
        weighs = true;
    }
    remove->execute(BlockText::motionThreads, BlockText::motionThreads);
}

void ComputeDevice::beginStep(const stiffcore::StepNumbers& numbers) {
    setUniform(numbers);
    halfDone = false;
    if (moments.empty())
        keep(before); // what is mobile is kept anew by each step
    Moment moment = {contextImpl.getTime(), contextImpl.getStepCount(), {}};
    context.getPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    moments.push_back(moment);
}

void ComputeDevice::execute(int which) {
    const ContextSelector selector(context);
    halfDone |= (which < stiffcore::PenaltyMethod::Show);
    for (const auto& group : groups) {
        const ComputeKernel& kernel = group->kernels[which];
        if (kernel == nullptr)
            continue;
        kernel->setArg(MomentArgument, getMoment(which));
        kernel->setArg(RandomIndex, 0);
        if (group->numRandoms[which] > 0) {
            IntegrationUtilities& utilities = context.getIntegrationUtilities();
            kernel->setArg(RandomIndex, utilities.prepareRandomNumbers(group->numRandoms[which]));
            kernel->setArg(Random, utilities.getRandom());
        }
        if (group->numThreads > 1)
            kernel->execute(group->numThreads * group->count, group->numThreads);
        else
            kernel->execute(group->count);
    }
}

int ComputeDevice::getMoment(int which) const {
    return maxKernels * (int) moments.size() + which;
}

void ComputeDevice::endStep() {
    const ContextSelector selector(context);
    halfDone = false;
    context.reorderAtoms();
}

void ComputeDevice::setUniform(const stiffcore::StepNumbers& numbers) {
    Vec3 box[3];
    context.getPeriodicBoxVectors(box[0], box[1], box[2]);
    std::array<double, numUniforms> values;
    std::copy(numbers.values.begin(), numbers.values.end(), values.begin());
    double& tolerance = values[int(Uniform::Tolerance)];
    if (!isPrecise())
        tolerance = std::max(tolerance, minSingleTolerance);
    int next = uniformBox;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j <= i; j++)
            values[next++] = box[i][j];
    if (values == uniformValues)
        return;
    const ContextSelector selector(context);
    uniformValues = values;
    uniform.upload(vector<double>(values.begin(), values.end()), true);
}

bool ComputeDevice::initializeRandom(int seed) {
    const ContextSelector selector(context);
    try {
        context.getIntegrationUtilities().initRandomNumberGenerator(seed);
        return true;
    }
    catch (const OpenMMException&) {
        return false;
    }
}

bool ComputeDevice::isTimeToAsk() const {
    const bool reorders = context.getNonbondedUtilities().getUseCutoff();
    return moments.size() >= maxSteps || (reorders && context.getStepsSinceReorder() >= stepsToReorder - 1);
}

bool ComputeDevice::hasFailed() {
    if (moments.empty() || failed[0] != 0)
        return failed[0] != 0;
    const ContextSelector selector(context);
    failure.download(failed);
    if (failed[0] == 0)
        moments.clear();
    return failed[0] != 0;
}

ComputeDevice::Failure ComputeDevice::recover() {
    const ContextSelector selector(context);
    const Moment moment = moments[failed[0] / maxKernels - 1];
    const int index = failed[1] / 4;
    std::copy_n(moment.box, 3, before.box);
    Failure result = {FailureKind(failed[1] % 4), {}, -1, recallBefore()};
    if (result.kind == VelocityFailed)
        result.particle = before.order[index];
    else
        result.block = blocks[index];
    contextImpl.setPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    contextImpl.setTime(moment.time);
    contextImpl.setStepCount(moment.stepCount);
    failed[0] = failed[1] = 0;
    failure.upload(vector<int>{0, 0});
    moments.clear();
    return result;
}

void ComputeDevice::remember() {
    keep(remembered);
}

void ComputeDevice::keep(Copy& copy) {
    const ContextSelector selector(context);
    context.getPosq().copyTo(copy.posq);
    context.getVelm().copyTo(copy.velm);
    if (context.getUseMixedPrecision())
        context.getPosqCorrection().copyTo(copy.correction);
    keepOrder(copy);
    context.getPeriodicBoxVectors(copy.box[0], copy.box[1], copy.box[2]);
}

bool ComputeDevice::isAsRemembered() {
    const ContextSelector selector(context);
    if (context.getAtomIndex() != remembered.order)
        return false;
    vector<int> flag = {0};
    changed.upload(flag);
    compare->execute(context.getNumAtoms());
    changed.download(flag);
    return flag[0] == 0;
}

double ComputeDevice::computeKineticEnergy() {
    const ContextSelector selector(context);
    return context.getIntegrationUtilities().computeKineticEnergy(0);
}

ComputeDevice::State ComputeDevice::recall() const {
    const ContextSelector selector(context);
    State state = read(remembered);
    state.propagated = state.velocities;
    for (const auto& group : groups)
        if (group->keepsVelocities) {
            const vector<Vec3> kept = download(group->kept, isPrecise());
            for (size_t i = 0; i < group->particles.size(); i++)
                state.propagated[group->particles[i]] = kept[int(KeptVector::Velocity) * group->particles.size() + i];
        }
    return state;
}

ComputeDevice::State ComputeDevice::read(const Copy& copy) const {
    const ContextSelector selector(context);
    State state = {Vectors(numParticles), Vectors(numParticles), {}};
    vector<Vec3> positions = download(copy.posq, context.getUseDoublePrecision());
    const vector<Vec3> velocities = download(copy.velm, isPrecise());
    if (context.getUseMixedPrecision()) {
        const vector<Vec3> corrections = download(copy.correction, false);
        for (size_t i = 0; i < positions.size(); i++)
            positions[i] += corrections[i];
    }
    for (int place = 0; place < numParticles; place++) { // beyond them are those that fill up a group of threads
        const int particle = copy.order[place];
        const mm_int4& cell = copy.cells[place];
        state.positions[particle] =
                positions[place] - copy.box[0] * cell.x - copy.box[1] * cell.y - copy.box[2] * cell.z;
        state.velocities[particle] = velocities[place];
    }
    return state;
}
