"""The impulse integrators in ordinary OpenMM scripts: what is theirs alone."""

import numpy as np
import openmm
import pytest
from openmm import app

import trials
from conftest import (FEMTOSECONDS, CountingForce, Waters, energies_of, positions_of, read_pdb, total_energy,
                      velocities_of)
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
    assert counter.count_beyond_one_a_step(integrator, lambda: None, 7) == 0
    assert context.getStepCount() == 7


def test_changed_masses_choose_the_micro_steps_anew(waters, platform, kick):
    """Light hydrogens and a preserved state: as in a new Context."""
    def set_masses(mass):
        for i in range(1, waters.system.getNumParticles(), 3):
            waters.system.setParticleMass(i, mass)

    integrator, fresh = ImpulseIntegrator(2*FEMTOSECONDS), ImpulseIntegrator(2*FEMTOSECONDS)
    integrator.setKick(kick)
    fresh.setKick(kick)
    set_masses(16.0)
    context = waters.context(integrator, platform)
    integrator.step(1)
    heavy = integrator.computeNumMicroSteps()
    set_masses(1.008)
    context.reinitialize(True)
    other = waters.context(fresh, platform)
    other.setPositions(positions_of(context))
    other.setVelocities(velocities_of(context))
    assert integrator.computeNumMicroSteps() == fresh.computeNumMicroSteps() > heavy
    integrator.step(1)
    fresh.step(1)
    assert np.abs(velocities_of(context) - velocities_of(other)).max() < 1e-6


def put_into_groups(system, kind, group):
    """Forces of a kind in a group, and the others in group 0."""
    for force in system.getForces():
        force.setForceGroup(group if isinstance(force, kind) else 0)


def test_slow_is_all_that_is_not_stiff_whatever_the_force_groups(platform, one_thread):
    """Bonds and angles in a group with other forces are not counted twice."""
    ends = []
    for group in (0, 3):
        waters = Waters(4)
        put_into_groups(waters.system, openmm.NonbondedForce, group)
        integrator = ImpulseIntegrator(2*FEMTOSECONDS)
        context = waters.context(integrator, platform)
        integrator.step(20)
        ends.append(positions_of(context))
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_fewer_stiff_forces(waters, platform):
    """With the bonds alone in the stiff group, the angles are slow: no micro-steps, but kicks."""
    put_into_groups(waters.system, openmm.HarmonicBondForce, 1)
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
    from common.observables import without_vibrations
    from common.water_sampling import SHAPE
    put_into_groups(waters.system, openmm.NonbondedForce, 1)
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
        slow, slow_at_rest = (energies_of(each, groups={1})[0] for each in (context, at_rest))
        energies.append(total_energy(context))
        modified.append(energies[-1] - slow + slow_at_rest)
    assert np.std(energies) > 1
    assert np.std(modified) < 0.1


@pytest.fixture(scope="module")
def villin():
    """The protein of OpenMM's test.pdb, without its water: (System, positions)."""
    pdb = read_pdb("test")
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([residue for residue in pdb.topology.residues() if residue.name in ("HOH", "CL", "Cl")])
    system = app.ForceField("amber14-all.xml").createSystem(modeller.topology, nonbondedMethod=app.NoCutoff,
                                                            constraints=None)
    return system, modeller.positions


def start(villin, integrator):
    """A Context on the CPU platform, at 300 K near a minimum."""
    context = trials.bind(villin[0], integrator, "CPU", villin[1])
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    return context


def mean_temperature(context, samples):
    """Of a run, one sample every 10 steps, after some time to settle [K]."""
    context.getIntegrator().step(samples*10//4)
    temperatures = []
    for _ in range(samples):
        context.getIntegrator().step(10)
        temperatures.append(trials.temperature(context))
    return np.mean(temperatures)


def test_flexible_protein_at_4_fs(villin):
    """All bonds and angles of a protein are stiff, in one sparse block; its temperature is that of the heat bath."""
    integrator = trials.seeded(ImpulseLangevinIntegrator(300, 10, 4*FEMTOSECONDS))
    # 1700 degrees of freedom fluctuate by 10 K, over some ten correlation times.
    assert abs(mean_temperature(start(villin, integrator), 100) - 300) < 12


def test_projecting_what_has_no_gap_heats(villin):
    """The negative control: with every bond and angle projected, the kicks heat the protein, up to an error."""
    integrator = trials.seeded(ImpulseLangevinIntegrator(300, 1, 1*FEMTOSECONDS))
    integrator.setProjectedPeriod(float("inf"))
    context = start(villin, integrator)
    with pytest.raises(openmm.OpenMMException, match="ImpulseLangevinIntegrator: the velocity.*smaller step size"):
        mean_temperature(context, 200)      # after 353 and 471 steps on one and two threads
    assert trials.temperature(context) > 500
