/**
 * The stiffness that a CustomCompoundBondForce of one angle gives to a 1-3 distance, against differences of OpenMM's
 * energies.
 */

#include "Claims.h"
#include "openmm/Context.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/Platform.h"
#include "openmm/TabulatedFunction.h"
#include "openmm/VerletIntegrator.h"
#include "setup/PenalizedPairs.h"
#include <cmath>
#include <map>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using std::string;
using std::vector;

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
    System system;
    for (double mass : {12.0, 16.0, 1.0, 14.0})
        system.addParticle(mass);
    system.addForce(force);
    return system;
}

/** A trigonal molecule, its vertex at a height above the plane, the first end turned by an angle about the axis. */
vector<Vec3> makePositions(double height, double turn = 0) {
    const double angles[] = {-2.1, 0.15 + turn, 2.2}, lengths[] = {0.123, 0.101, 0.134};
    vector<Vec3> positions = {Vec3(0.1, 0.2, 0.3 + height)};
    for (int i = 0; i < 3; i++)
        positions.push_back(Vec3(0.1 + lengths[i] * std::cos(angles[i]), 0.2 + lengths[i] * std::sin(angles[i]), 0.3));
    return positions;
}

BondedStiffness compute(const System& system, const vector<Vec3>& positions,
                        const std::map<string, double>& globals = {{"scale", 1}}) {
    BondedStiffness bonded(system, -1, "SomeIntegrator");
    bonded.compute(system, {positions, {}, globals});
    return bonded;
}

/** The ends of the angle are a pair: k is V'' / (dr/dtheta)^2, the distances from the projected vertex held. */
void testInPlaneAngle() {
    const System system = makeSystem(makeForce(cubic + "pointangle(x1, y1, z1, x, y, z, x3, y3, z3);" + projection));
    VerletIntegrator integrator(0.001);
    Context context(system, integrator, Platform::getPlatform("Reference"));
    auto energy = [&](const vector<Vec3>& positions) {
        context.setPositions(positions);
        return context.getState(State::Energy).getPotentialEnergy();
    };
    for (double height : {0.0, 0.04}) {
        const double turn = 1e-3;
        const vector<Vec3> positions = makePositions(height), more = makePositions(height, turn),
                           less = makePositions(height, -turn);
        auto distance = [](const vector<Vec3>& x) { return std::sqrt((x[2] - x[3]).dot(x[2] - x[3])); };
        const double curvature = (energy(more) - 2 * energy(positions) + energy(less)) / (turn * turn),
                     slope = (distance(more) - distance(less)) / (2 * turn);
        const BondedStiffness bonded = compute(system, positions);
        ASSERT(bonded.needsGeometry());
        ASSERT_EQUAL(1, (int) bonded.pairs.size());
        ASSERT(bonded.pairs[0].particle1 == 2 && bonded.pairs[0].particle2 == 3 && !bonded.pairs[0].isBond);
        // Differences are wrong by turn^2.
        ASSERT_EQUAL_TOL(curvature / (slope * slope), bonded.stiffness[0], 1e-6);
    }
}

/** At a particle it is an ordinary angle, as that of a CustomAngleForce. */
void testAngleAtAParticle() {
    auto* angle = new CustomAngleForce("350*(d^2-0.8*d^3); d = theta-2");
    angle->addAngle(term[0], term[1], term[2]);
    const vector<Vec3> positions = makePositions(0.04);
    const BondedStiffness expected = compute(makeSystem(angle), positions),
                          found = compute(makeSystem(makeForce(cubic + "pointangle(x1,y1,z1,x2,y2,z2,x3,y3,z3)")),
                                          positions);
    ASSERT_EQUAL(1, (int) found.pairs.size());
    ASSERT_EQUAL_TOL(expected.stiffness[0], found.stiffness[0], 1e-12);
}

/** A pair needs k r^2 / 2 of 50 kJ/mol, or its particles would pass through each other: for acute angles, and others. */
void testSoftPairsAreLeftOut() {
    const double r1 = 0.11, r2 = 0.14;
    for (double theta : {1.0, 1.5, 2.2}) {
        const double squared = r1 * r1 + r2 * r2 - 2 * r1 * r2 * std::cos(theta),
                     slope = r1 * r2 * std::sin(theta) / std::sqrt(squared);
        for (double barrier : {49.0, 51.0}) {
            auto* angle = new CustomAngleForce("0.5*k*(theta-theta0)^2");
            angle->addGlobalParameter("k", 0);
            angle->addGlobalParameter("theta0", 0);
            angle->addAngle(0, 1, 2);
            const vector<Vec3> positions = {Vec3(r1, 0, 0), Vec3(), Vec3(r2 * std::cos(theta), r2 * std::sin(theta), 0),
                                            Vec3(1, 1, 1)};
            const double k = 2 * barrier / squared * slope * slope;
            const BondedStiffness bonded = compute(makeSystem(angle), positions, {{"k", k}, {"theta0", theta}});
            ASSERT_EQUAL(barrier > 50, bonded.stiffness[0] > 0);
        }
    }
}

/** Energies that depend on anything else have no pairs: wagging out of a plane, two angles, a distance besides. */
void testOtherEnergiesAreLeftOut() {
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
        const BondedStiffness bonded = compute(makeSystem(force), makePositions(0));
        ASSERT(bonded.pairs.empty());
        ASSERT(!bonded.needsGeometry());
    }
}

} // namespace

int main() {
    return checkClaims({CLAIM(testInPlaneAngle), CLAIM(testAngleAtAParticle), CLAIM(testSoftPairsAreLeftOut),
                        CLAIM(testOtherEnergiesAreLeftOut)});
}
