#ifndef STIFF_TEST_CHANGES_H_
#define STIFF_TEST_CHANGES_H_

#include "Claims.h"
#include "OpenMMStiff.h"
#include "PlatformTest.h"
#include "Systems.h"
#include <functional>
#include <memory>
#include <tuple>

/**
 * What changes a Context, and what does not.
 */
namespace stifftest {

/** What ZhangSkeelIntegrator moves, and others show. */
inline std::vector<OpenMM::Vec3> getPropagatedPositions(OpenMM::Context& context) {
    auto* hiding = dynamic_cast<OpenMMStiff::ZhangSkeelIntegrator*>(&context.getIntegrator());
    return hiding ? hiding->getPropagatedPositions() : getPositions(context);
}

/** What a call that fails leaves as it was. */
inline auto getWholeState(OpenMM::Context& context) {
    return std::tuple(getPropagatedPositions(context), getPositions(context), getVelocities(context), context.getTime(),
                      context.getStepCount());
}

/** Assert that a call of step() is refused with these words, and changes nothing. */
inline void assertRefusedWithoutChange(OpenMM::Context& context, int steps, const std::vector<std::string>& words) {
    const auto before = getWholeState(context);
    assertThrows([&] { context.getIntegrator().step(steps); }, words);
    ASSERT(getWholeState(context) == before);
}

/**
 * What a change between steps does is what it does in a new Context, with the System's defaults of parameters, that
 * starts at the same (x, v).
 */
inline void assertTakesEffect(OpenMM::Context& context, double tolerance, const std::function<void()>& change) {
    OpenMM::Integrator& integrator = context.getIntegrator();
    integrator.step(5); // so that what can be remembered is
    auto stepAnew = [&] {
        const std::unique_ptr<OpenMM::Integrator> fresh(OpenMM::XmlSerializer::clone(integrator));
        OpenMM::Platform& platform = context.getPlatform();
        OpenMM::Context newContext(context.getSystem(), *fresh, platform, deterministic(platform));
        newContext.setTime(context.getTime());
        newContext.setPositions(getPropagatedPositions(context));
        newContext.setVelocities(getVelocities(context));
        fresh->step(1);
        return getPositions(newContext);
    };
    const std::vector<OpenMM::Vec3> without = stepAnew();
    change();
    const std::vector<OpenMM::Vec3> expected = stepAnew();
    integrator.step(1);
    ASSERT(largestDifference(expected, getPositions(context)) <= tolerance);
    ASSERT(largestDifference(getPositions(context), without) > 1e-9); // there is an effect
}

} // namespace stifftest

#endif /* STIFF_TEST_CHANGES_H_ */
