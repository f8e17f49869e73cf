#include "DeviceZhangSkeelKernel.h"
#include "SimTKOpenMMRealType.h"
#include "ZhangSkeelTexts.h"
#include "stiffcore/methods/Elementary.h"
#include <algorithm>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcommon;
using std::vector;

void DeviceZhangSkeelKernel::initialize(ContextImpl&, const Integrator& integrator) {
    this->integrator = &integrator;
    langevin = dynamic_cast<const ZhangSkeelLangevinIntegrator*>(&integrator);
    initializeShared(integrator);
}

bool DeviceZhangSkeelKernel::isCurrent() {
    return terms.areUpToDate(stiffhost::selectTerms(*integrator)) && integrator->getMethod() == method;
}

bool DeviceZhangSkeelKernel::arrange() {
    method = integrator->getMethod();
    const bool haveChanged = terms.update(contextImpl.getSystem(), stiffhost::selectTerms(*integrator), className);
    if (method != Integrator::SimplifiedStiff || (langevin != nullptr && !hasRandom) ||
        contextImpl.getSystem().getNumConstraints() > 0 || !terms.getTerms().functionTerms.empty())
        return false;
    for (const stiffcore::Block& block : terms.getBlocks())
        if (3 * block.numMobile > maxRows)
            return false;
    if (!haveChanged && compiled)
        return true;
    const bool hasHeatBath = (langevin != nullptr), projects = hasHeatBath && !langevin->getThermalizeStiffModes();
    auto texts = [&](auto&& record) {
        return vector<KernelText>{record("begin", recordImplicitBegin), record("start", recordImplicitStart),
                                  record("move", recordImplicitMove),
                                  record("finish", [&](BlockText& text, const auto& batch, auto& work) {
                                      recordImplicitFinish(text, batch, work, hasHeatBath, projects);
                                  })};
    };
    compile<stiffcore::StiffBatch>(
            terms.getBlocks(), terms.getTerms(), texts,
            {recordFree("beginFree", recordFreeImplicitBegin), recordFree("startFree", recordFreeImplicitStart),
             recordFree("moveFree", recordFreeImplicitMove),
             recordFree("finishFree", [&](BlockText& text) { recordFreeImplicitFinish(text, hasHeatBath); })});
    compiled = true;
    return true;
}

void DeviceZhangSkeelKernel::takeAdopted() {
    Vectors shown, propagated;
    contextImpl.getPositions(shown);
    host->getPropagatedPositions(contextImpl, propagated);
    for (size_t i = 0; i < shown.size(); i++)
        shown[i] -= propagated[i];
    device->setOffsets(shown);
}

void DeviceZhangSkeelKernel::takeStep(double kT, double friction, bool stateModified) {
    const double h = integrator->getStepSize(), c = integrator->getBeta() * h * h;
    const int groups = integrator->getIntegrationForceGroups();
    const stiffcore::OrnsteinUhlenbeck heatBath(friction, kT, h);
    Device::Uniforms values = {};
    values[int(Uniform::StepSize)] = h;
    values[int(Uniform::HessianFactor)] = c;
    values[int(Uniform::Decay)] = heatBath.decay;
    values[int(Uniform::NoiseAmplitude)] = heatBath.amplitude;
    device->setUniform(values);
    const bool known = !stateModified && c == hessianFactor && areForcesKnown(groups);
    step(h, [&] {
        ArrayInterface& forces = context.getLongForceBuffer();
        auto computeForces = [&] {
            contextImpl.computeVirtualSites();
            contextImpl.calcForcesAndEnergy(true, false, groups);
        };
        if (!known) {
            device->execute(Begin, forces);
            computeForces();
            device->execute(Start, forces);
        }
        device->execute(Move, forces);
        computeForces();
        device->execute(Finish, forces);
        contextImpl.computeVirtualSites();
    });
    keepForces(groups);
    hessianFactor = c;
}

void DeviceZhangSkeelKernel::execute(ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) {
    if (!isOnDevice())
        return useHost().execute(contextImpl, static_cast<const StiffIntegrator&>(integrator), stateModified);
    takeStep(0, 0, stateModified);
}

void DeviceZhangSkeelKernel::executeLangevin(ContextImpl& contextImpl, const ZhangSkeelLangevinIntegrator& integrator,
                                             bool stateModified) {
    if (!isOnDevice())
        return useHost().executeLangevin(contextImpl, integrator, stateModified);
    takeStep(BOLTZ * integrator.getTemperature(), integrator.getFriction(), stateModified);
}

void DeviceZhangSkeelKernel::stateChanged(State::DataType changed) {
    if (changed == State::Energy)
        terms.forgetParameters();
    DeviceKernel::stateChanged(changed);
}

void DeviceZhangSkeelKernel::getPropagatedPositions(ContextImpl& contextImpl, Vectors& positions) {
    useHost().getPropagatedPositions(contextImpl, positions);
}

int DeviceZhangSkeelKernel::getNumNewtonIterations() const {
    return host->getNumNewtonIterations();
}

void DeviceZhangSkeelKernel::projectOnTangentSpace(ContextImpl& contextImpl, const Integrator& integrator,
                                                   Vectors& velocities) {
    useHost().projectOnTangentSpace(contextImpl, integrator, velocities);
}

int DeviceZhangSkeelKernel::countStiffCoordinates(ContextImpl& contextImpl, const Integrator& integrator) {
    return useHost().countStiffCoordinates(contextImpl, integrator);
}
