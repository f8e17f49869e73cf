"""Pairs for MassPenaltyIntegrator from the bonds of a Topology, for forces that are not recognized as bonded."""

import math

import numpy as np
from openmm import unit

MASS = unit.dalton
STIFFNESS = unit.kilojoule_per_mole/unit.nanometer**2
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
        the integrator to add pairs to
    topology : openmm.app.Topology
        the Topology whose bonds are taken; its atoms are the System's first particles, in the same order
    system : openmm.System
        the System, from which masses and constraints are taken: constrained pairs are left out, and so are pairs
        of massless particles and virtual sites
    positions : Quantity or array of shape (particles, 3)
        positions [nm], by which 1-3 distances of angles close to 180 degrees are recognized and left out; without them
        all are taken
    bondStiffness : float or Quantity
        the force constant of bonds [kJ/mol/nm^2]; by default 350000, and 460000 for the O-H bonds of water
    angleStiffness : float or Quantity
        the force constant of 1-3 distances [kJ/mol/nm^2]; by default 100000, and 240000 for the H-H distance of water

    Returns
    -------
    list of int
        the indices of the pairs that have been added
    """
    if topology.getNumAtoms() > system.getNumParticles():
        raise ValueError(f"addPairsFromTopology: the Topology has {topology.getNumAtoms()} atoms, but the System only "
                         f"{system.getNumParticles()} particles. Pass the Topology that the System was made from")
    if positions is not None:
        if unit.is_quantity(positions):
            positions = positions.value_in_unit(unit.nanometer)
        positions = np.asarray(positions, dtype=float)
    period = integrator.computePenalizedPeriod().value_in_unit(unit.picosecond)
    atoms = list(topology.atoms())
    neighbours = [[] for _ in atoms]
    for bond in topology.bonds():
        neighbours[bond[0].index].append(bond[1].index)
        neighbours[bond[1].index].append(bond[0].index)
    taken = {frozenset(system.getConstraintParameters(i)[:2]) for i in range(system.getNumConstraints())}
    added = []

    def add(i, j, stiffness):
        """Add a pair, unless it is there already or would get no inertia."""
        if frozenset((i, j)) in taken or any(system.isVirtualSite(atom) for atom in (i, j)):
            return
        taken.add(frozenset((i, j)))
        masses = [system.getParticleMass(atom).value_in_unit(MASS) for atom in (i, j)]
        inverse = sum(1/mass for mass in masses if mass > 0)
        if inverse == 0:
            return
        inertia = stiffness*(period/(2*math.pi))**2 - 1/inverse
        if inertia > 0:
            added.append(integrator.addPair(i, j, inertia))

    def choose(given, typical, of_water, atom):
        """The force constant of a coordinate whose first atom is given."""
        if given is not None:
            return given.value_in_unit(STIFFNESS) if unit.is_quantity(given) else given
        return of_water if atoms[atom].residue.name in ("HOH", "WAT") else typical

    for bond in topology.bonds():
        i, j = bond[0].index, bond[1].index
        add(i, j, choose(bondStiffness, BOND_STIFFNESS, WATER_BOND_STIFFNESS, i))
    for vertex, bound in enumerate(neighbours):
        for place, i in enumerate(bound):
            for j in bound[:place]:
                if positions is None or _sine(positions, i, vertex, j) > MIN_SINE:
                    add(i, j, choose(angleStiffness, ONE_THREE_STIFFNESS, WATER_ONE_THREE_STIFFNESS, i))
    return added


def _sine(positions, i, vertex, j):
    a, b = positions[i] - positions[vertex], positions[j] - positions[vertex]
    return np.linalg.norm(np.cross(a, b))/(np.linalg.norm(a)*np.linalg.norm(b))
