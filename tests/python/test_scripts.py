"""The integrators in ordinary OpenMM scripts: what a user combines them with."""

from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import (FEMTOSECONDS, GAS_CONSTANT, INTEGRATORS, CountingForce, Waters, has_heat_bath, positions_of,
                      total_energy, water_box)
from openmmstiff import ImpulseIntegrator, MassPenaltyIntegrator, SpookIntegrator, ZhangSkeelIntegrator


def plain_impulse(stepSize):
    """An ImpulseIntegrator that conserves energy at small steps: the projected kick leaves out the work along bonds."""
    integrator = ImpulseIntegrator(stepSize)
    integrator.setKick(ImpulseIntegrator.Plain)
    return integrator


def slow_mass_penalty(stepSize):
    """A MassPenaltyIntegrator whose error in the energy, of the order (step/period)^2, is small."""
    integrator = MassPenaltyIntegrator(stepSize)
    integrator.setPenalizedPeriod(32*integrator.getStepSize())
    return integrator


def spook(stepSize):
    """A SpookIntegrator, which without constraints is Verlet's method: with shorter steps it conserves the energy."""
    integrator = SpookIntegrator(stepSize)
    integrator.setStepSize(0.4*integrator.getStepSize())
    return integrator


NVE = {"ZhangSkeelIntegrator": ZhangSkeelIntegrator, "ImpulseIntegrator": plain_impulse,
       "MassPenaltyIntegrator": slow_mass_penalty, "SpookIntegrator": spook}


@pytest.fixture(params=NVE)
def nve(request):
    """Makes each integrator at constant energy."""
    return NVE[request.param]


@pytest.fixture(params=[cls for cls in INTEGRATORS if has_heat_bath(cls)],
                ids=lambda cls: cls.__name__)
def langevin(request):
    """Each integrator with a heat bath."""
    return request.param


def test_a_rejected_barostat_move_costs_no_evaluation(nve, platform):
    """A barostat whose moves are all rejected leaves other forces in the Context, which must not be used."""
    waters = Waters(4)
    waters.system.setDefaultPeriodicBoxVectors((1.5, 0, 0), (0, 1.5, 0), (0, 0, 1.5))
    for force in waters.system.getForces():
        if isinstance(force, openmm.NonbondedForce):
            force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
            force.setCutoffDistance(0.7)
    plain = openmm.XmlSerializer.clone(waters.system)
    # An energy that depends on the volume so steeply that every move is refused.
    volume = openmm.CustomVolumeForce("1e12*(v-v0)^2")
    volume.addGlobalParameter("v0", 1.5**3)
    waters.system.addForce(volume)
    waters.system.addForce(openmm.MonteCarloBarostat(1, 300, 1))
    counter = CountingForce(waters.system)
    ends = []
    for system in (waters.system, plain):
        integrator = nve(1*FEMTOSECONDS)
        context = openmm.Context(system, integrator, platform, {"Threads": "1"} if platform.getName() == "CPU" else {})
        context.setPositions(waters.positions)
        integrator.step(10)
        ends.append(positions_of(context))
    # One evaluation a step, at its end (and so a first one) or at its beginning; two by the barostat for each attempt.
    assert counter.count == (10 if nve is spook else 1 + 10) + 2*10
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_barostat(langevin):
    """NPT: the box changes, molecules stay whole, the temperature is right."""
    topology, positions, system = water_box()
    system.addForce(openmm.MonteCarloBarostat(1*unit.bar, 300*unit.kelvin, 5))
    integrator = langevin(300, 1, 2*FEMTOSECONDS)
    simulation = app.Simulation(topology, system, integrator, openmm.Platform.getPlatform("CPU"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=20)
    simulation.context.setVelocitiesToTemperature(300, 1)
    volumes = set()
    for _ in range(10):
        simulation.step(10)
        state = simulation.context.getState(positions=True)
        volumes.add(state.getPeriodicBoxVolume().value_in_unit(unit.nanometer**3))
        molecules = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer).reshape(-1, 3, 3)
        bonds = np.linalg.norm(molecules[:, 1:] - molecules[:, :1], axis=2)
        assert 0.085 < bonds.min() and bonds.max() < 0.11
    assert len(volumes) > 3


def test_andersen_thermostat(nve, platform):
    """The deterministic integrator with OpenMM's thermostat samples the temperature."""
    waters = Waters(8)
    well = openmm.CustomExternalForce("100*((x-1.5)^2+(y-1.5)^2+(z-1.5)^2)")
    for i in range(waters.system.getNumParticles()):
        well.addParticle(i, [])
    waters.system.addForce(well)
    thermostat = openmm.AndersenThermostat(300, 20)
    thermostat.setRandomNumberSeed(1)
    waters.system.addForce(thermostat)
    integrator = nve(1*FEMTOSECONDS)
    integrator.setStepSize(1*FEMTOSECONDS)
    properties = {"Threads": "1"} if platform.getName() == "CPU" else {}
    context = openmm.Context(waters.system, integrator, platform, properties)
    context.setPositions(waters.positions)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(1000)
    temperatures = []
    for _ in range(1500):
        integrator.step(5)
        kinetic = context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
        degrees = 3*waters.system.getNumParticles() - 3  # createSystem() adds a CMMotionRemover
        temperatures.append(2*kinetic/(degrees*GAS_CONSTANT))
    blocks = np.array(temperatures).reshape(15, -1).mean(axis=1)
    error = blocks.std(ddof=1)/len(blocks)**0.5
    assert error < 6
    assert abs(blocks.mean() - 300) < 4*error


def test_thread_counts_agree(nve):
    """Blocks are solved alike on one thread and on two: bit for bit, with forces that are."""
    topology, positions, system = water_box()
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), (openmm.NonbondedForce, openmm.CMMotionRemover)):
            system.removeForce(i)
    ends = []
    for threads in ("1", "2"):
        integrator = nve(3*FEMTOSECONDS)
        context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"), {"Threads": threads})
        context.setPositions(positions)
        context.setVelocitiesToTemperature(300, 1)
        integrator.step(50)
        ends.append(positions_of(context))
    assert (ends[0] == ends[1]).all()


def test_seeds_repeat_on_two_threads(langevin):
    """The noise depends on the seed and the number of threads, not on their timing."""
    _, positions, system = water_box()
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), openmm.NonbondedForce):
            system.removeForce(i)
    ends = []
    for seed in (5, 5, 6):
        integrator = langevin(300, 5, 3*FEMTOSECONDS)
        integrator.setRandomNumberSeed(seed)
        context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"), {"Threads": "2"})
        context.setPositions(positions)
        integrator.step(20)
        ends.append(positions_of(context))
    assert (ends[0] == ends[1]).all()
    assert not (ends[0] == ends[2]).all()


def run_nve(system, positions, integrator, steps, velocities=None):
    """The change of the total energy per atom over a run at about 300 K [kJ/mol]."""
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(positions)
    context.computeVirtualSites()
    openmm.LocalEnergyMinimizer.minimize(context, 100, 30)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(1)
    before = total_energy(context)
    integrator.step(steps)
    return (total_energy(context) - before)/system.getNumParticles(), context


def test_flexible_four_site_water(nve):
    """TIP4P-Ew with its virtual sites and PME: energy is kept, the sites are where they belong."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"tip4pew.pdb"))
    system = app.ForceField("tip4pew.xml").createSystem(pdb.topology, nonbondedMethod=app.PME,
                                                        nonbondedCutoff=0.8*unit.nanometer, rigidWater=False)
    change, context = run_nve(system, pdb.positions, nve(1*FEMTOSECONDS), 50)
    assert abs(change) < 0.02
    before = positions_of(context)
    context.computeVirtualSites()
    assert np.abs(positions_of(context) - before).max() < 1e-6


def test_triclinic_box(nve):
    """A rhombic dodecahedron: the same System as in a cube, but for the box."""
    modeller = app.Modeller(app.Topology(), []*unit.nanometer)
    forcefield = app.ForceField("tip3p.xml")
    modeller.addSolvent(forcefield, numAdded=400, boxShape="dodecahedron")
    system = forcefield.createSystem(modeller.topology, nonbondedMethod=app.PME,
                                     nonbondedCutoff=0.7*unit.nanometer, rigidWater=False)
    change, context = run_nve(system, modeller.positions, nve(1*FEMTOSECONDS), 50)
    assert abs(change) < 0.02


@pytest.fixture(scope="module")
def villin():
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"test.pdb"))
    return pdb, app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")


def test_flexible_protein_in_rigid_water(nve, villin):
    """A protein is one large sparse block; the waters around it keep their constraints."""
    pdb, forcefield = villin
    system = forcefield.createSystem(pdb.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.8*unit.nanometer,
                                     constraints=None, rigidWater=True)
    assert system.getNumConstraints() > 0
    change, context = run_nve(system, pdb.positions, nve(1*FEMTOSECONDS), 30)
    assert abs(change) < 0.02
    positions = positions_of(context)
    for i in range(0, system.getNumConstraints(), 97):
        first, second, length = system.getConstraintParameters(i)
        found = np.linalg.norm(positions[first] - positions[second])
        tolerance = 1e-3 if nve is spook else 1e-5      # motion stretches constraints
        assert found == pytest.approx(length.value_in_unit(unit.nanometer), rel=tolerance)


@pytest.mark.parametrize("cls", [ZhangSkeelIntegrator, ImpulseIntegrator])
def test_constrained_protein_is_an_error_that_says_what_to_do(cls, villin):
    pdb, forcefield = villin
    system = forcefield.createSystem(pdb.topology, nonbondedMethod=app.PME, constraints=app.HBonds)
    with pytest.raises(openmm.OpenMMException, match=f"{cls.__name__}.*constraint.*rigidWater=False"):
        openmm.Context(system, cls(1*FEMTOSECONDS), openmm.Platform.getPlatform("CPU"))


def test_script_for_rigid_water_runs_unchanged(nve):
    """Nothing is stiff in a System of rigid waters: they are integrated with their constraints."""
    topology, positions, system = water_box(rigid=True)
    change, context = run_nve(system, positions, nve(1*FEMTOSECONDS), 30)
    assert abs(change) < 0.02
