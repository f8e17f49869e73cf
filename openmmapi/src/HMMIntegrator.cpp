#include "openmmstiff/HMMIntegrator.h"
#include "openmmstiff/StiffKernels.h"
#include "openmmstiff/internal/Checks.h"
#include <cmath>

using namespace OpenMM;
using namespace OpenMMStiff;

namespace {
void requireEven(const char* what, int number, int least) {
    const int most = 10000; // so that their product, the micro-steps in a window, is a number still
    require(number >= least && number <= most && number % 2 == 0, "HMMIntegrator: the number of ", what,
            " must be even, at least ", least, " and at most ", most, ", not ", number);
}
} // namespace

HMMIntegrator::HMMIntegrator(double macroStepSize, double angularFrequency)
        : StiffIntegrator(macroStepSize, kernelName<HMMIntegrator>), phaseParameter("theta"), filter(Bump),
          macroMethod(RATTLE), numMicroSteps(40), numPeriods(40), vibratedForceGroups(0) {
    setAngularFrequency(angularFrequency);
}

void HMMIntegrator::setAngularFrequency(double frequency) {
    require(frequency > 0 && std::isfinite(frequency),
            "HMMIntegrator: the angular frequency of the vibration must be a positive number, not ", frequency,
            " radian/ps");
    this->frequency = frequency;
}

void HMMIntegrator::setFilter(Filter filter) {
    require(filter == Bump || filter == HalfBump || filter == Simple, "HMMIntegrator: there is no filter number ",
            int(filter), "; give Bump, HalfBump or Simple");
    this->filter = filter;
}

void HMMIntegrator::setMacroMethod(MacroMethod method) {
    require(method == SHAKE || method == RATTLE, "HMMIntegrator: there is no macro method number ", int(method),
            "; give SHAKE or RATTLE");
    macroMethod = method;
}

void HMMIntegrator::setNumMicroStepsPerPeriod(int number) {
    requireEven("micro-steps in a period", number, 4);
    numMicroSteps = number;
}

void HMMIntegrator::setNumPeriods(int number) {
    requireEven("periods in the window", number, 2);
    numPeriods = number;
}

void HMMIntegrator::setVibratedForceGroups(int groups) {
    setGroups(groups, vibratedForceGroups, "setUseDefaultVibratedForceGroups(true)");
}

void HMMIntegrator::setUseDefaultVibratedForceGroups(bool use) {
    useDefault(use, vibratedForceGroups, "setVibratedForceGroups()");
}

int HMMIntegrator::computeNumMicroEvaluations() const {
    if (filter == Simple)
        return numMicroSteps / 2 + 1;
    const int inHalf = numPeriods / 2 * numMicroSteps; // the weight at the end of the window is 0
    return filter == HalfBump ? inHalf : 2 * inHalf - 1;
}
