/**
 * What every integrator of this plugin owes to OpenMM, whatever its method: claims that hold for each line of the
 * table in makeSubjects().
 */

#include "IntegratorTest.h"
#include "openmm/internal/ForceImpl.h"
#include "openmmstiff/StiffKernels.h"
#include <dlfcn.h>

namespace {

/** Add a force that depends on a phase, as HMMIntegrator needs it; at the phase's default there is none. */
void vibrate(Model& model) {
    addExternal(model.system, "50*cos(theta)*x", {{"theta", M_PI / 2}}, {0});
}

Model makeCluster(int numSide, bool rigid = false) {
    Model model = makeWaterCluster(numSide, rigid);
    vibrate(model);
    return model;
}

/** A force of somebody's plugin, which does nothing, and does not say whether it is periodic. */
struct SilentForce : Force {
    struct Impl : ForceImpl {
        explicit Impl(const Force& owner) : owner(owner) {
        }
        void initialize(ContextImpl&) override {
        }
        const Force& getOwner() const override {
            return owner;
        }
        double calcForcesAndEnergy(ContextImpl&, bool, bool, int) override {
            return 0;
        }
        std::map<std::string, double> getDefaultParameters() override {
            return {};
        }
        std::vector<std::string> getKernelNames() override {
            return {};
        }
        const Force& owner;
    };
    ForceImpl* createImpl() const override {
        return new Impl(*this);
    }
};

/** Shows where the code of an integrator's kernel comes from. */
struct Probe : StiffIntegrator {
    static std::string findKernelLibrary(StiffIntegrator& integrator) {
        StiffStepKernel& (StiffIntegrator::*getKernel)() const = &Probe::getKernel<StiffStepKernel>;
        const void* object = &(integrator.*getKernel)();
        Dl_info info;
        ASSERT(dladdr(*static_cast<void* const*>(object), &info) != 0); // its table of virtual functions
        return info.dli_fname;
    }
};

/** An HMMIntegrator for forces with a certain frequency. */
struct Vibrating : HMMIntegrator {
    explicit Vibrating(double stepSize) : HMMIntegrator(stepSize, 1e5) {
        setFilter(Simple);
        setNumMicroStepsPerPeriod(8);
    }
};

struct Subject {
    std::string name, className;
    bool hasHeatBath;
    std::function<std::unique_ptr<StiffIntegrator>(double stepSize, double temperature, double friction)> create;

    /** A heat bath has a seed of its own; without one, its arguments do not matter. */
    std::unique_ptr<StiffIntegrator> make(double stepSize, double temperature = 300, double friction = 5) const {
        return create(stepSize, temperature, friction);
    }
};

/** @param name   that of the class, and after a comma what is set */
template <class T, class Set = void (*)(T&)>
Subject makeSubject(
        const std::string& name, Set set = [](T&) {}) {
    constexpr bool hasHeatBath = std::is_base_of_v<LangevinThermostat, T>;
    auto create = [=](double stepSize, [[maybe_unused]] double temperature, [[maybe_unused]] double friction) {
        std::unique_ptr<T> integrator;
        if constexpr (hasHeatBath) {
            integrator = std::make_unique<T>(temperature, friction, stepSize);
            integrator->setRandomNumberSeed(5);
        }
        else
            integrator = std::make_unique<T>(stepSize);
        set(*integrator);
        return integrator;
    };
    return {name, name.substr(0, name.find(',')), hasHeatBath, create};
}

const char* const withOwnConstraints = "SpookIntegrator, with constraints of its own";

vector<Subject> makeSubjects() {
    auto addConstraints = [](SpookIntegrator& integrator) {
        integrator.addDistanceConstraint(0, 1, bondLength);
        integrator.addHolonomicConstraint({0, 2}, "distance(p1,p2)-0.09572");
        integrator.addVelocityConstraint({0, 1, 2}, {"1", "0", "0", "0", "x1", "0", "0", "0", "1"}, "0.1*sin(5*t)");
    };
    return {makeSubject<ZhangSkeelIntegrator>("ZhangSkeelIntegrator"),
            makeSubject<ZhangSkeelLangevinIntegrator>("ZhangSkeelLangevinIntegrator"),
            makeSubject<ZhangSkeelLangevinIntegrator>("ZhangSkeelLangevinIntegrator, noise in the tangent space",
                                                      [](auto& each) { each.setThermalizeStiffModes(false); }),
            makeSubject<ImpulseIntegrator>("ImpulseIntegrator"),
            makeSubject<ImpulseLangevinIntegrator>("ImpulseLangevinIntegrator"),
            makeSubject<ImpulseIntegrator>("ImpulseIntegrator, Plain", [](auto& each) { each.setKick(each.Plain); }),
            makeSubject<ImpulseIntegrator>("ImpulseIntegrator, Mollified",
                                           [](auto& each) { each.setKick(each.Mollified); }),
            makeSubject<MassPenaltyIntegrator>("MassPenaltyIntegrator"),
            makeSubject<MassPenaltyLangevinIntegrator>("MassPenaltyLangevinIntegrator"),
            makeSubject<MassPenaltyLangevinIntegrator>("MassPenaltyLangevinIntegrator, bonds with an inertia",
                                                       [](auto& each) { each.setBondInertia(3); }),
            makeSubject<SpookIntegrator>("SpookIntegrator"),
            makeSubject<SpookIntegrator>(withOwnConstraints, addConstraints),
            makeSubject<Vibrating>("HMMIntegrator")};
}

void forEachSubject(const std::function<void(const Subject&)>& claim) {
    checkEach(makeSubjects(), claim);
}

/** An integrator and a Context of its own. */
struct Run {
    std::unique_ptr<StiffIntegrator> integrator;
    Context context;

    using Properties = std::map<std::string, std::string>;

    Run(const Subject& subject, const System& system, Platform& platform, double stepSize)
            : Run(subject, system, platform, stepSize, deterministic(platform)) {
    }
    Run(const Subject& subject, const System& system, Platform& platform, double stepSize, const Properties& properties)
            : integrator(subject.make(stepSize)), context(system, *integrator, platform, properties) {
    }
    LangevinThermostat* heatBath() {
        return dynamic_cast<LangevinThermostat*>(integrator.get());
    }
    void start(const vector<Vec3>& positions, int seed) {
        context.setPositions(positions);
        context.setVelocitiesToTemperature(300, seed);
    }
    void step(int steps) {
        integrator->step(steps);
    }
    std::string save() {
        std::stringstream stream;
        context.createCheckpoint(stream);
        return stream.str();
    }
    void load(const std::string& checkpoint) {
        std::stringstream stream(checkpoint);
        context.loadCheckpoint(stream);
    }
};

double difference(const Run& a, const Run& b) {
    return std::max(largestDifference(getPositions(a.context), getPositions(b.context)),
                    largestDifference(getVelocities(a.context), getVelocities(b.context)));
}

/** What asks whether the System is periodic takes a force that does not say so. */
CLAIM(testForcesOfOtherPlugins, Platform& platform) {
    Model model = makeCluster(1);
    model.system.addForce(new SilentForce());
    forEachSubject([&](const Subject& subject) {
        Run run(subject, model.system, platform, 0.001);
        run.start(model.positions, 1);
        run.step(1);
        const vector<Vec3> positions = getPositions(run.context);
        run.load(run.save());
        ASSERT_EQUAL_CONTAINERS(positions, getPositions(run.context));
        run.step(1);
    });
}

/**
 * A run resumed from a checkpoint, in the same or a new Context, is bit for bit the run that went on; with several
 * threads too, if no nonbonded forces depend on their timing.
 */
CLAIM(testCheckpointsResumeExactly, Platform& platform) {
    Model model = makeCluster(2);
    vector<Run::Properties> choices = {deterministic(platform)};
    if (platform.getName() == "CPU")
        choices.push_back({{"Threads", "2"}});
    for (const Run::Properties& properties : choices) {
        if (properties != choices[0])
            model.system.removeForce(2);
        forEachSubject([&](const Subject& subject) {
            Run run(subject, model.system, platform, 0.002, properties),
                    same(subject, model.system, platform, 0.002, properties);
            run.start(model.positions, 1);
            run.step(11);
            const std::string checkpoint = run.save();
            run.step(10);
            for (int repeat = 0; repeat < 2; repeat++) {
                same.load(checkpoint);
                same.step(10);
                ASSERT(difference(run, same) == 0);
                ASSERT(getPropagatedPositions(run.context) == getPropagatedPositions(same.context));
            }
        });
    }
}

/**
 * So is one resumed from a State that carries the integrator's parameters, if there is no noise; and reinitialize(true)
 * goes on from the same state.
 */
CLAIM(testStatesResumeExactly, Platform& platform) {
    const Model model = makeCluster(2);
    forEachSubject([&](const Subject& subject) {
        if (subject.hasHeatBath)
            return; // reinitialize() starts the random numbers again, as it should
        auto makeRun = [&] { return Run(subject, model.system, platform, 0.002); };
        Run run = makeRun(), resumed = makeRun(), reinitialized = makeRun();
        for (Run* each : {&run, &reinitialized}) {
            each->start(model.positions, 2);
            each->step(10);
        }
        std::stringstream xml;
        const State saved = run.context.getState(State::Positions | State::Velocities | State::IntegratorParameters);
        XmlSerializer::serialize(&saved, "State", xml);
        const std::unique_ptr<State> state(XmlSerializer::deserialize<State>(xml));
        resumed.context.setState(*state);
        reinitialized.context.reinitialize(true);
        for (Run* each : {&run, &resumed, &reinitialized})
            each->step(10);
        ASSERT(difference(run, resumed) <= copyRounding(platform));
        // Velocities go with positions times the frequencies of bonds.
        ASSERT(difference(run, reinitialized) <= 1e3 * copyRounding(platform));
    });
}

/**
 * With a seed that was set, a run repeats itself after reinitialize(); with another, or 0, it is another each time.
 * Without friction, a Langevin form is a deterministic integrator, whatever the seed.
 */
CLAIM(testSeeds, Platform& platform) {
    const Model model = makeCluster(2);
    forEachSubject([&](const Subject& subject) {
        Run run(subject, model.system, platform, 0.002), other(subject, model.system, platform, 0.002);
        other.start(model.positions, 4);
        other.step(10);
        auto runAgain = [&] {
            run.context.reinitialize();
            run.start(model.positions, 4);
            run.step(10);
            return getWholeState(run.context);
        };
        for (int repeat = 0; repeat < 2; repeat++)
            ASSERT(runAgain() == getWholeState(other.context));
        LangevinThermostat* heatBath = run.heatBath();
        if (heatBath == nullptr)
            return;
        vector<vector<Vec3>> ends = {getPositions(other.context)};
        for (int seed : {0, 0, 6}) {
            heatBath->setRandomNumberSeed(seed);
            runAgain();
            const vector<Vec3> end = getPositions(run.context);
            ASSERT(std::count(ends.begin(), ends.end(), end) == 0);
            ends.push_back(end);
        }
        heatBath->setFriction(0);
        const auto end = runAgain();
        heatBath->setRandomNumberSeed(11);
        ASSERT(runAgain() == end);
    });
}

/**
 * What changes between steps has the effect that it would have had from the beginning: the same step is made in a new
 * Context that has the change already and is given the same state. (That nothing is recomputed without cause is
 * tested from Python, where force evaluations can be counted.)
 */
CLAIM(testChangesTakeEffect, Platform& platform) {
    const int group = 7;
    auto makeModel = [&](bool stiffer) {
        Model model = makeCluster(2);
        addExternal(model.system, "scale*x^2", {{"scale", 0}}, {0});
        // A periodic force makes the box matter.
        auto* periodic = new CustomBondForce("20*r^2");
        periodic->addBond(0, 3);
        periodic->setUsesPeriodicBoundaryConditions(true);
        periodic->setForceGroup(group);
        model.system.addForce(periodic);
        if (stiffer)
            dynamic_cast<HarmonicBondForce&>(model.system.getForce(0)).setBondParameters(0, 0, 1, 0.1, 6e5);
        return model;
    };
    using Change = std::function<void(Run&)>;
    const vector<Change> changes = {
            [](Run& run) { run.integrator->setStepSize(0.001); },
            [](Run& run) { run.context.setParameter("scale", 100.0); },
            [](Run& run) { run.context.setPeriodicBoxVectors(Vec3(0.5, 0, 0), Vec3(0, 0.5, 0), Vec3(0, 0, 0.5)); },
            [](Run& run) { run.integrator->setIntegrationForceGroups(~(1 << group)); },
    };
    forEachSubject([&](const Subject& subject) {
        const Model model = makeModel(false);
        auto compare = [&](const Change& change, bool saves) {
            Run run(subject, model.system, platform, 0.002), fresh(subject, model.system, platform, 0.002);
            for (Run* r : {&fresh, &run}) {
                r->start(model.positions, 6);
                r->step(5);
            }
            // What saves begins anew from that; what does not may go on with what it remembers.
            const std::string checkpoint = (saves ? run : fresh).save();
            change(run);
            run.step(1);
            fresh.load(checkpoint);
            fresh.step(1);
            ASSERT(difference(run, fresh) > 1e-9); // there is an effect
            fresh.load(checkpoint);
            change(fresh);
            fresh.step(1);
            ASSERT(difference(run, fresh) <= (saves ? 0 : copyRounding(platform)));
        };
        for (const Change& change : changes) {
            compare(change, true);
            if (!subject.hasHeatBath) // two would draw different random numbers
                compare(change, false);
        }
        // Parameters of the stiff terms, through updateParametersInContext().
        Model changing = makeModel(false);
        const Model stiffer = makeModel(true);
        Run run(subject, changing.system, platform, 0.002), fresh(subject, stiffer.system, platform, 0.002);
        run.start(model.positions, 7);
        run.step(5);
        const State state = run.context.getState(State::Positions | State::Velocities);
        vector<Vec3> slower = state.getVelocities();
        for (Vec3& v : slower)
            v *= 0.9;
        auto& bonds = dynamic_cast<HarmonicBondForce&>(changing.system.getForce(0));
        bonds.setBondParameters(0, 0, 1, 0.1, 6e5);
        bonds.updateParametersInContext(run.context);
        for (Run* r : {&run, &fresh}) {
            if (subject.hasHeatBath)
                r->heatBath()->setFriction(0); // the two have drawn different numbers of random numbers
            r->context.setPositions(state.getPositions());
            // Others than the run has left, so that they belong to the present bonds in both.
            r->context.setVelocities(slower);
            r->context.setTime(0);
            r->step(2);
        }
        ASSERT(difference(run, fresh) <= copyRounding(platform));
    });
}

/** A failed step throws an error that names class and molecule, and leaves the state as it was; then it goes on. */
CLAIM(testFailedStepKeepsTheState, Platform& platform) {
    // A velocity that the platform can hold, but not its square.
    const double tooFast = byRounding(platform, 1e200, 1e200, 1e200, std::ldexp(1.0, 100));
    const Model model = makeCluster(2);
    forEachSubject([&](const Subject& subject) {
        Run run(subject, model.system, platform, 0.002);
        run.start(model.positions, 8);
        run.step(3);
        vector<Vec3> v = getVelocities(run.context);
        const vector<Vec3> good = v;
        v[4] = Vec3(tooFast, 0, 0);
        run.context.setVelocities(v);
        assertRefusedWithoutChange(run.context, 1, {subject.className + ":", "particle", "0.002 ps", "step size"});
        run.context.setVelocities(good);
        run.step(1);
        ASSERT_EQUAL(4, run.context.getStepCount());
    });
}

/** What has not been done yet, or cannot be, is refused with an error; the integrator stays usable. */
CLAIM(testErrors, Platform& platform) {
    forEachSubject([&](const Subject& subject) {
        const auto integrator = subject.make(0.001);
        assertThrows([&] { integrator->step(1); }, {"not bound"});
        if (auto* heatBath = dynamic_cast<LangevinThermostat*>(integrator.get())) {
            assertThrows([&] { subject.make(0.001, -1, 1); }, {"Temperature", "-1"});
            assertThrows([&] { subject.make(0.001, 300, -2); }, {"Friction", "-2"});
            assertThrows([&] { heatBath->setTemperature(std::nan("")); }, {"Temperature"});
            ASSERT_EQUAL(300, heatBath->getTemperature());
        }
        Model model = makeCluster(1);
        Context context(model.system, *integrator, platform);
        assertThrows([&] { integrator->step(1); }, {"positions have not been set"});
        assertThrows([&] { Context second(model.system, *integrator, platform); }, {"already bound"});
        context.setPositions(model.positions);
        integrator->step(1);
        ASSERT_EQUAL(1, context.getStepCount());
    });
}

/** So is a choice of stiff forces that cannot be integrated, with an error that names it and a remedy. */
CLAIM(testStiffForcesThatCannotBe, Platform& platform) {
    forEachSubject([&](const Subject& subject) {
        const auto integrator = subject.make(0.001);
        auto* selection = dynamic_cast<StiffForceSelection*>(integrator.get());
        if (selection == nullptr)
            return;
        Model constrained = makeCluster(1);
        constrained.system.addConstraint(0, 1, bondLength);
        assertThrows([&] { Context context(constrained.system, *integrator, platform); },
                     {subject.className.c_str(), "constraint 0", "particles 0 and 1", "rigidWater=False"});
        Model model = makeCluster(1);
        cutOff(model);
        selection->setStiffForceGroups(1);
        assertThrows([&] { Context context(model.system, *integrator, platform); },
                     {subject.className, "NonbondedForce", "group 0", "setForceGroup"});
        ASSERT(!selection->getUseDefaultStiffForceGroups());
        selection->setStiffForceGroups(1 << 5);
        assertThrows([&] { Context context(model.system, *integrator, platform); }, {subject.className, "stiff"});
        selection->setUseDefaultStiffForceGroups(true);
        assertThrows([&] { selection->setUseDefaultStiffForceGroups(false); }, {"setStiffForceGroups()"});
        ASSERT(selection->getUseDefaultStiffForceGroups());
        Context context(model.system, *integrator, platform);
        // Changed to something impossible in mid-run: an error, and back again it goes on.
        context.setPositions(model.positions);
        integrator->step(1);
        selection->setStiffForceGroups(1);
        assertThrows([&] { integrator->step(1); }, {"NonbondedForce"});
        selection->setUseDefaultStiffForceGroups(true);
        integrator->step(1);
        ASSERT_EQUAL(2, context.getStepCount());
    });
}

/** Rigid waters beside a flexible solute keep their constraints, in positions and in the velocities of a full step. */
CLAIM(testConstraintsOutsideTheStiffTerms, Platform& platform) {
    Model model = makeSoluteInRigidWater();
    vibrate(model);
    const int firstOfSolute = model.system.getNumParticles() - 3;
    const double h = 0.0005, settle = 1e-6; // SETTLE's own accuracy
    forEachSubject([&](const Subject& subject) {
        // In LangevinMiddle's order half of the noise along a constraint stays until the next kick.
        double violation = settle, normalVelocity = settle, lag = 0;
        if (subject.hasHeatBath)
            normalVelocity = (subject.className == "ZhangSkeelLangevinIntegrator" ? 1e-4 : INFINITY);
        // SPOOK does not remove violations: (h^2/4 + h tau/2) v^2/r is left of distances, h/2 v^2/r of velocities.
        if (subject.className == "SpookIntegrator") {
            violation = (subject.name == withOwnConstraints ? 2e-3 : 1e-3); // these are driven, too
            normalVelocity = 0.01;                                          // of the next order
            lag = 0.5;
        }
        Run run(subject, model.system, platform, h);
        run.integrator->setConstraintTolerance(1e-8);
        run.context.setPositions(model.positions);
        run.context.setVelocities(makeVelocities(model.system, 300, 9));
        run.context.applyVelocityConstraints(1e-8);
        const double energy = totalEnergy(run.context);
        run.step(400);
        const vector<Vec3> q = getPositions(run.context), v = getVelocities(run.context);
        for (int i = 0; i < model.system.getNumConstraints(); i++) {
            int p1, p2;
            double distance;
            model.system.getConstraintParameters(i, p1, p2, distance);
            const Vec3 r = q[p1] - q[p2];
            ASSERT_EQUAL_TOL(1, norm(r) / distance, violation);
            const Vec3 rate = v[p1] - v[p2];
            const double along = r.dot(rate) / distance;
            const double left = lag * h * (rate.dot(rate) - along * along) / distance;
            ASSERT_EQUAL_TOL(left, along, normalVelocity + 10 * storeRounding(platform));
        }
        const vector<Vec3> x = getPropagatedPositions(run.context);
        for (int i = 0; i < firstOfSolute; i++)
            ASSERT_EQUAL_VEC(q[i], x[i], storeRounding(platform)); // only stiff terms hide something
        ASSERT((x == q) == (dynamic_cast<ZhangSkeelIntegrator*>(run.integrator.get()) == nullptr));
        if (!subject.hasHeatBath)
            ASSERT_EQUAL_TOL(0, totalEnergy(run.context) - energy, 0.3);
    });
}

/** Massless particles stay, whatever their velocity; virtual sites follow their molecules. */
CLAIM(testMasslessParticlesAndVirtualSites, Platform& platform) {
    Model model = makeWaterWithSiteAndAnchor();
    vibrate(model);
    const int site = 3, anchor = 4;
    forEachSubject([&](const Subject& subject) {
        Run run(subject, model.system, platform, 0.002);
        run.context.setPositions(model.positions);
        run.context.computeVirtualSites();
        vector<Vec3> velocities = makeVelocities(model.system, 300, 15);
        velocities[anchor] = Vec3(1, 2, 3);
        run.context.setVelocities(velocities);
        run.step(100);
        for (const vector<Vec3>& q : {getPositions(run.context), getPropagatedPositions(run.context)}) {
            ASSERT_EQUAL_VEC(model.positions[anchor], q[anchor], storeRounding(platform));
            ASSERT_EQUAL_VEC(q[0] * 0.7 + q[1] * 0.15 + q[2] * 0.15, q[site], siteRounding(platform));
        }
    });
}

/** Stiff bonds across the faces of a triclinic box are the same as inside it. */
CLAIM(testPeriodicTermsInTriclinicBox, Platform& platform) {
    Model model = makeCluster(1), wrapped = makeCluster(1);
    const Vec3 a(1, 0, 0), b(0.3, 1.1, 0), c(-0.2, 0.4, 1.2);
    for (Model* m : {&model, &wrapped}) {
        m->system.setDefaultPeriodicBoxVectors(a, b, c);
        dynamic_cast<HarmonicBondForce&>(m->system.getForce(0)).setUsesPeriodicBoundaryConditions(true);
        dynamic_cast<HarmonicAngleForce&>(m->system.getForce(1)).setUsesPeriodicBoundaryConditions(true);
        m->system.removeForce(2);
    }
    wrapped.positions[1] += c - b;
    wrapped.positions[2] += a;
    // At 3 fs some of the methods are not stable: what a device's rounding begins would grow.
    const double stepSize = byRounding(platform, 0.003, 0.001, 0.001);
    forEachSubject([&](const Subject& subject) {
        if (subject.name == withOwnConstraints)
            return; // constraints do not follow the minimum image convention, in OpenMM neither
        vector<vector<Vec3>> velocities;
        for (const Model* m : {&model, &wrapped}) {
            Run run(subject, m->system, platform, stepSize);
            run.start(m->positions, 16);
            run.step(20);
            velocities.push_back(getVelocities(run.context));
        }
        ASSERT(largestDifference(velocities[0], velocities[1]) < byRounding(platform, 1e-9, 1e-8, 1e-2));
    });
}

/**
 * Drawn by the integrator itself, velocities in a CompoundIntegrator are those that its own Context would get. Another
 * integrator moves the positions: they are adopted as they are, and so are velocities, unless they are too hot for an
 * inertia and there is no heat bath.
 */
CLAIM(testCompoundIntegrator, Platform& platform) {
    const Model model = makeCluster(2);
    forEachSubject([&](const Subject& subject) {
        CompoundIntegrator compound;
        compound.addIntegrator(new VerletIntegrator(0.0005));
        auto* own = subject.make(0.002).release();
        compound.addIntegrator(own);
        ModelContext context(model, compound, platform, deterministic(platform));
        own->setVelocitiesToTemperature(300, 18);
        Run alone(subject, model.system, platform, 0.002);
        alone.start(model.positions, 18);
        ASSERT(largestDifference(getVelocities(alone.context), getVelocities(context)) < 1e-12);
        assertThrows([&] { own->setVelocitiesToTemperature(-1); }, {"Temperature", "-1 K"});
        if (subject.hasHeatBath)
            return;
        compound.setCurrentIntegrator(1);
        compound.step(5);
        compound.setCurrentIntegrator(0);
        context.setVelocitiesToTemperature(300, 18); // for the masses alone
        compound.step(5);
        const vector<Vec3> q = getPositions(context), v = getVelocities(context);
        if (auto* hiding = dynamic_cast<ZhangSkeelIntegrator*>(own))
            ASSERT(hiding->getPropagatedPositions() == q);
        alone.context.setTime(context.getTime());
        alone.context.setPositions(q);
        alone.context.setVelocities(v);
        compound.setCurrentIntegrator(1);
        compound.step(3);
        alone.step(3);
        ASSERT(largestDifference(getPositions(alone.context), getPositions(context)) == 0);
    });
}

/**
 * A checkpoint that was written by another class, or is cut or damaged, is refused with an error that says so, and what
 * the Context has now. A run then goes on as if that had been set, and rightly after a good checkpoint.
 */
CLAIM(testCheckpointsOfOthersAreRefused, Platform& platform) {
    const Model model = makeCluster(2);
    vector<std::pair<std::string, std::string>> checkpoints; // by class
    const vector<Subject> subjects = makeSubjects();
    for (const Subject& subject : subjects) {
        Run run(subject, model.system, platform, 0.001);
        run.start(model.positions, 22);
        run.step(3);
        checkpoints.push_back({subject.className, run.save()});
    }
    LangevinMiddleIntegrator middle(300, 1, 0.001);
    ModelContext native(model, middle, platform);
    std::stringstream stream;
    native.createCheckpoint(stream);
    checkpoints.push_back({"LangevinMiddleIntegrator", stream.str()});
    for (size_t s = 0; s < subjects.size(); s++) {
        const Subject& subject = subjects[s];
        auto makeRun = [&] {
            auto run = std::make_unique<Run>(subject, model.system, platform, 0.001);
            run->start(model.positions, 23);
            run->step(4);
            return run;
        };
        std::unique_ptr<Run> run = makeRun(), same = makeRun();
        auto refuse = [&](const std::string& checkpoint, vector<std::string> words) {
            const std::string message = catchMessage([&] { run->load(checkpoint); });
            if (isDevice(platform) && message.find("Error creating array") == 0) {
                // OpenMM has taken a part of another integrator for the size of its random numbers, and failed before
                // ours was asked. It then has no random numbers any more.
                run = makeRun();
                return;
            }
            words.insert(words.end(), {subject.className + ":", "OpenMM has loaded its part", "load the right"});
            assertHasWords(message, words);
        };
        for (const auto& [className, checkpoint] : checkpoints)
            if (className != subject.className)
                refuse(checkpoint, {"checkpoint", "written with"});
        const std::string& good = checkpoints[s].second;
        for (int missing : {1, 9, 20, 40})
            refuse(good.substr(0, good.size() - missing), {"ends too early"});
        const size_t tag = good.find("OpenMM-Stiff/");
        ASSERT(tag != std::string::npos);
        for (size_t place = tag; place < good.size(); place += (place < tag + 60 ? 1 : 97)) {
            std::string damaged = good;
            damaged[place] ^= 0x10;
            refuse(damaged, {"checkpoint"});
        }
        same->context.setPositions(getPositions(run->context));
        same->context.setVelocities(getVelocities(run->context));
        same->context.setTime(run->context.getTime());
        run->step(3);
        same->step(3);
        // Of OpenMM's random numbers there is one generator, whose state was in its part.
        ASSERT(subject.hasHeatBath || difference(*run, *same) <= 1e3 * copyRounding(platform));
        for (Run* each : {run.get(), same.get()}) {
            each->load(good);
            each->step(3);
        }
        ASSERT(difference(*run, *same) <= 1e3 * copyRounding(platform));
    }
}

/** What is no step size, and a step of none, is refused, and so are starts that are no numbers. */
CLAIM(testStepSizes, Platform& platform) {
    const Model model = makeCluster(1);
    forEachSubject([&](const Subject& subject) {
        for (double bad : {-0.001, std::nan(""), double(INFINITY)}) {
            assertThrows([&] { subject.make(bad); }, {"Step size", "non-negative"});
            const auto integrator = subject.make(0.001);
            assertThrows([&] { integrator->setStepSize(bad); }, {"Step size", "ps"});
            assertThrows([&] { integrator->setConstraintTolerance(bad); }, {"Constraint tolerance", "positive"});
            ASSERT_EQUAL(0.001, integrator->getStepSize());
        }
        Run run(subject, model.system, platform, 0.001);
        run.start(model.positions, 24);
        run.integrator->setStepSize(0);
        assertThrows([&] { run.step(1); }, {subject.className + ":", "step size must be positive", "setStepSize()"});
        run.integrator->setStepSize(0.001);
        const vector<Vec3> good = getVelocities(run.context);
        for (double bad : {std::nan(""), double(INFINITY)}) {
            vector<Vec3> v = good, x = model.positions;
            v[2] = x[1] = Vec3(0, bad, 0);
            run.context.setVelocities(v);
            assertThrows([&] { run.step(1); }, {subject.className + ": the velocity of particle 2",
                                                "is not finite already before the step", "setVelocities"});
            run.context.setVelocities(good);
            if (isDevice(platform) && subject.className.find("MassPenalty") == 0)
                break; // only that is known there
            run.context.setPositions(x);
            // The frequency that micro-steps are chosen by is not finite before.
            assertThrows([&] { run.step(1); },
                         subject.className.find("Impulse") == 0
                                 ? vector<std::string>{subject.className + ":", "position", "finite"}
                                 : vector<std::string>{subject.className + ": the position of particle 1",
                                                       "is not finite already before the step", "setPositions"});
            run.context.setPositions(model.positions);
        }
        run.step(1);
        ASSERT_EQUAL(1, run.context.getStepCount());
    });
}

/** Each platform got the kernels that are for it, although CpuPlatform is a ReferencePlatform too. */
CLAIM(testKernelsAreThoseForThePlatform, Platform& platform) {
    const Model model = makeCluster(1);
    const std::string description = StiffIntegrator::describeKernels(platform.getName());
    auto begins = [&](const char* words) { return description.find(words) == 0; };
    const bool serial = (description == "one thread, one molecule at a time"), device = begins("on the device"),
               generic = begins("through the host's memory"), threads = !(serial || device || generic);
    // Reference has the kernels for any platform if the test was called with "generic".
    const std::string& name = platform.getName();
    ASSERT(isDevice(platform) ? device : name == (serial || generic ? "Reference" : threads ? "CPU" : ""));
    forEachSubject([&](const Subject& subject) {
        Run run(subject, model.system, platform, 0.001);
        ASSERT(Probe::findKernelLibrary(*run.integrator).find("libOpenMMStiffHost") != std::string::npos);
    });
}

/** All platforms compute the same, dense and sparse; Langevin forms without friction. */
CLAIM(testPlatformsAgree, Platform& platform) {
    Model model = makeCluster(2);
    // A chain long enough for the sparse solver.
    addFlexibleChain(model, 30);
    forEachSubject([&](const Subject& subject) {
        Run here(subject, model.system, platform, 0.001);
        Run there(subject, model.system, Platform::getPlatformByName("Reference"), 0.001);
        for (Run* run : {&here, &there}) {
            if (subject.hasHeatBath)
                run->heatBath()->setFriction(0);
            run->start(model.positions, 19);
            run->step(20);
        }
        const double found = largestDifference(getPositions(here.context), getPositions(there.context));
        std::cout << subject.name << ": positions differ by " << found << " nm from those of Reference after 20 steps"
                  << std::endl;
        // The CPU platform's nonbonded forces are in single precision, and so may be each position.
        ASSERT(found < byRounding(platform, 1e-6, 1e-6, 1e-6, 1e-5));
    });
}

} // namespace

CHECK_CLAIMS_ON_PLATFORM
