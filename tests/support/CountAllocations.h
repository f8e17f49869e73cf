#ifndef STIFF_TEST_COUNT_ALLOCATIONS_H_
#define STIFF_TEST_COUNT_ALLOCATIONS_H_

#include "Assertions.h"
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <string>

/*
 * Counts the requests for heap memory, by any library: malloc() and its kind are replaced for the whole program,
 * as the GNU C library allows. (Eigen calls malloc() itself, so that a replaced operator new would not see it.)
 * Include this in one file of a program only. Elsewhere, and under the address sanitizer, nothing is counted.
 */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STIFF_TEST_COUNTS_ALLOCATIONS 1
#else
#define STIFF_TEST_COUNTS_ALLOCATIONS 0
#endif

namespace stifftest {

inline thread_local long numAllocations = 0;

/** Whether allocations are counted on this system. */
constexpr bool canCountAllocations = STIFF_TEST_COUNTS_ALLOCATIONS;

/** The number of allocations that this thread makes in a call of function(). */
template <class Function> long countAllocations(Function&& function) {
    const long before = numAllocations;
    function();
    return numAllocations - before;
}

/**
 * Assert that some steps take no memory beyond what evaluations of the forces take, as many as they need; an allocation
 * that the compiler cannot leave out is counted.
 *
 * @param asking   what evaluations are asked by, without the forces
 */
template <class Steps, class Evaluations, class Asking>
void assertTakesNoMemory(const std::string& what, Steps&& steps, Evaluations&& evaluations, Asking&& asking) {
    const long count = countAllocations(steps), ofForces = countAllocations(evaluations) - countAllocations(asking);
    std::cout << "allocations in " << what << " " << count << ", in their evaluations of the forces " << ofForces
              << std::endl;
    const long one = countAllocations([] {
        double* volatile memory = new double[100];
        delete[] memory;
    });
    if (one != 1 || count > ofForces)
        throwException(__FILE__, __LINE__, "There are more allocations in " + what + " than by the forces");
}

} // namespace stifftest

#if STIFF_TEST_COUNTS_ALLOCATIONS
// Other libraries must see these functions, also if the program is compiled with hidden visibility.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
    stifftest::numAllocations++;
    return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
    stifftest::numAllocations++;
    return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) {
    stifftest::numAllocations++;
    return __libc_realloc(memory, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    stifftest::numAllocations++;
    return __libc_memalign(alignment, size);
}
}
#pragma GCC visibility pop
#endif

#endif /* STIFF_TEST_COUNT_ALLOCATIONS_H_ */
