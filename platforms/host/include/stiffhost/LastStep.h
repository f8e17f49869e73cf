#ifndef STIFFHOST_LAST_STEP_H_
#define STIFFHOST_LAST_STEP_H_

#include "Vectors.h"
#include "stiffcore/Geometry.h"
#include <array>

namespace stiffhost {

/** Settings of an integrator, as numbers that can be compared. */
using SettingNumbers = std::array<double, 8>;

/** What accelerations depend on beside positions and parameters, and what nobody announces a change of. */
struct Dependencies {
    SettingNumbers settings = {};
    stiffcore::Box box = {};
    double time = 0;

    bool operator==(const Dependencies& other) const {
        return settings == other.settings && box == other.box && time == other.time;
    }
};

/**
 * Where the last step has ended, here or on a device: what was computed from forces there begins the next one, unless
 * something has changed.
 */
class LastStep {
public:
    /** Whether a step begins where the last one has ended. From now on that is not known, until the step has ended. */
    bool isContinuedBy(const Vectors& present, const Dependencies& dependencies) {
        return takeKnown() == Known::Here && areSame(present, positions) && dependencies == this->dependencies;
    }
    bool isContinuedThere(const Dependencies& dependencies) {
        return takeKnown() == Known::There && dependencies == this->dependencies;
    }
    void endsAt(const Vectors& present, const Dependencies& dependencies) {
        positions = present;
        this->dependencies = dependencies;
        known = Known::Here;
    }
    void endsThere(const Dependencies& dependencies) {
        this->dependencies = dependencies;
        known = Known::There;
    }
    /** Something has changed; or something that is noticed here, but not on a device. */
    void forget() {
        known = Known::Nothing;
    }
    void forgetThere() {
        if (known == Known::There)
            forget();
    }

private:
    enum class Known { Nothing, Here, There };
    Known takeKnown() {
        const Known result = known;
        forget();
        return result;
    }

    Vectors positions;
    Dependencies dependencies;
    Known known = Known::Nothing;
};

} // namespace stiffhost

#endif /* STIFFHOST_LAST_STEP_H_ */
