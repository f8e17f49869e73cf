#ifndef OPENMM_STIFF_CHECKPOINT_TAG_H_
#define OPENMM_STIFF_CHECKPOINT_TAG_H_

#include "openmm/internal/ContextImpl.h"
#include <iosfwd>
#include <string>

/*
 * An integrator's part of a checkpoint: a tag with its class and version, the length of its data, the data, and a
 * checksum of these and of the positions and velocities that the Context has, which stand in OpenMM's part.
 */
namespace OpenMMStiff {

/** Write the part of an integrator of a class. */
void writeTagged(std::ostream& stream, const std::string& className, const std::string& data,
                 OpenMM::ContextImpl& context);

/**
 * Read the part of an integrator of a class; the Context has the positions and velocities of the checkpoint already.
 *
 * @return the data
 * @throws OpenMMException   if it was written with another integrator or version, or is damaged
 */
std::string readTagged(std::istream& stream, const std::string& className, OpenMM::ContextImpl& context);

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_CHECKPOINT_TAG_H_ */
