/**
 * Terms of any bonded Force: their gradient against OpenMM's own forces, their Hessian by the chain rule against
 * automatic differentiation and against differences of OpenMM's forces, their third derivatives against differences of
 * the Hessian.
 */

#include "SystemTest.h"
#include "RandomGeometry.h"
#include "Vectors.h"
#include "setup/Blocks.h"
#include "setup/CollectTerms.h"
#include "stiffcore/methods/ImplicitSolve.h"

using namespace stiffcore;

const int allGroups = -1;

StiffTerms collectAll(const System& system) {
    return collectTerms(system, TermScope::Everything, 0, allGroups, "SomeIntegrator");
}

/**
 * The terms of a System, evaluated at random positions in one block, and the same System in a Context. Of the lanes of
 * Real the last one is looked at; the others hold blocks at other positions.
 */
template <class Real> class Fixture {
public:
    Fixture(Force* force, int numParticles, const std::map<string, double>& globals = {}) : integrator(0.001) {
        for (int i = 0; i < numParticles; i++)
            system.addParticle(1 + i);
        system.addForce(force);
        const bool periodic = force->usesPeriodicBoundaryConditions();
        if (periodic)
            system.setDefaultPeriodicBoxVectors(Vec3(1.1, 0, 0), Vec3(0.2, 1.2, 0), Vec3(-0.1, 0.3, 1.3));
        context = std::make_unique<Context>(system, integrator, Platform::getPlatformByName("Reference"));
        for (const auto& [name, value] : globals)
            context->setParameter(name, value);
        makeBatch(numParticles);
        Vec3 box[3];
        system.getDefaultPeriodicBoxVectors(box[0], box[1], box[2]);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                this->box.vectors[i][j] = box[i][j];
        // Far from each other, in no order, and with no three in a line.
        Random random(7);
        for (int i = 0; i < numParticles; i++)
            x.push_back(Vec3(0.15 * i, 0.1 * (i % 3), 0.12 * (i % 2)) +
                        Vec3(random.uniform(-0.03, 0.03), random.uniform(-0.03, 0.03), random.uniform(-0.03, 0.03)));
        if (periodic)
            x[1] += box[0] - box[2];
    }

    VectorXd gradient(const VectorXd& at) {
        context->setPositions(toVec3s(at));
        return -toVector(context->getState(State::Forces).getForces());
    }

    MatrixXd hessian(const VectorXd& at) {
        MatrixXd result = MatrixXd::Zero(at.size(), at.size());
        const vector<double> all = copies(at);
        gather(*batch, all.data(), work->x);
        visitHessian(*batch, 1, box, *work, [&](const auto& term, int i, int j, const Matrix3<Real>& h) {
            Matrix3<double> ofLane;
            for (int row = 0; row < 3; row++)
                for (int column = 0; column < 3; column++)
                    ofLane(row, column) = laneOf(h(row, column), lane);
            const int a = particleAt(term.atoms[i]), b = particleAt(term.atoms[j]);
            result.block<3, 3>(3 * a, 3 * b) += ofLane;
            if (a != b)
                result.block<3, 3>(3 * b, 3 * a) += ofLane.transpose();
        });
        return result;
    }

    /** The coefficients of the gradient along the line x + t a, from all function terms. */
    vector<VectorXd> lineGradient(const VectorXd& at, const VectorXd& a) {
        for (int i = 0; i < batch->numParticles(); i++)
            for (int j = 0; j < 3; j++)
                work->line[i][j] = Taylor(at[3 * particleAt(i) + j], a[3 * particleAt(i) + j]);
        vector<VectorXd> result(3, VectorXd::Zero(at.size()));
        for (size_t t = 0; t < batch->pattern->functions.size(); t++)
            addLineGradient(*batch, t, lane, box, *work, [&](int place, const Vector3<Taylor>& gradient) {
                for (int j = 0; j < 3; j++) {
                    result[0][3 * particleAt(place) + j] += gradient[j].c0;
                    result[1][3 * particleAt(place) + j] += gradient[j].c1;
                    result[2][3 * particleAt(place) + j] += gradient[j].c2;
                }
            });
        return result;
    }

    /** a . V''' . a, as the step takes it. */
    VectorXd contraction(const VectorXd& at, const VectorXd& a) {
        const vector<double> all = copies(at), directions = copies(a);
        vector<double> result(all.size());
        const MaskOf<Real> finite =
                contractThirdDerivatives(*batch, all.data(), directions.data(), box, *work, result.data());
        ASSERT(findFalse<Real>(finite, batch->count) < 0);
        return Eigen::Map<VectorXd>(result.data() + all.size() - at.size(), at.size());
    }

    System system;
    vector<Vec3> x;

private:
    static constexpr int lane = LaneTraits<Real>::count - 1;

    /** One batch with a copy of the only block of the System in each lane. */
    void makeBatch(int numParticles) {
        StiffTerms terms = collectAll(system);
        terms.needs.hessian = terms.needs.thirdDerivatives = true;
        const vector<Block> blocks = findBlocks(system, terms, "SomeIntegrator");
        ASSERT_EQUAL(1, (int) blocks.size());
        vector<Block> all(lane + 1, blocks[0]);
        vector<const Block*> pointers;
        vector<double> masses;
        for (int copy = 0; copy <= lane; copy++) {
            for (int& particle : all[copy].particles)
                particle += copy * numParticles;
            for (int i = 0; i < numParticles; i++)
                masses.push_back(system.getParticleMass(i));
            pointers.push_back(&all[copy]);
        }
        pattern = std::make_unique<StiffPattern>(blocks[0], terms);
        ASSERT(!pattern->isLarge());
        batches.emplace_back(*pattern, pointers, terms, masses);
        batch = &batches[0];
        work = std::make_unique<StiffWorkspace<Real>>(batches, terms);
        for (FunctionCopy& function : work->functions)
            function->setGlobals(context->getParameters());
    }
    int particleAt(int place) const {
        return batch->particles[0][place];
    }
    /** Coordinates of all copies: those of the last one as they are, others somewhat changed. */
    vector<double> copies(const VectorXd& values) const {
        vector<double> all;
        for (int copy = 0; copy <= lane; copy++)
            for (int i = 0; i < values.size(); i++)
                all.push_back(values[i] + 0.003 * (lane - copy) * std::cos(i));
        return all;
    }

    VerletIntegrator integrator;
    std::unique_ptr<Context> context;
    std::unique_ptr<StiffPattern> pattern;
    vector<StiffBatch<Real>> batches;
    const StiffBatch<Real>* batch;
    std::unique_ptr<StiffWorkspace<Real>> work;
    Box box;
};

/** Differences of fourth order of forces and Hessians are right to about 1e-9. */
template <class Real> void check(Fixture<Real>& fixture) {
    auto assertRelative = [](const MatrixXd& expected, const MatrixXd& found, double tolerance) {
        assertClose(expected, found, std::max(expected.norm(), 1e-3), tolerance);
    };
    const VectorXd x = toVector(fixture.x);
    VectorXd a(x.size());
    Random random(3);
    for (int i = 0; i < a.size(); i++)
        a[i] = random.uniform(-1, 1);
    const MatrixXd hessian = fixture.hessian(x);
    const double d = 1e-4;
    assertRelative(differentiate(x, d, [&](const VectorXd& at) { return fixture.gradient(at); }), hessian, 1e-8);
    const VectorXd third = slopeAtZero(d, [&](double t) { return VectorXd(fixture.hessian(x + t * a) * a); });
    assertRelative(third, fixture.contraction(x, a), 1e-7);
    const vector<VectorXd> line = fixture.lineGradient(x, a);
    if (line[0].norm() > 0) { // harmonic terms are no functions
        assertRelative(fixture.gradient(x), line[0], 1e-12);
        assertRelative(hessian * a, line[1], 1e-12);
        assertRelative(third, 2 * line[2], 1e-7);
    }
}

template <class Real> void check(Force* force, int numParticles, const std::map<string, double>& globals = {}) {
    Fixture<Real> fixture(force, numParticles, globals);
    check(fixture);
}

CLAIM_WITH_LANES(testHarmonicTerms) {
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 3e3);
    bonds->addBond(2, 1, 0.2, 2e3);
    check<Real>(bonds, 3);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(0, 2, 1, 1.2, 300);
    angles->addAngle(1, 3, 2, 2.2, 200);
    check<Real>(angles, 4);
}

CLAIM_WITH_LANES(testPeriodicTorsion) {
    auto* force = new PeriodicTorsionForce();
    force->addTorsion(0, 1, 2, 3, 3, 0.4, 5);
    force->addTorsion(1, 0, 3, 4, 2, -1.4, 7);
    force->addTorsion(2, 4, 1, 0, 1, 0, 3); // improper
    check<Real>(force, 5);
}

CLAIM_WITH_LANES(testRBTorsion) {
    auto* force = new RBTorsionForce();
    force->addTorsion(3, 1, 2, 0, 1, 2, 3, 4, 5, 6);
    check<Real>(force, 4);
}

CLAIM_WITH_LANES(testCustomBondWithGlobalAndPeriodicBox) {
    auto* force = new CustomBondForce("D*(1-exp(-a*(r-r0)))^2 + scale*c/r; c=2*D");
    force->addGlobalParameter("scale", 1);
    force->addPerBondParameter("D");
    force->addPerBondParameter("a");
    force->addPerBondParameter("r0");
    force->setUsesPeriodicBoundaryConditions(true);
    force->addBond(0, 1, {20, 5, 0.2});
    force->addBond(1, 2, {30, 7, 0.1});
    check<Real>(force, 3, {{"scale", 0.3}});
}

CLAIM_WITH_LANES(testCustomAngle) {
    auto* force = new CustomAngleForce("k*(cos(theta)-c)^4 + k*theta^3");
    force->addPerAngleParameter("k");
    force->addPerAngleParameter("c");
    force->addAngle(0, 1, 2, {40, -0.3});
    force->addAngle(1, 3, 2, {20, 0.3});
    check<Real>(force, 4);
}

CLAIM_WITH_LANES(testCustomTorsion) {
    auto* force = new CustomTorsionForce("k*sin(theta-t0)^3 + select(step(theta), theta^2, 1-cos(theta))");
    force->addPerTorsionParameter("k");
    force->addPerTorsionParameter("t0");
    force->addTorsion(0, 1, 2, 3, {5, 0.3});
    force->addTorsion(4, 2, 1, 0, {3, 1.3});
    check<Real>(force, 5);
}

CLAIM_WITH_LANES(testCustomExternal) {
    auto* force = new CustomExternalForce("k*(x^2*y-3*z*x+exp(y*z)) + w*z^4");
    force->addGlobalParameter("w", 2);
    force->addPerParticleParameter("k");
    force->addParticle(0, {3});
    check<Real>(force, 1, {{"w", 5}});
}

CLAIM_WITH_LANES(testCustomCompoundBond) {
    auto* force = new CustomCompoundBondForce(4, "k*distance(p1,p2)*(angle(p1,p2,p3)-1)^2*cos(dihedral(p1,p2,p3,p4))"
                                                 " + k*cos(dihedral(p3,p1,p2,p4)) + x1*y2^2*z4 + g*pointdistance(x1,y1,z1,x4,y4,z4)^3"
                                                 " + g*pointdistance(0,0.1,0.2,x3,y3,z3)");
    force->addGlobalParameter("g", 1);
    force->addPerBondParameter("k");
    force->addBond({0, 1, 2, 3}, {30});
    force->addBond({3, 0, 4, 1}, {20});
    check<Real>(force, 5, {{"g", 4}});
}

CLAIM_WITH_LANES(testNonbonded) {
    auto* force = new NonbondedForce();
    for (int i = 0; i < 5; i++)
        force->addParticle(0.3 * (i % 2) - 0.1 * i, 0.1 + 0.01 * i, i == 2 ? 0 : 0.3 + 0.1 * i);
    force->addException(0, 1, 0, 1, 0);
    force->addException(3, 1, 0.2, 0.13, 0.5);
    check<Real>(force, 5);
}

/** The derivatives of the function of a dihedral angle are finite at 0 and 180 degrees. */
CLAIM_WITH_LANES(testFlatTorsions) {
    auto* force = new PeriodicTorsionForce();
    force->addTorsion(0, 1, 2, 3, 2, 0.3, 5);
    Fixture<Real> fixture(force, 4);
    for (double side : {1.0, -1.0}) {
        fixture.x = {Vec3(0.1, 0, 0), Vec3(0, 0, 0), Vec3(0, 0.15, 0), Vec3(0.1 * side, 0.17, 0)};
        check(fixture);
    }
}

CLAIM(testPartsWithoutHessianAreNamed) {
    auto refuse = [](Force* force, const vector<string>& words) {
        System system;
        for (int i = 0; i < 4; i++)
            system.addParticle(1);
        system.addForce(force);
        assertThrows([&] { collectAll(system); }, words);
    };
    auto* cut = new NonbondedForce();
    cut->setNonbondedMethod(NonbondedForce::CutoffNonPeriodic);
    refuse(cut, {"SomeIntegrator", "'NonbondedForce' (index 0", "it has a cutoff", "StiffHessian"});
    auto* offset = new NonbondedForce();
    offset->addGlobalParameter("s", 1);
    offset->addParticle(0, 1, 0);
    offset->addParticleParameterOffset("s", 0, 1, 0, 0);
    refuse(offset, {"parameter offsets"});
    auto* wall = new CustomExternalForce("select(wall, 1/0, x)");
    wall->addGlobalParameter("wall", 0);
    wall->addParticle(0);
    refuse(wall, {"'CustomExternalForce' (index 0", "a part of its expression is infinite"});
    refuse(new CustomExternalForce("periodicdistance(x,y,z,0,0,0)^2"), {"'periodicdistance'"});
    refuse(new CustomCompoundBondForce(3, "pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3)"), {"'pointangle'"});
}

/** What no mobile particle feels, and coordinates of one particle with itself, have no terms. */
CLAIM(testIdleTermsAreLeftOut) {
    System system = makeParticles({0, 0, 1});
    auto* bonds = new CustomBondForce("r^4");
    bonds->addBond(0, 1);
    bonds->addBond(2, 2);
    bonds->addBond(1, 2);
    system.addForce(bonds);
    const StiffTerms terms = collectAll(system);
    ASSERT_EQUAL(1, (int) terms.functionTerms.size());
    ASSERT_EQUAL(1, (int) terms.coordinates.size());
    ASSERT_EQUAL(2, terms.functionTerms[0].index);
}

/** The term of an exception is told by the index of that, also where those before it have none. */
CLAIM(testTermsOfExceptionsHaveTheirIndices) {
    System system = makeParticles({1, 1, 1});
    auto* nonbonded = new NonbondedForce();
    for (int i = 0; i < 3; i++)
        nonbonded->addParticle(0, 1, 0);
    nonbonded->addException(0, 1, 0, 1, 0);
    nonbonded->addException(1, 2, 0.1, 1, 0);
    system.addForce(nonbonded);
    const StiffTerms terms = collectAll(system);
    ASSERT_EQUAL(1, (int) terms.functionTerms.size());
    ASSERT_EQUAL(1, terms.functionTerms[0].index);
}

/** Between constrained particles a function of their distance has nothing to do; one of where they are has. */
CLAIM(testOnlyInternalTermsOfConstrainedParticlesAreIdle) {
    System system;
    system.addParticle(1);
    system.addParticle(1);
    system.addConstraint(0, 1, 0.1);
    auto* stretch = new CustomCompoundBondForce(2, "distance(p1,p2)^4");
    stretch->addBond({0, 1});
    auto* place = new CustomCompoundBondForce(2, "x1*y2");
    place->addBond({0, 1});
    system.addForce(stretch);
    system.addForce(place);
    const StiffTerms terms = collectAll(system);
    ASSERT_EQUAL(1, (int) terms.functionTerms.size());
    ASSERT_EQUAL(1, terms.functionTerms[0].force);
}

int main() {
    Platform::loadPluginsFromDirectory(OPENMM_PLUGIN_DIR);
    return checkClaims();
}
