#ifndef OPENMM_STIFF_SPOOK_INTEGRATOR_PROXY_H_
#define OPENMM_STIFF_SPOOK_INTEGRATOR_PROXY_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/serialization/SerializationProxy.h"

namespace OpenMMStiff {

/**
 * This is a proxy for serializing SpookIntegrator objects.
 */
class OPENMM_EXPORT_STIFF SpookIntegratorProxy : public OpenMM::SerializationProxy {
public:
    SpookIntegratorProxy();
    void serialize(const void* object, OpenMM::SerializationNode& node) const override;
    void* deserialize(const OpenMM::SerializationNode& node) const override;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SPOOK_INTEGRATOR_PROXY_H_ */
