#ifndef OPENMM_STIFF_CHECKS_H_
#define OPENMM_STIFF_CHECKS_H_

#include "Message.h"
#include "openmm/OpenMMException.h"
#include <string>
#include <vector>

namespace OpenMMStiff {

/**
 * Require that a condition holds; an OpenMMException if not.
 *
 * @param parts   its text, see message(); they are evaluated in any case
 */
template <class... Parts> void require(bool condition, const Parts&... parts) {
    if (!condition)
        throw OpenMM::OpenMMException(message(parts...));
}

/**
 * Require that a list has an element of an index.
 *
 * @param className   the class, for error messages
 * @param what        what an element is, such as "pair"
 * @param adder       the method that adds one, such as "addPair()"; empty if none can be added
 */
inline void requireIndex(const std::string& className, const std::string& what, const std::string& adder, int index,
                         int size) {
    if (index >= 0 && index < size)
        return;
    throw OpenMM::OpenMMException(message(className, ": there is no ", what, " ", index, ". ",
                                          size == 0 ? "None has been added yet; use " + adder
                                                    : message("There are ", size, ", from 0 to ", size - 1,
                                                              adder.empty() ? adder : "; add more with " + adder)));
}

/**
 * Use the default of a setting, for which it is 0; or go on with the value that it has been given, if it has.
 *
 * @param setter   the method that gives it one, such as "setNumMicroSteps()"
 */
inline void useDefault(bool use, int& setting, const std::string& setter) {
    require(use || setting != 0, "There is no other value than the default yet: call ", setter, " to give one");
    if (use)
        setting = 0;
}

/** Set bit flags of force groups in place of a default, for which 0 stands. */
inline void setGroups(int groups, int& setting, const std::string& restore) {
    require(groups != 0, "There must be a force group; call ", restore, " to restore the default");
    setting = groups;
}

/** Append an element and set its parameters; it is not there if they are refused. Its index is returned. */
template <class Element, class Set> int append(std::vector<Element>& elements, Set&& set) {
    elements.emplace_back();
    try {
        set(elements.size() - 1);
    }
    catch (...) {
        elements.pop_back();
        throw;
    }
    return elements.size() - 1;
}

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_CHECKS_H_ */
