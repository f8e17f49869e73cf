"""The integrators on OpenMM's OpenCL platform, in processes of their own: on the OpenCL that `make test` has found, the
lines NAME=value in OPENMM_STIFF_OPENCL_ENVIRONMENT, on Intel's, and in Oclgrind, which checks what kernels access.

On a machine with a GPU: OPENMM_STIFF_DEVICE=CUDA python -m pytest tests/python/test_devices.py
"""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DEVICE = os.environ.get("OPENMM_STIFF_DEVICE")      # a platform that works as it is
INSTALL = Path(__file__).parents[1]/"support"/"opencl.py"
WATER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import openmm as mm
from openmm import app
from conftest import positions_of as positions, water_box
from openmmstiff import *
from trials import temperature
_, at, system = water_box(nonbondedMethod=app.CutoffPeriodic)

def start(integrator, precision, seed=1):
    context = mm.Context(system, integrator, mm.Platform.getPlatform({DEVICE or "OpenCL"!r}), {{"Precision": precision}})
    context.setPositions(at)
    context.setVelocitiesToTemperature(300, seed)
    return context
"""


@functools.cache
def install(opencl):
    """The process that installs an OpenCL, once, and prints the variables with which it works."""
    return subprocess.run([sys.executable, INSTALL, Path(sys.prefix)/"opencl", opencl], text=True, capture_output=True)


def variables(opencl=None):
    """With which an OpenCL works: the one of `make test`, or another, which is installed if need be."""
    if DEVICE:
        if opencl:
            pytest.skip(f"{DEVICE} is to be tested")
        return {}
    if opencl is None:
        found = os.environ.get("OPENMM_STIFF_OPENCL_ENVIRONMENT")
        if found is None:
            pytest.skip("no OpenCL; `make test` looks for one")
    else:
        found = install(opencl).stdout
        if install(opencl).returncode != 0:
            pytest.skip(install(opencl).stderr)
    return dict(line.split("=", 1) for line in found.splitlines() if line)


def run_process(opencl, *arguments, **environment):
    """Python with some arguments, in a process that has succeeded."""
    result = subprocess.run([sys.executable, *arguments], env={**os.environ, **variables(opencl), **environment},
                            text=True, capture_output=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    return result


def run_with_opencl(*arguments, opencl=None):
    """What Python prints, run with some arguments where there is an OpenCL."""
    return run_process(opencl, *arguments).stdout


@pytest.fixture(params=[None, "Intel"], ids=["found", "Intel"])
def opencl(request):
    return request.param


@pytest.fixture
def run_on_opencl(opencl):
    """Runs a program that begins with WATER."""
    return lambda code: run_with_opencl("-c", WATER + code, opencl=opencl)


def test_installation_is_found_right(opencl):
    """`python -m openmmstiff`, with a platform for devices."""
    lines = run_with_opencl("-m", "openmmstiff", opencl=opencl).splitlines()
    name = DEVICE or "OpenCL"
    for precision in ("single", "mixed", "double"):
        row, = (line for line in lines if line.split()[:2] == [name, precision])
        assert "on the device" in row and "agrees" in row
    assert any(line.startswith(f"{name} ran on ") for line in lines)


@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_hidden_positions_follow_the_order_of_the_device(run_on_opencl, precision):
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
    offset = np.abs(after - integrator.getPropagatedPositions(asNumpy=True)._value).max()
    assert 1e-5 < offset < 0.01, (i, offset)
    before = after
assert 240 < temperature(context) < 360
""")


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_long_steps_with_a_barostat(run_on_opencl, precision):
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


def test_integrators_take_turns(run_on_opencl):
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
def test_checkpoints_resume_where_devices_sort_molecules(run_on_opencl, precision):
    """In a Context with another order: to what the forces differ by with another list of neighbours, as OpenMM's own
    integrators do."""
    bound = {"single": 1e-4, "mixed": 1e-4, "double": 1e-11}[precision]
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


# A water, the forces of which fail on demand, and what its state is.
FAILING = """
from systems import angles, bonds, external, periodic, system_of
AT = np.array([(1, 0, 0), (1.1, 0, 0), (0.968, 0.0945, 0), (2, 2, 2)])

def fragile(integrator, *forces, energy="sqrt(1-broken)*x", masses=(16, 1, 1), **others):
    system = system_of(masses, periodic(bonds((0, 1, 0.1, 4e5), (0, 2, 0.1, 4e5))), angles((1, 0, 2, 1.9, 300)),
                       external(energy, 0, 1, 2, broken=0), *forces, **others)
    context = mm.Context(system, integrator, mm.Platform.getPlatform(%r), {"Precision": "double"})
    context.setPositions(AT[:len(masses)])
    context.setVelocitiesToTemperature(300, 1)
    return context

def state(context):
    found = context.getState(positions=True, velocities=True)
    return np.stack([found.getPositions(asNumpy=True)._value, found.getVelocities(asNumpy=True)._value])

def fail(context, steps, message):
    try:
        context.getIntegrator().step(steps)
    except mm.OpenMMException as error:
        assert message in str(error), error
    else:
        raise AssertionError("no step has failed")

""" % (DEVICE or "OpenCL")


def test_a_failed_step_is_undone_before_velocities_are_drawn(run_on_opencl):
    """By an AndersenThermostat, in the next step, before anybody asks whether the last one has failed."""
    run_on_opencl(FAILING + """
for integrator in MassPenaltyIntegrator(0.002), MassPenaltyLangevinIntegrator(300, 1, 0.002):
    context = fragile(integrator, mm.AndersenThermostat(300, 1e-12))
    integrator.step(5)
    before = state(context)
    context.setParameter("broken", 2)
    fail(context, 5, "are not finite")
    assert np.abs(state(context) - before).max() < 1e-12 and context.getStepCount() == 5
""")


def test_a_force_that_refuses_positions_of_a_failed_step_hides_no_failure(run_on_opencl):
    """Nor does the failure come back later."""
    run_on_opencl(FAILING + """
def refuse(state):
    if np.abs(state.getPositions(asNumpy=True)._value).max() > 100:
        raise ValueError("far away")
    return 0.0, np.zeros((3, 3))
integrator = MassPenaltyLangevinIntegrator(300, 1, 0.002)
context = fragile(integrator, mm.PythonForce(refuse), energy="1e15*broken*x^3")
integrator.step(5)
before = state(context)
context.setParameter("broken", 1)
fail(context, 10, "MassPenaltyLangevinIntegrator")
assert np.abs(state(context) - before).max() < 1e-12 and context.getStepCount() == 5
context.setParameter("broken", 0)
context.setPositions(AT[:3] + [5, 0, 0])
integrator.step(1)
assert abs(positions(context)[0, 0] - 6) < 0.1
""")


def test_an_error_within_a_step_leaves_no_half_of_it(run_on_opencl):
    """Of a force that ends the step between its motion and its second kick."""
    run_on_opencl(FAILING + """
left = []
def end(state):
    if left and left.pop():
        raise ValueError("out of memory")
    return 0.0, np.zeros((3, 3))
integrator = MassPenaltyIntegrator(0.002)
context = fragile(integrator, mm.PythonForce(end))
integrator.step(3)
before = state(context)

def begin_again():
    context.setStepCount(0)
    context.setPositions(before[0])
    context.setVelocities(before[1])

for whole in 0, 1, 2:
    begin_again()
    integrator.step(whole)
    expected = state(context)
    begin_again()
    left[:] = [True] + (1 + whole)*[False]      # the first step evaluates forces twice
    fail(context, 5, "out of memory")
    assert context.getStepCount() == whole and np.abs(state(context) - expected).max() < 1e-10
""")


def test_frozen_atoms_go_back_with_the_box(run_on_opencl):
    """Where a barostat has moved all before anybody asks whether the last step has failed."""
    run_on_opencl(FAILING + """
for seed in 1, 2, 3:
    barostat = mm.MonteCarloBarostat(1, 300, 1)
    barostat.setRandomNumberSeed(seed)
    context = fragile(MassPenaltyLangevinIntegrator(300, 1, 0.001), barostat, masses=(16, 1, 1, 0), box=3*np.eye(3))
    context.getIntegrator().step(2)
    context.setParameter("broken", 2)
    fail(context, 3, "are not finite")
    edge = context.getState().getPeriodicBoxVectors()[0].x
    assert edge != 3 and np.abs(positions(context)[3]/edge - 2/3).max() < 1e-7
""")


# ---- Oclgrind ----

KERNELS = """
import sys
import numpy as np
import openmm as mm
from openmmstiff import *
from openmmstiff._installation import _waters
from openmmstiff._benchmark import CHAIN, _add_chain, _trap

def waters(rigid):
    # With chains whose matrices are in local memory, and in that of the device.
    system, positions = _waters()
    for length in (CHAIN, 40):
        chain = _add_chain(length, system, system.getForce(0), system.getForce(1))
        positions = np.concatenate([positions, chain + [0, 0, 1 + 0.1*length]])
    system.removeForce(2)       # Oclgrind lacks a function that its kernel calls
    if rigid:
        for o in range(0, 24, 3):
            for i, j, length in (0, 1, 0.09572), (0, 2, 0.09572), (1, 2, 0.15139):
                system.addConstraint(o + i, o + j, length)
    return system, positions

def run(system, positions, integrator):
    integrator.setMaxBlockSize(0)
    context = mm.Context(system, integrator, mm.Platform.getPlatform("OpenCL"), {"Precision": sys.argv[1]})
    context.setPositions(positions)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(2)
    context.loadCheckpoint(context.createCheckpoint())
    integrator.step(1)
    return context

run(*waters(False), MassPenaltyIntegrator(0.002))
run(*waters(False), MassPenaltyLangevinIntegrator(0, 1, 0.002))
run(*waters(True), MassPenaltyLangevinIntegrator(300, 1, 0.002))
broken, positions = waters(False)
broken.addForce(_trap())
context = run(broken, positions, MassPenaltyLangevinIntegrator(300, 1, 0.002))
context.setParameter("broken", 2)
try:
    context.getIntegrator().step(1)
except mm.OpenMMException:
    print("refused")
"""
# One number is written behind the end of a buffer, and two work items write a number at once.
FAULTS = """
import ctypes
cl, null, one = ctypes.CDLL("libOpenCL.so.1"), None, ctypes.c_size_t(1)
pointer, by = ctypes.c_void_p, ctypes.byref
for name in "Context CommandQueue Buffer ProgramWithSource Kernel".split():
    getattr(cl, "clCreate" + name).restype = pointer
platform, device = pointer(), pointer()
cl.clGetPlatformIDs(1, by(platform), null)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, by(device), null)
context = pointer(cl.clCreateContext(null, 1, by(device), null, null, null))
queue = pointer(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), null))
buffer = pointer(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(16), null, null))
text = ctypes.c_char_p(b"kernel void f(global int* a) { a[0] = get_global_id(0); a[4*get_global_id(0)] = 1; }")
program = pointer(cl.clCreateProgramWithSource(context, 1, by(text), null, null))
cl.clBuildProgram(program, 1, by(device), null, null, null)
kernel = pointer(cl.clCreateKernel(program, b"f", null))
cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), by(buffer))
cl.clEnqueueNDRangeKernel(queue, kernel, 1, null, by(ctypes.c_size_t(2)), by(one), 0, null, null)
cl.clFinish(queue)
"""


def find_faults(code, *arguments):
    """What Oclgrind says of the kernels of a program, and what the program prints.

    A block that fails may tell so while another of the same kernel looks whether one has failed before it: that goes on
    with either number.
    """
    result = run_process("Oclgrind", "-c", code, *arguments, OCLGRIND_DATA_RACES="1")
    faults = re.findall(r"^(?:Invalid|\S+ data race).*?(?=\n\n|\Z)", result.stderr.replace("\n\t\n", "\n"),
                        re.MULTILINE | re.DOTALL)
    return [fault for fault in faults if not ("if (failure[0] != 0" in fault and "FAIL(" in fault)], result.stdout


@pytest.mark.parametrize("precision", ["single", "mixed", "double"])
def test_kernels_access_what_is_theirs_and_do_not_race(precision):
    """With and without a heat bath and constraints of the System, of large molecules, of a step that fails."""
    faults, printed = find_faults(KERNELS, precision)
    assert faults == [] and printed.endswith("refused\n")


def test_oclgrind_finds_faults():
    faults, _ = find_faults(FAULTS)
    assert any("Invalid write" in line for line in faults) and any("race" in line for line in faults)
