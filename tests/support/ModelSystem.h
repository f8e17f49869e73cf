#ifndef STIFF_TEST_MODEL_SYSTEM_H_
#define STIFF_TEST_MODEL_SYSTEM_H_

#include "DenseAlgebra.h"
#include "HyperDual.h"
#include "RandomGeometry.h"
#include "stiffcore/batch/Lanes.h"
#include "stiffcore/model/Block.h"
#include "stiffcore/model/StiffTerms.h"
#include <Eigen/Geometry>
#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

namespace stifftest {

using stiffcore::Block;
using stiffcore::StiffCoordinate;

/**
 * Molecules for tests of what is computed for batches of them, built atom by atom, and what should come of it, found in
 * another way: dense matrices, filled by automatic differentiation.
 */
class ModelSystem {
public:
    explicit ModelSystem(unsigned seed) : random(seed) {
    }

    Random random;
    std::vector<double> masses;
    std::vector<Eigen::Vector3d> positions;
    std::vector<StiffCoordinate> terms;
    stiffcore::Box box = {{{1e3, 0, 0}, {0, 1e3, 0}, {0, 0, 1e3}}};
    /// Whether the terms added from now on follow the minimum image convention.
    bool periodic = false;
    /// How far from the minimum the coordinates of the terms added from now on are at most [nm, rad].
    double stretch = 0.005, bend = 0.1;

    /**
     * The terms for methods that ask for all that there is. Rows are the coordinates that have a force constant.
     *
     * @param bends   whether straight angles are represented by their bends
     */
    stiffcore::StiffTerms getStiffTerms(bool bends = false) const {
        using Use = StiffCoordinate::Use;
        stiffcore::StiffTerms result;
        result.coordinates = terms;
        for (StiffCoordinate& s : result.coordinates) {
            s.straight = (s.kind == StiffCoordinate::Kind::Angle && std::abs(s.s0 - pi) < 1e-5);
            s.use = (s.k == 0 ? Use::None : bends && s.straight ? Use::Bends : Use::Coordinate);
        }
        result.needs.hessian = result.needs.thirdDerivatives = result.needs.frequency = true;
        return result;
    }
    void beginMolecule() {
        numMolecules++;
    }
    /** Add an atom to the present molecule, or an anchor, without mass, which belongs to none. */
    int addAtom(double mass, const Eigen::Vector3d& position) {
        masses.push_back(mass);
        positions.push_back(position);
        moleculeOf.push_back(mass > 0 ? numMolecules - 1 : -1);
        return masses.size() - 1;
    }
    void addBond(int i, int j, double k = 3e5) {
        addTerm(StiffCoordinate::Kind::Distance, {i, j, -1}, k, stretch);
    }
    void addAngle(int i, int vertex, int j, double k = 500) {
        addTerm(StiffCoordinate::Kind::Angle, {i, vertex, j}, k, bend);
    }
    /** Add an angle for any two bonds at an atom, among the terms from `first` on. */
    void addAnglesBetweenBonds(int first) {
        const int end = terms.size();
        for (int s = first; s < end; s++)
            for (int t = first; t < s; t++)
                for (int a = 0; a < 2; a++)
                    for (int b = 0; b < 2; b++)
                        if (terms[s].particles[a] == terms[t].particles[b])
                            addAngle(terms[s].particles[1 - a], terms[s].particles[a], terms[t].particles[1 - b]);
    }

    // ---- Molecules ----

    Eigen::Vector3d somewhere() {
        return random.vector(3);
    }
    void addWater(double hydrogenMass = 1.008) {
        beginMolecule();
        const Eigen::Vector3d x = somewhere(), e = random.direction(), across = random.directionAcross(e);
        const double theta = random.uniform(1.6, 2.1);
        const Eigen::Vector3d u = std::cos(theta) * e + std::sin(theta) * across;
        const int o = addAtom(15.999, x), h1 = addAtom(hydrogenMass, x + random.uniform(0.09, 0.1) * e);
        const int h2 = addAtom(hydrogenMass, x + random.uniform(0.09, 0.1) * u);
        addBond(o, h1, 462750.4);
        addBond(o, h2, 462750.4);
        addAngle(h1, o, h2, 836.8);
    }
    /** A branched chain of random shape with all its bonds and angles. Atom 0 may be an anchor. */
    void addTree(int numAtoms, double firstMass = 12.011) {
        beginMolecule();
        const int firstTerm = terms.size(), begin = masses.size();
        std::vector<std::vector<Eigen::Vector3d>> bonds(1);
        addAtom(firstMass, somewhere());
        while ((int) masses.size() < begin + numAtoms) {
            const int size = masses.size() - begin;
            const int parent = size - 1 - random.integer(std::min(size, 4));
            const Eigen::Vector3d e = random.direction();
            bool free = bonds[parent].size() < 4;
            // No angle is close to 0 or 180 degrees, and no three bonds lie in a plane, where their angles are
            // dependent.
            for (const Eigen::Vector3d& other : bonds[parent]) {
                free &= other.dot(e) < 0.4 && other.dot(e) > -0.9;
                for (const Eigen::Vector3d& third : bonds[parent])
                    free &= &third == &other || std::abs(e.dot(third.cross(other))) > 0.3;
            }
            if (!free)
                continue;
            const double choice[] = {1.008, 12.011, 14.007, 15.999};
            const int atom =
                    addAtom(choice[random.integer(4)], positions[begin + parent] + random.uniform(0.1, 0.16) * e);
            bonds[parent].push_back(e);
            bonds.push_back({-e});
            addBond(begin + parent, atom);
        }
        addAnglesBetweenBonds(firstTerm);
    }
    /** An unbranched chain with all its bonds and angles: coordinates that can take any values at once. */
    void addChain(int numAtoms, double firstMass = 12.011) {
        beginMolecule();
        const int firstTerm = terms.size();
        Eigen::Vector3d x = somewhere(), e = random.direction();
        for (int i = 0; i < numAtoms; i++) {
            const int atom = addAtom(i == 0 ? firstMass : random.uniform(1, 16), x);
            if (i > 0)
                addBond(atom - 1, atom);
            const double bend = random.uniform(0.8, 1.4);
            e = std::cos(bend) * e + std::sin(bend) * random.directionAcross(e);
            x += random.uniform(0.1, 0.16) * e;
        }
        addAnglesBetweenBonds(firstTerm);
    }
    /** A ring that is not flat. */
    void addRing(int numAtoms) {
        beginMolecule();
        const int firstTerm = terms.size(), begin = masses.size();
        const Eigen::Vector3d x = somewhere(), e = random.direction(), u = random.directionAcross(e), w = e.cross(u);
        const double radius = 0.15 / (2 * std::sin(pi / numAtoms));
        for (int i = 0; i < numAtoms; i++) {
            const double phi = 2 * pi * i / numAtoms;
            addAtom(12.011, x + radius * (std::cos(phi) * u + std::sin(phi) * w) + (i % 2 == 0 ? 0.03 : -0.03) * e +
                                    random.vector(0.01));
        }
        for (int i = 0; i < numAtoms; i++)
            addBond(begin + i, begin + (i + 1) % numAtoms);
        addAnglesBetweenBonds(firstTerm);
    }
    /** A centre with four neighbours: of its six angles, five are independent. */
    void addTetrahedron() {
        beginMolecule();
        const int firstTerm = terms.size();
        const Eigen::Vector3d x = somewhere();
        const int centre = addAtom(12.011, x);
        const double corners[4][3] = {{1, 1, 1}, {1, -1, -1}, {-1, 1, -1}, {-1, -1, 1}};
        for (const auto& corner : corners) {
            const Eigen::Vector3d e = Eigen::Vector3d(corner[0], corner[1], corner[2]).normalized();
            addBond(centre, addAtom(1.008, x + 0.109 * (e + random.vector(0.1))));
        }
        addAnglesBetweenBonds(firstTerm);
    }
    /** Three atoms close to a line, which is the minimum of their angle. */
    void addLine() {
        beginMolecule();
        const Eigen::Vector3d x = somewhere(), e = random.direction(), u = random.directionAcross(e);
        const int c = addAtom(12.011, x), o1 = addAtom(15.999, x + 0.116 * e);
        const int o2 = addAtom(15.999, x - 0.117 * (e + random.uniform(0.001, 0.1) * u));
        addBond(o1, c);
        addBond(c, o2);
        addAngle(o1, c, o2);
        terms.back().s0 = pi;
    }
    /** Two chains held by one anchor, which does not make them one molecule, and an atom held by two anchors. */
    void addAnchored() {
        const Eigen::Vector3d x = somewhere(), e = random.direction(), u = random.directionAcross(e);
        const int anchor = addAtom(0, x), other = addAtom(0, x + 0.3 * u);
        for (double sign : {-1.0, 1.0}) {
            beginMolecule();
            const int first = addAtom(12.011, x + 0.15 * sign * e);
            const int second = addAtom(14.007, x + 0.15 * sign * e + 0.12 * u);
            addBond(first, anchor);
            addBond(second, first);
            addAngle(second, first, anchor);
            addAngle(first, anchor, other);
        }
        beginMolecule();
        const int held = addAtom(1.008, x + 0.15 * u + random.vector(0.02));
        addBond(anchor, held);
        addBond(held, other);
        addAngle(anchor, held, other);
        terms.back().s0 = 3;
    }
    /** Molecules of all these kinds, some of them twice, some with matrices that are held sparse. */
    void addMixture() {
        addWater();
        addTree(8);
        addLine();
        addTree(30);
        addWater();
        addRing(5);
        addRing(20);
        addTetrahedron();
        addTree(60, 0);
        addAnchored();
        addTree(8);
        addWater(2.014);
        addTree(2);
        addTetrahedron();
        addTree(3, 0);
    }
    /** All of these, and as many alike, whose numbers are mixed; those of even seeds in a periodic box. */
    static ModelSystem makeMixture(unsigned seed) {
        ModelSystem model(seed);
        if (seed % 2 == 0) {
            model.box = model.random.box();
            model.periodic = true;
        }
        model.addMixture();
        model.addAlike();
        model.renumber();
        return model;
    }

    /** Molecules of few kinds, so many of each that they fill the lanes of a batch and begin another one. */
    void addAlike() {
        for (int i = 0; i < stiffcore::Lanes::count + 1; i++) {
            addWater(1.008 * (1 + i));
            addRing(20);
            addChain(6);
            addChain(4, 0);
            addTetrahedron();
            addLine();
        }
    }

    /** Give the atoms new numbers, at random. */
    void renumber() {
        const int n = masses.size();
        std::vector<int> newNumber(n);
        std::iota(newNumber.begin(), newNumber.end(), 0);
        for (int i = n - 1; i > 0; i--)
            std::swap(newNumber[i], newNumber[random.integer(i + 1)]);
        auto renumbered = [&](const auto& values) {
            auto result = values;
            for (int i = 0; i < n; i++)
                result[newNumber[i]] = values[i];
            return result;
        };
        masses = renumbered(masses);
        positions = renumbered(positions);
        moleculeOf = renumbered(moleculeOf);
        for (StiffCoordinate& term : terms)
            for (int a = 0; a < term.getNumParticles(); a++)
                term.particles[a] = newNumber[term.particles[a]];
    }

    // ---- What batches are made of ----

    std::vector<Block> getBlocks() const {
        std::vector<Block> blocks(numMolecules);
        for (int i = 0; i < (int) masses.size(); i++)
            if (moleculeOf[i] >= 0)
                blocks[moleculeOf[i]].particles.push_back(i);
        for (Block& block : blocks)
            block.numMobile = block.particles.size();
        for (int t = 0; t < (int) terms.size(); t++) {
            const auto begin = terms[t].particles.begin(), end = begin + terms[t].getNumParticles();
            int molecule = -1;
            for (auto atom = begin; atom != end; ++atom)
                molecule = std::max(molecule, moleculeOf[*atom]);
            Block& block = blocks[molecule];
            block.terms.push_back(t);
            std::vector<int>& all = block.particles;
            for (auto atom = begin; atom != end; ++atom)
                if (std::find(all.begin(), all.end(), *atom) == all.end())
                    all.push_back(*atom);
            std::sort(all.begin() + block.numMobile, all.end());
        }
        return blocks;
    }
    std::vector<double> getPositions() const {
        std::vector<double> x;
        for (const Eigen::Vector3d& position : positions)
            x.insert(x.end(), position.data(), position.data() + 3);
        return x;
    }
    void setPositions(const std::vector<double>& x) {
        for (size_t i = 0; i < positions.size(); i++)
            positions[i] = Eigen::Vector3d(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
    }
    /** Random numbers, three for each particle. */
    std::vector<double> randomArray(double size) {
        std::vector<double> values(3 * masses.size());
        for (double& value : values)
            value = size * random.gaussian();
        return values;
    }

    // ---- What should be found ----

    /** The masses of a block's mobile particles, three times each. */
    Eigen::VectorXd massDiagonal(const Block& block) const {
        return gatherEach(block, [&](int atom, int) { return masses[atom]; });
    }
    /** The Hessian of the potential of a block. */
    Eigen::MatrixXd hessian(const Block& block) const {
        const int n = 3 * block.particles.size(), numMobile = 3 * block.numMobile;
        Eigen::MatrixXd result = Eigen::MatrixXd::Zero(n, n);
        for (int t : block.terms) {
            const std::vector<int> rows = rowsOf(block, terms[t]);
            result(rows, rows) += derivatives(terms[t], true).hessian;
        }
        return result.topLeftCorner(numMobile, numMobile);
    }
    /** The gradient of the potential of a block. */
    Eigen::VectorXd gradient(const Block& block) const {
        Eigen::VectorXd result = Eigen::VectorXd::Zero(3 * block.particles.size());
        for (int t : block.terms)
            result(rowsOf(block, terms[t])) += derivatives(terms[t], true).gradient;
        return result.head(3 * block.numMobile);
    }
    /** The squares of the frequencies of a block, the least one first. */
    Eigen::VectorXd squaredFrequencies(const Block& block) const {
        const Eigen::VectorXd roots = massDiagonal(block).cwiseSqrt().cwiseInverse();
        return eigenvaluesOf(roots.asDiagonal() * hessian(block) * roots.asDiagonal());
    }
    /** How far the coordinates of a block are from their equilibrium values. */
    Eigen::VectorXd deviations(const Block& block) const {
        Eigen::VectorXd result(block.terms.size());
        for (size_t p = 0; p < block.terms.size(); p++)
            result[p] = derivatives(terms[block.terms[p]], false).value - terms[block.terms[p]].s0;
        return result;
    }
    /** The derivatives of the coordinates of a block, one in a row. */
    Eigen::MatrixXd jacobian(const Block& block) const {
        Eigen::MatrixXd result = Eigen::MatrixXd::Zero(block.terms.size(), 3 * block.particles.size());
        for (size_t p = 0; p < block.terms.size(); p++) {
            const StiffCoordinate& term = terms[block.terms[p]];
            result.row(p)(rowsOf(block, term)) = derivatives(term, false).gradient;
        }
        return result.leftCols(3 * block.numMobile);
    }
    /** The components of an array that belong to a block's mobile particles. */
    static Eigen::VectorXd gather(const Block& block, const std::vector<double>& values) {
        return gatherEach(block, [&](int atom, int j) { return values[3 * atom + j]; });
    }

private:
    static constexpr double pi = 3.14159265358979323846;
    int numMolecules = 0;
    std::vector<int> moleculeOf;

    void addTerm(StiffCoordinate::Kind kind, const std::array<int, 3>& particles, double k, double offset) {
        terms.push_back({kind, particles, periodic, 0, (int) terms.size(), true, k});
        terms.back().s0 = derivatives(terms.back(), false).value + random.uniform(-offset, offset);
    }

    template <class Function> static Eigen::VectorXd gatherEach(const Block& block, Function&& function) {
        Eigen::VectorXd result(3 * block.numMobile);
        for (int i = 0; i < block.numMobile; i++)
            for (int j = 0; j < 3; j++)
                result[3 * i + j] = function(block.particles[i], j);
        return result;
    }

    /** Which components of the positions of a block's particles, mobile ones first, are those of a term's particles. */
    static std::vector<int> rowsOf(const Block& block, const StiffCoordinate& term) {
        std::vector<int> rows;
        for (int a = 0; a < term.getNumParticles(); a++) {
            const auto begin = block.particles.begin();
            const int place = std::find(begin, block.particles.end(), term.particles[a]) - begin;
            rows.insert(rows.end(), {3 * place, 3 * place + 1, 3 * place + 2});
        }
        return rows;
    }

    /** The shift, a lattice vector, that makes the displacement between two particles the shortest. */
    Eigen::Vector3d imageShift(int from, int to) const {
        const Eigen::Vector3d d = positions[to] - positions[from];
        Eigen::Vector3d best = Eigen::Vector3d::Zero();
        for (int a = -5; a <= 5; a++)
            for (int b = -5; b <= 5; b++)
                for (int c = -5; c <= 5; c++) {
                    Eigen::Vector3d shift;
                    for (int j = 0; j < 3; j++)
                        shift[j] = a * box.vectors[0][j] + b * box.vectors[1][j] + c * box.vectors[2][j];
                    if ((d + shift).norm() < (d + best).norm())
                        best = shift;
                }
        return best;
    }

    /** The derivatives of a term's potential, or of its coordinate alone, by its particles' positions. */
    Derivatives derivatives(const StiffCoordinate& term, bool ofPotential) const {
        // The images of the particles that are closest to the second one.
        std::array<double, 9> x = {};
        for (int a = 0; a < term.getNumParticles(); a++) {
            Eigen::Vector3d position = positions[term.particles[a]];
            if (term.periodic)
                position += imageShift(term.particles[1], term.particles[a]);
            std::copy_n(position.data(), 3, &x[3 * a]);
        }
        auto function = [&](const auto& x) {
            const DualVector first = {x[0], x[1], x[2]}, second = {x[3], x[4], x[5]};
            HyperDual s;
            if constexpr (std::tuple_size_v<std::decay_t<decltype(x)>> == 6)
                s = norm(first - second);
            else
                s = angleBetween(first - second, DualVector{x[6], x[7], x[8]} - second);
            if (!ofPotential)
                return s;
            return HyperDual(0.5 * term.k) * (s - HyperDual(term.s0)) * (s - HyperDual(term.s0));
        };
        if (term.kind == StiffCoordinate::Kind::Distance)
            return differentiate<6>({x[0], x[1], x[2], x[3], x[4], x[5]}, function);
        return differentiate<9>(x, function);
    }
};

} // namespace stifftest

#endif /* STIFF_TEST_MODEL_SYSTEM_H_ */
