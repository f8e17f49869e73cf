"""The impulse integrators in ordinary OpenMM scripts: what is theirs alone."""

from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import FEMTOSECONDS, CountingForce, Waters, positions_of, total_energy, velocities_of
from openmmstiff import ImpulseIntegrator, ImpulseLangevinIntegrator

KICKS = {name: getattr(ImpulseIntegrator, name) for name in ("Plain", "Mollified", "Projected")}


@pytest.fixture(params=KICKS)
def kick(request):
    return KICKS[request.param]


def test_one_force_evaluation_in_a_step(waters, platform, kick):
    """... and one more whenever something has changed that the kick depends on, and only then."""
    external = openmm.CustomExternalForce("scale*x")
    external.addGlobalParameter("scale", 0.0)
    external.addParticle(0, [])
    waters.system.addForce(external)
    counter = CountingForce(waters.system)
    integrator = ImpulseIntegrator(1*FEMTOSECONDS)
    integrator.setKick(kick)
    context = waters.context(integrator, platform)

    def evaluations(action, steps=5):
        action()
        before = counter.count
        integrator.step(steps)
        return counter.count - before - steps

    # createSystem() adds a CMMotionRemover, which changes velocities only.
    assert evaluations(lambda: None) == 1, "the first step"
    assert evaluations(lambda: None) == 0
    assert evaluations(lambda: context.getState(energy=True, forces=True, positions=True)) == 0
    assert evaluations(lambda: context.setVelocitiesToTemperature(300, 2)) == 0
    assert evaluations(integrator.computeNumMicroSteps) == 0
    assert evaluations(lambda: integrator.setNumMicroSteps(9)) == 0
    assert evaluations(lambda: integrator.setStepSize(0.5*FEMTOSECONDS)) == 0, "the kick is an acceleration"
    assert evaluations(lambda: integrator.setKick((kick + 1) % 3)) == 1
    assert evaluations(lambda: context.setParameter("scale", 1.0)) == 1
    assert evaluations(lambda: context.setPositions(1.001*positions_of(context))) == 1
    assert evaluations(lambda: context.setPeriodicBoxVectors((3, 0, 0), (0, 3, 0), (0, 0, 3))) == 1
    assert evaluations(lambda: integrator.setIntegrationForceGroups({0, 9})) == 1
    assert evaluations(lambda: context.loadCheckpoint(context.createCheckpoint())) == 1


def test_the_langevin_form_evaluates_the_forces_once_a_step(waters, platform, kick):
    counter = CountingForce(waters.system)
    integrator = ImpulseLangevinIntegrator(300, 1, 2*FEMTOSECONDS)
    integrator.setKick(kick)
    waters.context(integrator, platform)
    before = counter.count
    integrator.step(7)
    assert counter.count - before == 7


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
    """With the bonds alone in the stiff group, angles are slow: bonds keep their lengths, angles take the kicks."""
    for i, force in enumerate(waters.system.getForces()):
        force.setForceGroup(1 if isinstance(force, openmm.HarmonicBondForce) else 0)
    integrator = ImpulseIntegrator(1*FEMTOSECONDS)
    integrator.setStiffForceGroups({1})
    context = waters.context(integrator, platform)
    before = total_energy(context)
    integrator.step(200)
    assert abs(total_energy(context) - before)/len(waters.positions) < 0.05


def test_energy_is_kept_by_the_symplectic_kicks(platform):
    """Over 10 ps of a cluster the energy of the plain and the mollified method does not drift."""
    for kick, step in ((ImpulseIntegrator.Plain, 1*FEMTOSECONDS), (ImpulseIntegrator.Mollified, 2*FEMTOSECONDS)):
        waters = Waters(4)
        integrator = ImpulseIntegrator(step)
        integrator.setKick(kick)
        context = waters.context(integrator, platform)
        openmm.LocalEnergyMinimizer.minimize(context, 1)
        context.setVelocitiesToTemperature(100, 1)
        integrator.step(500)
        energies = []
        for _ in range(40):
            integrator.step(round(0.25*unit.picosecond/step))
            energies.append(total_energy(context))
        halves = np.mean(energies[:20]), np.mean(energies[20:])
        assert abs(halves[1] - halves[0]) < 0.5


@pytest.fixture(scope="module")
def villin():
    """The protein of OpenMM's test.pdb, without its water: (topology, positions, force field)."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"test.pdb"))
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.deleteWater()
    return modeller.topology, modeller.positions, app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")


def test_protein_in_vacuum(villin, platform):
    """All bonds and angles of a protein are stiff: one sparse block of 582 atoms; 4 fs hold their temperature."""
    topology, positions, forcefield = villin
    system = forcefield.createSystem(topology, nonbondedMethod=app.NoCutoff, constraints=None)
    integrator = ImpulseLangevinIntegrator(300, 5, 2*FEMTOSECONDS)
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, platform)
    context.setPositions(positions)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(100)
    steps = 200 if platform.getName() == "Reference" else 1000
    temperatures = []
    for _ in range(steps//10):
        integrator.step(10)
        velocities = velocities_of(context)
        masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
        temperatures.append(np.sum(masses[:, None]*velocities**2)/(3*len(masses)*8.31446e-3))
    assert abs(np.mean(temperatures[len(temperatures)//2:]) - 300) < 20


def test_mollified_kicks_need_values_that_agree(villin):
    """In a protein the equilibrium values contradict each other: the error names the molecule and the remedy."""
    topology, positions, forcefield = villin
    system = forcefield.createSystem(topology, nonbondedMethod=app.NoCutoff, constraints=None)
    integrator = ImpulseIntegrator(1*FEMTOSECONDS)
    integrator.setKick(ImpulseIntegrator.Mollified)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(positions)
    with pytest.raises(openmm.OpenMMException, match=r"ImpulseIntegrator.*582 in all.*Projected"):
        integrator.step(1)
