#ifndef STIFFHOST_COPIED_STATE_H_
#define STIFFHOST_COPIED_STATE_H_

#include "ReferenceConstraints.h"
#include "ReferenceVirtualSites.h"
#include "openmm/Kernel.h"
#include "openmm/VerletIntegrator.h"
#include "openmm/kernels.h"
#include "stiffhost/Checkpoints.h"
#include "stiffhost/HostState.h"
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The state of a Context of any platform: copies in the memory of the host and in double precision, fetched when they
 * are needed and sent back when they have been changed. What reaches the platform are the kernels by which ContextImpl
 * itself reaches it; they know how a device orders and wraps its particles. Forces are computed by the platform,
 * virtual sites and constraints here: that takes no transfer, and constraints act along the directions of before.
 *
 * A device may round what it is sent, and wraps molecules now and then. A copy goes on being used, with what it has
 * beyond that, as long as the device still holds what it made of it: its image.
 */
class CopiedState final : public HostState {
public:
    explicit CopiedState(OpenMM::ContextImpl& context) : HostState(context) {
    }
    void initialize() override {
        const OpenMM::Platform& platform = context.getPlatform();
        const OpenMM::System& system = context.getSystem();
        // Devices become ready when OpenMM initializes the kernel of one of its own integrators.
        verlet = platform.createKernel(OpenMM::IntegrateVerletStepKernel::Name(), context);
        verlet.getAs<OpenMM::IntegrateVerletStepKernel>().initialize(system, OpenMM::VerletIntegrator(0));
        transfer = platform.createKernel(OpenMM::UpdateStateDataKernel::Name(), context);
        transfer.getAs<OpenMM::UpdateStateDataKernel>().initialize(system);
        for (int i = 0; i < system.getNumParticles() && sites == nullptr; i++)
            if (system.isVirtualSite(i))
                sites = std::make_unique<OpenMM::ReferenceVirtualSites>(system);
        if (system.getNumConstraints() > 0)
            constraints = std::make_unique<OpenMM::ReferenceConstraints>(system);
        const auto& properties = platform.getPropertyNames();
        isDevice = std::find(properties.begin(), properties.end(), "Precision") != properties.end();
        for (Vectors* vectors : {&x.host, &x.image, &x.fetched, &v.host, &v.image, &v.fetched, &F})
            vectors->resize(system.getNumParticles());
        isPrecise = (isDevice ? platform.getPropertyValue(context.getOwner(), "Precision") == "double"
                              : platform.supportsDoublePrecision());
    }
    /**
     * Devices round positions to single precision before they compute forces, or else add these up in units of 2^-32
     * kJ/mol/nm. Where stiff forces are close to their minimum, either may be much of what is left.
     */
    double getForceRounding() const override {
        return !isPrecise ? 1e-2 : isDevice ? 1e-6 : 0;
    }

    const Vectors& positions() override {
        return x.get([&](Vectors& fetched) { device().getPositions(context, fetched); });
    }
    Vectors& changePositions() override {
        positions();
        return x.change();
    }
    const Vectors& velocities() override {
        return v.get([&](Vectors& fetched) { device().getVelocities(context, fetched); });
    }
    Vectors& changeVelocities() override {
        velocities();
        return v.change();
    }

    void computeForces(int groups) override {
        sendPositions();
        forcesKnown = false;
        context.calcForcesAndEnergy(true, false, groups);
    }
    const Vectors& forces() override {
        if (forcesKnown)
            return F;
        device().getForces(context, F);
        if (isDevice)
            markOverflow();
        forcesKnown = true;
        return F;
    }

    void computeVirtualSites() override {
        if (sites == nullptr)
            return;
        OpenMM::Vec3 box[3];
        context.getPeriodicBoxVectors(box[0], box[1], box[2]);
        sites->computePositions(getSystem(), changePositions(), box);
    }
    void constrainPositions(Vectors& before, std::vector<double>& inverseMasses, double tolerance) override {
        if (constraints != nullptr)
            constraints->apply(before, changePositions(), inverseMasses, tolerance);
    }
    void constrainVelocities(std::vector<double>& inverseMasses, double tolerance) override {
        if (constraints == nullptr)
            return;
        positions();
        constraints->applyToVelocities(x.host, changeVelocities(), inverseMasses, tolerance);
    }

    void beginSteps() override {
        // What a device holds before positions have been set is anything.
        if (!havePositions)
            requirePositions();
        havePositions = true;
        doubt();
        inSteps = true;
    }
    void endSteps() override {
        inSteps = false;
        takeImages();
    }
    void forcesHaveActed(bool onPositions) override {
        v.known = false;
        if (onPositions)
            x.known = false;
    }

    void deviceHasActed() override {
        doubt();
    }
    void haveBeenSet(OpenMM::State::DataType changed) override {
        if (changed == OpenMM::State::Positions)
            x.known = x.hasImage = false;
        if (changed == OpenMM::State::Velocities)
            v.known = v.hasImage = false;
    }

    void write(std::ostream& stream) override {
        positions();
        velocities();
        writeCheckpoint(stream, x.host);
        writeCheckpoint(stream, v.host);
    }
    /** The device holds already what it had made of them. */
    void read(std::istream& stream) override {
        Vectors readPositions, readVelocities;
        readCheckpoint(stream, readPositions);
        readCheckpoint(stream, readVelocities);
        positions();
        velocities();
        x.host.swap(readPositions);
        v.host.swap(readVelocities);
    }

protected:
    void beginTurn() override {
        if (!inSteps)
            doubt();
    }
    void endTurn() override {
        sendPositions();
        if (v.isToBeSent())
            device().setVelocities(context, v.host);
        if (!inSteps)
            takeImages();
    }

private:
    /** A copy of vectors, and what is known of it. */
    struct Copy {
        Vectors host, image, fetched;
        /// Whether it is what the device holds, the image, or has been changed here.
        bool known = false, hasImage = false, changed = false;

        template <class Fetch> const Vectors& get(Fetch&& fetch) {
            if (known)
                return host;
            fetch(fetched);
            if (!hasImage)
                host = fetched;
            else
                for (size_t i = 0; i < host.size(); i++)
                    if (fetched[i] != image[i])
                        host[i] = fetched[i];
            image.swap(fetched);
            known = hasImage = true;
            return host;
        }
        Vectors& change() {
            changed = true;
            return host;
        }
        /** Whether it has been changed; from now on it is what the device holds. */
        bool isToBeSent() {
            if (!changed)
                return false;
            changed = hasImage = false;
            return true;
        }
        /** Look what the device has made of it. */
        template <class Fetch> void takeImage(Fetch&& fetch) {
            if (!known || hasImage)
                return;
            fetch(image);
            hasImage = true;
        }
    };

    OpenMM::UpdateStateDataKernel& device() {
        return transfer.getAs<OpenMM::UpdateStateDataKernel>();
    }
    /** Others may have changed everything. */
    void doubt() {
        x.known = v.known = forcesKnown = false;
    }
    void sendPositions() {
        if (x.isToBeSent())
            device().setPositions(context, x.host);
    }
    /**
     * Devices add up forces in 64 bits with 32 behind the point, where infinities and what is not a number become
     * something of the size of 2^31 kJ/mol/nm, which no molecule lives to see.
     */
    void markOverflow() {
        const double largest = 0x40000000;
        for (OpenMM::Vec3& force : F)
            for (int i = 0; i < 3; i++)
                if (std::abs(force[i]) >= largest)
                    force[i] = std::numeric_limits<double>::quiet_NaN();
    }
    void takeImages() {
        x.takeImage([&](Vectors& fetched) { device().getPositions(context, fetched); });
        v.takeImage([&](Vectors& fetched) { device().getVelocities(context, fetched); });
    }

    OpenMM::Kernel verlet, transfer;
    std::unique_ptr<OpenMM::ReferenceVirtualSites> sites;
    std::unique_ptr<OpenMM::ReferenceConstraints> constraints;
    bool isDevice = false, isPrecise = false;
    Copy x, v;
    Vectors F;
    bool forcesKnown = false, inSteps = false, havePositions = false;
};

} // namespace stiffhost

#endif /* STIFFHOST_COPIED_STATE_H_ */
