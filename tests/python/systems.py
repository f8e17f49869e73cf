"""Small Systems, Forces and Topologies, made of what is in them."""
import itertools
import re

import numpy as np
import openmm
from openmm import Vec3, app


def force(cls, add, terms, *arguments, setup=None, **parameters):
    """A Force of a class with its terms added, and {name: value} of global parameters."""
    made = getattr(openmm, cls)(*arguments)
    for name, value in parameters.items():
        made.addGlobalParameter(name, value)
    if setup:
        setup(made)
    for term in terms:
        getattr(made, add)(*term)
    return made


def bonds(*terms):
    return force("HarmonicBondForce", "addBond", terms)


def angles(*terms):
    return force("HarmonicAngleForce", "addAngle", terms)


def custom_bond(energy, *terms, **parameters):
    return force("CustomBondForce", "addBond", terms or [(0, 1, [])], energy, **parameters)


def external(energy, *particles, **parameters):
    """A force on some particles."""
    return force("CustomExternalForce", "addParticle", [(particle, []) for particle in particles], energy, **parameters)


def periodic(made):
    made.setUsesPeriodicBoundaryConditions(True)
    return made


def add_phase(made, energy):
    """A force that depends on the phase theta, as an HMMIntegrator needs it."""
    made.addForce(external(energy, 0, theta=0.5))


def system_of(masses, *forces, constraints=(), box=None, sites=()):
    """A System; a virtual site is in the middle of two parents."""
    made = openmm.System()
    for mass in masses:
        made.addParticle(mass)
    for pair in constraints:
        made.addConstraint(*pair)
    for site, parents in sites:
        made.setVirtualSite(site, openmm.TwoParticleAverageSite(*parents, 0.5, 0.5))
    for each in forces:
        made.addForce(each)
    if box is not None:
        made.setDefaultPeriodicBoxVectors(*(Vec3(*vector) for vector in box))
    return made


def system(positions, *forces, masses=12.0, phase="0*cos(theta)*x", **others):
    """(System, positions); a mass is of all particles, or a list goes round. The parameter theta is HMM's phase."""
    masses = itertools.cycle(masses if isinstance(masses, list) else [masses])
    made = system_of(itertools.islice(masses, len(positions)), *forces, **others)
    add_phase(made, phase)
    return made, np.array(positions, dtype=float)


def add_residue(topology, name, atoms, bonded=()):
    """Add a residue of atoms, by names that begin with an element, to the chain of a Topology; returns the atoms."""
    chain = next(topology.chains(), None) or topology.addChain()
    residue = topology.addResidue(name, chain)
    made = [topology.addAtom(atom, app.Element.getBySymbol(re.match("[A-Z][a-z]?", atom)[0]), residue)
            for atom in atoms]
    for i, j in bonded:
        topology.addBond(made[i], made[j])
    return made


def molecule(symbols, bonded, residue="MOL"):
    """A Topology of one residue; its atoms are C1, O2, ..."""
    topology = app.Topology()
    add_residue(topology, residue, [f"{symbol}{i}" for i, symbol in enumerate(symbols, 1)], bonded)
    return topology
