#include "openmmstiff/internal/CheckpointTag.h"
#include "openmm/OpenMMException.h"
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iostream>

using namespace OpenMM;
using namespace OpenMMStiff;
using std::string;

namespace {

const string magic = "OpenMM-Stiff/";
// 3 had other velocities; 4 had stiffnesses, and a checksum of what OpenMM keeps beside.
const int32_t version = 5;

[[noreturn]] void refuse(const string& className, const string& reason) {
    throw OpenMMException(className + ": the checkpoint cannot be loaded: " + reason);
}

/** The checksum FNV-1a. */
uint64_t computeChecksum(const string& data) {
    uint64_t value = 0xcbf29ce484222325;
    for (unsigned char byte : data)
        value = (value ^ byte) * 0x100000001b3;
    return value;
}

template <class T> void write(std::ostream& stream, T value) {
    stream.write(reinterpret_cast<const char*>(&value), sizeof(value));
}

/** Read as many bytes, or as many as there are: a damaged length must not be taken for memory that is needed. */
string readBytes(std::istream& stream, uint64_t length) {
    string bytes;
    char piece[4096];
    while (bytes.size() < length && stream) {
        stream.read(piece, std::min<uint64_t>(sizeof(piece), length - bytes.size()));
        bytes.append(piece, stream.gcount());
    }
    return bytes;
}

} // namespace

void OpenMMStiff::writeTagged(std::ostream& stream, const string& className, const string& data) {
    stream << magic << className << '\n';
    write<int32_t>(stream, version);
    write<uint64_t>(stream, data.size());
    stream.write(data.data(), data.size());
    write<uint64_t>(stream, computeChecksum(data));
}

string OpenMMStiff::readTagged(std::istream& stream, const string& className) {
    if (readBytes(stream, magic.size()) != magic)
        refuse(className, "it was written with an integrator that is not OpenMM-Stiff's (of which a State can be"
                          " loaded: saveState(), loadState()), or ends too early");
    string writer;
    const size_t longest = 100;
    for (char c; writer.size() < longest && stream.get(c) && c != '\n';)
        writer += c;
    if (!stream)
        refuse(className, "it ends too early");
    if (!std::all_of(writer.begin(), writer.end(), [](unsigned char c) { return std::isalnum(c); }))
        refuse(className, "it is damaged");
    if (writer != className)
        refuse(className, "it was written with " + writer +
                                  ", another class, of which a State can be loaded:"
                                  " saveState(), loadState()");
    auto read = [&](auto& value) {
        const string bytes = readBytes(stream, sizeof(value));
        if (bytes.size() < sizeof(value))
            refuse(className, "it ends too early");
        std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(&value));
    };
    int32_t itsVersion;
    uint64_t length, checksum;
    read(itsVersion);
    if (itsVersion != version)
        refuse(className, "it was written with another version of OpenMM-Stiff, or is damaged");
    read(length);
    const string data = readBytes(stream, length);
    if (data.size() < length)
        refuse(className, "it ends too early");
    read(checksum);
    if (checksum != computeChecksum(data))
        refuse(className, "it is damaged");
    return data;
}
