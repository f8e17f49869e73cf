/**
 * Which terms of a System are stiff, and which particles they connect.
 */

#include "Claims.h"
#include "openmm/AndersenThermostat.h"
#include "openmm/CMMotionRemover.h"
#include "openmm/CustomBondForce.h"
#include "openmm/HarmonicAngleForce.h"
#include "openmm/HarmonicBondForce.h"
#include "openmm/MonteCarloAnisotropicBarostat.h"
#include "openmm/MonteCarloBarostat.h"
#include "openmm/MonteCarloFlexibleBarostat.h"
#include "openmm/MonteCarloMembraneBarostat.h"
#include "openmm/NonbondedForce.h"
#include "openmm/OpenMMException.h"
#include "openmm/PeriodicTorsionForce.h"
#include "openmm/System.h"
#include "openmm/VirtualSite.h"
#include "setup/Blocks.h"
#include "setup/StiffMotion.h"
#include "setup/StiffTerms.h"
#include <algorithm>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using std::string;
using std::vector;

const string className = "SomeIntegrator";
const int allGroups = -1;

/** The terms by kind, unless groups are given. */
vector<StiffTerm> collect(const System& system, int stiffGroups = 0, int integrationGroups = allGroups) {
    return collectStiffTerms(system, TermScope::Harmonic, stiffGroups, integrationGroups, className).coordinates;
}

vector<Block> find(const System& system) {
    return findBlocks(system, {collect(system), {}, {}}, className);
}

/** Assert that an action is refused with a message that names the class. */
template <class Function> void assertRefused(vector<string> parts, Function&& function) {
    parts.push_back(className + ": ");
    assertThrows(function, parts);
}

void addParticles(System& system, const vector<double>& masses) {
    for (double mass : masses)
        system.addParticle(mass);
}

/** Add a water, oxygen first; the terms have parameters of their own, by which tests know them. */
void addWater(System& system, HarmonicBondForce& bonds, HarmonicAngleForce& angles, double id) {
    const int o = system.getNumParticles();
    addParticles(system, {15.999, 1.008, 1.008});
    bonds.addBond(o, o + 1, 0.1, 1000 + id);
    bonds.addBond(o, o + 2, 0.1, 2000 + id);
    angles.addAngle(o + 1, o, o + 2, 1.8, 3000 + id);
}

void constrainWater(System& system, int oxygen) {
    system.addConstraint(oxygen, oxygen + 1, 0.1);
    system.addConstraint(oxygen, oxygen + 2, 0.1);
    system.addConstraint(oxygen + 1, oxygen + 2, 0.16);
}

void assertBlock(const Block& block, const vector<int>& particles, int numMobile, const vector<int>& terms) {
    ASSERT_EQUAL_CONTAINERS(particles, block.particles);
    ASSERT_EQUAL(numMobile, block.numMobile);
    ASSERT_EQUAL_CONTAINERS(terms, block.terms);
}

// ---- Collecting terms ----

void testTermsAreReadAsTheForcesHoldThem() {
    System system;
    addParticles(system, {1, 2, 3, 4});
    auto* torsions = new PeriodicTorsionForce();
    torsions->addTorsion(0, 1, 2, 3, 1, 0, 10);
    system.addForce(torsions);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(3, 1, 0, 1.7, 400);
    angles->setUsesPeriodicBoundaryConditions(true);
    system.addForce(angles);
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1000);
    bonds->addBond(3, 2, 0.2, 2000);
    system.addForce(bonds);
    const vector<StiffTerm> terms = collect(system);
    ASSERT_EQUAL(3, (int) terms.size());

    ASSERT(terms[0].coordinate == StiffTerm::Coordinate::Angle);
    ASSERT_EQUAL(3, terms[0].getNumParticles());
    ASSERT(terms[0].particles[0] == 3 && terms[0].particles[1] == 1 && terms[0].particles[2] == 0);
    ASSERT(terms[0].k == 400 && terms[0].s0 == 1.7 && terms[0].periodic);
    ASSERT(terms[0].force == 1 && terms[0].index == 0);

    ASSERT(terms[2].coordinate == StiffTerm::Coordinate::Distance);
    ASSERT_EQUAL(2, terms[2].getNumParticles());
    ASSERT(terms[2].particles[0] == 3 && terms[2].particles[1] == 2);
    ASSERT(terms[2].k == 2000 && terms[2].s0 == 0.2 && !terms[2].periodic);
    ASSERT(terms[2].force == 2 && terms[2].index == 1);
}

void testTermsByKindMayBeInAnyGroup() {
    System system;
    auto *bonds = new HarmonicBondForce(), *moreBonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    moreBonds->addBond(1, 2, 0.16, 4001);
    bonds->setForceGroup(3);
    moreBonds->setForceGroup(31);
    system.addForce(bonds);
    system.addForce(angles);
    system.addForce(moreBonds);
    system.addForce(new NonbondedForce());
    system.addForce(new CMMotionRemover());
    const vector<StiffTerm> terms = collect(system);
    ASSERT_EQUAL(4, (int) terms.size());
    ASSERT_EQUAL(1001, terms[0].k);
    ASSERT_EQUAL(2001, terms[1].k);
    ASSERT_EQUAL(3001, terms[2].k);
    ASSERT_EQUAL(4001, terms[3].k);
}

void testGroupsChooseTheForces() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    bonds->setForceGroup(3);
    angles->setForceGroup(31);
    system.addForce(bonds);
    system.addForce(angles);
    system.addForce(new NonbondedForce());
    ASSERT_EQUAL(2, (int) collect(system, 1 << 3).size());
    ASSERT_EQUAL(1, (int) collect(system, 1 << 31).size());
    ASSERT_EQUAL(3, (int) collect(system, 1 << 3 | 1 << 31).size());
    // Other groups may be named, too; they need not have a force.
    ASSERT_EQUAL(2, (int) collect(system, 1 << 3 | 1 << 4).size());
}

void testForcesThatAreNotIntegratedAreLeftOut() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    bonds->setForceGroup(1);
    angles->setForceGroup(2);
    system.addForce(bonds);
    system.addForce(angles);
    auto* nonbonded = new NonbondedForce();
    nonbonded->setForceGroup(3);
    system.addForce(nonbonded);
    ASSERT_EQUAL(2, (int) collect(system, 0, 1 << 1).size());
    ASSERT_EQUAL(1, (int) collect(system, 0, 1 << 2).size());
    ASSERT_EQUAL(0, (int) collect(system, 0, 1 << 3).size());
    ASSERT_EQUAL(1, (int) collect(system, 1 << 1 | 1 << 2, 1 << 2).size());
    // Without a Hessian, but without a force either.
    ASSERT_EQUAL(2, (int) collect(system, 1 << 1 | 1 << 3, 1 << 1 | 1 << 2).size());
}

void testSystemWithoutStiffForcesHasNoTerms() {
    System system;
    addParticles(system, {1, 1});
    system.addForce(new NonbondedForce());
    ASSERT(collect(system).empty());
    ASSERT(find(system).empty());
}

void testForceWithoutHessianIsRefused() {
    System system;
    addParticles(system, {1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1000);
    bonds->setForceGroup(5);
    system.addForce(bonds);
    auto* nonbonded = new NonbondedForce();
    nonbonded->setName("MyForce");
    nonbonded->setForceGroup(5);
    system.addForce(nonbonded);
    assertRefused({"'MyForce'", "index 1", "force group 5", "neither", "HarmonicBondForce", "HarmonicAngleForce",
                   "setForceGroup()", "setStiffForceGroups()"},
                  [&] { collect(system, 1 << 5); });
    ASSERT_EQUAL(1, (int) collect(system).size());
}

void testGroupsWithoutForceAreRefused() {
    System system;
    addParticles(system, {1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1000);
    bonds->setForceGroup(2);
    system.addForce(bonds);
    assertRefused({"no force", "mask 8", "setForceGroup", "setStiffForceGroups(0)"}, [&] { collect(system, 1 << 3); });
    assertRefused({"no force", "mask 4", "mask 2"}, [&] { collect(system, 1 << 2, 1 << 1); });
}

void testForcesWithoutPotentialAreToleratedInStiffGroups() {
    System system;
    addParticles(system, {1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1000);
    system.addForce(bonds);
    system.addForce(new CMMotionRemover());
    system.addForce(new AndersenThermostat(300, 1));
    system.addForce(new MonteCarloBarostat(1, 300));
    system.addForce(new MonteCarloAnisotropicBarostat(Vec3(1, 1, 1), 300));
    system.addForce(new MonteCarloFlexibleBarostat(1, 300));
    system.addForce(new MonteCarloMembraneBarostat(1, 0, 300, MonteCarloMembraneBarostat::XYIsotropic,
                                                   MonteCarloMembraneBarostat::ZFree));
    ASSERT_EQUAL(1, (int) collect(system, 1 << 0).size());
    // But they do not make a group stiff.
    bonds->setForceGroup(1);
    assertRefused({"no force"}, [&] { collect(system, 1 << 0); });
}

void testTermsHeldByConstraintsAreLeftOut() {
    // What createSystem(flexibleConstraints=True, rigidWater=True) makes, with a flexible water beside it.
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    addWater(system, *bonds, *angles, 2);
    constrainWater(system, 0);
    system.addForce(bonds);
    system.addForce(angles);
    const vector<StiffTerm> terms = collect(system);
    ASSERT_EQUAL(3, (int) terms.size());
    ASSERT_EQUAL(1002, terms[0].k);
    ASSERT_EQUAL(2002, terms[1].k);
    ASSERT_EQUAL(3002, terms[2].k);
    ASSERT_EQUAL(2, terms[0].index);
    const vector<Block> blocks = find(system);
    ASSERT_EQUAL(1, (int) blocks.size());
    assertBlock(blocks[0], {3, 4, 5}, 3, {0, 1, 2});
}

void testConstraintsCountInEitherOrderOfTheirParticles() {
    System system;
    addParticles(system, {1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1000);
    system.addForce(bonds);
    system.addConstraint(1, 0, 0.1);
    ASSERT(collect(system).empty());
}

void testAngleWithOneFreeSideIsKept() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    system.addConstraint(0, 1, 0.1);
    system.addConstraint(0, 2, 0.1);
    system.addForce(bonds);
    system.addForce(angles);
    const vector<StiffTerm> terms = collect(system);
    ASSERT_EQUAL(1, (int) terms.size());
    ASSERT_EQUAL(3001, terms[0].k);
}

void testTermsWithAParticleTwiceAreLeftOut() {
    System system;
    addParticles(system, {1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 0, 0.1, 1000);
    bonds->addBond(0, 1, 0.1, 2000);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(0, 1, 0, 1, 3000);
    system.addForce(bonds);
    system.addForce(angles);
    const vector<StiffTerm> terms = collect(system);
    ASSERT_EQUAL(1, (int) terms.size());
    ASSERT_EQUAL(2000, terms[0].k);
}

void testStructureAndParametersAreTold() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    addWater(system, *bonds, *angles, 2);
    constrainWater(system, 0); // so that the terms have other indices than the bonds
    system.addForce(angles);
    system.addForce(bonds);
    const StiffTerms before = {collect(system), {}, {}};
    bonds->setBondParameters(3, 3, 5, 0.11, 5000);
    angles->setAngleParameters(1, 4, 3, 5, 1.9, 6000);
    StiffTerms terms = {collect(system), {}, {}};
    ASSERT(terms.hasSameStructure(before) && !terms.hasSameParameters(before));
    ASSERT_EQUAL(3, (int) terms.coordinates.size());
    ASSERT(terms.coordinates[0].k == 6000 && terms.coordinates[0].s0 == 1.9);
    ASSERT(terms.coordinates[1].k == 1002 && terms.coordinates[1].s0 == 0.1);
    ASSERT(terms.coordinates[2].k == 5000 && terms.coordinates[2].s0 == 0.11);
    angles->setAngleParameters(1, 5, 3, 4, 1.9, 6000);
    ASSERT(!before.hasSameStructure({collect(system), {}, {}}));
}

// ---- Finding blocks ----

void testConnectedGroupsAreBlocks() {
    // Two molecules with mixed numbers, the second a ring, and a free particle: 0-4-2 with the branch 4-6,
    // 1-3-5-1, 7.
    System system;
    addParticles(system, vector<double>(8, 1.0));
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(5, 1, 0.1, 1);
    bonds->addBond(4, 2, 0.1, 2);
    bonds->addBond(4, 6, 0.1, 3);
    bonds->addBond(3, 5, 0.1, 4);
    bonds->addBond(0, 4, 0.1, 5);
    bonds->addBond(1, 3, 0.1, 6);
    system.addForce(bonds);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(0, 4, 6, 2, 7);
    system.addForce(angles);
    const vector<Block> blocks = find(system);
    ASSERT_EQUAL(2, (int) blocks.size());
    assertBlock(blocks[0], {0, 2, 4, 6}, 4, {1, 2, 4, 6});
    assertBlock(blocks[1], {1, 3, 5}, 3, {0, 3, 5});
}

void testAnglesAloneConnectTheirParticles() {
    System system;
    addParticles(system, vector<double>(5, 1.0));
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(4, 0, 2, 2, 7);
    system.addForce(angles);
    const vector<Block> blocks = find(system);
    ASSERT_EQUAL(1, (int) blocks.size());
    assertBlock(blocks[0], {0, 2, 4}, 3, {0});
}

void testALongChainIsOneBlockInAnyOrderOfItsBonds() {
    const int n = 1000;
    for (bool backwards : {false, true}) {
        System system;
        addParticles(system, vector<double>(n, 1.0));
        auto* bonds = new HarmonicBondForce();
        for (int i = 0; i < n - 1; i += 2)
            bonds->addBond(backwards ? n - 1 - i : i, backwards ? n - 2 - i : i + 1, 0.1, 1);
        for (int i = 1; i < n - 1; i += 2)
            bonds->addBond(i, i + 1, 0.1, 1);
        system.addForce(bonds);
        const vector<Block> blocks = find(system);
        ASSERT_EQUAL(1, (int) blocks.size());
        ASSERT_EQUAL(n, blocks[0].numMobile);
        ASSERT_EQUAL(n - 1, (int) blocks[0].terms.size());
        for (int i = 0; i < n; i++)
            ASSERT_EQUAL(i, blocks[0].particles[i]);
    }
}

void testMasslessAnchorsDoNotConnectBlocks() {
    // 0 and 3 are massless: 1-0-2 with an angle joins 1 and 2, 4-0 and 5-3 stay alone; 0-3 moves nothing.
    System system;
    addParticles(system, {0, 1, 1, 0, 1, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(4, 0, 0.1, 1);
    bonds->addBond(0, 3, 0.1, 2);
    bonds->addBond(3, 5, 0.1, 3);
    bonds->addBond(5, 0, 0.1, 4);
    system.addForce(bonds);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(1, 0, 2, 2, 5);
    angles->addAngle(0, 3, 0 + 4, 2, 6);
    system.addForce(angles);
    const vector<Block> blocks = find(system);
    ASSERT_EQUAL(3, (int) blocks.size());
    assertBlock(blocks[0], {1, 2, 0}, 2, {4});
    assertBlock(blocks[1], {4, 0, 3}, 1, {0, 5});
    assertBlock(blocks[2], {5, 0, 3}, 1, {2, 3});
}

void testTermsBetweenMasslessParticlesMakeNoBlock() {
    System system;
    addParticles(system, {0, 0, 0, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1);
    system.addForce(bonds);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(0, 1, 2, 2, 5);
    system.addForce(angles);
    ASSERT_EQUAL(2, (int) collect(system).size());
    ASSERT(find(system).empty());
}

void testConstraintOnABlockIsRefused() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    addWater(system, *bonds, *angles, 1);
    addWater(system, *bonds, *angles, 2);
    addParticles(system, {1, 1, 1});
    system.addForce(bonds);
    system.addForce(angles);
    system.addConstraint(6, 7, 0.1);
    ASSERT_EQUAL(2, (int) find(system).size()); // elsewhere constraints are welcome
    for (const auto& [first, second] : vector<std::pair<int, int>>{{3, 8}, {8, 3}, {4, 5}}) {
        const int index = system.addConstraint(first, second, 0.1);
        const string pair = "particles " + std::to_string(first) + " and " + std::to_string(second);
        const string inBlock = "acts on particle " + std::to_string(first == 8 ? second : first);
        assertRefused({"constraint " + std::to_string(index), pair, inBlock, "constraints=None", "rigidWater=False"},
                      [&] { find(system); });
        system.removeConstraint(index);
    }
}

void testTermsOnVirtualSitesAreSlow() {
    // Unless forces may not be divided.
    System system;
    addParticles(system, {1, 1, 0, 1});
    system.setVirtualSite(2, new TwoParticleAverageSite(0, 1, 0.5, 0.5));
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(3, 2, 0.1, 1);
    bonds->addBond(0, 1, 0.1, 1);
    bonds->setName("MyBonds");
    system.addForce(bonds);
    auto* functions = new CustomBondForce("r^4");
    functions->addBond(2, 3);
    functions->addBond(0, 3);
    system.addForce(functions);
    for (int groups : {0, 1}) {
        functions->setForceGroup(1);
        const vector<StiffTerm> terms = collect(system, groups);
        ASSERT_EQUAL(1, (int) terms.size());
        ASSERT_EQUAL(1, terms[0].index);
        ASSERT_EQUAL(1, (int) find(system).size());
    }
    const StiffTerms stiff = collectStiffTerms(system, TermScope::Stiff, 3, allGroups, className);
    ASSERT_EQUAL(2, (int) stiff.coordinates.size());
    ASSERT_EQUAL(1, (int) stiff.functionTerms.size());
    ASSERT_EQUAL(1, stiff.functionTerms[0].index);
    for (TermScope scope : {TermScope::WholeStiffForces, TermScope::Everything})
        assertRefused({"term 0", "'MyBonds'", "particle 2", "virtual site", "SimplifiedStiff"}, [&] {
            findBlocks(system, collectStiffTerms(system, scope, 3, allGroups, className), className);
        });
}

void testConstraintsBetweenMasslessParticlesAreAccepted() {
    System system;
    addParticles(system, {0, 0, 1});
    auto* bonds = new HarmonicBondForce();
    bonds->addBond(0, 1, 0.1, 1);
    bonds->addBond(1, 2, 0.1, 1);
    system.addForce(bonds);
    system.addConstraint(0, 1, 0.1);
    ASSERT_EQUAL(1, (int) find(system).size());
}

void testSummary() {
    System system;
    auto* bonds = new HarmonicBondForce();
    auto* angles = new HarmonicAngleForce();
    for (int i = 0; i < 3; i++)
        addWater(system, *bonds, *angles, i);
    addParticles(system, {0, 0, 4});
    bonds->addBond(9, 10, 0.1, 1e9); // moves nothing
    auto* functions = new CustomBondForce("r^4");
    functions->addBond(9, 11);
    angles->setForceGroup(1);
    for (Force* force : {(Force*) bonds, (Force*) angles, (Force*) functions})
        system.addForce(force);
    const StiffTerms terms = collectStiffTerms(system, TermScope::Stiff, 3, allGroups, className);
    StiffMotion motion(system, "stiff terms", "Do something");
    ASSERT(motion.warn(1e-6).find("there are no stiff terms") == 0);
    motion.addStiffTerms(terms);
    motion.findFastest({vector<Vec3>(12, Vec3(1, 0, 0)), {}, {}}, allGroups, className);
    ASSERT(motion.describe() == "10 stiff terms in 4 molecules: 1 of 'CustomBondForce', 3 of 'HarmonicAngleForce', 6 of"
                                " 'HarmonicBondForce'.");
    ASSERT_EQUAL(string(), motion.warn(1));
    motion.findFastest({vector<Vec3>(12, Vec3(1, 0, 0)), {}, {}}, 1, className); // bonds alone
    const double period = 2 * M_PI / std::sqrt(2002 * (1 / 15.999 + 1 / 1.008));
    ASSERT_EQUAL_TOL(7, motion.countPeriods(7 * period), 1e-12);
    // The same forces in a method that treats the angles alone.
    StiffMotion part(system, "stiff terms", "Do something");
    part.addStiffTerms(collectStiffTerms(system, TermScope::Stiff, 2, allGroups, className));
    part.findFastest({vector<Vec3>(12, Vec3(1, 0, 0)), {}, {}}, allGroups, className);
    ASSERT(part.describe().find("under 'HarmonicBondForce', with a period of") != string::npos);
    ASSERT(part.warn(0.5 * period).find("Do something") != string::npos);
    ASSERT_EQUAL(string(), part.warn(0.1 * period));
}

void testBlocksAreInTheOrderOfTheirFirstParticles() {
    // Whatever the order of the terms; the same System gives the same blocks.
    vector<vector<int>> first;
    for (int variant = 0; variant < 3; variant++) {
        System system;
        addParticles(system, vector<double>(30, 1.0));
        auto* bonds = new HarmonicBondForce();
        for (int i = 0; i < 10; i++) {
            const int molecule = (variant == 0 ? i : variant == 1 ? 9 - i : (7 * i) % 10);
            bonds->addBond(29 - molecule, molecule, 0.1, 1);
            bonds->addBond(molecule, 10 + molecule, 0.1, 1);
        }
        system.addForce(bonds);
        vector<vector<int>> particles;
        for (const Block& block : find(system)) {
            ASSERT_EQUAL((int) particles.size(), block.particles[0]);
            ASSERT(std::is_sorted(block.particles.begin(), block.particles.end()));
            ASSERT(std::is_sorted(block.terms.begin(), block.terms.end()));
            particles.push_back(block.particles);
        }
        ASSERT_EQUAL(10, (int) particles.size());
        if (variant == 0)
            first = particles;
        ASSERT_EQUAL_CONTAINERS(first, particles);
    }
}

int main() {
    return checkClaims({
            CLAIM(testTermsAreReadAsTheForcesHoldThem),
            CLAIM(testTermsByKindMayBeInAnyGroup),
            CLAIM(testGroupsChooseTheForces),
            CLAIM(testForcesThatAreNotIntegratedAreLeftOut),
            CLAIM(testSystemWithoutStiffForcesHasNoTerms),
            CLAIM(testForceWithoutHessianIsRefused),
            CLAIM(testGroupsWithoutForceAreRefused),
            CLAIM(testForcesWithoutPotentialAreToleratedInStiffGroups),
            CLAIM(testTermsHeldByConstraintsAreLeftOut),
            CLAIM(testConstraintsCountInEitherOrderOfTheirParticles),
            CLAIM(testAngleWithOneFreeSideIsKept),
            CLAIM(testTermsWithAParticleTwiceAreLeftOut),
            CLAIM(testStructureAndParametersAreTold),
            CLAIM(testConnectedGroupsAreBlocks),
            CLAIM(testAnglesAloneConnectTheirParticles),
            CLAIM(testALongChainIsOneBlockInAnyOrderOfItsBonds),
            CLAIM(testMasslessAnchorsDoNotConnectBlocks),
            CLAIM(testTermsBetweenMasslessParticlesMakeNoBlock),
            CLAIM(testConstraintOnABlockIsRefused),
            CLAIM(testTermsOnVirtualSitesAreSlow),
            CLAIM(testConstraintsBetweenMasslessParticlesAreAccepted),
            CLAIM(testSummary),
            CLAIM(testBlocksAreInTheOrderOfTheirFirstParticles),
    });
}
