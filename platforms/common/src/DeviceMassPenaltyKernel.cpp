#include "DeviceMassPenaltyKernel.h"
#include "PenaltyTexts.h"
#include "SimTKOpenMMRealType.h"
#include "openmm/common/ComputeForceInfo.h"
#include "setup/Blocks.h"
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
    for (const stiffcore::Block& block : blocks)
        if ((int) block.terms.size() > maxRows)
            return false;
    auto langevinTexts = [&](auto&& record) {
        return vector<KernelText>{record("moveLangevin", [&](BlockText& text, const auto& batch, auto& work) {
            recordPenaltyLangevin(text, batch, work, metricCorrection);
        })};
    };
    auto texts = [](auto&& record) {
        return vector<KernelText>{record("move", recordPenaltyMove), record("kick", recordPenaltyKick)};
    };
    if (langevin != nullptr)
        compile<stiffcore::PairBatch>(blocks, pairs, langevinTexts, {recordFree("moveFree", recordFreeLangevin)});
    else
        compile<stiffcore::PairBatch>(blocks, pairs, texts,
                                      {recordFree("moveFree", recordFreeMove), recordFree("kickFree", recordFreeKick)});
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
        if (!forcesKnown || stateModified || groups != forceGroups)
            computeForces();
        device->execute(Move, forces);
        contextImpl.computeVirtualSites();
        computeForces();
        device->execute(Kick, forces);
        forceGroups = groups;
        forcesKnown = true;
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
        contextImpl.computeVirtualSites();
    });
}

vector<stiffcore::PenalizedPair> DeviceMassPenaltyKernel::getPairs(ContextImpl& contextImpl) {
    return useHost().getPairs(contextImpl);
}

void DeviceMassPenaltyKernel::prepareVelocities(ContextImpl& contextImpl, Vectors& velocities, double temperature) {
    useHost().prepareVelocities(contextImpl, velocities, temperature);
}
