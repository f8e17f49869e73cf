"""What users run into, as cases: a small System that every integrator takes, and how a case is judged.

Each works and stays finite, or is refused by an error that says what is wrong and leaves the Context as it was. A case
that crashes or hangs ends the process: pytest-xdist (`-n 2`) says in which test, and `-s -v` shows the case.
"""
import faulthandler
import functools
import os
import re
import resource
import sys
import zlib

import numpy as np
import openmm
import openmmstiff
from openmm import OpenMMException

import conftest
from conftest import GAS_CONSTANT
from openmmstiff import MassPenaltyIntegrator
from openmmstiff.sampling import blockedError, countFreedom

NATIVE = {"LangevinMiddleIntegrator": lambda: seeded(openmm.LangevinMiddleIntegrator(300, 5, 0.001)),
          "VerletIntegrator": lambda: openmm.VerletIntegrator(0.001)}
INTEGRATORS = [cls.__name__ for cls in conftest.INTEGRATORS]
REFUSALS = (TypeError, ValueError, OSError, OpenMMException)
UNCLEAR = re.compile(r"Assertion failure|_M_range_check|::|\bbad_|basic_string|in method '|argument \d+ of type"
                     r"|not iterable|no attribute|Wrong number or type of arguments|not subscriptable"
                     r"|not supported between|unsupported operand|has no len\(\)|unhashable|(?<!mask )-2147483648|abstract method|^\W*$")
PLAIN = "Particle coordinate is NaN"     # OpenMM's own error, when it computes forces: it needs no further name
ALL = {"positions": True, "velocities": True, "energy": True, "forces": True}
LIMIT, MEMORY = 30, 8 << 30     # seconds and bytes that a case may take, far more than any should on a busy machine
SHARE = float(os.environ.get("SWEEP", 0))   # of the cases, if it is not each test's own; 1 for all


class Refused(Exception):
    """A call that ended in an error which says what is wrong."""


def attempt(call, *arguments, naming=(), **keywords):
    """The result of a call; Refused if it is refused clearly, by a message with one of the names."""
    try:
        return call(*arguments, **keywords)
    except (AssertionError, Refused):
        raise
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        assert isinstance(error, REFUSALS) and not UNCLEAR.search(str(error)), f"unclear error: {text}"
        assert not naming or any(name in text for name in (*naming, PLAIN)), f"names none of {naming}: {text}"
        raise Refused(text) from None


def judge(cases, share=1.0):
    """No case has a fault, (what, function, whether it must not be refused), of a share that is always the same."""
    faults, memory = [], resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, memory[1]))
    try:
        for what, run, must_work in cases:
            if zlib.crc32(what.encode()) >= (SHARE or share)*2**32:
                continue
            print(what)
            faulthandler.dump_traceback_later(LIMIT, exit=True, file=sys.__stderr__)
            try:
                run()
            except Refused as error:
                faults += [f"{what}: refused, though it should work: {error}"]*must_work
            except BaseException as error:
                faults.append(f"{what}: {type(error).__name__}: {error}")
    finally:
        faulthandler.cancel_dump_traceback_later()
        resource.setrlimit(resource.RLIMIT_AS, memory)
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults)


def create(name, stepSize=None):
    """An integrator of a class, with a seed: at 300 K if it has a heat bath, with few micro-steps for vibrations."""
    if name in NATIVE:
        return NATIVE[name]()
    cls = getattr(openmmstiff, name)
    usual = 0.004 if issubclass(cls, MassPenaltyIntegrator) else 0.001     # slows bonds
    return conftest.create(cls, stepSize or usual, friction=5, seed=1)


def seeded(item):
    """All have the same seed: OpenMM's CPU platform refuses two of them in a Context."""
    item.setRandomNumberSeed(1)
    return item


@functools.cache
def _water():
    """A water's positions as TIP3P has them, and its parameters."""
    half, length = 1.82421813/2, 0.09572
    return np.array([[0, 0, 0], [np.sin(half), np.cos(half), 0], [-np.sin(half), np.cos(half), 0]])*length


def waters(molecules=3, rigid=1, well=20.0, positions=True):
    """(System, positions) of TIP3P waters in a well, the last of them rigid; the parameter theta is HMM's phase.

    Force groups: 1 for bonds and angles, 2 for the well and the vibration, 0 for the rest.
    """
    system = openmm.System()
    bonds, angles, charges = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.NonbondedForce()
    vibration = openmm.CustomExternalForce("50*cos(theta)*x + well*(x^2 + y^2 + z^2)")
    vibration.addGlobalParameter("theta", np.pi/2)
    vibration.addGlobalParameter("well", well)
    for molecule in range(molecules):
        o, h1, h2 = (system.addParticle(mass) for mass in (15.999, 1.008, 1.008))
        for charge, sigma, epsilon in ((-0.834, 0.315, 0.636), (0.417, 1, 0), (0.417, 1, 0)):
            charges.addParticle(charge, sigma, epsilon)
        for i, j in ((o, h1), (o, h2), (h1, h2)):
            charges.addException(i, j, 0, 1, 0)
        if molecule >= molecules - rigid:
            for i, j, length in ((o, h1, 0.09572), (o, h2, 0.09572), (h1, h2, 0.15139)):
                system.addConstraint(i, j, length)
        else:
            bonds.addBond(o, h1, 0.09572, 462750.4)
            bonds.addBond(o, h2, 0.09572, 462750.4)
            angles.addAngle(h1, o, h2, 1.82421813, 836.8)
        vibration.addParticle(o)
    for force, group in ((bonds, 1), (angles, 1), (charges, 0), (vibration, 2)):
        force.setForceGroup(group)
        system.addForce(force)
    if positions:
        return system, relaxed(molecules, rigid, well)
    cells = np.array([(i, j, k) for i in range(3) for j in range(3) for k in range(3)])[:molecules]
    return system, (0.31*cells[:, None, :] + _water()).reshape(-1, 3)


@functools.cache
def relaxed(molecules, rigid, well):
    """Positions of waters() at 300 K: its own are a lattice."""
    return relax(*waters(molecules, rigid, well, positions=False))


def relax(system, positions):
    """Positions after a minimization and some time at 300 K with much friction."""
    integrator = seeded(openmm.LangevinMiddleIntegrator(300, 50, 0.0005))
    context = bind(system, integrator, "Reference", positions)
    openmm.LocalEnergyMinimizer.minimize(context, 10, 100)
    context.setVelocitiesToTemperature(300, 1)
    integrator.step(500)
    return snapshot(context)[0]


def bind(system, integrator, platform, positions=None, temperature=None, threads=None):
    """A Context, with velocities if there is a temperature; with a number of threads on CPU, or OpenMM's."""
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform(platform),
                             {"Threads": threads} if threads and platform == "CPU" else {})
    if positions is not None:
        context.setPositions(positions)
        if temperature:
            context.setVelocitiesToTemperature(temperature, 1)
    return context


def advance(context, steps):
    """The positions after some steps."""
    context.getIntegrator().step(steps)
    return conftest.positions_of(context)


def snapshot(context):
    """Positions, velocities and time of a Context."""
    state = context.getState(positions=True, velocities=True)
    return (np.array(state.getPositions(asNumpy=True)._value), np.array(state.getVelocities(asNumpy=True)._value),
            state.getTime()._value)


def unchanged(context, before, what):
    for name, old, new in zip(("positions", "velocities", "time"), before, snapshot(context)):
        assert np.array_equal(old, new, equal_nan=True), f"{name} changed by {what}"


def steps(context, count=2, naming=(), finite_energy=True):
    """Take steps one by one: each works and stays finite, or is refused clearly and changes nothing."""
    integrator = context.getIntegrator()
    for number in range(count):
        before = snapshot(context)
        try:
            attempt(integrator.step, 1, naming=naming)
        except Refused as error:
            unchanged(context, before, f"a step that failed ({error})")
            raise
        for name, values in zip(("positions", "velocities", "time"), snapshot(context)):
            assert np.isfinite(values).all(), f"{name} not finite after step {number + 1}"
    if finite_energy:
        state = attempt(context.getState, energy=True)
        for name in ("Potential", "Kinetic"):
            energy = getattr(state, f"get{name}Energy")()._value
            assert np.isfinite(energy), f"{name.lower()} energy {energy} after {count} steps"


def assert_mean(series, expected, largest):
    """Within 4 errors, which must not be larger than so much."""
    error = blockedError(series)
    assert error < largest
    assert abs(np.mean(series) - expected) < 4*error


def temperature(context):
    """The kinetic temperature [K]: a Context's kinetic energy over its degrees of freedom, constraints counted."""
    return 2*conftest.energies_of(context)[1]/(countFreedom(context.getSystem())*GAS_CONSTANT)
