#ifndef STIFFHOST_HOST_STATE_H_
#define STIFFHOST_HOST_STATE_H_

#include "ReferenceConstraints.h"
#include "ReferencePlatform.h"
#include "openmm/OpenMMException.h"
#include "openmm/Vec3.h"
#include "openmm/internal/ContextImpl.h"
#include "stiffcore/Geometry.h"
#include <algorithm>
#include <istream>
#include <sstream>
#include <string>
#include <vector>

namespace stiffhost {

/**
 * The state of a Context whose platform keeps it in double precision in the memory of the host: the Reference
 * platform and those derived from it.
 */
class HostState {
public:
    explicit HostState(OpenMM::ContextImpl& context)
            : data(*reinterpret_cast<OpenMM::ReferencePlatform::PlatformData*>(context.getPlatformData())) {
    }
    std::vector<OpenMM::Vec3>& positions() {
        return *data.positions;
    }
    const std::vector<OpenMM::Vec3>& positions() const {
        return *data.positions;
    }
    std::vector<OpenMM::Vec3>& velocities() {
        return *data.velocities;
    }
    const std::vector<OpenMM::Vec3>& velocities() const {
        return *data.velocities;
    }
    const std::vector<OpenMM::Vec3>& forces() const {
        return *data.forces;
    }
    OpenMM::ReferenceConstraints& constraints() {
        return *data.constraints;
    }
    stiffcore::Box box() const {
        stiffcore::Box box;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                box.vectors[i][j] = data.periodicBoxVectors[i][j];
        return box;
    }
    void advanceTime(double stepSize) {
        data.time += stepSize;
        data.stepCount++;
    }

private:
    OpenMM::ReferencePlatform::PlatformData& data;
};

/** Read the data of an integrator from a checkpoint. */
template <class T> void readCheckpoint(std::istream& stream, T* data, size_t count) {
    stream.read((char*) data, sizeof(T) * count);
    if (!stream)
        throw OpenMM::OpenMMException("loadCheckpoint: the checkpoint ends before the integrator's data; it was written"
                                      " with another integrator");
}

/** A number, and arrays whose length goes before them, in a checkpoint. */
template <class T> void writeCheckpoint(std::ostream& stream, const T& value) {
    stream.write((const char*) &value, sizeof(T));
}
template <class T> void writeCheckpoint(std::ostream& stream, const std::vector<T>& values) {
    writeCheckpoint(stream, values.size());
    stream.write((const char*) values.data(), sizeof(T) * values.size());
}
template <class T> void readCheckpoint(std::istream& stream, std::vector<T>& values) {
    size_t number;
    readCheckpoint(stream, &number, 1);
    values.resize(number);
    readCheckpoint(stream, values.data(), number);
}

/** The components of an array of vectors, one after the other. */
inline double* components(std::vector<OpenMM::Vec3>& vectors) {
    return reinterpret_cast<double*>(vectors.data());
}

inline const double* components(const std::vector<OpenMM::Vec3>& vectors) {
    return reinterpret_cast<const double*>(vectors.data());
}

/** Throw OpenMM's exception if the positions have not been set. (No force is in no group, so none is computed.) */
inline void requirePositions(OpenMM::ContextImpl& context) {
    context.calcForcesAndEnergy(false, false, 0);
}

/** How error messages call the molecule with some particles. */
inline std::string describeMolecule(const std::vector<int>& particles, int count) {
    const int most = 12;
    std::stringstream list;
    list << "the molecule with " << (count == 1 ? "particle" : "particles");
    for (int i = 0; i < std::min(count, most); i++)
        list << (i > 0 ? ", " : " ") << particles[i];
    if (count > most)
        list << ", ... " << particles[count - 1] << " (" << count << " in all)";
    return list.str();
}

} // namespace stiffhost

#endif /* STIFFHOST_HOST_STATE_H_ */
