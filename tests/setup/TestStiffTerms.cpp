/**
 * Which terms of a System are stiff, and which particles they connect.
 */

#include "SystemTest.h"
#include "setup/Blocks.h"
#include "setup/CollectTerms.h"
#include "setup/StiffMotion.h"
#include "setup/TermSelection.h"

using stiffcore::StiffCoordinate;

const string className = "SomeIntegrator";
const int allGroups = -1;

/** The terms by kind, unless groups are given. */
StiffTerms collectTerms(const System& system, int stiffGroups = 0, int integrationGroups = allGroups) {
    return collectTerms(system, TermScope::Harmonic, stiffGroups, integrationGroups, className);
}

/** Their force constants, by which tests know them. */
vector<double> collect(const System& system, int stiffGroups = 0, int integrationGroups = allGroups) {
    const StiffTerms terms = collectTerms(system, stiffGroups, integrationGroups);
    vector<double> constants;
    for (const StiffCoordinate& s : terms.coordinates) {
        ASSERT(s.isHarmonic);
        constants.push_back(s.k);
    }
    return constants;
}

vector<Block> find(const System& system) {
    return findBlocks(system, collectTerms(system), className);
}

/** Assert that an action is refused with a message that names the class. */
template <class Function> void assertRefused(vector<string> parts, Function&& function) {
    parts.push_back(className + ": ");
    assertThrows(function, parts);
}

/** A System with bonds, and then angles. */
struct Bonded : System {
    HarmonicBondForce& bonds = *new HarmonicBondForce();
    HarmonicAngleForce& angles = *new HarmonicAngleForce();

    explicit Bonded(const vector<double>& masses = {}) {
        addParticles(*this, masses);
        addForce(&bonds);
        addForce(&angles);
    }
    void addBond(int i, int j, double k = 1) {
        bonds.addBond(i, j, 0.1, k);
    }
    /** Add a water, oxygen first; the terms have force constants of their own. */
    void addWater(double id) {
        const int o = getNumParticles();
        addParticles(*this, {15.999, 1.008, 1.008});
        addBond(o, o + 1, 1000 + id);
        addBond(o, o + 2, 2000 + id);
        angles.addAngle(o + 1, o, o + 2, 1.8, 3000 + id);
    }
    /** Add bonds whose energy is the fourth power of their length. */
    CustomBondForce& addFunctions(const vector<std::pair<int, int>>& pairs) {
        auto* functions = new CustomBondForce("r^4");
        for (const auto& [i, j] : pairs)
            functions->addBond(i, j);
        addForce(functions);
        return *functions;
    }
};

void constrainWater(System& system, int oxygen) {
    system.addConstraint(oxygen, oxygen + 1, 0.1);
    system.addConstraint(oxygen, oxygen + 2, 0.1);
    system.addConstraint(oxygen + 1, oxygen + 2, 0.16);
}

/** What should be known of a block. */
struct Expected {
    vector<int> particles;
    int numMobile;
    vector<int> terms;
};
void assertBlocks(const System& system, const vector<Expected>& expected) {
    const vector<Block> blocks = find(system);
    ASSERT_EQUAL(expected.size(), blocks.size());
    for (size_t i = 0; i < blocks.size(); i++) {
        ASSERT_EQUAL_CONTAINERS(expected[i].particles, blocks[i].particles);
        ASSERT_EQUAL(expected[i].numMobile, blocks[i].numMobile);
        ASSERT_EQUAL_CONTAINERS(expected[i].terms, blocks[i].terms);
    }
}

// ---- Collecting terms ----

CLAIM(testTermsAreReadAsTheForcesHoldThem) {
    System system = makeParticles({1, 2, 3, 4});
    auto* torsions = new PeriodicTorsionForce();
    torsions->addTorsion(0, 1, 2, 3, 1, 0, 10);
    system.addForce(torsions);
    auto* angles = new HarmonicAngleForce();
    angles->addAngle(3, 1, 0, 1.7, 400);
    angles->setUsesPeriodicBoundaryConditions(true);
    system.addForce(angles);
    addBonds(system, {{0, 1, 0.1, 1000}, {3, 2, 0.2, 2000}});
    const StiffTerms terms = collectTerms(system);
    using Kind = StiffCoordinate::Kind;
    ASSERT(terms.coordinates == vector<StiffCoordinate>({{Kind::Angle, {3, 1, 0}, true, 1, 0, true, 400, 1.7},
                                                         {Kind::Distance, {0, 1, -1}, false, 2, 0, true, 1000, 0.1},
                                                         {Kind::Distance, {3, 2, -1}, false, 2, 1, true, 2000, 0.2}}));
}

/** Stiff terms are those of a kind, in any group, or those of the groups that are named; of what is integrated. */
CLAIM(testGroupsChooseTheForces) {
    Bonded system;
    system.addWater(1);
    auto* moreBonds = new HarmonicBondForce();
    moreBonds->addBond(1, 2, 0.16, 4001);
    auto* nonbonded = new NonbondedForce();
    system.addForce(moreBonds);
    system.addForce(nonbonded);
    system.addForce(new CMMotionRemover());
    system.bonds.setForceGroup(1);
    system.angles.setForceGroup(2);
    nonbonded->setForceGroup(3);
    moreBonds->setForceGroup(31);
    const int first = 1 << 1, second = 1 << 2, noHessian = 1 << 3, noForce = 1 << 4, last = 1 << 31;
    const vector<double> ofFirst = {1001, 2001}, ofSecond = {3001}, ofLast = {4001};
    ASSERT(collect(system) == vector<double>({1001, 2001, 3001, 4001}));
    ASSERT(collect(system, first) == ofFirst);
    ASSERT(collect(system, last) == ofLast);
    ASSERT(collect(system, first | last) == vector<double>({1001, 2001, 4001}));
    ASSERT(collect(system, first | noForce) == ofFirst);
    ASSERT(collect(system, 0, first) == ofFirst);
    ASSERT(collect(system, 0, second) == ofSecond);
    ASSERT(collect(system, 0, noHessian).empty());
    ASSERT(collect(system, first | second, second) == ofSecond);
    ASSERT(collect(system, first | noHessian, first | second) == ofFirst); // which exerts no force either
}

CLAIM(testGroupsThatCannotBeStiffAreRefused) {
    Bonded system({1, 1});
    system.addBond(0, 1, 1000);
    system.bonds.setForceGroup(5);
    auto* nonbonded = new NonbondedForce();
    nonbonded->setName("MyForce");
    nonbonded->setForceGroup(5);
    system.addForce(nonbonded);
    assertRefused({"'MyForce'", "index 2", "force group 5", "neither", "HarmonicBondForce", "HarmonicAngleForce",
                   "setForceGroup()", "setStiffForceGroups()"},
                  [&] { collect(system, 1 << 5); });
    ASSERT(collect(system) == vector<double>({1000}));
    assertRefused({"no force", "mask 8", "setForceGroup", "setUseDefaultStiffForceGroups(true)"},
                  [&] { collect(system, 1 << 3); });
    assertRefused({"no force", "mask 32", "mask 2"}, [&] { collect(system, 1 << 5, 1 << 1); });
}

CLAIM(testForcesWithoutPotentialAreToleratedInStiffGroups) {
    Bonded system({1, 1});
    system.addBond(0, 1, 1000);
    system.addForce(new CMMotionRemover());
    system.addForce(new AndersenThermostat(300, 1));
    system.addForce(new MonteCarloBarostat(1, 300));
    system.addForce(new MonteCarloAnisotropicBarostat(Vec3(1, 1, 1), 300));
    system.addForce(new MonteCarloFlexibleBarostat(1, 300));
    system.addForce(new MonteCarloMembraneBarostat(1, 0, 300, MonteCarloMembraneBarostat::XYIsotropic,
                                                   MonteCarloMembraneBarostat::ZFree));
    ASSERT(collect(system, 1 << 0) == vector<double>({1000}));
    // But they do not make a group stiff.
    system.bonds.setForceGroup(1);
    system.angles.setForceGroup(1);
    assertRefused({"no force"}, [&] { collect(system, 1 << 0); });
}

CLAIM(testTermsHeldByConstraintsAreLeftOut) {
    // What createSystem(flexibleConstraints=True, rigidWater=True) makes, with a flexible water beside it.
    Bonded system;
    system.addWater(1);
    system.addWater(2);
    constrainWater(system, 0);
    ASSERT(collect(system) == vector<double>({1002, 2002, 3002}));
    ASSERT_EQUAL(2, collectTerms(system).coordinates[0].index);
    assertBlocks(system, {{{3, 4, 5}, 3, {0, 1, 2}}});
    // The order of the particles does not matter; an angle with one side that is free is kept.
    Bonded half;
    half.addWater(1);
    half.addConstraint(1, 0, 0.1);
    half.addConstraint(0, 2, 0.1);
    ASSERT(collect(half) == vector<double>({3001}));
}

CLAIM(testTermsWithAParticleTwiceAreLeftOut) {
    Bonded system({1, 1});
    system.addBond(0, 0, 1000);
    system.addBond(0, 1, 2000);
    system.angles.addAngle(0, 1, 0, 1, 3000);
    ASSERT(collect(system) == vector<double>({2000}));
}

CLAIM(testStructureAndParametersAreTold) {
    Bonded system;
    system.addWater(1);
    system.addWater(2);
    constrainWater(system, 0); // so that the terms have other indices than the bonds
    const StiffTerms before = collectTerms(system);
    ASSERT(before == collectTerms(system));
    system.bonds.setBondParameters(3, 3, 5, 0.11, 5000);
    system.angles.setAngleParameters(1, 4, 3, 5, 1.9, 6000);
    const StiffTerms terms = collectTerms(system);
    auto getStructure = [](StiffTerms terms) {
        for (StiffCoordinate& s : terms.coordinates)
            s.k = s.s0 = 0;
        return terms.coordinates;
    };
    ASSERT(getStructure(terms) == getStructure(before) && !(terms == before));
    ASSERT(collect(system) == vector<double>({1002, 5000, 6000}));
    ASSERT(terms.coordinates[0].s0 == 0.1 && terms.coordinates[1].s0 == 0.11 && terms.coordinates[2].s0 == 1.9);
    system.angles.setAngleParameters(1, 5, 3, 4, 1.9, 6000);
    ASSERT(!(getStructure(before) == getStructure(collectTerms(system))));
    // That an angle is straight is part of the structure.
    system.angles.setAngleParameters(1, 4, 3, 5, 3.141594, 6000);
    ASSERT(!(getStructure(before) == getStructure(collectTerms(system))));
}

// ---- Choosing rows ----

using Use = StiffCoordinate::Use;
const double infinity = std::numeric_limits<double>::infinity();

vector<Use> choose(const System& system, double period, bool bends = false) {
    TermSelection selection;
    selection.scope = TermScope::Stiff;
    selection.stiffGroups = 1;
    selection.integrationGroups = allGroups;
    selection.period = period;
    selection.bends = bends;
    const TermsInBlocks found = collectTermsInBlocks(system, selection, className);
    vector<Use> uses;
    for (const StiffCoordinate& s : found.terms.coordinates)
        uses.push_back(s.use);
    return uses;
}

/** Of a coordinate s with V = k/2 (s - s0)^2 alone, the period is 2 pi / sqrt(k g M^-1 g^T), g its gradient. */
CLAIM(testPeriodsChooseRows) {
    const double m1 = 12, m2 = 3, m3 = 1.5, r1 = 0.1, r2 = 0.15, theta = 1.9, k1 = 1e5, k2 = 2e5, ka = 300;
    Bonded system({m1, m2, m3, 0});
    system.bonds.addBond(0, 1, r1, k1);
    system.bonds.addBond(2, 1, r2, k2);
    system.bonds.addBond(3, 0, r1, k1);
    system.angles.addAngle(0, 1, 2, theta, ka);
    system.angles.addAngle(1, 0, 3, theta, ka); // with an anchor
    system.angles.addAngle(1, 2, 3, theta, ka); // one of its legs is no bond
    auto gradientSquare = [](double mA, double rA, double mV, double mB, double rB, double theta) {
        // With a along x and b at theta from it: 1/r across each leg, and the vertex takes the negative sum.
        const Vec3 ga(0, -1 / rA, 0), gb(-std::sin(theta) / rB, std::cos(theta) / rB, 0), gv = -(ga + gb);
        return ga.dot(ga) / mA + gv.dot(gv) / mV + (mB > 0 ? gb.dot(gb) / mB : 0);
    };
    const double squares[] = {k1 * (1 / m1 + 1 / m2), k2 * (1 / m2 + 1 / m3), k1 / m1,
                              ka * gradientSquare(m1, r1, m2, m3, r2, theta),
                              ka * gradientSquare(m2, r1, m1, 0, r1, theta)};
    for (int t = 0; t < 5; t++) {
        const double period = 2 * M_PI / std::sqrt(squares[t]);
        ASSERT(choose(system, period * (1 + 1e-9))[t] == Use::Coordinate);
        ASSERT(choose(system, period * (1 - 1e-9))[t] == Use::None);
    }
    ASSERT(choose(system, 1e6)[5] == Use::None); // its period is not known
    ASSERT(choose(system, 0) == vector<Use>(6, Use::None));
    ASSERT(choose(system, infinity) == vector<Use>(6, Use::Coordinate));
}

/** Without a force constant a coordinate is no row, nor does its bond give the length of a leg. */
CLAIM(testRowsHaveForceConstants) {
    Bonded system({1, 1, 1});
    system.addBond(0, 1, 1000);
    system.addBond(1, 2, 0);
    system.angles.addAngle(0, 1, 2, 1.9, 500);
    ASSERT(choose(system, infinity) == vector<Use>({Use::Coordinate, Use::None, Use::Coordinate}));
    ASSERT(choose(system, 1e6) == vector<Use>({Use::Coordinate, Use::None, Use::None}));
    system.bonds.setBondParameters(1, 1, 2, 0.1, 1);
    ASSERT(choose(system, 1e6) == vector<Use>(3, Use::Coordinate));
}

/** Only angles with their minimum at 180 degrees are represented by their bends, where these are asked for. */
CLAIM(testStraightAnglesAreBends) {
    Bonded system({1, 1, 1, 1});
    for (int i = 0; i < 3; i++)
        system.addBond(i, i + 1, 1000);
    system.angles.addAngle(0, 1, 2, 3.141594, 500); // as Amber's files have it
    system.angles.addAngle(1, 2, 3, 3.14, 500);
    system.angles.addAngle(0, 1, 3, M_PI, 0);
    for (double period : {1e6, infinity}) {
        vector<Use> expected(5, Use::Coordinate);
        expected.push_back(Use::None);
        ASSERT(choose(system, period) == expected);
        expected[3] = Use::Bends;
        ASSERT(choose(system, period, true) == expected);
    }
    ASSERT(choose(system, 0, true) == vector<Use>(6, Use::None));
}

/** Coordinates whose potential is a function have no period: they are rows if all are. */
CLAIM(testFunctionsAreRowsIfAllAre) {
    System system = makeParticles({1, 1, 1});
    auto* functions = new CustomBondForce("1000*(r-0.1)^2");
    functions->addBond(0, 1);
    system.addForce(functions);
    addBonds(system, {{1, 2, 0.1, 1000}});
    ASSERT(choose(system, infinity) == vector<Use>(2, Use::Coordinate));
    ASSERT(choose(system, 1e6) == vector<Use>({Use::None, Use::Coordinate}));
}

// ---- Finding blocks ----

CLAIM(testConnectedGroupsAreBlocks) {
    // Two molecules with mixed numbers, the second a ring, and a free particle: 0-4-2 with the branch 4-6,
    // 1-3-5-1, 7.
    Bonded system(vector<double>(8, 1.0));
    for (const auto& [i, j] : vector<std::pair<int, int>>{{5, 1}, {4, 2}, {4, 6}, {3, 5}, {0, 4}, {1, 3}})
        system.addBond(i, j);
    system.angles.addAngle(0, 4, 6, 2, 7);
    assertBlocks(system, {{{0, 2, 4, 6}, 4, {1, 2, 4, 6}}, {{1, 3, 5}, 3, {0, 3, 5}}});
    // An angle alone connects its particles, too.
    Bonded bent(vector<double>(5, 1.0));
    bent.angles.addAngle(4, 0, 2, 2, 7);
    assertBlocks(bent, {{{0, 2, 4}, 3, {0}}});
}

CLAIM(testALongChainIsOneBlockInAnyOrderOfItsBonds) {
    const int n = 1000;
    vector<int> all(n), bonds(n - 1);
    std::iota(all.begin(), all.end(), 0);
    std::iota(bonds.begin(), bonds.end(), 0);
    for (bool backwards : {false, true}) {
        Bonded system(vector<double>(n, 1.0));
        for (int i = 0; i < n - 1; i += 2)
            system.addBond(backwards ? n - 1 - i : i, backwards ? n - 2 - i : i + 1);
        for (int i = 1; i < n - 1; i += 2)
            system.addBond(i, i + 1);
        assertBlocks(system, {{all, n, bonds}});
    }
}

CLAIM(testMasslessAnchorsDoNotConnectBlocks) {
    // 0 and 3 are massless: 1-0-2 with an angle joins 1 and 2, 4-0 and 5-3 stay alone; 0-3 moves nothing.
    Bonded system({0, 1, 1, 0, 1, 1});
    for (const auto& [i, j] : vector<std::pair<int, int>>{{4, 0}, {0, 3}, {3, 5}, {5, 0}})
        system.addBond(i, j);
    system.angles.addAngle(1, 0, 2, 2, 5);
    system.angles.addAngle(0, 3, 4, 2, 6);
    assertBlocks(system, {{{1, 2, 0}, 2, {4}}, {{4, 0, 3}, 1, {0, 5}}, {{5, 0, 3}, 1, {2, 3}}});
}

CLAIM(testTermsBetweenMasslessParticlesMakeNoBlock) {
    Bonded system({0, 0, 0, 1});
    system.addBond(0, 1);
    system.angles.addAngle(0, 1, 2, 2, 5);
    ASSERT_EQUAL(2, (int) collect(system).size());
    ASSERT(find(system).empty());
    // Constraints between them are accepted.
    system.addConstraint(0, 1, 0.1);
    system.addBond(1, 3, 2);
    ASSERT_EQUAL(1, (int) find(system).size());
}

CLAIM(testConstraintOnABlockIsRefused) {
    Bonded system;
    system.addWater(1);
    system.addWater(2);
    addParticles(system, {1, 1, 1});
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

CLAIM(testTermsOnVirtualSitesAreSlow) {
    // Unless forces may not be divided.
    Bonded system({1, 1, 0, 1});
    system.setVirtualSite(2, new TwoParticleAverageSite(0, 1, 0.5, 0.5));
    system.addBond(3, 2);
    system.addBond(0, 1);
    system.bonds.setName("MyBonds");
    system.addFunctions({{2, 3}, {0, 3}}).setForceGroup(1);
    for (int groups : {0, 1}) {
        const StiffTerms terms = collectTerms(system, groups);
        ASSERT_EQUAL(1, (int) terms.coordinates.size());
        ASSERT_EQUAL(1, terms.coordinates.at(0).index);
        ASSERT_EQUAL(1, (int) find(system).size());
    }
    const StiffTerms stiff = collectTerms(system, TermScope::Stiff, 3, allGroups, className);
    ASSERT_EQUAL(2, (int) stiff.coordinates.size());
    ASSERT_EQUAL(1, (int) stiff.functionTerms.size());
    ASSERT_EQUAL(1, stiff.functionTerms[0].index);
    for (TermScope scope : {TermScope::WholeStiffForces, TermScope::Everything})
        assertRefused({"term 0", "'MyBonds'", "particle 2", "virtual site", "StiffHessian"},
                      [&] { findBlocks(system, collectTerms(system, scope, 3, allGroups, className), className); });
}

CLAIM(testSummary) {
    Bonded system;
    for (int i = 0; i < 3; i++)
        system.addWater(i);
    addParticles(system, {0, 0, 4});
    system.addBond(9, 10, 1e9); // moves nothing
    system.addFunctions({{9, 11}});
    system.angles.setForceGroup(1);
    const StiffTerms terms = collectTerms(system, TermScope::Stiff, 3, allGroups, className);
    StiffMotion motion(system, "stiff terms", "Do something", allGroups, {}, className);
    ASSERT(motion.warn(1e-6).find("there are no stiff terms") == 0);
    motion.addStiffTerms(terms);
    motion.findFastest(vector<Vec3>(12, Vec3(1, 0, 0)));
    ASSERT(motion.describe() == "10 stiff terms in 4 blocks: 1 of 'CustomBondForce', 3 of 'HarmonicAngleForce', 6 of"
                                " 'HarmonicBondForce'.");
    ASSERT_EQUAL(string(), motion.warn(1));
    StiffMotion bondsAlone(system, "stiff terms", "Do something", 1, {}, className);
    bondsAlone.findFastest(vector<Vec3>(12, Vec3(1, 0, 0)));
    const double period = 2 * M_PI / std::sqrt(2002 * (1 / 15.999 + 1 / 1.008));
    ASSERT_EQUAL_TOL(7, bondsAlone.countPeriods(7 * period), 1e-12);
    // The same forces in a method that treats the angles alone.
    StiffMotion part(system, "stiff terms", "Do something", allGroups, {}, className);
    part.addStiffTerms(collectTerms(system, TermScope::Stiff, 2, allGroups, className));
    part.findFastest(vector<Vec3>(12, Vec3(1, 0, 0)));
    ASSERT(part.describe().find("under 'HarmonicBondForce', with a period of") != string::npos);
    ASSERT(part.warn(0.5 * period).find("Do something") != string::npos);
    ASSERT_EQUAL(string(), part.warn(0.1 * period));
}

CLAIM(testBlocksAreInTheOrderOfTheirFirstParticles) {
    // Whatever the order of the terms.
    for (int variant = 0; variant < 3; variant++) {
        Bonded system(vector<double>(30, 1.0));
        for (int i = 0; i < 10; i++) {
            const int molecule = (variant == 0 ? i : variant == 1 ? 9 - i : (7 * i) % 10);
            system.addBond(29 - molecule, molecule);
            system.addBond(molecule, 10 + molecule);
        }
        const vector<Block> blocks = find(system);
        ASSERT_EQUAL(10, (int) blocks.size());
        for (int i = 0; i < 10; i++) {
            ASSERT(blocks[i].particles == vector<int>({i, 10 + i, 29 - i}));
            ASSERT(std::is_sorted(blocks[i].terms.begin(), blocks[i].terms.end()));
        }
    }
}

CHECK_CLAIMS
