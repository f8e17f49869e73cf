#include "Device.h"
#include <algorithm>

using namespace OpenMM;
using namespace stiffcommon;
using std::vector;

namespace {

/** For how many steps at most nobody asks whether one has failed. */
constexpr size_t maxSteps = 100;

/** After so many steps OpenMM gives particles another order. */
constexpr int stepsToReorder = 250;

/** The arguments of all kernels, see BlockText::getHead(). */
enum Argument {
    Count,
    FirstBlock,
    Step,
    RandomIndex,
    PaddedNumAtoms,
    Places,
    Sets,
    Parameters,
    UniformNumbers,
    Random,
    Forces
};

/** Vectors as the device keeps them, with a fourth number. */
vector<Vec3> download(ComputeArray& array, bool isDouble) {
    vector<Vec3> vectors;
    if (isDouble) {
        vector<mm_double4> elements;
        array.download(elements);
        for (const mm_double4& element : elements)
            vectors.push_back(Vec3(element.x, element.y, element.z));
    }
    else {
        vector<mm_float4> elements;
        array.download(elements);
        for (const mm_float4& element : elements)
            vectors.push_back(Vec3(element.x, element.y, element.z));
    }
    return vectors;
}

} // namespace

class Device::Listener : public ComputeContext::ReorderListener {
public:
    explicit Listener(Device& device) : device(&device) {
    }
    void execute() override {
        if (device != nullptr)
            device->followOrder();
    }
    Device* device;
};

Device::Device(ComputeContext& context) : context(context), listener(new Listener(*this)) {
    const ContextSelector selector(context);
    context.addReorderListener(listener); // which belongs to the context from now on
    const int size = context.getPaddedNumAtoms();
    uniform.initialize(context, int(Uniform::Count), getMixedSize(), "stiffUniform");
    failure.initialize<int>(context, 2, "stiffFailure");
    failure.upload(vector<int>{0, 0});
    posqBefore.initialize(context, size, context.getPosq().getElementSize(), "stiffPosqBefore");
    velmBefore.initialize(context, size, context.getVelm().getElementSize(), "stiffVelmBefore");
    if (context.getUseMixedPrecision())
        correctionBefore.initialize(context, size, context.getPosqCorrection().getElementSize(),
                                    "stiffCorrectionBefore");
    uniformValues.fill(0);
}

Device::~Device() {
    listener->device = nullptr;
}

void Device::clear() {
    groups.clear();
    blocks.clear();
}

void Device::addFree(const vector<int>& particles, const vector<KernelText>& texts) {
    vector<vector<int>> each;
    for (int particle : particles)
        each.push_back({particle});
    add(texts, each, vector<int>(each.size(), 0), {0});
}

void Device::add(const vector<KernelText>& texts, const vector<vector<int>>& blocksOfKind, const vector<int>& sets,
                 const vector<double>& parameters) {
    if (blocksOfKind.empty())
        return;
    const int count = blocksOfKind.size(), numParticles = blocksOfKind[0].size();
    auto group = std::make_unique<Group>();
    group->texts = texts;
    group->firstBlock = blocks.size();
    group->count = count;
    group->particles.resize(numParticles * count);
    for (int block = 0; block < count; block++)
        for (int i = 0; i < numParticles; i++)
            group->particles[i * count + block] = blocksOfKind[block][i];
    group->sets = sets;
    group->parameters = parameters;
    blocks.insert(blocks.end(), blocksOfKind.begin(), blocksOfKind.end());
    groups.push_back(std::move(group));
}

void Device::compile() {
    const ContextSelector selector(context);
    std::string text = BlockText::getHead();
    for (const auto& group : groups)
        for (const KernelText& kernel : group->texts)
            text += kernel.text;
    const ComputeProgram program = context.compileProgram(text);
    for (const auto& group : groups) {
        group->placesThere.initialize<int>(context, group->particles.size(), "stiffParticles");
        group->setsThere.initialize<int>(context, group->sets.size(), "stiffSets");
        group->setsThere.upload(group->sets);
        group->parametersThere.initialize(context, group->parameters.size(), getMixedSize(), "stiffParameters");
        group->parametersThere.upload(group->parameters, true);
        group->kept.initialize(context, group->particles.size(), context.getVelm().getElementSize(), "stiffKept");
        for (const KernelText& kernelText : group->texts) {
            const ComputeKernel kernel = program->createKernel(kernelText.name);
            kernel->addArg(group->count);
            kernel->addArg(group->firstBlock);
            kernel->addArg(); // the step
            kernel->addArg(); // where the random numbers begin
            kernel->addArg(context.getPaddedNumAtoms());
            kernel->addArg(group->placesThere);
            kernel->addArg(group->setsThere);
            kernel->addArg(group->parametersThere);
            kernel->addArg(uniform);
            kernel->addArg(velmBefore); // random numbers; kernels without any take anything
            kernel->addArg(context.getLongForceBuffer());
            kernel->addArg(failure);
            kernel->addArg(group->kept);
            kernel->addArg(context.getVelm());
            kernel->addArg(velmBefore);
            kernel->addArg(context.getPosq());
            kernel->addArg(posqBefore);
            if (context.getUseMixedPrecision()) {
                kernel->addArg(context.getPosqCorrection());
                kernel->addArg(correctionBefore);
            }
            group->kernels.push_back(kernel);
        }
    }
    followOrder();
}

void Device::followOrder() {
    const ContextSelector selector(context);
    // Particles that had another order when a step failed are what they were in that order.
    if (moments.empty() || !hasFailed()) {
        order = context.getAtomIndex();
        offsets = context.getPosCellOffsets();
    }
    vector<int> places(order.size());
    const vector<int>& present = context.getAtomIndex();
    for (size_t place = 0; place < present.size(); place++)
        places[present[place]] = place;
    for (const auto& group : groups) {
        vector<int> there;
        for (int particle : group->particles)
            there.push_back(places[particle]);
        group->placesThere.upload(there);
    }
    together = true;
    const vector<mm_int4>& cells = context.getPosCellOffsets();
    for (const vector<int>& block : blocks)
        for (int particle : block) {
            const mm_int4 &first = cells[places[block[0]]], &own = cells[places[particle]];
            together &= (first.x == own.x && first.y == own.y && first.z == own.z);
        }
}

void Device::beginStep(double time, long long stepCount) {
    Moment moment = {time, stepCount, {}};
    context.getPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    moments.push_back(moment);
}

void Device::execute(int index, ArrayInterface& forces) {
    const ContextSelector selector(context);
    for (const auto& group : groups) {
        const ComputeKernel& kernel = group->kernels[index];
        const int numRandoms = group->texts[index].numRandoms * group->count;
        kernel->setArg(Step, (int) moments.size());
        if (numRandoms > 0) {
            const int randomIndex = context.getIntegrationUtilities().prepareRandomNumbers(numRandoms);
            kernel->setArg(RandomIndex, randomIndex);
            kernel->setArg(Random, context.getIntegrationUtilities().getRandom());
        }
        else
            kernel->setArg(RandomIndex, 0);
        kernel->setArg(Forces, forces);
        kernel->execute(group->count);
    }
}

void Device::setUniform(const Uniforms& values) {
    if (values == uniformValues)
        return;
    const ContextSelector selector(context);
    uniformValues = values;
    uniform.upload(vector<double>(values.begin(), values.end()), true);
}

bool Device::initializeRandom(int seed) {
    const ContextSelector selector(context);
    try {
        context.getIntegrationUtilities().initRandomNumberGenerator(seed);
        return true;
    }
    catch (const OpenMMException&) {
        return false;
    }
}

bool Device::isTimeToAsk() const {
    return moments.size() >= maxSteps || context.getStepsSinceReorder() >= stepsToReorder - 1;
}

bool Device::hasFailed() {
    if (moments.empty() || failed[0] != 0)
        return failed[0] != 0;
    const ContextSelector selector(context);
    failure.download(failed);
    if (failed[0] == 0)
        moments.clear();
    return failed[0] != 0;
}

void Device::endStep() {
    context.reorderAtoms();
}

DeviceFailure Device::recover(ContextImpl& contextImpl) {
    const ContextSelector selector(context);
    const Moment moment = moments[failed[0] - 1];
    DeviceFailure result;
    if (failed[1] % 2 == 0)
        result.block = blocks[failed[1] / 2];
    else
        result.particle = order[failed[1] / 2];
    contextImpl.setPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    contextImpl.setTime(moment.time);
    contextImpl.setStepCount(moment.stepCount);
    // Particles that no kernel moves are where they were.
    contextImpl.getPositions(result.positions);
    contextImpl.getVelocities(result.velocities);
    vector<Vec3> positions = download(posqBefore, context.getUseDoublePrecision());
    const vector<Vec3> velocities = download(velmBefore, isPrecise());
    if (context.getUseMixedPrecision()) {
        const vector<Vec3> corrections = download(correctionBefore, false);
        for (size_t i = 0; i < positions.size(); i++)
            positions[i] += corrections[i];
    }
    vector<int> places(order.size());
    for (size_t place = 0; place < order.size(); place++)
        places[order[place]] = place;
    for (const vector<int>& block : blocks)
        for (int particle : block) {
            if (contextImpl.getSystem().getParticleMass(particle) == 0)
                continue;
            const int place = places[particle];
            const mm_int4& cell = offsets[place];
            result.positions[particle] =
                    positions[place] - moment.box[0] * cell.x - moment.box[1] * cell.y - moment.box[2] * cell.z;
            result.velocities[particle] = velocities[place];
        }
    failed[0] = failed[1] = 0;
    failure.upload(vector<int>{0, 0});
    moments.clear();
    return result;
}
