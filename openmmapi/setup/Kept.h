#ifndef OPENMM_STIFF_SETUP_KEPT_H_
#define OPENMM_STIFF_SETUP_KEPT_H_

#include <utility>

namespace OpenMMStiff {

/**
 * What has been collected from a System for some settings, kept up to date with both. Collecting is done again when the
 * settings are others, or when somebody says that the System has changed; and what comes of it counts as changed only
 * if it differs.
 *
 * @tparam Settings, Collected   can be compared
 */
template <class Settings, class Collected> class Kept {
public:
    /**
     * Bring it up to date.
     *
     * @param present   the present settings
     * @param collect   called as collect(present) if necessary. If it throws an exception, it will be called again next
     *                  time.
     * @return whether anything has changed
     */
    template <class Collect> bool update(const Settings& present, Collect&& collect) {
        if (upToDate && settings == present)
            return false;
        upToDate = false;
        Collected next = collect(present);
        settings = present;
        upToDate = true;
        if (revision > 0 && next == collected)
            return false;
        collected = std::move(next);
        revision++;
        return true;
    }

    /** The System may have changed. */
    void forget() {
        upToDate = false;
    }

    const Collected& get() const {
        return collected;
    }
    /** The number of times that it has changed; 0 before anything has been collected. */
    int getRevision() const {
        return revision;
    }

private:
    Settings settings = {};
    Collected collected = {};
    bool upToDate = false;
    int revision = 0;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_KEPT_H_ */
