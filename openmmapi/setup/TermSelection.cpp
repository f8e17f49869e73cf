#include "TermSelection.h"
#include "Masses.h"
#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include <cmath>
#include <limits>
#include <map>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;

namespace {

/** Which terms the method of an integrator needs. */
TermScope findTermScope(const ZhangSkeelIntegrator& integrator) {
    const bool thirdDerivatives = (integrator.getMethod() == ZhangSkeelIntegrator::ThirdDerivatives);
    if (integrator.getMethod() == ZhangSkeelIntegrator::FullHessian ||
        (thirdDerivatives && integrator.getUseDefaultStiffForceGroups()))
        return TermScope::Everything;
    // ThirdDerivatives takes F1 from the force groups: it has to be the force of the terms with a Hessian.
    return thirdDerivatives ? TermScope::WholeStiffForces : TermScope::Stiff;
}

using Lengths = std::map<std::pair<int, int>, double>;

/** The equilibrium lengths of bonds. */
Lengths findLengths(const StiffTerms& terms) {
    Lengths lengths;
    for (const StiffCoordinate& s : terms.coordinates)
        if (s.kind == StiffCoordinate::Kind::Distance && s.k != 0)
            lengths[ordered(s.particles[0], s.particles[1])] = s.s0;
    return lengths;
}

/** k g M^-1 g^T of a coordinate at equilibrium [1/ps^2]; 0 for an angle between legs of unknown lengths. */
double squaredFrequency(const System& system, const StiffCoordinate& s, const Lengths& lengths) {
    const auto& [i, j, k] = s.particles;
    if (s.kind == StiffCoordinate::Kind::Distance)
        return s.k * inverseReducedMass(system, i, j);
    const auto leg1 = lengths.find(ordered(j, i)), leg2 = lengths.find(ordered(j, k));
    if (leg1 == lengths.end() || leg2 == lengths.end())
        return 0;
    return s.k * inverseMassOfAngle(system, s.particles, leg1->second, leg2->second, s.s0);
}

/** Choose the coordinates that are rows of the Jacobian. */
void chooseRows(StiffTerms& terms, const System& system, const TermSelection& selection) {
    const double twoPi = 2 * 3.14159265358979323846, period = selection.period;
    const bool all = std::isinf(period);
    const Lengths lengths = findLengths(terms);
    for (StiffCoordinate& s : terms.coordinates) {
        const bool isFast = all || squaredFrequency(system, s, lengths) * period * period > twoPi * twoPi;
        s.use = !isFast || (s.isHarmonic && s.k == 0) ? StiffCoordinate::Use::None
                : selection.bends && s.straight       ? StiffCoordinate::Use::Bends
                                                      : StiffCoordinate::Use::Coordinate;
    }
}

} // namespace

TermSelection::TermSelection(const ZhangSkeelIntegrator& integrator)
        : scope(findTermScope(integrator)), stiffGroups(integrator.getStiffForceGroups()),
          integrationGroups(integrator.getIntegrationForceGroups()) {
    needs.hessian = true;
    needs.thirdDerivatives = (integrator.getMethod() == ZhangSkeelIntegrator::ThirdDerivatives);
    const auto* langevin = dynamic_cast<const ZhangSkeelLangevinIntegrator*>(&integrator);
    if (langevin != nullptr && !langevin->getThermalizeStiffModes())
        period = std::numeric_limits<double>::infinity();
}

TermSelection::TermSelection(const ImpulseIntegrator& integrator)
        : scope(TermScope::Harmonic), stiffGroups(integrator.getStiffForceGroups()),
          integrationGroups(integrator.getIntegrationForceGroups()) {
    period = (integrator.getKick() == ImpulseIntegrator::Plain ? 0 : integrator.getProjectedPeriod());
    bends = (integrator.getKick() == ImpulseIntegrator::Mollified);
    needs.frequency = true;
}

TermsInBlocks OpenMMStiff::collectTermsInBlocks(const System& system, const TermSelection& selection,
                                                const std::string& className) {
    StiffTerms terms =
            collectTerms(system, selection.scope, selection.stiffGroups, selection.integrationGroups, className);
    chooseRows(terms, system, selection);
    terms.needs = selection.needs;
    TermsInBlocks found = {terms, findBlocks(system, terms, className)};
    addFreeParticles(system, found.blocks);
    return found;
}
