#ifndef OPENMM_STIFF_H_
#define OPENMM_STIFF_H_

/**
 * Everything that a C++ program needs to use OpenMM-Stiff.
 */
#include "openmmstiff/ConstraintPenalties.h"
#include "openmmstiff/HMMIntegrator.h"
#include "openmmstiff/ImpulseIntegrator.h"
#include "openmmstiff/ImpulseLangevinIntegrator.h"
#include "openmmstiff/MassPenaltyIntegrator.h"
#include "openmmstiff/MassPenaltyLangevinIntegrator.h"
#include "openmmstiff/SpookIntegrator.h"
#include "openmmstiff/StiffIntegrator.h"
#include "openmmstiff/ZhangSkeelIntegrator.h"
#include "openmmstiff/ZhangSkeelLangevinIntegrator.h"

#endif /* OPENMM_STIFF_H_ */
