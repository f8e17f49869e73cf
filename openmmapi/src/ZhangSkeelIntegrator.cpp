#include "openmmstiff/ZhangSkeelIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include "setup/StiffMotion.h"
#include "setup/TermSelection.h"
#include "openmm/internal/ContextImpl.h"
#include <cmath>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::vector;

ZhangSkeelIntegrator::ZhangSkeelIntegrator(double stepSize)
        : StiffIntegrator(stepSize, kernelName<ZhangSkeelIntegrator>), method(StiffHessian), beta(0.25),
          newtonTolerance(0) {
}

void ZhangSkeelIntegrator::setMethod(Method method) {
    require(method >= StiffHessian && method <= NewmarkOneIteration, getClassName(), ": there is no method ",
            int(method), "; give StiffHessian, FullHessian, ThirdDerivatives, Newmark or NewmarkOneIteration");
    const Method before = this->method;
    this->method = method;
    try {
        if (context != nullptr)
            requirePossible(); // throws an exception if the System has something that the method cannot do
    }
    catch (...) {
        this->method = before;
        throw;
    }
}

void ZhangSkeelIntegrator::setNewtonTolerance(double tolerance) {
    require(tolerance >= 0 && std::isfinite(tolerance), getClassName(),
            ": the tolerance of Newton's method must not be negative, but is ", tolerance,
            "; the default, 0, takes what the platform's forces allow");
    newtonTolerance = tolerance;
}

int ZhangSkeelIntegrator::getNumNewtonIterations() const {
    requireContext();
    return getKernel<ZhangSkeelQueries>().getNumNewtonIterations();
}

void ZhangSkeelIntegrator::setBeta(double beta) {
    require(beta >= 0 && std::isfinite(beta), getClassName(), ": beta must be a non-negative number, not ", beta,
            "; linear stiff modes are stable for any step size if it is 0.25 or more");
    this->beta = beta;
}

std::unique_ptr<StiffMotion> ZhangSkeelIntegrator::findStiffMotion() {
    auto motion = std::make_unique<StiffMotion>(context->getSystem(), "stiff terms",
                                                "Choose the forces that are stiff with setStiffForceGroups()",
                                                getIntegrationForceGroups(), context->getParameters(), getClassName());
    motion->addStiffTerms(collectTerms(context->getSystem(), TermSelection(*this).scope, getStiffForceGroups(),
                                       getIntegrationForceGroups(), getClassName()));
    return motion;
}

vector<Vec3> ZhangSkeelIntegrator::getPropagatedPositions() const {
    requireContext();
    vector<Vec3> positions;
    getKernel<ZhangSkeelQueries>().getPropagatedPositions(positions);
    return positions;
}
