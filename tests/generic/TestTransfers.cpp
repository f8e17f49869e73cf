/**
 * What the kernels for any platform fetch from it and send to it in a step, counted on Reference: the way is the same on
 * a device, where each of these calls is a transfer of a whole array.
 */

#include "IntegratorTest.h"
#include "ReferenceKernelFactory.h"
#include "openmm/KernelFactory.h"
#include "openmm/kernels.h"

namespace {

enum { PositionsDown, PositionsUp, VelocitiesDown, VelocitiesUp, ForcesDown, NumKinds };
using Transfers = std::array<int, NumKinds>;

Transfers counted;

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
        counted[PositionsDown]++;
        own().getPositions(context, positions, allowPeriodic);
    }
    void setPositions(ContextImpl& context, const vector<Vec3>& positions) override {
        counted[PositionsUp]++;
        own().setPositions(context, positions);
    }
    void getVelocities(ContextImpl& context, vector<Vec3>& velocities) override {
        counted[VelocitiesDown]++;
        own().getVelocities(context, velocities);
    }
    void setVelocities(ContextImpl& context, const vector<Vec3>& velocities) override {
        counted[VelocitiesUp]++;
        own().setVelocities(context, velocities);
    }
    void computeShiftedVelocities(ContextImpl& context, double shift, vector<Vec3>& velocities) override {
        own().computeShiftedVelocities(context, shift, velocities);
    }
    void getForces(ContextImpl& context, vector<Vec3>& forces) override {
        counted[ForcesDown]++;
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

Model makeWaters() {
    Model model = makeLoneWaters(10);
    model.system.addForce(new CMMotionRemover());
    return model;
}

/**
 * In steps that follow one another, forces come down once and positions go up once, which every method needs, and
 * velocities both ways: a CMMotionRemover changes them before each step, and who looks at the Context must find them. The
 * methods of Zhang and Skeel, and the mollified one, compute forces at other positions than they show, which go up
 * too. At the ends of a call of step() positions and velocities come down, as others may have changed them, and to see
 * what the platform has made of them; the mass penalty also sends velocities that move particles, and those that it shows.
 */
CLAIM(testTransfersOfAStep, Platform& platform) {
    struct Method {
        const char* name;
        Make make;
        Transfers inStep;
        /// How often velocities go up in a call, beyond that.
        int shownInCall = 0;
    };
    const Transfers plain = {0, 1, 1, 1, 1}, shown = {0, 2, 1, 1, 1};
    auto mollify = [](ImpulseIntegrator& integrator) { integrator.setKick(ImpulseIntegrator::Mollified); };
    const vector<Method> methods = {
            {"MassPenaltyIntegrator", maker<MassPenaltyIntegrator>(0.004), plain, 2},
            {"MassPenaltyLangevinIntegrator", maker<MassPenaltyLangevinIntegrator>(300.0, 1.0, 0.008), plain, 2},
            {"ImpulseIntegrator", maker<ImpulseIntegrator>(0.004), plain},
            {"ImpulseIntegrator, Mollified", makerWith<ImpulseIntegrator>(mollify, 0.004), shown},
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
            counted = {};
            integrator->step(number);
            return counted;
        };
        const int numSteps = 10;
        const Transfers one = countSteps(1), more = countSteps(1 + numSteps);
        Transfers inStep, inCall;
        for (int kind = 0; kind < NumKinds; kind++) {
            inStep[kind] = (more[kind] - one[kind]) / numSteps;
            inCall[kind] = one[kind] - inStep[kind];
        }
        std::cout << method.name << ": in a step " << std::accumulate(inStep.begin(), inStep.end(), 0)
                  << " transfers, in a call of step() another " << std::accumulate(inCall.begin(), inCall.end(), 0)
                  << std::endl;
        ASSERT(inStep == method.inStep);
        ASSERT(inCall[VelocitiesDown] <= 2);
        ASSERT((inCall == Transfers{2, 0, inCall[VelocitiesDown], method.shownInCall, 0}));
    }
}

/** For the kinetic energy velocities come down, and nothing goes back. */
CLAIM(testEnergiesSendNothing, Platform& platform) {
    const Model model = makeWaters();
    MassPenaltyLangevinIntegrator integrator(300, 1, 0.008);
    ModelContext context(model, integrator, platform);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(2);
    counted = {};
    context.getState(State::Energy);
    ASSERT((counted == Transfers{0, 0, 1, 0, 0}));
}

} // namespace

int main(int argc, char* argv[]) {
    Platform& platform = Platform::getPlatformByName("Reference");
    platform.registerKernelFactory(UpdateStateDataKernel::Name(), new CountingFactory());
    return checkOnPlatform(argc, argv);
}
