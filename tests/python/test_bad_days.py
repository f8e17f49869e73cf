"""Bad days: many Contexts at once, runs that are killed, memory that must not grow, files that are damaged."""

import ctypes
import functools
import gc
import multiprocessing
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openmm
import openmmstiff
import pytest
from openmm import OpenMMException, XmlSerializer, app

import conftest
from conftest import INTEGRATORS, PLATFORMS, CountingForce, Waters, has_heat_bath, positions_of, velocities_of
from openmmstiff import ZhangSkeelIntegrator

pytestmark = pytest.mark.usefixtures("one_thread")
STOCHASTIC = [cls for cls in INTEGRATORS if has_heat_bath(cls)]
DETERMINISTIC = [cls for cls in INTEGRATORS if cls not in STOCHASTIC]
create = functools.partial(conftest.create, seed=5)
# Processes that begin with the imports of this file done.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


def begin(cls, platform, steps=0):
    """A Context with four waters, after some steps."""
    context = Waters().context(create(cls), platform)
    context.getIntegrator().step(steps)
    return context


def motion(context):
    """The positions [nm] and velocities [nm/ps] of a Context."""
    return np.concatenate([positions_of(context), velocities_of(context)])


# ---- Several Contexts at once ----

def test_contexts_in_several_threads_compute_what_each_computes_alone(platform):
    """All families at once, two Contexts of each; bit for bit. One without positions has an error of its own.

    Of those with a heat bath on CPU only: the Contexts on Reference draw from one sequence, OpenMM's.
    """
    def run(cls):
        return motion(begin(cls, platform, steps=40))

    def fail():
        integrator = create(ZhangSkeelIntegrator)
        context = openmm.Context(Waters().system, integrator, platform)
        with pytest.raises(OpenMMException, match="positions have not been set"):
            integrator.step(1)
        return context.getStepCount()

    jobs = 2*(INTEGRATORS if platform.getName() == "CPU" else DETERMINISTIC)
    alone = {cls: run(cls) for cls in jobs}
    with ThreadPoolExecutor(len(jobs) + 1) as pool:
        failed = pool.submit(fail)
        for cls, together in zip(jobs, pool.map(run, jobs)):
            assert (together == alone[cls]).all(), cls.__name__
        assert failed.result() == 0


def test_forces_in_python_are_computed_for_several_threads(platform):
    """A step lets other threads run, and has to wait for its turn when a force is a function of Python."""
    def run(steps):
        waters = Waters()
        force = CountingForce(waters.system)
        context = waters.context(ZhangSkeelIntegrator(0.002), platform)
        context.getIntegrator().step(steps)
        return force.count

    with ThreadPoolExecutor(4) as pool:
        assert all(count >= 50 for count in pool.map(run, 4*[50]))


# ---- A run that is killed ----

def run_until_killed(name, platform, file):
    """The run of a process of its own: a checkpoint every 10 steps, without an end."""
    if platform == "CPU":
        openmm.Platform.getPlatform("CPU").setPropertyDefaultValue("Threads", "1")      # as in the other process
    endless = Waters().simulation(create(getattr(openmmstiff, name)), openmm.Platform.getPlatform(platform))
    endless.reporters.append(app.CheckpointReporter(file, 10))
    endless.step(10**9)


@pytest.mark.parametrize("cls", [*STOCHASTIC, ZhangSkeelIntegrator])
def test_a_killed_run_resumes_as_the_run_that_went_on(cls, platform, tmp_path):
    """Bit for bit: with its random numbers and, for Zhang-Skeel, the hidden offset."""
    file, seen, limit = tmp_path/"checkpoint", set(), time.monotonic() + 120
    process = PROCESSES.Process(target=run_until_killed, args=(cls.__name__, platform.getName(), str(file)))
    process.start()
    while len(seen) < 3:    # until it has replaced its checkpoint twice
        assert process.is_alive() and time.monotonic() < limit
        if file.exists():
            seen.add(file.stat().st_mtime_ns)
        time.sleep(0.001)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    resumed = Waters().simulation(create(cls), platform)
    resumed.loadCheckpoint(str(file))
    steps = resumed.context.getStepCount()
    assert steps >= 20 and steps % 10 == 0
    resumed.step(50)
    found = motion(resumed.context)
    del resumed     # on Reference it shares random numbers with the next
    whole = Waters().simulation(create(cls), platform)
    whole.step(steps + 50)
    assert (motion(whole.context) == found).all()


# ---- Memory ----

class MallocCounts(ctypes.Structure):
    """What mallinfo2() of the GNU C library returns: uordblks are the bytes in use."""
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]


def memory_in_use():
    """The bytes that are allocated, by C++ and Python."""
    gc.collect()
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        pytest.skip("the C library does not count what is allocated")
    library.mallinfo2.restype = MallocCounts
    counts = library.mallinfo2()
    return counts.uordblks + counts.hblkhd


def growth(action, times):
    """By how many bytes more are in use after an action has been repeated, the first ones apart."""
    for _ in range(3):
        action()
    before = memory_in_use()
    for _ in range(times):
        action()
    return memory_in_use() - before


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_steps_take_no_memory_for_good(cls, platform):
    """A table that is made larger once does so in one of three series, what is lost in each call in all of them.

    What the test runner gives back meanwhile is less than a thousand steps would take at the least, 16 kB.
    """
    context = begin(cls, platform)
    assert any(growth(lambda: context.getIntegrator().step(20), 50) <= 0 for _ in range(3))


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_contexts_leave_no_memory_behind(cls, platform):
    """Nor do checkpoints, States and XML. A table that is made larger once may take 4 kB.

    OpenMM's CPU platform keeps its random numbers of each Context: 2.6 kB with its LangevinMiddleIntegrator, too.
    """
    def live():
        context = Waters(2).context(create(cls), platform)
        context.getIntegrator().step(2)
        context.loadCheckpoint(context.createCheckpoint())
        context.setState(context.getState(positions=True, velocities=True, integratorParameters=True))
        XmlSerializer.clone(context.getIntegrator())

    lives = 30
    of_openmm = 2620*lives if platform.getName() == "CPU" and cls in STOCHASTIC else 0
    assert growth(live, lives) <= 4096 + of_openmm


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_an_owner_deletes_what_it_has_once(cls):
    """A second deletion would crash."""
    xml = XmlSerializer.serialize(create(cls))

    def live():
        integrator, compound = XmlSerializer.deserialize(xml), openmm.CompoundIntegrator()
        assert integrator.thisown
        compound.addIntegrator(integrator)
        assert not integrator.thisown and not compound.getIntegrator(0).thisown

    assert growth(live, 100) <= 4096


# ---- Damaged checkpoints ----

def refuses(context, checkpoint, *words):
    """A checkpoint is refused with these words."""
    with pytest.raises(OpenMMException) as refusal:
        context.loadCheckpoint(checkpoint)
    assert all(word in str(refusal.value) for word in words), refusal.value


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_a_run_goes_on_after_damaged_checkpoints(cls, platform):
    """From the state that is set anew, or from a good checkpoint, bit for bit. OpenMM has loaded its part by then.

    Files are cut in the integrator's part, as Simulation.saveCheckpoint() leaves them if the process ends meanwhile, or
    damaged there, are of another platform or System, or no checkpoints at all. What comes first is OpenMM's own, and with
    no integrator checked. Where a file ends there, it takes what is in memory for what is missing: it may change the
    Context, or ask for all memory. What OpenMM itself refuses leaves the Context as it is.
    """
    words = cls.__name__, "the checkpoint cannot be loaded", "OpenMM has loaded its part", "load the right checkpoint"
    context, undisturbed = begin(cls, platform, steps=10), begin(cls, platform, steps=15)
    saved = context.createCheckpoint()
    context.getIntegrator().step(5)
    before = motion(context)
    own = saved.index(b"OpenMM-Stiff/")
    other, = (openmm.Platform.getPlatform(name) for name in PLATFORMS if name != platform.getName())
    for wrong in (saved[:0], saved[:1], bytes(len(saved)),
                  random.Random(1).randbytes(len(saved)), Waters(3).context(create(cls), platform).createCheckpoint(),
                  begin(cls, other).createCheckpoint(), XmlSerializer.serialize(context.getIntegrator()).encode()):
        refuses(context, wrong)
    assert (motion(context) == before).all()
    for end in [*range(own, len(saved), (len(saved) - own)//10), len(saved) - 1]:
        refuses(context, saved[:end], *words)
    for index in range(own, len(saved), (len(saved) - own)//19):
        damaged = bytearray(saved)
        damaged[index] ^= 0xff
        refuses(context, bytes(damaged), *words)
    other = begin(cls, platform)
    for each in context, other:
        positions, velocities = np.split(before, 2)
        each.setPositions(positions)
        each.setVelocities(velocities)
        each.getIntegrator().step(5)
    assert cls in STOCHASTIC or np.allclose(motion(context), motion(other), rtol=0, atol=1e-9)
    refuses(context, saved[:-1], *words)
    context.loadCheckpoint(saved)
    context.getIntegrator().step(5)
    assert cls in STOCHASTIC or (motion(context) == motion(undisturbed)).all()


@pytest.mark.parametrize("cls", INTEGRATORS)
def test_checkpoints_are_for_contexts_with_other_forces_too(cls, platform):
    """
    As with OpenMM's integrators: a barostat or a restraint that is added later, with its parameters, by
    reinitialize(preserveState=True) or in a Context that loads the checkpoint.
    """
    context = begin(cls, platform, steps=10)
    before, saved = motion(context), context.createCheckpoint()
    system = context.getSystem()
    restraint = openmm.CustomExternalForce("k*periodicdistance(x, y, z, x0, y0, z0)^2")
    restraint.addGlobalParameter("k", 100)
    for axis in "xyz":
        restraint.addPerParticleParameter(axis + "0")
    restraint.addParticle(0, before[0])
    for force in restraint, openmm.MonteCarloBarostat(1, 300):
        system.addForce(force)
        context.reinitialize(preserveState=True)
        assert (motion(context) == before).all()
        assert context.getStepCount() == 10
        context.getIntegrator().step(1)
        context.loadCheckpoint(saved)
        assert (motion(context) == before).all()
    context.getIntegrator().step(5)
