#include "PieceMinimum.h"
#include "stiffcore/coordinates/Dihedral.h"
#include "stiffcore/terms/Expansion.h"
#include "stiffcore/terms/Harmonic.h"
#include "stiffcore/terms/Hessian.h"
#include "stiffcore/terms/PatternFunction.h"
#include "stiffcore/terms/StiffBatch.h"
#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>

using namespace OpenMMStiff;
using namespace stiffcore;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::vector;

namespace {

using Vector = Vector3<double>;
using Matrix = Matrix3<double>;
const double infinity = std::numeric_limits<double>::infinity();

/** The energy of a piece, term by term. */
class PieceEnergy {
public:
    PieceEnergy(const StiffTerms& all, vector<FunctionCopy>& copies, const Block& piece,
                const vector<HeldDistance>& held, const vector<HeldDistance>& guides)
            : x(piece.particles.size()), copies(copies), termsOf(piece.particles.size()) {
        for (int t : piece.terms) {
            const StiffCoordinate& s = all.coordinates[t];
            terms.push_back({s.kind, piece.findPlaces(s.getParticles()), {s.k, s.s0}});
        }
        for (int t : piece.otherTerms) {
            const FunctionTerm& term = all.functionTerms[t];
            const PatternFunction pattern(term, term.getParticles(), piece);
            terms.push_back({{}, pattern.atoms, {}, pattern, &term.parameters});
        }
        numForces = terms.size();
        for (const auto* distances : {&held, &guides})
            for (const auto& [place1, place2, length, stiffness] : *distances)
                terms.push_back({StiffCoordinate::Kind::Distance, {place1, place2}, {stiffness, length}});
        numHeld = numForces + held.size();
        for (size_t t = 0; t < terms.size(); t++)
            for (int atom : terms[t].atoms)
                termsOf[atom].push_back(t);
    }

    /** All that it depends on. */
    vector<double> describe() const {
        vector<double> all = {double(x.size()), double(numForces), double(numHeld), double(terms.size())};
        auto append = [&](auto begin, int number) { all.insert(all.end(), begin, begin + number); };
        for (const Term& term : terms) {
            if (term.function) {
                TermFunction& function = *copies[term.function->function];
                all.push_back(-1.0 - term.function->function);
                for (const InternalCoordinate& coordinate : term.function->coordinates)
                    append(coordinate.particles.begin(), coordinate.getNumParticles());
                append(term.parameters->begin(), term.parameters->size());
                append(function.arguments() + function.coordinates.size() + function.parameters.size(),
                       function.globals.size());
            }
            else
                all.insert(all.end(), {double(term.kind), term.potential.k, term.potential.s0});
            append(term.atoms.begin(), term.atoms.size());
        }
        return all;
    }

    /** Those of the System come first, then what holds distances, then guides. */
    int countForces() const {
        return numForces;
    }
    int countHeld() const {
        return numHeld;
    }
    const vector<int>& atomsOf(int t) const {
        return terms[t].atoms;
    }
    const vector<int>& getTermsOf(int atom) const {
        return termsOf[atom];
    }

    /**
     * The energy of a term at x.
     *
     * @param addGradient   called as addGradient(atom, gradient); or nullptr
     * @param addBlock      called as addBlock(atom1, atom2, block of the Hessian); or nullptr
     */
    template <class AddGradient, class AddBlock> double visit(int t, AddGradient&& addGradient, AddBlock&& addBlock) {
        constexpr bool withGradient = !std::is_same_v<std::decay_t<AddGradient>, std::nullptr_t>,
                       withHessian = !std::is_same_v<std::decay_t<AddBlock>, std::nullptr_t>;
        double energy = 0;
        const Term& term = terms[t];
        const vector<int>& atoms = term.atoms;
        if (!term.function)
            visitCoordinate(term.kind, atoms, false, x, noBox, [&](const auto& s) {
                const Harmonic<double>& v = term.potential;
                energy = 0.5 * v.k * (s.value - v.s0) * (s.value - v.s0);
                if constexpr (withGradient)
                    for (size_t a = 0; a < atoms.size(); a++)
                        addGradient(atoms[a], gradientOf(v, s, a));
                if constexpr (withHessian)
                    addHessian(v, s, [&](int a, int b, const Matrix& h) { addBlock(atoms[a], atoms[b], h); });
            });
        else {
            const PatternFunction& pattern = *term.function;
            TermFunction& function = *copies[pattern.function];
            std::copy(term.parameters->begin(), term.parameters->end(),
                      function.arguments() + pattern.coordinates.size());
            evaluate(pattern, function);
            energy = function.value();
            if constexpr (withGradient)
                visitGradient(pattern, function, addGradient);
            if constexpr (withHessian) {
                if (pattern.coordinates.size() == 1)
                    visitCurvature(pattern, function, addBlock);
                else
                    visitDifferences(pattern, function, addBlock);
            }
        }
        return energy;
    }

    /// By the places of the atoms.
    Vectors3<double> x;

private:
    static constexpr Box noBox = {};
    /** A harmonic potential, or a function with its parameters. */
    struct Term {
        StiffCoordinate::Kind kind;
        vector<int> atoms;
        Harmonic<double> potential;
        std::optional<PatternFunction> function = {};
        const vector<double>* parameters = nullptr;
    };

    void evaluate(const PatternFunction& term, TermFunction& function) {
        gradients.resize(std::max(gradients.size(), 4 * term.coordinates.size()));
        evaluateCoordinates(term, x, noBox, function.arguments(), gradients);
    }
    /** Where an angle out of a plane is 0, the derivatives of its expression are no numbers; it is at its minimum. */
    template <class AddGradient>
    void visitGradient(const PatternFunction& term, TermFunction& function, AddGradient&& addGradient) {
        function.first([&](int k, double first) {
            const InternalCoordinate& coordinate = term.coordinates[k];
            for (int a = 0; a < coordinate.getNumParticles(); a++) {
                const Vector gradient = first * gradients[4 * k + a];
                if (gradient.allFinite())
                    addGradient(term.atoms[coordinate.particles[a]], gradient);
            }
        });
    }
    template <class AddBlock>
    void visitCurvature(const PatternFunction& term, TermFunction& function, AddBlock&& addBlock) {
        Expansion<double> at = {0, 0};
        function.first([&](int, double first) { at.slope = first; });
        function.second([&](int, int, double second) { at.curvature = second; });
        visitCoordinate(term, term.coordinates[0], x, noBox, [&](const auto& q) {
            addHessian(at, q, [&](int a, int b, const Matrix& h) {
                if (h.allFinite())
                    addBlock(term.atoms[term.coordinates[0].particles[a]], term.atoms[term.coordinates[0].particles[b]],
                             h);
            });
        });
    }
    /** The Hessian of a function by differences of its gradient: second derivatives of expressions may be very long. */
    template <class AddBlock>
    void visitDifferences(const PatternFunction& term, TermFunction& function, AddBlock&& addBlock) {
        const double step = 1e-4; // nm
        const int size = 3 * term.atoms.size();
        MatrixXd differences = MatrixXd::Zero(size, size);
        for (int column = 0; column < size; column++) {
            double& coordinate = x[term.atoms[column / 3]][column % 3];
            const double place = coordinate;
            for (int sign : {1, -1}) {
                coordinate = place + sign * step;
                evaluate(term, function);
                visitGradient(term, function, [&](int atom, const Vector& g) {
                    const int a = std::find(term.atoms.begin(), term.atoms.end(), atom) - term.atoms.begin();
                    differences.block<3, 1>(3 * a, column) += sign / (2 * step) * g;
                });
            }
            coordinate = place;
        }
        for (size_t a = 0; a < term.atoms.size(); a++)
            for (size_t b = 0; b <= a; b++)
                addBlock(term.atoms[a], term.atoms[b],
                         0.5 * (differences.block<3, 3>(3 * a, 3 * b) +
                                differences.block<3, 3>(3 * b, 3 * a).transpose()));
    }

    vector<Term> terms;
    int numForces, numHeld;
    vector<FunctionCopy>& copies;
    Vectors3<double> gradients; // of the coordinates of a term, four for each
    vector<vector<int>> termsOf;
};

/** Directions that are nearly as far from each other as can be, on a golden spiral. */
vector<Vector> makeDirections() {
    const int number = 24;
    vector<Vector> directions;
    for (int k = 0; k < number; k++) {
        const double z = 1 - (2 * k + 1) / double(number), angle = 2.399963229728653 * k, across = std::sqrt(1 - z * z);
        directions.push_back(Vector(across * std::cos(angle), across * std::sin(angle), z));
    }
    return directions;
}

/** Place a particle at a distance from another one that has been placed. */
void placeAtom(PieceEnergy& energy, int atom, int from, double length, const vector<bool>& isPlaced) {
    static const vector<Vector> directions = makeDirections();
    const int mostSteps = 8;
    const double repulsion = 0.01; // kJ nm^2/mol, between particles that nothing else keeps apart
    vector<int> terms;
    for (int t : energy.getTermsOf(atom)) {
        const vector<int>& atoms = energy.atomsOf(t);
        if (std::all_of(atoms.begin(), atoms.end(), [&](int other) { return other == atom || isPlaced[other]; }))
            terms.push_back(t);
    }
    Vectors3<double>& x = energy.x;
    auto getEnergy = [&] {
        double sum = 0;
        for (int t : terms)
            sum += energy.visit(t, nullptr, nullptr);
        for (size_t other = 0; other < isPlaced.size(); other++)
            if (isPlaced[other])
                sum += repulsion / (x[atom] - x[other]).squaredNorm();
        return std::isfinite(sum) ? sum : infinity;
    };
    double least = infinity;
    Vector best = x[from] + length * directions[0];
    for (const Vector& direction : directions) {
        x[atom] = x[from] + length * direction;
        const double found = getEnergy();
        if (found < least) {
            least = found;
            best = x[atom];
        }
    }
    x[atom] = best;
    double damping = 1e3; // kJ/mol/nm^2
    for (int step = 0; step < mostSteps; step++) {
        Vector gradient = Vector::Zero();
        Matrix hessian = damping * Matrix::Identity();
        for (int t : terms)
            energy.visit(
                    t, [&](int a, const Vector& g) { gradient += (a == atom) * g; },
                    [&](int a, int b, const Matrix& h) {
                        if (a == atom && b == atom)
                            hessian += h;
                    });
        const Eigen::LLT<Matrix> factor(hessian);
        const Vector move = -factor.solve(gradient);
        if (factor.info() != Eigen::Success || !(move.norm() < 0.5 * length)) {
            damping *= 10;
            continue;
        }
        x[atom] = best + move;
        const double found = getEnergy();
        if (!(found < least)) {
            x[atom] = best;
            damping *= 10;
            continue;
        }
        best = x[atom];
        damping *= 0.1;
        if (std::exchange(least, found) - found < 1e-2)
            break;
    }
}

/** Place all particles, beginning with a first one. */
void build(PieceEnergy& energy, const vector<vector<std::pair<int, double>>>& neighbours, int start) {
    const int n = energy.x.size();
    vector<bool> isPlaced(n, false);
    for (int k = 0; k < n; k++) {
        const int first = (start + k) % n;
        if (isPlaced[first])
            continue;
        energy.x[first] = Vector(first, 0, 0); // what is not connected is far away
        isPlaced[first] = true;
        vector<int> queue = {first};
        for (size_t next = 0; next < queue.size(); next++)
            for (const auto& [atom, length] : neighbours[queue[next]])
                if (!isPlaced[atom]) {
                    placeAtom(energy, atom, queue[next], length, isPlaced);
                    isPlaced[atom] = true;
                    queue.push_back(atom);
                }
    }
}

/** Add the Hessian of the first terms; whether it is finite. */
bool addHessian(PieceEnergy& energy, int number, MatrixXd& hessian) {
    for (int t = 0; t < number; t++)
        energy.visit(t, nullptr, [&](int a, int b, const Matrix& h) {
            hessian.block<3, 3>(3 * a, 3 * b) += h;
            if (a != b)
                hessian.block<3, 3>(3 * b, 3 * a) += h.transpose();
        });
    return hessian.allFinite();
}

/** Minimize the energy by Newton's method, damped; what is left of it. */
double minimize(PieceEnergy& energy) {
    const int n = energy.x.size(), mostSteps = 60, mostTries = 12;
    const double farthest = 0.03, enough = 1e-6; // nm; kJ/mol
    auto getEnergy = [&] {
        double sum = 0;
        for (int t = 0; t < energy.countHeld(); t++)
            sum += energy.visit(t, nullptr, nullptr);
        return std::isfinite(sum) ? sum : infinity;
    };
    double damping = 100, least = getEnergy(); // kJ/mol/nm^2
    for (int step = 0; step < mostSteps; step++) {
        VectorXd gradient = VectorXd::Zero(3 * n);
        MatrixXd hessian = MatrixXd::Zero(3 * n, 3 * n);
        for (int t = 0; t < energy.countHeld(); t++)
            energy.visit(
                    t, [&](int a, const Vector& g) { gradient.segment<3>(3 * a) += g; }, nullptr);
        if (!addHessian(energy, energy.countHeld(), hessian) || !gradient.allFinite())
            break;
        const Vectors3<double> before = energy.x;
        double decrease = 0;
        for (int attempt = 0; attempt < mostTries && decrease == 0; attempt++) {
            const Eigen::LLT<MatrixXd> factor(hessian + damping * MatrixXd::Identity(3 * n, 3 * n));
            if (factor.info() == Eigen::Success) {
                const VectorXd move = -factor.solve(gradient);
                if (-gradient.dot(move) < 2 * enough && attempt == 0)
                    return least;
                if (move.cwiseAbs().maxCoeff() < farthest) {
                    for (int i = 0; i < n; i++)
                        energy.x[i] += move.segment<3>(3 * i);
                    const double found = getEnergy();
                    if (found < least) {
                        decrease = least - found;
                        least = found;
                        damping = std::max(1.0, damping / 10);
                        continue;
                    }
                    energy.x = before;
                }
            }
            damping *= 4;
        }
        if (decrease == 0)
            break;
    }
    return least;
}

/** Build it from several first particles, until what is left of the energy is little. */
PieceMinimum findMinimum(PieceEnergy& energy, const vector<HeldDistance>& bonds) {
    const int n = energy.x.size(), mostStarts = 4;
    const double goodEnough = 5; // kJ/mol for each particle
    vector<vector<std::pair<int, double>>> neighbours(n);
    for (const auto& [i, j, length, stiffness] : bonds) {
        neighbours[i].push_back({j, length});
        neighbours[j].push_back({i, length});
    }
    PieceMinimum best;
    best.energy = infinity;
    for (int start = 0; start < mostStarts && !(best.energy < goodEnough * n); start++) {
        build(energy, neighbours, start * n / mostStarts);
        const double found = minimize(energy);
        if (start == 0 || found < best.energy)
            best = {energy.x, {}, found};
    }
    energy.x = best.positions;
    best.hessian = MatrixXd::Zero(3 * n, 3 * n);
    addHessian(energy, energy.countForces(), best.hessian);
    return best;
}

/** Add the curvature of an energy along a dihedral angle, of particles by their places. */
void addCurvature(double curvature, const vector<int>& at, PieceMinimum& minimum) {
    const Vectors3<double>& x = minimum.positions;
    const Dihedral<double> phi(x[at[0]] - x[at[1]], x[at[1]] - x[at[2]], x[at[3]] - x[at[2]]);
    VectorXd gradient = VectorXd::Zero(minimum.hessian.rows());
    for (int a = 0; a < 4; a++)
        gradient.segment<3>(3 * at[a]) += phi.gradient(a);
    if (gradient.allFinite())
        minimum.hessian += curvature * gradient * gradient.transpose();
}

} // namespace

std::shared_ptr<const PieceMinimum>
PieceMinima::find(const StiffTerms& terms, const Block& piece, const vector<HeldDistance>& bonds,
                  const vector<HeldDistance>& held, const vector<HeldDistance>& guides,
                  const vector<StiffTorsion>& torsions, vector<FunctionCopy>& functions) {
    PieceEnergy energy(terms, functions, piece, held, guides);
    vector<double> description = energy.describe();
    description.push_back(bonds.size());
    for (const auto& [place1, place2, length, stiffness] : bonds)
        description.insert(description.end(), {double(place1), double(place2), length});
    for (const auto& [particles, curvature] : torsions) {
        const vector<int> places = piece.findPlaces({particles.begin(), particles.end()});
        description.insert(description.end(), places.begin(), places.end());
        description.push_back(curvature);
    }
    std::shared_ptr<const PieceMinimum>& known = minima[description];
    if (!known) {
        PieceMinimum minimum = findMinimum(energy, bonds);
        for (const auto& [particles, curvature] : torsions)
            addCurvature(curvature, piece.findPlaces({particles.begin(), particles.end()}), minimum);
        size += description.size() + minimum.hessian.size();
        known = std::make_shared<const PieceMinimum>(std::move(minimum));
    }
    return known;
}

void PieceMinima::forgetUnused() {
    for (auto each = minima.begin(); each != minima.end();)
        each = each->second.use_count() > 1 ? std::next(each) : minima.erase(each);
    size = 0;
}
