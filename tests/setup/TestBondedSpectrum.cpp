/**
 * Which distances carry an inertia and what is made heavier, by the bonded forces of a System alone: with what geometry
 * and calculus say of small molecules.
 */

#include "SystemTest.h"
#include "setup/BondedSpectrum.h"
#include <ctime>

namespace {

const double pi = 3.14159265358979323846, bondLength = 0.14, bondConstant = 3e5, angleConstant = 500;

/** A System in the making; its forces are those of bonds, angles and torsions. */
struct Builder {
    System system;
    HarmonicBondForce* bonds = new HarmonicBondForce();
    HarmonicAngleForce* angles = new HarmonicAngleForce();
    PeriodicTorsionForce* torsions = new PeriodicTorsionForce();

    Builder() {
        system.addForce(bonds);
        system.addForce(angles);
        system.addForce(torsions);
    }
    int add(double mass) {
        return system.addParticle(mass);
    }
    void bond(int i, int j, double length = bondLength) {
        bonds->addBond(i, j, length, bondConstant);
    }
    void angle(int i, int j, int k, double theta) {
        angles->addAngle(i, j, k, theta, angleConstant);
    }
    /** A zigzag chain of carbons; with a constant other than 0 torsions hold it in a plane. */
    void addChain(int size, double ofTorsions) {
        for (int i = 0; i < size; i++) {
            add(12);
            if (i > 0)
                bond(i, i - 1);
            if (i > 1)
                angle(i, i - 1, i - 2, 1.9);
            if (i > 2 && ofTorsions > 0)
                torsions->addTorsion(i, i - 1, i - 2, i - 3, 2, pi, ofTorsions);
        }
    }
    /** A regular ring of carbons; a torsion with this constant makes it flat. */
    void addRing(int size, double ofTorsions) {
        const int first = system.getNumParticles();
        auto place = [&](int k) { return first + k % size; };
        for (int k = 0; k < size; k++)
            add(12);
        const double theta = (ofTorsions > 0 ? pi * (size - 2) / size : 1.75);
        for (int k = 0; k < size; k++) {
            bond(place(k), place(k + 1));
            angle(place(k), place(k + 1), place(k + 2), theta);
            if (ofTorsions > 0)
                torsions->addTorsion(place(k), place(k + 1), place(k + 2), place(k + 3), 2, pi, ofTorsions);
            else
                torsions->addTorsion(place(k), place(k + 1), place(k + 2), place(k + 3), 3, 0, 1);
        }
    }
};

const string name = "SomeIntegrator";
using Globals = std::map<string, double>;

/** That of a System, with what it refers to. */
struct Spectrum {
    const System& system;
    const vector<PairInertia> constraints;
    const BondedStiffness bonded;
    const BondGraph graph;
    const BondedSpectrum spectrum;

    explicit Spectrum(const System& system, const Globals& globals = {}, const Spectrum* previous = nullptr)
            : system(system), constraints(readConstraints(system)), bonded(system, constraints, -1, globals, name),
              graph(system, constraints, &bonded),
              spectrum(system, graph, -1, globals, name, previous ? &previous->spectrum : nullptr) {
    }
    PairTerms choose(double shortest, const vector<PairInertia>& given = {}, const vector<PairInertia>& givenBonds = {},
                     double inertia = 0, int mostPairs = 0) const {
        const double period = 0.192; // ps
        return spectrum.choose(choosePairs(system, constraints, &bonded, given, period, name),
                               chooseBonds(system, graph, inertia, true, givenBonds, name), shortest, mostPairs);
    }
};

PairTerms choose(const System& system, double shortest = 0, const vector<PairInertia>& given = {},
                 const vector<PairInertia>& givenBonds = {}, double inertia = 0, int mostPairs = 0) {
    return Spectrum(system).choose(shortest, given, givenBonds, inertia, mostPairs);
}

/** What each particle, or bond of a hydrogen by the hydrogen, has got. */
std::map<int, double> inertiasOf(const PairTerms& terms) {
    std::map<int, double> found;
    for (const PairInertia& bond : terms.bonds)
        found[bond.particle2 < 0 ? bond.particle1 : bond.particle2] = bond.inertia;
    return found;
}

/** In a plane n particles have 2 n - 3 distances that are independent, in space 3 n - 6: a ring has as many, or 2 n. */
CLAIM(testSurplusDistancesOfFlatRingsAreLeftOut) {
    for (int size : {5, 6}) {
        Builder flat, bent;
        flat.addRing(size, 30);
        bent.addRing(size, 0);
        ASSERT_EQUAL(2 * size - 3, (int) choose(flat.system).pairs.size());
        ASSERT_EQUAL(std::min(2 * size, 3 * size - 6), (int) choose(bent.system).pairs.size());
    }
}

/** Bonds come before the distances of angles, stiffer ones of these first, and what a user has given stays. */
CLAIM(testStifferDistancesStayAndGivenOnes) {
    Builder center; // flat, with three neighbours: of three angles one is surplus
    for (double mass : {12.0, 16.0, 14.0, 12.0})
        center.add(mass);
    for (int i : {1, 2, 3})
        center.bond(0, i);
    center.angles->addAngle(1, 0, 2, 2 * pi / 3, 500);
    center.angles->addAngle(2, 0, 3, 2 * pi / 3, 300);
    center.angles->addAngle(3, 0, 1, 2 * pi / 3, 400);
    auto distances = [&](const vector<PairInertia>& given) {
        std::set<std::pair<int, int>> found;
        for (const PairInertia& pair : choose(center.system, 0, given).pairs)
            found.insert(stiffcore::ordered(pair.particle1, pair.particle2));
        return found;
    };
    const std::set<std::pair<int, int>> bonds = {{0, 1}, {0, 2}, {0, 3}};
    auto with = [&](vector<std::pair<int, int>> others) {
        auto all = bonds;
        all.insert(others.begin(), others.end());
        return all;
    };
    ASSERT(distances({}) == with({{1, 2}, {1, 3}}));
    ASSERT(distances({{3, 2, 50}}) == with({{1, 2}, {2, 3}}));
}

/**
 * The bending of a straight molecule, whose omega^2 is k (1/m1 + 1/m3 + 4/m2) / l^2, takes as many steps as it is to;
 * 180 degrees may be rounded, as in Amber's files.
 */
CLAIM(testWhatIsTooFastIsMadeHeavierByAsMuch) {
    for (double theta : {pi, 3.141594, 3.14159}) {
        Builder dioxide;
        for (double mass : {16.0, 12.0, 16.0})
            dioxide.add(mass);
        dioxide.bond(0, 1, 0.116);
        dioxide.bond(1, 2, 0.116);
        dioxide.angles->addAngle(0, 1, 2, theta, 900);
        auto limitWith = [](std::map<int, double> added) {
            return 2 * 0.116 / std::sqrt(900 * (1 / (16 + added[0]) + 1 / (16 + added[2]) + 4 / (12 + added[1])));
        };
        for (double shortest : {0.008, 0.0128, 0.0192}) {
            const std::map<int, double> added = inertiasOf(choose(dioxide.system, shortest));
            if (limitWith({}) > shortest) {
                ASSERT(added.empty());
            }
            else
                ASSERT_EQUAL_TOL(shortest, limitWith(added), 5e-3);
        }
        ASSERT(choose(dioxide.system).bonds.empty());
        // What is given is as it is given, and others are the heavier for it.
        const PairTerms terms = choose(dioxide.system, 0.0128, {}, {{1, -1, 1}});
        std::map<int, double> added = inertiasOf(terms);
        ASSERT_EQUAL(1, added[1]);
        ASSERT_EQUAL_TOL(0.0128, limitWith(added), 5e-3);
    }
}

/** A custom force counts with the values that its global parameters have, not with their defaults. */
CLAIM(testGlobalParametersCount) {
    std::map<int, double> added[2];
    for (bool custom : {false, true}) {
        Builder dioxide;
        for (double mass : {16.0, 12.0, 16.0})
            dioxide.add(mass);
        dioxide.bond(0, 1, 0.116);
        dioxide.bond(1, 2, 0.116);
        if (custom) {
            auto* bending = new CustomAngleForce("0.5*k*(theta-pi)^2; pi=3.14159265358979");
            bending->addGlobalParameter("k", 9);
            bending->addAngle(0, 1, 2);
            dioxide.system.addForce(bending);
        }
        else
            dioxide.angles->addAngle(0, 1, 2, pi, 900);
        added[custom] = inertiasOf(Spectrum(dioxide.system, {{"k", 900}}).choose(0.0192));
    }
    ASSERT_EQUAL(3, (int) added[0].size());
    for (const auto& [particle, inertia] : added[0])
        ASSERT_EQUAL_TOL(inertia, added[1].at(particle), 1e-3);
}

/** What never moves is not made heavier, whatever is too fast beside it. */
CLAIM(testFixedParticlesAreNotMadeHeavier) {
    const vector<double> masses = {12, 16, 35, 35};
    for (int fixed : {0, 1, 2, 3}) {
        Builder flat;
        for (int i = 0; i < 4; i++)
            flat.add(i == fixed ? 0 : masses[i]);
        for (int i : {1, 2, 3}) {
            flat.bond(0, i);
            flat.angle(i, 0, i % 3 + 1, 2 * pi / 3);
        }
        flat.torsions->addTorsion(1, 2, 0, 3, 2, pi, 900);
        const std::map<int, double> added = inertiasOf(choose(flat.system, 0.0192));
        ASSERT(!added.empty() && added.count(fixed) == 0);
    }
}

/**
 * An energy map counts by its curvature along an angle, the fourth root of the mean of its fourth power where it is
 * positive, with Boltzmann's weights: here k = -V'', of V = height sin(phi). Light atoms at the ends of an axis that is
 * heavy have omega^2 = 2 k / (m (l sin(theta))^2).
 */
CLAIM(testEnergyMapsCount) {
    const int size = 24;
    const double height = 15, kT = 2.5, theta = 1.9, shortest = 0.0192, light = 0.1;
    Builder chain;
    for (double mass : {light, 1e6, 1e6, light})
        chain.add(mass);
    for (int i : {0, 1, 2})
        chain.bond(i, i + 1);
    for (int i : {0, 1})
        chain.angle(i, i + 1, i + 2, theta);
    auto* maps = new CMAPTorsionForce();
    chain.system.addForce(maps);
    vector<double> energies;
    for (int i = 0; i < size * size; i++)
        energies.push_back(height * std::sin(2 * pi * (i % size) / size)); // of the first angle alone
    maps->addMap(size, energies);
    maps->addTorsion(0, 0, 1, 2, 3, 0, 1, 2, 3);

    double sum = 0, powers = 0;
    for (int i = 0; i < 3600; i++) {
        const double energy = height * std::sin(2 * pi * i / 3600), weight = std::exp(-energy / kT);
        sum += weight;
        powers += weight * std::pow(std::max(0.0, -energy), 4);
    }
    const double mass =
            std::pow(powers / sum, 0.25) * 2 / std::pow(bondLength * std::sin(theta), 2) * std::pow(shortest / 2, 2);
    const std::map<int, double> added = inertiasOf(choose(chain.system, shortest));
    ASSERT(mass > 1.3 * light);
    for (int i : {0, 3})
        ASSERT_EQUAL_TOL(mass, light + added.at(i), 1e-2);
}

/** Equal molecules have equal inertias, wherever in the System they are; and what is not equal has its own. */
CLAIM(testEqualMoleculesAreAlike) {
    Builder many;
    for (double ofTorsions : {30.0, 60.0, 30.0})
        many.addRing(6, ofTorsions);
    const std::map<int, double> added = inertiasOf(choose(many.system, 0.0192));
    for (int i = 0; i < 6; i++) {
        ASSERT_EQUAL(added.at(i), added.at(12 + i));
        ASSERT(added.at(i) < added.at(6 + i));
    }
}

/** Molecules that differ in a constraint across an angle alone have each the inertias that it has by itself. */
CLAIM(testConstraintsAcrossAnglesTellMoleculesApart) {
    auto addTo = [](Builder& builder, double theta) {
        const int first = builder.system.getNumParticles();
        for (int k = 0; k < 4; k++)
            builder.add(12);
        for (int k = 0; k < 3; k++)
            builder.bond(first + k, first + k + 1);
        builder.angle(first + 1, first + 2, first + 3, 1.9);
        builder.bond(first + 1, builder.add(16), 0.13);
        for (int end : {0, 2})
            builder.angle(first + end, first + 1, first + 4, 2.05);
        builder.torsions->addTorsion(first, first + 2, first + 1, first + 4, 2, pi, 300);
        builder.system.addConstraint(first, first + 2, 2 * bondLength * std::sin(theta / 2));
    };
    auto inertiasWith = [&](const vector<double>& angles) {
        Builder builder;
        for (double theta : angles)
            addTo(builder, theta);
        return inertiasOf(choose(builder.system, 0.0192));
    };
    const double small = 1.6, large = 2.3;
    const std::map<int, double> both = inertiasWith({small, large});
    std::map<int, double> alone = inertiasWith({small});
    for (const auto& [particle, inertia] : inertiasWith({large}))
        alone[5 + particle] = inertia;
    ASSERT(both == alone);
    ASSERT(alone.at(4) != alone.at(9));
}

/**
 * After a change of parameters, inertias are those of a spectrum that is made anew, and molecules that are the same are
 * not looked at again.
 */
CLAIM(testMoleculesThatHaveNotChangedAreTakenOver) {
    const double shortest = 0.03, none = std::numeric_limits<double>::quiet_NaN();
    Builder builder;
    builder.addChain(100, 60);
    builder.addRing(6, 30);
    auto* pulling = new CustomBondForce("0.5*share*k*(r-length)^2");
    pulling->addPerBondParameter("share");
    pulling->addGlobalParameter("k", 0);
    pulling->addGlobalParameter("length", 0);
    pulling->addBond(0, 99, {0.001}); // too soft to count
    pulling->addBond(100, 101, {1});
    builder.system.addForce(pulling);
    Globals globals = {{"k", 1000}, {"length", bondLength}};
    const Spectrum first(builder.system, globals);
    const PairTerms before = first.choose(shortest);
    auto change = [&](const std::function<void()>& parameters) {
        parameters();
        std::clock_t start = std::clock();
        const Spectrum anew(builder.system, globals);
        const PairTerms expected = anew.choose(shortest);
        const std::clock_t ofAll = std::clock() - start;
        start = std::clock();
        const Spectrum next(builder.system, globals, &first);
        const PairTerms found = next.choose(shortest);
        ASSERT(5 * (std::clock() - start) < ofAll);
        ASSERT(found == expected);
        ASSERT(found == next.choose(shortest));
        ASSERT(next.choose(2 * shortest) == anew.choose(2 * shortest));
        return found == before;
    };
    ASSERT(change([] {}));
    ASSERT(!change([&] { globals["k"] = 3e5; }));
    ASSERT(!change([&] { globals["length"] = 0.15; }));
    change([&] { globals["length"] = none; });
    ASSERT(!change([&] { builder.torsions->setTorsionParameters(100, 100, 101, 102, 103, 2, pi, 90); }));

    // What comes back, as in replica exchange, is known.
    builder.torsions->setTorsionParameters(0, 3, 2, 1, 0, 2, pi, 90);
    std::clock_t start = std::clock();
    const Spectrum other(builder.system, globals, &first);
    other.choose(shortest);
    const std::clock_t ofOther = std::clock() - start;
    builder.torsions->setTorsionParameters(0, 3, 2, 1, 0, 2, pi, 60);
    start = std::clock();
    Spectrum(builder.system, globals, &other).choose(shortest);
    ASSERT(5 * (std::clock() - start) < ofOther);
}

/**
 * After a change of one term only the pieces that it reaches into are looked at again, one within a piece or in a ring,
 * or two next to each other; and inertias are those of a spectrum that is made anew, to the bit.
 */
CLAIM(testPiecesThatAChangeDoesNotReachAreTakenOver) {
    const int size = 120;
    Builder builder;
    builder.addChain(size, 60);
    for (int t = 0; t < size - 3; t++) // so that no two pieces are alike
        builder.torsions->setTorsionParameters(t, t + 3, t + 2, t + 1, t, 2, pi, 60 + t);
    builder.addRing(6, 30);
    builder.bond(size - 1, size);
    builder.angle(size - 2, size - 1, size, 1.9);
    auto* steering = new CustomTorsionForce("k*(1-cos(theta-theta0))");
    steering->addGlobalParameter("k", 0);
    steering->addGlobalParameter("theta0", 0);
    steering->addTorsion(58, 59, 60, 61, {});
    builder.system.addForce(steering);
    Globals globals = {{"k", 50}, {"theta0", 0}};
    vector<std::unique_ptr<Spectrum>> all;
    auto change = [&](const std::function<void()>& parameters) {
        parameters();
        const int before = all.empty() ? 0 : all.back()->spectrum.countPieces();
        all.push_back(std::make_unique<Spectrum>(builder.system, globals, all.empty() ? nullptr : all.back().get()));
        const Spectrum anew(builder.system, globals);
        for (int mostPairs : {0, 24})
            for (double shortest : {0.0192, 0.03}) {
                const PairTerms found = all.back()->choose(shortest, {}, {}, 0, mostPairs);
                ASSERT(found == anew.choose(shortest, {}, {}, 0, mostPairs));
                ASSERT(!found.bonds.empty());
            }
        return all.back()->spectrum.countPieces() - before;
    };
    ASSERT_EQUAL(4, change([] {})); // of 40 particles, and the ring
    auto stiffen = [&](int torsion) {
        int p[4], n;
        double phase, k;
        builder.torsions->getTorsionParameters(torsion, p[0], p[1], p[2], p[3], n, phase, k);
        builder.torsions->setTorsionParameters(torsion, p[0], p[1], p[2], p[3], n, phase, k + 7);
    };
    ASSERT_EQUAL(1, change([&] { stiffen(20); }));
    ASSERT_EQUAL(2, change([&] { stiffen(38); })); // across the bond between two pieces
    ASSERT_EQUAL(1, change([&] { stiffen(size - 3); }));
    for (double theta0 : {0.1, 0.2})
        ASSERT_EQUAL(1, change([&] { globals["theta0"] = theta0; }));
    ASSERT_EQUAL(0, change([&] { globals["theta0"] = 0.1; }));
    ASSERT_EQUAL(1, change([&] { builder.bonds->setBondParameters(5, 5, 6, bondLength, 1.1 * bondConstant); }));
}

/** A long chain is looked at in pieces: atoms in the middle get as much as those of one piece. */
CLAIM(testLargeMoleculesAreDivided) {
    auto addedTo = [](int size) {
        Builder chain;
        chain.addChain(size, 60);
        return inertiasOf(choose(chain.system, 0.03));
    };
    const std::map<int, double> few = addedTo(13), many = addedTo(100);
    ASSERT(few.at(6) > 1);
    for (int i : {25, 50, 75})
        ASSERT_EQUAL_TOL(few.at(6), many.at(i), 0.25);
}

/** Elastic networks, in which all is near to all, are looked at piece by piece, too, and quickly. */
CLAIM(testElasticNetworksAreDivided) {
    const int side = 6;
    Builder network;
    vector<Vec3> places;
    for (int i = 0; i < side * side * side; i++) {
        places.push_back(Vec3(0.4 * (i % side), 0.4 * (i / side % side), 0.4 * (i / side / side)));
        network.add(72);
        for (int j = 0; j < i; j++)
            if (const double length = norm(places[i] - places[j]); length < 0.9)
                network.bonds->addBond(i, j, length, 500);
    }
    const std::clock_t start = std::clock();
    const PairTerms terms = choose(network.system, 0.032);
    ASSERT(terms.pairs.empty() && terms.bonds.empty());
    ASSERT(std::clock() - start < 10 * CLOCKS_PER_SEC);
}

/** A sheet of carbons that is bonded across the periodic box, where all atoms are alike. */
Builder makeSheet(int width, int height) {
    Builder sheet;
    auto place = [&](int x, int y) { return (y + height) % height * width + (x + width) % width; };
    for (int i = 0; i < width * height; i++)
        sheet.add(12);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            // As in a wall of bricks: each atom is bonded to those at its sides, and to one above or below.
            const int i = place(x, y), above = place(x, y + ((x + y) % 2 == 0 ? 1 : -1)), next = place(x + 1, y),
                      last = place(x - 1, y);
            sheet.bond(i, next);
            if ((x + y) % 2 == 0)
                sheet.bond(i, above);
            sheet.angle(last, i, next, 2 * pi / 3);
            sheet.angle(last, i, above, 2 * pi / 3);
            sheet.angle(next, i, above, 2 * pi / 3);
            sheet.torsions->addTorsion(last, next, i, above, 2, pi, 5);
            const int side = (x + y) % 2 == 0 ? -1 : 1;
            for (int j : {last, above})
                for (int k : {place(x + 2, y), place(x + 1, y + side)})
                    sheet.torsions->addTorsion(j, i, next, k, 2, pi, 15);
        }
    return sheet;
}

/** Such a sheet is looked at in pieces that do not reach around the box: no atom gets much more than another. */
CLAIM(testPeriodicSheetsHaveNoEdge) {
    for (const auto& [width, height] : {std::pair(20, 12), std::pair(24, 14)}) {
        const Builder sheet = makeSheet(width, height);
        const std::map<int, double> inertias = inertiasOf(choose(sheet.system, 0.0192));
        ASSERT_EQUAL(width * height, (int) inertias.size());
        for (const auto& [particle, inertia] : inertias)
            ASSERT(inertia > 12 && inertia < 26);
    }
}

/**
 * Where a chain is cut, its atoms are heavier in place of the pairs between blocks: the atoms of a bond that is cut, which
 * alone would be too fast, and by less than they would have to be alone, as their blocks are heavy.
 */
CLAIM(testAtomsAreHeavierWhereMoleculesAreCut) {
    Builder chain;
    const int size = 24, most = 9;
    chain.addChain(size, 0);
    const PairTerms whole = choose(chain.system, 0.0192, {}, {}, 0, 0),
                    cut = choose(chain.system, 0.0192, {}, {}, 0, most);
    ASSERT_EQUAL(2 * size - 3, (int) whole.pairs.size());
    ASSERT(whole.bonds.empty());
    std::set<std::pair<int, int>> kept;
    for (const PairInertia& pair : cut.pairs)
        kept.insert({pair.particle1, pair.particle2});
    std::map<int, double> added = inertiasOf(cut);
    int numCut = 0;
    for (int i = 1; i < size; i++) {
        if (kept.count({i - 1, i}))
            continue;
        numCut++;
        // Alone, the two atoms would have omega^2 = k (1/m1 + 1/m2); with their blocks they are heavier.
        const double alone = 2 / std::sqrt(bondConstant * 2 / 12);
        ASSERT(alone < 0.0192 && added[i - 1] > 0 && added[i] > 0);
        ASSERT(added[i] < 12 * (std::pow(0.0192 / alone, 2) - 1));
    }
    ASSERT(numCut >= 3);
    // Nothing is cut where nothing is made heavier.
    ASSERT_EQUAL(whole.pairs.size(), choose(chain.system, 0, {}, {}, 0, most).pairs.size());
}

/**
 * Where nothing holds bonds at an angle they may stand at a right one, and a bond that is cut moves its two atoms alone;
 * one that stiffens by more than twice in the course of its vibrations is not cut.
 */
CLAIM(testChainsWithoutAnglesHaveWhatTheyNeedInAnyShape) {
    const double shortest = 0.0192;
    for (const auto& [energy, isCut] :
         std::map<string, bool>{{"150000*d^2; d=r-0.14", true}, {"150000*d^2*(1-100*d+5000*d^2); d=r-0.14", false}}) {
        const int size = 40;
        System system;
        auto* bonds = new CustomBondForce(energy);
        system.addForce(bonds);
        for (int i = 0; i < size; i++) {
            system.addParticle(12);
            if (i > 0)
                bonds->addBond(i - 1, i, {});
        }
        const PairTerms found = choose(system, shortest, {}, {}, 0, 24);
        ASSERT_EQUAL(isCut ? size - 2 : size - 1, (int) found.pairs.size());
        if (!isCut)
            continue;
        std::set<int> atCut;
        for (const auto& [particle, inertia] : inertiasOf(found))
            atCut.insert(particle);
        ASSERT_EQUAL(2u, atCut.size());
        const double k = 3e5, mass = 12 + inertiasOf(found)[*atCut.begin()];
        ASSERT_EQUAL(1, *atCut.rbegin() - *atCut.begin());
        ASSERT_EQUAL_TOL(4 / (shortest * shortest), 2 * k / mass, 0.02);
    }
}

/**
 * Hydrogens of saturated carbon need less than others, and those that the System has made heavier less by their gain.
 */
CLAIM(testHydrogensNeedWhatTheyAreBoundTo) {
    const double inertia = 4;
    for (double gain : {0.0, 1.5}) {
        // Methane, chloroform, ammonium, and a carbon with three neighbours.
        for (const auto& [heavy, hydrogens, others, share] :
             {std::tuple(12.01, 4, 0, 0.35), std::tuple(12.01, 3, 1, 0.35), std::tuple(12.01, 2, 2, 0.35),
              std::tuple(12.01, 1, 3, 0.5), std::tuple(14.01, 4, 0, 1.0), std::tuple(12.01, 1, 2, 1.0)}) {
            Builder builder;
            builder.add(heavy - hydrogens * gain);
            for (int k = 0; k < others; k++)
                builder.bond(0, builder.add(35));
            for (int k = 0; k < hydrogens; k++)
                builder.bond(0, builder.add(1.008 + gain), 0.109);
            const std::map<int, double> found = inertiasOf(choose(builder.system, 0, {}, {}, inertia));
            const double expected = std::max(0.0, share * inertia - gain);
            ASSERT_EQUAL(expected > 0 ? hydrogens : 0, (int) found.size());
            for (const auto& [hydrogen, own] : found)
                ASSERT_EQUAL_TOL(expected, own, 1e-12);
        }
    }
}

/** Deuterium, whose carbon has lost nothing to it, is a hydrogen that is heavier. */
CLAIM(testDeuteriumNeedsWhatHydrogenDoes) {
    Builder methane;
    methane.add(12.011);
    for (int k = 0; k < 4; k++)
        methane.bond(0, methane.add(2.014), 0.109);
    const std::map<int, double> found = inertiasOf(choose(methane.system, 0, {}, {}, 4));
    for (int k = 1; k <= 4; k++)
        ASSERT_EQUAL_TOL(0.35 * 4 - (2.014 - 1.008), found.at(k), 1e-12);
}

/** Of constraints the one across an angle is no bond; those of a ring of three are. */
CLAIM(testConstraintsAcrossAnglesAreNoBonds) {
    for (double across : {0.1514, 0.1}) {
        System water = makeParticles({16, 1, 1});
        water.addConstraint(0, 1, 0.0957);
        water.addConstraint(0, 2, 0.0957);
        water.addConstraint(1, 2, across);
        const BondGraph graph(water, readConstraints(water), nullptr);
        ASSERT(graph.areBonded(0, 1) && graph.areBonded(0, 2));
        ASSERT_EQUAL(across < 0.15, graph.areBonded(1, 2));
    }
}

} // namespace

CHECK_CLAIMS
