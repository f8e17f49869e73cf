/**
 * The sparse solver against dense Eigen.
 */

#include "CoreTest.h"
#include "stiffcore/linear/SparseLdlt.h"

const double roundoff = 0x1p-53;
using Entries = std::vector<std::pair<int, int>>;

/** How many pivots exceed a threshold: for a positive semi-definite matrix, its numerical rank. */
int countPivots(const SparseLdlt& solver, double threshold) {
    int count = 0;
    for (int i = 0; i < solver.getSize(); i++)
        count += solver.pivot(i) > threshold;
    return count;
}

/** A pattern with each row joined to a few others, in either triangle and with repetitions. */
Entries randomEntries(Random& random, int size, int numPerRow) {
    Entries entries;
    for (int i = 0; i < size; i++)
        for (int k = 0; k < numPerRow; k++)
            entries.push_back({i, random.integer(size)});
    return entries;
}

/** Patterns of many kinds, from those of molecules to full ones. */
std::vector<std::pair<int, Entries>> variousPatterns(Random& random) {
    std::vector<std::pair<int, Entries>> patterns;
    for (int size : {32, 70, 150, 400}) {
        Entries tree, ring, cliques, dense;
        for (int i = 1; i < size; i++)
            tree.push_back({i, random.integer(i)});
        for (int i = 0; i < size; i++) {
            ring.push_back({i, (i + 1) % size});
            ring.push_back({(i + 2) % size, i});
        }
        // Groups of ten rows, each of which shares some with an earlier one, as pairs of bonded atoms do.
        for (int i = 0; i < size; i++) {
            const int first = i - i % 10, shared = (first > 0 ? random.integer(first) : 0);
            for (int j = first; j < i; j++)
                cliques.push_back({i, j});
            for (int j = shared; j < std::min(shared + 3, first); j++)
                cliques.push_back({j, i});
        }
        for (int i = 0; i < std::min(size, 150); i++)
            for (int j = 0; j < i; j++)
                dense.push_back({i, j});
        for (const Entries& entries : {Entries(), tree, ring, cliques, dense})
            patterns.push_back({size, entries});
    }
    for (int size : {1, 2, 7, 50, 200})
        for (int numPerRow : {1, 2, 5})
            patterns.push_back({size, randomEntries(random, size, numPerRow)});
    return patterns;
}

/** A symmetric matrix, with the diagonal that makes it diagonally dominant times a factor. */
MatrixXd randomDominant(Random& random, int size, const Entries& entries, double diagonalFactor = 1) {
    MatrixXd A = MatrixXd::Zero(size, size);
    for (const auto& [i, j] : entries)
        if (i != j)
            A(i, j) = A(j, i) = random.gaussian();
    for (int i = 0; i < size; i++)
        A(i, i) = diagonalFactor * (A.row(i).lpNorm<1>() + random.uniform(0.1, 1));
    return A;
}

/** The values of a matrix for a solver of this pattern. */
std::vector<double> valuesOf(const MatrixXd& A, const SparseLdlt& solver, const Entries& entries) {
    std::vector<double> values(solver.getNumValues(), 0.0);
    for (int i = 0; i < A.rows(); i++)
        values[solver.slot(i, i)] = A(i, i);
    for (const auto& [i, j] : entries)
        values[solver.slot(i, j)] = A(i, j);
    return values;
}

VectorXd solve(SparseLdlt& solver, VectorXd b) {
    solver.solve(b.data());
    return b;
}

/**
 * Check what the factors of a matrix with a dominant diagonal give, whose condition number is some 100: solutions, as
 * backward stable as those of the dense method, and by Takahashi's recurrence the inverse on the pattern.
 */
void checkFactors(Random& random, SparseLdlt& solver, const MatrixXd& A, const Entries& entries) {
    const MatrixXd inverse = inverseOf(A);
    const VectorXd b = randomVector(random, A.rows()), x = solve(solver, b);
    ASSERT((x - inverse * b).norm() <= 1e-12 * x.norm());
    ASSERT((A * x - b).norm() <= A.rows() * 10 * roundoff * A.norm() * x.norm());
    std::vector<double> values(solver.getNumValues());
    solver.invertOnPattern(values.data());
    for (int i = 0; i < A.rows(); i++)
        ASSERT_EQUAL_TOL(inverse(i, i), values[solver.slot(i, i)], 1e-12);
    for (const auto& [i, j] : entries)
        ASSERT_EQUAL_TOL(inverse(i, j), values[solver.slot(i, j)], 1e-12);
}

CLAIM(testEachEntryHasASlotOfItsOwn) {
    Random random(1);
    for (int size : {1, 2, 7, 50, 200}) {
        const Entries entries = randomEntries(random, size, 3);
        const SparseLdlt solver(size, entries);
        ASSERT_EQUAL(size, solver.getSize());
        std::set<std::pair<int, int>> positions;
        for (int i = 0; i < size; i++)
            positions.insert({i, i});
        for (const auto& [i, j] : entries)
            positions.insert({std::max(i, j), std::min(i, j)});
        ASSERT_EQUAL((int) positions.size(), solver.getNumValues());
        std::set<int> slots;
        for (const auto& [i, j] : positions) {
            ASSERT_EQUAL(solver.slot(i, j), solver.slot(j, i));
            ASSERT(solver.slot(i, j) >= 0 && solver.slot(i, j) < solver.getNumValues());
            slots.insert(solver.slot(i, j));
        }
        ASSERT_EQUAL(positions.size(), slots.size());
    }
}

CLAIM(testSolutionAndInverseAgreeWithDenseEigen) {
    Random random(2);
    std::vector<std::pair<int, Entries>> patterns = variousPatterns(random);
    for (int size : {1, 2, 3, 10, 40, 100, 200})
        for (int numPerRow : {0, 1, 2, 5})
            patterns.push_back({size, randomEntries(random, size, numPerRow)});
    for (const auto& [size, entries] : patterns) {
        SparseLdlt solver(size, entries);
        for (int repeat = 0; repeat < 3; repeat++) {
            const MatrixXd A = randomDominant(random, size, entries);
            ASSERT(solver.factor(valuesOf(A, solver, entries).data()));
            checkFactors(random, solver, A, entries);
        }
    }
}

CLAIM(testIndefiniteMatrixHasFactorsWithPivotsOfBothSigns) {
    // With a dominant diagonal of both signs no pivot is small. As many pivots are negative as eigenvalues
    // (Sylvester), and the factors solve as those of a definite matrix do.
    Random random(13);
    for (const auto& [size, entries] : variousPatterns(random)) {
        MatrixXd A = randomDominant(random, size, entries, 2);
        for (int i = 0; i < size; i++)
            if (random.integer(3) == 0)
                A(i, i) = -A(i, i);
        const int numNegative = (eigenvaluesOf(A).array() < 0).count();
        SparseLdlt solver(size, entries);
        ASSERT_EQUAL(numNegative == 0, solver.factor(valuesOf(A, solver, entries).data()));
        int numNegativePivots = 0;
        for (int i = 0; i < size; i++)
            numNegativePivots += (solver.pivot(i) < 0);
        ASSERT_EQUAL(numNegative, numNegativePivots);
        ASSERT_EQUAL(size - numNegative, countPivots(solver, 0));
        checkFactors(random, solver, A, entries);
    }
}

CLAIM(testPivotsAreThoseOfTheirRows) {
    // Rows that are coupled two by two: of each two one pivot is the entry on the diagonal, and the product of both
    // is the determinant.
    Random random(14);
    const int size = 60;
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    for (int i = size - 1; i > 0; i--)
        std::swap(order[i], order[random.integer(i + 1)]);
    Entries entries;
    for (int i = 0; i < size; i += 2)
        entries.push_back({order[i], order[i + 1]});
    const MatrixXd A = randomDominant(random, size, entries);
    SparseLdlt solver(size, entries);
    ASSERT(solver.factor(valuesOf(A, solver, entries).data()));
    for (const auto& [i, j] : entries) {
        const double determinant = A(i, i) * A(j, j) - A(i, j) * A(i, j);
        const bool isFirst = std::abs(solver.pivot(i) - A(i, i)) <= 4 * roundoff * A(i, i);
        ASSERT_EQUAL_TOL(isFirst ? determinant / A(i, i) : A(j, j), solver.pivot(j), 1e-13);
        ASSERT_EQUAL_TOL(isFirst ? A(i, i) : determinant / A(j, j), solver.pivot(i), 1e-13);
    }
}

/** The same matrix gives bitwise the same solution whatever was refused before: indefinite, or not a number. */
CLAIM(testAFactorizationDependsOnItsMatrixAlone) {
    Random random(3);
    const int size = 80;
    const Entries entries = randomEntries(random, size, 3);
    SparseLdlt solver(size, entries);
    const std::vector<double> values = valuesOf(randomDominant(random, size, entries), solver, entries);
    const VectorXd b = randomVector(random, size);
    ASSERT(solver.factor(values.data()));
    const VectorXd expected = solve(solver, b);
    std::vector<std::vector<double>> refused(values.size(), values);
    for (size_t i = 0; i < values.size(); i++)
        refused[i][i] = NAN;
    refused.push_back(valuesOf(randomDominant(random, size, entries, 0.05), solver, entries));
    refused.push_back(std::vector<double>(values.size(), 0.0));
    for (const std::vector<double>& before : refused) {
        ASSERT(!solver.factor(before.data()));
        ASSERT(solver.factor(values.data()));
        ASSERT(solve(solver, b) == expected);
    }
    ASSERT(solver.factor(values.data()));
    ASSERT(solve(solver, b) == expected && solve(solver, b) == expected);
}

CLAIM(testDefinitenessIsThatOfTheEigenvalues) {
    Random random(4);
    int numDefinite = 0;
    for (int i = 0; i < 600; i++) {
        const int size = 5 + i % 40;
        const Entries entries = randomEntries(random, size, 2);
        SparseLdlt solver(size, entries);
        const MatrixXd A = randomDominant(random, size, entries, random.uniform(0.3, 1));
        const double least = eigenvaluesOf(A)[0];
        ASSERT(std::abs(least) > 1e-9); // not lost in roundings
        ASSERT_EQUAL(least > 0, solver.factor(valuesOf(A, solver, entries).data()));
        numDefinite += (least > 0);
    }
    ASSERT(numDefinite > 100 && numDefinite < 500);
}

CLAIM(testSingularMatrixIsNotDefinite) {
    const Entries entries = {{0, 1}, {2, 3}};
    SparseLdlt solver(4, entries);
    MatrixXd A = MatrixXd::Identity(4, 4);
    ASSERT(solver.factor(valuesOf(A, solver, entries).data()));
    A(2, 2) = 4;
    A(3, 2) = A(2, 3) = 2;
    ASSERT(!solver.factor(valuesOf(A, solver, entries).data()));
    A(0, 0) = A(3, 2) = A(2, 3) = 0;
    ASSERT(!solver.factor(valuesOf(A, solver, entries).data()));
}

CLAIM(testPivotsCountTheRankOfASemidefiniteMatrix) {
    // A matrix as the projection has it: B B^T, with rows of length 1, and 1e-9 on the diagonal. The pivot of a
    // row is then the square of its distance from the space of the rows before it; if it lies in that space, 1e-9
    // (1 + |w|^2), w its weights there. Sums and differences of some orthogonal rows keep the one above 1e-3 and
    // the other below 1e-6.
    Random random(6);
    for (int i = 0; i < 300; i++) {
        const int rank = 1 + random.integer(20), size = rank + random.integer(10);
        MatrixXd B = MatrixXd::Zero(size, rank);
        B.topRows(rank).setIdentity();
        for (int row = rank; row < size; row++)
            for (double weight : {1.0, -0.5, 1.0})
                B(row, random.integer(rank)) += weight;
        for (int row = size - 1; row > 0; row--)
            B.row(row).swap(B.row(random.integer(row + 1)));
        B.rowwise().normalize();
        const MatrixXd A = B * B.transpose() + 1e-9 * MatrixXd::Identity(size, size);
        Entries entries;
        for (int row = 0; row < size; row++)
            for (int column = 0; column < row; column++)
                if (A(row, column) != 0)
                    entries.push_back({row, column});
        SparseLdlt solver(size, entries);
        ASSERT(solver.factor(valuesOf(A, solver, entries).data()));
        ASSERT_EQUAL(rank, countPivots(solver, 1e-6));
    }
}

CLAIM(testArrowMatrixIsSolvedInLinearMemory) {
    // In the given order the factors of this matrix would be full, 2 GB; the fill-reducing order keeps them as
    // sparse as the matrix.
    const int size = 20000;
    Entries entries;
    for (int i = 1; i < size; i++)
        entries.push_back({i, 0});
    SparseLdlt solver(size, entries);
    std::vector<double> values(solver.getNumValues(), 1.0);
    for (int i = 0; i < size; i++)
        values[solver.slot(i, i)] = (i == 0 ? size : 2);
    ASSERT(solver.factor(values.data()));
    // A x = b for x = (1, ..., 1)
    VectorXd b = VectorXd::Constant(size, 3);
    b[0] = 2 * size - 1;
    ASSERT((solve(solver, b) - VectorXd::Ones(size)).lpNorm<Eigen::Infinity>() < size * roundoff);
}

CHECK_CLAIMS
