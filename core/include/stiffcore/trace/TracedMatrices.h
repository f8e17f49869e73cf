#ifndef STIFFCORE_TRACE_TRACED_MATRICES_H_
#define STIFFCORE_TRACE_TRACED_MATRICES_H_

#include "../linear/DenseLdlt.h"
#include "../linear/DenseLu.h"
#include "Traced.h"

namespace stiffcore {

/**
 * Functions of the text that factor matrices in memory, and solve with them: the loops of DenseLdlt and DenseLu.
 * Unrolled, these would grow with the cube of the size. Of A^-1 the lower triangle is computed. The numbers of a matrix
 * are `stride` apart, as those of all blocks take turns.
 */
constexpr const char* matrixFunctions = R"(
#define AT(matrix, i) matrix[(i)*stride]
inline DEVICE void clear(GLOBAL mixed* A, size_t stride, int size) {
    for (int i = 0; i < size; i++)
        AT(A, i) = 0;
}
inline DEVICE bool factorLdlt(GLOBAL mixed* A, size_t stride, int n) {
    bool positive = true;
    for (int i = 0; i < n; i++) {
        GLOBAL mixed* row = A + i*n*stride;
        for (int j = 1; j < i; j++) {
            mixed sum = AT(row, j);
            for (int k = 0; k < j; k++)
                sum -= AT(row, k)*AT(A, j*n + k);
            AT(row, j) = sum;
        }
        mixed pivot = AT(row, i);
        for (int j = 0; j < i; j++) {
            const mixed l = AT(row, j)*AT(A, j*n + j);
            pivot -= l*AT(row, j);
            AT(row, j) = l;
        }
        positive = positive && pivot > 0;
        AT(row, i) = 1/pivot;
    }
    return positive;
}
inline DEVICE void solveLower(GLOBAL const mixed* A, size_t stride, int n, const mixed* S, mixed* b) {
    for (int i = 0; i < n; i++) {
        mixed sum = b[i];
        for (int k = 0; k < i; k++)
            sum -= AT(A, i*n + k)*b[k];
        b[i] = sum/(1 + S[i]);
    }
}
inline DEVICE void solveUpper(GLOBAL const mixed* A, size_t stride, int n, const mixed* S, mixed* b) {
    for (int i = n - 1; i >= 0; i--) {
        const mixed x = b[i]/(1 + S[i]);
        b[i] = x;
        for (int k = 0; k < i; k++)
            b[k] -= AT(A, i*n + k)*x;
    }
}
inline DEVICE void solveLdlt(GLOBAL const mixed* A, size_t stride, int n, mixed* b) {
    for (int i = 1; i < n; i++) {
        mixed sum = b[i];
        for (int k = 0; k < i; k++)
            sum -= AT(A, i*n + k)*b[k];
        b[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        mixed sum = b[i]*AT(A, i*n + i);
        for (int k = i + 1; k < n; k++)
            sum -= AT(A, k*n + i)*b[k];
        b[i] = sum;
    }
}
inline DEVICE void invertLdlt(GLOBAL const mixed* A, size_t stride, int n, GLOBAL mixed* inverse) {
    for (int j = 0; j < n; j++) {
        AT(inverse, j*n + j) = 1;
        for (int i = j + 1; i < n; i++) {
            mixed sum = 0;
            for (int k = j; k < i; k++)
                sum -= AT(A, i*n + k)*AT(inverse, k*n + j);
            AT(inverse, i*n + j) = sum;
        }
        for (int i = n - 1; i >= j; i--) {
            mixed sum = AT(inverse, i*n + j)*AT(A, i*n + i);
            for (int k = i + 1; k < n; k++)
                sum -= AT(A, k*n + i)*AT(inverse, k*n + j);
            AT(inverse, i*n + j) = sum;
        }
    }
}
inline DEVICE void factorLu(GLOBAL mixed* A, size_t stride, int n) {
    for (int k = 0; k < n; k++) {
        AT(A, k*n + k) = 1/AT(A, k*n + k);
        for (int i = k + 1; i < n; i++) {
            const mixed l = AT(A, i*n + k)*AT(A, k*n + k);
            AT(A, i*n + k) = l;
            for (int j = k + 1; j < n; j++)
                AT(A, i*n + j) -= l*AT(A, k*n + j);
        }
    }
}
inline DEVICE void solveLu(GLOBAL const mixed* A, size_t stride, int n, mixed* b) {
    for (int i = 1; i < n; i++)
        for (int k = 0; k < i; k++)
            b[i] -= AT(A, i*n + k)*b[k];
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            b[i] -= AT(A, i*n + k)*b[k];
        b[i] *= AT(A, i*n + i);
    }
}
)";

/** What these are called with. */
class MatrixInMemory {
public:
    MatrixInMemory(const Traced* values, int size)
            : arguments("&" + values->place() + ", STRIDE, " + std::to_string(size)), size(size) {
    }
    std::string call(const std::string& function, const std::string& more = "") const {
        return function + "(" + arguments + more + ")";
    }
    /** Call a function that replaces b, with or without a diagonal S. */
    void solve(const std::string& function, Traced* b, const Traced* S = nullptr) const {
        Trace& trace = Trace::get();
        const std::string diagonal = (S == nullptr ? "" : ", " + trace.addArray(S, size)),
                          array = trace.addArray(b, size);
        trace.add(call(function, diagonal + ", " + array) + ";");
        for (int i = 0; i < size; i++)
            b[i] = trace.read(array + "[" + std::to_string(i) + "]");
    }

private:
    std::string arguments;
    int size;
};

inline bool isInMemory(const Traced* matrix, int size) {
    return size > 0 && matrix->isInMemory();
}

template <int Size> struct DenseLdlt<Traced, Size> {
    using Unrolled = LdltLoops<Traced, Size>;

    static Traced::Mask factor(Traced* A, int size) {
        return isInMemory(A, size) ? Trace::get().call(MatrixInMemory(A, size).call("factorLdlt"))
                                    : Unrolled::factor(A, size);
    }
    static void solve(const Traced* factors, int size, Traced* b) {
        isInMemory(factors, size) ? MatrixInMemory(factors, size).solve("solveLdlt", b)
                                  : Unrolled::solve(factors, size, b);
    }
    static void solveLower(const Traced* factors, const Traced* S, int size, Traced* b) {
        isInMemory(factors, size) ? MatrixInMemory(factors, size).solve("solveLower", b, S)
                                  : Unrolled::solveLower(factors, S, size, b);
    }
    static void solveUpper(const Traced* factors, const Traced* S, int size, Traced* b) {
        isInMemory(factors, size) ? MatrixInMemory(factors, size).solve("solveUpper", b, S)
                                  : Unrolled::solveUpper(factors, S, size, b);
    }
    static void invert(const Traced* factors, int size, Traced* inverse) {
        if (!isInMemory(factors, size))
            return Unrolled::invert(factors, size, inverse);
        Trace::get().add(MatrixInMemory(factors, size).call("invertLdlt", ", &" + inverse->place()) + ";");
    }
};

template <int Size> struct DenseLu<Traced, Size> {
    using Unrolled = LuLoops<Traced, Size>;

    static void factor(Traced* A, int size) {
        if (!isInMemory(A, size))
            return Unrolled::factor(A, size);
        Trace::get().add(MatrixInMemory(A, size).call("factorLu") + ";");
    }
    static void solve(const Traced* factors, int size, Traced* b) {
        isInMemory(factors, size) ? MatrixInMemory(factors, size).solve("solveLu", b)
                                  : Unrolled::solve(factors, size, b);
    }
};

} // namespace stiffcore

#endif /* STIFFCORE_TRACE_TRACED_MATRICES_H_ */
