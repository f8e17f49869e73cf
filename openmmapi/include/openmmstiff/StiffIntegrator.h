#ifndef OPENMM_STIFF_STIFF_INTEGRATOR_H_
#define OPENMM_STIFF_STIFF_INTEGRATOR_H_

#include "internal/windowsExportStiff.h"
#include "openmm/Integrator.h"
#include "openmm/Kernel.h"
#include <iosfwd>
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * The common base of this plugin's integrators. It does for each of them what an OpenMM Integrator owes to its
 * Context: binding, the order of a step, notification of changes, checkpoints and saved states. A subclass holds the
 * settings of its method, names its kernel, and says how to advance by one step.
 */
class OPENMM_EXPORT_STIFF StiffIntegrator : public OpenMM::Integrator {
public:
    /**
     * Advance a simulation through time by taking a series of time steps.
     *
     * If a step fails, an OpenMMException says why, and the positions and velocities of the Context are those from
     * before the failed step.
     *
     * @param steps   the number of time steps to take
     */
    void step(int steps) override;

protected:
    /**
     * @param stepSize   the size of each time step [ps]
     */
    explicit StiffIntegrator(double stepSize);
    /**
     * Get the name of the subclass, as it stands in error messages.
     */
    virtual const char* getClassName() const = 0;
    /**
     * Initialize the kernel, just created, for the System of the Context.
     */
    virtual void initializeKernel() = 0;
    /**
     * Advance by one step.
     *
     * @param stateModified   whether a Force modified the Context's state (positions or box vectors) just before
     */
    virtual void advance(bool stateModified) = 0;

    void initialize(OpenMM::ContextImpl& context) override;
    void cleanup() override;
    void stateChanged(OpenMM::State::DataType changed) override;
    double computeKineticEnergy() override;
    bool kineticEnergyRequiresForce() const override;
    void createCheckpoint(std::ostream& stream) const override;
    void loadCheckpoint(std::istream& stream) override;
    void serializeParameters(OpenMM::SerializationNode& node) const override;
    void deserializeParameters(const OpenMM::SerializationNode& node) override;
    /**
     * Throw an exception unless this integrator is bound to a Context.
     */
    void requireContext() const;

    OpenMM::Kernel kernel;

private:
    bool loadingCheckpoint;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_STIFF_INTEGRATOR_H_ */
