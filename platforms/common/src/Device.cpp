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

/** More than the kernels of a step. */
constexpr int maxKernels = 8;
/** The arguments of all kernels that change, see BlockText::getHead(). */
enum Argument { Phase = 2, RandomIndex = 3, Random = 9, Forces = 10 };

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

Device::Device(ContextImpl& contextImpl, ComputeContext& context)
        : contextImpl(contextImpl), context(context), listener(new Listener(*this)) {
    const ContextSelector selector(context);
    context.addReorderListener(listener); // which belongs to the context from now on
    const System& system = contextImpl.getSystem();
    for (int i = 0; i < system.getNumParticles(); i++) {
        mobile.push_back(system.getParticleMass(i) > 0);
        if (system.isVirtualSite(i) && sites == nullptr)
            sites = std::make_unique<ReferenceVirtualSites>(system);
    }
    uniform.initialize(context, int(Uniform::Count), getMixedSize(), "stiffUniform");
    failure.initialize<int>(context, 2, "stiffFailure");
    failure.upload(vector<int>{0, 0});
    changed.initialize<int>(context, 1, "stiffChanged");
    initialize(before);
    initialize(remembered);
    uniformValues.fill(0);
}

Device::~Device() {
    listener->device = nullptr;
}

void Device::initialize(Copy& copy) {
    const int size = context.getPaddedNumAtoms();
    copy.posq.initialize(context, size, context.getPosq().getElementSize(), "stiffPosq");
    copy.velm.initialize(context, size, context.getVelm().getElementSize(), "stiffVelm");
    if (context.getUseMixedPrecision())
        copy.correction.initialize(context, size, context.getPosqCorrection().getElementSize(), "stiffCorrection");
}

void Device::clear() {
    groups.clear();
    outside.reset();
    blocks.clear();
}

void Device::addOutside(const vector<stiffcore::Block>& large, const vector<int>& particles) {
    outside = std::make_unique<Outside>();
    outside->firstBlock = blocks.size();
    outside->particles = particles;
    for (const stiffcore::Block& block : large)
        blocks.push_back(block.particles);
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
        group->kept.initialize(context, int(Kept::Count) * group->particles.size(), context.getVelm().getElementSize(),
                               "stiffKept");
        context.clearBuffer(group->kept);
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
            kernel->addArg(before.velm); // random numbers; kernels without any take anything
            kernel->addArg(context.getLongForceBuffer());
            kernel->addArg(failure);
            kernel->addArg(group->kept);
            kernel->addArg(context.getVelm());
            kernel->addArg(before.velm);
            kernel->addArg(context.getPosq());
            kernel->addArg(before.posq);
            if (context.getUseMixedPrecision()) {
                kernel->addArg(context.getPosqCorrection());
                kernel->addArg(before.correction);
            }
            group->kernels.push_back(kernel);
        }
    }
    if (outside != nullptr) {
        const int count = outside->particles.size();
        outside->placesThere.initialize<int>(context, count, "stiffOutside");
        outside->packed.initialize(context, 3 * count, context.getVelm().getElementSize(), "stiffPacked");
        for (ComputeKernel* kernel : {&outside->pack, &outside->unpack}) {
            *kernel = program->createKernel(kernel == &outside->pack ? "packState" : "unpackState");
            (*kernel)->addArg(count);
            (*kernel)->addArg(); // the phase
            (*kernel)->addArg(); // whether a step begins
            (*kernel)->addArg(context.getPaddedNumAtoms());
            (*kernel)->addArg(outside->placesThere);
            (*kernel)->addArg(outside->packed);
            (*kernel)->addArg(context.getLongForceBuffer());
            (*kernel)->addArg(failure);
            (*kernel)->addArg(context.getVelm());
            (*kernel)->addArg(before.velm);
            (*kernel)->addArg(context.getPosq());
            (*kernel)->addArg(before.posq);
            if (context.getUseMixedPrecision()) {
                (*kernel)->addArg(context.getPosqCorrection());
                (*kernel)->addArg(before.correction);
            }
        }
    }
    compare = program->createKernel("compareState");
    compare->addArg(context.getNumAtoms());
    compare->addArg(changed);
    compare->addArg(context.getVelm());
    compare->addArg(remembered.velm);
    compare->addArg(context.getPosq());
    compare->addArg(remembered.posq);
    if (context.getUseMixedPrecision()) {
        compare->addArg(context.getPosqCorrection());
        compare->addArg(remembered.correction);
    }
    followOrder();
}

void Device::followOrder() {
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
    if (outside != nullptr) {
        vector<int> there;
        for (int particle : outside->particles)
            there.push_back(places[particle]);
        outside->placesThere.upload(there);
    }
    together = true;
    for (const vector<int>& block : blocks)
        for (int particle : block) {
            const mm_int4 &first = cells[places[block[0]]], &own = cells[places[particle]];
            together &= (first.x == own.x && first.y == own.y && first.z == own.z);
        }
}

void Device::keepOrder(Copy& copy) const {
    copy.order = context.getAtomIndex();
    copy.cells = context.getPosCellOffsets();
}

void Device::beginStep(double time, long long stepCount) {
    if (moments.empty())
        keepOrder(before);
    Moment moment = {time, stepCount, {}};
    context.getPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    moments.push_back(moment);
}

void Device::execute(int index, ArrayInterface& forces) {
    const ContextSelector selector(context);
    for (const auto& group : groups) {
        const ComputeKernel& kernel = group->kernels[index];
        const int numRandoms = group->texts[index].numRandoms * group->count;
        kernel->setArg(Phase, getPhase(index));
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

int Device::getPhase(int kernel) const {
    return maxKernels * (int) moments.size() + kernel;
}

void Device::getOutside(ArrayInterface& forces, vector<Vec3>& positions, vector<Vec3>& velocities,
                        vector<Vec3>& forcesOnThem) {
    const ContextSelector selector(context);
    outside->pack->setArg(1, 0);
    outside->pack->setArg(2, 0);
    outside->pack->setArg(6, forces);
    outside->pack->execute(outside->particles.size());
    const vector<Vec3> packed = download(outside->packed, isPrecise());
    const auto begin = packed.begin(), one = begin + outside->particles.size(), two = one + outside->particles.size();
    positions.assign(begin, one);
    velocities.assign(one, two);
    forcesOnThem.assign(two, packed.end());
}

void Device::setOutside(int kernel, bool isFirst, const vector<Vec3>& positions, const vector<Vec3>& velocities) {
    const ContextSelector selector(context);
    vector<double> numbers(4 * outside->packed.getSize());
    for (size_t i = 0; i < positions.size(); i++)
        for (int axis = 0; axis < 3; axis++) {
            numbers[4 * i + axis] = positions[i][axis];
            numbers[4 * (positions.size() + i) + axis] = velocities[i][axis];
        }
    if (isPrecise())
        outside->packed.upload(numbers.data());
    else
        outside->packed.upload(vector<float>(numbers.begin(), numbers.end()).data());
    outside->unpack->setArg(1, getPhase(kernel));
    outside->unpack->setArg(2, int(isFirst));
    outside->unpack->execute(outside->particles.size());
}

void Device::failOutside(int kernel, FailureKind kind, int index) {
    const ContextSelector selector(context);
    if (failed[0] == 0)
        failure.download(failed);
    if (failed[0] != 0)
        return; // before this kernel
    const vector<int>& order = before.order;
    failed[0] = getPhase(kernel);
    failed[1] = int(kind) + 4 * (kind == VelocityFailed
                                         ? std::find(order.begin(), order.end(), outside->particles[index]) -
                                                   order.begin()
                                         : outside->firstBlock + index);
}

void Device::endStep() {
    const ContextSelector selector(context);
    context.reorderAtoms();
}

void Device::setUniform(Uniforms values) {
    Vec3 box[3];
    context.getPeriodicBoxVectors(box[0], box[1], box[2]);
    int next = int(Uniform::Box);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j <= i; j++)
            values[next++] = box[i][j];
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
    const bool reorders = context.getNonbondedUtilities().getUseCutoff();
    return moments.size() >= maxSteps || (reorders && context.getStepsSinceReorder() >= stepsToReorder - 1);
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

Device::Failure Device::recover() {
    const ContextSelector selector(context);
    const Moment moment = moments[failed[0] / maxKernels - 1];
    const int index = failed[1] / 4;
    Failure result;
    if (failed[1] % 4 == VelocityFailed)
        result.particle = before.order[index];
    else
        result.block = blocks[index];
    result.forces = (failed[1] % 4 == ForcesFailed);
    contextImpl.setPeriodicBoxVectors(moment.box[0], moment.box[1], moment.box[2]);
    contextImpl.setTime(moment.time);
    contextImpl.setStepCount(moment.stepCount);
    // Particles that no kernel moves are where they were.
    contextImpl.getPositions(result.before.positions);
    contextImpl.getVelocities(result.before.velocities);
    std::copy_n(moment.box, 3, before.box);
    read(before, true, result.before);
    result.before.propagated = propagate(result.before.positions, Kept::OffsetBefore, moment.box);
    failed[0] = failed[1] = 0;
    failure.upload(vector<int>{0, 0});
    moments.clear();
    return result;
}

void Device::remember() {
    const ContextSelector selector(context);
    context.getPosq().copyTo(remembered.posq);
    context.getVelm().copyTo(remembered.velm);
    if (context.getUseMixedPrecision())
        context.getPosqCorrection().copyTo(remembered.correction);
    keepOrder(remembered);
    context.getPeriodicBoxVectors(remembered.box[0], remembered.box[1], remembered.box[2]);
}

bool Device::isAsRemembered() {
    const ContextSelector selector(context);
    if (context.getAtomIndex() != remembered.order)
        return false;
    vector<int> flag = {0};
    changed.upload(flag);
    compare->execute(context.getNumAtoms());
    changed.download(flag);
    return flag[0] == 0;
}

Device::State Device::recall() const {
    const ContextSelector selector(context);
    State state;
    state.positions.resize(mobile.size());
    state.velocities.resize(mobile.size());
    read(remembered, false, state);
    state.propagated = propagate(state.positions, Kept::Offset, remembered.box);
    return state;
}

/** Get the particles of a copy, or those of them that kernels move. */
void Device::read(const Copy& copy, bool movedOnly, State& state) const {
    vector<Vec3> positions = download(copy.posq, context.getUseDoublePrecision());
    const vector<Vec3> velocities = download(copy.velm, isPrecise());
    if (context.getUseMixedPrecision()) {
        const vector<Vec3> corrections = download(copy.correction, false);
        for (size_t i = 0; i < positions.size(); i++)
            positions[i] += corrections[i];
    }
    vector<char> wanted(mobile.size(), !movedOnly);
    for (const vector<int>& block : blocks)
        for (int particle : block)
            wanted[particle] = true;
    for (size_t place = 0; place < mobile.size(); place++) { // beyond them are those that fill up a group of threads
        const int particle = copy.order[place];
        if (!wanted[particle] || (movedOnly && !mobile[particle]))
            continue;
        const mm_int4& cell = copy.cells[place];
        state.positions[particle] =
                positions[place] - copy.box[0] * cell.x - copy.box[1] * cell.y - copy.box[2] * cell.z;
        state.velocities[particle] = velocities[place];
    }
}

/** The positions that a method propagates, by the offsets from them of those that the Context shows. */
vector<Vec3> Device::propagate(const vector<Vec3>& shown, Kept offset, const Vec3 box[3]) const {
    vector<Vec3> propagated = shown;
    for (const auto& group : groups) {
        const vector<Vec3> kept = download(group->kept, isPrecise());
        for (size_t i = 0; i < group->particles.size(); i++)
            propagated[group->particles[i]] -= kept[placeOfKept(*group, i, offset)];
    }
    if (sites != nullptr)
        sites->computePositions(contextImpl.getSystem(), propagated, box);
    return propagated;
}

void Device::setOffsets(const vector<Vec3>& offsets) {
    const ContextSelector selector(context);
    for (const auto& group : groups) {
        vector<double> numbers(4 * group->kept.getSize(), 0.0);
        for (size_t i = 0; i < group->particles.size(); i++)
            for (int axis = 0; axis < 3; axis++)
                numbers[4 * placeOfKept(*group, i, Kept::Offset) + axis] = offsets[group->particles[i]][axis];
        if (isPrecise())
            group->kept.upload(numbers.data());
        else
            group->kept.upload(vector<float>(numbers.begin(), numbers.end()).data());
    }
}

/** Where a vector is kept for the i-th particle of a group, see BlockText::kept(). */
size_t Device::placeOfKept(const Group& group, size_t i, Kept which) {
    const size_t place = i / group.count, block = i % group.count;
    return (int(Kept::Count) * place + int(which)) * group.count + block;
}
