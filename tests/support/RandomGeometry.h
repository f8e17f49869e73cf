#ifndef STIFF_TEST_RANDOM_GEOMETRY_H_
#define STIFF_TEST_RANDOM_GEOMETRY_H_

#include "stiffcore/Geometry.h"
#include <Eigen/Geometry>
#include <cmath>
#include <random>

namespace stifftest {

/**
 * Random numbers and geometries that are the same in each run and, being free of the standard library's
 * distributions, on each system.
 */
class Random {
public:
    explicit Random(unsigned seed) : engine(seed) {
    }
    double uniform(double low, double high) {
        return low + (high - low) * ((engine() >> 11) * 0x1p-53);
    }
    /** A whole number from 0 to n-1. */
    int integer(int n) {
        return engine() % n;
    }
    double gaussian() {
        const double r = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
        return r * std::cos(uniform(0, 2 * 3.14159265358979323846));
    }
    Eigen::Vector3d vector(double size) {
        return {uniform(-size, size), uniform(-size, size), uniform(-size, size)};
    }
    Eigen::Vector3d direction() {
        return Eigen::Vector3d(gaussian(), gaussian(), gaussian()).normalized();
    }
    /** A unit vector perpendicular to e. */
    Eigen::Vector3d directionAcross(const Eigen::Vector3d& e) {
        return e.cross(direction()).normalized();
    }
    /** A triclinic box in OpenMM's reduced form, with edges from 1.8 to 3 nm. */
    stiffcore::Box box() {
        const double a = uniform(1.8, 3), b = uniform(1.8, 3), c = uniform(1.8, 3);
        return {{{a, 0, 0}, {uniform(-0.5, 0.5) * a, b, 0}, {uniform(-0.5, 0.5) * a, uniform(-0.5, 0.5) * b, c}}};
    }

private:
    std::mt19937_64 engine;
};

} // namespace stifftest

#endif /* STIFF_TEST_RANDOM_GEOMETRY_H_ */
