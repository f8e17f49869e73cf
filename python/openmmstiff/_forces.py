"""The forces of a System as a function of positions, for finite differences."""

import contextlib

import numpy as np
import openmm
from openmm import unit

from ._conversions import coordinates

COPIED = ("Precision", "Threads", "DeviceIndex", "OpenCLPlatformIndex")     # properties of platforms


def make_context(system, integrator, platform=None, properties=None, box=None, positions=None):
    """A Context on a platform of some name, or on OpenMM's choice, with a box and positions [nm] if they are given."""
    chosen = [] if platform is None else [openmm.Platform.getPlatform(platform), properties or {}]
    context = openmm.Context(system, integrator, *chosen)
    if box is not None:
        context.setPeriodicBoxVectors(*box)
    if positions is not None:
        context.setPositions(positions)
    return context


@contextlib.contextmanager
def kept_random_numbers():
    """On Reference all Contexts share their random numbers, and a new one begins them anew: not for others, here."""
    system = openmm.System()
    system.addParticle(1)
    context = make_context(system, openmm.VerletIntegrator(1), "Reference", positions=[(0, 0, 0)])
    checkpoint = context.createCheckpoint()
    try:
        yield
    finally:
        context.loadCheckpoint(checkpoint)


def read_positions(caller, context):
    """The positions of a Context [nm]; a ValueError if they have not been set, or are not finite."""
    try:
        context.getState(energy=True, groups=0)     # computes nothing
    except openmm.OpenMMException as error:
        if "have not been set" in str(error):       # else one is not a number, and named below
            raise ValueError(f"{caller}: the positions have not been set. Call "
                             "simulation.context.setPositions()") from error
    positions = context.getState(positions=True).getPositions(asNumpy=True)
    return coordinates(f"{caller}: positions", positions, [len(positions)])


def make_whole(positions, bonds, box):
    """
    Positions with molecules whole that lie across the box [nm]: each atom at the image that is nearest an atom that it
    is bonded to.

    bonds: pairs of indices; box: the periodic box vectors, the rows of an array
    """
    first, second = np.array(list(bonds), dtype=int).reshape(-1, 2).T
    between, shifts = positions[second] - positions[first], np.zeros((len(first), 3), dtype=int)
    for axis in (2, 1, 0):
        shifts[:, axis] = np.rint(between[:, axis]/box[axis, axis])
        between -= shifts[:, axis, None]*box[axis]
    return positions + find_cells(first, second, -shifts, len(positions))[0] @ box if shifts.any() else positions


def find_cells(first, second, between, count):
    """
    The cells by which atoms are to be shifted for whole molecules, of shape (atoms, 3), and the first atom of the
    molecule of each. Atoms of bonds are first and second; between: the cells by which the second is nearer the first
    """
    steps: list[list[tuple]] = [[] for _ in range(count)]
    for i, j, cell in zip(first, second, between):
        steps[i].append((j, cell))
        steps[j].append((i, -cell))
    cells, molecule_of = np.zeros((count, 3), dtype=int), np.full(count, -1)
    for start in range(count):
        to_do = [start] if molecule_of[start] < 0 else []
        molecule_of[to_do] = start
        while to_do:
            i = to_do.pop()
            for j, cell in steps[i]:
                if molecule_of[j] < 0:
                    molecule_of[j], cells[j] = start, cells[i] + cell
                    to_do.append(j)
    return cells, molecule_of


class Forces:
    """
    The forces of a System in a Context of its own; call it with positions, of shape (particles, 3) [nm], for forces
    [kJ/mol/nm] of the same shape.

    groups: bit flags of the force groups; platform: where they are computed, None for OpenMM's choice; context: one
    whose platform, box and parameters are taken instead of the default ones.
    """

    def __init__(self, system, groups=-1, platform=None, context=None):
        self.system, self.groups, self.evaluations = system, groups, 0
        self.platform, self.like = platform, context
        masses = [system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())]
        self.masses = np.array(masses)      # of shape (particles,) [dalton]
        self.context = self.make_context(openmm.VerletIntegrator(0.001))

    @property
    def inverse_masses(self):
        """Of shape (particles,) [1/dalton]; 0 for a particle that does not move."""
        return np.divide(1, self.masses, out=np.zeros_like(self.masses), where=self.masses > 0)

    def make_context(self, integrator):
        """A Context of the same kind, with an integrator of one's own."""
        if self.like is None:
            return openmm.Context(self.system, integrator, *([] if self.platform is None else [self.platform]))
        platform = self.like.getPlatform()
        properties = {name: platform.getPropertyValue(self.like, name) for name in platform.getPropertyNames()
                      if name in COPIED}
        context = openmm.Context(self.system, integrator, platform, properties)
        state = self.like.getState(parameters=True)
        context.setPeriodicBoxVectors(*state.getPeriodicBoxVectors())
        for name, value in state.getParameters().items():
            context.setParameter(name, value)
        return context

    def __call__(self, positions):
        self.context.setPositions(positions)
        self.context.computeVirtualSites()
        self.evaluations += 1
        state = self.context.getState(forces=True, groups=self.groups)
        forces = state.getForces(asNumpy=True).value_in_unit(unit.kilojoule_per_mole/unit.nanometer)
        wrong = np.flatnonzero(~np.isfinite(forces).all(axis=1) & (self.masses > 0))
        if len(wrong) > 0:
            raise ValueError(f"positions: the force on particle {wrong[0]} is {forces[wrong[0]].tolist()}. Pass "
                             "positions near a minimum of the energy")
        return np.array(forces)
