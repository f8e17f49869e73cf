#ifndef OPENMM_STIFF_SETTINGS_H_
#define OPENMM_STIFF_SETTINGS_H_

#include "openmm/OpenMMException.h"
#include "openmm/Vec3.h"
#include "openmm/serialization/SerializationNode.h"
#include <array>
#include <charconv>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <vector>

namespace OpenMMStiff {

/**
 * The XML form of an object, being written or read. A class's settings are described once, for both: each visit of one
 * writes it to the node, or else reads it from there.
 */
class Settings {
public:
    explicit Settings(OpenMM::SerializationNode& written) : written(&written), read(&written) {
    }
    explicit Settings(const OpenMM::SerializationNode& read) : written(nullptr), read(&read) {
    }
    bool isReading() const {
        return written == nullptr;
    }

    /** An attribute; an OpenMMException if it is missing or is no such value. Enumerations are integers. */
    void value(const char* name, double& value) {
        if (isReading())
            value = parse<double>(name, "a number");
        else
            written->setDoubleProperty(name, value);
    }
    void value(const char* name, int& value) {
        if (isReading())
            value = parse<int>(name, "an integer");
        else
            written->setIntProperty(name, value);
    }
    void value(const char* name, bool& value) {
        if (isReading()) {
            const int number = parse<int>(name, "0 or 1");
            if (number != 0 && number != 1)
                refuse(name, "must be 0 or 1, but is " + std::to_string(number));
            value = number == 1;
        }
        else
            written->setBoolProperty(name, value);
    }
    void value(const char* name, std::string& value) {
        if (!isReading()) {
            written->setStringProperty(name, endsBehindEntity(value) ? value + ' ' : value);
            return;
        }
        value = text(name);
        if (endsBehindEntity(value) && value.back() == ' ')
            value.pop_back();
    }
    template <class Enumeration> void value(const char* name, Enumeration& value) {
        static_assert(std::is_enum_v<Enumeration>);
        int number = value;
        this->value(name, number);
        value = static_cast<Enumeration>(number);
    }

    /** The components of a vector, an attribute each. */
    void value(const std::array<const char*, 3>& names, OpenMM::Vec3& value) {
        for (int axis = 0; axis < 3; axis++)
            this->value(names[axis], value[axis]);
    }
    /** The names of child nodes and of their attribute. */
    struct Children {
        const char *childName, *name;
    };
    /** A child node for each of some elements, with an attribute for its value. Others may be among them. */
    template <class T> void value(const Children& names, std::vector<T>& elements) {
        if (isReading()) {
            for (const OpenMM::SerializationNode& child : read->getChildren())
                if (child.getName() == names.childName)
                    Settings(child).value(names.name, elements.emplace_back());
        }
        else
            for (T& element : elements)
                Settings(written->createChildNode(names.childName)).value(names.name, element);
    }

    /** An attribute that is a setting of an object. */
    template <class T, class Getter, class Setter>
    void setting(const char* name, T& object, Getter getter, Setter setter) {
        std::decay_t<decltype((object.*getter)())> value{};
        if (!isReading())
            value = (object.*getter)();
        this->value(name, value);
        if (isReading())
            (object.*setter)(value);
    }
    /** A setting that may follow a default: whether it does, and the value if not. */
    template <class T, class UseGetter, class UseSetter, class Getter, class Setter>
    void settingOrDefault(const char* useName, const char* name, T& object, UseGetter useGetter, UseSetter useSetter,
                          Getter getter, Setter setter) {
        bool useDefault = (object.*useGetter)();
        value(useName, useDefault);
        if (!useDefault)
            setting(name, object, getter, setter);
        else if (isReading())
            (object.*useSetter)(true);
    }

    /**
     * A child node that has a child for each of some objects.
     *
     * @param number     how many there are to be written
     * @param describe   describes the object of an index; called with that and the child's Settings
     */
    template <class Describe>
    void list(const char* listName, const char* childName, int number, const Describe& describe) {
        if (isReading()) {
            int index = 0;
            for (const OpenMM::SerializationNode& child : read->getChildNode(listName).getChildren())
                describe(index++, Settings(child));
        }
        else {
            OpenMM::SerializationNode& list = written->createChildNode(listName);
            for (int index = 0; index < number; index++)
                describe(index, Settings(list.createChildNode(childName)));
        }
    }
    /**
     * The same for elements that an object has.
     *
     * @param getter   gives the values of the element of an index
     * @param adder    adds an element with such values
     * @param names    of the values, in this order
     */
    template <class T, class... Values, class Adder, class... Names>
    void elements(const char* listName, const char* childName, int number, T& object,
                  void (T::*getter)(int, Values&...) const, Adder adder, const Names&... names) {
        list(listName, childName, number, [&](int index, Settings element) {
            std::tuple<Values...> values;
            std::apply(
                    [&](Values&... value) {
                        if (!element.isReading())
                            (object.*getter)(index, value...);
                        (element.value(names, value), ...);
                        if (element.isReading())
                            (object.*adder)(value...);
                    },
                    values);
        });
    }

private:
    /**
     * Whether a text ends, blanks aside, with one character behind one that XML writes as an entity. OpenMM's parser
     * loses what is last there: it gets a blank.
     */
    static bool endsBehindEntity(const std::string& text) {
        const auto last = text.find_last_not_of(' ');
        if (last == std::string::npos || last == 0)
            return false;
        const char before = text[last - 1];
        return (before > 0 && before < ' ') || std::string("<>&\"'").find(before) != std::string::npos;
    }
    [[noreturn]] static void refuse(const std::string& name, const std::string& reason) {
        throw OpenMM::OpenMMException("the attribute '" + name + "' of its XML form " + reason);
    }
    std::string text(const char* name) const {
        if (!read->hasProperty(name))
            refuse(name, "is missing");
        return read->getStringProperty(name);
    }
    /** The whole of an attribute's text: OpenMM's own functions take text that is no number for 0. */
    template <class T> T parse(const char* name, const std::string& kind) const {
        const std::string digits = text(name);
        const char* const end = digits.data() + digits.size();
        T value;
        const std::from_chars_result result = std::from_chars(digits.data(), end, value);
        if (result.ec != std::errc() || result.ptr != end)
            refuse(name, "must be " + kind + ", but is '" + digits + "'");
        return value;
    }

    OpenMM::SerializationNode* written; // null when reading
    const OpenMM::SerializationNode* read;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETTINGS_H_ */
