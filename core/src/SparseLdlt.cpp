#include "stiffcore/linear/SparseLdlt.h"
#include <Eigen/OrderingMethods>
#include <Eigen/SparseCore>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

using namespace stiffcore;

namespace {

/// Rows that are computed with as one.
constexpr int numRows = 4;
/// Vectors of the compiler: with Eigen's it takes calls where a function has grown too large to inline more.
struct Rows {
    using Half [[gnu::vector_size(16)]] = double;
    Half low, high;

    [[gnu::always_inline]] Rows& operator+=(const Rows& b) {
        low += b.low;
        high += b.high;
        return *this;
    }
    [[gnu::always_inline]] Rows& operator-=(const Rows& b) {
        low -= b.low;
        high -= b.high;
        return *this;
    }
    [[gnu::always_inline]] friend Rows operator*(const Rows& a, const Rows& b) {
        return {a.low * b.low, a.high * b.high};
    }
    [[gnu::always_inline]] friend Rows operator*(const Rows& a, double b) {
        return {a.low * b, a.high * b};
    }
    [[gnu::always_inline]] double operator[](int i) const {
        return i < 2 ? low[i] : high[i - 2];
    }
    [[gnu::always_inline]] double sum() const {
        const Half both = low + high;
        return both[0] + both[1];
    }
};

/// A supernode has at most so many columns.
constexpr int maxWidth = 8;
/// The targets of supernodes with more rows than this are found each time: their number grows with the square.
constexpr int maxStoredHeight = 64;

[[gnu::always_inline]] inline Rows load(const double* p) {
    Rows rows;
    std::memcpy(&rows.low, p, sizeof(rows.low));
    std::memcpy(&rows.high, p + 2, sizeof(rows.high));
    return rows;
}

[[gnu::always_inline]] inline Rows gather(const double* p, const int* places) {
    const Rows::Half low = {p[places[0]], p[places[1]]}, high = {p[places[2]], p[places[3]]};
    return {low, high};
}

[[gnu::always_inline]] inline void store(const Rows& rows, double* p) {
    std::memcpy(p, &rows.low, sizeof(rows.low));
    std::memcpy(p + 2, &rows.high, sizeof(rows.high));
}

template <class Visit, int... I>
[[gnu::always_inline]] inline void unrollSequence(Visit& visit, std::integer_sequence<int, I...>) {
    (visit(std::integral_constant<int, I>()), ...);
}

template <int N, class Visit> [[gnu::always_inline]] inline void unroll(Visit&& visit) {
    unrollSequence(visit, std::make_integer_sequence<int, N>());
}

template <class Visit> void withWidth(int width, Visit&& visit) {
    switch (width) {
    case 1:
        return visit(std::integral_constant<int, 1>());
    case 2:
        return visit(std::integral_constant<int, 2>());
    case 3:
        return visit(std::integral_constant<int, 3>());
    case 4:
        return visit(std::integral_constant<int, 4>());
    case 5:
        return visit(std::integral_constant<int, 5>());
    case 6:
        return visit(std::integral_constant<int, 6>());
    case 7:
        return visit(std::integral_constant<int, 7>());
    case 8:
        return visit(std::integral_constant<int, 8>());
    }
}

void sortOut(std::vector<int>& set) {
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
}

/**
 * About how long the work with a supernode takes, in units of what a target takes. Measured: a factorization, an
 * inverse and ten solves of a protein's matrix are fastest with these numbers, and hardly change over factors of
 * two.
 */
double cost(double width, double height) {
    const double padded = numRows * std::ceil(height / numRows);
    return 65 + 7 * width + height * (height + 1) / 2 + 1.3 * width * padded * (width + padded / 2 + 2);
}

} // namespace

SparseLdlt::SparseLdlt(int size, const std::vector<std::pair<int, int>>& entries, int numFirst)
        : place(size), x(size + 1), shift(size) {
    const std::vector<std::vector<int>> structure = orderColumns(size, entries, numFirst);
    formSupernodes(structure);
    placeValues(entries);
}

bool SparseLdlt::factor(const double* values) {
    std::fill(factors.begin(), factors.end(), 0.0);
    for (int p = 0; p < getNumValues(); p++)
        factors[valuePlaces[p]] = values[p];
    bool positive = true;
    for (const Supernode& node : nodes)
        withWidth(node.width, [&](auto width) { positive &= factorNode<width()>(node); });
    return positive;
}

[[gnu::flatten]] void SparseLdlt::solve(double* b) {
    for (int i = 0; i < getSize(); i++)
        x[place[i]] = b[i];
    x.back() = 0;
    for (const Supernode& node : nodes)
        withWidth(node.width, [&](auto width) { solveForward<width()>(node); });
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
        withWidth(node->width, [&](auto width) { solveBackward<width()>(*node); });
    for (int i = 0; i < getSize(); i++)
        b[i] = x[place[i]];
}

void SparseLdlt::solveLower(const double* S, double* b) {
    substitute(S, b, [&] {
        for (const Supernode& node : nodes)
            withWidth(node.width, [&](auto width) { solveLower<width()>(node); });
    });
}

void SparseLdlt::solveUpper(const double* S, double* b) {
    substitute(S, b, [&] {
        for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
            withWidth(node->width, [&](auto width) { solveUpper<width()>(*node); });
    });
}

void SparseLdlt::invertOnPattern(double* values) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
        withWidth(node->width, [&](auto width) { invertNode<width()>(*node); });
    for (int p = 0; p < getNumValues(); p++)
        values[p] = inverse[valuePlaces[p]];
}

template <int W> [[gnu::flatten]] bool SparseLdlt::factorNode(const Supernode& node) {
    double *L = factors.data() + node.triangle, *panel = factors.data() + node.panel,
           *d = &inversePivots[node.first];
    double l11[W][W], x11[W][W], inversePivot[W];
    unroll<W>([&](auto i) { unroll<i() + 1>([&](auto j) { l11[i][j] = L[i * W + j]; }); });
    bool positive = true;
    unroll<W>([&](auto k) {
        positive &= (l11[k][k] > 0);
        d[k] = inversePivot[k] = 1 / l11[k][k];
        unroll<W - k() - 1>([&](auto m) {
            constexpr int i = W - 1 - m();
            const double l = l11[i][k] * inversePivot[k];
            unroll<i - k()>([&](auto n) { l11[i][k() + 1 + n()] -= l * l11[k() + 1 + n()][k]; });
            l11[i][k] = l;
        });
    });
    for (int block = 0; block < node.numBlocks; block++) {
        double *l = panel + numRows * W * block, *ld = scaled.data() + numRows * W * block;
        Rows a[W];
        for (int k = 0; k < W; k++) {
            a[k] = load(l + numRows * k);
            for (int j = 0; j < k; j++)
                a[k] -= a[j] * l11[k][j];
        }
        for (int k = 0; k < W; k++) {
            store(a[k], ld + numRows * k);
            store(a[k] * inversePivot[k], l + numRows * k);
        }
    }
    // The lower triangle of L_21 D L_21^T is subtracted from where it belongs.
    double* values = factors.data();
    const int* target = findTargets(node);
    for (int I = 0; I < node.numBlocks; I++, target += numRows * node.height) {
        const double *ld = scaled.data() + numRows * W * I, *l = panel;
        const int numUsed = std::min(numRows, node.height - numRows * I);
        for (int J = 0; J <= I; J++, l += numRows * W) {
            Rows sum[numRows];
            unroll<numRows>([&](auto j) { sum[j] = load(ld) * l[j]; });
            unroll<W - 1>([&](auto m) {
                constexpr int k = m() + 1;
                const Rows a = load(ld + numRows * k);
                unroll<numRows>([&](auto j) { sum[j] += a * l[numRows * k + j]; });
            });
            const int* place = target + numRows * numRows * J;
            if (J < I && numUsed == numRows)
                unroll<numRows>([&](auto j) {
                    unroll<numRows>([&](auto i) { values[place[numRows * j() + i()]] -= sum[j][i]; });
                });
            else
                for (int i = 0; i < numUsed; i++)
                    for (int j = 0; j <= (J < I ? numRows - 1 : i); j++)
                        values[place[numRows * j + i]] -= sum[j][i];
        }
    }
    // Y L_11 = L_21, from the last column to the first.
    for (int block = 0; block < node.numBlocks; block++) {
        double* l = panel + numRows * W * block;
        Rows y[W];
        for (int k = W - 1; k >= 0; k--) {
            y[k] = load(l + numRows * k);
            for (int j = k + 1; j < W; j++)
                y[k] -= y[j] * l11[j][k];
            store(y[k], l + numRows * k);
        }
    }
    // L_11 X = 1, row by row.
    unroll<W>([&](auto i) {
        L[i * W + i] = inversePivot[i];
        unroll<i()>([&](auto k) {
            double sum = l11[i][k];
            unroll<i() - k() - 1>([&](auto n) { sum += l11[i][k() + 1 + n()] * x11[k() + 1 + n()][k]; });
            L[i * W + k] = x11[i][k] = -sum;
        });
    });
    return positive;
}

template <int W> void SparseLdlt::solveForward(const Supernode& node) {
    const double *L = factors.data() + node.triangle, *panel = factors.data() + node.panel;
    const int* row = rows.data() + node.rows;
    double b[W];
    for (int k = 0; k < W; k++)
        b[k] = x[node.first + k];
    for (int i = 0; i < W; i++) {
        double sum = b[i];
        for (int k = 0; k < i; k++)
            sum += L[i * W + k] * b[k];
        x[node.first + i] = sum * L[i * W + i];
    }
    for (int block = 0; block < node.numBlocks; block++, panel += numRows * W, row += numRows) {
        Rows sum = load(panel) * b[0];
        for (int k = 1; k < W; k++)
            sum += load(panel + numRows * k) * b[k];
        for (int i = 0; i < numRows; i++)
            x[row[i]] -= sum[i];
    }
}

template <int W> void SparseLdlt::solveBackward(const Supernode& node) {
    const double *L = factors.data() + node.triangle, *panel = factors.data() + node.panel;
    const int* row = rows.data() + node.rows;
    double b[W];
    for (int k = 0; k < W; k++) {
        b[k] = x[node.first + k];
        for (int i = k + 1; i < W; i++)
            b[k] += L[i * W + k] * x[node.first + i];
    }
    Rows sum[W];
    for (int k = 0; k < W; k++)
        sum[k] = Rows();
    for (int block = 0; block < node.numBlocks; block++, panel += numRows * W, row += numRows) {
        const Rows z = gather(x.data(), row);
        for (int k = 0; k < W; k++)
            sum[k] += load(panel + numRows * k) * z;
    }
    for (int k = 0; k < W; k++)
        x[node.first + k] = b[k] - sum[k].sum();
}

template <class Solve> void SparseLdlt::substitute(const double* S, double* b, Solve&& solve) {
    for (int i = 0; i < getSize(); i++) {
        x[place[i]] = b[i];
        shift[place[i]] = S[i];
    }
    x.back() = 0;
    solve();
    for (int i = 0; i < getSize(); i++)
        b[i] = x[place[i]];
}

/** z_1 of (L_11 + S) z_1 = b_1, by L_11^-1; then b_2 - L_21 z_1 = b_2 - Y (b_1 - S z_1). */
template <int W> void SparseLdlt::solveLower(const Supernode& node) {
    const double *L = factors.data() + node.triangle, *Y = factors.data() + node.panel, *S = &shift[node.first];
    double* z = &x[node.first];
    double rest[W];
    for (int i = 0; i < W; i++) {
        const double b = z[i];
        double sum = b;
        for (int k = 0; k < i; k++)
            sum += L[i * W + k] * rest[k];
        z[i] = sum / (1 + S[i]);
        rest[i] = b - S[i] * z[i];
    }
    for (int i = 0; i < node.height; i++)
        for (int k = 0; k < W; k++)
            x[rows[node.rows + i]] -= Y[numRows * (i / numRows * W + k) + i % numRows] * rest[k];
}

/** The same of the transposed matrix: z_1 + L_11^-T S z_1 = L_11^-T b_1 - Y^T z_2. */
template <int W> void SparseLdlt::solveUpper(const Supernode& node) {
    const double *L = factors.data() + node.triangle, *Y = factors.data() + node.panel, *S = &shift[node.first];
    double* z = &x[node.first];
    double rest[W];
    for (int k = W - 1; k >= 0; k--) {
        const double b = z[k];
        double sum = b;
        for (int i = k + 1; i < W; i++)
            sum += L[i * W + k] * rest[i];
        for (int i = 0; i < node.height; i++)
            sum -= Y[numRows * (i / numRows * W + k) + i % numRows] * x[rows[node.rows + i]];
        z[k] = sum / (1 + S[k]);
        rest[k] = b - S[k] * z[k];
    }
}

template <int W> [[gnu::flatten]] void SparseLdlt::invertNode(const Supernode& node) {
    const double *L = factors.data() + node.triangle, *Y = factors.data() + node.panel;
    double *Z11 = inverse.data() + node.triangle, *Z21 = inverse.data() + node.panel;
    const double* values = inverse.data();
    const int* target = findTargets(node);
    for (int I = 0; I < node.numBlocks; I++) {
        Rows sum[W];
        unroll<W>([&](auto k) { sum[k] = Rows(); });
        const double* y = Y;
        for (int j = 0; j < node.height; y += numRows * (W - 1))
            for (int m = 0; m < numRows && j < node.height; m++, j++, y++, target += numRows) {
                const Rows z = gather(values, target);
                unroll<W>([&](auto k) { sum[k] -= z * y[numRows * k()]; });
            }
        unroll<W>([&](auto k) { store(sum[k], Z21 + numRows * (W * I + k)); });
    }
    unroll<W>([&](auto j) {
        Rows sum[W];
        unroll<W - j()>([&](auto m) { sum[m] = Rows(); });
        const double *y = Y, *z = Z21;
        for (int I = 0; I < node.numBlocks; I++, y += numRows * W, z += numRows * W) {
            const Rows column = load(z + numRows * j);
            for (int m = 0; m < W - j; m++)
                sum[m] += load(y + numRows * (j + m)) * column;
        }
        // L_11^-T D^-1 L_11^-1; the triangle has D^-1 on its diagonal.
        double scaled[W];
        unroll<W - j()>([&](auto m) {
            constexpr int k = j() + m();
            scaled[k] = (k == j() ? L[k * W + k] : L[k * W + k] * L[k * W + j]);
        });
        unroll<W - j()>([&](auto m) {
            constexpr int i = j() + m();
            double z11 = scaled[i] - sum[m].sum();
            unroll<W - i - 1>([&](auto n) { z11 += L[(i + 1 + n()) * W + i] * scaled[i + 1 + n()]; });
            Z11[i * W + j] = z11;
        });
    });
}

/**
 * Find the fill-reducing order, and in that order the rows below the diagonal of each column of L.
 */
std::vector<std::vector<int>> SparseLdlt::orderColumns(int size, const std::vector<std::pair<int, int>>& entries,
                                           int numFirst) {
    using Matrix = Eigen::SparseMatrix<double>;
    std::vector<Eigen::Triplet<double>> symmetric;
    for (int i = 0; i < size; i++)
        symmetric.emplace_back(i, i, 1.0);
    for (const auto& [i, j] : entries)
        if (i != j) {
            symmetric.emplace_back(i, j, 1.0);
            symmetric.emplace_back(j, i, 1.0);
        }
    Matrix pattern(size, size);
    pattern.setFromTriplets(symmetric.begin(), symmetric.end());
    Eigen::PermutationMatrix<Eigen::Dynamic> order;
    Eigen::AMDOrdering<int>()(pattern, order);
    std::stable_partition(order.indices().begin(), order.indices().end(), [&](int i) { return i < numFirst; });
    for (int i = 0; i < size; i++)
        place[order.indices()[i]] = i;
    std::vector<std::vector<int>> structure(size);
    for (const auto& [i, j] : entries)
        if (i != j)
            structure[std::min(place[i], place[j])].push_back(std::max(place[i], place[j]));
    // The rows of a column are also in the column of its first one, its parent in the elimination tree.
    for (std::vector<int>& below : structure) {
        sortOut(below);
        if (!below.empty())
            structure[below[0]].insert(structure[below[0]].end(), below.begin() + 1, below.end());
    }
    return structure;
}

/**
 * Join columns to supernodes, and renumber: supernodes that do not depend on each other follow each other.
 */
void SparseLdlt::formSupernodes(const std::vector<std::vector<int>>& structure) {
    const int size = getSize();
    // A supernode is known by its last column, whose rows are those of all.
    std::vector<std::vector<int>> columns(size), children(size);
    for (int p = 0; p < size; p++) {
        std::vector<int> kept;
        std::sort(children[p].begin(), children[p].end(),
                  [&](int a, int b) { return structure[a].size() > structure[b].size(); });
        for (int child : children[p]) {
            const int width = columns[child].size(), before = columns[p].size() + 1;
            const double height = structure[child].size(), newHeight = structure[p].size();
            if (width + before <= maxWidth &&
                cost(width + before, newHeight) <= cost(width, height) + cost(before, newHeight)) {
                columns[p].insert(columns[p].end(), columns[child].begin(), columns[child].end());
                columns[child].clear();
                kept.insert(kept.end(), children[child].begin(), children[child].end());
            }
            else
                kept.push_back(child);
        }
        children[p] = kept;
        columns[p].push_back(p);
        if (!structure[p].empty())
            children[structure[p][0]].push_back(p);
    }
    std::vector<int> tops, level(size, 0);
    for (int p = 0; p < size; p++)
        if (!columns[p].empty()) {
            tops.push_back(p);
            for (int child : children[p])
                level[p] = std::max(level[p], level[child] + 1);
        }
    std::sort(tops.begin(), tops.end(), [&](int a, int b) {
        return std::make_tuple(level[a], columns[a].size(), structure[a].size(), a) <
               std::make_tuple(level[b], columns[b].size(), structure[b].size(), b);
    });
    std::vector<int> newPlace(size);
    int numColumns = 0, numValues = 0, maxScaled = 0;
    for (int top : tops)
        for (int column : columns[top])
            newPlace[column] = numColumns++;
    for (int& i : place)
        i = newPlace[i];
    for (int top : tops) {
        Supernode node;
        node.first = newPlace[columns[top].front()];
        node.width = columns[top].size();
        node.height = structure[top].size();
        node.numBlocks = (node.height + numRows - 1) / numRows;
        node.rows = rows.size();
        for (int row : structure[top])
            rows.push_back(newPlace[row]);
        std::sort(rows.begin() + node.rows, rows.end());
        rows.resize(node.rows + numRows * node.numBlocks, size);
        node.triangle = numValues;
        node.panel = node.triangle + (node.width * node.width + numRows - 1) / numRows * numRows;
        numValues = node.panel + numRows * node.numBlocks * node.width;
        nodeOfColumn.insert(nodeOfColumn.end(), node.width, nodes.size());
        nodes.push_back(node);
        maxScaled = std::max(maxScaled, numRows * node.numBlocks * node.width);
    }
    factors.resize(numValues + 1);
    inverse.resize(numValues + 1);
    inversePivots.resize(size);
    scaled.resize(maxScaled);
    int numFound = 0;
    for (Supernode& node : nodes) {
        const int numTargets = numRows * node.numBlocks * node.height;
        if (node.height <= maxStoredHeight) {
            node.targets = targets.size();
            targets.resize(targets.size() + numTargets);
            writeTargets(node, targets.data() + node.targets);
        }
        else {
            node.targets = -1;
            numFound = std::max(numFound, numTargets);
        }
    }
    foundTargets.resize(numFound);
}

const int* SparseLdlt::findTargets(const Supernode& node) {
    if (node.targets >= 0)
        return targets.data() + node.targets;
    writeTargets(node, foundTargets.data());
    return foundTargets.data();
}

void SparseLdlt::writeTargets(const Supernode& node, int* target) const {
    const int *row = rows.data() + node.rows, stride = numRows * node.height;
    // Rows beyond the matrix have a value of their own, 0.
    std::fill_n(target, node.numBlocks * stride, (int) factors.size() - 1);
    auto put = [&](int i, int j, int place) {
        target[i / numRows * stride + numRows * j + i % numRows] = place;
        target[j / numRows * stride + numRows * i + j % numRows] = place;
    };
    for (int j = 0; j < node.height; j++) {
        const Supernode& owner = nodes[nodeOfColumn[row[j]]];
        const int column = row[j] - owner.first, *ownersRows = rows.data() + owner.rows;
        int i = j, k = 0;
        for (; i < node.height && row[i] < owner.first + owner.width; i++)
            put(i, j, owner.triangle + (row[i] - owner.first) * owner.width + column);
        for (; i < node.height; i++) {
            while (ownersRows[k] < row[i])
                k++;
            put(i, j, panelPlace(owner, k, column));
        }
    }
}

int SparseLdlt::panelPlace(const Supernode& node, int row, int column) {
    return node.panel + (row / numRows * node.width + column) * numRows + row % numRows;
}

void SparseLdlt::placeValues(const std::vector<std::pair<int, int>>& entries) {
    std::vector<std::vector<int>> columns(getSize());
    for (const auto& [i, j] : entries)
        columns[std::min(place[i], place[j])].push_back(std::max(place[i], place[j]));
    for (int j = 0; j < getSize(); j++) {
        columns[j].push_back(j);
        sortOut(columns[j]);
        const Supernode& node = nodes[nodeOfColumn[j]];
        const auto first = rows.begin() + node.rows, last = first + node.height;
        valueStarts.push_back(valueRows.size());
        for (int i : columns[j]) {
            valueRows.push_back(i);
            valuePlaces.push_back(
                    i < node.first + node.width
                            ? node.triangle + (i - node.first) * node.width + j - node.first
                            : panelPlace(node, std::lower_bound(first, last, i) - first, j - node.first));
        }
    }
    valueStarts.push_back(valueRows.size());
}
