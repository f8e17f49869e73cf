"""What the mass penalty recognizes of AMOEBA's bonded forces: all bonds and angles."""

import random
import re
import warnings

import numpy as np
import openmm
import pytest
from openmm import app, unit

import trials
from conftest import FEMTOSECONDS, positions_of, water_cluster
from openmmstiff import MassPenaltyLangevinIntegrator, addPairsFromTopology
from openmmstiff.sampling import sample

FORCE_FIELD = app.ForceField("amoeba2018.xml")
STEP = 8*FEMTOSECONDS  # all bonds and angles vibrate faster than in 16 of these


def alanine_dipeptide():
    """The (topology, positions) of an alanine of OpenMM's protein, between caps that are made of its neighbours."""
    protein = app.PDBFile(app.__path__[0] + "/data/test.pdb")
    positions = protein.positions.value_in_unit(unit.nanometer)
    residues = list(protein.topology.residues())
    middle = next(residue.index for residue in residues if (residue.name, residue.id) == ("ALA", "16"))
    topology, kept = app.Topology(), []
    chain = topology.addChain()
    for index, name, names in ((middle - 1, "ACE", {"CA": "CH3", "C": "C", "O": "O"}),
                               (middle, "ALA", {each: each for each in ("N", "CA", "CB", "C", "O")}),
                               (middle + 1, "NME", {"N": "N", "CA": "C"})):
        residue = topology.addResidue(name, chain)
        for atom in residues[index].atoms():
            if atom.name in names:
                topology.addAtom(names[atom.name], atom.element, residue)
                kept.append(positions[atom.index])
    topology.createStandardBonds()
    modeller = app.Modeller(topology, kept*unit.nanometer)
    random.seed(1)      # hydrogens begin anywhere, and may end where an angle has little curvature
    modeller.addHydrogens()
    return modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer))


def flexible(topology):
    """Without forces that have no terms: to compile such takes OpenMM seconds."""
    system = FORCE_FIELD.createSystem(topology, constraints=None, rigidWater=False, polarization="direct")
    for index in reversed(range(system.getNumForces())):
        force = system.getForce(index)
        if isinstance(force, openmm.CustomCompoundBondForce) and force.getNumBonds() == 0:
            system.removeForce(index)
    return system


def count_pairs(integrator):
    """How many pairs each force has."""
    text = integrator.describeStiffMotion()
    counts = {name: int(number) for number, name in re.findall(r"(\d+) of '(\S+)'", text)}
    assert sum(counts.values()) == int(text.split()[0]) == integrator.computeNumPenalizedPairs()
    return counts


def one_three_distances(system, name):
    """Pairs of particles at the ends of the angles of a force."""
    force = next(each for each in system.getForces() if each.getName() == name)
    if isinstance(force, openmm.CustomAngleForce):
        angles = (force.getAngleParameters(i)[:3] for i in range(force.getNumAngles()))
    else:
        angles = (force.getBondParameters(i)[0][:3] for i in range(force.getNumBonds()))
    return {frozenset((i, j)) for i, _, j in angles}


@pytest.mark.parametrize("femtoseconds", [4, 6, 8])
def test_each_water_has_three_pairs(femtoseconds):
    """Two bonds, and the H-H distance, of which the Urey-Bradley term and the angle are both functions."""
    topology, positions = water_cluster(3)
    system = flexible(topology)
    assert sum(force.getNumBonds() for force in system.getForces() if force.getName() == "HarmonicBondForce") == 3
    integrator = MassPenaltyLangevinIntegrator(300, 5, femtoseconds*FEMTOSECONDS)
    context = trials.bind(system, integrator, "Reference", positions)
    assert count_pairs(integrator) == {"AmoebaBondForce": 3*2, "HarmonicBondForce": 3}
    integrator.step(1)
    assert context.getStepCount() == 1


@pytest.fixture(scope="module")
def dipeptide():
    """A Simulation of alanine dipeptide, with all its forces, at their minimum."""
    topology, positions = alanine_dipeptide()
    system = FORCE_FIELD.createSystem(topology, constraints=None, removeCMMotion=False)
    integrator = trials.seeded(MassPenaltyLangevinIntegrator(300, 5, STEP))
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatform("Reference"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy()
    return simulation


def test_all_bonds_and_angles_are_recognized(dipeptide):
    """
    In-plane angles, those at trigonal atoms, too; the Topology has no others. Of six distances about a carbon one is
    surplus, and of three about a trigonal atom that is flat: two of four are.
    """
    topology, system, integrator = dipeptide.topology, dipeptide.system, dipeptide.integrator
    bonds = {frozenset((bond[0].index, bond[1].index)) for bond in topology.bonds()}
    angles = one_three_distances(system, "AmoebaAngleForce")
    in_plane = one_three_distances(system, "AmoebaInPlaneAngleForce")
    assert (len(bonds), len(angles), len(in_plane)) == (21, 24, 12) and not angles & in_plane
    size = integrator.getMaxBlockSize()
    integrator.setMaxBlockSize(0)       # what is cut has no pair
    assert count_pairs(integrator) == {"AmoebaBondForce": 21, "AmoebaAngleForce": 20, "AmoebaInPlaneAngleForce": 10}
    recognized = {frozenset(integrator.getPenalizedPairParameters(i)[:2]) for i in range(51)}
    assert bonds < recognized < bonds | angles | in_plane
    integrator.setMaxBlockSize(size)
    other = MassPenaltyLangevinIntegrator(300, 5, STEP)
    added = addPairsFromTopology(other, topology, system, positions_of(dipeptide.context))
    found = {frozenset(other.getPairParameters(pair)[:2]) for pair in added}
    assert bonds < found < bonds | angles | in_plane


def test_a_solute_takes_8_fs(dipeptide):
    """
    Without a warning of motions that are left fast, for 9 ps. One temperature of 66 degrees of freedom scatters by 52
    K; samples are independent after 1/friction, 0.2 ps, so that the mean of 8 ps has an error of 8 K: 5 of these.
    """
    dipeptide.context.setVelocitiesToTemperature(300, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dipeptide.step(125)
    found = sample(dipeptide.context, 5, 200)   # an error if an energy is not finite
    assert abs(found.temperature.mean() - 300) < 5*8
