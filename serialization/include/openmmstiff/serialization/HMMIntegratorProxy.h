#ifndef OPENMM_STIFF_HMM_INTEGRATOR_PROXY_H_
#define OPENMM_STIFF_HMM_INTEGRATOR_PROXY_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/serialization/SerializationProxy.h"

namespace OpenMMStiff {

/**
 * This is a proxy for serializing HMMIntegrator objects.
 */
class OPENMM_EXPORT_STIFF HMMIntegratorProxy : public OpenMM::SerializationProxy {
public:
    HMMIntegratorProxy();
    void serialize(const void* object, OpenMM::SerializationNode& node) const override;
    void* deserialize(const OpenMM::SerializationNode& node) const override;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_HMM_INTEGRATOR_PROXY_H_ */
