#ifndef STIFF_TEST_SYSTEM_TEST_H_
#define STIFF_TEST_SYSTEM_TEST_H_

/*
 * What tests with Systems have in common, names too: only a Test*.cpp includes this.
 */
#include "Claims.h"
#include "Derivatives.h"
#include "OpenMMStiff.h"
#include "Systems.h"
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

using namespace OpenMM;
using namespace OpenMMStiff;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::string;
using std::vector;

#endif /* STIFF_TEST_SYSTEM_TEST_H_ */
