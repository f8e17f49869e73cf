"""The Zhang-Skeel integrators in ordinary OpenMM scripts: what a user combines them with."""

from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import Waters, positions_of, water_box
from openmmstiff import ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator

FEMTOSECONDS = unit.femtoseconds
GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole/unit.kelvin)


def velocities_of(context):
    """The velocities of a Context, as an array [nm/ps]."""
    state = context.getState(velocities=True)
    return state.getVelocities(asNumpy=True).value_in_unit(unit.nanometer/unit.picosecond)


def masses_of(system):
    return np.array([system.getParticleMass(i).value_in_unit(unit.dalton) for i in range(system.getNumParticles())])


def total_energy(context):
    state = context.getState(energy=True)
    return (state.getPotentialEnergy() + state.getKineticEnergy()).value_in_unit(unit.kilojoule_per_mole)


class CountingForce:
    """A force of zero that counts how often the forces are evaluated."""

    def __init__(self, system):
        self.count = 0
        force = openmm.PythonForce(self.compute)
        force.setForceGroup(9)
        system.addForce(force)

    def compute(self, state):
        self.count += 1
        return 0.0, np.zeros((len(state.getPositions()), 3))


def test_one_force_evaluation_in_a_step(waters, platform):
    """... and one more whenever something has changed that the accelerations depend on, and only then."""
    external = openmm.CustomExternalForce("scale*x")
    external.addGlobalParameter("scale", 0.0)
    external.addParticle(0, [])
    waters.system.addForce(external)
    counter = CountingForce(waters.system)
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 1*FEMTOSECONDS)
    context = waters.context(integrator, platform)

    def evaluations(action, steps=5):
        action()
        before = counter.count
        integrator.step(steps)
        return counter.count - before - steps

    assert evaluations(lambda: None) == 1, "the first step"
    assert evaluations(lambda: None) == 0
    assert evaluations(lambda: context.getState(energy=True, forces=True, positions=True)) == 0
    assert evaluations(lambda: context.setVelocitiesToTemperature(300, 2)) == 0
    assert evaluations(integrator.computeSystemTemperature) == 0
    assert evaluations(integrator.getPropagatedPositions) == 0
    assert evaluations(lambda: integrator.setTemperature(310)) == 0
    assert evaluations(lambda: integrator.setStepSize(integrator.getStepSize())) == 0
    assert evaluations(lambda: integrator.setStepSize(0.5*FEMTOSECONDS)) == 1
    assert evaluations(lambda: integrator.setBeta(0.3)) == 1
    assert evaluations(lambda: context.setParameter("scale", 1.0)) == 1
    assert evaluations(lambda: context.setPositions(context.getState(positions=True).getPositions())) == 1
    assert evaluations(lambda: context.setPeriodicBoxVectors((3, 0, 0), (0, 3, 0), (0, 0, 3))) == 1
    assert evaluations(lambda: integrator.setIntegrationForceGroups({0, 9})) == 1
    assert evaluations(lambda: context.loadCheckpoint(context.createCheckpoint())) == 1


def test_a_rejected_barostat_move_costs_no_evaluation(platform):
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
        integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
        context = openmm.Context(system, integrator, platform, {"Threads": "1"} if platform.getName() == "CPU" else {})
        context.setPositions(waters.positions)
        integrator.step(10)
        ends.append(positions_of(context))
    # First evaluation and one a step, and the barostat's own two energies for each attempt.
    assert counter.count == 1 + 10 + 2*10
    assert np.abs(ends[0] - ends[1]).max() < 1e-9


def test_barostat():
    """NPT: the box changes, molecules stay whole, the temperature is right."""
    topology, positions, system = water_box()
    system.addForce(openmm.MonteCarloBarostat(1*unit.bar, 300*unit.kelvin, 5))
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 2*FEMTOSECONDS)
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


def test_centre_of_mass_motion_remover(waters, platform):
    waters.system.addForce(openmm.CMMotionRemover(1))
    integrator = ZhangSkeelLangevinIntegrator(300, 5, 2*FEMTOSECONDS)
    context = waters.context(integrator, platform)
    integrator.step(20)
    velocities, masses = velocities_of(context), masses_of(waters.system)
    assert np.abs(masses @ velocities).max() > 1e-3, "the noise acts after the remover"
    kinetic = context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    degrees = 3*len(masses) - 3
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert temperature == pytest.approx(2*kinetic/(degrees*GAS_CONSTANT), rel=1e-9)
    # Without noise nothing is left of it but rounding (single precision forces on the CPU platform).
    integrator.setFriction(0)
    integrator.step(2)
    assert np.abs(masses @ velocities_of(context)).max() < 1e-2


def test_andersen_thermostat(platform):
    """The deterministic integrator with OpenMM's thermostat samples the temperature."""
    waters = Waters(8)
    well = openmm.CustomExternalForce("100*((x-1.5)^2+(y-1.5)^2+(z-1.5)^2)")
    for i in range(waters.system.getNumParticles()):
        well.addParticle(i, [])
    waters.system.addForce(well)
    thermostat = openmm.AndersenThermostat(300, 20)
    thermostat.setRandomNumberSeed(1)
    waters.system.addForce(thermostat)
    integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
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


def test_reporters(waters, platform, tmp_path):
    """StateDataReporter takes the temperature from computeSystemTemperature(); chunks of steps change nothing."""
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 1*FEMTOSECONDS)
    integrator.setThermalizeStiffModes(False)
    integrator.setRandomNumberSeed(3)
    simulation = waters.simulation(integrator, platform)
    table = tmp_path/"table.csv"
    simulation.reporters.append(app.StateDataReporter(str(table), 7, step=True, temperature=True, totalEnergy=True))
    simulation.reporters.append(app.DCDReporter(str(tmp_path/"trajectory.dcd"), 7, enforcePeriodicBox=False))
    simulation.step(21)
    reported = np.loadtxt(table, delimiter=",")
    assert list(reported[:, 0]) == [7, 14, 21]
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert reported[-1, 2] == pytest.approx(temperature, rel=1e-6)
    # Six degrees of freedom for each water that is held by springs: half as many as 3 per atom would be 2/3.
    kinetic = simulation.context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    degrees = 6*len(waters.positions)//3 - 3*any(isinstance(f, openmm.CMMotionRemover)
                                                 for f in waters.system.getForces())
    assert temperature == pytest.approx(2*kinetic/(degrees*GAS_CONSTANT), rel=1e-9)


def test_saved_states_and_checkpoints_resume_exactly(waters, tmp_path):
    """Simulation.saveState() and saveCheckpoint() carry the hidden state; without it the run would differ."""
    platform = openmm.Platform.getPlatform("Reference")
    integrator = ZhangSkeelIntegrator(2*FEMTOSECONDS)
    simulation = waters.simulation(integrator, platform)
    simulation.step(20)
    simulation.saveState(str(tmp_path/"state.xml"))
    simulation.saveCheckpoint(str(tmp_path/"checkpoint"))
    plain = simulation.context.getState(positions=True, velocities=True)
    simulation.step(20)
    expected = positions_of(simulation.context)
    for load in ("loadState", "loadCheckpoint"):
        resumed = app.Simulation(waters.topology, waters.system, ZhangSkeelIntegrator(2*FEMTOSECONDS), platform)
        getattr(resumed, load)(str(tmp_path/("state.xml" if load == "loadState" else "checkpoint")))
        resumed.step(20)
        assert (positions_of(resumed.context) == expected).all()
    resumed.context.setState(plain)
    resumed.step(20)
    assert np.abs(positions_of(resumed.context) - expected).max() > 1e-6


def test_minimization_first(waters, platform):
    """Minimization sets new positions: the offset is 0, and the energy starts from the minimum."""
    integrator = ZhangSkeelIntegrator(1*FEMTOSECONDS)
    simulation = waters.simulation(integrator, platform)
    simulation.step(10)
    simulation.minimizeEnergy()
    propagated = integrator.getPropagatedPositions(asNumpy=True).value_in_unit(unit.nanometer)
    assert (propagated == positions_of(simulation.context)).all()
    minimum = simulation.context.getState(energy=True).getPotentialEnergy()
    simulation.context.setVelocities(np.zeros_like(propagated))
    simulation.step(100)
    assert abs(total_energy(simulation.context) - minimum.value_in_unit(unit.kilojoule_per_mole)) < 1


def test_thread_counts_agree():
    """Blocks are solved alike on one thread and on two: bit for bit, with forces that are."""
    topology, positions, system = water_box()
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), (openmm.NonbondedForce, openmm.CMMotionRemover)):
            system.removeForce(i)
    ends = []
    for threads in ("1", "2"):
        integrator = ZhangSkeelIntegrator(3*FEMTOSECONDS)
        context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"), {"Threads": threads})
        context.setPositions(positions)
        context.setVelocitiesToTemperature(300, 1)
        integrator.step(50)
        ends.append(positions_of(context))
    assert (ends[0] == ends[1]).all()


def test_seeds_repeat_on_two_threads():
    """The noise depends on the seed and the number of threads, not on their timing."""
    _, positions, system = water_box()
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), openmm.NonbondedForce):
            system.removeForce(i)
    ends = []
    for seed in (5, 5, 6):
        integrator = ZhangSkeelLangevinIntegrator(300, 5, 3*FEMTOSECONDS)
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


def test_flexible_four_site_water():
    """TIP4P-Ew with its virtual sites and PME: energy is kept, the sites are where they belong."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"tip4pew.pdb"))
    system = app.ForceField("tip4pew.xml").createSystem(pdb.topology, nonbondedMethod=app.PME,
                                                        nonbondedCutoff=0.8*unit.nanometer, rigidWater=False)
    change, context = run_nve(system, pdb.positions, ZhangSkeelIntegrator(1*FEMTOSECONDS), 50)
    assert abs(change) < 0.02
    before = positions_of(context)
    context.computeVirtualSites()
    assert np.abs(positions_of(context) - before).max() < 1e-6


def test_triclinic_box():
    """A rhombic dodecahedron: the same System as in a cube, but for the box."""
    modeller = app.Modeller(app.Topology(), []*unit.nanometer)
    forcefield = app.ForceField("tip3p.xml")
    modeller.addSolvent(forcefield, numAdded=400, boxShape="dodecahedron")
    system = forcefield.createSystem(modeller.topology, nonbondedMethod=app.PME,
                                     nonbondedCutoff=0.7*unit.nanometer, rigidWater=False)
    change, context = run_nve(system, modeller.positions, ZhangSkeelIntegrator(1*FEMTOSECONDS), 50)
    assert abs(change) < 0.02


@pytest.fixture(scope="module")
def villin():
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"test.pdb"))
    return pdb, app.ForceField("amber14-all.xml", "amber14/tip3pfb.xml")


def test_flexible_protein_in_rigid_water(villin):
    """A protein is one large sparse block; the waters around it keep their constraints."""
    pdb, forcefield = villin
    system = forcefield.createSystem(pdb.topology, nonbondedMethod=app.PME, nonbondedCutoff=0.8*unit.nanometer,
                                     constraints=None, rigidWater=True)
    assert system.getNumConstraints() > 0
    change, context = run_nve(system, pdb.positions, ZhangSkeelIntegrator(1*FEMTOSECONDS), 30)
    assert abs(change) < 0.02
    positions = positions_of(context)
    for i in range(0, system.getNumConstraints(), 97):
        first, second, length = system.getConstraintParameters(i)
        found = np.linalg.norm(positions[first] - positions[second])
        assert found == pytest.approx(length.value_in_unit(unit.nanometer), rel=1e-5)


def test_constrained_protein_is_an_error_that_says_what_to_do(villin):
    pdb, forcefield = villin
    system = forcefield.createSystem(pdb.topology, nonbondedMethod=app.PME, constraints=app.HBonds)
    with pytest.raises(openmm.OpenMMException, match="ZhangSkeelIntegrator.*constraint.*rigidWater=False"):
        openmm.Context(system, ZhangSkeelIntegrator(1*FEMTOSECONDS), openmm.Platform.getPlatform("CPU"))


def test_script_for_rigid_water_runs_unchanged():
    """Nothing is stiff in a System of rigid waters: they are integrated with their constraints."""
    topology, positions, system = water_box(rigid=True)
    change, context = run_nve(system, positions, ZhangSkeelIntegrator(1*FEMTOSECONDS), 30)
    assert abs(change) < 0.02


def test_flexible_constraints_are_not_counted_twice():
    """Bonds and angles beside constraints that hold all their distances have nothing left to do."""
    pdb = app.PDBFile(str(Path(app.__file__).parent/"data"/"tip3p.pdb"))
    system = app.ForceField("tip3p.xml").createSystem(
        pdb.topology, nonbondedMethod=app.PME, rigidWater=True, flexibleConstraints=True)
    assert any(isinstance(force, openmm.HarmonicBondForce) and force.getNumBonds() > 0 for force in system.getForces())
    integrator = ZhangSkeelLangevinIntegrator(300, 1, 2*FEMTOSECONDS)
    integrator.setThermalizeStiffModes(False)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform("CPU"))
    context.setPositions(pdb.positions)
    context.setVelocitiesToTemperature(300, 1)
    # Six degrees of freedom a water, less the centre of mass: no stiff coordinate is subtracted beside the constraints.
    kinetic = context.getState(energy=True).getKineticEnergy().value_in_unit(unit.kilojoule_per_mole)
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    assert temperature == pytest.approx(2*kinetic/((6*895 - 3)*GAS_CONSTANT), rel=1e-9)
    integrator.step(10)


def test_a_step_too_large_is_an_error_and_loses_nothing(platform):
    """The error names class, atoms, step size and remedy, and the Context keeps the last good step's state."""
    waters = Waters(8)
    for i, force in enumerate(waters.system.getForces()):
        if isinstance(force, openmm.CMMotionRemover):
            waters.system.removeForce(i)  # it changes velocities before the step
            break
    integrator = ZhangSkeelLangevinIntegrator(300, 0, 1*FEMTOSECONDS)
    context = waters.context(integrator, platform)
    integrator.step(10)
    integrator.setStepSize(30*FEMTOSECONDS)
    with pytest.raises(openmm.OpenMMException) as failure:
        for _ in range(1000):
            positions, velocities, steps = positions_of(context), velocities_of(context), context.getStepCount()
            integrator.step(1)
    message = str(failure.value)
    for words in ("ZhangSkeelLangevinIntegrator", "particles", "0.03 ps", "smaller step size"):
        assert words in message
    assert (positions_of(context) == positions).all()
    assert (velocities_of(context) == velocities).all()
    assert context.getStepCount() == steps
