#include "DeviceMassPenaltyKernel.h"
#include "PenaltyTexts.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/common/ComputeForceInfo.h"
#include "setup/Blocks.h"
#include "stiffhost/Checkpoints.h"
#include "stiffcore/methods/Elementary.h"
#include <algorithm>
#include <array>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcommon;
using std::vector;

namespace {

/// Lengths are not known better than this on a device that has them in single precision, relative.
constexpr double minSingleTolerance = 1e-6;

/** The pairs that a user has added: OpenMM must not move their particles through the box one by one. */
class PairInfo : public ComputeForceInfo {
public:
    PairInfo(const MassPenaltyIntegrator& integrator, int numParticles) {
        for (int i = 0; i < integrator.getNumPairs(); i++) {
            int particle1, particle2;
            double inertia;
            integrator.getPairParameters(i, particle1, particle2, inertia);
            if (std::min(particle1, particle2) >= 0 && std::max(particle1, particle2) < numParticles)
                pairs.push_back({particle1, particle2}); // others are refused later
        }
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
    vector<std::array<int, 2>> pairs;
};

} // namespace

void DeviceMassPenaltyKernel::initialize(ContextImpl& contextImpl, const Integrator& integrator) {
    this->integrator = &integrator;
    langevin = dynamic_cast<const MassPenaltyLangevinIntegrator*>(&integrator);
    context.addForce(new PairInfo(
            integrator,
            contextImpl.getSystem().getNumParticles())); // before the device becomes ready; it belongs to the context
    initializeShared(integrator);
    const ArrayInterface& present = context.getLongForceBuffer();
    forces.initialize(context, present.getSize(), present.getElementSize(), "stiffForces");
}

bool DeviceMassPenaltyKernel::isCurrent() {
    return host->arePairsCurrent(*integrator) && host->getTiedPairs() == pairs &&
           (langevin == nullptr || langevin->getMetricCorrection() == metricCorrection);
}

bool DeviceMassPenaltyKernel::arrange() {
    pairs = host->getTiedPairs();
    metricCorrection = (langevin != nullptr && langevin->getMetricCorrection());
    if (langevin != nullptr && !hasRandom)
        return false;
    vector<vector<int>> particles;
    for (const stiffcore::PenalizedPair& pair : pairs)
        particles.push_back({pair.particle1, pair.particle2});
    const vector<stiffcore::Block> blocks = connect(contextImpl.getSystem(), particles);
    vector<stiffcore::Block> small, large;
    for (const stiffcore::Block& block : blocks)
        ((int) block.terms.size() > maxRows ? large : small).push_back(block);
    hasLarge = !large.empty();
    if (hasLarge) {
        createLargePairs();
        largePairs->arrange(large, pairs, masses);
    }
    const vector<int> outside = hasLarge ? largePairs->getParticles() : vector<int>();
    auto langevinTexts = [&](auto&& record) {
        return vector<KernelText>{record("moveLangevin", [&](BlockText& text, const auto& batch, auto& work) {
            recordPenaltyLangevin(text, batch, work, metricCorrection);
        })};
    };
    auto texts = [](auto&& record) {
        return vector<KernelText>{record("move", recordPenaltyMove), record("kick", recordPenaltyKick)};
    };
    if (langevin != nullptr)
        compile<stiffcore::PairBatch>(small, pairs, langevinTexts, {recordFree("moveFree", recordFreeLangevin)}, large,
                                      outside);
    else
        compile<stiffcore::PairBatch>(small, pairs, texts,
                                      {recordFree("moveFree", recordFreeMove), recordFree("kickFree", recordFreeKick)},
                                      large, outside);
    return true;
}

void DeviceMassPenaltyKernel::setUniform(double kT, double friction) {
    const double h = integrator->getStepSize(), tolerance = integrator->getConstraintTolerance();
    const stiffcore::OrnsteinUhlenbeck heatBath(friction, kT, h);
    Device::Uniforms values = {};
    values[int(Uniform::StepSize)] = h;
    values[int(Uniform::Tolerance)] = device->isPrecise() ? tolerance : std::max(tolerance, minSingleTolerance);
    values[int(Uniform::ThermalEnergy)] = kT;
    values[int(Uniform::Decay)] = heatBath.decay;
    values[int(Uniform::NoiseAmplitude)] = heatBath.amplitude;
    device->setUniform(values);
}

void DeviceMassPenaltyKernel::execute(ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) {
    if (!isOnDevice())
        return useHost().execute(contextImpl, static_cast<const StiffIntegrator&>(integrator), stateModified);
    const int groups = integrator.getIntegrationForceGroups();
    setUniform(0, 0);
    step(integrator.getStepSize(), [&] {
        const ContextSelector selector(context);
        auto computeForces = [&] {
            contextImpl.calcForcesAndEnergy(true, false, groups);
            context.getLongForceBuffer().copyTo(forces);
        };
        if (stateModified || !areForcesKnown(groups))
            computeForces();
        const double h = integrator.getStepSize(), tolerance = integrator.getConstraintTolerance();
        device->execute(Move, forces);
        moveLarge(Move, forces,
                  [&](const stiffcore::Box& box) { return largePairs->moveVerlet(h, tolerance, box, x, v, F); });
        contextImpl.computeVirtualSites();
        computeForces();
        device->execute(Kick, forces);
        moveLarge(Kick, forces, [&](const stiffcore::Box& box) {
            return largePairs->kick(0.5 * h, box, x, v, F);
        });
        keepForces(groups);
    });
}

void DeviceMassPenaltyKernel::executeLangevin(ContextImpl& contextImpl,
                                              const MassPenaltyLangevinIntegrator& integrator) {
    if (!isOnDevice())
        return useHost().executeLangevin(contextImpl, integrator);
    setUniform(BOLTZ * integrator.getTemperature(), integrator.getFriction());
    step(integrator.getStepSize(), [&] {
        contextImpl.calcForcesAndEnergy(true, false, integrator.getIntegrationForceGroups());
        device->execute(Move, context.getLongForceBuffer());
        moveLarge(Move, context.getLongForceBuffer(), [&](const stiffcore::Box& box) {
            return largePairs->moveLangevin(
                    integrator.getStepSize(), integrator.getConstraintTolerance(),
                    {integrator.getFriction(), BOLTZ * integrator.getTemperature(), metricCorrection}, box, x, v, F);
        });
        contextImpl.computeVirtualSites();
    });
}

void DeviceMassPenaltyKernel::moveLarge(int kernel, ArrayInterface& forces,
                                        const std::function<LargePairs::Failure(const stiffcore::Box&)>& move) {
    if (!hasLarge)
        return;
    Vec3 vectors[3];
    contextImpl.getPeriodicBoxVectors(vectors[0], vectors[1], vectors[2]);
    stiffcore::Box box;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            box.vectors[i][j] = vectors[i][j];
    device->getOutside(forces, x, v, F);
    const LargePairs::Failure failure = move(box);
    device->setOutside(kernel, kernel == 0, x, v);
    if (failure.any) {
        device->failOutside(kernel, failure.kind, failure.index);
        askForFailure();
    }
}

void DeviceMassPenaltyKernel::initializeRandom(int seed) {
    DeviceKernel::initializeRandom(seed);
    this->seed = seed;
}

void DeviceMassPenaltyKernel::createLargePairs() {
    if (largePairs != nullptr)
        return;
    largePairs = std::make_unique<LargePairs>(contextImpl);
    largePairs->initializeRandom(seed);
}

void DeviceMassPenaltyKernel::writeHidden(std::ostream& stream) const {
    stiffhost::writeCheckpoint(stream, largePairs != nullptr);
    if (largePairs != nullptr)
        largePairs->write(stream);
}

void DeviceMassPenaltyKernel::readHidden(std::istream& stream) {
    bool present;
    stiffhost::readCheckpoint(stream, &present, 1);
    if (!present)
        return;
    createLargePairs();
    largePairs->read(stream);
}

vector<stiffcore::PenalizedPair> DeviceMassPenaltyKernel::getPairs(ContextImpl& contextImpl) {
    return useHost().getPairs(contextImpl);
}

void DeviceMassPenaltyKernel::prepareVelocities(ContextImpl& contextImpl, Vectors& velocities) {
    useHost().prepareVelocities(contextImpl, velocities);
}
