#ifndef STIFFCOMMON_LARGE_PAIRS_H_
#define STIFFCOMMON_LARGE_PAIRS_H_

#include "BlockText.h"
#include "openmm/Vec3.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffcore/Geometry.h"
#include "stiffcore/model/Block.h"
#include "stiffcore/model/PenalizedPair.h"
#include <iosfwd>
#include <memory>
#include <vector>

namespace stiffcommon {

/**
 * The pairs of molecules that are too large for a thread of a device, and their steps in the memory of the host, on the
 * processor's threads: see stiffcore::PenaltyStep. Arrays have their particles alone, in the order of getParticles().
 */
class LargePairs {
public:
    using Vectors = std::vector<OpenMM::Vec3>;

    explicit LargePairs(OpenMM::ContextImpl& context);
    ~LargePairs();

    /** @param blocks   those that are large, of the pairs of a System */
    void arrange(const std::vector<stiffcore::Block>& blocks, const std::vector<stiffcore::PenalizedPair>& pairs,
                 const std::vector<double>& masses);
    const std::vector<int>& getParticles() const;

    struct HeatBath {
        double friction, kT;
        bool metricCorrection;
    };
    /** What has failed, if anything: a block or, if it is the velocity's fault, a particle. */
    struct Failure {
        bool any = false;
        FailureKind kind = BlockFailed;
        int index = 0;
    };
    /** What happens between two computations of forces. */
    Failure moveLangevin(double h, double tolerance, const HeatBath& heatBath, const stiffcore::Box& box, Vectors& x,
                         Vectors& v, const Vectors& F);
    Failure moveVerlet(double h, double tolerance, const stiffcore::Box& box, Vectors& x, Vectors& v, const Vectors& F);
    Failure kick(double t, const stiffcore::Box& box, const Vectors& x, Vectors& v, const Vectors& F);

    void initializeRandom(int seed);
    void write(std::ostream& stream) const;
    void read(std::istream& stream);

private:
    class Batches;
    std::unique_ptr<Batches> batches;
};

} // namespace stiffcommon

#endif /* STIFFCOMMON_LARGE_PAIRS_H_ */
