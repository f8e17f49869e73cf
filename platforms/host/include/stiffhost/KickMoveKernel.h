#ifndef STIFFHOST_KICK_MOVE_KERNEL_H_
#define STIFFHOST_KICK_MOVE_KERNEL_H_

#include "MethodKernel.h"

namespace stiffhost {

/**
 * Steps that are made of kicks of the forces and of a motion between them, half a kick before it and half after; with a
 * heat bath one kick, and a motion that holds the heat bath.
 *
 * @tparam Program   the device's, with the phases Start, Move and Kick
 */
template <class Backend, class Base, class Dependencies, class Program>
class KickMoveKernel : public MethodKernel<Backend, Base, Dependencies> {
public:
    using MethodKernel<Backend, Base, Dependencies>::MethodKernel;

    void execute(OpenMM::ContextImpl&, bool stateModified) final {
        if (this->thermostat != nullptr)
            this->takeStep(findDependencies(), true, [&](bool) {
                computeAccelerations();
                moveLangevin();
                this->computeVirtualSites();
            });
        else
            this->takeStep(findDependencies(), stateModified, [&](bool known) {
                if (!known) {
                    computeAccelerations();
                    if (this->isOnDevice())
                        this->device->execute(Program::Start); // which the next step begins with
                }
                moveVerlet();
                this->computeVirtualSites();
                computeAccelerations();
                kick();
            });
    }

protected:
    virtual Dependencies findDependencies() = 0;
    /** Compute what the forces do to the velocities, at the Context's present positions. */
    virtual void computeAccelerations() = 0;
    /** The kick, and the motion with the heat bath. */
    virtual void moveLangevin() = 0;
    /** Half a kick, and the motion. */
    virtual void moveVerlet() = 0;
    /** The other half of the kick. */
    virtual void kick() = 0;
};

} // namespace stiffhost

#endif /* STIFFHOST_KICK_MOVE_KERNEL_H_ */
