#ifndef STIFFHOST_HOST_PORT_H_
#define STIFFHOST_HOST_PORT_H_

#include "Vectors.h"
#include "stiffcore/batch/Batches.h"
#include "stiffcore/methods/Phases.h"
#include <vector>

namespace stiffhost {

/** The arrays of a System that phases work with, in the memory of the host. */
struct HostArrays {
    const double *x, *v;
    /// Null if no phase asks for them.
    const double* F;
    /// Null if they are not changed.
    double *newX, *newV;
    /// Accelerations, from one list to others.
    double* a;
    const double *noise, *termNoise;
    const stiffcore::StepNumbers& numbers;
    stiffcore::Box box;
};

/** The Port of batches on the host, see stiffcore/methods/Phases.h. */
template <class Real> class HostPort {
    using Vectors3 = stiffcore::Vectors3<Real>;
    using Mask = stiffcore::MaskOf<Real>;

public:
    explicit HostPort(const HostArrays& arrays) : arrays(arrays) {
    }
    double uniform(stiffcore::Uniform which) const {
        return arrays.numbers[which];
    }
    const stiffcore::Box& box() const {
        return arrays.box;
    }
    template <class Batch> void loadForces(const Batch& batch, Vectors3& vectors) const {
        gather(batch, arrays.F, vectors);
    }
    template <class Batch> void recall(const Batch& batch, Vectors3& vectors) const {
        gather(batch, arrays.a, vectors);
    }
    template <class Batch> void keep(const Batch& batch, const Vectors3& vectors) const {
        stiffcore::scatter(batch, vectors, arrays.a);
    }
    template <class Batch> void drawNoise(const Batch& batch, Vectors3& vectors) const {
        gather(batch, arrays.noise, vectors);
    }
    template <class Batch> void drawTermNoise(const Batch& batch, std::vector<Real>& numbers) const {
        gatherTerms(batch, arrays.termNoise, numbers);
    }
    void require(const Mask& mask) {
        succeeded = succeeded & mask;
    }
    /** The lanes in which phases have succeeded. */
    Mask haveSucceeded() const {
        return succeeded;
    }

private:
    const HostArrays& arrays;
    Mask succeeded = Mask(true);
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_PORT_H_ */
