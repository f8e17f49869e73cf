"""The integrators in Python: arguments, units, docstrings, errors, and use wherever OpenMM takes an integrator."""

import gc
import inspect
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openmm
import openmmstiff
import pytest
from openmm import OpenMMException, unit

import api
from conftest import CLASSES, INTEGRATORS, Waters, create, has_heat_bath, positions_of
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
                         MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)
from openmmstiff._conversions import UNITS
from systems import system_of

for_each = pytest.mark.parametrize("cls", INTEGRATORS)


def langevin():
    return ZhangSkeelLangevinIntegrator(300, 1, 0.002)


# ---- Names ----

def test_public_names_and_bases():
    assert set(openmmstiff.__all__) == {cls.__name__ for cls in api.INTEGRATORS} | api.OTHER_NAMES
    assert all(getattr(openmmstiff, name).__module__ == "openmmstiff" for name in openmmstiff.__all__)
    assert set(INTEGRATORS) == set(api.INTEGRATORS) and issubclass(StiffIntegrator, openmm.Integrator)
    for cls, row in api.INTEGRATORS.items():
        assert issubclass(cls, row.base)
        assert has_heat_bath(cls) == (row.arguments == api.HEAT_BATH)
        assert hasattr(cls, "setStiffForceGroups") == issubclass(cls, (ZhangSkeelIntegrator, ImpulseIntegrator))
    with pytest.raises(AttributeError, match="No constructor"):
        StiffIntegrator()


@pytest.mark.parametrize("name", [name for name in openmmstiff.__all__ if name != "StiffIntegrator"])
def test_arguments_have_their_names(name):
    """Those of the table, which has an argument for each."""
    def names(function):
        return [each for each in inspect.signature(function).parameters if each != "self"]

    item = getattr(openmmstiff, name)
    assert names(item) == list(api.arguments_of(name))
    for method in api.methods_of(item) if inspect.isclass(item) else ():
        assert names(getattr(item, method)) == list(api.arguments_of(name, method)), method


@pytest.mark.parametrize("name", openmmstiff.__all__)
def test_classes_and_functions_are_documented(name):
    assert len(getattr(openmmstiff, name).__doc__) > 100


INTERNAL = [item for name, item in vars(openmmstiff._wrapped).items()
            if isinstance(item, type) and name.startswith("_") and not name.startswith("_Swig")]


@pytest.mark.parametrize("cls, name", [
    (cls, name) for cls in [*CLASSES, *INTERNAL]
    for name in [*api.methods_of(cls), *(["__init__"] if cls in INTEGRATORS else [])] if name in vars(cls)])
def test_methods_are_documented(cls, name):
    """NumPy style: each argument has its entry, and so has what a getter returns."""
    documentation = inspect.getdoc(getattr(cls, name))
    for argument in list(inspect.signature(getattr(cls, name)).parameters):
        if argument != "self":
            assert f"\n{argument} : " in documentation
    if name.startswith(("get", "compute")):
        assert "\nReturns\n-------\n" in documentation


@pytest.mark.parametrize("cls", CLASSES)
def test_docstrings_name_the_units(cls):
    """Of arguments, of what is returned for them, and of results."""
    def named(method, quantity):
        text = inspect.getdoc(getattr(cls, method))
        return any(f"[{symbol}" in text or f"{symbol}]" in text for symbol, unit_ in UNITS.items()
                   if symbol and unit_ == quantity.unit)

    methods = api.methods_of(cls)
    for method in ["__init__", *methods] if cls in INTEGRATORS else []:
        for value in api.arguments_of(cls.__name__, None if method == "__init__" else method).values():
            if unit.is_quantity(value):
                names = {method, method.replace("set", "get")} & {"__init__", *methods} - {"getStepSize"}   # OpenMM's
                assert all(named(each, value) for each in names), method
    for method, symbol in ("getPropagatedPositions", "[nm]"), ("computeSystemTemperature", "[K]"):
        assert method not in methods or symbol in getattr(cls, method).__doc__


# ---- Values ----

@for_each
def test_arguments_may_be_passed_by_name(cls):
    """In any order and with their units, and what they are can be got."""
    given, names = api.arguments_of(cls.__name__), {"frictionCoeff": "Friction", "macroStepSize": "StepSize"}
    integrator = cls(**dict(reversed(given.items())))
    for name, value in given.items():
        assert getattr(integrator, "get" + names.get(name, name[0].upper() + name[1:]))() == value


def test_defaults():
    native = openmm.LangevinMiddleIntegrator(300, 1, 0.002)
    for cls in INTEGRATORS:
        integrator = create(cls)
        for name in ("ConstraintTolerance", "RandomNumberSeed", "IntegrationForceGroups"):
            if hasattr(integrator, "get" + name):
                assert getattr(integrator, "get" + name)() == getattr(native, "get" + name)()
        for name in api.methods_of(cls):
            if name.startswith("getUseDefault") or name in ("getThermalizeStiffModes", "getMetricCorrection"):
                assert getattr(integrator, name)() is True
    assert langevin().getBeta() == 0.25
    impulse = ImpulseLangevinIntegrator(300, 1, 0.002)
    assert impulse.getKick() == ImpulseIntegrator.Projected
    assert impulse.getProjectedPeriod() == 20*unit.femtoseconds


K, PS, FS = unit.kelvin, unit.picosecond, unit.femtosecond
KICKS = ["Plain", "Mollified", "Projected"]
ACCEPTED = [    # class, setting, what is given, what it is then
    (ZhangSkeelLangevinIntegrator, "Temperature", np.float32(310), 310*K),
    (ZhangSkeelLangevinIntegrator, "Friction", np.int64(2), 2/PS),
    (ZhangSkeelLangevinIntegrator, "Friction", 0.002/FS, 2/PS),
    *((ZhangSkeelLangevinIntegrator, "RandomNumberSeed", given, 7) for given in (np.int64(7), 7.0, np.float32(7))),
    (ZhangSkeelLangevinIntegrator, "ThermalizeStiffModes", np.bool_(False), False),
    # OpenMM's own, which do what they did.
    *((cls, name, given, found) for cls in (ZhangSkeelLangevinIntegrator, openmm.VerletIntegrator)
      for name, given, found in [("StepSize", np.float64(0.003), 0.003*PS), ("StepSize", 4*FS, 0.004*PS),
                                 ("ConstraintTolerance", np.float64(1e-7), 1e-7), ("ConstraintTolerance", 1e-5, 1e-5),
                                 ("IntegrationForceGroups", {0, 31}, 1 - 2**31), ("IntegrationForceGroups", 0, 0)]),
    *((ImpulseIntegrator, "Kick", np.int64(getattr(ImpulseIntegrator, name)), number)
      for number, name in enumerate(KICKS)),
    *((ZhangSkeelIntegrator, f"{kind}ForceGroups", groups, mask) for kind in ("Stiff", "Integration")
      for groups, mask in [({0}, 1), ({1, 3}, 0b1010), (frozenset({2}), 4), (0b1010, 0b1010), (np.int32(6), 6),
                           ({31}, -2**31), (2**31, -2**31), (0xFFFFFFFF, -1), (-1, -1)])]


@pytest.mark.parametrize("cls, name, given, expected", ACCEPTED)
def test_what_setters_accept_is_what_getters_return(cls, name, given, expected):
    integrator = create(cls)
    getattr(integrator, "set" + name)(given)
    found = getattr(integrator, "get" + name)()
    assert type(found) is type(expected)
    if unit.is_quantity(found):
        assert found.unit == expected.unit
        found, expected = found._value, pytest.approx(expected._value, rel=1e-15)
    assert found == expected


@pytest.mark.parametrize("arguments", [(np.float32(300), np.int64(1), np.float64(0.002)), (300*K, 0.001/FS, 2*FS)])
def test_constructors_take_numbers_of_numpy_and_units(arguments):
    integrator = ZhangSkeelLangevinIntegrator(*arguments)
    assert [integrator.getTemperature()/K, integrator.getFriction()*PS, integrator.getStepSize()/PS] == pytest.approx(
        [300, 1, 0.002], rel=1e-15)


@pytest.mark.parametrize("cls, name", [(cls, name) for cls in CLASSES for name, value in vars(cls).items()
                                       if isinstance(value, int) and not name.startswith("_")])
def test_enumerations_are_documented(cls, name):
    assert f"\n{name} : int\n" in inspect.getdoc(cls)


# ---- Errors ----

# What no argument can be.
WRONG = [None, object(), {}, b"1", [None, None, None], 5*unit.second**2, 1j, np.complex128(1), np.array("a"),
         lambda: None]


@for_each
def test_wrong_arguments_are_named(cls):
    """Each argument of each method, the constructor's and those of OpenMM's Integrator included."""
    integrator = create(cls)
    for method in [None, *(name for name in api.methods_of(cls)
                           if name.startswith(("set", "get", "add", "compute", "step")))]:
        good = api.arguments_of(cls.__name__, method)
        for wrong, name in itertools.product(WRONG, [name for name in good if name != "asNumpy"]):
            with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
                (getattr(integrator, method) if method else cls)(**{**good, name: wrong})


NAN, NM = float("nan"), unit.nanometer
ZS, IMPULSE, PENALTY, SPOOK = ZhangSkeelLangevinIntegrator, ImpulseIntegrator, MassPenaltyIntegrator, SpookIntegrator
REFUSED = [     # class, method (none for the constructor), arguments, error, message
    (ZS, None, [300, 1*unit.picosecond, 0.002], TypeError, "frictionCoeff must be a quantity in /picosecond"),
    (IMPULSE, None, [1*unit.kelvin], TypeError, "stepSize must be a quantity in picosecond, not in kelvin"),
    (ZS, None, [-1, 1, 0.002], OpenMMException, "Temperature"),
    *((cls, None, [300, -1, 0.002], OpenMMException, "Friction") for cls in (ZS, ImpulseLangevinIntegrator)),
    (ZS, "setTemperature", [3*NM], TypeError, "temperature must be a quantity in kelvin, not in nanometer"),
    *((ZS, "setTemperature", [value], TypeError, "temperature must be a number")
      for value in ("300", np.str_("300"), None, [300], 300j)),
    (ZS, "setTemperature", [10**400], ValueError, "temperature is too large"),
    (ZS, "setTemperature", [NAN], OpenMMException, "Temperature"),
    (ZS, "setFriction", [1*unit.picosecond], TypeError, "frictionCoeff must be a quantity in /picosecond"),
    (ZS, "setBeta", [0.25*unit.kelvin], TypeError, "beta must be a plain number, not in kelvin"),
    (ZS, "setBeta", [-0.1], OpenMMException, "[Bb]eta"),
    (ZS, "setRandomNumberSeed", ["7"], TypeError, "seed must be an integer, not '7'"),
    (ZS, "setThermalizeStiffModes", ["no"], TypeError, "thermalize must be True or False, not 'no'"),
    (ZS, "step", [1.5], TypeError, "steps must be an integer, not 1.5"),
    (ZS, "step", [-1], ValueError, "steps must not be negative, but is -1"),
    (ZS, "step", [2**40], ValueError, "steps must fit into 32 bits"),
    (ZS, "setStepSize", ["4"], TypeError, r"size must be a number \[ps\] or a Quantity, not '4'"),
    (ZS, "setStepSize", [4*NM], TypeError, "size must be a quantity in picosecond, not in nanometer"),
    (ZS, "setConstraintTolerance", [[1e-5]], TypeError, r"tol must be a number, not \[1e-05\]"),
    (ZS, "setConstraintTolerance", [1*NM], TypeError, "tol must be a plain number"),
    *((ZS, f"set{kind}ForceGroups", [groups], error, message) for kind in ("Integration", "Stiff")
      for groups, error, message in [
          ([1], TypeError, "groups must be a set of force groups or an int"),
          ("1", TypeError, "groups must be a set"), (1.0, TypeError, "groups must be a set"),
          ({"1"}, TypeError, "a force group must be an integer"),
          ({32}, ValueError, "there is no force group 32; they go from 0 to 31"),
          ({-1}, ValueError, "there is no force group -1"),
          (2**32, ValueError, "groups must be the bit flags of 32 force groups")]),
    (ZS, "setIntegrationForceGroups", [set()], ValueError, "groups is an empty set; pass 0 to leave out all forces"),
    *((ZS, "setStiffForceGroups", [none], ValueError, rf"groups is {text}; call setUseDefaultStiffForceGroups\(True\)")
      for none, text in ((set(), "an empty set"), (0, 0))),
    (IMPULSE, "setProjectedPeriod", [1*unit.kelvin], TypeError, "period must be a quantity in picosecond"),
    (IMPULSE, "setKick", ["Projected"], TypeError, "kick must be an integer"),
    (PENALTY, "addPair", [0, 1, 1*NM], TypeError, "inertia must be a quantity in dalton"),
    (PENALTY, "addPair", [0, 1, -1*unit.dalton], OpenMMException, "from 0 to"),
    (PENALTY, "setVelocitiesToTemperature", [1*NM], TypeError, "temperature must be a quantity in kelvin"),
    (HMMIntegrator, "setAngularFrequency", [3*unit.radian], TypeError, "frequency must be a quantity in /picosecond"),
    (SPOOK, "setCompliance", [1*NM], TypeError, "compliance must be"),
    (SPOOK, "addDistanceConstraint", [0, 1, 1*unit.kelvin], TypeError, "distance must be a quantity in nanometer"),
    *((SPOOK, "addPositionConstraint", [0, position], TypeError, "position must have three components")
      for position in (1.5, [1, 2], {3, 1, 2}, np.array(5))),
    (SPOOK, "addPositionConstraint", [0, [1, 2, 3]*unit.kelvin], TypeError, "position must be a vector in nanometer"),
    (SPOOK, "addPositionConstraint", [0, np.zeros((3, 2))], TypeError, "a component of position must be a number"),
    *((SPOOK, "addHolonomicConstraint", [particles, "x1"], TypeError, "particles must be a sequence of integers")
      for particles in (0, b"01", {0, 1}, 5*unit.kelvin, np.array(5))),
    (SPOOK, "addHolonomicConstraint", [[0.5], "x1"], TypeError, "an element of particles must be an integer"),
    (SPOOK, "addHolonomicConstraint", [[0], 3], TypeError, "expression must be a string"),
    (SPOOK, "addVelocityConstraint", [[0], "100"], TypeError, "coefficients must be a sequence of strings or num"),
    *((SPOOK, "addVelocityConstraint", [[0], values], TypeError, "an element of coefficients must be a string or")
      for values in ([0, 0, True], [None, 0, 0])),
    (SPOOK, "addVelocityConstraint", [[0], [1*unit.kelvin, 0, 0]], TypeError, "must be a plain number"),
    (SPOOK, "addVelocityConstraint", [[0], [1, 0, 0], False], TypeError, "rate must be a string or a number, not"),
    *((SPOOK, "addVelocityConstraint", [[0], [1, 0, 0], value], ValueError, "rate must be finite")
      for value in (NAN, float("-inf"))),
    *((SPOOK, f"add{kind}Constraint", [[0], wrap(text)], ValueError, message)
      for kind, wrap in (("Holonomic", str), ("Velocity", lambda text: [text, "0", "0"]))
      for text, message in (("\ud800", "cannot be encoded"), ("1\0x", "contains a null character"))),
]


@pytest.mark.parametrize("cls, method, arguments, error, message", REFUSED)
def test_errors_say_which_argument_and_why(cls, method, arguments, error, message):
    """And a setting that is refused stays what it was."""
    integrator = create(cls)
    before = openmm.XmlSerializer.serialize(integrator)
    with pytest.raises(error, match=message):
        (getattr(integrator, method) if method else cls)(*arguments)
    assert openmm.XmlSerializer.serialize(integrator) == before


# What is known without a Context, though it is neither a setting nor has been added.
KNOWN = {"cast", "isinstance", "describeKernels", "computeNumMicroEvaluations", "getNumCollisions",
         "getSystemConstraintsWithParameters"}


@for_each
def test_methods_that_need_a_context_say_so(cls):
    """All but those of settings and of what is added."""
    methods, asked = set(api.methods_of(cls)), []
    for name in sorted(methods - KNOWN):
        integrator, arguments = create(cls), api.arguments_of(cls.__name__, name)
        if name.endswith("Parameters") and f"add{name[3:-10]}" in methods:
            kind = name[3:-10]
            getattr(integrator, f"add{kind}")(**api.arguments_of(cls.__name__, f"add{kind}"))
        counts = name.startswith("getNum") and any(f"add{name[6:-length]}" in methods for length in (1, 2))
        if {f"get{name[3:]}", f"set{name[3:]}"} <= methods or name.startswith("add") or counts:
            getattr(integrator, name)(**arguments)
        else:
            asked.append(name)
            with pytest.raises(OpenMMException, match="not bound to a context|is to be called first"):
                getattr(integrator, name)(**arguments)
    assert {"step", "setVelocitiesToTemperature", "describeStiffMotion"} <= set(asked)


# ---- Where OpenMM takes an integrator ----

@for_each
def test_a_number_of_steps_may_be_a_float(cls, waters, platform):
    context = waters.context(create(cls), platform)
    for steps in 3.0, np.float32(2):
        context.getIntegrator().step(steps)
    assert context.getStepCount() == 5


@for_each
def test_in_a_context(cls, waters, platform):
    integrator = create(cls)
    context = waters.context(integrator, platform)
    integrator.step(5)
    assert not np.array_equal(positions_of(context), waters.positions)
    with pytest.raises(OpenMMException, match="already bound to a context"):
        openmm.Context(waters.system, integrator, platform)
    assert context.getIntegrator() is integrator


def test_in_a_compound_integrator(waters, platform):
    """The CompoundIntegrator takes possession: the Python object must not delete the integrator as well."""
    compound, ours = openmm.CompoundIntegrator(), langevin()
    for integrator in ours, openmm.VerletIntegrator(0.001), ZhangSkeelIntegrator(0.002):
        compound.addIntegrator(integrator)
    del integrator      # nothing but the compound keeps this one
    assert not ours.thisown
    context = waters.context(compound, platform)
    for index, step in enumerate([0.002, 0.001, 0.002]):
        compound.setCurrentIntegrator(index)
        before = context.getTime()
        compound.step(2)
        assert (context.getTime() - before).value_in_unit(unit.picosecond) == pytest.approx(2*step)
    ours.setTemperature(310)
    assert ZhangSkeelLangevinIntegrator.cast(compound.getIntegrator(0)).getTemperature() == 310*unit.kelvin
    del ours
    gc.collect()
    compound.setCurrentIntegrator(0)
    compound.step(1)


def test_a_compound_integrator_warns(platform):
    """At the line that called its step()."""
    compound = openmm.CompoundIntegrator()
    for each in openmm.VerletIntegrator(0.001), MassPenaltyIntegrator(0.001):
        compound.addIntegrator(each)
    context = openmm.Context(system_of([1]), compound, platform)
    context.setPositions([[0, 0, 0]])
    compound.setCurrentIntegrator(1)
    with pytest.warns(UserWarning, match="MassPenaltyIntegrator: there are no pairs") as warned:
        compound.step(1)
    assert warned[0].filename == __file__


def test_propagated_positions_have_units_and_shapes(waters, platform):
    integrator = langevin()
    context = waters.context(integrator, platform)
    integrator.step(1)
    vectors, array = integrator.getPropagatedPositions(), integrator.getPropagatedPositions(asNumpy=True)
    assert vectors.unit == unit.nanometer and array.unit == unit.nanometer
    assert all(isinstance(vector, openmm.Vec3) for vector in vectors._value)
    assert array.shape == (context.getSystem().getNumParticles(), 3) and array.dtype == np.float64
    assert np.array_equal(vectors._value, array._value)
    array[0, 0] = 0*unit.nanometer      # the caller's own copy


@pytest.mark.parametrize("method, arguments", [
    ("step", [1]), ("setVelocitiesToTemperature", [300, 1]), ("describeStiffMotion", [])])
def test_python_threads_run_during_step(method, arguments, platform):
    """And during what else computes forces: C++ must release Python's lock, so that another thread sees a call."""
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.008)
    _context = Waters(200).context(integrator, platform)
    inside, seen, interval, end = [], [], sys.getswitchinterval(), time.perf_counter() + 10

    def call():
        while not seen and time.perf_counter() < end:
            inside.append(True)
            getattr(integrator, method)(*arguments)
            inside.clear()

    sys.setswitchinterval(100)      # s: Python itself does not give the lock away
    try:
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(call)
            while not calling.done():
                seen += inside
                time.sleep(0.001)
            calling.result()
    finally:
        sys.setswitchinterval(interval)
    assert seen
