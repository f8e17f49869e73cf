#ifndef OPENMM_STIFF_IMPULSE_INTEGRATOR_PROXY_H_
#define OPENMM_STIFF_IMPULSE_INTEGRATOR_PROXY_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/serialization/SerializationProxy.h"

namespace OpenMMStiff {

/**
 * This is a proxy for serializing ImpulseIntegrator objects.
 */
class OPENMM_EXPORT_STIFF ImpulseIntegratorProxy : public OpenMM::SerializationProxy {
public:
    ImpulseIntegratorProxy();
    void serialize(const void* object, OpenMM::SerializationNode& node) const override;
    void* deserialize(const OpenMM::SerializationNode& node) const override;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_IMPULSE_INTEGRATOR_PROXY_H_ */
