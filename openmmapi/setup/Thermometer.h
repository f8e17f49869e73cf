#ifndef OPENMM_STIFF_SETUP_THERMOMETER_H_
#define OPENMM_STIFF_SETUP_THERMOMETER_H_

#include "openmmstiff/internal/windowsExportStiff.h"
#include "openmm/System.h"
#include "openmm/Vec3.h"
#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace OpenMMStiff {

/** Particles that constraints connect, or one that none holds, and how many degrees of freedom they have. */
struct FreeGroup {
    std::vector<int> particles;
    int degreesOfFreedom;
};

OPENMM_EXPORT_STIFF std::vector<FreeGroup> findFreeGroups(const OpenMM::System& system);

/**
 * The temperature of a kinetic energy [K].
 *
 * @param degreesOfFreedom   how many there are, less three if the System has a CMMotionRemover
 * @param className          the integrator's class, for the error if none are left
 */
OPENMM_EXPORT_STIFF double computeTemperature(const OpenMM::System& system, double kineticEnergy, int degreesOfFreedom,
                                              const std::string& className);

/**
 * The temperatures of the kinds of molecules of a Context with a Langevin heat bath: a step that is too large for one
 * kind heats it, of which the temperature of all may tell nothing.
 */
class OPENMM_EXPORT_STIFF Thermometer {
public:
    /** @param molecules   the particles of each molecule; equal masses and numbers of constraints make a kind */
    Thermometer(const OpenMM::System& system, const std::vector<std::vector<int>>& molecules);

    /** The state has been set, and takes its time to forget that. */
    void forget() {
        numSettling = -1;
    }
    /** After how many steps a sample is due: reading velocities is to cost nothing beside them. */
    static int getInterval(const OpenMM::System& system) {
        return std::max(100, system.getNumParticles() / 1000);
    }
    /**
     * Take a sample of the velocities, so many steps after the last one.
     *
     * @return which molecules are hotter than the heat bath by more than chance and 5 %, and what to do; or empty
     */
    std::string sample(const std::vector<OpenMM::Vec3>& velocities, int steps, double temperature, double friction,
                       double stepSize);

private:
    struct Kind {
        int firstMolecule, numMolecules = 0, degreesOfFreedom = 0; // of all its molecules
        /// Of the present window: its steps, its samples and the sum of their temperatures [K].
        long long numSteps = 0, numSamples = 0;
        double sum = 0;
        void begin() {
            numSteps = numSamples = 0;
            sum = 0;
        }
    };
    const std::vector<std::vector<int>> molecules;
    std::vector<double> masses;
    std::vector<int> kindOf; // each molecule
    std::vector<Kind> kinds;
    std::array<double, 3> bath = {}; // temperature, friction and step size
    /// Steps that are left to settle, or -1 for all.
    int numSettling = -1;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_THERMOMETER_H_ */
