#ifndef STIFFHOST_CHECKPOINTS_H_
#define STIFFHOST_CHECKPOINTS_H_

#include "Vectors.h"
#include "openmm/OpenMMException.h"
#include "openmm/serialization/SerializationNode.h"
#include <istream>
#include <ostream>
#include <string>
#include <vector>

namespace stiffhost {

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

/** A vector for each particle, in a saved State. */
inline void writeVectors(OpenMM::SerializationNode& node, const std::string& name, const std::string& each,
                         const Vectors& vectors) {
    OpenMM::SerializationNode& child = node.createChildNode(name);
    for (const OpenMM::Vec3& vector : vectors)
        child.createChildNode(each)
                .setDoubleProperty("x", vector[0])
                .setDoubleProperty("y", vector[1])
                .setDoubleProperty("z", vector[2]);
}
/** @return whether the State has them */
inline bool readVectors(const OpenMM::SerializationNode& node, const std::string& name, size_t number,
                        Vectors& vectors) {
    for (const OpenMM::SerializationNode& child : node.getChildren()) {
        if (child.getName() != name)
            continue;
        if (child.getChildren().size() != number)
            throw OpenMM::OpenMMException("The State has " + name + " of another number of particles");
        for (const OpenMM::SerializationNode& vector : child.getChildren())
            vectors.push_back(OpenMM::Vec3(vector.getDoubleProperty("x"), vector.getDoubleProperty("y"),
                                           vector.getDoubleProperty("z")));
        return true;
    }
    return false;
}

} // namespace stiffhost

#endif /* STIFFHOST_CHECKPOINTS_H_ */
