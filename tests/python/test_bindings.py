"""The integrators in Python: arguments, units, docstrings, errors, and use wherever OpenMM takes an integrator."""

import gc
import inspect
import itertools
import threading
import time

import numpy as np
import openmm
import openmmstiff
import pytest
from conftest import CLASSES, INTEGRATORS, Waters, create, has_heat_bath, names_of, positions_of
from openmm import app, unit
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
                         MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)


def langevin():
    return ZhangSkeelLangevinIntegrator(300, 1, 0.002)


def impulse():
    return ImpulseLangevinIntegrator(300, 1, 0.002)


@pytest.fixture(params=INTEGRATORS, ids=lambda cls: cls.__name__)
def integrator(request):
    return create(request.param)


# ---- Arguments ----

def test_constructors_have_named_arguments():
    for cls in INTEGRATORS:
        assert list(inspect.signature(cls).parameters) == (
            ["temperature", "frictionCoeff", "stepSize"] if has_heat_bath(cls) else
            ["macroStepSize", "angularFrequency"] if cls is HMMIntegrator else ["stepSize"])


@pytest.mark.parametrize("name, arguments", [
    ("step", ["steps"]),
    ("setBeta", ["beta"]),
    ("setMethod", ["method"]),
    ("setNewtonTolerance", ["tolerance"]),
    ("getNumNewtonIterations", []),
    ("setStiffForceGroups", ["groups"]), ("setUseDefaultStiffForceGroups", ["use"]),
    ("setTemperature", ["temperature"]),
    ("setFriction", ["frictionCoeff"]),
    ("setRandomNumberSeed", ["seed"]),
    ("setThermalizeStiffModes", ["thermalize"]),
    ("getPropagatedPositions", ["asNumpy"]),
])
def test_methods_have_named_arguments(name, arguments):
    assert list(inspect.signature(getattr(langevin(), name)).parameters) == arguments


@pytest.mark.parametrize("name, arguments", [
    ("setKick", ["kick"]), ("setProjectedPeriod", ["period"]), ("setNumMicroSteps", ["number"]),
    ("setUseDefaultNumMicroSteps", ["use"]), ("computeNumMicroSteps", []),
    ("setStiffForceGroups", ["groups"])])
def test_methods_of_the_impulse_integrators_have_named_arguments(name, arguments):
    assert list(inspect.signature(getattr(impulse(), name)).parameters) == arguments


@pytest.mark.parametrize("name, arguments", [
    ("setPenalizedPeriod", ["period"]), ("setUseDefaultPenalizedPeriod", ["use"]), ("setUseBondedForces", ["use"]),
    ("setBondInertia", ["inertia"]), ("setUseDefaultBondInertia", ["use"]),
    ("addBondInertia", ["particle1", "particle2", "inertia"]), ("getBondInertiaParameters", ["index"]),
    ("setBondInertiaParameters", ["index", "particle1", "particle2", "inertia"]), ("getNumBondInertias", []),
    ("computeNumInertialBonds", []), ("getInertialBondParameters", ["index"]),
    ("setMetricCorrection", ["correct"]), ("addPair", ["particle1", "particle2", "inertia"]), ("getNumPairs", []),
    ("getPairParameters", ["index"]),
    ("setPairParameters", ["index", "particle1", "particle2", "inertia"]), ("computeNumPenalizedPairs", []),
    ("getPenalizedPairParameters", ["index"])])
def test_methods_of_the_mass_penalty_integrators_have_named_arguments(name, arguments):
    integrator = MassPenaltyLangevinIntegrator(300, 1, 0.004)
    assert list(inspect.signature(getattr(integrator, name)).parameters) == arguments


@pytest.mark.parametrize("name, arguments", [
    ("setAngularFrequency", ["frequency"]), ("setPhaseParameter", ["name"]), ("setFilter", ["filter"]),
    ("setMacroMethod", ["method"]), ("setNumMicroStepsPerPeriod", ["number"]), ("setNumPeriods", ["number"]),
    ("setVibratedForceGroups", ["groups"]), ("setUseDefaultVibratedForceGroups", ["use"]),
    ("computeNumMicroEvaluations", [])])
def test_methods_of_the_hmm_integrator_have_named_arguments(name, arguments):
    assert list(inspect.signature(getattr(HMMIntegrator(0.01, 1e4), name)).parameters) == arguments


SOFTNESS = ["compliance", "damping"]


@pytest.mark.parametrize("name, arguments", [
    ("setCompliance", ["compliance"]), ("setVelocityCompliance", ["compliance"]), ("setDamping", ["damping"]),
    ("setDampingSteps", ["steps"]), ("setUseDampingSteps", ["use"]),
    ("setSystemConstraintParameters", ["constraint", *SOFTNESS]), ("getSystemConstraintParameters", ["constraint"]),
    ("addDistanceConstraint", ["particle1", "particle2", "distance", *SOFTNESS]),
    ("setDistanceConstraintParameters", ["index", "particle1", "particle2", "distance", *SOFTNESS]),
    ("addPositionConstraint", ["particle", "position", *SOFTNESS]),
    ("setPositionConstraintParameters", ["index", "particle", "position", *SOFTNESS]),
    ("addHolonomicConstraint", ["particles", "expression", *SOFTNESS]),
    ("setHolonomicConstraintParameters", ["index", "particles", "expression", *SOFTNESS]),
    ("addVelocityConstraint", ["particles", "coefficients", "rate", "compliance"]),
    ("setVelocityConstraintParameters", ["index", "particles", "coefficients", "rate", "compliance"]),
    ("computeViolations", []), ("getMultipliers", [])])
def test_methods_of_the_spook_integrator_have_named_arguments(name, arguments):
    assert list(inspect.signature(getattr(SpookIntegrator(0.002), name)).parameters) == arguments


def test_arguments_may_be_passed_by_name():
    integrator = ZhangSkeelLangevinIntegrator(stepSize=0.002, temperature=310, frictionCoeff=5)
    integrator.setBeta(beta=0.3)
    assert integrator.getTemperature() == 310*unit.kelvin
    assert integrator.getFriction() == 5/unit.picosecond
    assert integrator.getStepSize() == 0.002*unit.picoseconds
    assert integrator.getBeta() == 0.3


def test_defaults_are_those_of_openmm():
    integrator, native = langevin(), openmm.LangevinMiddleIntegrator(300, 1, 0.002)
    for getter in ("getConstraintTolerance", "getRandomNumberSeed", "getIntegrationForceGroups"):
        assert getattr(integrator, getter)() == getattr(native, getter)()
    assert integrator.getBeta() == 0.25
    assert integrator.getUseDefaultStiffForceGroups() is True
    assert integrator.getThermalizeStiffModes() is True
    for getter in ("getConstraintTolerance", "getRandomNumberSeed", "getIntegrationForceGroups"):
        assert getattr(impulse(), getter)() == getattr(native, getter)()
    assert impulse().getKick() == ImpulseIntegrator.Projected
    assert impulse().getUseDefaultNumMicroSteps() is True
    assert impulse().getProjectedPeriod() == 20*unit.femtoseconds


def test_enumerations_are_integers_with_names():
    integrator = impulse()
    names = ("Plain", "Mollified", "Projected")
    assert len({getattr(ImpulseIntegrator, name) for name in names}) == 3
    for name in names:
        value = getattr(ImpulseIntegrator, name)
        integrator.setKick(np.int64(value))
        assert integrator.getKick() == value
        assert f"\n{name} : int\n" in inspect.getdoc(ImpulseIntegrator)
    with pytest.raises(openmm.OpenMMException, match="no kick number 7"):
        integrator.setKick(7)
    with pytest.raises(TypeError, match="kick must be an integer"):
        integrator.setKick("Projected")
    assert integrator.getKick() == value


def test_numpy_numbers_are_accepted():
    integrator = ZhangSkeelLangevinIntegrator(np.float32(300), np.int64(1), np.float64(0.002))
    integrator.setRandomNumberSeed(np.int64(7))
    integrator.setStiffForceGroups(np.int32(6))
    integrator.setThermalizeStiffModes(np.bool_(False))
    assert integrator.getTemperature() == 300*unit.kelvin
    assert integrator.getRandomNumberSeed() == 7
    assert integrator.getStiffForceGroups() == 6
    assert integrator.getThermalizeStiffModes() is False


# ---- Units ----

def test_units_are_converted():
    integrator = ZhangSkeelLangevinIntegrator(300*unit.kelvin, 0.001/unit.femtosecond, 2*unit.femtoseconds)
    assert integrator.getTemperature().value_in_unit(unit.kelvin) == 300
    assert integrator.getFriction().value_in_unit(unit.picosecond**-1) == pytest.approx(1)
    assert integrator.getStepSize().value_in_unit(unit.picosecond) == pytest.approx(0.002)
    integrator.setFriction(0.002/unit.femtosecond)
    assert integrator.getFriction().value_in_unit(unit.picosecond**-1) == pytest.approx(2)


@pytest.mark.parametrize("call", [
    lambda integrator: ZhangSkeelIntegrator(1*unit.kelvin),
    lambda integrator: ZhangSkeelLangevinIntegrator(300*unit.kelvin, 1*unit.picosecond, 0.002),
    lambda integrator: integrator.setTemperature(300*unit.kilojoule_per_mole),
    lambda integrator: integrator.setFriction(1*unit.picosecond),
    lambda integrator: integrator.setBeta(0.25*unit.nanometer),
    lambda integrator: integrator.setStepSize(1*unit.nanometer),
    lambda integrator: impulse().setProjectedPeriod(1*unit.kelvin),
])
def test_wrong_dimension_is_a_type_error(call):
    with pytest.raises(TypeError):
        call(langevin())


def test_error_for_a_wrong_dimension_names_argument_and_unit():
    with pytest.raises(TypeError, match="temperature must be a quantity in kelvin, not in nanometer"):
        langevin().setTemperature(3*unit.nanometer)
    with pytest.raises(TypeError, match="beta must be a plain number, not in kelvin"):
        langevin().setBeta(0.25*unit.kelvin)


@pytest.mark.parametrize("value", ["300", None, [300], 300j])
def test_what_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match="temperature must be a number"):
        langevin().setTemperature(value)


@pytest.mark.parametrize("call", [
    lambda integrator: integrator.step(1.5),
    lambda integrator: integrator.setRandomNumberSeed("7"),
    lambda integrator: integrator.setThermalizeStiffModes("no"),
])
def test_other_arguments_are_checked(call):
    with pytest.raises(TypeError, match="must be"):
        call(langevin())


# An argument of each name that does no harm.
GOOD = {"frictionCoeff": 1, "stepSize": 0.001, "macroStepSize": 0.001, "frequency": 1e5, "angularFrequency": 1e5, "steps": 0, "size": 0.001,
        "tol": 1e-5, "beta": 0.25, "method": 0, "tolerance": 1e-5, "groups": 1, "seed": 1, "thermalize": True, "kick": 0,
        "period": 0.02, "number": 8, "use": True, "correct": True, "index": 0, "particle1": 0, "particle2": 1,
        "inertia": 1, "compliance": 0, "damping": 0.01, "constraint": 0, "distance": 0.1, "particle": 0,
        "position": [0, 0, 0], "particles": [0], "expression": "x1", "coefficients": ["1", "0", "0"], "rate": "0",
        "filter": 0, "name": "theta", "temperature": 300, "randomSeed": 1}
# What no argument can be.
WRONG = [None, object(), {}, b"1", [None, None, None], 5*unit.second**2, 1j, np.complex128(1), np.array("a"),
         lambda: None]


@pytest.mark.parametrize("cls", INTEGRATORS, ids=lambda cls: cls.__name__)
def test_wrong_arguments_are_named(cls):
    """Each argument of each method, the constructor's and those of OpenMM's Integrator included."""
    integrator = create(cls)
    calls = [cls] + [getattr(integrator, name) for name in names_of(cls)
                     if name.startswith(("set", "get", "add", "compute", "step"))]
    for call in calls:
        names = [name for name in inspect.signature(call).parameters if name != "asNumpy"]
        for wrong, name in itertools.product(WRONG, names):
            arguments = [wrong if each == name else GOOD[each] for each in names]
            with pytest.raises((TypeError, ValueError), match=name):
                call(*arguments)


@pytest.mark.parametrize("call, message", [
    (lambda: langevin().setTemperature(10**400), "temperature is too large"),
    (lambda: langevin().setTemperature(np.str_("300")), "temperature must be a number"),
    (lambda: SpookIntegrator(0.002).addHolonomicConstraint(5*unit.kelvin, "x1", 0, 0), "particles must be a sequence"),
    (lambda: SpookIntegrator(0.002).addHolonomicConstraint(np.array(5), "x1", 0, 0), "particles must be a sequence"),
    (lambda: SpookIntegrator(0.002).addPositionConstraint(0, np.array(5), 0, 0), "position must have three components"),
    (lambda: langevin().step(2.5), "steps must be an integer, not 2.5"),
    (lambda: langevin().step(-1), "steps must not be negative, but is -1"),
    (lambda: langevin().step(2**40), "steps must fit into 32 bits"),
    (lambda: langevin().setStepSize("4"), r"size must be a number \[ps\] or a Quantity, not '4'"),
    (lambda: langevin().setStepSize(4*unit.nanometer), "size must be a quantity in picosecond, not in nanometer"),
    (lambda: langevin().setConstraintTolerance([1e-5]), r"tol must be a number, not \[1e-05\]"),
    (lambda: langevin().setConstraintTolerance(1*unit.nanometer), "tol must be a plain number"),
    (lambda: langevin().setIntegrationForceGroups([1]), "groups must be a set of force groups or an int"),
    (lambda: langevin().setIntegrationForceGroups({32}), "there is no force group 32; they go from 0 to 31"),
    (lambda: langevin().setIntegrationForceGroups(2**32), "groups must be the bit flags of 32 force groups"),
    (lambda: langevin().setIntegrationForceGroups(set()), "groups is an empty set; pass 0 to leave out all forces"),
    (lambda: langevin().setStiffForceGroups(set()), r"groups is an empty set; call setUseDefaultStiffForceGroups\(True\)"),
])
def test_errors_say_which_argument_and_why(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_setters_of_openmm_do_what_they_did():
    integrator, native = langevin(), openmm.VerletIntegrator(0.002)
    for each in (integrator, native):
        each.setStepSize(4*unit.femtoseconds)
        each.setConstraintTolerance(np.float64(1e-7))
        each.setIntegrationForceGroups({0, 31})
    for getter in ("getStepSize", "getConstraintTolerance", "getIntegrationForceGroups"):
        assert getattr(integrator, getter)() == getattr(native, getter)()
    integrator.setStepSize(0.003)
    assert integrator.getStepSize() == 0.003*unit.picoseconds
    integrator.setIntegrationForceGroups(0)
    assert integrator.getIntegrationForceGroups() == 0


# ---- Force groups ----

@pytest.mark.parametrize("groups, mask", [
    ({0}, 1), ({1, 3}, 0b1010), (frozenset({2}), 4), (0b1010, 0b1010), ({31}, -2**31), (2**31, -2**31),
    (0xFFFFFFFF, -1), (-1, -1)])
def test_stiff_force_groups_are_a_set_or_an_int(groups, mask):
    integrator = ZhangSkeelIntegrator(0.002)
    integrator.setStiffForceGroups(groups)
    assert integrator.getStiffForceGroups() == mask


@pytest.mark.parametrize("groups", [{1, 3}, {31}, 5, 0xFFFFFFFF])
def test_stiff_force_groups_agree_with_integration_force_groups(groups):
    """OpenMM's own setter must read the same argument as the same groups."""
    integrator = ZhangSkeelIntegrator(0.002)
    integrator.setStiffForceGroups(groups)
    integrator.setIntegrationForceGroups(groups)
    assert integrator.getStiffForceGroups() == integrator.getIntegrationForceGroups()


@pytest.mark.parametrize("groups, error", [
    ({32}, ValueError), ({-1}, ValueError), (set(), ValueError), (2**32, ValueError), ([1], TypeError),
    ("1", TypeError), ({"1"}, TypeError), (1.0, TypeError)])
def test_what_names_no_force_groups_is_an_error(groups, error):
    with pytest.raises(error):
        ZhangSkeelIntegrator(0.002).setStiffForceGroups(groups)


# ---- Classes and documentation ----

def test_class_hierarchy():
    assert issubclass(StiffIntegrator, openmm.Integrator)
    assert issubclass(ZhangSkeelIntegrator, StiffIntegrator)
    assert issubclass(ZhangSkeelLangevinIntegrator, ZhangSkeelIntegrator)
    assert has_heat_bath(ZhangSkeelLangevinIntegrator)
    assert issubclass(ImpulseIntegrator, StiffIntegrator)
    assert issubclass(ImpulseLangevinIntegrator, ImpulseIntegrator)
    assert has_heat_bath(ImpulseLangevinIntegrator)
    assert issubclass(MassPenaltyLangevinIntegrator, MassPenaltyIntegrator)
    assert has_heat_bath(MassPenaltyLangevinIntegrator)
    assert {cls for cls in INTEGRATORS if hasattr(cls, "setStiffForceGroups")} == {
        ZhangSkeelIntegrator, ZhangSkeelLangevinIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator}
    assert {SpookIntegrator, HMMIntegrator} < set(INTEGRATORS)


def test_the_abstract_class_cannot_be_created():
    with pytest.raises(AttributeError, match="No constructor"):
        StiffIntegrator()


INTERNAL = [openmmstiff._wrapped._LangevinThermostat, openmmstiff._wrapped._StiffForceSelection]


def public_methods(cls):
    return [(cls, name) for name in names_of(cls) if name in vars(cls)
            and callable(getattr(cls, name)) and (not name.startswith("_") or
                                                  name == "__init__" and cls in INTEGRATORS)]


@pytest.mark.parametrize("cls", CLASSES)
def test_classes_are_documented(cls):
    assert len(cls.__doc__) > 100


@pytest.mark.parametrize("cls, name", [pair for cls in [*CLASSES, *INTERNAL] for pair in public_methods(cls)],
                         ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_methods_are_documented(cls, name):
    """NumPy style: each argument has its entry, and so has what a getter returns."""
    documentation = inspect.getdoc(getattr(cls, name))
    for argument in list(inspect.signature(getattr(cls, name)).parameters):
        if argument != "self":
            assert f"\n{argument} : " in documentation
    if name.startswith(("get", "compute")):
        assert "\nReturns\n-------\n" in documentation


@pytest.mark.parametrize("name, symbol", [
    ("setTemperature", "[K]"), ("getTemperature", "[K]"), ("setFriction", "[1/ps]"), ("getFriction", "[1/ps]"),
    ("__init__", "[ps]"), ("getPropagatedPositions", "[nm]"), ("computeSystemTemperature", "[K]")])
def test_docstrings_name_the_units(name, symbol):
    assert symbol in getattr(ZhangSkeelLangevinIntegrator, name).__doc__


# ---- Errors from C++ ----

@pytest.mark.parametrize("call", [
    lambda: ZhangSkeelLangevinIntegrator(-1, 1, 0.002),
    lambda: ZhangSkeelLangevinIntegrator(300, -1, 0.002),
    lambda: ZhangSkeelIntegrator(0.002).setBeta(-0.1),
    lambda: langevin().setTemperature(float("nan")),
    lambda: ImpulseLangevinIntegrator(300, -1, 0.002),
    lambda: ImpulseIntegrator(0.002).setNumMicroSteps(-1),
    lambda: ImpulseIntegrator(0.002).setProjectedPeriod(-1*unit.femtoseconds),
])
def test_refused_settings_are_openmm_exceptions(call):
    with pytest.raises(openmm.OpenMMException):
        call()


def test_a_refused_setting_changes_nothing():
    integrator = langevin()
    with pytest.raises(openmm.OpenMMException):
        integrator.setTemperature(-1)
    assert integrator.getTemperature() == 300*unit.kelvin


@pytest.mark.parametrize("call", [
    lambda integrator: integrator.step(1),
    lambda integrator: integrator.getPropagatedPositions(),
    lambda integrator: integrator.computeSystemTemperature(),
])
def test_methods_that_need_a_context_say_so(call):
    with pytest.raises(openmm.OpenMMException, match="not bound to a context"):
        call(langevin())
    with pytest.raises(openmm.OpenMMException, match="not bound to a context"):
        impulse().computeNumMicroSteps()


def test_an_integrator_serves_one_context(waters, integrator, platform):
    context = waters.context(integrator, platform)
    with pytest.raises(openmm.OpenMMException, match="already bound to a context"):
        openmm.Context(waters.system, integrator, platform)
    assert context.getIntegrator() is integrator


# ---- Where OpenMM takes an integrator ----

def test_in_a_context(waters, integrator, platform):
    context = waters.context(integrator, platform)
    integrator.step(2)
    integrator.step(3)
    assert context.getStepCount() == 5
    assert context.getTime().value_in_unit(unit.picosecond) == pytest.approx(0.01)
    assert not np.array_equal(positions_of(context), waters.positions)


def test_in_a_simulation_with_reporters(waters, platform, tmp_path):
    integrator = langevin()
    simulation = waters.simulation(integrator, platform)
    table = tmp_path / "state.csv"
    simulation.reporters.append(app.StateDataReporter(str(table), 5, step=True, temperature=True, totalEnergy=True))
    simulation.reporters.append(app.DCDReporter(str(tmp_path / "trajectory.dcd"), 5))
    simulation.step(5)
    temperature = integrator.computeSystemTemperature().value_in_unit(unit.kelvin)
    step, _, reported = map(float, table.read_text().splitlines()[1].split(","))
    assert step == 5
    assert reported == pytest.approx(temperature, rel=1e-6)


def test_in_a_compound_integrator(waters, platform):
    """The CompoundIntegrator takes possession: the Python object must not delete the integrator as well."""
    compound = openmm.CompoundIntegrator()
    ours = langevin()
    compound.addIntegrator(ours)
    compound.addIntegrator(openmm.VerletIntegrator(0.001))
    compound.addIntegrator(ZhangSkeelIntegrator(0.002))     # nothing but the compound keeps this one
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


def test_propagated_positions_have_units_and_shapes(waters, platform):
    integrator = langevin()
    context = waters.context(integrator, platform)
    integrator.step(1)
    vectors = integrator.getPropagatedPositions()
    array = integrator.getPropagatedPositions(asNumpy=True)
    assert vectors.unit == unit.nanometer and array.unit == unit.nanometer
    assert all(isinstance(vector, openmm.Vec3) for vector in vectors.value_in_unit(unit.nanometer))
    assert array.shape == (context.getSystem().getNumParticles(), 3)
    assert array.dtype == np.float64
    assert np.array_equal(np.array(vectors.value_in_unit(unit.nanometer)), array.value_in_unit(unit.nanometer))
    array[0, 0] = 0*unit.nanometer      # the caller's own copy


def test_python_threads_run_during_step(platform):
    """step() must release Python's lock: another thread gets its turn in the middle of a long call."""
    integrator = ZhangSkeelIntegrator(0.0005)
    waters = Waters(30)
    context = waters.context(integrator, platform)
    steps, duration = 1, 0.0
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        while duration < 0.1:
            steps *= 2
            start = time.perf_counter()
            integrator.step(steps)
            duration = time.perf_counter() - start
    finally:
        done.set()
        thread.join()
    assert any(start + 0.2*duration < moment < start + 0.8*duration for moment in ticks)
    assert context.getStepCount() == 2*steps - 2
