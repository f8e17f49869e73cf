#ifndef OPENMM_STIFF_MESSAGE_H_
#define OPENMM_STIFF_MESSAGE_H_

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace OpenMMStiff {

/** The text of an error, put together from what a stream writes. */
template <class... Parts> std::string message(const Parts&... parts) {
    std::stringstream text;
    (text << ... << parts);
    return text.str();
}

/** How errors call the molecule with the first of some particles, or with all of them. */
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
inline std::string describeMolecule(const std::vector<int>& particles) {
    return describeMolecule(particles, particles.size());
}

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_MESSAGE_H_ */
