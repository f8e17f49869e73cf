#ifndef STIFFTEST_SYSTEMS_H_
#define STIFFTEST_SYSTEMS_H_

#include "OpenMM.h"
#include "sfmt/SFMT.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

/**
 * Systems for tests of integrators. Units are OpenMM's: nm, ps, dalton, kJ/mol.
 */
namespace stifftest {

/// The flexible TIP3P water of tip3p.xml.
constexpr double bondLength = 0.09572, bondConstant = 462750.4, waterAngle = 1.82421813418, angleConstant = 836.8;
constexpr double oxygenMass = 15.99943, hydrogenMass = 1.007947;
const double hydrogenDistance = 2 * bondLength * std::sin(0.5 * waterAngle);
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

inline double norm(const OpenMM::Vec3& v) {
    return std::sqrt(v.dot(v));
}

inline void addParticles(OpenMM::System& system, const std::vector<double>& masses) {
    for (double mass : masses)
        system.addParticle(mass);
}

/** Particles of these masses. */
inline OpenMM::System makeParticles(const std::vector<double>& masses) {
    OpenMM::System system;
    addParticles(system, masses);
    return system;
}

struct HarmonicBond {
    int i, j;
    double length, k;
};
inline OpenMM::HarmonicBondForce& addBonds(OpenMM::System& system, const std::vector<HarmonicBond>& bonds) {
    auto* force = new OpenMM::HarmonicBondForce();
    for (const auto& [i, j, length, k] : bonds)
        force->addBond(i, j, length, k);
    system.addForce(force);
    return *force;
}

/**
 * Add a CustomExternalForce on some particles, or on all.
 *
 * @param energy    where m is the mass of the particle
 * @param globals   the defaults of its parameters
 */
inline OpenMM::CustomExternalForce& addExternal(OpenMM::System& system, const std::string& energy,
                                                const std::map<std::string, double>& globals = {},
                                                std::vector<int> particles = {}) {
    auto* force = new OpenMM::CustomExternalForce(energy);
    force->addPerParticleParameter("m");
    for (const auto& [name, value] : globals)
        force->addGlobalParameter(name, value);
    for (int i = 0; particles.empty() && i < system.getNumParticles(); i++)
        force->addParticle(i, {system.getParticleMass(i)});
    for (int i : particles)
        force->addParticle(i, {system.getParticleMass(i)});
    system.addForce(force);
    return *force;
}

/**
 * Add a chain of atoms to a Model, which act on nothing else, and call join(i, j) for neighbours.
 *
 * @param zigzag   the way from one to the next, of which the second component is there and back, the third in threes
 */
template <class Join>
void addChain(Model& model, int numAtoms, double mass, Join&& join, const OpenMM::Vec3& origin = OpenMM::Vec3(1, 0, 0),
              const OpenMM::Vec3& zigzag = OpenMM::Vec3(0.13, 0.08, 0.02)) {
    for (int i = 0; i < numAtoms; i++) {
        const int atom = model.system.addParticle(mass);
        model.positions.push_back(origin + OpenMM::Vec3(zigzag[0] * i, zigzag[1] * (i % 2), zigzag[2] * (i % 3)));
        for (int force = 0; force < model.system.getNumForces(); force++)
            if (auto* nonbonded = dynamic_cast<OpenMM::NonbondedForce*>(&model.system.getForce(force)))
                nonbonded->addParticle(0, 0.3, 0);
        if (i > 0)
            join(atom - 1, atom);
    }
}

/** Add one with harmonic bonds and angles. */
inline void addFlexibleChain(Model& model, int numAtoms) {
    const int first = model.system.getNumParticles();
    std::vector<HarmonicBond> bonds;
    auto* angles = new OpenMM::HarmonicAngleForce();
    addChain(model, numAtoms, 14, [&](int i, int j) {
        bonds.push_back({i, j, 0.153, 200000});
        if (i > first)
            angles->addAngle(i - 1, i, j, 2.05, 500);
    });
    addBonds(model.system, bonds);
    model.system.addForce(angles);
}

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
inline Model makeWaterCluster(int numSide, bool rigid = false) {
    Model model;
    auto* bonds = new OpenMM::HarmonicBondForce();
    auto* angles = new OpenMM::HarmonicAngleForce();
    auto* nonbonded = new OpenMM::NonbondedForce();
    for (int i = 0; i < numSide * numSide * numSide; i++) {
        const OpenMM::Vec3 origin(0.31 * (i % numSide), 0.31 * (i / numSide % numSide), 0.31 * (i / numSide / numSide));
        for (const OpenMM::Vec3& site : waterGeometry(origin, 1.3 * i))
            model.positions.push_back(site);
        const int o = model.system.addParticle(oxygenMass), h1 = o + 1, h2 = o + 2;
        nonbonded->addParticle(-0.834, 0.315075240658, 0.635968);
        for (int h : {h1, h2}) {
            model.system.addParticle(hydrogenMass);
            nonbonded->addParticle(0.417, 1, 0);
            nonbonded->addException(o, h, 0, 1, 0);
            if (rigid)
                model.system.addConstraint(o, h, bondLength);
            else
                bonds->addBond(o, h, bondLength, bondConstant);
        }
        nonbonded->addException(h1, h2, 0, 1, 0);
        if (rigid)
            model.system.addConstraint(h1, h2, hydrogenDistance);
        else
            angles->addAngle(h1, o, h2, waterAngle, angleConstant);
    }
    model.system.addForce(bonds);
    model.system.addForce(angles);
    model.system.addForce(nonbonded);
    return model;
}

/** Flexible waters that do not act on each other. */
inline Model makeLoneWaters(int numSide) {
    Model model = makeWaterCluster(numSide);
    model.system.removeForce(2);
    return model;
}

/** Add a methanol to a Model of waters, with the bonds and angles of a united force field, and charges. */
inline void addMethanol(Model& model, const OpenMM::Vec3& origin) {
    const double masses[] = {12.011, 15.999, 1.008, 1.008, 1.008, 1.008};
    const double charges[] = {0.12, -0.6, 0.42, 0.02, 0.02, 0.02};
    const OpenMM::Vec3 places[] = {{0, 0, 0},          {0.141, 0, 0},           {0.172, 0.091, 0},
                                   {-0.036, 0.103, 0}, {-0.036, -0.051, 0.089}, {-0.036, -0.051, -0.089}};
    auto& bonds = dynamic_cast<OpenMM::HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<OpenMM::HarmonicAngleForce&>(model.system.getForce(1));
    auto& nonbonded = dynamic_cast<OpenMM::NonbondedForce&>(model.system.getForce(2));
    const int first = model.system.getNumParticles();
    for (int i = 0; i < 6; i++) {
        model.system.addParticle(masses[i]);
        nonbonded.addParticle(charges[i], i < 2 ? 0.31 : 0.1, i < 2 ? 0.4 : 0);
        model.positions.push_back(origin + places[i]);
        for (int j = 0; j < i; j++)
            nonbonded.addException(first + j, first + i, 0, 1, 0);
    }
    auto addBond = [&](int i, int j, double k) {
        bonds.addBond(first + i, first + j, 1.01 * norm(places[j] - places[i]), k);
    };
    auto addAngle = [&](int i, int j, int k) {
        const OpenMM::Vec3 a = places[i] - places[j], b = places[k] - places[j];
        angles.addAngle(first + i, first + j, first + k, std::acos(a.dot(b) / (norm(a) * norm(b))) - 0.02, 400);
    };
    addBond(0, 1, 267776);
    addBond(1, 2, 462750);
    addAngle(0, 1, 2);
    for (int h = 3; h < 6; h++) {
        addBond(0, h, 284512);
        addAngle(1, 0, h);
        for (int other = 3; other < h; other++)
            addAngle(h, 0, other);
    }
}

/** Add an alkane whose bonds to hydrogens may be constraints, with a bond at its end to a particle that never moves. */
inline void addAlkane(Model& model, int numCarbons, const OpenMM::Vec3& origin, bool constrained = false,
                      bool anchored = false) {
    auto& bonds = dynamic_cast<OpenMM::HarmonicBondForce&>(model.system.getForce(0));
    auto& angles = dynamic_cast<OpenMM::HarmonicAngleForce&>(model.system.getForce(1));
    auto& nonbonded = dynamic_cast<OpenMM::NonbondedForce&>(model.system.getForce(2));
    const int first = model.system.getNumParticles();
    std::vector<std::vector<int>> neighbours(numCarbons);
    auto add = [&](double mass, const OpenMM::Vec3& place) {
        const int atom = model.system.addParticle(mass);
        nonbonded.addParticle(0, 0.1, 0);
        model.positions.push_back(origin + place);
        for (int other = first; other < atom; other++)
            nonbonded.addException(other, atom, 0, 1, 0);
        return atom;
    };
    auto bind = [&](int i, int j, double k) {
        const double length = norm(model.positions[i] - model.positions[j]), mass = model.system.getParticleMass(j);
        if (constrained && mass > 0 && mass < 2)
            model.system.addConstraint(i, j, length);
        else if (j > i)
            bonds.addBond(i, j, 1.01 * length, k);
        neighbours[i - first].push_back(j);
    };
    const double rise = 0.0888, run = 0.1255;
    for (int i = 0; i < numCarbons; i++)
        add(12.011, OpenMM::Vec3(run * i, 0, rise * (i % 2)));
    for (int i = 0; i < numCarbons; i++) {
        const double up = (i % 2 == 0 ? -1 : 1);
        const OpenMM::Vec3 carbon(run * i, 0, rise * (i % 2));
        for (int side : {-1, 1}) {
            bind(first + i, add(1.008, carbon + OpenMM::Vec3(0, 0.816 * side, 0.577 * up) * 0.109), 284512);
            if (i + side >= 0 && i + side < numCarbons)
                bind(first + i, first + i + side, 224262);
            else
                bind(first + i, add(1.008, carbon + OpenMM::Vec3(0.816 * side, 0, -0.577 * up) * 0.109), 284512);
        }
    }
    if (anchored)
        bind(first, add(0, OpenMM::Vec3(-0.05, -0.12, 0.05)), 200000);
    for (int i = 0; i < numCarbons; i++)
        for (int j : neighbours[i])
            for (int k : neighbours[i])
                if (j < k) {
                    const OpenMM::Vec3 a = model.positions[j] - model.positions[first + i],
                                       b = model.positions[k] - model.positions[first + i];
                    angles.addAngle(j, first + i, k, std::acos(a.dot(b) / (norm(a) * norm(b))) - 0.01, 400);
                }
}

/** A chain of three charged atoms with bonds alone, beside rigid waters, which come first. */
inline Model makeSoluteInRigidWater() {
    Model model = makeWaterCluster(2, true);
    const int first = model.system.getNumParticles();
    auto& nonbonded = dynamic_cast<OpenMM::NonbondedForce&>(model.system.getForce(2));
    std::vector<HarmonicBond> bonds;
    auto join = [&](int i, int j) { bonds.push_back({i, j, 0.15, 250000}); };
    addChain(model, 3, 12, join, OpenMM::Vec3(1, 0.2, 0.3), OpenMM::Vec3(0.14, 0, 0));
    for (int i = 0; i < 3; i++) {
        nonbonded.setParticleParameters(first + i, 0.1 * (i - 1), 0.3, 0.4);
        for (int j = 0; j < i; j++)
            nonbonded.addException(first + i, first + j, 0, 1, 0);
    }
    addBonds(model.system, bonds);
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

/** Add an external field that is neither linear nor separable. */
inline void addField(Model& model) {
    addExternal(model.system, "300*x*y + 200*sin(8*z) + 2000*x*z^2");
}

/** A flexible water in this field. */
inline Model makeWaterInField() {
    Model model = makeLoneWaters(1);
    addField(model);
    model.positions[1] += OpenMM::Vec3(0.003, -0.002, 0.001);
    model.positions[2] += OpenMM::Vec3(-0.002, 0.004, 0.003);
    return model;
}

/** Carbon dioxide, exactly straight, in this field. */
inline Model makeStraightMoleculeInField() {
    Model model;
    addParticles(model.system, {15.999, 12.011, 15.999});
    addBonds(model.system, {{0, 1, 0.116, 800000}, {2, 1, 0.116, 800000}});
    auto* angles = new OpenMM::HarmonicAngleForce();
    angles->addAngle(0, 1, 2, M_PI, 450);
    model.system.addForce(angles);
    addField(model);
    model.positions = {OpenMM::Vec3(-0.117, 0, 0), OpenMM::Vec3(), OpenMM::Vec3(0.1155, 0, 0)};
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
    addExternal(model.system, "50*(x^2+y^2+z^2)");
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
        OpenMM::System system = makeParticles(masses);
        for (const auto& [i, j] : pairs)
            system.addConstraint(i, j, norm(positions[j] - positions[i]));
        addExternal(system, "20*(x^2+y^2+z^2) + 30*sin(5*x)*z");
        return system;
    }
};

inline std::vector<DependentConstraints> makeDependentConstraints() {
    // Cholesterol of Martini 2 (Melo et al. 2015): two triangles with a common edge, nearly in a plane.
    DependentConstraints cholesterol = {
            "cholesterol",
            {77.22, 38.69, 159.65, 39.44},
            {{-0.08801, 0.48244, 0}, {0, 0, 0}, {0.2719, 0, 0}, {0.56759, -0.44889, 0.00898}},
            {{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}}};
    DependentConstraints four = {"four atoms, six constraints", {12, 12, 12, 12}, {}, {}};
    four.positions = {{0, 0, 0}, {0.14, 0, 0}, {0.15, 0.13, 0.02}, {-0.01, 0.14, -0.02}};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            four.pairs.push_back({j, i});
    // A chair of six: bonds and 1-3 distances make it rigid already, 1-4 distances are three too many.
    DependentConstraints ring = {"ring, 15 constraints on 12 freedoms", std::vector<double>(6, 12), {}, {}};
    for (int i = 0; i < 6; i++) {
        const double angle = i * M_PI / 3;
        ring.positions.push_back({0.145 * std::cos(angle), 0.145 * std::sin(angle), i % 2 == 0 ? 0.025 : -0.025});
        for (int next : {1, 2})
            ring.pairs.push_back({i, (i + next) % 6});
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
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++)
        largest = std::max(largest, norm(a[i] - b[i]));
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

/**
 * Platform properties with which two runs repeat each other bit for bit. The CPU platform's nonbonded forces depend
 * on the timing of its threads, even with DeterministicForces, unless there is only one.
 */
inline std::map<std::string, std::string> deterministic(OpenMM::Platform& platform) {
    if (platform.getName() == "CPU")
        return {{"DeterministicForces", "true"}, {"Threads", "1"}};
    return {};
}

/** Positions some steps after those of a Model, from rest. */
inline std::vector<OpenMM::Vec3> stepFromRest(const Model& model, OpenMM::Integrator& integrator, int numSteps,
                                              OpenMM::Platform& platform) {
    ModelContext context(model, integrator, platform, deterministic(platform));
    integrator.step(numSteps);
    return getPositions(context);
}

inline double kineticEnergy(const OpenMM::Context& context) {
    return context.getState(OpenMM::State::Energy).getKineticEnergy();
}

inline double totalEnergy(const OpenMM::Context& context) {
    const OpenMM::State state = context.getState(OpenMM::State::Energy);
    return state.getKineticEnergy() + state.getPotentialEnergy();
}

/** Bring a Context into the state of another one, through a checkpoint. */
inline void copyState(OpenMM::Context& from, OpenMM::Context& to) {
    std::stringstream checkpoint;
    from.createCheckpoint(checkpoint);
    to.loadCheckpoint(checkpoint);
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
        const double relative = std::abs(norm(x[j] - x[i]) / distance - 1);
        largest = (relative <= largest ? largest : relative);
    }
    return largest;
}

} // namespace stifftest

#endif /* STIFFTEST_SYSTEMS_H_ */
