"""What reporters write of a run with these integrators, other programs read: positions, times and boxes."""

import importlib.util
import io

import numpy as np
import openmm
import pytest
from openmm import app, unit

from conftest import (FORCE_FIELD, INTEGRATORS, REFERENCE, create, has_heat_bath, positions_of, velocities_of,
                      water_cluster)
from openmmstiff import (HMMIntegrator, ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, SpookIntegrator,
                         ZhangSkeelLangevinIntegrator)
from systems import add_phase

mdtraj = pytest.importorskip("mdtraj")

INTERVAL, FRAMES, STEP = 4, 5, 0.002
EDGE = 2.0  # nm
SAMPLED = [MassPenaltyLangevinIntegrator, ZhangSkeelLangevinIntegrator, ImpulseLangevinIntegrator, SpookIntegrator]


def simulate(cls, barostat=False):
    """A Simulation of 8 waters in a box, whose edges a barostat changes: flexible, or rigid for SPOOK."""
    topology, positions = water_cluster(8)
    topology.setPeriodicBoxVectors(EDGE*np.eye(3)*unit.nanometer)
    system = FORCE_FIELD.createSystem(topology, nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=0.9*unit.nanometer,
                                      rigidWater=cls is SpookIntegrator)
    topology.setPeriodicBoxVectors(None)    # shared with other tests
    if barostat:
        system.addForce(openmm.MonteCarloBarostat(100, 300, 3))
    if not has_heat_bath(cls):
        system.addForce(openmm.AndersenThermostat(300, 1))
    if cls is HMMIntegrator:
        add_phase(system, "0*cos(theta)*x")
    integrator = create(cls, STEP)
    integrator.setConstraintTolerance(1e-6)
    simulation = app.Simulation(topology, system, integrator, REFERENCE)
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=50)
    simulation.context.setVelocitiesToTemperature(300, 1)
    return simulation


class Frames:
    """A reporter that keeps what the others are to write: positions [nm], box edges [nm], times [ps]."""

    def __init__(self):
        self.positions, self.edges, self.times = [], [], []

    def describeNextReport(self, simulation):
        return {"steps": INTERVAL - simulation.currentStep % INTERVAL, "periodic": False, "include": ["positions"]}

    def report(self, simulation, state):
        self.positions.append(state.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
        self.edges.append(np.diag(state.getPeriodicBoxVectors(asNumpy=True).value_in_unit(unit.nanometer)))
        self.times.append(state.getTime().value_in_unit(unit.picosecond))


# Each trajectory's reporter, the error of its positions [nm] (half of the last digit that is written, or single
# precision of Angstroms), and whether it knows the box of each frame.
FORMATS = {
    "dcd": (lambda path: app.DCDReporter(path, INTERVAL, enforcePeriodicBox=False), 3e-7, True),
    "xtc": (lambda path: app.XTCReporter(path, INTERVAL, enforcePeriodicBox=False), 5.1e-4, True),
    "pdb": (lambda path: app.PDBReporter(path, INTERVAL, enforcePeriodicBox=False), 5.1e-5, False),
    "cif": (lambda path: app.PDBxReporter(path, INTERVAL, enforcePeriodicBox=False), 5.1e-6, False),
    "nc": (lambda path: mdtraj.reporters.NetCDFReporter(path, INTERVAL), 3e-7, True),
    "h5": (lambda path: mdtraj.reporters.HDF5Reporter(path, INTERVAL, velocities=True), 3e-7, True),
}


@pytest.fixture(scope="module", params=SAMPLED)
def run(request, tmp_path_factory):
    """A folder with all trajectories of a run, and its Frames."""
    folder = tmp_path_factory.mktemp("trajectories")
    simulation, frames = simulate(request.param, barostat=True), Frames()
    simulation.topology.setPeriodicBoxVectors(EDGE*np.eye(3)*unit.nanometer)
    app.PDBFile.writeFile(simulation.topology, positions_of(simulation.context)*unit.nanometer,
                          str(folder/"topology.pdb"))
    reporters = [make(str(folder/f"run.{suffix}")) for suffix, (make, _, _) in FORMATS.items()
                 if suffix != "h5" or importlib.util.find_spec("tables")]
    simulation.reporters.extend([*reporters, frames])
    simulation.step(INTERVAL*FRAMES)
    simulation.topology.setPeriodicBoxVectors(None)
    simulation.reporters.clear()
    for reporter in reporters:
        if hasattr(reporter, "close"):
            reporter.close()
    reporters.clear()
    assert len(np.unique(np.round(frames.edges, 6))) > 1, "the barostat has changed the box"
    return folder, frames


@pytest.mark.parametrize("suffix", FORMATS)
def test_mdtraj_reads_what_was_written(run, suffix):
    folder, frames = run
    path = folder/f"run.{suffix}"
    if not path.exists():
        pytest.skip("no PyTables")
    topology = {} if suffix in ("pdb", "cif", "h5") else {"top": str(folder/"topology.pdb")}
    trajectory = mdtraj.load(str(path), **topology)
    _, error, boxes = FORMATS[suffix]
    assert trajectory.xyz.shape == (FRAMES, 24, 3)
    assert np.abs(trajectory.xyz - frames.positions).max() < error
    if boxes:
        assert np.abs(trajectory.unitcell_lengths - frames.edges).max() < max(error, 1e-6)
    if suffix in ("xtc", "nc", "h5"):
        assert np.asarray(trajectory.time) == pytest.approx(np.array(frames.times), rel=1e-5)
    # The geometry is that of water: nothing was shuffled or scaled.
    lengths = mdtraj.compute_distances(trajectory, [(3*i, 3*i + 1) for i in range(8)], periodic=False)
    assert np.abs(lengths - 0.096).max() < 0.02


@pytest.mark.parametrize("suffix", ["dcd", "xtc", "pdb", "nc"])
def test_mdanalysis_reads_what_was_written(run, suffix):
    """In Angstroms; the times of DCD files too."""
    analysis = pytest.importorskip("MDAnalysis")
    folder, frames = run
    universe = analysis.Universe(str(folder/"topology.pdb"), str(folder/f"run.{suffix}"))
    _, error, boxes = FORMATS[suffix]
    assert len(universe.trajectory) == FRAMES
    for found, expected, edges, time in zip(universe.trajectory, frames.positions, frames.edges, frames.times):
        assert np.abs(found.positions/10 - expected).max() < error
        if boxes:
            assert np.abs(found.dimensions[:3]/10 - edges).max() < max(error, 1e-6)
        if suffix in ("xtc", "nc"):
            assert found.time == pytest.approx(time, rel=1e-5)
    if suffix == "dcd":
        assert universe.trajectory.dt == pytest.approx(INTERVAL*STEP, rel=1e-5)


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_the_reported_temperature_is_that_at_which_velocities_are_drawn(cls):
    """On average, without the motion of the centre of mass, which is removed: one degree of freedom would be seen."""
    simulation, table, draws = simulate(cls), io.StringIO(), 2000
    reporter = app.StateDataReporter(table, 1, temperature=True)
    masses = np.array([simulation.system.getParticleMass(i)._value for i in range(24)])
    for seed in range(1, draws + 1):
        simulation.context.setVelocitiesToTemperature(300, seed)
        velocities = velocities_of(simulation.context)
        simulation.context.setVelocities(velocities - masses @ velocities/masses.sum())
        reporter.report(simulation, simulation.context.getState(energy=True))
    found = np.array(table.getvalue().splitlines()[1:], dtype=float)
    error, degrees = found.std()/draws**0.5, 72 - 3 - simulation.system.getNumConstraints()
    assert len(found) == draws and abs(found.mean() - 300) < 3.5*error < 300/degrees
