#ifndef STIFFHOST_HOST_STATE_H_
#define STIFFHOST_HOST_STATE_H_

#include "Vectors.h"
#include "openmm/Platform.h"
#include "openmm/State.h"
#include "openmm/System.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffcore/Geometry.h"
#include <exception>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The state of a Context, for one kernel and as long as that lives: all that kernels read and change of a Context goes
 * through here. Some platforms keep it in the memory of the host (InPlaceState), others on a device, from which it is
 * fetched and to which it is sent back (CopiedState). So
 *
 *  - A kernel uses the state only while it holds a Turn, and holds one at a time. At its end, also by an exception, the
 *    Context has what has been changed.
 *  - Vectors are read through positions(), velocities() and forces(), and changed only through changePositions() and
 *    changeVelocities(). The references are valid until the next call that reaches OpenMM: computeForces(),
 *    computeVirtualSites(), setParameter() and the end of the turn. These see what has been changed, and
 *    computeVirtualSites() changes positions itself.
 *  - Others may change the Context between turns. In steps that follow one another only forces may, and that is told:
 *    see beginSteps() and forcesHaveActed().
 *  - Changes by a kernel are not announced to the integrator, and positions that have not been set stay so.
 *  - Constraints are solved in the memory of the host, along the directions that they had before: what ContextImpl
 *    offers takes those of the end.
 */
class HostState {
public:
    explicit HostState(OpenMM::ContextImpl& context) : context(context) {
    }
    virtual ~HostState() = default;
    /** Get ready, once all that OpenMM has to know of the Context has been said. */
    virtual void initialize() {
    }

    /** A call of a kernel, during which nobody else changes the state. */
    class Turn {
    public:
        explicit Turn(HostState& state) : state(state), numExceptions(std::uncaught_exceptions()) {
            state.beginTurn();
        }
        ~Turn() noexcept(false) {
            try {
                state.endTurn();
            }
            catch (...) {
                // An exception that is on its way says what has happened first.
                if (std::uncaught_exceptions() == numExceptions)
                    throw;
            }
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

    private:
        HostState& state;
        const int numExceptions;
    };

    const OpenMM::System& getSystem() const {
        return context.getSystem();
    }
    const std::string& getPlatformName() const {
        return context.getPlatform().getName();
    }
    /** How large the rounding of forces may be, relative to the largest one; 0 in double precision. */
    virtual double getForceRounding() const = 0;

    /** Throw OpenMM's exception if the positions have not been set. (No force is in no group, so none is computed.) */
    void requirePositions() {
        context.calcForcesAndEnergy(false, false, 0);
    }
    virtual const Vectors& positions() = 0;
    virtual Vectors& changePositions() = 0;
    virtual const Vectors& velocities() = 0;
    virtual Vectors& changeVelocities() = 0;
    stiffcore::Box box() const {
        OpenMM::Vec3 vectors[3];
        context.getPeriodicBoxVectors(vectors[0], vectors[1], vectors[2]);
        stiffcore::Box box;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                box.vectors[i][j] = vectors[i][j];
        return box;
    }

    /** Compute the forces of some groups at the present positions. */
    virtual void computeForces(int groups) = 0;
    /** The forces that have been computed last, maybe by somebody else, and of which groups they are. */
    virtual const Vectors& forces() = 0;
    int getLastForceGroups() const {
        return context.getLastForceGroups();
    }
    virtual void computeVirtualSites() = 0;

    /** Bring positions back to the constraints, along the directions that these have at positions before a motion. */
    virtual void constrainPositions(Vectors& before, std::vector<double>& inverseMasses, double tolerance) = 0;
    virtual void constrainVelocities(std::vector<double>& inverseMasses, double tolerance) = 0;

    double time() const {
        return context.getTime();
    }
    void setTime(double time, long long stepCount) {
        context.setTime(time);
        context.setStepCount(stepCount);
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

    // What a state needs to know that works on copies.

    /** From now on, and until endSteps(), nobody but this kernel and forces changes the Context. */
    virtual void beginSteps() {
    }
    virtual void endSteps() {
    }
    /**
     * Forces have acted on the Context between two steps: they may have changed velocities.
     *
     * @param onPositions   whether they have changed positions or the box
     */
    virtual void forcesHaveActed(bool /*onPositions*/) {
    }
    /** The device has taken a step by itself. */
    virtual void deviceHasActed() {
    }
    /** Somebody has set positions or velocities: what a copy has beyond the Context is void. */
    virtual void haveBeenSet(OpenMM::State::DataType) {
    }
    /** What is known more exactly than by the Context itself, for checkpoints. */
    virtual void write(std::ostream&) {
    }
    virtual void read(std::istream&) {
    }

protected:
    virtual void beginTurn() {
    }
    virtual void endTurn() {
    }

    OpenMM::ContextImpl& context;
};

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STATE_H_ */
