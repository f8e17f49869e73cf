#ifndef STIFF_TEST_CORE_TEST_H_
#define STIFF_TEST_CORE_TEST_H_

/*
 * What tests of the numerics have in common, names too: only a Test*.cpp includes this.
 */
#include "Claims.h"
#include "Derivatives.h"
#include "RandomMatrix.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

using namespace stiffcore;
using namespace stifftest;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using std::string;
using std::vector;

#endif /* STIFF_TEST_CORE_TEST_H_ */
