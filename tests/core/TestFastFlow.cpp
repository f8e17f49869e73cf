/**
 * The motion of molecules under their stiff terms alone, by micro-steps.
 */

#include "Claims.h"
#include "CountAllocations.h"
#include "ModelSystem.h"
#include "stiffcore/blocks/FastFlow.h"
#include "stiffcore/blocks/TangentSpace.h"

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

/** A ModelSystem, the BlockSystem of it, positions and velocities. */
struct Fixture {
    ModelSystem model;
    vector<Block> blocks;
    BlockSystem<double> system;
    Workspace<double> work;
    vector<double> x, v;

    Fixture(const ModelSystem& original, double speed)
            : model(original), blocks(model.getBlocks()), system(blocks, model.getStiffTerms(), model.masses),
              work(system.createWorkspace()), x(model.getPositions()), v(model.randomArray(speed)) {
    }
    void flow(double t, int numMicroSteps) {
        for (int block = 0; block < system.getNumBlocks(); block++)
            ASSERT(flowFast(system[block], t, numMicroSteps, model.box, work, x.data(), v.data()));
    }
    /** The kinetic energy and the potential energy of the stiff terms. */
    double energy() const {
        ModelSystem moved = model;
        moved.setPositions(x);
        double sum = 0;
        for (const Block& block : blocks) {
            const VectorXd velocities = ModelSystem::gather(block, v), deviations = moved.deviations(block);
            sum += 0.5 * velocities.dot(model.massDiagonal(block).cwiseProduct(velocities));
            for (size_t p = 0; p < block.terms.size(); p++)
                sum += 0.5 * model.terms[block.terms[p]].k * deviations[p] * deviations[p];
        }
        return sum;
    }
};

double largestDifference(const vector<double>& a, const vector<double>& b) {
    double largest = 0;
    for (size_t i = 0; i < a.size(); i++)
        largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

void testStiffForcesAreMinusTheGradient() {
    for (int seed = 1; seed <= 4; seed++) {
        ModelSystem model(seed);
        if (seed % 2 == 0) {
            model.box = model.random.box();
            model.periodic = true;
        }
        model.addMixture();
        model.renumber();
        Fixture fixture(model, 1);
        const vector<double> F = model.randomArray(1000);
        for (size_t i = 0; i < fixture.blocks.size(); i++) {
            const Block& block = fixture.blocks[i];
            const VectorXd gradient = model.gradient(block), masses = model.massDiagonal(block);
            // What is left of given forces without the stiff ones.
            computeSlowAccelerations(fixture.system[i], fixture.x.data(), F.data(), model.box, fixture.work);
            const VectorXd expected = (ModelSystem::gather(block, F) + gradient).cwiseQuotient(masses);
            for (int atom = 0; atom < block.numMobile; atom++) {
                const double size = gradient.norm() + expected.norm();
                ASSERT((fixture.work.forces[atom] + gradient.segment<3>(3 * atom)).norm() <= 1e-10 * size);
                ASSERT((fixture.work.velocities[atom] - expected.segment<3>(3 * atom)).norm() <= 1e-10 * size);
            }
        }
    }
}

/** Verlet's solution for a harmonic bond along a line is known: a cosine of which each step advances the phase. */
void testDiatomicFollowsVerletsSolution() {
    ModelSystem model(5);
    model.beginMolecule();
    const double m1 = 12, m2 = 1, k = 3e5, amplitude = 0.004, length = 0.11, d = 0.0005;
    model.addAtom(m1, Eigen::Vector3d(0.3, 0, 0));
    model.addAtom(m2, Eigen::Vector3d(0.3 + length + amplitude, 0, 0));
    model.addBond(0, 1, k);
    model.terms[0].s0 = length;
    Fixture fixture(model, 0);
    const double omega2 = k * (1 / m1 + 1 / m2), phase = std::acos(1 - 0.5 * omega2 * d * d);
    int steps = 0;
    for (int number : {1, 2, 7, 50}) {
        fixture.flow(number * d, number);
        steps += number;
        const double stretch = fixture.x[3] - fixture.x[0] - length;
        ASSERT_EQUAL_TOL(amplitude, amplitude + stretch - amplitude * std::cos(steps * phase), 1e-12);
        // The velocity of velocity Verlet, (x_{n+1} - x_{n-1}) / 2d.
        const double rate = -amplitude * std::sin(phase) / d * std::sin(steps * phase);
        ASSERT(std::abs(fixture.v[3] - fixture.v[0] - rate) < 1e-9);
    }
}

void testFlowIsReversible() {
    ModelSystem model(6);
    model.addMixture();
    Fixture fixture(model, 1);
    const vector<double> start = fixture.x;
    fixture.flow(0.003, 10);
    ASSERT(largestDifference(fixture.x, start) > 1e-4);
    for (double& component : fixture.v)
        component = -component;
    fixture.flow(0.003, 10);
    ASSERT(largestDifference(fixture.x, start) < 1e-12);
}

void testHalvesMakeAWhole() {
    ModelSystem model(7);
    model.addMixture();
    Fixture whole(model, 1), halves(model, 1);
    whole.flow(0.002, 10);
    halves.flow(0.001, 5);
    halves.flow(0.001, 5);
    ASSERT(largestDifference(whole.x, halves.x) < 1e-13);
    ASSERT(largestDifference(whole.v, halves.v) < 1e-9);
}

void testEnergyErrorIsOfSecondOrderInTheMicroStep() {
    ModelSystem model(8);
    model.addWater();
    model.addChain(12);
    const double energy = Fixture(model, 1).energy();
    vector<double> errors;
    for (int number : {20, 40, 80}) {
        Fixture fixture(model, 1);
        fixture.flow(0.005, number);
        errors.push_back(std::abs(fixture.energy() - energy));
    }
    for (int i : {0, 1}) {
        const double order = std::log2(errors[i] / errors[i + 1]);
        ASSERT(order > 1.8 && order < 2.2);
    }
}

/** Total and angular momentum are kept to rounding: forces within a molecule add up to none. */
void testMomentaAreKept() {
    ModelSystem model(9);
    model.addWater();
    model.addTree(20);
    Fixture fixture(model, 1);
    auto momenta = [&] {
        Eigen::Matrix<double, 6, 1> sum = Eigen::Matrix<double, 6, 1>::Zero();
        for (size_t i = 0; i < model.masses.size(); i++) {
            const Eigen::Vector3d p = model.masses[i] * Eigen::Map<Eigen::Vector3d>(&fixture.v[3 * i]);
            sum.head<3>() += p;
            sum.tail<3>() += Eigen::Map<Eigen::Vector3d>(&fixture.x[3 * i]).cross(p);
        }
        return sum;
    };
    const auto before = momenta();
    fixture.flow(0.05, 200);
    ASSERT((momenta() - before).norm() < 1e-10 * before.norm());
}

/** At the minimum the bound is never below the frequency of the stiffest mode, and close to it. */
void testFrequencyIsBounded() {
    for (int seed = 10; seed < 14; seed++) {
        ModelSystem model(seed);
        model.stretch = model.bend = 0;
        model.addMixture();
        for (StiffTerm& term : model.terms)
            if (term.coordinate == StiffTerm::Coordinate::Angle && term.s0 >= 3)
                term.k = 0; // those that are not at their minimum
        model.renumber();
        Fixture fixture(model, 0);
        for (size_t i = 0; i < fixture.blocks.size(); i++) {
            const VectorXd roots = model.massDiagonal(fixture.blocks[i]).cwiseSqrt().cwiseInverse();
            const MatrixXd scaled = roots.asDiagonal() * model.hessian(fixture.blocks[i]) * roots.asDiagonal();
            const double frequency = std::sqrt(
                    Eigen::SelfAdjointEigenSolver<MatrixXd>(scaled, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff());
            const double bound = boundFrequency(fixture.system[i], fixture.x.data(), model.box, fixture.work);
            ASSERT(bound > frequency * (1 - 1e-9));
            ASSERT(bound < frequency * 1.2);
        }
    }
}

void testFrequencyOfWaterIsTightlyBounded() {
    ModelSystem model(14);
    model.stretch = model.bend = 0;
    model.addWater();
    Fixture fixture(model, 0);
    const VectorXd roots = model.massDiagonal(fixture.blocks[0]).cwiseSqrt().cwiseInverse();
    const MatrixXd scaled = roots.asDiagonal() * model.hessian(fixture.blocks[0]) * roots.asDiagonal();
    const double square = Eigen::SelfAdjointEigenSolver<MatrixXd>(scaled).eigenvalues().maxCoeff();
    const double bound = boundFrequency(fixture.system[0], fixture.x.data(), model.box, fixture.work);
    ASSERT(bound < 1.03 * std::sqrt(square));
}

/** A block that is torn apart is reported, and its particles are left where they were. */
void testWhatIsNotFiniteIsNotWritten() {
    ModelSystem model(15);
    model.addWater();
    model.addWater();
    Fixture fixture(model, 1);
    fixture.v[0] = std::nan("");
    const vector<double> x = fixture.x;
    ASSERT(!flowFast(fixture.system[0], 0.001, 2, model.box, fixture.work, fixture.x.data(), fixture.v.data()));
    ASSERT(x == fixture.x);
    ASSERT(flowFast(fixture.system[1], 0.001, 2, model.box, fixture.work, fixture.x.data(), fixture.v.data()));
}

void testNoMemoryIsAllocated() {
    if (!canCountAllocations)
        return;
    ModelSystem model(16);
    model.addMixture();
    Fixture fixture(model, 1);
    ASSERT(isCountRight());
    ASSERT_EQUAL(0, countAllocations([&] {
                     fixture.flow(0.001, 4);
                     for (int block = 0; block < fixture.system.getNumBlocks(); block++)
                         boundFrequency(fixture.system[block], fixture.x.data(), model.box, fixture.work);
                 }));
}

int main() {
    return checkClaims({
            CLAIM(testStiffForcesAreMinusTheGradient),
            CLAIM(testDiatomicFollowsVerletsSolution),
            CLAIM(testFlowIsReversible),
            CLAIM(testHalvesMakeAWhole),
            CLAIM(testEnergyErrorIsOfSecondOrderInTheMicroStep),
            CLAIM(testMomentaAreKept),
            CLAIM(testFrequencyIsBounded),
            CLAIM(testFrequencyOfWaterIsTightlyBounded),
            CLAIM(testWhatIsNotFiniteIsNotWritten),
            CLAIM(testNoMemoryIsAllocated),
    });
}
