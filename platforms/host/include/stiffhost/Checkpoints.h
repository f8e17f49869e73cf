#ifndef STIFFHOST_CHECKPOINTS_H_
#define STIFFHOST_CHECKPOINTS_H_

#include "openmm/OpenMMException.h"
#include <istream>
#include <ostream>
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

} // namespace stiffhost

#endif /* STIFFHOST_CHECKPOINTS_H_ */
