"""Part A: every public method, found by introspection, with bad values for each of its arguments in turn.

Calls are written as expressions, so that the name of a case is what repeats it. A new class or method needs its
good arguments in the tables below; one without makes the sweep fail.
"""
import functools
import inspect
import itertools

import numpy as np
import openmm
import openmmstiff
from openmm import Vec3, app, unit

from trial import (INTEGRATORS, Fault, Refused, attempt, create, must_work, names_of, platform_properties, snapshot,
                   steps, temperature, unchanged, waters)

VALUES = """None|''|'x'|'\\0'|b'x'|True|-1|0|1|1.5|-0.0|1e-308|1e308|4.0|1e10|999999.0|1e300|nan|inf|-inf
2**31|2**63|10**30|[]|[1]|[[]]|{}|{1: 2}|set()|{'x'}|object()|lambda: 0|int|list(range(100000))|1j
Vec3(1, nan, 3)|np.float64('nan')|np.float32(0.5)|np.int64(-5)|np.bool_(True)|np.array(0.5)|np.array([nan])
np.zeros(3)|np.zeros((3, 3))|1e10*unit.picosecond|-1*unit.kelvin|nan*unit.picosecond|nan*unit.kelvin
2*unit.nanometer|5*unit.dalton|[1]*unit.nanometer|Vec3(1, 2, 3)*unit.nanometer|3*unit.dimensionless
1e300*unit.nanometer**2/unit.kilojoule_per_mole""".replace("\n", "|").split("|")

# Arguments of each class or function; None if it is abstract.
CONSTRUCTORS = {
    **{name: ["0.001"] for name in INTEGRATORS},
    **{name: ["300", "5", "0.001"] for name in INTEGRATORS if "Langevin" in name},
    "HMMIntegrator": ["0.001", "1e5"], "ConstraintPenalties": ["system", "0.02", "0"],
    "MultiplierReporter": ["penalties", "2", "None", "1"], "penalizeConstraints": ["system", "0.02", "'squared'"],
    "addPairsFromTopology": ["integrator", "topology", "system", "positions", "3e5", "None", "range(6)", "'measured'",
                             "openmm.Platform.getPlatform('Reference')"],
    "examine": ["simulation", "300"], "StiffIntegrator": None,
}
SOFT = ["1e-7", "0.01"]
# Arguments of each method that has any; an index is that of an object which the integrator of the trial has.
METHODS = {
    "cast": ["integrator"], "isinstance": ["integrator"], "step": ["1"], "describeKernels": ["'CPU'"],
    "computeMultipliers": ["context"], "computeViolations": ["context"], "getConstraintParameters": ["0"],
    "describeNextReport": ["simulation"], "report": ["simulation", "None"], "getPropagatedPositions": ["True"],
    "setStepSize": ["0.001"], "setConstraintTolerance": ["1e-6"], "setIntegrationForceGroups": ["{0, 1, 2}"],
    "setStiffForceGroups": ["{1}"], "setUseDefaultStiffForceGroups": ["True"],
    "setTemperature": ["310"], "setFriction": ["2"], "setRandomNumberSeed": ["3"],
    "setAngularFrequency": ["2e5"], "setPhaseParameter": ["'theta'"], "setFilter": ["2"], "setMacroMethod": ["1"],
    "setNumMicroSteps": ["8"], "setUseDefaultNumMicroSteps": ["True"], "setNumMicroStepsPerPeriod": ["8"],
    "setNumPeriods": ["4"], "setVibratedForceGroups": ["{2}"], "setUseDefaultVibratedForceGroups": ["True"],
    "setKick": ["1"], "setProjectedPeriod": ["0.02"], "setBeta": ["0.3"], "setMethod": ["0"],
    "setNewtonTolerance": ["1e-8"], "setThermalizeStiffModes": ["False"],
    "addPair": ["0", "2", "10.0"], "getPairParameters": ["0"], "getPenalizedPairParameters": ["0"],
    "getInertialBondParameters": ["0"],
    "setPairParameters": ["0", "0", "1", "10.0"],
    "setPenalizedPeriod": ["0.02"], "setUseDefaultPenalizedPeriod": ["False"],
    "setBondInertia": ["2"], "setUseDefaultBondInertia": ["False"],
    "setUseBondedForces": ["True"], "setMetricCorrection": ["False"],
    "addBondInertia": ["0", "2", "10.0"], "getBondInertiaParameters": ["0"],
    "setBondInertiaParameters": ["0", "0", "1", "10.0"],
    "setCompliance": ["1e-7"], "setVelocityCompliance": ["1e-7"], "setDamping": ["0.01"],
    "setDampingSteps": ["0.5"], "setUseDampingSteps": ["True"], "setVelocitiesToTemperature": ["300", "1"],
    "setSystemConstraintParameters": ["0", *SOFT], "getSystemConstraintParameters": ["0"],
    "addDistanceConstraint": ["0", "3", "0.31", *SOFT], "addPositionConstraint": ["3", "Vec3(0, 0, 0.31)", *SOFT],
    "addHolonomicConstraint": ["[3, 0]", "'x1*y2 - 0.1'", *SOFT],
    "addVelocityConstraint": ["[3]", "['0', '0', 'x1']", "'sin(t)'", "1e-7"],
    "getDistanceConstraintParameters": ["0"], "getPositionConstraintParameters": ["0"],
    "getHolonomicConstraintParameters": ["0"], "getVelocityConstraintParameters": ["0"],
}
METHODS |= {f"set{kind}ConstraintParameters": ["0", *METHODS[f"add{kind}Constraint"]]
            for kind in ("Distance", "Position", "Holonomic", "Velocity")}
CALLBACKS = ["describeNextReport", "report"]     # OpenMM calls them, not the user
STEP_SIZES = ["stepSize", "macroStepSize", "size"]
EXPLODED = 1e6      # K, whatever the step size: too large a one must be an error


class Scene(dict):
    """What the expressions of a case refer to, made when it is first asked for."""

    def __init__(self, name, platform):
        super().__init__(vars(openmmstiff), np=np, openmm=openmm, unit=unit, Vec3=Vec3, nan=float("nan"),
                         inf=float("inf"))
        self.name, self.platform = name, platform
        self["system"], self["positions"] = waters()

    def __missing__(self, key):
        if not hasattr(self, f"make_{key}"):
            raise KeyError(key)
        self[key] = getattr(self, f"make_{key}")()
        return self[key]

    def make_integrator(self):
        stand_in = {"addPairsFromTopology": "MassPenaltyIntegrator"}.get(self.name, "ZhangSkeelIntegrator")
        integrator = create(self.name if self.name in INTEGRATORS else stand_in)
        if hasattr(integrator, "addPair"):
            integrator.addPair(0, 3, 1.0)
            integrator.addBondInertia(0, 3, 1.0)
        for kind in ("Distance", "Position", "Holonomic", "Velocity") if self.name == "SpookIntegrator" else ():
            self.call(getattr(integrator, f"add{kind}Constraint"), METHODS[f"add{kind}Constraint"])
        return integrator

    def make_penalties(self):
        return openmmstiff.penalizeConstraints(self["system"], 0.02)

    def make_reporter(self):
        return openmmstiff.MultiplierReporter(self["penalties"], 2)

    def make_topology(self):
        topology = app.Topology()
        chain = topology.addChain()
        for _ in range(self["system"].getNumParticles()//3):
            residue = topology.addResidue("HOH", chain)
            o, h1, h2 = (topology.addAtom(name, None, residue) for name in ("O", "H1", "H2"))
            topology.addBond(o, h1)
            topology.addBond(o, h2)
        return topology

    def make_simulation(self):
        if self.name in ("ConstraintPenalties", "MultiplierReporter"):
            self["penalties"]   # which changes the System
        simulation = app.Simulation(self["topology"], self["system"], self["integrator"],
                                    openmm.Platform.getPlatform(self.platform), platform_properties(self.platform))
        simulation.context.setPositions(self["positions"])
        simulation.context.setVelocitiesToTemperature(300, 1)
        return simulation

    def make_context(self):
        return self["simulation"].context

    def call(self, function, expressions):
        return function(*[eval(text, {}, self) for text in expressions])


def follow_up(scene, result, naming, argument):
    """What a user does next: a reporter reports, an integrator takes steps."""
    try:
        if hasattr(result, "report"):
            attempt(lambda: scene["simulation"].reporters.append(result))
            attempt(scene["simulation"].step, 4)
        context = attempt(lambda: scene["context"], naming=naming)
        steps(context, 2, naming)
        if argument in STEP_SIZES and temperature(context) > EXPLODED:
            raise Fault(f"{temperature(context):.3g} K after 2 steps, without an error")
    except Refused as error:
        raise Refused(f"later: {error}") from None


def trial(name, method, expressions, argument, bound, platform):
    """Call, and see that a refusal changes nothing and that what is accepted works afterwards or fails clearly."""
    scene = Scene(name, platform)
    naming = [name, type(scene["integrator"]).__name__, *([argument] if argument else ())]
    owner = getattr(openmmstiff, name)
    if bound:
        integrator = scene["context"].getIntegrator()
        integrator.step(1)
        if method == "getPenalizedPairParameters":  # tells of what was counted
            integrator.computeNumPenalizedPairs()
        if method == "getInertialBondParameters":
            integrator.computeNumInertialBonds()
    if method is None:
        result = attempt(scene.call, owner, expressions)
        scene |= {key: result for key, cls in (("integrator", openmm.Integrator),
                                               ("penalties", openmmstiff.ConstraintPenalties))
                  if isinstance(result, cls)}
        return follow_up(scene, result, naming, argument)
    receiver = owner if inspect.ismethod(getattr(owner, method)) else scene[
        {"ConstraintPenalties": "penalties", "MultiplierReporter": "reporter"}.get(name, "integrator")]
    before = snapshot(scene["context"]) if bound else None
    try:
        result = attempt(scene.call, getattr(receiver, method), expressions)
    except Refused:
        if bound:
            unchanged(scene["context"], before, "a call that was refused")
            steps(scene["context"], 1)
        raise
    follow_up(scene, result, naming, argument)


def parameters(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def calls(name):
    """(method or None, names of its arguments, good arguments) of a class or function and of its methods."""
    if name not in CONSTRUCTORS:
        raise Fault(f"{name} is new in openmmstiff.__all__: add its good arguments to CONSTRUCTORS in bad_values.py")
    item, good = getattr(openmmstiff, name), CONSTRUCTORS[name]
    if good:
        yield None, parameters(item), good
    for method in names_of(item) if inspect.isclass(item) else ():
        function = getattr(item, method)
        if method.startswith("_") or not callable(function) or not (good or inspect.ismethod(function)):
            continue    # what an abstract class has, its subclasses inherit
        arguments = parameters(function)
        if arguments and len(METHODS.get(method, ())) != len(arguments):
            raise Fault(f"{name}.{method}({', '.join(arguments)}) has no good arguments: add them to METHODS in "
                        f"bad_values.py")
        yield method, arguments, METHODS[method] if arguments else []


def cases(name):
    """(what, function of a platform) of each call for a class or function."""
    for method, arguments, good in calls(name):
        variants = [(None, good), (None, [*good, "None"])]
        if method not in CALLBACKS:
            variants += [(argument, [*good[:place], value, *good[place + 1:]])
                         for place, argument in enumerate(arguments) for value in VALUES]
        in_context = method is not None and name in INTEGRATORS
        for (argument, expressions), bound in itertools.product(variants, (False, True) if in_context else (False,)):
            what = f"{name}{f'.{method}' if method else ''}({', '.join(expressions)})"
            # Without a Context some methods have nothing to do.
            judge = [must_work] if expressions is good and (bound or not in_context) else []
            yield (f"{what}{' after a step' if bound else ''}",
                   functools.partial(*judge, trial, name, method, expressions, argument, bound))
