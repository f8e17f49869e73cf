#include "openmmstiff/serialization/RegisterProxies.h"
#include "openmmstiff/HMMIntegrator.h"
#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/ImpulseLangevinIntegrator.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/SpookIntegrator.h"
#include "openmmstiff/ZhangSkeelIntegrator.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"
#include "openmmstiff/internal/Version.h"
#include "openmmstiff/serialization/HMMIntegratorProxy.h"
#include "openmmstiff/serialization/ImpulseIntegratorProxy.h"
#include "openmmstiff/serialization/ImpulseLangevinIntegratorProxy.h"
#include "openmmstiff/serialization/MassPenaltyIntegratorProxy.h"
#include "openmmstiff/serialization/MassPenaltyLangevinIntegratorProxy.h"
#include "openmmstiff/serialization/SpookIntegratorProxy.h"
#include "openmmstiff/serialization/ZhangSkeelIntegratorProxy.h"
#include "openmmstiff/serialization/ZhangSkeelLangevinIntegratorProxy.h"

using namespace OpenMM;
using namespace OpenMMStiff;

namespace {
bool registerProxies() {
    if (!isOpenMMCompatible())
        return false;
    SerializationProxy::registerProxy(typeid(ZhangSkeelIntegrator), new ZhangSkeelIntegratorProxy());
    SerializationProxy::registerProxy(typeid(ZhangSkeelLangevinIntegrator), new ZhangSkeelLangevinIntegratorProxy());
    SerializationProxy::registerProxy(typeid(ImpulseIntegrator), new ImpulseIntegratorProxy());
    SerializationProxy::registerProxy(typeid(ImpulseLangevinIntegrator), new ImpulseLangevinIntegratorProxy());
    SerializationProxy::registerProxy(typeid(MassPenaltyIntegrator), new MassPenaltyIntegratorProxy());
    SerializationProxy::registerProxy(typeid(MassPenaltyLangevinIntegrator), new MassPenaltyLangevinIntegratorProxy());
    SerializationProxy::registerProxy(typeid(SpookIntegrator), new SpookIntegratorProxy());
    SerializationProxy::registerProxy(typeid(HMMIntegrator), new HMMIntegratorProxy());
    return true;
}
} // namespace

extern "C" OPENMM_EXPORT_STIFF void registerOpenMMStiffSerializationProxies() {
    // Each platform library calls this; C++ initializes a static once, even with several threads.
    static const bool registered = registerProxies();
    (void) registered;
}
