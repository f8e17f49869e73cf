"""The impulse integrators in ordinary OpenMM scripts: what is theirs alone."""

import sys
from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app

from conftest import (FEMTOSECONDS, GAS_CONSTANT, CountingForce, Waters, positions_of, total_energy, velocities_of)
from openmmstiff import ImpulseIntegrator, ImpulseLangevinIntegrator

KICKS = {name: getattr(ImpulseIntegrator, name) for name in ("Plain", "Mollified", "Projected")}


@pytest.fixture(params=KICKS)
def kick(request):
    return KICKS[request.param]


def test_the_langevin_form_evaluates_the_forces_once_a_step(waters, platform, kick):
    counter = CountingForce(waters.system)
    integrator = ImpulseLangevinIntegrator(300, 1, 2*FEMTOSECONDS)
    integrator.setKick(kick)
    context = waters.context(integrator, platform)
    before = counter.count
    integrator.step(7)
    assert counter.count - before == 7
    assert context.getStepCount() == 7


def test_changed_masses_choose_the_micro_steps_anew(waters, platform, kick):
    """Light hydrogens and a preserved state: as in a new Context."""
    contexts = []
    for reinitialized in (True, False):
        integrator = ImpulseIntegrator(2*FEMTOSECONDS)
        integrator.setKick(kick)
        mass = 16.0 if reinitialized else 1.008
        for i in range(1, waters.system.getNumParticles(), 3):
            waters.system.setParticleMass(i, mass)
        context = waters.context(integrator, platform)
        if reinitialized:
            integrator.step(1)
            heavy = integrator.computeNumMicroSteps()
            for i in range(1, waters.system.getNumParticles(), 3):
                waters.system.setParticleMass(i, 1.008)
            context.reinitialize(True)
        else:
            context.setPositions(positions_of(contexts[0]))
            context.setVelocities(velocities_of(contexts[0]))
        contexts.append(context)
    numbers = [context.getIntegrator().computeNumMicroSteps() for context in contexts]
    assert numbers[0] == numbers[1] > heavy
    for context in contexts:
        context.getIntegrator().step(1)
    assert np.abs(velocities_of(contexts[0]) - velocities_of(contexts[1])).max() < 1e-6


def test_slow_is_all_that_is_not_stiff_whatever_the_force_groups(platform):
    """Bonds and angles in a group with other forces are not counted twice."""
    ends = []
    for group in (0, 3):
        waters = Waters(4)
        for force in waters.system.getForces():
            if isinstance(force, openmm.NonbondedForce):
                force.setForceGroup(group)
        integrator = ImpulseIntegrator(2*FEMTOSECONDS)
        properties = {"Threads": "1"} if platform.getName() == "CPU" else {}
        context = openmm.Context(waters.system, integrator, platform, properties)
        context.setPositions(waters.positions)
        context.setVelocitiesToTemperature(300, 1)
        integrator.step(20)
        ends.append(positions_of(context))
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_fewer_stiff_forces(waters, platform):
    """With the bonds alone in the stiff group, the angles are slow: no micro-steps, but kicks."""
    for i, force in enumerate(waters.system.getForces()):
        force.setForceGroup(1 if isinstance(force, openmm.HarmonicBondForce) else 0)
    integrator = ImpulseIntegrator(0.5*FEMTOSECONDS)
    integrator.setKick(ImpulseIntegrator.Plain)
    integrator.setStiffForceGroups({1})
    context = waters.context(integrator, platform)
    integrator.step(1)  # the first step removes the motion of the centre of mass
    before = total_energy(context)
    integrator.step(200)
    assert abs(total_energy(context) - before)/len(waters.positions) < 0.05


def test_mollified_kicks_conserve_their_energy(waters, platform):
    """T + V1(x) + V0(A(x)) is the energy of the mollified method: it stays while T + V1 + V0 does not."""
    pytest.importorskip("mdtraj")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]/"examples"))
    from common.observables import without_vibrations
    from common.water_sampling import SHAPE
    for force in waters.system.getForces():
        force.setForceGroup(1 if isinstance(force, openmm.NonbondedForce) else 0)
    masses = np.array([waters.system.getParticleMass(i)._value for i in range(3)])
    integrator = ImpulseIntegrator(2*FEMTOSECONDS)
    integrator.setKick(ImpulseIntegrator.Mollified)
    context = waters.context(integrator, platform)
    openmm.LocalEnergyMinimizer.minimize(context, 1)
    context.setVelocitiesToTemperature(150, 1)
    integrator.step(1)  # the first step removes the motion of the centre of mass
    at_rest = openmm.Context(waters.system, openmm.VerletIntegrator(0.001), platform)
    energies, modified = [], []
    for _ in range(200):
        integrator.step(5)
        # A(x) of a molecule whose coordinates fix its shape is the rigid shape, placed as close as possible.
        molecules = positions_of(context).reshape(-1, 3, 3)
        at_rest.setPositions(without_vibrations(molecules, SHAPE, masses).reshape(-1, 3))
        slow, slow_at_rest = (each.getState(energy=True, groups={1}).getPotentialEnergy()._value
                              for each in (context, at_rest))
        energies.append(total_energy(context))
        modified.append(energies[-1] - slow + slow_at_rest)
    assert np.std(energies) > 1
    assert np.std(modified) < 0.1


@pytest.fixture(scope="module")
def villin():
    """The protein of OpenMM's test.pdb, without its water: (topology, positions, System)."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([residue for residue in pdb.topology.residues() if residue.name in ("HOH", "CL", "Cl")])
    system = app.ForceField("amber14-all.xml").createSystem(modeller.topology, nonbondedMethod=app.NoCutoff,
                                                            constraints=None)
    return modeller.topology, modeller.positions, system


def temperatures_of(system, context, integrator, samples, steps):
    """Temperatures of a run, one every few steps, after some time to settle [K]."""
    masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
    integrator.step(samples*steps//4)
    temperatures = []
    for _ in range(samples):
        integrator.step(steps)
        kinetic = np.sum(masses[:, None]*velocities_of(context)**2)
        temperatures.append(kinetic/(3*len(masses)*GAS_CONSTANT))
    return np.array(temperatures)


def start_villin(villin, integrator, platform):
    _, positions, system = villin
    context = openmm.Context(system, integrator, platform)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    return context


def test_flexible_protein_at_4_fs(villin):
    """All bonds and angles of a protein are stiff, in one sparse block; its temperature is that of the heat bath."""
    integrator = ImpulseLangevinIntegrator(300, 10, 4*FEMTOSECONDS)
    integrator.setRandomNumberSeed(1)
    context = start_villin(villin, integrator, openmm.Platform.getPlatform("CPU"))
    temperatures = temperatures_of(villin[2], context, integrator, 100, 10)
    # 1700 degrees of freedom fluctuate by 10 K, over some ten correlation times.
    assert abs(temperatures.mean() - 300) < 12


def test_projecting_what_has_no_gap_heats(villin):
    """The negative control: with every bond and angle projected, the kicks pump energy into the protein."""
    integrator = ImpulseLangevinIntegrator(300, 1, 1*FEMTOSECONDS)
    integrator.setProjectedPeriod(float("inf"))
    integrator.setRandomNumberSeed(1)
    context = start_villin(villin, integrator, openmm.Platform.getPlatform("CPU"))
    try:
        assert temperatures_of(villin[2], context, integrator, 40, 10).mean() > 350
    except openmm.OpenMMException as failure:
        assert "ImpulseLangevinIntegrator" in str(failure) and "smaller step size" in str(failure)


def test_platforms_agree_on_a_protein(villin):
    ends = []
    for name in ("Reference", "CPU"):
        integrator = ImpulseIntegrator(2*FEMTOSECONDS)
        context = openmm.Context(villin[2], integrator, openmm.Platform.getPlatform(name))
        context.setPositions(villin[1])
        context.setVelocities(np.zeros((villin[2].getNumParticles(), 3)))
        integrator.step(5)
        ends.append(positions_of(context))
    assert np.abs(ends[0] - ends[1]).max() < 1e-5


def test_mollified_kicks_need_values_that_agree(villin):
    """In a protein the equilibrium values contradict each other: the error names the molecule and the remedy."""
    integrator = ImpulseIntegrator(1*FEMTOSECONDS)
    integrator.setKick(ImpulseIntegrator.Mollified)
    context = start_villin(villin, integrator, openmm.Platform.getPlatform("CPU"))
    integrator.step(2)  # bonds to hydrogen can take any lengths
    assert context.getStepCount() == 2
    integrator.setProjectedPeriod(float("inf"))
    with pytest.raises(openmm.OpenMMException, match=r"ImpulseIntegrator.*582 in all.*Projected"):
        integrator.step(1)
