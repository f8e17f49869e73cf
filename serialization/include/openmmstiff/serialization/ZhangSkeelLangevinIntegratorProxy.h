#ifndef OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_PROXY_H_
#define OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_PROXY_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/serialization/SerializationProxy.h"

namespace OpenMMStiff {

/**
 * This is a proxy for serializing ZhangSkeelLangevinIntegrator objects.
 */
class OPENMM_EXPORT_STIFF ZhangSkeelLangevinIntegratorProxy : public OpenMM::SerializationProxy {
public:
    ZhangSkeelLangevinIntegratorProxy();
    void serialize(const void* object, OpenMM::SerializationNode& node) const override;
    void* deserialize(const OpenMM::SerializationNode& node) const override;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_ZHANG_SKEEL_LANGEVIN_INTEGRATOR_PROXY_H_ */
