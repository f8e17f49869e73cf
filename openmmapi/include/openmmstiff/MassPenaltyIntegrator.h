#ifndef OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_H_
#define OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_H_

#include "StiffIntegrator.h"
#include <tuple>

namespace OpenMMStiff {

/**
 * An integrator that slows bonds and angles down instead of constraining them, at constant energy: implicit mass-matrix
 * penalization (Bennett 1975; Plechac and Rousset 2010). The distances s_p of bonded pairs, and the 1-3
 * distances of angles, carry an extra inertia kappa_p,
 *
 *     T = 1/2 v^T M' v + 1/2 sum kappa_p w_p^2,    w = G(x) v,    G = ds/dx,
 *
 * where M' are the masses with the inertia of bonds, see setBondInertia(), so that stiff coordinates vibrate slowly
 * enough for a large step. The potential is what it was: molecules stay flexible, and averages over positions do not
 * depend on masses, but for a bias that MassPenaltyLangevinIntegrator removes. With auxiliary variables z tied to the
 * distances, z = s(x), and RATTLE on (x, z), a step is symplectic and time-reversible,
 *
 *     v <- v + h/2 M'^-1 F(x),    tied to w = G(x) v
 *     (x, z) <- (x, z) + h/2 (v, w),    tied to z = s(x) and w = G(x) v,    twice
 *     v <- v + h/2 M'^-1 F(x),    tied to w = G(x) v
 *
 * It needs one evaluation of the forces and works with any of them. Constraints of the System take part as pairs of
 * infinite inertia, in the same solve, so that redundant ones do no harm.
 *
 * Dynamics slower than the penalized period is nearly that of the System; vibrations are not.
 *
 * Between calls of step() the Context shows velocities u = N^-1 v, with N^T (M' + G^T kappa G) N = M. They have the
 * distribution of the masses, and their kinetic energy, u^T M u / 2, is that of the motion with the inertias. So they
 * may be drawn, read, set and handed to another integrator as any other velocities. When the step size, the period or
 * the pairs are changed, or the positions are set anew, the kinetic energy stays what it is.
 */
class OPENMM_EXPORT_STIFF MassPenaltyIntegrator : public StiffIntegrator {
public:
    /**
     * Create a MassPenaltyIntegrator.
     *
     * @param stepSize   the step size with which to integrate the system [ps]
     */
    explicit MassPenaltyIntegrator(double stepSize);
    /**
     * Get the period to which stiff coordinates are slowed down [ps]. See setPenalizedPeriod() for details.
     */
    double getPenalizedPeriod() const;
    /**
     * Set the period to which stiff coordinates are slowed down. A pair with force constant k and reduced mass mu gets
     * the inertia kappa = k (period / 2 pi)^2 - mu, if its own period is shorter, and none otherwise.
     *
     * The error of the stiff coordinates' averages grows as the square of the step size over the period: none can
     * be seen at 16 steps, 1 % at 8 steps. Motion slower than the period is less disturbed the shorter it is.
     *
     * A longer period than the default makes atoms and bonds of hydrogens heavier, too: as for steps of a sixteenth of
     * it. That holds what other forces than bonded ones make faster, such as methyl groups that are crowded.
     *
     * @param period   the period [ps], instead of the default, see setUseDefaultPenalizedPeriod(); an
     *                 OpenMMException if it is not positive, or infinite
     */
    void setPenalizedPeriod(double period);
    /**
     * Get whether the penalized period follows the step. See setUseDefaultPenalizedPeriod() for details.
     */
    bool getUseDefaultPenalizedPeriod() const {
        return penalizedPeriod == 0;
    }
    /**
     * Set whether the penalized period follows the step, which is the default: it is 16 steps, whatever their size.
     *
     * @param use   whether it follows the step; if not, it stays as it is, until setPenalizedPeriod() is called; an
     *              OpenMMException if it is 0, as the step size
     */
    void setUseDefaultPenalizedPeriod(bool use);
    /**
     * Get whether pairs are taken from the bonded forces of the System. See setUseBondedForces() for details.
     */
    bool getUseBondedForces() const {
        return useBondedForces;
    }
    /**
     * Set whether pairs are taken from the bonded forces of the System, which is the default: the bonds of
     * every HarmonicBondForce and CustomBondForce, and the 1-3 distances of every HarmonicAngleForce and
     * CustomAngleForce, and of each CustomCompoundBondForce whose energy is a function of one pointangle() between two
     * of its particles, such as the in-plane angles of AMOEBA. Their force constants are those at the minimum of each
     * term, whatever the positions are. A Urey-Bradley term adds to the 1-3 distance. These have no part in it: angles
     * close to 180 degrees, or whose legs are neither bonds nor constraints; bonds to virtual sites; bonds so short or
     * so soft that their particles pass through each other (as those of length 0); and terms of a CustomBondForce that
     * are no bonds, as their minimum is not half as stiff as a bond of their particles (1-4 terms, exceptions,
     * restraints). And a distance is left out that others nearly determine, where less than 2 % of its gradient,
     * squared, is beyond those of constraints, of bonds, and of stiffer 1-3 distances: in planar groups and cages.
     *
     * @param use   whether to take pairs from the bonded forces, besides those given by addPair()
     */
    void setUseBondedForces(bool use) {
        useBondedForces = use;
        revision++;
    }
    /**
     * Get the inertia of the bonds of hydrogens [dalton]. See setBondInertia() for details.
     */
    double getBondInertia() const;
    /**
     * Set the inertia lambda of the bonds of hydrogens, which slows their turning: that of water molecules, of methyl
     * groups, and wagging. It is an inertia of the relative velocity of the bonded atoms i and j, so that the masses M
     * become
     *
     *     M' = M + sum lambda (e_i - e_j) (e_i - e_j)^T
     *
     * (Bennett 1975, restricted to bonds). It is constant and needs no force of its own; averages over positions do not
     * depend on it.
     *
     * All bonds of hydrogens get it, in place of what the bonded forces ask for, see setUseDefaultBondInertia(), and no
     * particle is made heavier. Molecules keep their masses and momenta.
     *
     * A hydrogen is lighter than 5 dalton and at most half as heavy as what it is bound to, or bound to a particle
     * without mass: by the shortest of its constraints, or else of the bonds in forces that setUseBondedForces() names.
     *
     * @param inertia   the inertia [dalton], instead of the default, see setUseDefaultBondInertia(); 0 for none; an
     *                  OpenMMException if it is negative, or beyond 1e9
     */
    void setBondInertia(double inertia);
    /**
     * Get whether the inertia of the bonds of hydrogens follows the step. See setUseDefaultBondInertia() for details.
     */
    bool getUseDefaultBondInertia() const {
        return useDefaultBondInertia;
    }
    /**
     * Set whether inertias follow the step size h and the bonded forces, which is the default. Bonds of hydrogens have
     *
     *     lambda = (h^2 - (4 fs)^2) / (30 fs^2) dalton
     *
     * and none up to 4 fs, so that the libration of a water takes some seven steps. Those of a carbon with four
     * neighbours have half of it if it has one hydrogen, and 0.35 of it if it has more. Hydrogens that the System has made
     * heavier than 1.008 dalton get less by what they have gained.
     *
     * Then the fastest motions of the bonded forces, H u = omega^2 (M' + G^T kappa G) u, are found piece by piece, each
     * where its own forces are at a minimum, whatever the positions are: those of harmonic and custom bonds, angles and
     * torsions, and of each CustomCompoundBondForce. Where a period is shorter than five steps (2/omega < 1.6 h), bonds
     * of hydrogens and other particles that take part in the motion get more, until none is. A particle with an
     * inertia m of its own adds m e_i e_i^T to M'; the momentum that is conserved is that of M'.
     * getInertialBondParameters() lists them all.
     *
     * @param use   whether they follow the step; if not, all bonds of hydrogens have the lambda of now, until
     *              setBondInertia() is called
     */
    void setUseDefaultBondInertia(bool use);
    /**
     * Get how many pairs a block should have at most. See setMaxBlockSize() for details.
     */
    int getMaxBlockSize() const {
        return maxBlockSize;
    }
    /**
     * Set how many pairs a block should have at most, 24 by default. Larger molecules are cut at their softest bonds,
     * whose pairs get no inertia; where inertias follow the bonded forces (setUseDefaultBondInertia()), particles
     * there become heavier in their place, so that averages over positions stay as they are. Blocks are solved for one
     * by one, side by side on threads and on devices. Rings, constraints and pairs that have been added are never cut,
     * and may make a block larger; so do groups of up to four atoms, such as methyl, by a third at most.
     *
     * @param numPairs   the number of pairs; 0 for whole molecules; an OpenMMException if it is negative
     */
    void setMaxBlockSize(int numPairs);
    /**
     * Get the number of pairs that have been added with addPair().
     */
    int getNumPairs() const {
        return pairs.size();
    }
    /**
     * Add a pair of particles whose distance is to carry an inertia: for forces that are not recognized as bonded, such
     * as a machine-learned potential, or instead of the inertia that a bonded pair would get. Periodic boundary
     * conditions are applied to the distance if a force of the System uses them. Particles are checked when a Context
     * is created, or at the next step.
     *
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia kappa [dalton]; 0, or next to nothing beside the masses, for none; an
     *                    OpenMMException if it is negative, or beyond 1e9
     * @return the index of the pair
     */
    int addPair(int particle1, int particle2, double inertia);
    /**
     * Get the parameters of a pair that has been added with addPair().
     *
     * @param index       the index of the pair
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia kappa [dalton]
     */
    void getPairParameters(int index, int& particle1, int& particle2, double& inertia) const;
    /**
     * Set the parameters of a pair that has been added with addPair().
     *
     * @param index       the index of the pair
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia kappa [dalton]; 0 for none; an OpenMMException if it is negative, or beyond 1e9
     */
    void setPairParameters(int index, int particle1, int particle2, double inertia);
    /**
     * Get the number of bonds that have been given an inertia with addBondInertia().
     */
    int getNumBondInertias() const {
        return bonds.size();
    }
    /**
     * Give the relative velocity of two particles an inertia, see setBondInertia(), or the velocity of one: for bonds
     * of forces that are not recognized as bonded, for those of heavy atoms, or instead of the inertia that the bond
     * of a hydrogen, or a particle, would get. Particles are checked when a Context is created, or at the next step.
     * The masses of all particles that such bonds connect are a dense matrix: let these be a hundred at most, for the
     * time of a step grows as its square.
     *
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle; -1 if the inertia is of the first one by itself
     * @param inertia     the inertia lambda [dalton]; 0 for none; an OpenMMException if it is negative, or beyond 1e9
     * @return the index of the bond
     */
    int addBondInertia(int particle1, int particle2, double inertia);
    /**
     * Get the parameters of a bond that has been given an inertia with addBondInertia().
     *
     * @param index       the index of the bond
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia lambda [dalton]
     */
    void getBondInertiaParameters(int index, int& particle1, int& particle2, double& inertia) const;
    /**
     * Set the parameters of a bond that has been given an inertia with addBondInertia().
     *
     * @param index       the index of the bond
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia lambda [dalton]; 0 for none; an OpenMMException if it is negative, or beyond 1e9
     */
    void setBondInertiaParameters(int index, int particle1, int particle2, double inertia);
    /**
     * Compute how many distances carry an inertia in the present Context, constraints not counted.
     *
     * @return the number of pairs, bonded and added ones
     */
    int computeNumPenalizedPairs();
    /**
     * Get one of the pairs that the last call of computeNumPenalizedPairs() has counted, as they were then.
     *
     * @param index       the index of the pair, from 0 to what computeNumPenalizedPairs() has returned, less one
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle
     * @param inertia     the inertia kappa [dalton]
     */
    void getPenalizedPairParameters(int index, int& particle1, int& particle2, double& inertia) const;
    /**
     * Compute how many bonds have an inertia of their relative velocity in the present Context, and particles one of
     * their own.
     *
     * @return the number of both: of bonds of hydrogens, particles that are made heavier, and what has been added
     */
    int computeNumInertialBonds();
    /**
     * Get one of the bonds that the last call of computeNumInertialBonds() has counted, as they were then.
     *
     * @param index       the index of the bond, from 0 to what computeNumInertialBonds() has returned, less one
     * @param particle1   the index of the first particle
     * @param particle2   the index of the second particle; -1 if the inertia is of the first one by itself
     * @param inertia     the inertia lambda [dalton]
     */
    void getInertialBondParameters(int index, int& particle1, int& particle2, double& inertia) const;

protected:
    const char* getClassName() const override {
        return "MassPenaltyIntegrator";
    }
    std::unique_ptr<StiffMotion> findStiffMotion() override;
    bool isLimitedByStiffMotion() const override {
        return true;
    }
    std::vector<OpenMM::Vec3> getVelocitiesForTemperature(const OpenMM::System& system, double temperature,
                                                          int randomSeed) const override;
    /**
     * Take steps of another size with the present inertias, which change neither the time nor the number of steps, and
     * may give particles any energy.
     */
    void takeOtherSteps(double size, int steps);
    /**
     * Whether it is at that: what it sets in the Context is no state of somebody else's.
     */
    bool takesOtherSteps() const {
        return takesOther;
    }

private:
    friend class KeptPairs;
    /// The step for which bonds and atoms are made heavier.
    double getInertialStepSize() const;
    using Pair = std::tuple<int, int, double>; // its particles, and their inertia
    void checkPair(const char* kind, const char* adder, int index, int number, const Pair& pair) const;
    void getCounted(const std::vector<Pair>& counted, const char* kind, const char* counter, int index, int& particle1,
                    int& particle2, double& inertia) const;

    double penalizedPeriod, bondInertia; // the period is 0 if it follows the step
    bool useBondedForces, useDefaultBondInertia, takesOther;
    std::vector<Pair> pairs, bonds, penalizedPairs, inertialBonds;
    int maxBlockSize, revision;
    friend OPENMM_EXPORT_STIFF int getPairRevision(const MassPenaltyIntegrator& integrator);
};

} // namespace OpenMMStiff

#endif /* OPENMM_STIFF_MASS_PENALTY_INTEGRATOR_H_ */
