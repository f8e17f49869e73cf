#ifndef OPENMM_STIFF_MESSAGE_H_
#define OPENMM_STIFF_MESSAGE_H_

#include <sstream>
#include <string>

namespace OpenMMStiff {

/** The text of an error, put together from what a stream writes. */
template <class... Parts> std::string message(const Parts&... parts) {
    std::stringstream text;
    (text << ... << parts);
    return text.str();
}

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_MESSAGE_H_ */
