#include "DeviceImpulseKernel.h"
#include "ImpulseTexts.h"
#include "SimTKOpenMMRealType.h"
#include "stiffcore/methods/Elementary.h"

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcommon;
using std::vector;

void DeviceImpulseKernel::initialize(ContextImpl&, const Integrator& integrator) {
    this->integrator = &integrator;
    isLangevin = dynamic_cast<const ImpulseLangevinIntegrator*>(&integrator) != nullptr;
    initializeShared(integrator);
}

bool DeviceImpulseKernel::isCurrent() {
    return terms.areUpToDate(stiffhost::selectTerms(*integrator)) && integrator->getStepSize() == stepSize &&
           integrator->getNumMicroSteps() == numMicroStepsAsked;
}

bool DeviceImpulseKernel::arrange() {
    stepSize = integrator->getStepSize();
    numMicroStepsAsked = integrator->getNumMicroSteps();
    const bool haveChanged = terms.update(contextImpl.getSystem(), stiffhost::selectTerms(*integrator), className);
    if (integrator->getKick() == Integrator::Mollified || (isLangevin && !hasRandom) ||
        contextImpl.getSystem().getNumConstraints() > 0)
        return false;
    for (const stiffcore::Block& block : terms.getBlocks())
        if ((int) block.terms.size() > maxTerms)
            return false;
    if (!haveChanged && compiled)
        return true;
    auto langevinTexts = [](auto&& record) {
        return vector<KernelText>{record("moveLangevin", recordImpulseLangevin)};
    };
    auto texts = [](auto&& record) {
        return vector<KernelText>{record("start", recordImpulseStart), record("move", recordImpulseMove),
                                  record("kick", recordImpulseKick)};
    };
    if (isLangevin)
        compile<stiffcore::StiffBatch>(terms.getBlocks(), terms.getTerms(), langevinTexts,
                                       {recordFree("moveFree", recordFreeLangevin)});
    else
        compile<stiffcore::StiffBatch>(terms.getBlocks(), terms.getTerms(), texts,
                                       {recordFree("startFree", recordFreeImpulseStart),
                                        recordFree("moveFree", recordFreeImpulseMove),
                                        recordFree("kickFree", recordFreeImpulseKick)});
    compiled = true;
    return true;
}

void DeviceImpulseKernel::takeAdopted() {
    const int numFlows = (isLangevin ? 2 : 1);
    numMicroSteps = host->computeNumMicroSteps(contextImpl, *integrator, numFlows) / numFlows;
}

void DeviceImpulseKernel::setUniform(double kT, double friction) {
    const stiffcore::OrnsteinUhlenbeck heatBath(friction, kT, stepSize);
    Device::Uniforms values = {};
    values[int(Uniform::StepSize)] = stepSize;
    values[int(Uniform::Decay)] = heatBath.decay;
    values[int(Uniform::NoiseAmplitude)] = heatBath.amplitude;
    values[int(Uniform::NumMicroSteps)] = numMicroSteps;
    device->setUniform(values);
}

void DeviceImpulseKernel::execute(ContextImpl& contextImpl, const Integrator& integrator, bool stateModified) {
    if (!isOnDevice())
        return useHost().execute(contextImpl, static_cast<const StiffIntegrator&>(integrator), stateModified);
    const int groups = integrator.getIntegrationForceGroups();
    setUniform(0, 0);
    step(stepSize, [&] {
        ArrayInterface& forces = context.getLongForceBuffer();
        if (stateModified || !areForcesKnown(groups)) {
            contextImpl.calcForcesAndEnergy(true, false, groups);
            device->execute(Start, forces);
        }
        device->execute(Move, forces);
        contextImpl.computeVirtualSites();
        contextImpl.calcForcesAndEnergy(true, false, groups);
        device->execute(Kick, forces);
        keepForces(groups);
    });
}

void DeviceImpulseKernel::executeLangevin(ContextImpl& contextImpl, const ImpulseLangevinIntegrator& integrator) {
    if (!isOnDevice())
        return useHost().executeLangevin(contextImpl, integrator);
    setUniform(BOLTZ * integrator.getTemperature(), integrator.getFriction());
    step(stepSize, [&] {
        contextImpl.calcForcesAndEnergy(true, false, integrator.getIntegrationForceGroups());
        device->execute(0, context.getLongForceBuffer());
        contextImpl.computeVirtualSites();
    });
}

int DeviceImpulseKernel::computeNumMicroSteps(ContextImpl& contextImpl, const Integrator& integrator, int numFlows) {
    return useHost().computeNumMicroSteps(contextImpl, integrator, numFlows);
}

void DeviceImpulseKernel::stateChanged(State::DataType changed) {
    if (changed == State::Energy)
        terms.forgetParameters();
    DeviceKernel::stateChanged(changed);
}
