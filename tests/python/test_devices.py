"""The integrators on OpenMM's OpenCL platform, in processes of their own: OpenCL is found with what `make test` has
found, the lines NAME=value in OPENMM_STIFF_OPENCL_ENVIRONMENT."""

import os
import subprocess
import sys

import pytest

ENVIRONMENT = os.environ.get("OPENMM_STIFF_OPENCL_ENVIRONMENT")
WATER = """
import numpy as np
import openmm as mm
from openmm import app, unit
import openmmstiff
from openmmstiff import *
pdb = app.PDBFile(app.__path__[0] + "/data/tip3p.pdb")
system = app.ForceField("tip3p.xml").createSystem(pdb.topology, nonbondedMethod=app.CutoffPeriodic,
                                                  nonbondedCutoff=0.9*unit.nanometer, rigidWater=False)
platform = mm.Platform.getPlatform("OpenCL")

def nanometers(positions):
    return np.array(positions.value_in_unit(unit.nanometer))

def positions(context):
    return nanometers(context.getState(positions=True).getPositions(asNumpy=True))

def temperature(context):
    kinetic = context.getState(energy=True).getKineticEnergy()
    freedom = (3*system.getNumParticles() - 3)*unit.MOLAR_GAS_CONSTANT_R
    return (2*kinetic/freedom).value_in_unit(unit.kelvin)

def start(integrator, precision, seed=1):
    context = mm.Context(system, integrator, platform, {"Precision": precision})
    context.setPositions(pdb.positions)
    context.setVelocitiesToTemperature(300, seed)
    return context
"""


def run_with_opencl(*arguments):
    """What Python prints, run with some arguments where there is an OpenCL."""
    if ENVIRONMENT is None:
        pytest.skip("no OpenCL; `make test` looks for one")
    variables = dict(line.split("=", 1) for line in ENVIRONMENT.splitlines() if line)
    result = subprocess.run([sys.executable, *arguments], env={**os.environ, **variables}, text=True,
                            capture_output=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def run_on_opencl(code):
    """Run a program that begins with WATER."""
    run_with_opencl("-c", WATER + code)


def test_installation_is_found_right():
    """`python -m openmmstiff`, with a platform for devices."""
    lines = run_with_opencl("-m", "openmmstiff").splitlines()
    for precision in ("single", "mixed", "double"):
        assert any(line.split()[:2] == ["OpenCL", precision] and "agrees" in line for line in lines), lines


@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_hidden_positions_follow_the_order_of_the_device(precision):
    """Every 250 times that positions are sent, twice a step, the device sorts the waters and wraps them. Nobody sees
    that, nor loses hidden positions."""
    run_on_opencl(f"""
integrator = ZhangSkeelLangevinIntegrator(300, 5, 0.002)
context = start(integrator, {precision!r})
before = positions(context)
for i in range(60):
    integrator.step(5)
    after = positions(context)
    assert np.abs(after - before).max() < 0.15, (i, np.abs(after - before).max())  # of 10 fs; the box has 3 nm
    offset = np.abs(after - nanometers(integrator.getPropagatedPositions(asNumpy=True))).max()
    assert 1e-5 < offset < 0.01, (i, offset)
    before = after
assert 240 < temperature(context) < 360
""")


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_long_steps_with_a_barostat(precision):
    """Accepted moves of a barostat shift molecules by whole boxes, rejected ones leave other forces behind."""
    run_on_opencl(f"""
barostat = mm.MonteCarloBarostat(1, 300, 3)
barostat.setRandomNumberSeed(3)
system.addForce(barostat)
integrator = MassPenaltyLangevinIntegrator(300, 1, 0.008)
context = start(integrator, {precision!r})
volumes, temperatures = set(), []
for i in range(100):
    integrator.step(5)
    if i >= 20:
        temperatures.append(temperature(context))
    volumes.add(context.getState().getPeriodicBoxVolume()._value)
assert len(volumes) > 10
assert abs(np.mean(temperatures) - 300) < 12, np.mean(temperatures)  # hot at first, as the box is not relaxed
lengths = np.linalg.norm(np.diff(positions(context).reshape(-1, 3, 3)[:, :2], axis=1), axis=2)
assert abs(lengths.mean() - 0.0973) < 5e-4 and lengths.max() < 0.12
""")


def test_integrators_take_turns():
    """In a CompoundIntegrator each continues from where the other has left the device."""
    run_on_opencl("""
compound = mm.CompoundIntegrator()
for integrator in (mm.LangevinMiddleIntegrator(300, 20, 0.001), MassPenaltyLangevinIntegrator(300, 20, 0.006)):
    integrator.setRandomNumberSeed(1)
    compound.addIntegrator(integrator)
context = start(compound, "mixed")
for i in range(20):
    for index in (0, 1):
        before = positions(context)
        compound.setCurrentIntegrator(index)
        compound.step(10)
        moved = np.abs(positions(context) - before).max()
        assert 1e-3 < moved < 0.2, (i, index, moved)
assert abs(temperature(context) - 300) < 40, temperature(context)
""")


@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_checkpoints_resume_where_devices_sort_molecules(precision):
    """In a Context with another order: to what the forces differ by with another list of neighbours, as OpenMM's own
    integrators do."""
    bound = {"single": 1e-4, "mixed": 1e-5, "double": 1e-11}[precision]
    run_on_opencl(f"""
for make in (lambda: MassPenaltyLangevinIntegrator(300, 5, 0.006), lambda: ZhangSkeelLangevinIntegrator(300, 5, 0.002)):
    first, second = make(), make()
    for integrator in (first, second):
        integrator.setRandomNumberSeed(7)
    one, other = start(first, {precision!r}), start(second, {precision!r}, seed=5)
    first.step(260)
    checkpoint = one.createCheckpoint()
    first.step(10)
    other.loadCheckpoint(checkpoint)
    second.step(10)
    difference = np.abs(positions(one) - positions(other)).max()
    assert difference <= {bound}, difference
""")
