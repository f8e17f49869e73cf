#ifndef STIFFTEST_SYSTEMS_H_
#define STIFFTEST_SYSTEMS_H_

#include "OpenMM.h"
#include "sfmt/SFMT.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

/**
 * Systems for tests of integrators. Units are OpenMM's: nm, ps, dalton, kJ/mol.
 */
namespace stifftest {

/// The flexible TIP3P water of tip3p.xml.
constexpr double bondLength = 0.09572, bondConstant = 462750.4, waterAngle = 1.82421813418, angleConstant = 836.8;
constexpr double oxygenMass = 15.99943, hydrogenMass = 1.007947;
/// In kJ/mol/K.
constexpr double boltzmann = 0.00831446261815324;

struct Model {
    OpenMM::System system;
    std::vector<OpenMM::Vec3> positions;
};

/** A Context for a Model, at its positions. */
struct ModelContext : OpenMM::Context {
    ModelContext(const Model& model, OpenMM::Integrator& integrator, OpenMM::Platform& platform,
                 const std::map<std::string, std::string>& properties = {})
            : Context(model.system, integrator, platform, properties) {
        setPositions(model.positions);
    }
};

/** Where the three sites of a water stand: the oxygen at the origin, turned by an angle about z and then x. */
inline std::vector<OpenMM::Vec3> waterGeometry(const OpenMM::Vec3& origin, double turn) {
    std::vector<OpenMM::Vec3> sites = {OpenMM::Vec3()};
    for (double sign : {-0.5, 0.5}) {
        const double phi = turn + sign * waterAngle;
        const double x = bondLength * std::cos(phi), y = bondLength * std::sin(phi);
        sites.push_back(OpenMM::Vec3(x, y * std::cos(2 * turn), y * std::sin(2 * turn)));
    }
    for (OpenMM::Vec3& site : sites)
        site += origin;
    return sites;
}

/**
 * Waters on a cubic grid, with the interactions of TIP3P, without cutoff.
 *
 * @param numSide   waters along each edge of the grid
 * @param rigid     with constraints instead of bonds and angles
 */
inline void addWaters(Model& model, int numSide, bool rigid = false) {
    auto* bonds = new OpenMM::HarmonicBondForce();
    auto* angles = new OpenMM::HarmonicAngleForce();
    auto* nonbonded = new OpenMM::NonbondedForce();
    const double hydrogenDistance = 2 * bondLength * std::sin(0.5 * waterAngle);
    for (int i = 0; i < numSide * numSide * numSide; i++) {
        const OpenMM::Vec3 origin(0.31 * (i % numSide), 0.31 * (i / numSide % numSide), 0.31 * (i / numSide / numSide));
        for (const OpenMM::Vec3& site : waterGeometry(origin, 1.3 * i))
            model.positions.push_back(site);
        const int o = model.system.addParticle(oxygenMass);
        const int h1 = model.system.addParticle(hydrogenMass), h2 = model.system.addParticle(hydrogenMass);
        nonbonded->addParticle(-0.834, 0.315075240658, 0.635968);
        nonbonded->addParticle(0.417, 1, 0);
        nonbonded->addParticle(0.417, 1, 0);
        nonbonded->addException(o, h1, 0, 1, 0);
        nonbonded->addException(o, h2, 0, 1, 0);
        nonbonded->addException(h1, h2, 0, 1, 0);
        if (rigid) {
            model.system.addConstraint(o, h1, bondLength);
            model.system.addConstraint(o, h2, bondLength);
            model.system.addConstraint(h1, h2, hydrogenDistance);
        }
        else {
            bonds->addBond(o, h1, bondLength, bondConstant);
            bonds->addBond(o, h2, bondLength, bondConstant);
            angles->addAngle(h1, o, h2, waterAngle, angleConstant);
        }
    }
    model.system.addForce(bonds);
    model.system.addForce(angles);
    model.system.addForce(nonbonded);
}

inline Model makeWaterCluster(int numSide, bool rigid = false) {
    Model model;
    addWaters(model, numSide, rigid);
    return model;
}

/** A chain of three charged atoms with bonds alone, beside rigid waters, which come first. */
inline Model makeSoluteInRigidWater() {
    Model model = makeWaterCluster(2, true);
    const int first = model.system.getNumParticles();
    auto* bonds = new OpenMM::HarmonicBondForce();
    auto& nonbonded = dynamic_cast<OpenMM::NonbondedForce&>(model.system.getForce(2));
    for (int i = 0; i < 3; i++) {
        model.system.addParticle(12);
        model.positions.push_back(OpenMM::Vec3(1 + 0.14 * i, 0.2, 0.3));
        nonbonded.addParticle(0.1 * (i - 1), 0.3, 0.4);
        for (int j = 0; j < i; j++)
            nonbonded.addException(first + i, first + j, 0, 1, 0);
        if (i > 0)
            bonds->addBond(first + i - 1, first + i, 0.15, 250000);
    }
    model.system.addForce(bonds);
    return model;
}

/** A water, a virtual site at 0.7, 0.15 and 0.15 of its atoms, and a massless anchor bound to its oxygen. */
inline Model makeWaterWithSiteAndAnchor() {
    Model model = makeWaterCluster(1);
    const int site = model.system.addParticle(0);
    model.system.setVirtualSite(site, new OpenMM::ThreeParticleAverageSite(0, 1, 2, 0.7, 0.15, 0.15));
    model.positions.push_back(OpenMM::Vec3());
    const int anchor = model.system.addParticle(0);
    model.positions.push_back(OpenMM::Vec3(0.05, -0.1, 0));
    auto& nonbonded = dynamic_cast<OpenMM::NonbondedForce&>(model.system.getForce(2));
    nonbonded.addParticle(-0.5, 0.3, 0);
    nonbonded.addParticle(0, 0.3, 0.2);
    for (int i = 0; i < 3; i++)
        for (int other : {site, anchor})
            nonbonded.addException(i, other, 0, 1, 0);
    dynamic_cast<OpenMM::HarmonicBondForce&>(model.system.getForce(0)).addBond(0, anchor, 0.1, 100000);
    return model;
}

/** A flexible water in an external field that is neither linear nor separable. */
inline Model makeWaterInField() {
    Model model = makeWaterCluster(1);
    model.system.removeForce(2);
    auto* field = new OpenMM::CustomExternalForce("300*x*y + 200*sin(8*z) + 2000*x*z^2");
    for (int i = 0; i < 3; i++)
        field->addParticle(i);
    model.system.addForce(field);
    model.positions[1] += OpenMM::Vec3(0.003, -0.002, 0.001);
    model.positions[2] += OpenMM::Vec3(-0.002, 0.004, 0.003);
    return model;
}

/** Carbon dioxide, exactly straight, in an external field that is neither linear nor separable. */
inline Model makeStraightMoleculeInField() {
    Model model;
    auto* bonds = new OpenMM::HarmonicBondForce();
    auto* angles = new OpenMM::HarmonicAngleForce();
    auto* field = new OpenMM::CustomExternalForce("300*x*y + 200*sin(8*z) + 2000*x*z^2");
    for (double mass : {15.999, 12.011, 15.999})
        field->addParticle(model.system.addParticle(mass));
    for (int i : {0, 2})
        bonds->addBond(i, 1, 0.116, 800000);
    angles->addAngle(0, 1, 2, M_PI, 450);
    model.system.addForce(bonds);
    model.system.addForce(angles);
    model.system.addForce(field);
    for (double x : {-0.117, 0.0, 0.1155})
        model.positions.push_back(OpenMM::Vec3(x, 0, 0));
    return model;
}

/**
 * A water with an anchor and a virtual site, bound by a harmonic bond: one of the HarmonicBondForce, or of a
 * CustomBondForce in group 1, which is not stiff by its kind.
 */
inline Model makeWaterWithBoundSite(bool harmonic) {
    Model model = makeWaterWithSiteAndAnchor();
    const int site = 3, anchor = 4;
    if (harmonic) {
        dynamic_cast<OpenMM::HarmonicBondForce&>(model.system.getForce(0)).addBond(anchor, site, 0.12, 20000);
        return model;
    }
    auto* bonds = new OpenMM::CustomBondForce("10000*(r-0.12)^2");
    bonds->addBond(anchor, site);
    bonds->setForceGroup(1);
    model.system.addForce(bonds);
    return model;
}

/** Give the NonbondedForce of a Model a cutoff: it then has no Hessian. */
inline void cutOff(Model& model) {
    for (int i = 0; i < model.system.getNumForces(); i++)
        if (auto* nonbonded = dynamic_cast<OpenMM::NonbondedForce*>(&model.system.getForce(i)))
            nonbonded->setNonbondedMethod(OpenMM::NonbondedForce::CutoffNonPeriodic);
}

/** A weak harmonic well, which keeps a cluster together. */
inline void addWell(Model& model) {
    auto* well = new OpenMM::CustomExternalForce("50*(x^2+y^2+z^2)");
    for (int i = 0; i < model.system.getNumParticles(); i++)
        well->addParticle(i);
    model.system.addForce(well);
}

/** The temperature of the centres of mass of waters, all three directions of each [K]. */
inline double centreTemperature(const std::vector<OpenMM::Vec3>& velocities) {
    const double mass = oxygenMass + 2 * hydrogenMass;
    double energy = 0;
    for (size_t o = 0; o < velocities.size(); o += 3) {
        const OpenMM::Vec3 p = velocities[o] * oxygenMass + (velocities[o + 1] + velocities[o + 2]) * hydrogenMass;
        energy += 0.5 * p.dot(p) / mass;
    }
    return 2 * energy / (velocities.size() * boltzmann);
}

/** Groups of particles whose constraints depend on each other. */
struct DependentConstraints {
    const char* name;
    std::vector<double> masses;
    std::vector<OpenMM::Vec3> positions;
    std::vector<std::array<int, 2>> pairs;

    /** The particles with the constraints, in a field. */
    OpenMM::System makeSystem() const {
        OpenMM::System system;
        for (double mass : masses)
            system.addParticle(mass);
        for (const auto& [i, j] : pairs) {
            const OpenMM::Vec3 d = positions[j] - positions[i];
            system.addConstraint(i, j, std::sqrt(d.dot(d)));
        }
        auto* field = new OpenMM::CustomExternalForce("20*(x^2+y^2+z^2) + 30*sin(5*x)*z");
        for (int i = 0; i < system.getNumParticles(); i++)
            field->addParticle(i);
        system.addForce(field);
        return system;
    }
};

inline std::vector<DependentConstraints> makeDependentConstraints() {
    // Cholesterol of Martini 2 (Melo et al. 2015): two triangles with a common edge, nearly in a plane.
    DependentConstraints cholesterol = {"cholesterol", {77.22, 38.69, 159.65, 39.44}, {}, {}};
    const double r01 = 0.4904, r02 = 0.6019, r12 = 0.2719, r13 = 0.7237, r23 = 0.5376;
    const double x0 = (r01 * r01 - r02 * r02 + r12 * r12) / (2 * r12);
    const double x3 = (r13 * r13 - r23 * r23 + r12 * r12) / (2 * r12);
    const double fold = 0.02;
    const double y3 = std::sqrt(r13 * r13 - x3 * x3);
    cholesterol.positions = {OpenMM::Vec3(x0, std::sqrt(r01 * r01 - x0 * x0), 0), OpenMM::Vec3(),
                             OpenMM::Vec3(r12, 0, 0), OpenMM::Vec3(x3, -y3 * std::cos(fold), y3 * std::sin(fold))};
    cholesterol.pairs = {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}};
    DependentConstraints four = {"four atoms, six constraints", {12, 12, 12, 12}, {}, {}};
    four.positions = {OpenMM::Vec3(), OpenMM::Vec3(0.14, 0, 0), OpenMM::Vec3(0.15, 0.13, 0.02),
                      OpenMM::Vec3(-0.01, 0.14, -0.02)};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            four.pairs.push_back({j, i});
    // A chair of six: bonds and 1-3 distances make it rigid already, 1-4 distances are three too many.
    DependentConstraints ring = {"ring, 15 constraints on 12 freedoms", std::vector<double>(6, 12), {}, {}};
    for (int i = 0; i < 6; i++) {
        ring.positions.push_back(OpenMM::Vec3(0.145 * std::cos(i * M_PI / 3), 0.145 * std::sin(i * M_PI / 3),
                                              i % 2 == 0 ? 0.025 : -0.025));
        ring.pairs.push_back({i, (i + 1) % 6});
        ring.pairs.push_back({i, (i + 2) % 6});
        if (i < 3)
            ring.pairs.push_back({i, i + 3});
    }
    return {cholesterol, four, ring};
}

/** Normally distributed numbers from a seed of their own. */
class Gaussian {
public:
    explicit Gaussian(int seed) {
        OpenMM_SFMT::init_gen_rand(seed, sfmt);
    }
    double operator()() {
        const double u = 1 - OpenMM_SFMT::genrand_real2(sfmt), w = OpenMM_SFMT::genrand_real2(sfmt);
        return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * w);
    }
    OpenMM::Vec3 vector() {
        const double x = (*this)(), y = (*this)(), z = (*this)();
        return OpenMM::Vec3(x, y, z);
    }

private:
    OpenMM_SFMT::SFMT sfmt;
};

/** Velocities from the Maxwell-Boltzmann distribution, the same on every platform. */
inline std::vector<OpenMM::Vec3> makeVelocities(const OpenMM::System& system, double temperature, int seed) {
    Gaussian gaussian(seed);
    std::vector<OpenMM::Vec3> velocities;
    for (int i = 0; i < system.getNumParticles(); i++) {
        const double mass = system.getParticleMass(i);
        const OpenMM::Vec3 xi = gaussian.vector();
        velocities.push_back(mass > 0 ? xi * std::sqrt(boltzmann * temperature / mass) : OpenMM::Vec3());
    }
    return velocities;
}

/** The largest distance between two sets of positions (or velocities). */
inline double largestDifference(const std::vector<OpenMM::Vec3>& a, const std::vector<OpenMM::Vec3>& b) {
    double largest = (a.size() == b.size() ? 0 : INFINITY);
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++) {
        const OpenMM::Vec3 d = a[i] - b[i];
        largest = std::max(largest, std::sqrt(d.dot(d)));
    }
    return largest;
}

/** The linear momentum [dalton nm/ps]. */
inline OpenMM::Vec3 momentum(const OpenMM::System& system, const std::vector<OpenMM::Vec3>& velocities) {
    OpenMM::Vec3 sum;
    for (int i = 0; i < system.getNumParticles(); i++)
        sum += velocities[i] * system.getParticleMass(i);
    return sum;
}

inline OpenMM::Vec3 angularMomentum(const OpenMM::System& system, const std::vector<OpenMM::Vec3>& x,
                                    const std::vector<OpenMM::Vec3>& velocities) {
    OpenMM::Vec3 sum;
    for (int i = 0; i < system.getNumParticles(); i++)
        sum += x[i].cross(velocities[i]) * system.getParticleMass(i);
    return sum;
}

inline std::vector<OpenMM::Vec3> getPositions(const OpenMM::Context& context) {
    return context.getState(OpenMM::State::Positions).getPositions();
}

inline std::vector<OpenMM::Vec3> getVelocities(const OpenMM::Context& context) {
    return context.getState(OpenMM::State::Velocities).getVelocities();
}

/** Evaluate the forces some times. */
inline void evaluateForces(const OpenMM::Context& context, int number) {
    for (int i = 0; i < number; i++)
        context.getState(OpenMM::State::Forces);
}

/** By how much the constraints of a System are violated at most, relative to their distances; NaN if that is. */
inline double largestViolation(const OpenMM::Context& context) {
    const OpenMM::System& system = context.getSystem();
    const std::vector<OpenMM::Vec3> x = getPositions(context);
    double largest = 0;
    for (int c = 0; c < system.getNumConstraints(); c++) {
        int i, j;
        double distance;
        system.getConstraintParameters(c, i, j, distance);
        const OpenMM::Vec3 d = x[j] - x[i];
        const double relative = std::abs(std::sqrt(d.dot(d)) / distance - 1);
        largest = (relative <= largest ? largest : relative);
    }
    return largest;
}

/** What becomes of a System's constraints at 300 K: they hold, are violated by 1e-3, or the integrator fails. */
inline std::string watchConstraints(OpenMM::Integrator& integrator, const OpenMM::System& system,
                                    const std::vector<OpenMM::Vec3>& positions, int numSteps,
                                    OpenMM::Platform& platform) {
    OpenMM::Context context(system, integrator, platform);
    context.setPositions(positions);
    context.setVelocitiesToTemperature(300, 1);
    for (int step = 1; step <= numSteps; step++)
        try {
            integrator.step(1);
            if (!(largestViolation(context) < 1e-3))
                return "is off by 1e-3 or more after " + std::to_string(step) + " steps";
        }
        catch (const std::exception&) {
            return "fails after " + std::to_string(step) + " steps";
        }
    return "holds";
}

/**
 * Platform properties with which two runs repeat each other bit for bit. The CPU platform's nonbonded forces depend
 * on the timing of its threads, even with DeterministicForces, unless there is only one.
 */
inline std::map<std::string, std::string> deterministic(OpenMM::Platform& platform) {
    if (platform.getName() == "CPU")
        return {{"DeterministicForces", "true"}, {"Threads", "1"}};
    return {};
}

} // namespace stifftest

#endif /* STIFFTEST_SYSTEMS_H_ */
