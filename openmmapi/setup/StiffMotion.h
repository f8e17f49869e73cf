#ifndef OPENMM_STIFF_SETUP_STIFF_MOTION_H_
#define OPENMM_STIFF_SETUP_STIFF_MOTION_H_

#include "PenalizedPairs.h"
#include "CollectTerms.h"
#include "openmm/CustomExternalForce.h"
#include "openmm/System.h"
#include "openmm/Vec3.h"
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace OpenMMStiff {

/**
 * What an integrator treats as stiff in a System, and the fastest bonded motion that it leaves to the step: so that a
 * user learns what was not recognized.
 */
class OPENMM_EXPORT_STIFF StiffMotion {
public:
    /**
     * @param what   what the integrator treats, such as "stiff terms"
     * @param how    how it is told of others, such as "Call setStiffForceGroups()"
     * @param integrationGroups, parameters, className   see BondedStiffness
     */
    StiffMotion(const OpenMM::System& system, const std::string& what, const std::string& how, int integrationGroups,
                const std::map<std::string, double>& parameters, const std::string& className);

    /**
     * @param source      where it comes from, such as the name of a Force
     * @param particles   its particles; the distance between the first and the last is treated
     */
    void addTerm(const std::string& source, const std::vector<int>& particles);
    void addStiffTerms(const StiffTerms& terms);
    void addPairs(const std::vector<PairInertia>& pairs);
    /** Bonds and angles that no pair is for are slowed down by others; if not only them, by heavier particles. */
    void addSlowed(bool byMasses);
    /**
     * Bonds in a Force that has others inside, such as an ATMForce: nothing is known of them but that they are there.
     * What is farther apart than bonded atoms is left out.
     */
    void addHiddenBonds(const OpenMM::Force& force, const std::vector<std::pair<int, int>>& bonds,
                        const std::vector<OpenMM::Vec3>& positions);
    /**
     * Find the fastest motion that is not treated, after all that is has been added: of a pair, of an angle that no
     * distance tells, or of a particle in a CustomExternalForce.
     */
    void findFastest(const std::vector<OpenMM::Vec3>& positions);

    /** "12 stiff terms in 4 molecules: 8 of 'HarmonicBondForce', ...", and what is not among them. */
    std::string describe() const;
    /**
     * What a user has to be told before the first step of some size: that nothing was found, or that a motion is too
     * fast for it. Empty if there is nothing to be told.
     */
    std::string warn(double stepSize) const;
    /** How many periods of the fastest distance, treated or not, a step holds. */
    double countPeriods(double stepSize) const;

private:
    struct Motion {
        std::vector<int> particles;
        std::string force;
        double period;
    };
    bool acts(const OpenMM::Force& force) const;
    void consider(const Motion& motion);
    void considerExternal(const OpenMM::CustomExternalForce& force, const std::vector<OpenMM::Vec3>& positions);
    std::string describe(const Motion& motion) const;

    const OpenMM::System& system;
    std::string what, how;
    const int integrationGroups;
    const std::map<std::string, double> parameters;
    const std::vector<PairInertia> constraints;
    BondedStiffness bonded;
    int numTerms = 0;
    std::map<std::string, int> termsOf; // by their source
    std::vector<std::vector<int>> members;
    std::set<std::pair<int, int>> treated;
    // By their source, those that are not treated.
    std::map<std::string, std::vector<std::pair<int, int>>> hidden;
    // The fastest motion that is not treated, and the period of the fastest at all; infinite if there is none.
    Motion fastest;
    double shortestPeriod;
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_SETUP_STIFF_MOTION_H_ */
