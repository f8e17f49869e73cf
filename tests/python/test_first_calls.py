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
from openmm import LocalEnergyMinimizer, State, XmlSerializer, app, unit

import api
from conftest import INTEGRATORS, PLATFORMS, create, quick, remove_forces, water_cluster
from openmmstiff import HMMIntegrator, ImpulseLangevinIntegrator, SpookIntegrator, ZhangSkeelIntegrator
from systems import add_phase, angles, bonds, custom_bond, force, system as with_phase
from test_devices import run_with_opencl
from trials import Refused, judge
from trials import attempt as attempt_call

pytestmark = [pytest.mark.filterwarnings("ignore:.*(nothing is treated|fastest bonded motion):UserWarning"),
              pytest.mark.usefixtures("one_thread")]
BENT = np.array([(1.0, 0, 0), (0, 0, 0), (-0.3, 0.9, 0)])
WATER = np.array([(0, 0, 0), (0.0957, 0, 0), (-0.024, 0.0927, 0)])


# ---- Systems ----

PHASE = "0.1*cos(theta)*x"
system = functools.partial(with_phase, masses=1, phase=PHASE)


def centroids():
    made = force("CustomCentroidBondForce", "addGroup", [([0],), ([1],)], 2, "100*(distance(g1,g2)-1)^2")
    made.addBond([0, 1], [])
    return system(BENT[:2], made)


def amoeba():
    """A flexible water with AMOEBA's bond, angle and Urey-Bradley term, and its nonbonded forces."""
    topology, positions = water_cluster(1)
    made = app.ForceField("amoeba2018.xml").createSystem(topology, constraints=None, rigidWater=False,
                                                         polarization="direct")
    remove_forces(made, openmm.CustomCompoundBondForce)     # without terms here; to compile them takes OpenMM seconds
    add_phase(made, PHASE)
    return made, positions - positions[0]


SYSTEMS = {
    "harmonic bond": lambda: system(BENT[:2], bonds((0, 1, 1, 200))),
    "angle without bonds": lambda: system(BENT, angles((0, 1, 2, 1.9, 50))),
    "custom bond": lambda: system(BENT[:2], custom_bond("100*(r-1)^2")),
    "stiff custom bond": lambda: system(BENT[:2], custom_bond("1e5*(r-0.99)^2")),
    "custom angle": lambda: system(BENT, force("CustomAngleForce", "addAngle", [(0, 1, 2, [])], "50*(theta-1.9)^2")),
    "compound bond": lambda: system(BENT, force(
        "CustomCompoundBondForce", "addBond", [((0, 1, 2), [])], 3, "100*(distance(p1,p2)-1)^2+angle(p1,p2,p3)")),
    "centroid bond": centroids,
    "water of Morse bonds": lambda: system(
        WATER, custom_bond("400*(1-exp(-23*(r-0.0957)))^2", (0, 1, []), (0, 2, [])), angles((1, 0, 2, 1.824, 400)),
        masses=[16, 1, 1]),
    "constraints and a site": lambda: system([*BENT, (0.5, 0, 0)], constraints=[(0, 1, 1), (1, 2, 0.9**0.5)],
                                             masses=[1, 1, 1, 0], sites=[(3, (0, 1))]),
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
# Those of the integrators on these Systems, and more than the one of api.py.
ARGUMENTS = {
    "step": [(1,), (0,)], "setIntegrationForceGroups": [({0},), (1,)], "setTemperature": [(310,)],
    "setFriction": [(2,), (0,)], "setBeta": [(0.3,), (0,)], "setMethod": [(method,) for method in range(5)],
    "setKick": [(kick,) for kick in range(3)], "setProjectedPeriod": [(0,), (0.5,)], "setPenalizedPeriod": [(1,)],
    "addBondInertia": [(0, 1, 5)], "addPair": [(0, 1, 5)], "addDistanceConstraint": [(0, 1, 1)],
    "addPositionConstraint": [(0, (0.1, 0, 0))], "addHolonomicConstraint": [([0], "y1")],
    "addVelocityConstraint": [([0], [1, 0, 0])], "setDistanceConstraintParameters": [(0, 0, 1, 1)],
    "setPositionConstraintParameters": [(0, 0, (1, 0, 0))], "setHolonomicConstraintParameters": [(0, [0], "y1")],
    "setVelocityConstraintParameters": [(0, [0], [1, 0, 0])], "setSystemConstraintParameters": [(0, 1e-4, 0)]}
NO_CALLS = {"cast", "isinstance", "setStiffForceGroups", "setVibratedForceGroups"}     # the groups there are, are set


def needs_arguments(method):
    return any(parameter.default is parameter.empty and parameter.kind in (
        parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.name != "self"
        for parameter in inspect.signature(method).parameters.values())


@functools.cache
def calls_of(cls):
    """{what: function of (context, donor)}, where the donor is another Context. None is left out."""
    calls = dict(CONTEXT_CALLS)
    for name in api.methods_of(openmm.Context):
        if not any(what.split("(")[0] == name for what in CONTEXT_CALLS):
            assert not needs_arguments(getattr(openmm.Context, name)), f"Context.{name}() is to have arguments"
            calls[name] = lambda context, donor, name=name: getattr(context, name)()
    methods = api.methods_of(cls)
    settings = [name[3:] for name in methods if name.startswith("set") and f"get{name[3:]}" in methods
                and len(api.METHODS[name]) == 1]
    calls["integrator.set...()"] = lambda context, donor: set_again(context.getIntegrator(), settings)
    for name in sorted(set(methods) - NO_CALLS):
        for arguments in ARGUMENTS.get(name, [tuple(api.arguments_of(cls.__name__, name).values())]):
            calls[f"integrator.{name}{arguments}"] = lambda context, donor, name=name, arguments=arguments: getattr(
                context.getIntegrator(), name)(*arguments)
    return calls


def set_again(integrator, settings):
    """Set what is set."""
    for name in settings:
        if not getattr(integrator, f"getUseDefault{name}", bool)():
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
    """The message of the exception that a call raises, which must be clear; None if it returns something finite."""
    try:
        require_finite(attempt_call(call, *arguments))
    except Refused as refusal:
        return str(refusal)
    return None


# ---- Claims ----

# For speed, what asks neither for positions nor for forces is tried with one kind of System only, and what sets
# something with a few.
INDIFFERENT = re.compile(
    "(Constraint|Pair|Inertia|Bond)Parameters|describeKernels|integrator.(get(?!Multipliers|Propagated|Num)|set[.])|"
    "get(Platform|System|Integrator|Molecules|Time|StepCount|Parameters?)$|"
    "set(Time|StepCount|Temperature|RandomNumberSeed|Friction|Beta|Thermalize|NumMicro|MetricC)|"
    "unknown|too few")
SETS = re.compile(r"integrator[.](add|set(?!Velocities|Method))|(set(State|Positions|Velocities$|Periodic|"
                  "Parameter)|createC|loadC|reinit)")
# With positions only these are refused: what is not there, and what some method cannot do.
REFUSED = re.compile("unknown|too few|(Constraint|Pair|Inertia|Bond)Parameters|getMultipliers|setMethod")


# How a Context comes into being, and with which kinds of Systems that is tried.
SOME = ["custom bond", "water of Morse bonds", "constraints and a site"]
BEGINNINGS = {"fresh": [*SYSTEMS], "without positions": SOME, "after reinitialize(True)": SOME,
              "after reinitialize(False)": SOME[-1:]}


@functools.cache
def systems():
    return {kind: make() for kind, make in SYSTEMS.items()}


def start(cls, kind, platform, beginning="fresh"):
    """(Context, positions, whether they are set)"""
    made, positions = systems()[kind]
    context = openmm.Context(made, create(cls), platform)
    if beginning == "without positions":
        return context, positions, False
    context.setPositions(positions)
    if beginning == "fresh":
        return context, positions, True
    preserve = beginning == "after reinitialize(True)"
    context.getIntegrator().step(1)
    context.reinitialize(preserve)
    return context, positions, preserve


def trial(cls, kind, platform, beginning, what, call, donor):
    """One call as the first, and a step after it."""
    context, positions, there = start(cls, kind, platform, beginning)
    refusal = attempt(call, context, donor)
    assert refusal is None or not there or REFUSED.search(what), refusal
    if not there or what == "reinitialize(False)":
        context.setPositions(positions)
    context.getIntegrator().step(1)
    require_finite(context.getState(positions=True, velocities=True, forces=True, energy=True))


def cases(cls, platform, beginnings, chosen=""):
    """Those of the calls that match a regular expression."""
    for beginning, kind in [(beginning, kind) for beginning, kinds in beginnings.items() for kind in kinds]:
        donor, _, _ = start(cls, kind, platform)
        donor.getIntegrator().step(2)
        for what, call in calls_of(cls).items():
            if re.search(chosen, what) and (kind in SOME or not SETS.match(what)) and (
                    kind == SOME[-1] or not INDIFFERENT.search(what)):
                yield (f"{what} on {kind!r}, {beginning}",
                       functools.partial(trial, cls, kind, platform, beginning, what, call, donor), True)


@pytest.mark.parametrize("platform", quick(["Reference"], PLATFORMS), indirect=True)
@pytest.mark.parametrize("cls", INTEGRATORS)
def test_every_call_may_be_the_first(cls, platform):
    every = list(cases(cls, platform, BEGINNINGS))
    assert every
    judge(every)


@pytest.mark.parametrize("cls", ["MassPenaltyLangevinIntegrator", "ZhangSkeelIntegrator"])
def test_first_calls_on_opencl(cls):
    """Those that ask for what the kernels have to find out; few, since PoCL takes time to compile."""
    run_with_opencl("-c", f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import openmm
import openmmstiff
from test_first_calls import cases
found = list(cases(openmmstiff.{cls}, openmm.Platform.getPlatform("OpenCL"),
                   dict.fromkeys(["fresh", "without positions"], ["custom bond"]),
                   r"getState.(energy|all)|Checkpoint.own|compute|describeStiff|integrator.setVelocitiesTo"))
assert found
for what, run, _ in found:
    print(what)
    run()
""")


# Settings that the System here cannot do, by method: the class, the arguments, the call that takes them back.
IMPOSSIBLE = {
    "setStiffForceGroups": (ImpulseLangevinIntegrator, ({5},), ("setUseDefaultStiffForceGroups", True)),
    "setMethod": (ZhangSkeelIntegrator, (ZhangSkeelIntegrator.ThirdDerivatives,),
                  ("setMethod", ZhangSkeelIntegrator.StiffHessian)),
    "setVibratedForceGroups": (HMMIntegrator, ({5},), ("setUseDefaultVibratedForceGroups", True)),
    "setSystemConstraintParameters": (SpookIntegrator, (50, 1e-4, 0), ("setSystemConstraintParameters", 50, 0, 0))}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_calls_after_a_refused_reinitialize(name, platform):
    """The Context has lost its positions, but no call ends the process, and with other settings it can be used."""
    cls, impossible, possible = IMPOSSIBLE[name]

    def trial(call):
        context, positions, _ = start(cls, SOME[-1], platform)
        integrator = context.getIntegrator()
        with pytest.raises(openmm.OpenMMException, match=cls.__name__):
            getattr(integrator, name)(*impossible)
            context.reinitialize()
        try:
            attempt(call, context, context)
        finally:    # since OpenMM, with its own integrators too, cannot free such a Context after its integrator
            getattr(integrator, possible[0])(*possible[1:])
            context.reinitialize()
            context.setPositions(positions)
            integrator.step(1)

    judge((what, functools.partial(trial, call), True) for what, call in calls_of(cls).items())
