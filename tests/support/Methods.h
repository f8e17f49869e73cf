#ifndef STIFFTEST_METHODS_H_
#define STIFFTEST_METHODS_H_

#include "OpenMMStiff.h"
#include "Systems.h"
#include <functional>
#include <memory>
#include <vector>

/**
 * The methods that integrators offer, with what is claimed of each.
 */
namespace stifftest {

using Make = std::function<std::unique_ptr<OpenMMStiff::StiffIntegrator>()>;

/** How an integrator is made from its arguments, on which set(integrator) is called. */
template <class T, class Set, class... Arguments> Make makerWith(Set set, Arguments... arguments) {
    return [=] {
        auto integrator = std::make_unique<T>(arguments...);
        set(*integrator);
        return integrator;
    };
}

template <class T, class... Arguments> Make maker(Arguments... arguments) {
    return makerWith<T>([](auto&) {}, arguments...);
}

struct ImpulseKick {
    const char* name;
    OpenMMStiff::ImpulseIntegrator::KickMethod kick;
    struct {
        bool symplectic;
    } is;
};
const std::vector<ImpulseKick> impulseKicks = {{"Plain", OpenMMStiff::ImpulseIntegrator::Plain, {true}},
                                               {"Mollified", OpenMMStiff::ImpulseIntegrator::Mollified, {true}},
                                               {"Projected", OpenMMStiff::ImpulseIntegrator::Projected, {false}}};

/** A method of the Zhang-Skeel family, with what Tao and Owhadi (2014) claim of it. */
struct ZhangSkeelMethod {
    const char* name;
    OpenMMStiff::ZhangSkeelIntegrator::Method method;
    struct {
        bool reversible, symplectic;
        /// Whether it takes slow forces that have no Hessian, and matrices that are indefinite.
        bool forAnyForces, forIndefinite;
    } is;
};
const std::vector<ZhangSkeelMethod> zhangSkeelMethods = {
        {"StiffHessian", OpenMMStiff::ZhangSkeelIntegrator::StiffHessian, {true, false, true, false}},
        {"FullHessian", OpenMMStiff::ZhangSkeelIntegrator::FullHessian, {true, false, false, true}},
        {"ThirdDerivatives", OpenMMStiff::ZhangSkeelIntegrator::ThirdDerivatives, {true, true, false, true}},
        // Where the matrix is indefinite, its equations need not have a solution.
        {"Newmark", OpenMMStiff::ZhangSkeelIntegrator::Newmark, {true, true, true, false}},
        {"NewmarkOneIteration", OpenMMStiff::ZhangSkeelIntegrator::NewmarkOneIteration, {false, false, true, true}}};

const int stiffGroup = 1;

/** Let an integrator use a method, with the forces of stiffGroup, if it needs only the stiff ones. */
inline void choose(OpenMMStiff::ZhangSkeelIntegrator& integrator, OpenMMStiff::ZhangSkeelIntegrator::Method method) {
    integrator.setMethod(method);
    if (method == OpenMMStiff::ZhangSkeelIntegrator::ThirdDerivatives)
        integrator.setUseDefaultStiffForceGroups(true);
    else
        integrator.setStiffForceGroups(1 << stiffGroup);
}

/** The double pendulum of Tao and Owhadi (section 4.1), pinned to a massless particle: V1 = w^2/2 sum (r^2 - L^2)^2. */
inline Model makeDoublePendulum(double w = 20, const char* field = "y") {
    Model model;
    model.positions = {OpenMM::Vec3(0, 0, 0), OpenMM::Vec3(0, -1, 0), OpenMM::Vec3(1, -2, 0)};
    addParticles(model.system, {0, 1, 1});
    auto* penalty = new OpenMM::CustomBondForce("0.5*w^2*(r^2-L^2)^2");
    penalty->addGlobalParameter("w", w);
    penalty->addPerBondParameter("L");
    penalty->addBond(0, 1, {1});
    penalty->addBond(1, 2, {std::sqrt(2)});
    penalty->setForceGroup(stiffGroup);
    model.system.addForce(penalty);
    addExternal(model.system, field, {}, {1, 2});
    return model;
}

} // namespace stifftest

#endif /* STIFFTEST_METHODS_H_ */
