"""Which step a System can take: examine()."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, SupportsFloat, SupportsIndex

import numpy as np
import openmm
from openmm import app, unit

from ._conversions import Quantity, instance, is_atoms, number
from ._curvature import choose_displacement, measure_stiffness
from ._forces import Forces, kept_random_numbers, make_context, make_whole, read_positions
from ._modes import MANY, Curvature, Inertia, find_fastest, find_shortest
from ._topology import (addPairsFromTopology, copy_pairs, find_angles, find_bonded, find_bonds, find_clusters,
                        find_neighbours, find_stiff_by_kind, find_unrecognized)
from .openmmstiff import ImpulseLangevinIntegrator, MassPenaltyIntegrator, MassPenaltyLangevinIntegrator
from .sampling import GAS_CONSTANT

if TYPE_CHECKING:
    from ase import Atoms

# Steps in a period of the fastest motion, the shortest on its way. Verlet's method and all like it need more than pi.
# At 2 fs flexible TIP3P has 4.45 and holds; ethanol in GFN2-xTB has 3.9 to 4.06 and fails in one run of two.
STEPS_PER_PERIOD = 4.3
# With inertias, at the positions alone: toluene in GAFF has 3.9 at 12 fs and is 40 K hot. At 10 fs it has 4.7, villin
# in amber14 4.3, at 12 fs benzene in CGenFF 4.5, water 4.7: these hold.
STEPS_PER_PERIOD_SLOWED = 4.2
STEPS_PER_PERIOD_NVE = 8        # at constant energy: TIP3P at 4 fs has 8.1, and drifts by 0.009 kT/ns
STEPS_PER_STIFF_PERIOD = 3.2    # of the Zhang-Skeel method, whose stiff terms are implicit
STEPS_PER_STIFF_PERIOD_NVE = 8.4
STEPS_PER_SLOW_PERIOD = 5.6     # of impulses, which add to what else moves the atoms
STEPS_PER_LEFT_PERIOD = 4       # of impulses, in the period of what they move but do not project: a kick each half
                                # period, or nearly so, drives it; alanine dipeptide at 8 fs died in one run of nine
ROTATION = 0.17                 # rad, root mean square turn of a held or slowed distance in a step
# The same with OpenMM's constraints: at 0.08 rad (4 fs) rotation and translation of rigid water are within 1 %, at 0.12
# (6 fs) they are not; see docs/mass-penalty.md.
CONSTRAINED_ROTATION = 0.095
ROTATION_NVE = 0.095            # and at constant energy: 0.092 rad in the same run
SPOOK_ROTATION = 0.025          # the same of SPOOK, whose violations are of second order in it
FEW_STEPS = 6                   # in a period: what vibrates faster and is not slowed down is worth a note
LARGEST_STEP = 0.012            # ps, of atoms with inertias, and of Atoms always: furan is lost at 16 fs, and at 30 fs
                                # BCl3 and C2Cl4, which no distance slows down out of their plane
STRIDE = 0.02                   # nm, root mean square thermal motion of a particle in steps beyond LARGEST_STEP
BEAD = 3                        # times the mass of an element: what is heavier is none of its atoms
MEASURED = 20                   # distances of a kind, at most
USUAL = 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12   # steps that people use [fs]; from 10 fs on ten times as much, too
FRICTION, FRICTION_IN_VACUUM = 1, 5     # 1/ps: what carries off the heat of the largest steps
FRICTION_ZHANG_SKEEL = 3        # see docs/zhang-skeel.md
SHOWN = 8                       # kinds of motion
FALL = 0.005                    # nm, by which forces may move a particle in steps beyond LARGEST_STEP
GUESS = 6                       # times the step without inertias, where the search for the step begins
HEAVIER = 4/3                   # as for so many times the step, where one is wanted that is larger than the advised one
ROUNDS = 6                      # of a step and the inertias that follow it, at most
THERMALIZATION = 50             # steps, before each snapshot
THERMALIZATION_FRICTION = 20    # 1/ps
SNAPSHOTS = 4                   # of MANY particles one, which has all kinds of surroundings
MANY_PAIRS = 160                # of a block: more are not for a device
DRAWS = 4000                    # of velocities, for the rotation, divided by the number of distances; at least 20


@dataclass(frozen=True)
class Motion:
    """
    The motions along one kind of coordinate.

    Attributes
    ----------
    kind : str
        elements of a bond (O-H) or of an angle, told by its 1-3 distance (H-O-H)
    number : int
        how many there are
    period : float
        the period of their vibration, the other distances of the same atoms held still [ps]; the median
    constrained, penalized : int
        how many are constrained in the System, and slowed down by the mass penalty at the recommended step
    slowedPeriod : float
        the period of those that are slowed down [ps]; NaN if none are
    """

    kind: str
    number: int
    period: float
    constrained: int
    penalized: int
    slowedPeriod: float


@dataclass(frozen=True)
class Recommendation:
    """
    The step that an integrator can take.

    Attributes
    ----------
    integrator : str
        its class, such as "MassPenaltyLangevinIntegrator"
    stepSize : float
        the step size [ps]; NaN if it is not made for this System
    reason : str
        what limits it
    friction : float
        the friction of its thermostat [1/ps]; NaN if it has none
    remark : str
        what it does to the System at that step
    """

    integrator: str
    stepSize: float
    reason: str
    friction: float = math.nan
    remark: str = ""


@dataclass(frozen=True)
class Examination:
    """
    What examine() has found; print it for the answer and two tables.

    Attributes
    ----------
    motions : list of Motion
        by kind of coordinate, fastest first; the fastest of them are printed
    recommendations : list of Recommendation
        for each integrator, the recommended one first
    notes : list of str
        what has to be done besides, if anything
    evaluations : int
        how often the forces were computed
    """

    motions: list[Motion]
    recommendations: list[Recommendation]
    notes: list[str]
    evaluations: int

    def getStepSize(self, integrator: "str | type" = "MassPenaltyLangevinIntegrator") -> unit.Quantity:
        """
        Get the recommended step size of an integrator.

        Parameters
        ----------
        integrator : str or class
            its class, or the name of that, with or without "Integrator"

        Returns
        -------
        Quantity
            the step size [ps]; a ValueError if it has none
        """
        name = f"{str(getattr(integrator, '__name__', integrator)).removesuffix('Integrator')}Integrator"
        for each in self.recommendations:
            if each.integrator == name and each.stepSize > 0:
                return each.stepSize*unit.picosecond
        others = ", ".join(each.integrator for each in self.recommendations if each.stepSize > 0)
        raise ValueError(f"there is no step for {integrator!r}, but for {others or 'no other, either'}")

    def __str__(self):
        best = self.recommendations[0]
        lines = [f"Use {best.integrator} with a step of {_femtoseconds(best.stepSize)} fs and a friction of "
                 f"{best.friction:g}/ps.", f"Limit: {best.reason}. {best.remark}".rstrip(),
                 *(f"\n{note}" for note in self.notes), ""]
        row = "{:30}{:>9}{:>17}  {}"
        lines.append(row.format("integrator", "step (fs)", "friction (1/ps)", "limit"))
        for each in self.recommendations:
            friction = "-" if math.isnan(each.friction) else f"{each.friction:g}"
            lines.append(row.format(each.integrator, _femtoseconds(each.stepSize), friction, each.reason))
        row = "{:14}{:>8}{:>13}  {:26}{:>16}"
        lines += ["", row.format("motion", "number", "period (fs)", "mass penalty", "afterwards (fs)")]
        for motion in self.motions[:SHOWN]:
            treated = [f"{count} {what}" if count < motion.number else what
                       for count, what in ((motion.constrained, "constrained"), (motion.penalized, "slowed down"))
                       if count > 0]
            lines.append(row.format(motion.kind, motion.number, _femtoseconds(motion.period),
                                    ", ".join(treated) or "as it is", _femtoseconds(motion.slowedPeriod)))
        if len(self.motions) > SHOWN:
            lines.append(f"{len(self.motions) - SHOWN} more kinds of motion, constrained or slower: "
                         "Examination.motions")
        return "\n".join(lines)


def examine(simulation: "app.Simulation | Atoms", temperature: SupportsFloat | Quantity = 300,
            bonds: Iterable[Sequence[SupportsIndex]] | None = None) -> Examination:
    """
    Find which step each integrator can take with a System: from its forces alone, whatever they are.

    The fastest motion that is left, with the constraints and the inertias of an integrator, is found by Davidson's
    method from differences of the forces, at thermal positions. A step is a fraction of its period, and small enough
    for held and slowed distances to turn by a small angle. It costs up to 800 evaluations of the forces, some 150 of
    large Systems.

    Parameters
    ----------
    simulation : openmm.app.Simulation or ase.Atoms
        a Simulation with positions, whose energy has been minimized or which has run. Its Context is not changed. If
        its integrator is a MassPenaltyIntegrator, or the current or only one in a CompoundIntegrator is, its pairs and
        settings are those that are examined. Or Atoms with a calculator, for openmmstiff.ase.MassPenaltyLangevin, with
        steps of 12 fs at most
    temperature : float or Quantity
        the temperature at which it is to run [K]
    bonds : iterable of pairs of int
        the bonds of Atoms, as MassPenaltyLangevin takes them; by default perceived ones

    Returns
    -------
    Examination
        the motions and the steps. A ValueError if the forces are not finite, or so large that a short run at a small
        step fails: minimize first
    """
    of_atoms = is_atoms(simulation)
    if of_atoms:
        from ._atoms import Molecules
        molecules = Molecules(simulation, bonds)
        simulation = molecules.make_simulation()
    elif bonds is not None:
        raise TypeError("examine: bonds are for Atoms of ASE; a Simulation has them in its Topology")
    instance("simulation", simulation, app.Simulation)
    temperature = number("temperature", temperature, "K")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite, but is {temperature} K")
    try:
        with kept_random_numbers():
            found = _Examiner(simulation, GAS_CONSTANT*temperature, LARGEST_STEP if of_atoms else math.inf).examine()
    except openmm.OpenMMException:
        if of_atoms and molecules.potential.error is not None:
            raise molecules.potential.error     # of which OpenMM keeps the text alone
        raise
    # What is left to do for bonds that are in no recognized force, openmmstiff.ase does.
    return replace(found, notes=[]) if of_atoms else found


class Step(NamedTuple):
    """A step of the mass penalty [ps], what limits it, its pairs and bonds, and the fastest motion that is left."""
    size: float
    reason: str
    pairs: list
    bonds: list
    left: tuple

    def describe(self, without):
        """'It slows down 1293 distances and gives 862 bonds an inertia of 3 dalton (without: 8 fs).'"""
        parts = [f"slows down {len(self.pairs)} distances"] if self.pairs else []
        for what, found in ("bonds", [bond for bond in self.bonds if bond[1] >= 0]), \
                ("atoms", [bond for bond in self.bonds if bond[1] < 0]):
            if found:
                inertias = sorted({float(f"{inertia:.2g}") for *_, inertia in found})
                which = " to ".join(f"{each:g}" for each in (inertias[:1] + inertias[1:][-1:]))
                parts.append(f"gives {len(found)} {what} an inertia of {which} dalton")
        steps = f" (without inertias of bonds and atoms: {_femtoseconds(without.size)} fs)" if self.bonds else ""
        return f"It {' and '.join(parts)}{steps}." if parts else ""


class _Examiner:
    """What examine() does, step by step. Energies in kJ/mol; pairs are (particle, particle, inertia [dalton])."""

    def __init__(self, simulation, kT, largest=math.inf):
        self.simulation, self.kT, self.largest = simulation, kT, largest
        self.system, self.topology = simulation.context.getSystem(), simulation.topology
        bonds = find_bonds(self.topology, self.system)
        current, self.given = _find_integrator(simulation.integrator)
        self.forces = Forces(self.system, current.getIntegrationForceGroups(), context=simulation.context)
        # What is asked for pairs and bonds, at one step size after the other.
        if self.given is None:
            self.asked = MassPenaltyLangevinIntegrator(kT/GAS_CONSTANT, 1, 0.001)
            self.asked.setIntegrationForceGroups(self.forces.groups)
        else:
            self.asked = openmm.XmlSerializer.clone(self.given)
        self.atoms = list(self.topology.atoms())
        symbols = list(map(self.element, range(len(self.forces.masses))))
        self.labels = np.unique(symbols, return_inverse=True)[1]    # a number for each element
        constrained = [self.system.getConstraintParameters(i)[:2] for i in range(self.system.getNumConstraints())]
        self.constraints = [(i, j, math.inf) for i, j in constrained if self.forces.masses[[i, j]].any()]
        # A Topology knows which of those in forces are bonds.
        bonds = bonds or find_bonded(self.system) or [(i, j) for i, j, _ in self.constraints]
        self.bonds = {tuple(sorted(bond)) for bond in bonds}
        self.neighbours = find_neighbours(self.bonds, len(self.forces.masses))
        self.unrecognized = find_unrecognized(self.topology, self.system) if self.given is None else []
        self.notes = []

    def examine(self):
        minimum = read_positions("examine", self.simulation.context)
        if not self.forces.masses.any():
            raise ValueError("examine: no particle of the System has a mass: nothing can move")
        if self.system.usesPeriodicBoundaryConditions():
            box = self.simulation.context.getState().getPeriodicBoxVectors(asNumpy=True)
            minimum = make_whole(minimum, self.bonds, box.value_in_unit(unit.nanometer))
        self.context = make_context(self.system, self.asked, "Reference", positions=minimum)
        self.find_coordinates(minimum)
        period, _ = find_fastest(Curvature(self.forces, minimum), Inertia(self.forces, minimum, self.constraints), 6)
        snapshots = [Curvature(self.forces, positions) for positions in self.thermalize(minimum, period)]
        free, turning = self.find_left(snapshots, self.constraints, anharmonic=True)
        plain = self.limit_by_forces(snapshots, minimum, *self.limit(free, turning, turn=CONSTRAINED_ROTATION))
        if math.isnan(plain[0]):
            raise ValueError("examine: nothing pulls the particles back at these positions: no motion limits the step")
        slowed = without = self.find_step(snapshots, minimum, GUESS*plain[0])
        if slowed.bonds:
            without = self.find_step(snapshots, minimum, slowed.size, coupled=False)
        conserving = self.find_step(snapshots, minimum, slowed.size/2, STEPS_PER_PERIOD_NVE, ROTATION_NVE,
                                    coupled=False)
        self.name_what_is_bare(slowed.size)
        self.name_what_more_inertia_gives(snapshots, slowed)
        steps = self.recommend(free, plain, slowed, without, conserving, turning[0])
        self.name_what_is_left_fast(slowed)
        self.name_what_is_no_bond(slowed)
        self.name_what_is_solved_at_once(slowed)
        evaluations = self.forces.evaluations + THERMALIZATION*len(snapshots)
        return Examination(self.list_motions(slowed.pairs), steps, self.notes, evaluations)

    def find_step(self, snapshots, positions, size, per_period=STEPS_PER_PERIOD_SLOWED, turn=ROTATION, coupled=True):
        """
        The largest step of the mass penalty, with the inertia of bonds or without, from a first guess. The inertias
        follow the step, and the step what the inertias leave.
        """
        for _ in range(ROUNDS):     # from above, mostly: the largest of the steps that allow themselves
            pairs, bonds = self.find_pairs(size, positions, coupled)
            every = self.constraints + pairs
            left, turning = self.find_left(snapshots, every, bonds)
            found, reason = self.limit(left, turning, per_period, turn)
            if not every:       # else forces along what is held or slowed down say nothing
                found, reason = self.limit_by_forces(snapshots, positions, found, reason)
            if found > LARGEST_STEP and self.are_atoms():
                found, reason = LARGEST_STEP, "no larger step is advised for atoms"
            if math.isnan(found) or found == size:
                return Step(found, reason, pairs, bonds, left)
            size = found
        pairs, bonds = self.find_pairs(size, positions, coupled)
        return Step(found, reason, pairs, bonds, left)

    def name_what_more_inertia_gives(self, snapshots, slowed):
        """Note a larger step that a longer penalized period makes possible: smaller steps have less inertia."""
        if not slowed.bonds or not self.asked.getUseDefaultPenalizedPeriod() or math.isfinite(self.largest):
            return
        larger = [size/1000 for size in USUAL[::-1] if slowed.size < size/1000 <= LARGEST_STEP]
        for size in larger:
            period = 16*HEAVIER*size
            self.asked.setPenalizedPeriod(period)
            pairs, bonds = self.find_pairs(size, snapshots[0].positions, True)
            self.asked.setUseDefaultPenalizedPeriod(True)
            left, turning = self.find_left(snapshots, self.constraints + pairs, bonds)
            if self.limit(left, turning, STEPS_PER_PERIOD_SLOWED)[0] >= size:
                self.notes.append(f"With more inertia the mass penalty takes {_femtoseconds(size)} fs:\n"
                                  f"    integrator.setPenalizedPeriod({period:.3f})     # ps")
                return

    def find_left(self, snapshots, pairs, bonds=(), anharmonic=False):
        """The fastest motion at any of the snapshots, or on its way there, and what measure_rotation() finds."""
        inertias = [Inertia(self.forces, each.positions, pairs, bonds) for each in snapshots]
        motions = list(map(find_fastest, snapshots, inertias))
        if anharmonic:
            motions = [find_shortest(*each, self.kT) for each in zip(snapshots, inertias, motions)]
        return min(motions, key=lambda found: found[0]), self.measure_rotation(inertias)

    def thermalize(self, start, period):
        """Positions of a short run at a small step, which begins as hot as vibrations about a minimum are after it."""
        rate, _ = self.measure_rotation([Inertia(self.forces, start, self.constraints)])
        step = min(period, 1.0, ROTATION*STEPS_PER_PERIOD/rate if rate > 0 else math.inf)/8
        integrator = openmm.LangevinMiddleIntegrator(self.kT/GAS_CONSTANT, THERMALIZATION_FRICTION, step)
        integrator.setIntegrationForceGroups(self.forces.groups)
        integrator.setRandomNumberSeed(1)
        context = self.forces.make_context(integrator)
        context.setPositions(start)
        context.applyConstraints(1e-6)
        context.setVelocitiesToTemperature(2*self.kT/GAS_CONSTANT, 1)
        snapshots = []
        for _ in range(SNAPSHOTS if len(start) < MANY else 1):
            integrator.step(THERMALIZATION)
            positions = context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer)
            if not np.isfinite(positions).all():
                raise ValueError(f"examine: a run at {1000*step:.2g} fs from these positions fails. Minimize the "
                                 "energy first")
            snapshots.append(np.array(positions))
        return snapshots

    def are_atoms(self):
        """Whether any particle is an atom by its element and mass; beads of larger mass may be named after elements."""
        return any(atom.element is not None and 0 < mass < BEAD*atom.element.mass.value_in_unit(unit.dalton)
                   for atom, mass in zip(self.atoms, self.forces.masses))

    def find_pairs(self, step, positions, coupled):
        """The pairs and the bonds of the mass penalty at a step size."""
        self.asked.setStepSize(step)
        if self.given is None:
            added, bare = MassPenaltyLangevinIntegrator(0, 0, step), self.find_bare_atoms(step)
            added.setPenalizedPeriod(self.asked.getPenalizedPeriod())
            if bare:
                addPairsFromTopology(added, self.topology, self.system, positions, atoms=bare)
            copy_pairs(added, self.asked)
        pairs = [self.asked.getPenalizedPairParameters(i) for i in range(self.asked.computeNumPenalizedPairs())]
        bonds = [self.asked.getInertialBondParameters(i) for i in range(self.asked.computeNumInertialBonds())]
        return tuple([(i, j, inertia.value_in_unit(unit.dalton)) for i, j, inertia in found]
                     for found in (pairs, bonds if coupled else []))

    def find_bare_atoms(self, step):
        """
        The atoms of bonds of the Topology that are in no bonded force; none if their bonds are slow anyway at a step
        size, or the integrator is the user's.
        """
        period = MassPenaltyLangevinIntegrator(0, 0, step).getPenalizedPeriod().value_in_unit(unit.picosecond)
        period_of = dict(zip(self.coordinates, self.periods))
        fast = any(period_of[bond] < period for bond in self.unrecognized)
        return sorted(set().union(*self.unrecognized)) if fast else []

    def name_what_is_bare(self, step):
        """Note what has to be done for such atoms."""
        bare = self.find_bare_atoms(step)
        if bare:
            some = ", atoms=..." if len(bare) < len(self.atoms) else ""
            self.notes.append(
                f"The bonds of {len(bare)} atoms ({self.name_some(bare)}) are in no force that is recognized. The step "
                "of the mass penalty is that after\n    addPairsFromTopology(integrator, topology, system, "
                f"positions{some})")

    def name_what_is_left_fast(self, slowed):
        """Note distances of forces that are not recognized, if they vibrate in a few steps."""
        known = {frozenset(pair[:2]) for pair in self.constraints + slowed.pairs}
        recognized = find_bonded(self.system) | {frozenset(pair[:2]) for pair in self.constraints}
        fast = [atoms for atoms, period in zip(self.coordinates, self.periods)
                if frozenset(atoms[:2]) not in known and period < FEW_STEPS*slowed.size
                # Of an angle whose bonds are recognized, others tell the distance.
                and not recognized.issuperset(frozenset((atoms[-1], end)) for end in atoms[:2] if end != atoms[-1])]
        if fast:
            self.notes.append(
                f"{len(fast)} distances are not slowed down and vibrate in fewer than {FEW_STEPS} of these steps "
                f"(such as {self.kind(fast[0])} of {self.name_some(fast[0][:1])}). With\n    addPairsFromTopology("
                "integrator, topology, system, positions, atoms=...)\nfor their atoms these are slowed down, too, and "
                "the step may be larger; examine a Simulation with that integrator")

    def name_what_is_no_bond(self, slowed):
        """Note inertias of atoms that are not bonded, nor to the same one, where the Topology has the bonds of both."""
        if not any(True for _ in self.topology.bonds()):
            return
        near = self.neighbours
        for what, found, adder in ("bonds", slowed.bonds, "addBondInertia"), ("pairs", slowed.pairs, "addPair"):
            wrong = [(i, j) for i, j, inertia in found if j >= 0 and 0 < inertia < math.inf and near[i] and near[j]
                     and j not in near[i] and (what == "bonds" or set(near[i]).isdisjoint(near[j]))]
            if wrong:
                self.notes.append(
                    f"Of {len(found)} {what} with an inertia {len(wrong)} (such as {self.name_some(wrong[0])}) are no "
                    f"bonds of the Topology{' nor 1-3 distances' if what == 'pairs' else ''}. If no stiff force holds "
                    f"them, take the inertia off by integrator.{adder}(i, j, 0); else the Topology lacks their bonds")

    def name_what_is_solved_at_once(self, slowed):
        """Note a network whose bonds are not cut, as they are those of rings."""
        tied = [pair[:2] for pair in self.constraints + slowed.pairs]
        if not tied or self.asked.getMaxBlockSize() == 0:
            return
        network = find_clusters(tied, len(self.forces.masses))
        largest = np.bincount(network[[first for first, _ in tied]]).max()
        if largest > MANY_PAIRS:
            self.notes.append(
                f"{largest} bonds, angles and constraints are one network, for which each step solves at once, on a "
                "device in the memory of the host: that may take far longer than the forces. Compare the time of "
                "step() with that of LangevinMiddleIntegrator")

    def name_some(self, indices):
        """'O of HOH 1, H1 of HOH 1, H2 of HOH 1, ...': the first three."""
        return ", ".join(map(self.name, indices[:3])) + (", ..." if len(indices) > 3 else "")

    def name(self, index):
        """'O of HOH 1', or the number of a particle for which a Topology has no name."""
        atom = self.atoms[index] if index < len(self.atoms) else None
        if atom is None or not (atom.name and atom.residue.name):
            return f"particle {index}"
        return f"{atom.name} of {atom.residue.name} {atom.residue.id}"

    def limit(self, fastest, turning, steps=STEPS_PER_PERIOD, turn=ROTATION):
        """The step for a fastest motion and what measure_rotation() has found, and what limits it."""
        rate, pair = turning
        by_period, by_rotation = fastest[0]/steps, turn/rate if rate > 0 else math.inf
        by_stride = max(LARGEST_STEP, STRIDE/math.sqrt(3*self.kT*self.forces.inverse_masses.max()))
        step = roundStep(min(by_period, by_rotation))
        if step > self.largest:
            return self.largest, "no larger step is advised for Atoms of ASE"
        if step > by_stride:
            return roundStep(by_stride), f"in a larger one thermal motion moves particles by more than {STRIDE:g} nm"
        if by_rotation < by_period:
            return step, f"{self.describe_atoms(pair)} turn about each other by {turn:g} rad in a step"
        return step, self.describe(fastest)

    def limit_by_forces(self, snapshots, positions, step, reason):
        """
        A large step and its reason, or a smaller one in which forces move no particle by more than FALL: those at some
        positions, or, where they are no larger than heat makes them, what lasts of them.
        """
        forces, thermal = self.forces(positions), [each.start for each in snapshots]
        if np.linalg.norm(forces, axis=1).max() < 2*np.linalg.norm(thermal, axis=2).max():
            forces = np.mean([forces, *thermal], axis=0)
        accelerations = np.linalg.norm(forces, axis=1)*self.forces.inverse_masses
        most = math.sqrt(2*FALL/accelerations.max()) if accelerations.any() else math.inf
        if not step > max(most, LARGEST_STEP):
            return step, reason
        note = "The positions are no minimum of the energy: forces pull the particles away. Minimize first"
        if note not in self.notes:
            self.notes.append(note)
        return roundStep(max(most, LARGEST_STEP)), f"forces move particles by more than {FALL:g} nm in a larger one"

    def measure_rotation(self, inertias):
        """
        The fastest turning of a held or slowed distance [1/ps], root mean square for thermal velocities at some
        positions, and its pair.
        """
        pairs, lengths = inertias[0].pairs, inertias[0].distances.lengths
        if not pairs:
            return 0.0, None
        random, squares, draws = np.random.default_rng(1), np.zeros(len(pairs)), max(20, DRAWS//len(pairs))
        for draw in range(draws):
            inertia = inertias[draw % len(inertias)]
            across = inertia.distances.across(inertia.accelerate(inertia.draw(random)))
            squares += self.kT/draws*np.sum(across**2, axis=1)/inertia.distances.lengths**2
        # A kind of distance is as fast as its members on average; the draws scatter about that.
        ends = np.sort(self.labels[np.array(pairs)], axis=1)
        _, first, kind = np.unique(np.column_stack([ends, np.rint(100*lengths)]), axis=0, return_index=True,
                                   return_inverse=True)
        mean = np.bincount(kind, squares)/np.bincount(kind)
        return math.sqrt(mean.max()), pairs[first[np.argmax(mean)]]

    def find_coordinates(self, positions):
        """
        Find bonds (i, j) and angles (i, j, vertex) that are bent, and unless they are held their
        periods [ps] and inertias [dalton], the other distances of the same atoms held still. Of each kind some
        members are measured, and their medians taken for the others.
        """
        moved = self.forces.masses > 0
        angles = {(min(i, j), max(i, j), vertex) for i, j, vertex in find_angles(self.neighbours, positions)}
        self.coordinates = [each for each in sorted(self.bonds) + sorted(angles) if moved[each[0]] or moved[each[1]]]
        self.periods, self.inertias = np.full((2, len(self.coordinates)), math.inf)
        held = {frozenset(pair[:2]) for pair in self.constraints}
        members: dict[str, list[int]] = {}
        for place, each in enumerate(self.coordinates):
            if frozenset(each[:2]) not in held:
                members.setdefault(self.kind(each), []).append(place)
        chosen = {kind: found[::math.ceil(len(found)/MEASURED)] for kind, found in members.items()}
        places = [place for found in chosen.values() for place in found]
        coordinates = [self.coordinates[place] for place in places]
        stiffness = measure_stiffness(self.forces, positions, coordinates, self.neighbours)
        for place, each, constant in zip(places, coordinates, stiffness):
            move = choose_displacement(positions, self.forces.inverse_masses, each)
            self.inertias[place] = np.sum(self.forces.masses[list(each), None]*move**2)
            self.periods[place] = 2*math.pi*math.sqrt(self.inertias[place]/constant) if constant > 0 else math.inf
        for kind, found in members.items():
            others = np.setdiff1d(found, chosen[kind])
            for values in self.periods, self.inertias:
                values[others] = np.median(values[chosen[kind]])

    def list_motions(self, pairs):
        """The table of motions."""
        held = {frozenset(pair[:2]) for pair in self.constraints}
        slowed = {frozenset(pair[:2]): pair[2] for pair in pairs}
        members: dict[str, list] = {}
        for coordinate, period, inertia in zip(self.coordinates, self.periods, self.inertias):
            members.setdefault(self.kind(coordinate), []).append((frozenset(coordinate[:2]), period, inertia))
        motions = []
        for kind, found in members.items():
            after = [period*math.sqrt(1 + slowed[pair]/inertia) for pair, period, inertia in found if pair in slowed]
            free = [period for pair, period, _ in found if pair not in held]
            motions.append(Motion(kind, len(found), float(np.median(free)) if free else math.nan,
                                  sum(pair in held for pair, *_ in found), len(after),
                                  float(np.median(after)) if after else math.nan))
        return sorted(motions, key=lambda motion: (math.isnan(motion.period), motion.period))

    def recommend(self, free, plain, slowed, without, conserving, rate):
        """For each integrator; free is a motion, plain what limit() has found, the next are Steps, rate in 1/ps."""
        fastest, rest, pairs = self.describe(free), self.describe(without.left), slowed.pairs
        friction = advisedFriction(self.system)
        held = f"; {len(self.constraints)} constraints" if self.constraints else ""
        constant = "the same, with the energy conserved"
        found = [Recommendation("MassPenaltyLangevinIntegrator", slowed.size, slowed.reason, friction,
                                slowed.describe(without)),
                 Recommendation("LangevinMiddleIntegrator", plain[0], plain[1] + held, friction)]
        if not slowed.size > plain[0]:
            found.reverse()
        found.append(Recommendation("MassPenaltyIntegrator", conserving.size, constant))
        implicit = "ZhangSkeelLangevinIntegrator", "ZhangSkeelIntegrator", "ImpulseLangevinIntegrator"
        touched = {i for pair in self.constraints for i in pair[:2]} & {i for pair in pairs for i in pair[:2]}
        if touched:
            found += [Recommendation(name, math.nan, "takes no constraints on stiff molecules: leave them out")
                      for name in implicit]
        elif pairs and find_stiff_by_kind(self.system).issuperset(frozenset(pair[:2]) for pair in pairs):
            period, slow = free[0], without.left[0]
            step = roundStep(min(period/STEPS_PER_STIFF_PERIOD, slow/STEPS_PER_SLOW_PERIOD))
            nve = roundStep(min(period/STEPS_PER_STIFF_PERIOD_NVE, slow/STEPS_PER_PERIOD_NVE))
            impulse, why = roundStep(slow/STEPS_PER_SLOW_PERIOD), rest
            left, kind = self.find_left_by_projection(pairs)
            if roundStep(left/STEPS_PER_LEFT_PERIOD) < impulse:
                impulse = roundStep(left/STEPS_PER_LEFT_PERIOD)
                why = f"the period of {_femtoseconds(left)} fs of {kind}, which is not projected"
            found += [Recommendation("ZhangSkeelLangevinIntegrator", step, fastest,
                                     max(friction, FRICTION_ZHANG_SKEEL)),
                      Recommendation("ZhangSkeelIntegrator", nve, constant),
                      Recommendation("ImpulseLangevinIntegrator", impulse, why, friction)]
        else:
            why = "not all stiff terms are recognized" if pairs else "there are no stiff terms"
            found += [Recommendation(name, math.nan, why) for name in implicit]
        if self.constraints:
            found.append(Recommendation("SpookIntegrator", roundStep(min(SPOOK_ROTATION/rate, plain[0])),
                                        "violations grow with the step; for constraints that SHAKE cannot hold"))
        found.append(Recommendation("HMMIntegrator", math.nan, "for Systems that are vibrated from outside"))
        return found

    def find_left_by_projection(self, pairs):
        """The shortest period [ps] of the stiff distances that projected kicks do not leave alone, and its kind."""
        stiff = {frozenset(pair[:2]) for pair in pairs}
        gap = ImpulseLangevinIntegrator(0, 0, 0.001).getProjectedPeriod().value_in_unit(unit.picosecond)
        return min(((period, self.kind(atoms)) for atoms, period in zip(self.coordinates, self.periods)
                    if frozenset(atoms[:2]) in stiff and period >= gap), default=(math.inf, ""))

    def describe(self, fastest):
        """'the period of 28 fs of HZ, HE1 in PHE 6'."""
        period, displacement = fastest
        if math.isinf(period):
            return "nothing that pulls back"
        energy = self.forces.masses*np.sum(displacement**2, axis=1)
        order = [int(i) for i in np.argsort(-energy)[:3] if energy[i] > 0.1*energy.sum()] or [int(np.argmax(energy))]
        return f"the period of {_femtoseconds(period)} fs of {self.describe_atoms(order)}"

    def describe_atoms(self, indices):
        if any(self.name(i).startswith("particle") for i in indices):
            return "particles " + ", ".join(map(str, indices))
        residues: dict[app.topology.Residue, list[str]] = {}
        for i in indices:
            residues.setdefault(self.atoms[i].residue, []).append(self.atoms[i].name)
        return "; ".join(f"{', '.join(names)} in {residue.name} {residue.id}" for residue, names in residues.items())

    def element(self, index):
        if index >= len(self.atoms) or self.atoms[index].element is None:
            return self.atoms[index].name if index < len(self.atoms) else "particle"
        return self.atoms[index].element.symbol

    def kind(self, coordinate):
        ends = sorted(self.element(i) for i in coordinate[:2])
        return "-".join([ends[0], *(self.element(i) for i in coordinate[2:]), ends[1]])


def _find_integrator(integrator):
    """
    The integrator that makes the steps, and that of the user's whose pairs and settings are to be examined, or None: in
    a CompoundIntegrator the current MassPenaltyIntegrator, or the only one.
    """
    every, current = [integrator], integrator
    if isinstance(integrator, openmm.CompoundIntegrator):
        every = [integrator.getIntegrator(i) for i in range(integrator.getNumIntegrators())]
        current = every[integrator.getCurrentIntegrator()]
    found = [each for each in every if MassPenaltyIntegrator.isinstance(each)]
    given = current if current in found else found[0] if len(found) == 1 else None
    return given or current, given


def advisedFriction(system):
    """The friction of a thermostat [1/ps] for a liquid, which has a periodic box, or for a molecule in vacuum."""
    return FRICTION if system.usesPeriodicBoundaryConditions() else FRICTION_IN_VACUUM


def roundStep(step):
    """A step size [ps], down to one that people use; NaN if nothing limits it."""
    if math.isinf(step):
        return math.nan
    digit = 10.0**math.floor(math.log10(1000*step))     # the first one [fs]
    tens = range(1 + max(0, round(math.log10(digit))))
    below = [size*10**n for n in tens for size in USUAL if size*10**n <= 1000*step]
    return (max(below) if below else digit*math.floor(1000*step/digit))/1000


def _femtoseconds(period):
    return f"{1000*period:.3g}" if math.isfinite(period) else "-"
