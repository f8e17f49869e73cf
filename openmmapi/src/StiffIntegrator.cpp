#include "openmmstiff/StiffIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmm/Context.h"
#include "openmm/OpenMMException.h"
#include "openmm/internal/ContextImpl.h"

using namespace OpenMM;
using namespace OpenMMStiff;

StiffIntegrator::StiffIntegrator(double stepSize) : loadingCheckpoint(false) {
    setStepSize(stepSize);
    setConstraintTolerance(1e-5);
}

void StiffIntegrator::initialize(ContextImpl& contextRef) {
    if (owner != nullptr && &contextRef.getOwner() != owner)
        throw OpenMMException("This Integrator is already bound to a context");
    Context* previousOwner = owner;
    context = &contextRef;
    owner = &contextRef.getOwner();
    try {
        kernel = context->getPlatform().createKernel(getKernelNames()[0], contextRef);
        initializeKernel();
    }
    catch (...) {
        // No Context comes into being: leave the integrator as it was, free to be used once the cause is mended.
        kernel = Kernel();
        context = nullptr;
        owner = previousOwner;
        throw;
    }
}

void StiffIntegrator::cleanup() {
    kernel = Kernel();
}

void StiffIntegrator::requireContext() const {
    if (context == nullptr)
        throw OpenMMException("This Integrator is not bound to a context!");
}

void StiffIntegrator::step(int steps) {
    requireContext();
    for (int i = 0; i < steps; ++i) {
        kernel.getAs<StiffStepKernel>().adoptPositions(*context);
        bool stateModified = context->updateContextState();
        advance(stateModified);
    }
}

void StiffIntegrator::stateChanged(State::DataType changed) {
    // After a checkpoint has been loaded, ContextImpl announces everything as changed, Energy last. Only then
    // do new positions not mean that the hidden state is void: it came with them.
    if (loadingCheckpoint && changed == State::Positions)
        return;
    if (changed == State::Energy)
        loadingCheckpoint = false;
    if (context != nullptr)
        kernel.getAs<StiffStepKernel>().stateChanged(changed);
}

double StiffIntegrator::computeKineticEnergy() {
    return kernel.getAs<StiffStepKernel>().computeKineticEnergy(*context);
}

bool StiffIntegrator::kineticEnergyRequiresForce() const {
    // The velocities are those of the present time, and forces that others compute must not be taken for ours.
    return false;
}

void StiffIntegrator::createCheckpoint(std::ostream& stream) const {
    kernel.getAs<const StiffStepKernel>().createCheckpoint(*context, stream);
}

void StiffIntegrator::loadCheckpoint(std::istream& stream) {
    kernel.getAs<StiffStepKernel>().loadCheckpoint(*context, stream);
    loadingCheckpoint = true;
}

void StiffIntegrator::serializeParameters(SerializationNode& node) const {
    if (context != nullptr)
        kernel.getAs<const StiffStepKernel>().serializeState(*context, node);
}

void StiffIntegrator::deserializeParameters(const SerializationNode& node) {
    requireContext();
    kernel.getAs<StiffStepKernel>().deserializeState(*context, node);
}
