/**
 * What the kernels for any platform fetch from it and send to it in a step, counted on Reference: the way is the same on
 * a device, where each of these calls is a transfer of a whole array.
 */

#include "Claims.h"
#include "OpenMMStiff.h"
#include "PlatformTest.h"
#include "ReferenceKernelFactory.h"
#include "Systems.h"
#include "openmm/KernelFactory.h"
#include "openmm/kernels.h"
#include <functional>
#include <memory>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using std::vector;

namespace {

struct Transfers {
    int positionsDown = 0, positionsUp = 0, velocitiesDown = 0, velocitiesUp = 0, forcesDown = 0;

    int count() const {
        return positionsDown + positionsUp + velocitiesDown + velocitiesUp + forcesDown;
    }
    bool operator==(const Transfers& other) const {
        return positionsDown == other.positionsDown && positionsUp == other.positionsUp &&
               velocitiesDown == other.velocitiesDown && velocitiesUp == other.velocitiesUp &&
               forcesDown == other.forcesDown;
    }
    Transfers operator-(const Transfers& other) const {
        return {positionsDown - other.positionsDown, positionsUp - other.positionsUp,
                velocitiesDown - other.velocitiesDown, velocitiesUp - other.velocitiesUp,
                forcesDown - other.forcesDown};
    }
    Transfers operator/(int number) const {
        return {positionsDown / number, positionsUp / number, velocitiesDown / number, velocitiesUp / number,
                forcesDown / number};
    }
} counted;

/** Reference's own, which counts. */
class CountingKernel : public UpdateStateDataKernel {
public:
    CountingKernel(const std::string& name, const Platform& platform, ContextImpl& context)
            : UpdateStateDataKernel(name, platform),
              inner(ReferenceKernelFactory().createKernelImpl(name, platform, context)) {
    }
    void initialize(const System& system) override {
        own().initialize(system);
    }
    double getTime(const ContextImpl& context) const override {
        return own().getTime(context);
    }
    void setTime(ContextImpl& context, double time) override {
        own().setTime(context, time);
    }
    long long getStepCount(const ContextImpl& context) const override {
        return own().getStepCount(context);
    }
    void setStepCount(const ContextImpl& context, long long count) override {
        own().setStepCount(context, count);
    }
    void getPositions(ContextImpl& context, vector<Vec3>& positions, bool allowPeriodic) override {
        counted.positionsDown++;
        own().getPositions(context, positions, allowPeriodic);
    }
    void setPositions(ContextImpl& context, const vector<Vec3>& positions) override {
        counted.positionsUp++;
        own().setPositions(context, positions);
    }
    void getVelocities(ContextImpl& context, vector<Vec3>& velocities) override {
        counted.velocitiesDown++;
        own().getVelocities(context, velocities);
    }
    void setVelocities(ContextImpl& context, const vector<Vec3>& velocities) override {
        counted.velocitiesUp++;
        own().setVelocities(context, velocities);
    }
    void computeShiftedVelocities(ContextImpl& context, double shift, vector<Vec3>& velocities) override {
        own().computeShiftedVelocities(context, shift, velocities);
    }
    void getForces(ContextImpl& context, vector<Vec3>& forces) override {
        counted.forcesDown++;
        own().getForces(context, forces);
    }
    void getEnergyParameterDerivatives(ContextImpl& context, std::map<std::string, double>& derivatives) override {
        own().getEnergyParameterDerivatives(context, derivatives);
    }
    void getPeriodicBoxVectors(ContextImpl& context, Vec3& a, Vec3& b, Vec3& c) const override {
        own().getPeriodicBoxVectors(context, a, b, c);
    }
    void setPeriodicBoxVectors(ContextImpl& context, const Vec3& a, const Vec3& b, const Vec3& c) override {
        own().setPeriodicBoxVectors(context, a, b, c);
    }
    void createCheckpoint(ContextImpl& context, std::ostream& stream) override {
        own().createCheckpoint(context, stream);
    }
    void loadCheckpoint(ContextImpl& context, std::istream& stream) override {
        own().loadCheckpoint(context, stream);
    }

private:
    UpdateStateDataKernel& own() const {
        return *dynamic_cast<UpdateStateDataKernel*>(inner.get());
    }
    const std::unique_ptr<KernelImpl> inner;
};

class CountingFactory : public KernelFactory {
public:
    KernelImpl* createKernelImpl(std::string name, const Platform& platform, ContextImpl& context) const override {
        return new CountingKernel(name, platform, context);
    }
};

struct Method {
    const char* name;
    std::function<std::unique_ptr<StiffIntegrator>()> make;
    Transfers inStep;
    /// How often velocities go up in a call, beyond that.
    int shownInCall = 0;
};

template <class T, class... Arguments> std::function<std::unique_ptr<StiffIntegrator>()> maker(Arguments... arguments) {
    return [=] { return std::make_unique<T>(arguments...); };
}

/** The waters of OpenMM's tip3p.pdb in number, with what ForceField puts beside their forces. */
Model makeWaters() {
    const int numWaters = 895;
    Model model = makeWaterCluster(10);
    Model waters;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    for (int i = 0; i < 3 * numWaters; i++) {
        waters.system.addParticle(model.system.getParticleMass(i));
        waters.positions.push_back(model.positions[i]);
    }
    for (int o = 0; o < 3 * numWaters; o += 3) {
        bonds->addBond(o, o + 1, bondLength, bondConstant);
        bonds->addBond(o, o + 2, bondLength, bondConstant);
        angles->addAngle(o + 1, o, o + 2, waterAngle, angleConstant);
    }
    waters.system.addForce(bonds);
    waters.system.addForce(angles);
    waters.system.addForce(new CMMotionRemover());
    return waters;
}

/**
 * In steps that follow one another, forces come down once and positions go up once, which every method needs, and
 * velocities both ways: a CMMotionRemover changes them before each step, and who looks at the Context must find them. The
 * methods of Zhang and Skeel, and the mollified one, compute forces at other positions than they show, which go up
 * too. At the ends of a call of step() positions and velocities come down, as others may have changed them, and to see
 * what the platform has made of them; the mass penalty also sends velocities that move particles, and those that it shows.
 */
void testTransfersOfAStep(Platform& platform) {
    const Transfers plain = {0, 1, 1, 1, 1}, shown = {0, 2, 1, 1, 1};
    const vector<Method> methods = {
            {"MassPenaltyIntegrator", maker<MassPenaltyIntegrator>(0.004), plain, 2},
            {"MassPenaltyLangevinIntegrator", maker<MassPenaltyLangevinIntegrator>(300.0, 1.0, 0.008), plain, 2},
            {"ImpulseIntegrator", maker<ImpulseIntegrator>(0.004), plain},
            {"ImpulseIntegrator, Mollified",
             [] {
                 auto integrator = std::make_unique<ImpulseIntegrator>(0.004);
                 integrator->setKick(ImpulseIntegrator::Mollified);
                 return integrator;
             },
             shown},
            {"ImpulseLangevinIntegrator", maker<ImpulseLangevinIntegrator>(300.0, 1.0, 0.004), plain},
            {"ZhangSkeelIntegrator", maker<ZhangSkeelIntegrator>(0.002), shown},
            {"ZhangSkeelLangevinIntegrator", maker<ZhangSkeelLangevinIntegrator>(300.0, 1.0, 0.002), shown},
            {"SpookIntegrator", maker<SpookIntegrator>(0.001), plain},
    };
    const Model model = makeWaters();
    for (const Method& method : methods) {
        const auto integrator = method.make();
        ModelContext context(model, *integrator, platform);
        context.setVelocitiesToTemperature(300, 1);
        integrator->step(1);
        auto countSteps = [&](int number) {
            counted = Transfers();
            integrator->step(number);
            return counted;
        };
        const int numSteps = 10;
        const Transfers one = countSteps(1), each = (countSteps(1 + numSteps) - one) / numSteps, call = one - each;
        const int numParticles = model.system.getNumParticles();
        std::cout << method.name << ": in a step " << each.count() << " transfers of " << sizeof(Vec3) * numParticles
                  << " bytes (positions " << each.positionsDown << " down, " << each.positionsUp << " up; velocities "
                  << each.velocitiesDown << " down, " << each.velocitiesUp << " up; forces " << each.forcesDown
                  << " down), in a call of step() another " << call.count() << std::endl;
        ASSERT(each == method.inStep);
        ASSERT(call.positionsDown == 2 && call.velocitiesDown <= 2);
        ASSERT_EQUAL(method.shownInCall, call.velocitiesUp);
        ASSERT_EQUAL(call.positionsDown + call.velocitiesDown + call.velocitiesUp, call.count());
    }
}

/** For the kinetic energy velocities come down, and nothing goes back. */
void testEnergiesSendNothing(Platform& platform) {
    const Model model = makeWaters();
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.008);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(2);
    counted = Transfers();
    context.getState(State::Energy);
    const Transfers expected = {0, 0, 1, 0, 0};
    ASSERT(counted == expected);
}

} // namespace

int main(int argc, char* argv[]) {
    Platform& platform = Platform::getPlatformByName("Reference");
    platform.registerKernelFactory(UpdateStateDataKernel::Name(), new CountingFactory());
    return checkOnPlatform(argc, argv, {CLAIM(testTransfersOfAStep), CLAIM(testEnergiesSendNothing)});
}
