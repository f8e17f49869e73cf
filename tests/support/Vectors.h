#ifndef STIFF_TEST_VECTORS_H_
#define STIFF_TEST_VECTORS_H_

#include "openmm/Vec3.h"
#include <Eigen/Core>
#include <vector>

/**
 * Vectors of OpenMM as those of Eigen.
 */
namespace stifftest {

inline Eigen::VectorXd toVector(const std::vector<OpenMM::Vec3>& vectors) {
    Eigen::VectorXd result(3 * vectors.size());
    for (size_t i = 0; i < vectors.size(); i++)
        for (int j = 0; j < 3; j++)
            result[3 * i + j] = vectors[i][j];
    return result;
}

inline std::vector<OpenMM::Vec3> toVec3s(const Eigen::VectorXd& values) {
    std::vector<OpenMM::Vec3> result;
    for (int i = 0; i < values.size(); i += 3)
        result.push_back(OpenMM::Vec3(values[i], values[i + 1], values[i + 2]));
    return result;
}

} // namespace stifftest

#endif /* STIFF_TEST_VECTORS_H_ */
