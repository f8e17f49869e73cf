#ifndef OPENMM_STIFF_CHECKPOINT_TAG_H_
#define OPENMM_STIFF_CHECKPOINT_TAG_H_

#include <iosfwd>
#include <string>

/*
 * An integrator's part of a checkpoint: a tag with its class and version, the length of its data, the data, and a
 * checksum of these. For the rest OpenMM answers: a Context with other forces may load it.
 */
namespace OpenMMStiff {

/** Write the part of an integrator of a class. */
void writeTagged(std::ostream& stream, const std::string& className, const std::string& data);

/**
 * Read the part of an integrator of a class.
 *
 * @return the data
 * @throws OpenMMException   if it was written with another integrator or version, or is damaged
 */
std::string readTagged(std::istream& stream, const std::string& className);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_CHECKPOINT_TAG_H_ */
