#include "KeptStiffTerms.h"
#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include <limits>

using namespace OpenMM;
using namespace OpenMMStiff;

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

} // namespace

TermSelection::TermSelection(const ZhangSkeelIntegrator& integrator)
        : scope(findTermScope(integrator)), stiffGroups(integrator.getStiffForceGroups()),
          integrationGroups(integrator.getIntegrationForceGroups()) {
    needs.hessian = true;
    needs.thirdDerivatives = (integrator.getMethod() == ZhangSkeelIntegrator::ThirdDerivatives);
    const auto* langevin = dynamic_cast<const ZhangSkeelLangevinIntegrator*>(&integrator);
    if (langevin != nullptr && !langevin->getThermalizeStiffModes())
        rows.period = std::numeric_limits<double>::infinity();
}

TermSelection::TermSelection(const ImpulseIntegrator& integrator)
        : scope(TermScope::Harmonic), stiffGroups(integrator.getStiffForceGroups()),
          integrationGroups(integrator.getIntegrationForceGroups()) {
    rows.period = (integrator.getKick() == ImpulseIntegrator::Plain ? 0 : integrator.getProjectedPeriod());
    rows.bends = (integrator.getKick() == ImpulseIntegrator::Mollified);
    needs.frequency = true;
}

void KeptStiffTerms::update(const System& system, const TermSelection& selection, const std::string& className) {
    kept.update(selection, [&](const TermSelection& selection) {
        StiffTerms terms =
                collectTerms(system, selection.scope, selection.stiffGroups, selection.integrationGroups, className);
        chooseRows(terms, system, selection.rows);
        terms.needs = selection.needs;
        TermsInBlocks found = {terms, findBlocks(system, terms, className)};
        addFreeParticles(system, found.blocks);
        return found;
    });
}
