#ifndef STIFFHOST_HOST_STATE_H_
#define STIFFHOST_HOST_STATE_H_

#include "ReferenceConstraints.h"
#include "ReferencePlatform.h"
#include "Vectors.h"
#include "openmm/Platform.h"
#include "openmm/System.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffcore/Geometry.h"
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The state of a Context, for one kernel and as long as that lives: all that kernels read and change of a Context goes
 * through here. This one is for platforms that keep it in double precision in the memory of the host: the Reference
 * platform and those derived from it. A Backend names its kind of state, and another kind has the same members. What
 * such a one may rely on, if it has to fetch vectors from a device and to send them back:
 *
 *  - A kernel uses the state only while it holds a Turn, and holds one at a time. At the beginning of a turn nothing is
 *    known of the vectors and the box: others may have changed them. At its end, also by an exception, the Context
 *    must have what has been changed.
 *  - Vectors are read through positions(), velocities() and forces(), and changed only through changePositions() and
 *    changeVelocities(). The references are valid until the next call that reaches OpenMM: computeForces(),
 *    computeVirtualSites(), setParameter() and the end of the turn. These must see what has been changed, and
 *    computeVirtualSites() changes positions itself.
 *  - Changes by a kernel are not announced to the integrator, and positions that have not been set stay so.
 *  - Constraints are solved in the memory of the host, along the directions that they had before: what ContextImpl
 *    offers takes those of the end.
 */
class HostState {
public:
    explicit HostState(OpenMM::ContextImpl& context)
            : context(context),
              data(*static_cast<OpenMM::ReferencePlatform::PlatformData*>(context.getPlatformData())) {
    }

    /** A call of a kernel, during which nobody else changes the state. */
    class Turn {
    public:
        explicit Turn(const HostState&) {
        }
        ~Turn() {
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
    };

    const OpenMM::System& getSystem() const {
        return context.getSystem();
    }
    const std::string& getPlatformName() const {
        return context.getPlatform().getName();
    }
    /** Whether forces are computed in double precision. */
    bool hasPreciseForces() const {
        return context.getPlatform().supportsDoublePrecision();
    }

    /** Throw OpenMM's exception if the positions have not been set. (No force is in no group, so none is computed.) */
    void requirePositions() {
        context.calcForcesAndEnergy(false, false, 0);
    }
    const Vectors& positions() const {
        return *data.positions;
    }
    Vectors& changePositions() {
        return *data.positions;
    }
    const Vectors& velocities() const {
        return *data.velocities;
    }
    Vectors& changeVelocities() {
        return *data.velocities;
    }
    stiffcore::Box box() const {
        stiffcore::Box box;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                box.vectors[i][j] = data.periodicBoxVectors[i][j];
        return box;
    }

    /** Compute the forces of some groups at the present positions. */
    void computeForces(int groups) {
        context.calcForcesAndEnergy(true, false, groups);
    }
    /** The forces that have been computed last, maybe by somebody else, and of which groups they are. */
    const Vectors& forces() const {
        return *data.forces;
    }
    int getLastForceGroups() const {
        return context.getLastForceGroups();
    }
    void computeVirtualSites() {
        context.computeVirtualSites();
    }

    /** Bring positions back to the constraints, along the directions that these have at positions before a motion. */
    void constrainPositions(Vectors& before, std::vector<double>& inverseMasses, double tolerance) {
        data.constraints->apply(before, *data.positions, inverseMasses, tolerance);
    }
    void constrainVelocities(std::vector<double>& inverseMasses, double tolerance) {
        data.constraints->applyToVelocities(*data.positions, *data.velocities, inverseMasses, tolerance);
    }

    double time() const {
        return data.time;
    }
    void advanceTime(double stepSize) {
        data.time += stepSize;
        data.stepCount++;
    }

    const std::map<std::string, double>& getParameters() const {
        return context.getParameters();
    }
    double getParameter(const std::string& name) const {
        return context.getParameter(name);
    }
    /** This tells the integrator, as if somebody else had changed the parameter. */
    void setParameter(const std::string& name, double value) {
        context.setParameter(name, value);
    }

private:
    OpenMM::ContextImpl& context;
    OpenMM::ReferencePlatform::PlatformData& data;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STATE_H_ */
