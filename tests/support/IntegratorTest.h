#ifndef STIFF_TEST_INTEGRATOR_TEST_H_
#define STIFF_TEST_INTEGRATOR_TEST_H_

/*
 * What tests of integrators have in common, names too: only a Test*.cpp includes this.
 */
#include "Changes.h"
#include "DenseAlgebra.h"
#include "Methods.h"
#include "PlatformTest.h"
#include "Statistics.h"
#include "SystemTest.h"
#include "Vectors.h"

#endif /* STIFF_TEST_INTEGRATOR_TEST_H_ */
