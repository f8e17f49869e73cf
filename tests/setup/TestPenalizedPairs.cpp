/**
 * Which pairs of a System are stiff, how stiff, and which of them are the bonds of hydrogens. Force constants are
 * compared with what calculus gives, and those of angles with differences of OpenMM's energies.
 */

#include "SystemTest.h"
#include "setup/BondedSpectrum.h"
#include "setup/PenalizedPairs.h"
#include "stiffcore/model/InternalCoordinate.h"

using stiffcore::ordered;

namespace {

/// The projection (x, y, z) of the second particle onto the plane of the others, if scale is 1.
const string projection = "x = x2-s*nx; y = y2-s*ny; z = z2-s*nz;"
                          "s = scale*(nx*(x2-x4)+ny*(y2-y4)+nz*(z2-z4))/(nx^2+ny^2+nz^2);"
                          "nx = ay*bz-az*by; ny = az*bx-ax*bz; nz = ax*by-ay*bx;"
                          "ax = x1-x4; ay = y1-y4; az = z1-z4; bx = x3-x4; by = y3-y4; bz = z3-z4";
const string cubic = "k*(d^2-0.8*d^3); d = theta-theta0; theta = ";
/// The places of the particles of a term among those of the System.
const vector<int> term = {2, 0, 3, 1};

CustomCompoundBondForce* makeForce(const string& energy) {
    auto* force = new CustomCompoundBondForce(4, energy);
    force->addPerBondParameter("k");
    force->addPerBondParameter("theta0");
    force->addGlobalParameter("scale", 1);
    force->addBond(term, {350, 2.0});
    return force;
}

System makeSystem(Force* force) {
    System system = makeParticles({12, 16, 1, 14});
    system.addForce(force);
    return system;
}

BondedStiffness find(const System& system, const std::map<string, double>& globals = {{"scale", 1}}) {
    return BondedStiffness(system, readConstraints(system), -1, globals, "SomeIntegrator");
}

double stiffnessOf(const System& system, int i, int j) {
    for (const BondedStiffness::Pair& pair : find(system).pairs)
        if (ordered(pair.particle1, pair.particle2) == stiffcore::ordered(i, j))
            return pair.stiffness;
    return 0;
}

/** Which particle each hydrogen is bound to by a bond with an inertia, -1 if by none. */
vector<int> findPartners(const System& system) {
    vector<int> partners(system.getNumParticles(), -1);
    const BondedStiffness bonded = find(system);
    for (const PairInertia& bond :
         chooseBonds(system, BondGraph(system, readConstraints(system), &bonded), 2, false, {}, "SomeIntegrator"))
        partners[bond.particle2] = bond.particle1;
    return partners;
}

/** The bonds of makeForce()'s molecule, as legs of its angle. */
void addLegs(System& system) {
    addBonds(system, {{term[0], term[1], 0.101, 3e5}, {term[2], term[1], 0.134, 4e5}, {term[3], term[1], 0.123, 5e5}});
}

/** V'' / (dr/dtheta)^2 by differences of OpenMM's energies and of distances, where the vertex is in the plane. */
CLAIM(testInPlaneAngle) {
    for (const string& vertex : {string("x, y, z"), string("x2, y2, z2")}) {
        System system =
                makeSystem(makeForce(cubic + "pointangle(x1, y1, z1, " + vertex + ", x3, y3, z3);" + projection));
        addLegs(system);
        VerletIntegrator integrator(0.001);
        Context context(system, integrator, Platform::getPlatform("Reference"));
        // Particles by the places of the term: an angle of 2 rad, which is where its energy is least.
        auto place = [&](double theta) {
            vector<Vec3> positions(4);
            positions[term[0]] = Vec3(0.101, 0, 0);
            positions[term[2]] = Vec3(0.134 * std::cos(theta), 0.134 * std::sin(theta), 0);
            positions[term[3]] = Vec3(0.123 * std::cos(4), 0.123 * std::sin(4), 0);
            return positions;
        };
        auto energy = [&](double theta) {
            context.setPositions(place(theta));
            return context.getState(State::Energy).getPotentialEnergy();
        };
        auto distance = [&](double theta) {
            const vector<Vec3> x = place(theta);
            return std::sqrt((x[term[0]] - x[term[2]]).dot(x[term[0]] - x[term[2]]));
        };
        const double turn = 1e-3, curvature = (energy(2 + turn) - 2 * energy(2) + energy(2 - turn)) / (turn * turn),
                     slope = (distance(2 + turn) - distance(2 - turn)) / (2 * turn);
        // Differences are wrong by turn^2.
        ASSERT_EQUAL_TOL(curvature / (slope * slope), stiffnessOf(system, term[0], term[2]), 1e-5);
    }
}

/**
 * Of a Morse bond, AMOEBA's bond and a quartic one it is that of the minimum; two minima have that of the lower one.
 */
CLAIM(testCustomBondsAreAsStiffAsAtTheirMinimum) {
    struct Case {
        string energy;
        double stiffness;
    };
    for (const auto& [energy, stiffness] : vector<Case>{{"400*(1-exp(-20*(r-0.15)))^2", 2 * 400 * 20 * 20},
                                                        {"1.6e5*d^2*(1-25.5*d+379.3*d^2); d=r-0.11", 3.2e5},
                                                        {"0.25*7e6*(r^2-0.15^2)^2", 2 * 7e6 * 0.15 * 0.15},
                                                        {"1e9*(r-0.1)^2*(r-0.2)^2-100*r", 2e7}}) {
        System system = makeParticles({12, 12});
        auto* force = new CustomBondForce(energy);
        force->addBond(0, 1);
        system.addForce(force);
        ASSERT_EQUAL_TOL(stiffness, stiffnessOf(system, 0, 1), energy.back() == 'r' ? 1e-2 : 1e-9);
        ASSERT(find(system).pairs[0].isBond);
    }
}

/**
 * What acts between two particles and has no stiff minimum is no row, and what has one is none beside stiffer bonds.
 */
CLAIM(testCustomPairsThatAreNoBonds) {
    for (const char* energy :
         {"2*((0.33/r)^12-2*(0.33/r)^6)", "10*max(0, r-0.25)^2", "40/r", "-40/r", "1e-6/r^12-20/r", "100*r"}) {
        System system = makeParticles({12, 16, 12, 1});
        addBonds(system, {{0, 1, 0.14, 2.5e5}, {1, 2, 0.14, 3e5}, {2, 3, 0.11, 2.8e5}});
        auto* force = new CustomBondForce(energy);
        force->addBond(0, 3);
        system.addForce(force);
        ASSERT_EQUAL(0.0, stiffnessOf(system, 0, 3));
        ASSERT_EQUAL(2, findPartners(system)[3]);
    }
}

/** A Urey-Bradley term is a part of the 1-3 distance, and no bond of its hydrogen: flexible or constrained. */
CLAIM(testUreyBradley) {
    for (bool constrained : {false, true}) {
        const double k = 5000, length = 0.216;
        System system = makeParticles({12, 12, 1}), without = makeParticles({12, 12, 1});
        vector<HarmonicBond> bonds = {{0, 1, 0.15, 2e5}};
        if (!constrained)
            bonds.push_back({1, 2, 0.111, 2.7e5});
        for (System* each : {&without, &system}) {
            addBonds(*each, bonds);
            auto* angle = new HarmonicAngleForce();
            angle->addAngle(0, 1, 2, 1.92, 280);
            each->addForce(angle);
            if (constrained)
                each->addConstraint(1, 2, 0.111);
            bonds.push_back({0, 2, length, k});
        }
        ASSERT_EQUAL_TOL(stiffnessOf(without, 0, 2) + k, stiffnessOf(system, 0, 2), 1e-12);
        ASSERT_EQUAL(1, findPartners(system)[2]);
    }
}

/** Its constraint comes first, whatever else is shorter, stiffer, or listed before. */
CLAIM(testAHydrogenIsBoundByItsConstraint) {
    System system = makeParticles({16, 12, 1, 16});
    addBonds(system, {{0, 2, 0.09, 8e5}, {1, 3, 0.14, 3e5}});
    system.addConstraint(0, 2, 0.21); // an angle that is constrained
    system.addConstraint(1, 2, 0.11);
    ASSERT_EQUAL(1, findPartners(system)[2]);
}

/** Heavy atoms that are fixed are as heavy as can be; virtual sites are none. */
CLAIM(testHydrogensOfFixedAtomsTurnToo) {
    System system = makeParticles({0, 1, 1, 0});
    system.setVirtualSite(3, new TwoParticleAverageSite(1, 2, 0.5, 0.5));
    addBonds(system, {{0, 1, 0.1, 4e5}, {2, 0, 0.1, 4e5}, {2, 3, 0.05, 9e5}});
    const vector<int> partners = findPartners(system);
    ASSERT_EQUAL(0, partners[1]);
    ASSERT_EQUAL(0, partners[2]);
}

/** Straight angles are kept apart, those of custom forces, too; angles whose legs are no bonds are left out. */
CLAIM(testStraightAnglesAreLoose) {
    auto* harmonic = new HarmonicAngleForce();
    harmonic->addAngle(0, 1, 2, M_PI, 800);
    harmonic->addAngle(1, 2, 3, 2, 500);
    vector<Force*> forces = {harmonic};
    // As Amber's files round 180 degrees, and with a slope that vanishes there but for rounding.
    for (const char* energy : {"400*(theta-3.14159265358979)^2", "400*(theta-3.141594)^2", "800*(1+cos(theta))"}) {
        auto* custom = new CustomAngleForce(energy);
        custom->addAngle(0, 1, 2);
        custom->addAngle(1, 2, 3);
        forces.push_back(custom);
    }
    for (Force* angles : forces) {
        System system = makeParticles({16, 12, 16, 12});
        addBonds(system, {{0, 1, 0.12, 9e5}, {1, 2, 0.12, 9e5}});
        system.addForce(angles);
        const BondedStiffness bonded = find(system);
        ASSERT_EQUAL(2, (int) bonded.pairs.size());
        ASSERT_EQUAL(1, (int) bonded.looseAngles.size());
        ASSERT_EQUAL_TOL(800, bonded.looseAngles[0].curvature, 1e-9);
        ASSERT_EQUAL(0.12, bonded.looseAngles[0].leg2);
    }
}

/** Springs that are switched off have no part in lengths, and are no legs of an angle. */
CLAIM(testSpringsWithoutStiffnessAreNone) {
    for (bool off : {false, true}) {
        System system = makeParticles({12, 12, 12, 12});
        auto& bonds = addBonds(system, {{0, 1, 1.0, 0}, {1, 2, 0.3, 0}, {2, 3, 0.3, 0}});
        bonds.addBond(0, 1, 0.15, 3e5);
        if (!off)
            bonds.addBond(1, 2, 0.15, 3e5);
        auto* angles = new HarmonicAngleForce();
        angles->addAngle(0, 1, 2, 1.9, 500);
        system.addForce(angles);
        const BondedStiffness bonded = find(system);
        ASSERT_EQUAL(off ? 1 : 3, (int) bonded.pairs.size());
        ASSERT_EQUAL(0.15, bonded.pairs[0].length);
        if (!off)
            ASSERT_EQUAL_TOL(500 / std::pow(0.15 * std::cos(0.95), 2), stiffnessOf(system, 0, 2), 1e-12);
    }
}

/**
 * In a field of custom bonds, a soft harmonic term between two of their particles is no bond, and brings in no other.
 */
CLAIM(testSoftHarmonicTermsAreNoBonds) {
    System system = makeParticles({12, 12, 1});
    auto* custom = new CustomBondForce("0.5*k*(r-r0)^2");
    custom->addPerBondParameter("k");
    custom->addPerBondParameter("r0");
    custom->addBond(0, 1, {2.2e5, 0.15});
    custom->addBond(1, 2, {3.0e5, 0.11});
    auto* other = new CustomBondForce("2*((0.33/r)^12-2*(0.33/r)^6)");
    other->addBond(0, 2);
    system.addForce(custom);
    system.addForce(other);
    addBonds(system, {{0, 2, 0.216, 5000}});
    ASSERT_EQUAL(5000.0, stiffnessOf(system, 0, 2));
    ASSERT_EQUAL(1, findPartners(system)[2]);
}

/**
 * A pair needs k r^2 / 2 of 50 kJ/mol, or its particles would pass through each other: for acute angles, and others.
 */
CLAIM(testSoftPairsAreLeftOut) {
    const double r1 = 0.11, r2 = 0.14;
    for (double theta : {1.0, 1.5, 2.2}) {
        const double squared = r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(theta),
                     slope = r1 * r2 * std::sin(theta) / std::sqrt(squared);
        for (double barrier : {49.0, 51.0}) {
            auto* angle = new CustomAngleForce("0.5*k*(theta-theta0)^2");
            angle->addGlobalParameter("k", 0);
            angle->addGlobalParameter("theta0", 0);
            angle->addAngle(0, 1, 2);
            System system = makeSystem(angle);
            addBonds(system, {{0, 1, r1, 3e5}, {1, 2, r2, 3e5}});
            const double k = 2 * barrier / squared * slope * slope;
            for (const BondedStiffness::Pair& pair : find(system, {{"k", k}, {"theta0", theta}}).pairs)
                if (pair.particle1 == 0 && pair.particle2 == 2)
                    ASSERT_EQUAL(barrier > 50, pair.stiffness > 0);
        }
    }
}

/** Energies that depend on anything else have no pairs: wagging out of a plane, two angles, a distance besides. */
CLAIM(testOtherEnergiesAreLeftOut) {
    const string inPlane = "pointangle(x1, y1, z1, x, y, z, x3, y3, z3)";
    auto* tabulated = makeForce(cubic + inPlane + "+table(0);" + projection);
    tabulated->addTabulatedFunction("table", new Continuous1DFunction({0, 1, 2}, 0, 2));
    for (auto* force : {makeForce(cubic + "pointangle(x2, y2, z2, x4, y4, z4, x, y, z);" + projection),
                        makeForce(cubic + "pointangle(x1, y2, z1, x, y, z, x3, y3, z3);" + projection),
                        makeForce(cubic + "pointangle(x1, y1, z1, x, y, z, x1, y1, z1);" + projection),
                        makeForce(cubic + inPlane + "-pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3);" + projection),
                        makeForce(cubic + inPlane + "+distance(p1, p2);" + projection),
                        makeForce(cubic + inPlane + "+z1;" + projection),
                        makeForce(cubic + "pointangle(x1,y1,z1,distance(p1,p2),y2,z2,x3,y3,z3)"),
                        makeForce(cubic + "angle(p1, p2, p3)"), tabulated}) {
        const BondedStiffness bonded = find(makeSystem(force));
        ASSERT(bonded.pairs.empty() && bonded.looseAngles.empty());
    }
}

} // namespace

CHECK_CLAIMS
