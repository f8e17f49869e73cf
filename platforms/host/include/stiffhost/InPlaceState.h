#ifndef STIFFHOST_IN_PLACE_STATE_H_
#define STIFFHOST_IN_PLACE_STATE_H_

#include "HostState.h"
#include "ReferenceConstraints.h"
#include "ReferencePlatform.h"
#include "openmm/OpenMMException.h"
#include <cmath>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The state of a Context of the Reference platform, or of one derived from it: in double precision and in the memory of
 * the host, where it can be changed in place.
 */
class InPlaceState final : public HostState {
public:
    explicit InPlaceState(OpenMM::ContextImpl& context)
            : HostState(context),
              data(*static_cast<OpenMM::ReferencePlatform::PlatformData*>(context.getPlatformData())),
              isReference(context.getPlatform().getName() == "Reference") {
    }
    /** Of forces in single precision, up to 2e-5 in liquid water, where much larger ones cancel each other. */
    double getForceRounding() const override {
        return context.getPlatform().supportsDoublePrecision() ? 0 : 1e-4;
    }
    const Vectors& positions() override {
        return *data.positions;
    }
    Vectors& changePositions() override {
        return *data.positions;
    }
    const Vectors& velocities() override {
        return *data.velocities;
    }
    Vectors& changeVelocities() override {
        return *data.velocities;
    }
    void computeForces(int groups) override {
        // What Reference does with other positions has no bounds: with PME it writes where it should not.
        if (isReference) // findNotFinite() would refuse what is finite and has an infinite square
            for (size_t i = 0; i < data.positions->size(); i++)
                for (int j = 0; j < 3; j++)
                    if (!std::isfinite((*data.positions)[i][j]))
                        throw OpenMM::OpenMMException("The position of particle " + std::to_string(i) +
                                                      " is not finite");
        context.calcForcesAndEnergy(true, false, groups);
    }
    const Vectors& forces() override {
        return *data.forces;
    }
    void computeVirtualSites() override {
        context.computeVirtualSites();
    }
    void constrainPositions(Vectors& before, std::vector<double>& inverseMasses, double tolerance) override {
        data.constraints->apply(before, *data.positions, inverseMasses, tolerance);
    }
    void constrainVelocities(std::vector<double>& inverseMasses, double tolerance) override {
        data.constraints->applyToVelocities(*data.positions, *data.velocities, inverseMasses, tolerance);
    }

private:
    OpenMM::ReferencePlatform::PlatformData& data;
    const bool isReference;
};

} // namespace stiffhost

#endif /* STIFFHOST_IN_PLACE_STATE_H_ */
