"""Every method of Context and of the integrators as the first call: before a step has found what is stiff, without
positions, and after Context.reinitialize(). It returns what is finite or raises, and a step works after it."""

import functools
import inspect
import numbers
import re
from pathlib import Path

import numpy as np
import openmm
import pytest
from api import names_of
from conftest import INTEGRATORS, create, water_cluster
from openmm import LocalEnergyMinimizer, State, XmlSerializer, app, unit
from openmmstiff import HMMIntegrator, ImpulseLangevinIntegrator, SpookIntegrator, ZhangSkeelIntegrator
from test_devices import run_with_opencl

pytestmark = pytest.mark.filterwarnings("ignore:.*(nothing is treated|fastest bonded motion):UserWarning")
NAMES = {"ids": lambda cls: cls.__name__}
BENT = np.array([(1.0, 0, 0), (0, 0, 0), (-0.3, 0.9, 0)])
WATER = np.array([(0, 0, 0), (0.0957, 0, 0), (-0.024, 0.0927, 0)])
MASSES = [16, 1, 1]


@pytest.fixture
def one_thread():
    """On the CPU platform a Context has one thread: thousands of Contexts are made here."""
    cpu = openmm.Platform.getPlatform("CPU")
    before = cpu.getPropertyDefaultValue("Threads")
    cpu.setPropertyDefaultValue("Threads", "1")
    yield
    cpu.setPropertyDefaultValue("Threads", before)


# ---- Systems ----


def system(positions, *forces, masses=(1,), constraints=(), site=False):
    """(System, positions), with the phase of HMMIntegrator for a global parameter; the last particle may be a site."""
    made = openmm.System()
    for i in range(len(positions)):
        made.addParticle(masses[i % len(masses)])
    for constraint in constraints:
        made.addConstraint(*constraint)
    if site:
        made.setParticleMass(len(positions) - 1, 0)
        made.setVirtualSite(len(positions) - 1, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))
    for each in forces:
        made.addForce(each)
    return with_phase(made), positions


def with_phase(made):
    """The System, with a force that depends on a phase, which an HMMIntegrator needs."""
    phase = force("CustomExternalForce", ["0.1*cos(theta)*x"], "addParticle", (0, []))
    phase.addGlobalParameter("theta", 0.5)
    made.addForce(phase)
    return made


def force(name, arguments, add, *terms):
    """A Force of a class, with terms."""
    made = getattr(openmm, name)(*arguments)
    for term in terms:
        getattr(made, add)(*term)
    return made


def centroids():
    made = openmm.CustomCentroidBondForce(2, "100*(distance(g1,g2)-1)^2")
    for i in range(2):
        made.addGroup([i])
    made.addBond([0, 1], [])
    return system(BENT[:2], made)


def amoeba():
    """A flexible water with AMOEBA's bond, angle and Urey-Bradley term, and its nonbonded forces."""
    topology, positions = water_cluster(1)
    made = app.ForceField("amoeba2018.xml").createSystem(topology, constraints=None, rigidWater=False,
                                                         polarization="direct")
    for index in reversed(range(made.getNumForces())):
        if isinstance(made.getForce(index), openmm.CustomCompoundBondForce):
            made.removeForce(index)     # they have no terms here, and to compile them takes OpenMM seconds
    return with_phase(made), positions - positions[0]


SYSTEMS = {
    "harmonic bond": lambda: system(BENT[:2], force("HarmonicBondForce", [], "addBond", (0, 1, 1, 200))),
    "angle without bonds": lambda: system(BENT, force("HarmonicAngleForce", [], "addAngle", (0, 1, 2, 1.9, 50))),
    "custom bond": lambda: system(BENT[:2], force("CustomBondForce", ["100*(r-1)^2"], "addBond", (0, 1, []))),
    "stiff custom bond": lambda: system(BENT[:2], force("CustomBondForce", ["1e5*(r-0.99)^2"], "addBond", (0, 1, []))),
    "custom angle": lambda: system(BENT, force("CustomAngleForce", ["50*(theta-1.9)^2"], "addAngle", (0, 1, 2, []))),
    "compound bond": lambda: system(BENT, force(
        "CustomCompoundBondForce", [3, "100*(distance(p1,p2)-1)^2+angle(p1,p2,p3)"], "addBond", ((0, 1, 2), []))),
    "centroid bond": centroids,
    "water of Morse bonds": lambda: system(
        WATER, force("CustomBondForce", ["400*(1-exp(-23*(r-0.0957)))^2"], "addBond", (0, 1, []), (0, 2, [])),
        force("HarmonicAngleForce", [], "addAngle", (1, 0, 2, 1.824, 400)), masses=MASSES),
    "constraints and a site": lambda: system([*BENT, (0.5, 0, 0)], constraints=[(0, 1, 1), (1, 2, 0.9**0.5)],
                                             site=True),
    "AMOEBA": amoeba}

# ---- Calls ----

STATE_PARTS = ["positions", "velocities", "forces", "energy", "parameters", "parameterDerivatives",
               "integratorParameters"]
# Those of Context with arguments. `donor` is a Context that has taken steps.
CONTEXT_CALLS = {
    **{f"getState({part})": lambda context, donor, part=part: context.getState(**{part: True}) for part in STATE_PARTS},
    "getState(all)": lambda context, donor: context.getState(**dict.fromkeys(STATE_PARTS, True)),
    "setState(own)": lambda context, donor: context.setState(context.getState(positions=True, velocities=True,
                                                                              integratorParameters=True)),
    "setState(another's)": lambda context, donor: context.setState(donor.getState(
        positions=True, velocities=True, parameters=True, integratorParameters=True)),
    "loadCheckpoint(own)": lambda context, donor: context.loadCheckpoint(context.createCheckpoint()),
    "loadCheckpoint(another's)": lambda context, donor: context.loadCheckpoint(donor.createCheckpoint()),
    "applyConstraints": lambda context, donor: context.applyConstraints(1e-5),
    "applyVelocityConstraints": lambda context, donor: context.applyVelocityConstraints(1e-5),
    "getParameter": lambda context, donor: context.getParameter("theta"),
    "setParameter": lambda context, donor: context.setParameter("theta", 1.0),
    "setParameter(unknown)": lambda context, donor: context.setParameter("unknown", 1.0),
    "setPeriodicBoxVectors": lambda context, donor: context.setPeriodicBoxVectors((4, 0, 0), (0, 5, 0), (0, 0, 6)),
    "setPositions": lambda context, donor: context.setPositions(donor.getState(positions=True).getPositions()),
    "setPositions(too few)": lambda context, donor: context.setPositions([(0, 0, 0)]),
    "setStepCount": lambda context, donor: context.setStepCount(7),
    "setTime": lambda context, donor: context.setTime(0.5),
    "setVelocities": lambda context, donor: context.setVelocities(np.zeros((context.getSystem().getNumParticles(), 3))),
    "setVelocitiesToTemperature": lambda context, donor: context.setVelocitiesToTemperature(300, 1),
    "reinitialize(False)": lambda context, donor: context.reinitialize(False),
    "reinitialize(True)": lambda context, donor: context.reinitialize(True),
    "LocalEnergyMinimizer": lambda context, donor: LocalEnergyMinimizer.minimize(context, 10, 3)}
# Those of the integrators with arguments. A set method that is not here gets what its get method returns.
ARGUMENTS = {
    "step": [(1,), (0,)], "setStepSize": [(0.001,)], "setIntegrationForceGroups": [({0},), (1,)],
    "setVelocitiesToTemperature": [(300, 1)], "describeKernels": [("Reference",)],
    "setRandomNumberSeed": [(3,)], "setTemperature": [(310,)], "setFriction": [(2,), (0,)],
    "setMethod": [(method,) for method in range(5)], "setBeta": [(0.3,), (0,)], "setThermalizeStiffModes": [(False,)],
    "setKick": [(kick,) for kick in range(3)], "setNumMicroSteps": [(10,)], "setNumMicroStepsPerPeriod": [(10,)],
    "setUseDefaultNumMicroSteps": [(True,)], "setProjectedPeriod": [(0,), (0.5,)],
    "setPenalizedPeriod": [(1,)], "setUseDefaultPenalizedPeriod": [(False,)],
    "setBondInertia": [(2,)], "setUseDefaultBondInertia": [(False,)],
    "setUseBondedForces": [(False,)], "setMetricCorrection": [(False,)],
    "addBondInertia": [(0, 1, 5)], "getBondInertiaParameters": [(0,)], "setBondInertiaParameters": [(0, 0, 1, 5)],
    "addPair": [(0, 1, 5)], "getPairParameters": [(0,)], "setPairParameters": [(0, 0, 1, 5)],
    "getPenalizedPairParameters": [(0,)], "getInertialBondParameters": [(0,)],
    "addDistanceConstraint": [(0, 1, 1)], "addPositionConstraint": [(0, (0.1, 0, 0))],
    "addHolonomicConstraint": [([0], "y1")], "addVelocityConstraint": [([0], [1, 0, 0])],
    "getDistanceConstraintParameters": [(0,)], "getPositionConstraintParameters": [(0,)],
    "getHolonomicConstraintParameters": [(0,)], "getVelocityConstraintParameters": [(0,)],
    "setDistanceConstraintParameters": [(0, 0, 1, 1)], "setPositionConstraintParameters": [(0, 0, (1, 0, 0))],
    "setHolonomicConstraintParameters": [(0, [0], "y1")], "setVelocityConstraintParameters": [(0, [0], [1, 0, 0])],
    "getSystemConstraintParameters": [(0,)], "setSystemConstraintParameters": [(0, 1e-4, 0)]}


def needs_arguments(method):
    return any(parameter.default is parameter.empty and parameter.kind in (
        parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name != "self"
        for parameter in inspect.signature(method).parameters.values())


def methods_of(cls):
    return {name: getattr(cls, name) for name in names_of(cls)
            if not name.startswith("_") and callable(getattr(cls, name))}


@functools.cache
def calls_of(cls):
    """{what: function of (context, donor)}, where the donor is another Context. None is left out."""
    calls = dict(CONTEXT_CALLS)
    for name, method in methods_of(openmm.Context).items():
        if not any(what.split("(")[0] == name for what in CONTEXT_CALLS):
            assert not needs_arguments(method), f"Context.{name}() is to be called with arguments"
            calls[name] = lambda context, donor, name=name: getattr(context, name)()
    methods = methods_of(cls)
    settings = [name[3:] for name in methods if name.startswith("set") and f"get{name[3:]}" in methods]
    calls["integrator.get...()"] = lambda context, donor: [getattr(context.getIntegrator(), f"get{name}")()
                                                           for name in settings if f"get{name}" not in ARGUMENTS]
    calls["integrator.set...()"] = lambda context, donor: set_again(context.getIntegrator(), settings)
    others = {name for name in methods if name[3:] not in settings} - {"cast", "isinstance"}
    for name in sorted(others | (methods.keys() & ARGUMENTS.keys())):
        assert name in ARGUMENTS or not needs_arguments(methods[name]), f"{name}() is to be called with arguments"
        for arguments in ARGUMENTS.get(name, [()]):
            calls[f"integrator.{name}{arguments}"] = lambda context, donor, name=name, arguments=arguments: getattr(
                context.getIntegrator(), name)(*arguments)
    return calls


def set_again(integrator, settings):
    """Set what is set, where nothing else is asked for."""
    for name in settings:
        if f"set{name}" not in ARGUMENTS and not getattr(integrator, f"getUseDefault{name}", bool)():
            getattr(integrator, f"set{name}")(getattr(integrator, f"get{name}")())


def require_finite(value):
    """Whatever a method has returned holds finite numbers only."""
    if isinstance(value, State):
        text = XmlSerializer.serialize(value).replace('inertia="Infinity"', "")     # that of a constraint
        assert not re.search(r'="-?(nan|inf)', text, re.IGNORECASE), text
    elif unit.is_quantity(value):
        require_finite(value._value)
    elif isinstance(value, (numbers.Number, np.ndarray)):
        assert np.isfinite(value).all(), value
    elif isinstance(value, dict) or hasattr(value, "asdict"):
        require_finite(list(dict(value).values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            require_finite(each)
    else:
        others = (type(None), str, bytes, openmm.System, openmm.Platform, openmm.Integrator)
        assert isinstance(value, others), value


def attempt(call, *arguments):
    """The message of the exception that a call raises, in words and not in C++'s; None if it returns something."""
    try:
        require_finite(call(*arguments))
    except (openmm.OpenMMException, TypeError, ValueError) as error:
        message = str(error)
        assert re.search(r"\w+ \w+ \w+", message) and not re.search("::|bad_|basic_string", message), message
        return message
    return None


# ---- Claims ----

# For speed, what asks neither for positions nor for forces is tried with one kind of System only, and what sets
# something with a few.
INDIFFERENT = re.compile(
    "(Constraint|Pair|Inertia|Bond)Parameters|describeKernels|get(Platform|System|Integrator|Molecules|Time|StepCount|Parameters?)$|"
    "[gs]et[.][.][.]|set(Time|StepCount|Temperature|RandomNumberSeed|Friction|Beta|Thermalize|NumMicro|MetricC)|"
    "unknown|too few")
SETS = re.compile(r"integrator[.](add|set(?!Velocities|Method))|(set(State|Positions|Velocities$|Periodic|"
                  "Parameter)|createC|loadC|reinit)")
# With positions only these are refused: what is not there, and what some method cannot do.
REFUSED = re.compile("unknown|too few|(Constraint|Pair|Inertia|Bond)Parameters|getMultipliers|setMethod")


@functools.cache
def systems():
    return {kind: make() for kind, make in SYSTEMS.items()}


def begin(cls, kind, platform):
    """(Context, positions)"""
    made, positions = systems()[kind]
    return openmm.Context(made, create(cls), platform), positions


def start(cls, kind, platform):
    context, positions = begin(cls, kind, platform)
    context.setPositions(positions)
    return context, positions, True


def start_without_positions(cls, kind, platform):
    return *begin(cls, kind, platform), False


def restart(cls, kind, platform, preserve):
    context, positions, _ = start(cls, kind, platform)
    context.getIntegrator().step(1)
    context.reinitialize(preserve)
    return context, positions, preserve


# How a Context comes into being, and with which kinds of Systems that is tried: (context, positions, are they set).
SOME = ["custom bond", "water of Morse bonds", "constraints and a site"]
BEGINNINGS = {"fresh": (start, [*SYSTEMS]), "without positions": (start_without_positions, SOME),
              "after reinitialize(True)": (functools.partial(restart, preserve=True), SOME),
              "after reinitialize(False)": (functools.partial(restart, preserve=False), SOME[-1:])}


def trial(begin, what, call, donor):
    """One call as the first, and a step after it."""
    context, positions, there = begin()
    refusal = attempt(call, context, donor)
    assert refusal is None or not there or REFUSED.search(what), refusal
    if not there or what == "reinitialize(False)":
        context.setPositions(positions)
    context.getIntegrator().step(1)
    require_finite(context.getState(positions=True, velocities=True, forces=True, energy=True))


def faults(cls, platform, beginnings, chosen=""):
    """What is wrong with the calls that match a regular expression: a line for each case."""
    found, cases = [], 0
    for beginning, (begin, kinds) in beginnings.items():
        for kind in kinds:
            donor, _, _ = start(cls, kind, platform)
            donor.getIntegrator().step(2)
            for what, call in calls_of(cls).items():
                if not re.search(chosen, what) or (SETS.match(what) and kind not in SOME) or (
                        INDIFFERENT.search(what) and kind != SOME[-1]):
                    continue
                cases += 1
                try:
                    trial(functools.partial(begin, cls, kind, platform), what, call, donor)
                except Exception as error:  # whatever it is, the other cases are tried too
                    found.append(f"{what} on {kind!r}, {beginning}: {type(error).__name__}: {error}")
    assert cases > 0
    return found


@pytest.mark.parametrize("cls", INTEGRATORS, **NAMES)
def test_every_call_may_be_the_first(cls, platform, one_thread):
    found = faults(cls, platform, BEGINNINGS)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("cls", ["MassPenaltyLangevinIntegrator", "ZhangSkeelIntegrator"])
def test_first_calls_on_opencl(cls):
    """Those that ask for what the kernels have to find out; few, since PoCL takes time to compile."""
    run_with_opencl("-c", f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import openmm
import openmmstiff
import test_first_calls as tests
fresh, _ = tests.BEGINNINGS["fresh"]
empty, _ = tests.BEGINNINGS["without positions"]
found = tests.faults(openmmstiff.{cls}, openmm.Platform.getPlatform("OpenCL"),
                     {{"fresh": (fresh, ["custom bond"]), "without positions": (empty, ["custom bond"])}},
                     r"getState.(energy|all)|Checkpoint.own|compute|describeStiff|integrator.setVelocitiesTo")
assert not found, "\\n".join(found)
""")


# Settings that the System here cannot do, by method: the class, the arguments, the call that takes them back.
IMPOSSIBLE = {
    "setStiffForceGroups": (ImpulseLangevinIntegrator, ({5},), ("setUseDefaultStiffForceGroups", True)),
    "setMethod": (ZhangSkeelIntegrator, (ZhangSkeelIntegrator.ThirdDerivatives,),
                  ("setMethod", ZhangSkeelIntegrator.StiffHessian)),
    "setVibratedForceGroups": (HMMIntegrator, ({5},), ("setUseDefaultVibratedForceGroups", True)),
    "setSystemConstraintParameters": (SpookIntegrator, (50, 1e-4, 0), ("setSystemConstraintParameters", 50, 0, 0))}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_calls_after_a_refused_reinitialize(name, platform, one_thread):
    """The Context has lost its positions, but no call ends the process, and with other settings it can be used."""
    cls, impossible, possible = IMPOSSIBLE[name]
    found = []
    for what, call in calls_of(cls).items():
        context, positions, _ = start(cls, SOME[-1], platform)
        integrator = context.getIntegrator()
        with pytest.raises(openmm.OpenMMException, match=cls.__name__):
            getattr(integrator, name)(*impossible)
            context.reinitialize()
        try:
            attempt(call, context, context)
        except Exception as error:
            found.append(f"{what}: {type(error).__name__}: {error}")
        # Also since OpenMM, with its own integrators too, cannot free a Context in this state after its integrator.
        getattr(integrator, possible[0])(*possible[1:])
        context.reinitialize()
        context.setPositions(positions)
        integrator.step(1)
    assert not found, "\n".join(found)
