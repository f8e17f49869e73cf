#ifndef OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_PROXY_H_
#define OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_PROXY_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/serialization/SerializationProxy.h"

namespace OpenMMStiff {

/**
 * This is a proxy for serializing MassPenaltyIntegrator objects.
 */
class OPENMM_EXPORT_STIFF MassPenaltyIntegratorProxy : public OpenMM::SerializationProxy {
public:
    MassPenaltyIntegratorProxy();
    void serialize(const void* object, OpenMM::SerializationNode& node) const override;
    void* deserialize(const OpenMM::SerializationNode& node) const override;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_PROXY_H_ */
