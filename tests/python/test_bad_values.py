"""Every public method with bad values for each of its arguments in turn: refused, or accepted and working.

`SWEEP=1 python -m pytest -n 2 tests/python/test_bad_values.py` takes all cases, not a share of them.
"""
import functools
import inspect
import itertools

import numpy as np
import openmm
import pytest
from openmm import Vec3, app, unit

import api
import openmmstiff
from conftest import water_cluster
from trials import INTEGRATORS, Refused, attempt, create, judge, snapshot, steps, temperature, unchanged, waters

VALUES = """None|''|'x'|'\\0'|b'x'|True|-1|0|1|1.5|-0.0|1e-308|1e308|4.0|1e10|999999.0|1e300|nan|inf|-inf
2**31|2**63|10**30|[]|[1]|[[]]|{}|{1: 2}|set()|{'x'}|object()|lambda: 0|int|list(range(100000))|1j
Vec3(1, nan, 3)|np.float64('nan')|np.float32(0.5)|np.int64(-5)|np.bool_(True)|np.array(0.5)|np.array([nan])
np.zeros(3)|np.zeros((3, 3))|1e10*unit.picosecond|-1*unit.kelvin|nan*unit.picosecond|nan*unit.kelvin
2*unit.nanometer|5*unit.dalton|[1]*unit.nanometer|Vec3(1, 2, 3)*unit.nanometer|3*unit.dimensionless
1e300*unit.nanometer**2/unit.kilojoule_per_mole""".replace("\n", "|").split("|")

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
        for kind in api.CONSTRAINTS if self.name == "SpookIntegrator" else ():
            getattr(integrator, f"add{kind}Constraint")(**api.CONSTRAINTS[kind])
        return integrator

    def make_penalties(self):
        return openmmstiff.penalizeConstraints(self["system"], 0.02)

    def make_reporter(self):
        return openmmstiff.MultiplierReporter(self["penalties"], 2)

    def make_topology(self):
        return water_cluster(self["system"].getNumParticles()//3)[0]

    def make_simulation(self):
        if self.name in ("ConstraintPenalties", "MultiplierReporter"):
            self["penalties"]   # which changes the System
        simulation = app.Simulation(self["topology"], self["system"], self["integrator"],
                                    openmm.Platform.getPlatform(self.platform))
        simulation.context.setPositions(self["positions"])
        simulation.context.setVelocitiesToTemperature(300, 1)
        return simulation

    def make_context(self):
        return self["simulation"].context

    def call(self, function, arguments):
        """Call with values, those of objects by name."""
        return function(*[self[each] if isinstance(each, api.Made) else each for each in arguments])


def follow_up(scene, result, naming, argument):
    """What a user does next: a reporter reports, an integrator takes steps."""
    try:
        if hasattr(result, "report"):
            attempt(lambda: scene["simulation"].reporters.append(result))
            attempt(scene["simulation"].step, 4)
        context = attempt(lambda: scene["context"], naming=naming)
        steps(context, 2, naming)
        assert argument not in STEP_SIZES or temperature(context) < EXPLODED, f"{temperature(context):.3g} K, no error"
    except Refused as error:
        raise Refused(f"later: {error}") from None


def trial(name, method, good, argument, expression, bound, platform):
    """Call, and see that a refusal changes nothing and that what is accepted works afterwards or fails clearly."""
    scene = Scene(name, platform)
    arguments = good | ({argument: eval(expression, {}, scene)} if argument else {})
    arguments = [*arguments.values(), *([None] if expression == "too many" else [])]
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
        result = attempt(scene.call, owner, arguments)
        scene |= {key: result for key, cls in (("integrator", openmm.Integrator),
                                               ("penalties", openmmstiff.ConstraintPenalties))
                  if isinstance(result, cls)}
        return follow_up(scene, result, naming, argument)
    receiver = owner if inspect.ismethod(getattr(owner, method)) else scene[
        {"ConstraintPenalties": "penalties", "MultiplierReporter": "reporter"}.get(name, "integrator")]
    before = snapshot(scene["context"]) if bound else None
    try:
        result = attempt(scene.call, getattr(receiver, method), arguments)
    except Refused:
        if bound:
            unchanged(scene["context"], before, "a call that was refused")
            steps(scene["context"], 1)
        raise
    follow_up(scene, result, naming, argument)


def calls(name):
    """(method or None, good arguments) of a class or function and of its methods."""
    item = getattr(openmmstiff, name)
    abstract = item is openmmstiff.StiffIntegrator      # what it has, its subclasses inherit
    if not abstract:
        yield None, api.arguments_of(name)
    for method in api.methods_of(item) if inspect.isclass(item) else ():
        if not abstract or inspect.ismethod(getattr(item, method)):
            yield method, api.arguments_of(name, method)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name, method, good", [
    pytest.param(name, method, good, id=f"{name}.{method or ''}")
    for name in openmmstiff.__all__ for method, good in calls(name)])
def test_it_works_or_says_why_not(name, method, good, platform, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)     # where files are named x
    in_context, platform = method is not None and name in INTEGRATORS, platform.getName()

    def cases(variants, works):
        for (argument, expression), bound in itertools.product(variants, (False, True)[:1 + in_context]):
            when = "after a step, " if bound else ""
            yield (f"{name}.{method or ''}({argument or ''}: {expression}), {when}{platform}",
                   functools.partial(trial, name, method, good, argument, expression, bound, platform),
                   works and (bound or not in_context))     # without a Context some have nothing to do

    judge(cases([(None, "good")], works=True))
    bad = itertools.product(good, VALUES) if method not in CALLBACKS else ()
    bad = [each for each in bad if (method, *each) != ("step", "steps", "999999.0")]    # good, but takes minutes
    judge(cases([(None, "too many"), *bad], works=False), share=0.15)
