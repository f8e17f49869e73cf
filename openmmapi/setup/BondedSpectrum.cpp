#include "BondedSpectrum.h"
#include "Cuts.h"
#include "FunctionTerms.h"
#include "openmm/CMAPTorsionForce.h"
#include "openmm/CustomAngleForce.h"
#include "openmm/CustomBondForce.h"
#include "openmm/CustomCompoundBondForce.h"
#include "openmm/CustomTorsionForce.h"
#include "openmm/PeriodicTorsionForce.h"
#include "openmm/RBTorsionForce.h"
#include "openmm/internal/CMAPTorsionForceImpl.h"
#include "stiffcore/model/Sets.h"
#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stiffcore;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::string;
using std::vector;

namespace {

/// Pieces have so many atoms, if no ring is larger, and what is so many bonds around them.
const int sizeOfPiece = 14, surroundings = 3;
/// Of atoms with their surroundings, how many bonds there are at most, by their ends: elastic networks have more.
const int mostEnds = 400;
/// Rings up to this size, planar groups and what is bonded once stay together, up to so many atoms.
const int largestRing = 8, mostTogether = 40;
/// Pieces of larger systems of rings reach so many bonds from their middle; fewer atoms between them are no piece.
const int radius = 3, leftover = 4;
/// How stiff constraints are while a minimum is found, as bonds are, and what is only of help [kJ/mol/nm^2].
const double ofConstraint = 3e5, ofGuide = 1e4;
const double pi = 3.14159265358979323846;
/// Of a gradient, squared, what those before it do not determine, if it is to be a pair of its own.
const double independent = 0.02;
/// Instead of an infinite one, and of that of what never moves [dalton].
const double constraintInertia = 1e5, fixedMass = 1e9;

/** Add a block to the diagonal at i and j, and its negative between them. */
void addBetween(MatrixXd& matrix, int i, int j, const Matrix3<double>& block) {
    for (int a : {i, j})
        for (int b : {i, j})
            matrix.block<3, 3>(3 * a, 3 * b) += (a == b ? 1 : -1) * block;
}

/** Some particles of a molecule, by their places there in ascending order, with those around them. */
struct Piece {
    vector<int> places;
    vector<bool> isOwn;
    /// For each particle, which others are within three bonds.
    vector<vector<bool>> near;
    std::shared_ptr<const PieceMinimum> minimum;

    /** Where a particle is among them, or -1. */
    int find(int place) const {
        const auto found = std::lower_bound(places.begin(), places.end(), place);
        return found == places.end() || *found != place ? -1 : found - places.begin();
    }
    int size() const {
        return places.size();
    }
    Vector3<double> getDirection(int i, int j) const {
        return (minimum->positions[j] - minimum->positions[i]).normalized();
    }
};

/** Of a molecule, by the places of its particles. */
struct Inertias {
    struct Pair : PairInertia {
        /// Which of the pairs of the System.
        int index;
        bool isBond, isKept = true;
        /// In which order pairs are kept: constraints, those that are given, bonds, others.
        int rank() const {
            return isConstrained() ? 0 : isGiven ? 1 : isBond ? 2 : 3;
        }
    };
    vector<Pair> pairs, bonds;
    /// Of each particle with what is added; and whether it is a hydrogen, never moves, or has been given what is added.
    vector<double> masses;
    vector<bool> isTaken;

    vector<double> describe() const {
        vector<double> all;
        for (const auto* list : {&pairs, &bonds})
            for (const Pair& pair : *list)
                all.insert(all.end(),
                           {double(pair.particle1), double(pair.particle2), pair.inertia, double(pair.isGiven)});
        return all;
    }
};

/** A pair or a bond, with the places of its particles in a piece. */
struct Inside {
    Inertias::Pair* pair;
    int i, j;
};

} // namespace

struct BondedSpectrum::Molecule {
    vector<int> particles;
    vector<double> masses; // fixedMass of what never moves
    vector<Piece> pieces;
    /// For each particle, in which pieces it is; and the bonds that are not cut, by their places.
    vector<vector<int>> piecesOf;
    std::set<std::pair<int, int>> ofRings, stiffening;

    /** For each piece, the pairs that are in it. */
    vector<vector<Inside>> findInside(vector<Inertias::Pair>& pairs) const {
        vector<vector<Inside>> found(pieces.size());
        for (Inertias::Pair& pair : pairs)
            for (int p : piecesOf[pair.particle1])
                if (const int j = pieces[p].find(pair.particle2); j >= 0)
                    found[p].push_back({&pair, pieces[p].find(pair.particle1), j});
        return found;
    }
};

namespace {

using Molecule = BondedSpectrum::Molecule;

/** Squares of frequencies, and what moves, a column each. */
struct Motions {
    VectorXd squares;
    MatrixXd directions;
};

/**
 * Find the motions that are faster than this, among combinations of those of a basis first, if there is one; it becomes
 * that of all that are nearly as fast.
 */
Motions findFast(const MatrixXd& hessian, const MatrixXd& inertia, double fastest, MatrixXd& basis) {
    const double nearly = 0.25;
    auto select = [&](const auto& solver, double least) -> Motions {
        const VectorXd& squares = solver.eigenvalues();
        const int number = (squares.array() > least).count(); // in ascending order
        return {squares.tail(number), solver.eigenvectors().rightCols(number)};
    };
    using Solver = Eigen::GeneralizedSelfAdjointEigenSolver<MatrixXd>;
    if (basis.cols() > 0) {
        const Solver solver(basis.transpose() * hessian * basis, basis.transpose() * inertia * basis);
        Motions found = select(solver, fastest);
        if (found.squares.size() > 0)
            return {found.squares, basis * found.directions};
    }
    if (Eigen::LLT<MatrixXd>(fastest * inertia - hessian).info() == Eigen::Success)
        return {};
    const Solver solver(hessian, inertia);
    basis = select(solver, nearly * fastest).directions;
    return select(solver, fastest);
}

/**
 * Cut a molecule where bonds are softest: not in rings, nor what stiffens, a user has given, constraints and hydrogens.
 * For each particle a number of its block.
 */
vector<int> cutMolecule(const Molecule& molecule, const Inertias& inertias, int mostPairs) {
    if (mostPairs == 0)
        return vector<int>(molecule.particles.size());
    vector<Tie> ties;
    for (const Inertias::Pair& pair : inertias.pairs) {
        const auto places = ordered(pair.particle1, pair.particle2);
        if (pair.isKept)
            ties.push_back(
                    {pair.particle1, pair.particle2, pair.inertia, true, pair.isBond,
                     pair.rank() > 1 && molecule.ofRings.count(places) == 0 && molecule.stiffening.count(places) == 0});
    }
    for (const Inertias::Pair& bond : inertias.bonds)
        if (bond.particle2 >= 0)
            ties.push_back({bond.particle1, bond.particle2, 0, false, false, false});
    return cut(molecule.particles.size(), ties, mostPairs);
}

/**
 * Leave out pairs between blocks; and in these, in the order of constraints, bonds and other distances by their
 * stiffness, pairs that those before nearly determine: by what is left of their gradients in the metric of the masses,
 * beyond those of pairs within three bonds. (A whole chain is so heavy that little is left of the one by which it bends.)
 * In planar groups and cages the surplus ones see motion in second order only, and no iteration gets far there.
 */
void leaveOut(const Molecule& molecule, const vector<int>& blockOf, Inertias& inertias) {
    struct Row {
        int i, j;
        Vector3<double> u;
    };
    vector<vector<Inside>> inside = molecule.findInside(inertias.pairs);
    for (size_t k = 0; k < molecule.pieces.size(); k++) {
        const Piece& piece = molecule.pieces[k];
        vector<Row> rows; // of pairs that are kept
        auto multiply = [&](const Row& row, const Row& other) {
            auto weight = [&](int a, int b) { return a == b ? 1 / molecule.masses[piece.places[a]] : 0; };
            return (weight(row.i, other.i) + weight(row.j, other.j) - weight(row.i, other.j) - weight(row.j, other.i)) *
                   row.u.dot(other.u);
        };
        std::stable_sort(inside[k].begin(), inside[k].end(), [](const Inside& a, const Inside& b) {
            const Inertias::Pair &p = *a.pair, &q = *b.pair;
            return p.rank() != q.rank() ? p.rank() < q.rank() : p.inertia > q.inertia;
        });
        for (const auto& [pair, i, j] : inside[k]) {
            if (blockOf[pair->particle1] != blockOf[pair->particle2]) {
                pair->isKept = false;
                continue;
            }
            const Row row = {i, j, piece.getDirection(i, j)};
            auto isNear = [&near1 = piece.near[i], &near2 = piece.near[j]](int atom) {
                return near1[atom] || near2[atom];
            };
            vector<const Row*> others;
            for (const Row& other : rows)
                if (isNear(other.i) && isNear(other.j))
                    others.push_back(&other);
            const int n = others.size();
            MatrixXd A(n, n);
            VectorXd b(n);
            for (int q = 0; q < n; q++) {
                b[q] = multiply(row, *others[q]);
                for (int r = 0; r < n; r++)
                    A(q, r) = multiply(*others[q], *others[r]);
            }
            const double own = multiply(row, row), rest = own - (n > 0 ? b.dot(A.ldlt().solve(b)) : 0);
            const bool isIndependent = rest > independent * own;
            if (piece.isOwn[i])
                pair->isKept = isIndependent || pair->rank() < 2;
            if (isIndependent)
                rows.push_back(row);
        }
    }
}

/** To 17 bits: what a change of parameters does not reach shall not follow it in the last digits. */
double roundUp(double inertia) {
    int exponent;
    const double mantissa = std::frexp(inertia, &exponent), bits = 1 << 17;
    return std::ldexp(std::ceil(mantissa * bits) / bits, exponent);
}

/** Make what belongs to a piece heavier, by what its fast motions ask for; whether there is any. */
bool raise(const Molecule& molecule, const Piece& piece, const vector<Inside>& bonds, const Motions& motions,
           double fastest, Inertias& inertias) {
    const double leastShare = 0.4, leastOfAll = 0.02, mostAtOnce = 1;
    struct Candidate {
        int i, j; // -1 of a particle
        double mass;
        bool isOwn;
        double* inertia;
        double growth = 0;
    };
    vector<Candidate> candidates;
    for (int i = 0; i < piece.size(); i++) {
        const int place = piece.places[i];
        if (!inertias.isTaken[place])
            candidates.push_back({i, -1, inertias.masses[place], piece.isOwn[i], &inertias.masses[place]});
    }
    for (const auto& [bond, i, j] : bonds)
        if (!bond->isGiven)
            candidates.push_back(
                    {i, j,
                     bond->inertia + 1 / (1 / molecule.masses[bond->particle1] + 1 / molecule.masses[bond->particle2]),
                     piece.isOwn[i], &bond->inertia});
    bool grows = false;
    for (int k = 0; k < motions.squares.size(); k++) {
        const auto u = motions.directions.col(k); // of kinetic energy 1/2
        double ofOwn = 0, all = 0, squares = 0;
        vector<double> shares;
        for (const Candidate& each : candidates) {
            Vector3<double> velocity = u.segment<3>(3 * each.i);
            if (each.j >= 0)
                velocity -= u.segment<3>(3 * each.j);
            shares.push_back(each.mass * velocity.squaredNorm());
            all += shares.back();
            squares += shares.back() * shares.back();
            ofOwn += each.isOwn * shares.back();
        }
        if (!(ofOwn > leastShare * all && all > leastOfAll))
            continue; // it is another piece's, or moves what has been given
        grows = true;
        const double need = motions.squares[k] / fastest - 1;
        for (size_t c = 0; c < candidates.size(); c++)
            candidates[c].growth = std::max(candidates[c].growth, std::min(mostAtOnce, need * shares[c] / squares));
    }
    for (const Candidate& each : candidates)
        if (each.isOwn && each.growth > 0)
            *each.inertia = roundUp(*each.inertia + each.growth * each.mass);
    return grows;
}

/**
 * Make what belongs to a piece heavier where it moves too fast, in proportion to its part of the motion's kinetic
 * energy, so that to the first order of perturbation theory the motion has the period that is wanted, until no motion
 * is too fast; whether there is any.
 */
bool raisePiece(const Molecule& molecule, const Piece& piece, const vector<Inside>& bonds, const vector<Inside>& pairs,
                double fastest, Inertias& inertias) {
    const int mostRounds = 30, n = piece.size();
    MatrixXd basis;
    for (int round = 0; round < mostRounds; round++) {
        MatrixXd inertia = MatrixXd::Zero(3 * n, 3 * n);
        for (int i = 0; i < n; i++)
            inertia.diagonal().segment<3>(3 * i).array() += inertias.masses[piece.places[i]];
        for (const auto& [bond, i, j] : bonds)
            addBetween(inertia, i, j, bond->inertia * Matrix3<double>::Identity());
        for (const auto& [pair, i, j] : pairs)
            if (pair->isKept) {
                const Vector3<double> u = piece.getDirection(i, j);
                addBetween(inertia, i, j, std::min(pair->inertia, constraintInertia) * u * u.transpose());
            }
        const Motions motions = findFast(piece.minimum->hessian, inertia, fastest, basis);
        if (!raise(molecule, piece, bonds, motions, fastest, inertias))
            return round > 0;
    }
    return true;
}

} // namespace

struct BondedSpectrum::Known {
    using Kind = std::shared_ptr<const Molecule>;
    PieceMinima minima;
    /// Molecules by what tells them apart.
    std::map<vector<double>, Kind, BitOrder> kinds;
    std::map<std::pair<Kind, vector<double>>, Inertias> inertias;
    /// What becomes of a piece, by all that counts: its own masses and inertias, none if nothing is too fast.
    std::map<std::pair<std::shared_ptr<const PieceMinimum>, vector<double>>, vector<double>> raised;
    /// How many numbers have been added to these.
    size_t size = 0;

    /** Forget what is not in use when it takes much memory. Until then it may come back, as parameters set in turn. */
    void limit() {
        const size_t most = 20'000'000;
        if (size + minima.getSize() < most)
            return;
        inertias.clear();
        raised.clear();
        for (auto kind = kinds.begin(); kind != kinds.end();)
            kind = kind->second.use_count() > 1 ? std::next(kind) : kinds.erase(kind);
        minima.forgetUnused();
        size = 0;
    }

    void raise(const Molecule& molecule, double shortest, Inertias& inertias);
};

/**
 * Make heavier what moves too fast, piece by piece, until no motion is. What has been found before is taken over, as
 * after a change of parameters most of a molecule is the same.
 */
void BondedSpectrum::Known::raise(const Molecule& molecule, double shortest, Inertias& inertias) {
    const int mostSweeps = 10;
    const double fastest = 4 / (shortest * shortest) * 1.005;
    const vector<vector<Inside>> bonds = molecule.findInside(inertias.bonds),
                                 pairs = molecule.findInside(inertias.pairs);
    for (int sweep = 0, changed = true; changed && sweep < mostSweeps; sweep++) {
        changed = false;
        for (size_t k = 0; k < molecule.pieces.size(); k++) {
            const Piece& piece = molecule.pieces[k];
            vector<double*> own;
            vector<double> present = {fastest, double(bonds[k].size())};
            for (int i = 0; i < piece.size(); i++) {
                const int place = piece.places[i];
                present.insert(present.end(), {molecule.masses[place], inertias.masses[place],
                                               double(inertias.isTaken[place]), double(piece.isOwn[i])});
                if (piece.isOwn[i])
                    own.push_back(&inertias.masses[place]);
            }
            for (const auto& [bond, i, j] : bonds[k]) {
                present.insert(present.end(), {double(i), double(j), bond->inertia, double(bond->isGiven)});
                if (piece.isOwn[i])
                    own.push_back(&bond->inertia);
            }
            for (const auto& [pair, i, j] : pairs[k])
                if (pair->isKept)
                    present.insert(present.end(), {double(i), double(j), pair->inertia});
            const auto [place, isNew] = raised.insert({{piece.minimum, std::move(present)}, {}});
            vector<double>& found = place->second;
            if (isNew) {
                if (raisePiece(molecule, piece, bonds[k], pairs[k], fastest, inertias))
                    for (const double* each : own)
                        found.push_back(*each);
                size += place->first.second.size() + found.size();
            }
            for (size_t i = 0; i < found.size(); i++)
                *own[i] = found[i];
            changed |= !found.empty();
        }
    }
}

BondedSpectrum::~BondedSpectrum() = default;

int BondedSpectrum::countPieces() const {
    return known->minima.count();
}

BondedSpectrum::BondedSpectrum(const System& system, const BondGraph& graph, int integrationGroups,
                               const std::map<std::string, double>& parameters, const string& className,
                               const BondedSpectrum* previous)
        : system(system), graph(graph), known(std::make_shared<Known>()), moleculeOf(system.getNumParticles()),
          placeOf(system.getNumParticles()) {
    const int numParticles = system.getNumParticles();
    Sets sets(numParticles);
    for (const auto& bond : graph.lengths)
        sets.join(bond.first.first, bond.first.second);
    members = sets.collect();
    for (size_t m = 0; m < members.size(); m++)
        for (size_t place = 0; place < members[m].size(); place++) {
            moleculeOf[members[m][place]] = m;
            placeOf[members[m][place]] = place;
        }
    collect(integrationGroups, className);

    // What tells molecules apart, and the terms of each particle, which is their first one.

    vector<vector<double>> descriptions(members.size());
    TermsOf coordinatesOf(numParticles), functionsOf(numParticles), torsionsOf(numParticles);
    auto areNear = [&](int i, int j) { // bonded, or at the ends of an angle
        const vector<int>& of = graph.neighbours[i];
        return graph.areBonded(i, j) || std::any_of(of.begin(), of.end(), [&](int k) { return graph.areBonded(k, j); });
    };
    auto add = [&](const vector<int>& particles, int term, TermsOf& termsOf, const vector<double>& numbers) {
        const int molecule = moleculeOf[particles[0]];
        for (int particle : particles)
            if (moleculeOf[particle] != molecule || system.isVirtualSite(particle))
                return;
        if (particles.size() == 1 || (particles.size() == 2 && !areNear(particles[0], particles[1])))
            return;
        termsOf[particles[0]].push_back(term);
        for (int particle : particles)
            descriptions[molecule].push_back(placeOf[particle]);
        descriptions[molecule].insert(descriptions[molecule].end(), numbers.begin(), numbers.end());
    };
    for (size_t t = 0; t < terms.coordinates.size(); t++) {
        const StiffCoordinate& s = terms.coordinates[t];
        add(s.getParticles(), t, coordinatesOf, {s.k, s.s0});
    }
    for (size_t t = 0; t < terms.functionTerms.size(); t++) {
        const FunctionTerm& term = terms.functionTerms[t];
        vector<double> numbers = {-1.0 - term.function};
        for (const InternalCoordinate& coordinate : term.coordinates) // which may have a particle twice
            for (int a = 0; a < coordinate.getNumParticles(); a++)
                numbers.push_back(placeOf[coordinate.particles[a]]);
        numbers.insert(numbers.end(), term.parameters.begin(), term.parameters.end());
        for (const string& global : terms.functions[term.function]->globals) {
            const auto value = parameters.find(global);
            numbers.push_back(value == parameters.end() ? std::nan("") : value->second);
        }
        add(term.getParticles(), t, functionsOf, numbers);
    }
    for (size_t t = 0; t < torsions.size(); t++)
        add({torsions[t].particles.begin(), torsions[t].particles.end()}, t, torsionsOf, {torsions[t].curvature});
    if (previous != nullptr && describe(previous->terms.functions) == describe(terms.functions))
        known = previous->known;
    vector<FunctionCopy> functions; // for new molecules only, as derivatives of long expressions take their time
    for (size_t m = 0; m < members.size(); m++) {
        vector<double>& description = descriptions[m];
        auto append = [&](int other, double length) {
            if (moleculeOf[other] == int(m))
                description.insert(description.end(), {double(placeOf[other]), length});
        };
        for (int particle : members[m]) {
            description.insert(description.end(), {-1, system.getParticleMass(particle)});
            for (int other : graph.neighbours[particle])
                append(other, graph.lengths.at(ordered(particle, other)));
            for (const auto* held : {&graph.constraintsOf, &graph.anglesOf}) {
                description.push_back(-1);
                for (const auto& [other, length] : (*held)[particle])
                    append(other, length);
            }
        }
        auto place = known->kinds.find(description);
        if (place == known->kinds.end()) {
            for (size_t f = functions.size(); f < terms.functions.size(); f++) {
                functions.emplace_back(*terms.functions[f], terms.functions[f]->coordinates.size() == 1 ? 2 : 1);
                functions.back()->setGlobals(parameters);
            }
            auto molecule = std::make_shared<Molecule>();
            molecule->particles = members[m];
            divide(*molecule, coordinatesOf, functionsOf, torsionsOf, functions);
            known->size += description.size();
            place = known->kinds.emplace(std::move(description), molecule).first;
        }
        kindOf.push_back(place->second);
    }
    known->limit();
}

/** Collect the bonded forces. Those without a Hessian are left out. */
void BondedSpectrum::collect(int integrationGroups, const string& className) {
    terms = collectTerms(system, TermScope::HarmonicForces, 0, integrationGroups, className);
    for (int f = 0; f < system.getNumForces(); f++) {
        const Force& force = system.getForce(f);
        if ((integrationGroups & (1 << force.getForceGroup())) == 0)
            continue;
        if (isOneOf<PeriodicTorsionForce, RBTorsionForce, CustomTorsionForce, CustomBondForce, CustomAngleForce,
                    CustomCompoundBondForce>(force))
            appendFunctionTerms(system, f, terms.functions, terms.functionTerms);
        else if (auto maps = dynamic_cast<const CMAPTorsionForce*>(&force))
            addMaps(*maps);
    }
    for (StiffCoordinate& coordinate : terms.coordinates) {
        coordinate.periodic = false;
        if (coordinate.straight)
            coordinate.s0 = pi; // at an angle beyond it the slope would not vanish, and stiffen what is straight
    }
    for (FunctionTerm& term : terms.functionTerms)
        term.periodic = false;
}

/**
 * Collect the angles of energy maps. Where these are in the course of a run, nobody knows: what counts is the curvature
 * along each of them where it is positive: the fourth root of the mean of its fourth power, with the weights that
 * Boltzmann gives places of the map at 300 K.
 */
void BondedSpectrum::addMaps(const CMAPTorsionForce& force) {
    const double kT = 2.5;           // kJ/mol
    const int places = 4, power = 4; // along each side of a square of the map; of the mean
    vector<std::array<double, 2>> curvatures;
    for (int m = 0; m < force.getNumMaps(); m++) {
        int size;
        vector<double> energies;
        vector<vector<double>> coefficients; // of a^i b^j in each square
        force.getMapParameters(m, size, energies);
        CMAPTorsionForceImpl::calcMapDerivatives(size, energies, coefficients);
        const double lowest = *std::min_element(energies.begin(), energies.end()), side = 2 * pi / size;
        double sum = 0, powers[2] = {0, 0};
        for (const vector<double>& c : coefficients)
            for (int k = 0; k < places * places; k++) {
                const double a = (k / places) / double(places), b = (k % places) / double(places);
                double energy = 0, second[2] = {0, 0};
                for (int i = 0; i < 4; i++)
                    for (int j = 0; j < 4; j++) {
                        energy += c[4 * i + j] * std::pow(a, i) * std::pow(b, j);
                        if (i > 1)
                            second[0] += c[4 * i + j] * i * (i - 1) * std::pow(a, i - 2) * std::pow(b, j);
                        if (j > 1)
                            second[1] += c[4 * i + j] * j * (j - 1) * std::pow(a, i) * std::pow(b, j - 2);
                    }
                const double weight = std::exp((lowest - energy) / kT);
                sum += weight;
                for (int axis = 0; axis < 2; axis++)
                    powers[axis] += weight * std::pow(std::max(0.0, second[axis] / (side * side)), power);
            }
        curvatures.push_back({std::pow(powers[0] / sum, 1.0 / power), std::pow(powers[1] / sum, 1.0 / power)});
    }
    for (int t = 0; t < force.getNumTorsions(); t++) {
        int map;
        std::array<int, 4> a, b;
        force.getTorsionParameters(t, map, a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]);
        torsions.push_back({a, curvatures[map][0]});
        torsions.push_back({b, curvatures[map][1]});
    }
}

/**
 * Whether the energy of a bond has more than twice the curvature that it has at its length where heat takes it: between
 * blocks, where only its particles are heavier, it would be too fast there.
 */
bool BondedSpectrum::stiffens(const FunctionTerm& term, TermFunction& energy) const {
    const double kT = 2.5, widths = 3; // kJ/mol at 300 K, standard deviations
    const auto& [kind, particles] = term.coordinates[0];
    if (term.coordinates.size() != 1 || kind != InternalCoordinate::Kind::Distance ||
        !graph.areBonded(particles[0], particles[1]))
        return false;
    std::copy(term.parameters.begin(), term.parameters.end(), energy.arguments() + 1);
    auto getCurvature = [&](double length) {
        double curvature = 0;
        energy.arguments()[0] = length;
        energy.second([&](int, int, double second) { curvature = second; });
        return curvature;
    };
    const double length = graph.lengths.at(ordered(particles[0], particles[1])), k = getCurvature(length);
    return k > 0 && getCurvature(length - widths * std::sqrt(kT / k)) > 2 * k;
}

/** Cut a molecule where no ring is, and find the minimum of each piece with what is around it. */
void BondedSpectrum::divide(Molecule& molecule, const TermsOf& coordinatesOf, const TermsOf& functionsOf,
                            const TermsOf& torsionsOf, vector<FunctionCopy>& functions) const {
    const vector<int>& particles = molecule.particles;
    bool hasTerms = false;
    for (int i : particles) {
        const double mass = system.getParticleMass(i);
        molecule.masses.push_back(mass > 0 ? mass : fixedMass);
        hasTerms |= !coordinatesOf[i].empty() || !functionsOf[i].empty();
    }
    if (!hasTerms)
        return;
    Sets pieces(particles.size()), rings(particles.size());
    auto isOfSheet = [&](int i, int j) {
        return rings.getSize(placeOf[i]) > mostTogether && rings.find(placeOf[i]) == rings.find(placeOf[j]);
    };
    auto join = [&](int most, auto&& choose) {
        for (int i : particles)
            for (int j : graph.neighbours[i])
                if (i < j && choose(i, j) &&
                    !(isOfSheet(i, j) && std::min(pieces.getSize(placeOf[i]), pieces.getSize(placeOf[j])) > leftover))
                    pieces.join(placeOf[i], placeOf[j], most);
    };
    auto count = [&](int i) { return graph.neighbours[i].size(); };
    join(mostTogether, [&](int i, int j) { return count(i) == 1 || count(j) == 1; });
    for (int i : particles)
        for (int t : functionsOf[i]) {
            const FunctionTerm& term = terms.functionTerms[t];
            const auto& bond = term.coordinates[0].particles;
            if (stiffens(term, *functions[term.function]))
                molecule.stiffening.insert(ordered(placeOf[bond[0]], placeOf[bond[1]]));
        }
    for (int i : particles)
        for (int j : graph.neighbours[i])
            if (i < j && !graph.findRing(i, j, largestRing - 1).empty()) {
                molecule.ofRings.insert(ordered(placeOf[i], placeOf[j]));
                rings.join(placeOf[i], placeOf[j]);
            }
    // Pieces of sheets and cages are round: long ones might reach around a periodic box.
    vector<bool> isTaken(particles.size());
    for (int i : particles)
        if (isOfSheet(i, i) && !isTaken[placeOf[i]])
            for (int j : graph.findNear({i}, radius))
                if (isOfSheet(i, j) && !isTaken[placeOf[j]]) {
                    pieces.join(placeOf[i], placeOf[j], mostTogether);
                    isTaken[placeOf[j]] = true;
                }
    join(mostTogether, [&](int i, int j) { return molecule.ofRings.count(ordered(placeOf[i], placeOf[j])) > 0; });
    join(mostTogether, [&](int i, int j) { return count(i) < 4 && count(j) < 4; });
    join(sizeOfPiece, [](int, int) { return true; });
    molecule.piecesOf.resize(particles.size());
    for (const vector<int>& places : pieces.collect()) {
        vector<int> own;
        for (int place : places)
            own.push_back(particles[place]);
        Block block = {own, 0, {}, {}};
        for (int shell = 0; shell < surroundings; shell++) {
            const vector<int> wider = graph.findNear(block.particles, 1);
            if (std::accumulate(wider.begin(), wider.end(), 0, [&](int n, int i) { return n + count(i); }) > mostEnds)
                break;
            block.particles = wider;
        }
        std::sort(block.particles.begin(), block.particles.end());
        block.numMobile = block.particles.size();
        Piece piece;
        for (int i : block.particles) {
            piece.places.push_back(placeOf[i]);
            piece.isOwn.push_back(std::binary_search(places.begin(), places.end(), placeOf[i]));
            molecule.piecesOf[placeOf[i]].push_back(molecule.pieces.size());
        }
        piece.near.resize(piece.size(), vector<bool>(piece.size()));
        for (int i : block.particles)
            for (int j : graph.findNear({i}, 3))
                if (piece.find(placeOf[j]) >= 0)
                    piece.near[piece.find(placeOf[i])][piece.find(placeOf[j])] = true;
        auto isInside = [&](int particle) {
            return moleculeOf[particle] == moleculeOf[particles[0]] && piece.find(placeOf[particle]) >= 0;
        };
        auto areInside = [&](const auto& all) { return std::all_of(all.begin(), all.end(), isInside); };
        vector<HeldDistance> bonds, held, guides;
        vector<StiffTorsion> ofMaps;
        auto hold = [&](vector<HeldDistance>& list, int i, int j, double length, double stiffness) {
            if (isInside(i) && isInside(j))
                list.push_back({block.findPlace(i), block.findPlace(j), length, stiffness});
        };
        for (int i : block.particles) {
            for (int t : coordinatesOf[i])
                if (areInside(terms.coordinates[t].getParticles()))
                    block.terms.push_back(t);
            for (int t : functionsOf[i])
                if (areInside(terms.functionTerms[t].getParticles()))
                    block.otherTerms.push_back(t);
            for (int t : torsionsOf[i])
                if (areInside(torsions[t].particles))
                    ofMaps.push_back(torsions[t]);
            for (int j : graph.neighbours[i]) {
                if (i > j || !isInside(j))
                    continue;
                const double length = graph.lengths.at({i, j});
                hold(bonds, i, j, length, 0);
                // A regular polygon.
                const vector<int> ring = graph.findRing(i, j, largestRing - 1);
                const double half = pi / ring.size();
                for (size_t a = 0; a < ring.size(); a++)
                    for (size_t b = a + 2; b < ring.size(); b++)
                        hold(guides, ring[a], ring[b], length * std::sin((b - a) * half) / std::sin(half), ofGuide);
            }
            for (const auto& [j, length] : graph.anglesOf[i])
                hold(held, i, j, length, ofGuide);
            for (const auto& [j, length] : graph.constraintsOf[i])
                if (i < j)
                    hold(held, i, j, length, ofConstraint);
        }
        std::sort(block.terms.begin(), block.terms.end());
        // Of two bonds that nothing holds at an angle each is lighter for the other at a right one.
        std::set<std::pair<int, int>> together;
        auto note = [&](const vector<int>& all) {
            for (int i : all)
                for (int j : all)
                    together.insert({i, j});
        };
        for (int t : block.terms)
            note(terms.coordinates[t].getParticles());
        for (int t : block.otherTerms)
            note(terms.functionTerms[t].getParticles());
        for (int k : block.particles)
            for (int i : graph.neighbours[k])
                for (int j : graph.neighbours[k])
                    if (i < j && !graph.areBonded(i, j) && together.count({i, j}) == 0)
                        hold(guides, i, j, std::hypot(graph.lengths.at(ordered(i, k)), graph.lengths.at(ordered(j, k))),
                             ofGuide);
        piece.minimum = known->minima.find(terms, block, bonds, held, guides, ofMaps, functions);
        molecule.pieces.push_back(std::move(piece));
    }
}

PairTerms BondedSpectrum::choose(const vector<PairInertia>& pairs, const vector<PairInertia>& bonds, double shortest,
                                 int mostPairs) const {
    // By molecules.

    PairTerms chosen;
    vector<Inertias> all(members.size());
    auto findOwner = [&](const PairInertia& pair) -> Inertias* { // of what is within a molecule that has pieces
        const int molecule = moleculeOf[pair.particle1];
        const bool isWithin = (pair.particle2 < 0 || moleculeOf[pair.particle2] == molecule);
        return isWithin && !kindOf[molecule]->pieces.empty() ? &all[molecule] : nullptr;
    };
    auto byPlaces = [&](PairInertia pair, int index, bool isBond) -> Inertias::Pair {
        pair.particle1 = placeOf[pair.particle1];
        pair.particle2 = (pair.particle2 < 0 ? -1 : placeOf[pair.particle2]);
        return {pair, index, isBond};
    };
    const double least = 0.01; // dalton
    auto addInertia = [&](int i, int j, double inertia, bool isGiven) {
        if (inertia > (isGiven ? 0 : least))
            chosen.bonds.push_back({i, j, inertia});
    };
    for (size_t p = 0; p < pairs.size(); p++)
        if (Inertias* owner = findOwner(pairs[p]))
            owner->pairs.push_back(byPlaces(pairs[p], p, graph.areBonded(pairs[p].particle1, pairs[p].particle2)));
        else
            chosen.pairs.push_back(pairs[p]);
    for (const PairInertia& bond : bonds)
        if (Inertias* owner = findOwner(bond))
            owner->bonds.push_back(byPlaces(bond, -1, true));
        else
            addInertia(bond.particle1, bond.particle2, bond.inertia, bond.isGiven);

    // Equal ones once.

    for (size_t m = 0; m < members.size(); m++) {
        const Molecule& molecule = *kindOf[m];
        if (molecule.pieces.empty())
            continue;
        known->limit();
        vector<double> description = all[m].describe();
        description.insert(description.end(), {shortest, double(mostPairs)});
        const auto [place, isNew] = known->inertias.insert({{kindOf[m], std::move(description)}, all[m]});
        Inertias& found = place->second;
        if (isNew) {
            known->size += 3 * place->first.second.size();
            found.masses = molecule.masses;
            for (double mass : molecule.masses)
                found.isTaken.push_back(mass == fixedMass);
            for (const Inertias::Pair& bond : found.bonds)
                if (bond.particle2 < 0) {
                    found.isTaken[bond.particle1] = true;
                    found.masses[bond.particle1] += bond.inertia;
                }
                else if (!bond.isGiven)
                    found.isTaken[bond.particle2] = true;
            leaveOut(molecule, vector<int>(molecule.particles.size()), found);
            if (shortest > 0) {
                if (const vector<int> blockOf = cutMolecule(molecule, found, mostPairs);
                    std::any_of(blockOf.begin(), blockOf.end(), [&](int block) { return block != blockOf[0]; }))
                    leaveOut(molecule, blockOf, found);
                known->raise(molecule, shortest, found);
            }
        }
        for (size_t p = 0; p < found.pairs.size(); p++)
            if (found.pairs[p].isKept)
                chosen.pairs.push_back(pairs[all[m].pairs[p].index]);
        for (const Inertias::Pair& bond : found.bonds)
            if (bond.particle2 >= 0)
                addInertia(members[m][bond.particle1], members[m][bond.particle2], bond.inertia, bond.isGiven);
        for (size_t i = 0; i < found.masses.size(); i++)
            addInertia(members[m][i], -1, found.masses[i] - molecule.masses[i], found.isTaken[i]);
    }
    const auto isBefore = [](const auto& a, const auto& b) {
        return ordered(a.particle1, a.particle2) < ordered(b.particle1, b.particle2);
    };
    std::sort(chosen.pairs.begin(), chosen.pairs.end(), isBefore);
    std::sort(chosen.bonds.begin(), chosen.bonds.end(), isBefore);
    return chosen;
}
