"""Pairs for MassPenaltyIntegrator from the bonds of a Topology, for forces that are not recognized as bonded."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import NamedTuple, SupportsFloat, SupportsIndex

import numpy as np
import openmm
from numpy.typing import ArrayLike
from openmm import app, unit
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from ._conversions import Quantity, choice, coordinates, finite, instance, integer
from ._curvature import measure_stiffness
from ._forces import Forces, make_context, make_whole
from .openmmstiff import MassPenaltyIntegrator

MASS = unit.dalton
# What is typical of organic molecules in force fields such as amber14, kJ/mol/nm^2.
BOND_STIFFNESS, ONE_THREE_STIFFNESS = 3.5e5, 1e5
WATER_BOND_STIFFNESS, WATER_ONE_THREE_STIFFNESS = 4.6e5, 2.4e5
TRIPLE_BOND_STIFFNESS = 1.1e6   # of acetylene 1.0e6, of nitriles 1.1e6, of CO2 0.9e6, of N2 1.4e6
TRIPLE_BOND = 0.125     # nm: so short are triple and cumulated bonds, and carbonyl ones, which are in no straight angle
LEAST = 0.5     # of the typical constants: a distance that is soft where it is measured may stiffen elsewhere
MIN_SINE = 0.3  # flatter angles are not told by their 1-3 distance
# kJ/mol, of k/2 (height/bond length)^2 of an atom above the plane of its three neighbours: BF3 has 2700, BCl3 and CH2O
# 2200; of an angle of 180 degrees, which is 460 in CO2 and 150 in HCN; and of the angle about a bond between two planar
# atoms, which is 160 in amides and benzene, by each of its four torsions.
HEIGHT_STIFFNESS, STRAIGHT_STIFFNESS, TORSION_STIFFNESS = 2300, 400, 40
HEIGHT = ("0.5*k*h^2; h = (nx*(x4-x1)+ny*(y4-y1)+nz*(z4-z1))/sqrt(nx^2+ny^2+nz^2);"
          "nx = ay*bz-az*by; ny = az*bx-ax*bz; nz = ax*by-ay*bx;"
          "ax = x2-x1; ay = y2-y1; az = z2-z1; bx = x3-x1; by = y3-y1; bz = z3-z1")
PLANAR = 0.2    # times the bond length: amines are higher above their neighbours
ANGLES = {2: 109.5, 3: 120, 4: 109.5}   # degrees, by the number of neighbours, where there are no positions
LENGTH, LENGTH_OF_HYDROGEN = 0.145, 0.1     # nm
HYDROGEN = 5    # dalton, more than the mass of one that is made heavy
# The number, the parameters and the adder of what a MassPenaltyIntegrator is given.
PAIRS = "getNumPairs", "PairParameters", "addPair"
BONDS = "getNumBondInertias", "BondInertiaParameters", "addBondInertia"


def addPairsFromTopology(integrator: openmm.Integrator, topology: app.Topology, system: openmm.System,
                         positions: Quantity | ArrayLike | None = None,
                         bondStiffness: SupportsFloat | Quantity | None = None,
                         angleStiffness: SupportsFloat | Quantity | None = None,
                         atoms: Iterable[SupportsIndex] | None = None, stiffness: str = "typical",
                         platform: openmm.Platform | None = None,
                         bondInertia: SupportsFloat | Quantity | None = None) -> list[int]:
    """
    Add pairs to a MassPenaltyIntegrator for bonds of a Topology and 1-3 distances (two bonds with an atom in common),
    and give bonds of hydrogens and atoms an inertia: for potentials without bonded forces, as machine-learned ones are.
    Pairs get the inertia that slows a distance of such stiffness to the integrator's penalized period, which is 16
    steps unless it has been set. Distances that others determine are left out, and what moves too fast out of planes
    and lines is made heavier, as setUseDefaultBondInertia() says, with typical force constants for these motions. Call
    this after the step size has been chosen, and again if it is changed: what has been added before gets the new
    inertia. Averages do not depend on it.

    Parameters
    ----------
    integrator : MassPenaltyIntegrator
        the integrator to add pairs to; a TypeError if it is another one
    topology : openmm.app.Topology
        the Topology whose bonds are taken; its atoms are the System's first particles, in the same order. A ValueError
        if it has no bonds, and a warning if an atom has none that is not alone in its residue
    system : openmm.System
        the System, from which masses and constraints are taken: constrained pairs are left out, and so are pairs
        of massless particles and virtual sites
    positions : Quantity or array of shape (particles, 3)
        positions [nm], by which 1-3 distances of angles close to 180 degrees are recognized and left out, planar atoms
        are told from others, and triple and cumulated bonds (C2H2, CH3CN, CO2) get their constant; without them no
        angle is straight, and each atom with three neighbours planar. "measured" needs them. A ValueError if they are
        not finite, or two atoms of an angle in the same place
    bondStiffness : float or Quantity
        the force constant of all bonds [kJ/mol/nm^2], whatever stiffness says; 0 leaves them out
    angleStiffness : float or Quantity
        the force constant of all 1-3 distances [kJ/mol/nm^2], whatever stiffness says; 0 leaves them out
    atoms : iterable of int
        the indices of some of the Topology's atoms, such as the machine-learned part of a mixed system, whose other
        bonds the integrator recognizes by their forces. Distances between them are taken, 1-3 distances if the atom
        in between is among them, too. By default all atoms. A ValueError if it is empty, or there is no such atom
    stiffness : str
        "typical" for the force constants of organic molecules: 350000 for bonds, 100000 for 1-3 distances, 460000
        and 240000 for those of water, 1100000 for triple and cumulated bonds. "measured" for those of the System's own
        forces at the positions, by finite differences: the forces are evaluated some tens of times, whatever the number
        of atoms (42 times for ethanol, 92 for a protein in water); for elements that are rare in organic molecules. A
        constant below half the typical one is replaced by this. The positions, of all particles, should be near a
        minimum of the energy: at 300 K the constants of ethanol scatter by 20 % (bonds) and 13 % (1-3 distances). The
        box is the System's default one
    platform : openmm.Platform
        where forces are evaluated for "measured"; by default OpenMM's choice
    bondInertia : float or Quantity
        the inertia of the relative velocity of all bonds [dalton], see addBondInertia(); 0 for none. By default what is
        chosen for a step, or what setBondInertia() has been told, for the bonds of hydrogens

    Returns
    -------
    list of int
        the indices of the pairs that have been added, or given another inertia
    """
    if not MassPenaltyIntegrator.isinstance(integrator):
        raise TypeError("addPairsFromTopology: integrator must be a MassPenaltyIntegrator or "
                        f"MassPenaltyLangevinIntegrator, but is of class {type(integrator).__name__}")
    MassPenaltyIntegrator.cast(integrator)
    bonds = find_bonds(topology, system)
    bondStiffness = None if bondStiffness is None else finite("bondStiffness", bondStiffness, "kJ/mol/nm^2")
    angleStiffness = None if angleStiffness is None else finite("angleStiffness", angleStiffness, "kJ/mol/nm^2")
    bondInertia = None if bondInertia is None else finite("bondInertia", bondInertia, "dalton")
    choice("stiffness", stiffness, ("typical", "measured"))
    if platform is not None:
        instance("platform", platform, openmm.Platform)
    if positions is not None:
        positions = coordinates("positions", positions, (topology.getNumAtoms(), system.getNumParticles()))
    if stiffness == "measured" and (positions is None or len(positions) < system.getNumParticles()):
        raise ValueError("addPairsFromTopology: to measure the stiffness, pass the positions of all "
                         f"{system.getNumParticles()} particles, near a minimum of the energy")
    chosen = _chosen(atoms, topology)
    period = integrator.getPenalizedPeriod().value_in_unit(unit.picosecond)
    if not period > 0:
        raise ValueError(f"addPairsFromTopology: the penalized period is {period} ps. Choose the step size first")
    every = list(topology.atoms())
    neighbours = find_neighbours(bonds, len(every))
    if positions is not None and system.usesPeriodicBoundaryConditions():
        box = np.array([vector.value_in_unit(unit.nanometer) for vector in system.getDefaultPeriodicBoxVectors()])
        positions = make_whole(positions, bonds, box)
    masses = [system.getParticleMass(atom.index).value_in_unit(MASS) for atom in every]
    _check_bonds(every, chosen, neighbours, masses)
    _check_order(every, neighbours, masses)
    angles = find_angles(neighbours, positions, chosen)
    distances = _movable([bond for bond in bonds if chosen.issuperset(bond)] + angles, system, masses)
    constants = [_typical(each, every, neighbours, positions) for each in distances]
    given = [bondStiffness if len(each) == 2 else angleStiffness for each in distances]
    if stiffness == "measured":
        places = [place for place, value in enumerate(given) if value is None]
        forces = Forces(system, integrator.getIntegrationForceGroups(), platform)
        measured = measure_stiffness(forces, positions, [distances[place] for place in places], neighbours)
        for place, value in zip(places, measured.tolist()):
            constants[place] = max(value, LEAST*constants[place])
    constants = [value or constant for value, constant in zip(given, constants)]
    bonds = [bond for bond in bonds if chosen.issuperset(bond)]
    found = _choose_by_spectrum(integrator, system, masses, bonds, list(zip(distances, constants)), neighbours,
                                positions, bondInertia)
    added, set_pair, set_bond = [], _setter(integrator, *PAIRS), _setter(integrator, *BONDS)
    for (i, j, *_), value in zip(distances, given):
        inertia = 0.0 if value == 0 else found.pairs.get(frozenset((i, j)), 0.0)
        index = set_pair(i, j, inertia)
        if inertia > 0:
            added.append(index)
    for i, j in bonds + [(atom, -1) for atom in sorted(chosen)]:
        set_bond(i, j, found.bonds.get(frozenset((i, j)), 0.0))
    return added


class _Inertias(NamedTuple):
    """Of pairs and of bonds [dalton], by the frozenset of their particles; one alone is with -1."""
    pairs: dict
    bonds: dict


def _choose_by_spectrum(integrator, system, masses, bonds, stiff, neighbours, positions, bond_inertia):
    """
    What the integrator chooses for forces of such force constants, with typical ones out of planes and lines.

    stiff: pairs of a bond (i, j) or a 1-3 distance (i, j, vertex) and its constant; bond_inertia: of all bonds, in
    place of what is chosen, or None
    """
    like, held = openmm.System(), set()
    for mass in masses:
        like.addParticle(mass)
    length = partial(_length, positions, masses)
    for constraint in range(system.getNumConstraints()):
        i, j, distance = system.getConstraintParameters(constraint)
        if max(i, j) < len(masses):
            like.addConstraint(i, j, distance)
            held.add(frozenset((i, j)))
    of_bonds, of_angles, of_torsions = (openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(),
                                        openmm.PeriodicTorsionForce())
    of_planes = openmm.CustomCompoundBondForce(4, HEIGHT)
    of_planes.addPerBondParameter("k")
    for force in of_bonds, of_angles, of_torsions, of_planes:
        like.addForce(force)
    constant_of = {frozenset(atoms): constant for atoms, constant in stiff if len(atoms) == 2}
    for i, j in bonds:
        if frozenset((i, j)) not in held:
            of_bonds.addBond(i, j, length(i, j), constant_of.get(frozenset((i, j)), BOND_STIFFNESS))
    for (i, j, *vertex), constant in stiff:
        for k in vertex:
            a, b = length(i, k), length(j, k)
            cosine = _cosine(positions, i, j, k, len(neighbours[k]))
            squared = a*a + b*b - 2*a*b*cosine
            of_angles.addAngle(i, k, j, math.acos(cosine), constant*(a*b)**2*(1 - cosine**2)/squared)
    joined = find_neighbours(bonds, len(masses))
    for i, j, k in find_angles(joined) if positions is not None else []:
        if _cosine(positions, i, j, k, 2) < -math.sqrt(1 - MIN_SINE**2):
            of_angles.addAngle(i, k, j, math.pi, STRAIGHT_STIFFNESS)
    planar = {k for k, around in enumerate(joined) if len(around) == 3 and _is_planar(positions, k, around)}
    for k in planar:
        of_planes.addBond([*joined[k], k], [HEIGHT_STIFFNESS/np.mean([length(i, k) for i in joined[k]])**2])
    for i, j in bonds:
        for first, last in product(joined[i], joined[j]) if planar.issuperset((i, j)) else []:
            if len({first, i, j, last}) == 4:
                of_torsions.addTorsion(first, i, j, last, 2, math.pi, TORSION_STIFFNESS/4)
    chooser = MassPenaltyIntegrator(integrator.getStepSize())
    chooser.setMaxBlockSize(0)
    if not integrator.getUseDefaultPenalizedPeriod():
        chooser.setPenalizedPeriod(integrator.getPenalizedPeriod())
    if bond_inertia is not None:
        chooser.setBondInertia(0)
    elif not integrator.getUseDefaultBondInertia():
        chooser.setBondInertia(integrator.getBondInertia())
    context = make_context(like, chooser, "Reference")
    pairs = map(chooser.getPenalizedPairParameters, range(chooser.computeNumPenalizedPairs()))
    inertias = map(chooser.getInertialBondParameters, range(chooser.computeNumInertialBonds()))
    found = _Inertias(*({frozenset((i, j)): inertia.value_in_unit(MASS) for i, j, inertia in each}
                        for each in (pairs, inertias)))
    del context
    if bond_inertia is not None:
        found.bonds.update({frozenset(bond): bond_inertia for bond in bonds if any(masses[atom] > 0 for atom in bond)})
    return found


def _length(positions, masses, i, j):
    """Of a bond [nm]."""
    if positions is not None:
        return float(np.linalg.norm(positions[i] - positions[j]))
    return LENGTH_OF_HYDROGEN if min(masses[i], masses[j]) < HYDROGEN else LENGTH


def _cosine(positions, i, j, vertex, number):
    """Of an angle; where there are no positions, by the number of neighbours of its vertex."""
    if positions is None:
        return math.cos(math.radians(ANGLES.get(number, 109.5)))
    a, b = positions[i] - positions[vertex], positions[j] - positions[vertex]
    return float(np.clip(a @ b/math.sqrt((a @ a)*(b @ b)), -1, 1))


def _is_planar(positions, atom, neighbours):
    """Whether an atom is in the plane of its three neighbours, nearly; all are where there are no positions."""
    if positions is None:
        return True
    a, b, c = positions[neighbours] - positions[atom]
    normal = np.cross(b - a, c - a)
    return bool(abs(a @ normal) < PLANAR*np.linalg.norm(normal)*np.linalg.norm([a, b, c], axis=1).mean())


def _setter(integrator, number, parameters, add):
    """What gives two atoms an inertia: those that have been given one before another, others if it is not 0."""
    known = {}
    for index in range(getattr(integrator, number)()):
        i, j, _ = getattr(integrator, f"get{parameters}")(index)
        known[frozenset((i, j))] = index

    def give(i, j, inertia):
        index = known.get(frozenset((i, j)))
        if index is None:
            return getattr(integrator, add)(i, j, inertia) if inertia != 0 else None
        getattr(integrator, f"set{parameters}")(index, i, j, inertia)
        return index
    return give


def copy_pairs(source, target):
    """Give an integrator the added pairs and bonds of another one; what else it has been given gets no inertia."""
    for number, parameters, add in (PAIRS, BONDS):
        found = map(getattr(source, f"get{parameters}"), range(getattr(source, number)()))
        inertias = {(i, j): inertia for i, j, inertia in found}
        for index in range(getattr(target, number)()):
            i, j, _ = getattr(target, f"get{parameters}")(index)
            getattr(target, f"set{parameters}")(index, i, j, inertias.pop((i, j), 0))
        for (i, j), inertia in inertias.items():
            getattr(target, add)(i, j, inertia)


def find_bonds(topology, system):
    """The bonds (i, j) of a Topology but those of virtual sites, which follow others. It must fit the System."""
    instance("topology", topology, app.Topology)
    instance("system", system, openmm.System)
    if topology.getNumAtoms() > system.getNumParticles():
        raise ValueError(f"the Topology has {topology.getNumAtoms()} atoms, but the System only "
                         f"{system.getNumParticles()} particles. Pass the Topology that the System was made from")
    bonds = dict.fromkeys(tuple(sorted((bond[0].index, bond[1].index))) for bond in topology.bonds())   # each once
    return [bond for bond in bonds if not any(map(system.isVirtualSite, bond))]


def find_neighbours(bonds, count):
    """The atoms that each of some atoms is bonded to."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for i, j in bonds:
        neighbours[i].append(j)
        neighbours[j].append(i)
    return neighbours


def find_clusters(pairs, count):
    """The cluster of each of some particles, a number, of those that pairs join."""
    first, second = np.transpose(pairs)
    return connected_components(coo_matrix((np.ones(len(first)), (first, second)), (count, count)), directed=False)[1]


def find_angles(neighbours, positions=None, chosen=None):
    """
    The angles (i, j, vertex) that their 1-3 distances tell: those that are bent, all if there are no positions. Of the
    chosen atoms alone if these are given, a set.
    """
    angles = [(i, j, vertex) for vertex, bound in enumerate(neighbours) for place, i in enumerate(bound)
              for j in bound[:place] if (chosen is None or chosen.issuperset((i, j, vertex)))]
    if positions is None or not angles:
        return angles
    return [angle for angle, sine in zip(angles, _sines(positions, angles)) if sine > MIN_SINE]


def find_bonded(system):
    """The pairs of particles in the bonded forces of a System that are recognized, a set of frozensets."""
    return {frozenset(force.getBondParameters(i)[:2]) for force in system.getForces()
            if isinstance(force, (openmm.HarmonicBondForce, openmm.CustomBondForce))
            for i in range(force.getNumBonds())}


def find_stiff_by_kind(system):
    """The pairs of particles in harmonic forces and penalties, which setStiffForceGroups(0) chooses, as frozensets."""
    pairs = set()
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce) or force.getName() == "ConstraintPenalties":
            pairs |= {frozenset(force.getBondParameters(i)[:2]) for i in range(force.getNumBonds())}
        elif isinstance(force, openmm.HarmonicAngleForce):
            pairs |= {frozenset(force.getAngleParameters(i)[:3:2]) for i in range(force.getNumAngles())}
    return pairs


def find_unrecognized(topology, system):
    """The bonds (i, j) of a Topology that are in no such force and not constrained; those that cannot move left out."""
    known = find_bonded(system) | {frozenset(system.getConstraintParameters(i)[:2])
                                   for i in range(system.getNumConstraints())}
    return sorted(bond for bond in set(map(tuple, map(sorted, find_bonds(topology, system))))
                  if frozenset(bond) not in known
                  and any(system.getParticleMass(i)._value > 0 for i in bond))


def _chosen(atoms, topology) -> set[int]:
    """The set of the indices of the atoms whose pairs are added."""
    if atoms is None:
        return set(range(topology.getNumAtoms()))
    try:
        atoms = list(atoms)
    except TypeError:
        raise TypeError(f"atoms must be an iterable of indices of atoms, not {atoms!r}") from None
    if not atoms:
        raise ValueError("atoms is empty; leave it out for all atoms of the Topology")
    for atom in atoms:
        if isinstance(atom, (bool, np.bool_)):
            raise TypeError(f"atoms must have indices of atoms, not {atom}; numpy.flatnonzero() makes them of a mask")
        if not 0 <= integer("an element of atoms", atom) < topology.getNumAtoms():
            raise ValueError(f"atoms: there is no atom {atom}; the Topology has {topology.getNumAtoms()}, from 0")
    return {int(atom) for atom in atoms}


def _movable(distances, system, masses):
    """
    Of distances, bonds (i, j) and 1-3 distances (i, j, vertex), those that can change, each once: neither constrained
    nor of virtual sites or massless particles alone.
    """
    taken = {frozenset(system.getConstraintParameters(i)[:2]) for i in range(system.getNumConstraints())}
    movable = []
    for each in distances:
        pair = frozenset(each[:2])
        if pair not in taken and any(masses[atom] > 0 for atom in pair) and not any(map(system.isVirtualSite, pair)):
            movable.append(each)
            taken.add(pair)
    return movable


def _is_water(distance, atoms, neighbours):
    """By its name, or as an oxygen with two hydrogens."""
    return atoms[distance[0]].residue.name in ("HOH", "WAT") or any(
        atoms[i].element is app.element.oxygen and len(neighbours[i]) == 2
        and all(atoms[j].element is app.element.hydrogen for j in neighbours[i]) for i in distance)


def _typical(distance, atoms, neighbours, positions):
    """The typical force constant of the atoms of a bond, or of a 1-3 distance and the vertex [kJ/mol/nm^2]."""
    if len(distance) == 2 and positions is not None and _is_triple(distance, atoms, neighbours, positions):
        return TRIPLE_BOND_STIFFNESS
    if _is_water(distance, atoms, neighbours):
        return WATER_BOND_STIFFNESS if len(distance) == 2 else WATER_ONE_THREE_STIFFNESS
    return BOND_STIFFNESS if len(distance) == 2 else ONE_THREE_STIFFNESS


def _is_triple(bond, atoms, neighbours, positions):
    """Whether a bond (i, j) is a triple or cumulated one: short, of two atoms alone or at a straight angle."""
    i, j = bond
    if any(atoms[end].element in (None, app.element.hydrogen) for end in (i, j)) \
            or np.linalg.norm(positions[i] - positions[j]) > TRIPLE_BOND:
        return False
    others = [(far, end, near) for near, far in ((i, j), (j, i)) for end in neighbours[near] if end != far]
    return not others or bool(np.any(_sines(positions, others) <= MIN_SINE))


def _check_bonds(atoms, chosen, neighbours, masses):
    """Bonds that the Topology does not know of would be left out without a word."""
    massive = [atom for atom in atoms if masses[atom.index] > 0]
    sizes = Counter(atom.residue.index for atom in massive)
    alone = [atom for atom in massive
             if atom.index in chosen and sizes[atom.residue.index] > 1 and not neighbours[atom.index]]
    if not alone:
        return
    remedy = ("call topology.createStandardBonds() for standard residues, topology.addBond() for others, or add the "
              "pairs by integrator.addPair()")
    of_chosen = "" if len(chosen) == len(atoms) else " of the chosen atoms"
    if not any(neighbours[atom] for atom in chosen):
        raise ValueError(f"addPairsFromTopology: the Topology has no bonds{of_chosen}; {remedy}")
    others = f" (nor have {len(alone) - 1} more)" if len(alone) > 1 else ""
    warnings.warn(f"addPairsFromTopology: {_name(alone[0])} has no bonds{others}, and so gets no pairs; {remedy}",
                  stacklevel=3)


def _check_order(atoms, neighbours, masses):
    """
    Atoms in another order than the System's particles would give pairs to the wrong ones. A hydrogen made heavier has
    taken its mass from the atom that it is bonded to, so that an atom with its hydrogens keeps its mass; in another
    order some groups gain what others lose.
    """
    elements = [0 if atom.element is None else atom.element.mass.value_in_unit(MASS) for atom in atoms]
    known = [i for i, element in enumerate(elements) if element > 0]
    expected = sum(elements[i] for i in known)
    if abs(sum(masses[i] for i in known) - expected) > 0.01*expected:
        return      # masses of the System's own
    light, heavy = [], []
    for i in known:
        if atoms[i].element is not app.element.hydrogen:
            group = [i] + [j for j in neighbours[i] if atoms[j].element is app.element.hydrogen]
            ratio = sum(masses[j] for j in group)/sum(elements[j] for j in group)
            if ratio < 1/1.5 and all(masses[j] > 0 for j in group):
                light.append((atoms[i], ratio))
            elif ratio > 1.5:
                heavy.append((atoms[i], ratio))
    if light and heavy:
        of_light, of_heavy = (f"{_name(found[0][0])} with its hydrogens has {found[0][1]:.2g} times" for found in
                              (light, heavy))
        raise ValueError(f"addPairsFromTopology: in the System, {of_light}, and {of_heavy}, the mass of their "
                         "elements: the order of the atoms is another one. Pass the Topology that the System was made "
                         "from, and masses in its order")


def _name(atom):
    return f"atom {atom.index} ({atom.residue.name} {atom.residue.id}, {atom.name})"


def _sines(positions, angles):
    """The sines of angles (i, j, vertex), an array."""
    i, j, vertex = np.transpose(angles)
    a, b = positions[i] - positions[vertex], positions[j] - positions[vertex]
    lengths = np.linalg.norm([a, b, a - b], axis=2)
    for side, place in np.argwhere(lengths == 0):
        first, second = [(i, vertex), (j, vertex), (i, j)][side]
        raise ValueError(f"positions: atoms {first[place]} and {second[place]} are in the same place")
    return np.linalg.norm(np.cross(a, b), axis=1)/(lengths[0]*lengths[1])
