"""A German locale, in which C writes 0.5 as 0,5, as programs with windows set it for their whole process. Numbers in
kernels, XML and messages keep their points."""

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import run_python
from test_devices import variables

# both(compute) is what a function returns without and with the locale.
PROGRAM = f"""
import ctypes, locale, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import numpy as np
import openmm
from openmm import XmlSerializer
from conftest import INTEGRATORS, Waters, create, positions_of
import openmmstiff

def say(number):
    text = ctypes.create_string_buffer(20)
    ctypes.CDLL(None).snprintf(text, 20, b"%.1f", ctypes.c_double(number))
    return text.value

def both(compute):
    locale.setlocale(locale.LC_ALL, "C")
    assert say(0.5) == b"0.5"
    before = compute()
    locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    assert say(0.5) == b"0,5"
    return before, compute()
"""


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """The environment in which the locale is found: as it is, or with one that is compiled here."""
    question = "import locale; locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8')"
    if run_python(question).returncode == 0:
        return {}
    folder = tmp_path_factory.mktemp("locales")
    if shutil.which("localedef"):
        subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder/"de_DE.UTF-8")], capture_output=True)
    if run_python(question, LOCPATH=str(folder)).returncode != 0:
        pytest.skip("there is no German locale, and localedef cannot make it")
    return {"LOCPATH": str(folder)}


def run(environment, code):
    """Run a program that begins with PROGRAM."""
    result = run_python(PROGRAM + code, **environment)
    assert result.returncode == 0, result.stdout + result.stderr


def test_xml_is_the_same_and_comes_back(german):
    """Written without the locale and read with it, and the other way round; a saved State, too."""
    run(german, """
for cls in INTEGRATORS:
    def write():
        integrator = create(cls, 0.0015)
        integrator.setConstraintTolerance(2.5e-6)
        return XmlSerializer.serialize(integrator)
    before, after = both(write)
    assert before == after and ",5" not in after, after
    for text in both(lambda: XmlSerializer.serialize(XmlSerializer.deserialize(before))):
        assert text == before, text
    def save():
        context = Waters(1).context(create(cls), openmm.Platform.getPlatform("Reference"))
        context.setVelocities(np.zeros((3, 3)))
        def state():
            return XmlSerializer.serialize(context.getState(positions=True, velocities=True, integratorParameters=True))
        text = state()
        context.setState(XmlSerializer.deserialize(text))
        assert text == state()
        return text
    before, after = both(save)
    assert before == after, (before, after)
""")


def test_messages_have_points(german):
    run(german, """
def refusals():
    found = []
    for name, method, *values in (("ZhangSkeel", "setBeta", -0.5), ("MassPenalty", "addPair", 0, 1, -0.5),
                                  ("Spook", "setCompliance", -0.5), ("HMM", "setAngularFrequency", -0.5),
                                  ("ImpulseLangevin", "setFriction", -0.5)):
        try:
            getattr(create(getattr(openmmstiff, name + "Integrator")), method)(*values)
        except openmm.OpenMMException as error:
            found.append(str(error))
    return found
before, after = both(refusals)
assert len(before) == 5 and all("-0.5" in message for message in before), before
assert after == before, after
""")


@pytest.mark.parametrize("name", ["Reference", "CPU", "OpenCL"])
def test_the_same_steps(name, german):
    """Expressions of forces and constraints are read, and kernels written, with points."""
    devices = variables() if name == "OpenCL" else {}
    properties = {"OpenCL": {"Precision": "double"}, "CPU": {"Threads": "1"}}.get(name, {})
    few = "MassPenaltyIntegrator", "ZhangSkeelIntegrator", "ImpulseIntegrator"
    run({**german, **devices}, f"""
for cls in INTEGRATORS if {name!r} != "OpenCL" else [getattr(openmmstiff, each) for each in {few}]:
    def steps():
        waters, integrator = Waters(2), create(cls, seed=7)
        if cls is openmmstiff.SpookIntegrator:
            integrator.addHolonomicConstraint([0, 1], "distance(p1,p2)-0.0957")
        bond = openmm.CustomBondForce("1.5e5*(r-0.0957)^2+0.5*cos(theta)")
        bond.addGlobalParameter("theta", 0.5)
        bond.addBond(0, 1)
        waters.system.addForce(bond)
        context = openmm.Context(waters.system, integrator, openmm.Platform.getPlatform({name!r}), {properties!r})
        context.setPositions(waters.positions)
        context.setVelocitiesToTemperature(300, 1)
        integrator.step(3)
        return positions_of(context), integrator.describeStiffMotion()
    (before, description), (after, other) = both(steps)
    assert np.isfinite(before).all() and description == other, (description, other)
    # The random numbers of Reference, OpenMM's, go on from one Context to the next: with them, no more than 0.01 nm.
    bound = 0.01 if hasattr(cls, "setFriction") else 1e-13
    assert np.abs(after - before).max() <= bound, (cls, np.abs(after - before).max())
""")
