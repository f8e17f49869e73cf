"""Fixtures and small Systems that the Python tests share. Units are OpenMM's: nm, ps, K, kJ/mol."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import openmm
import openmmstiff
import pytest
from hypothesis import HealthCheck, settings
from openmm import app, unit
from openmmstiff import HMMIntegrator, StiffIntegrator

from systems import external

FORCE_FIELD = app.ForceField("tip3p.xml")
PLATFORMS = ["Reference", "CPU"]
REFERENCE = openmm.Platform.getPlatform("Reference")
# These files take most of the time: devices, misuse, examples, handbook and types, and other people's packages.
THOROUGH = {"test_amoeba", "test_bad_values", "test_devices", "test_docs", "test_does_it_work", "test_examples",
            "test_kernels", "test_minimal", "test_odd_systems", "test_openmmtools", "test_tour", "test_types",
            "test_validation", "test_workflows"}
# The classes of C++, and the integrators among them.
CLASSES = [getattr(openmmstiff, name) for name in openmmstiff.__all__
           if isinstance(getattr(openmmstiff._wrapped, name, None), type)]
INTEGRATORS = [cls for cls in CLASSES if issubclass(cls, StiffIntegrator) and cls is not StiffIntegrator]
FEMTOSECONDS = unit.femtoseconds
EXAMPLES = 30       # of what is random, for each test
settings.register_profile("brief", derandomize=True, deadline=None, max_examples=EXAMPLES,
                          suppress_health_check=list(HealthCheck))
settings.register_profile("long", settings.get_profile("brief"), derandomize=False, max_examples=50*EXAMPLES)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))
GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole/unit.kelvin)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem in THOROUGH:
            item.add_marker("thorough")


def quick(some, values):
    """Parameters of a test that is thorough for all values but some."""
    return [value if value in some else pytest.param(value, marks=pytest.mark.thorough) for value in values]


@pytest.fixture(params=PLATFORMS)
def platform(request):
    """Each platform that the plugin has kernels for."""
    return openmm.Platform.getPlatform(request.param)


@pytest.fixture
def one_thread():
    """On the CPU platform a Context has one thread: there are many, and sums over more differ in their last digits."""
    cpu = openmm.Platform.getPlatform("CPU")
    before = cpu.getPropertyDefaultValue("Threads")
    cpu.setPropertyDefaultValue("Threads", "1")
    yield
    cpu.setPropertyDefaultValue("Threads", before)


def read_pdb(name="tip3p"):
    """A file of OpenMM's: the box of 895 TIP3P waters, 3 nm wide, or another."""
    return app.PDBFile(str(Path(app.__file__).parent/"data"/f"{name}.pdb"))


@functools.cache
def water_cluster(molecules):
    """The (topology, positions) of the molecules nearest the centre of the box, without the box."""
    pdb = read_pdb()
    positions = np.array(pdb.positions.value_in_unit(unit.nanometer)).reshape(-1, 3, 3)
    distances = np.linalg.norm(positions[:, 0] - positions.mean(axis=(0, 1)), axis=1)
    kept = set(np.argsort(distances)[:molecules].tolist())
    modeller = app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([residue for residue in pdb.topology.residues() if residue.index not in kept])
    modeller.topology.setPeriodicBoxVectors(None)
    return modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer))


def fenced(text, *languages):
    """(language, text) of the fenced blocks of Markdown, all or those in some languages."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(language, block) for language, block in found if not languages or language in languages]


class Waters:
    """A few TIP3P waters in vacuum, without a cutoff; flexible unless they are to be rigid."""

    def __init__(self, molecules=4, rigid=False):
        self.topology, self.positions = water_cluster(molecules)
        self.system = FORCE_FIELD.createSystem(self.topology, nonbondedMethod=app.NoCutoff, rigidWater=rigid)

    def context(self, integrator, platform):
        """A Context at 300 K. An HMMIntegrator gets a force that depends on a phase, which it is for."""
        if isinstance(integrator, HMMIntegrator):
            self.system.addForce(external("50*cos(theta)*x", 0, theta=np.pi/2))
        context = openmm.Context(self.system, integrator, platform)
        context.setPositions(self.positions)
        context.setVelocitiesToTemperature(300, 1)
        return context

    def simulation(self, integrator, platform):
        simulation = app.Simulation(self.topology, self.system, integrator, platform)
        simulation.context.setPositions(self.positions)
        simulation.context.setVelocitiesToTemperature(300, 1)
        return simulation


@pytest.fixture
def waters():
    return Waters()


def water_box(rigid=False, cutoff=0.9, nonbondedMethod=app.PME):
    """The (topology, positions, System) of OpenMM's box of 895 TIP3P waters, 3 nm wide."""
    pdb = read_pdb()
    system = FORCE_FIELD.createSystem(pdb.topology, nonbondedMethod=nonbondedMethod,
                                      nonbondedCutoff=cutoff*unit.nanometer, rigidWater=rigid)
    return pdb.topology, pdb.positions, system


def remove_forces(system, *classes):
    """Remove all forces of some classes."""
    for i in reversed(range(system.getNumForces())):
        if isinstance(system.getForce(i), classes):
            system.removeForce(i)


def positions_of(context):
    """The positions of a Context, as an array [nm]."""
    return context.getState(positions=True).getPositions(asNumpy=True)._value


def velocities_of(context):
    """The velocities of a Context, as an array [nm/ps]."""
    return context.getState(velocities=True).getVelocities(asNumpy=True)._value


def energies_of(context, **parts):
    """Potential and kinetic energy [kJ/mol]."""
    state = context.getState(energy=True, **parts)
    return state.getPotentialEnergy()._value, state.getKineticEnergy()._value


def total_energy(context):
    return sum(energies_of(context))


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

    def count_beyond_one_a_step(self, integrator, action, steps=5):
        """How many more evaluations than steps there are after an action."""
        action()
        before = self.count
        integrator.step(steps)
        return self.count - before - steps


def add_force_with_parameter(system):
    """A force on particle 0 along x, of the size of the global parameter `scale`, which is 0."""
    system.addForce(external("scale*x", 0, scale=0))


def has_heat_bath(cls):
    return hasattr(cls, "setFriction")


def create(cls, stepSize=0.002, friction=1, seed=0):
    """An integrator of a class: with a heat bath at 300 K, if it has one, for vibrations few micro-steps."""
    if has_heat_bath(cls):
        integrator = cls(300, friction, stepSize)
        integrator.setRandomNumberSeed(seed)
        return integrator
    if not issubclass(cls, HMMIntegrator):
        return cls(stepSize)
    integrator = cls(stepSize, 1e5)
    integrator.setFilter(HMMIntegrator.Simple)
    integrator.setNumMicroStepsPerPeriod(8)
    return integrator


def run_script(*arguments, folder=None):
    """The completed process of a program of Python on one thread, which must succeed."""
    run = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=600,
                         env={**os.environ, "MPLBACKEND": "Agg", "OPENMM_CPU_THREADS": "1", "OMP_NUM_THREADS": "1"})
    assert run.returncode == 0, run.stderr
    return run


def run_python(code, **environment):
    """Run code in a fresh interpreter, which has imported nothing yet; returns the completed process."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
