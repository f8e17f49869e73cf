#ifndef STIFFCORE_PAIRS_MASS_ROOT_H_
#define STIFFCORE_PAIRS_MASS_ROOT_H_

#include "../Geometry.h"
#include "../model/Block.h"
#include "../model/PenalizedPair.h"
#include "../rows/Rows.h"
#include <Eigen/SparseCholesky>
#include <Eigen/SparseCore>
#include <cmath>
#include <utility>
#include <vector>

namespace stiffcore {

/**
 * The way from velocities of the masses alone to those that are tied to pairs with inertias, and back, for one block: a
 * linear map N with
 *
 *     N^T (M + G^T kappa G) N = M.
 *
 * It keeps the kinetic energy, and turns N(0, kT M^-1) into N(0, kT (M + G^T kappa G)^-1). It acts along the pairs, so
 * that momentum stays what it is, and angular momentum where no bond has an inertia; and it is continuous in the positions
 * and the inertias. To add the inertia kappa of one pair to masses M_k changes velocities along y = M_k^-1 g alone, by the
 * factor s,
 *
 *     v <- v - (1 - s) y (g.v) / (g.y),    s = (1 + kappa g.y)^(-1/2)
 *
 * and N is the product of these for all pairs, in order. With L D L^T = A = G M^-1 G^T + 1/kappa, the y_k are the columns
 * of M^-1 G^T L^-T, g_k.y_k = D_k - 1/kappa_k and g_k.y_j = L_kj D_j for k > j; so s_k = (kappa_k D_k)^(-1/2), and N
 * takes a solve with each of L and L^T. A constraint has s = 0: what it forbids is lost.
 */
class MassRoot {
public:
    /** @param masses, positions   of all particles of the System; components of positions follow each other */
    MassRoot(const Block& block, const PairTerms& terms, const std::vector<double>& masses, const double* positions,
             const Box& box)
            : block(block) {
        inverseMasses.resize(block.particles.size());
        for (int i = 0; i < block.numMobile; i++)
            inverseMasses[i] = 1 / masses[block.particles[i]];
        std::vector<std::vector<std::pair<int, Vector3<double>>>> gradients(block.particles.size());
        std::vector<double> inverseInertias;
        auto addRow = [&](int particle1, int particle2, const Vector3<double>& direction, double inertia) {
            const int p = rows.size(), from = block.findPlace(particle1), to = block.findPlace(particle2);
            const bool constrained = std::isinf(inertia);
            rows.push_back({from, to, direction, constrained, 0, 0});
            gradients[from].push_back({p, -direction});
            gradients[to].push_back({p, direction});
            inverseInertias.push_back(constrained ? rowRegularization * (inverseMasses[from] + inverseMasses[to])
                                                  : 1 / inertia);
        };
        for (int term : block.terms) {
            const PenalizedPair& pair = terms.pairs[term];
            Vector3<double> d = at(positions, pair.particle2) - at(positions, pair.particle1);
            if (pair.periodic)
                d = box.minimumImage(d);
            const double length = d.norm();
            addRow(pair.particle1, pair.particle2,
                   length > 0 ? Vector3<double>(d / length) : Vector3<double>(Vector3<double>::Zero()), pair.inertia);
        }
        // The inertia of a bond is that of three directions.
        for (int term : block.otherTerms)
            for (int axis = 0; axis < 3; axis++) {
                const BondInertia& bond = terms.bonds[term];
                addRow(bond.particle1, bond.particle2, Vector3<double>::Unit(axis), bond.inertia);
            }
        const int n = rows.size();
        std::vector<Eigen::Triplet<double>> entries;
        for (int p = 0; p < n; p++)
            entries.emplace_back(p, p, inverseInertias[p]);
        for (int i = 0; i < block.numMobile; i++)
            for (const auto& [p, gradient] : gradients[i])
                for (const auto& [q, other] : gradients[i])
                    if (q <= p)
                        entries.emplace_back(p, q, gradient.dot(other) * inverseMasses[i]);
        Eigen::SparseMatrix<double> A(n, n);
        A.setFromTriplets(entries.begin(), entries.end());
        // In the order of the pairs, for that decides on the map.
        const Eigen::SimplicialLDLT<Eigen::SparseMatrix<double>, Eigen::Lower, Eigen::NaturalOrdering<int>> ldlt(A);
        lower = ldlt.matrixL();
        for (int p = 0; p < n; p++) {
            rows[p].pivot = ldlt.vectorD()[p];
            rows[p].scale = rows[p].constrained ? 0 : std::sqrt(inverseInertias[p] / rows[p].pivot);
        }
    }

    /**
     * v <- N v, for velocities of all particles of the System.
     *
     * @return the kinetic energy that constraints have taken [kJ/mol]
     */
    double tie(double* v) const {
        Eigen::VectorXd t = computeRates(v), q(t.size());
        double taken = 0;
        for (int k = 0; k < t.size(); k++) {
            const Row& row = rows[k];
            q[k] = t[k] / (row.pivot * (1 + row.scale));
            if (row.constrained)
                taken += 0.5 * t[k] * q[k];
            forEachBelow(k, [&](int j, double l) { t[j] -= l * row.pivot * q[k]; });
        }
        for (int k = t.size() - 1; k >= 0; k--)
            forEachBelow(k, [&](int j, double l) { q[k] -= l * q[j]; });
        push(-q, v);
        return taken;
    }

    /** v <- N^-1 v; what constraints forbid is not to be had back. */
    void release(double* v) const {
        const Eigen::VectorXd rates = computeRates(v);
        Eigen::VectorXd m(rates.size());
        for (int k = rates.size() - 1; k >= 0; k--) {
            const Row& row = rows[k];
            double sum = 0;
            forEachBelow(k, [&](int j, double l) { sum += l * m[j]; });
            const double factor = row.pivot * row.scale; // 1/kappa is factor * scale
            m[k] = row.constrained ? -sum : (rates[k] - factor * sum) / (factor * (1 + row.scale));
        }
        push(m, v);
    }

private:
    struct Row {
        int from, to; // places in the block
        Vector3<double> direction;
        bool constrained;
        double pivot, scale; // D and s
    };

    static Vector3<double> at(const double* vectors, int particle) {
        return Eigen::Map<const Vector3<double>>(vectors + 3 * particle);
    }
    /** G v */
    Eigen::VectorXd computeRates(const double* v) const {
        auto velocity = [&](int i) {
            return inverseMasses[i] > 0 ? at(v, block.particles[i]) : Vector3<double>(Vector3<double>::Zero());
        };
        Eigen::VectorXd rates(rows.size());
        for (size_t p = 0; p < rows.size(); p++)
            rates[p] = rows[p].direction.dot(velocity(rows[p].to) - velocity(rows[p].from));
        return rates;
    }
    /** v <- v + M^-1 G^T impulses */
    void push(const Eigen::VectorXd& impulses, double* v) const {
        for (size_t p = 0; p < rows.size(); p++)
            for (const auto& [i, impulse] : {std::pair(rows[p].from, -impulses[p]), std::pair(rows[p].to, impulses[p])})
                Eigen::Map<Vector3<double>>(v + 3 * block.particles[i]) +=
                        rows[p].direction * (impulse * inverseMasses[i]);
    }
    /** Call visit(row, entry) for the entries of a column of L below the diagonal. */
    template <class Visit> void forEachBelow(int column, Visit&& visit) const {
        for (Eigen::SparseMatrix<double>::InnerIterator entry(lower, column); entry; ++entry)
            if (entry.row() > column)
                visit(entry.row(), entry.value());
    }

    const Block& block;
    std::vector<Row> rows;
    std::vector<double> inverseMasses;
    Eigen::SparseMatrix<double> lower;
};

} // namespace stiffcore

#endif /* STIFFCORE_PAIRS_MASS_ROOT_H_ */
