#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/StiffMotion.h"
#include "openmm/internal/ContextImpl.h"

using namespace OpenMM;
using namespace OpenMMStiff;

ImpulseIntegrator::ImpulseIntegrator(double stepSize)
        : StiffIntegrator(stepSize, kernelName<ImpulseIntegrator>), kick(Projected), projectedPeriod(0.02),
          numMicroSteps(0) {
}

void ImpulseIntegrator::setKick(KickMethod kick) {
    require(kick == Plain || kick == Mollified || kick == Projected, getClassName(), ": there is no kick number ",
            int(kick), "; choose Projected, Mollified or Plain");
    this->kick = kick;
}

void ImpulseIntegrator::setProjectedPeriod(double period) {
    require(period >= 0, getClassName(), ": the projected period must be a non-negative number, not ", period,
            " ps; infinity projects all stiff coordinates, 0 none");
    projectedPeriod = period;
}

void ImpulseIntegrator::setNumMicroSteps(int number) {
    require(number > 0, getClassName(), ": the number of micro-steps must be positive, but is ", number,
            "; call setUseDefaultNumMicroSteps(true) to have it chosen");
    numMicroSteps = number;
}

void ImpulseIntegrator::setUseDefaultNumMicroSteps(bool use) {
    useDefault(use, numMicroSteps, "setNumMicroSteps()");
}

int ImpulseIntegrator::computeNumMicroSteps() {
    requireContext();
    return getKernel<ImpulseQueries>().computeNumMicroSteps();
}

std::unique_ptr<StiffMotion> ImpulseIntegrator::findStiffMotion() {
    auto motion = std::make_unique<StiffMotion>(context->getSystem(), "stiff terms",
                                                "Choose the forces that are stiff with setStiffForceGroups()",
                                                getIntegrationForceGroups(), context->getParameters(), getClassName());
    motion->addStiffTerms(collectTerms(context->getSystem(), TermScope::Harmonic, getStiffForceGroups(),
                                       getIntegrationForceGroups(), getClassName()));
    return motion;
}
