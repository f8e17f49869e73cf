"""Pairs for MassPenaltyIntegrator from the bonds of a Topology, for forces that are not recognized as bonded."""

import math
import warnings

import numpy as np
import openmm
from openmm import app, unit

from ._conversions import instance, number
from .openmmstiff import MassPenaltyIntegrator

MASS = unit.dalton
# What is typical of organic molecules in force fields such as amber14, kJ/mol/nm^2.
BOND_STIFFNESS, ONE_THREE_STIFFNESS = 3.5e5, 1e5
WATER_BOND_STIFFNESS, WATER_ONE_THREE_STIFFNESS = 4.6e5, 2.4e5
MIN_SINE = 0.3  # flatter angles are not told by their 1-3 distance


def addPairsFromTopology(integrator, topology, system, positions=None, bondStiffness=None, angleStiffness=None):
    """
    Add a pair to a MassPenaltyIntegrator for each bond of a Topology and for each 1-3 distance (two bonds with an
    atom in common): for potentials without bonded forces, such as machine-learned ones. Pairs get the inertia that
    slows a distance of typical stiffness to the integrator's penalized period, which is 16 steps unless it has been
    set; call this after the step size has been chosen. Averages do not depend on the inertia.

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
        positions [nm], by which 1-3 distances of angles close to 180 degrees are recognized and left out; without them
        all are taken. A ValueError if they are not finite, or two atoms of an angle in the same place
    bondStiffness : float or Quantity
        the force constant of bonds [kJ/mol/nm^2]; by default 350000, and 460000 for the O-H bonds of water;
        0 leaves them out
    angleStiffness : float or Quantity
        the force constant of 1-3 distances [kJ/mol/nm^2]; by default 100000, and 240000 for the H-H distance of
        water; 0 leaves them out

    Returns
    -------
    list of int
        the indices of the pairs that have been added
    """
    if not MassPenaltyIntegrator.isinstance(integrator):
        raise TypeError("addPairsFromTopology: integrator must be a MassPenaltyIntegrator or "
                        f"MassPenaltyLangevinIntegrator, but is of class {type(integrator).__name__}")
    MassPenaltyIntegrator.cast(integrator)
    instance("topology", topology, app.Topology)
    instance("system", system, openmm.System)
    if topology.getNumAtoms() > system.getNumParticles():
        raise ValueError(f"addPairsFromTopology: the Topology has {topology.getNumAtoms()} atoms, but the System only "
                         f"{system.getNumParticles()} particles. Pass the Topology that the System was made from")
    bondStiffness = _stiffness("bondStiffness", bondStiffness)
    angleStiffness = _stiffness("angleStiffness", angleStiffness)
    if positions is not None:
        positions = _positions(positions, topology, system)
    period = integrator.computePenalizedPeriod().value_in_unit(unit.picosecond)
    if not period > 0:
        raise ValueError(f"addPairsFromTopology: the penalized period is {period} ps. Choose the step size first")
    atoms = list(topology.atoms())
    neighbours = [[] for _ in atoms]
    for bond in topology.bonds():
        neighbours[bond[0].index].append(bond[1].index)
        neighbours[bond[1].index].append(bond[0].index)
    masses = [system.getParticleMass(atom.index).value_in_unit(MASS) for atom in atoms]
    _check_bonds(topology, neighbours, masses)
    _check_order(atoms, neighbours, masses)
    bent = [(i, j) for vertex, bound in enumerate(neighbours) for place, i in enumerate(bound) for j in bound[:place]
            if positions is None or _sine(positions, i, vertex, j) > MIN_SINE]
    taken = {frozenset(system.getConstraintParameters(i)[:2]) for i in range(system.getNumConstraints())}
    added = []

    def add(i, j, stiffness):
        """Add a pair, unless it is there already or would get no inertia."""
        if frozenset((i, j)) in taken or any(system.isVirtualSite(atom) for atom in (i, j)):
            return
        taken.add(frozenset((i, j)))
        inverse = sum(1/masses[atom] for atom in (i, j) if masses[atom] > 0)
        if inverse == 0:
            return
        inertia = stiffness*(period/(2*math.pi))**2 - 1/inverse
        if inertia > 0:
            added.append(integrator.addPair(i, j, inertia))

    def choose(given, typical, of_water, atom):
        """The force constant of a coordinate whose first atom is given."""
        if given is not None:
            return given
        return of_water if atoms[atom].residue.name in ("HOH", "WAT") else typical

    for bond in topology.bonds():
        i, j = bond[0].index, bond[1].index
        add(i, j, choose(bondStiffness, BOND_STIFFNESS, WATER_BOND_STIFFNESS, i))
    for i, j in bent:
        add(i, j, choose(angleStiffness, ONE_THREE_STIFFNESS, WATER_ONE_THREE_STIFFNESS, i))
    return added


def _stiffness(argument, value):
    """A force constant [kJ/mol/nm^2], or None."""
    if value is None:
        return None
    value = number(argument, value, "kJ/mol/nm^2")
    if not 0 <= value < math.inf:
        raise ValueError(f"{argument} must be a finite number that is not negative, but is {value} kJ/mol/nm^2")
    return value


def _positions(positions, topology, system):
    """An array [nm] with a row for each atom at least."""
    if unit.is_quantity(positions):
        if not positions.unit.is_compatible(unit.nanometer):
            raise TypeError(f"positions must be a quantity in nanometer, not in {positions.unit}")
        positions = positions.value_in_unit(unit.nanometer)
    try:
        array = np.asarray(positions).astype(float, casting="same_kind")
    except (TypeError, ValueError):
        raise TypeError(f"positions must be an array of shape (particles, 3), not {positions!r}") from None
    counts = sorted({topology.getNumAtoms(), system.getNumParticles()})
    if array.shape not in [(count, 3) for count in counts]:
        raise ValueError(f"positions must have three coordinates of each of {' or '.join(map(str, counts))} particles, "
                         f"but are of shape {array.shape}")
    wrong = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(wrong) > 0:
        raise ValueError(f"positions: those of particle {wrong[0]} are {array[wrong[0]].tolist()}")
    return array


def _check_bonds(topology, neighbours, masses):
    """Bonds that the Topology does not know of would be left out without a word."""
    alone = []
    for residue in topology.residues():
        atoms = [atom for atom in residue.atoms() if masses[atom.index] > 0]
        if len(atoms) > 1:
            alone += [atom for atom in atoms if not neighbours[atom.index]]
    if not alone:
        return
    remedy = ("call topology.createStandardBonds() for standard residues, topology.addBond() for others, or add the "
              "pairs by integrator.addPair()")
    if not any(neighbours):
        raise ValueError(f"addPairsFromTopology: the Topology has no bonds; {remedy}")
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
                         "from")


def _name(atom):
    return f"atom {atom.index} ({atom.residue.name} {atom.residue.id}, {atom.name})"


def _sine(positions, i, vertex, j):
    a, b = positions[i] - positions[vertex], positions[j] - positions[vertex]
    lengths = [np.linalg.norm(each) for each in (a, b, a - b)]
    if min(lengths) == 0:
        first, second = [(i, vertex), (j, vertex), (i, j)][lengths.index(0)]
        raise ValueError(f"positions: atoms {first} and {second} are in the same place")
    return np.linalg.norm(np.cross(a, b))/(lengths[0]*lengths[1])
