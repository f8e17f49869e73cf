"""The API as a table, of which the tests of signatures, XML, copies, bad values and first calls are made.

A new integrator is a row of INTEGRATORS; what no other class has, a setting or a method with arguments, is one more.
`test_bindings.py` compares the tables with the package.
"""

from typing import NamedTuple

import openmm
import openmmstiff
from openmm import Vec3, unit
from openmmstiff import (HMMIntegrator, ImpulseIntegrator, ImpulseLangevinIntegrator, MassPenaltyIntegrator,
                         MassPenaltyLangevinIntegrator, SpookIntegrator, StiffIntegrator, ZhangSkeelIntegrator,
                         ZhangSkeelLangevinIntegrator)

PS, KELVIN, DALTON = unit.picoseconds, unit.kelvin, unit.dalton
COMPLIANCE = unit.nanometer**2/unit.kilojoule_per_mole


class Row(NamedTuple):
    base: type
    arguments: list         # of its constructor


STEP, HEAT_BATH = ["stepSize"], ["temperature", "frictionCoeff", "stepSize"]
INTEGRATORS = {
    ZhangSkeelIntegrator: Row(StiffIntegrator, STEP),
    ZhangSkeelLangevinIntegrator: Row(ZhangSkeelIntegrator, HEAT_BATH),
    ImpulseIntegrator: Row(StiffIntegrator, STEP),
    ImpulseLangevinIntegrator: Row(ImpulseIntegrator, HEAT_BATH),
    MassPenaltyIntegrator: Row(StiffIntegrator, STEP),
    MassPenaltyLangevinIntegrator: Row(MassPenaltyIntegrator, HEAT_BATH),
    SpookIntegrator: Row(StiffIntegrator, STEP),
    HMMIntegrator: Row(StiffIntegrator, ["macroStepSize", "angularFrequency"]),
}
CONSTRUCTORS = {"temperature": 300*KELVIN, "frictionCoeff": 5/PS, "stepSize": 0.001*PS, "macroStepSize": 0.001*PS,
                "angularFrequency": 1e5/PS}
OTHER_NAMES = {"StiffIntegrator", "ConstraintPenalties", "MultiplierReporter", "addPairsFromTopology", "examine",
               "penalizeConstraints"}

# What set methods take and get methods return: the argument, and a value that is not the default, which Systems of
# water can do, and which is exact in XML only if all digits are written.
SETTINGS = {
    "StepSize": ("size", 0.002/3*PS), "ConstraintTolerance": ("tol", 1e-7/3),
    "IntegrationForceGroups": ("groups", 0b111),
    "StiffForceGroups": ("groups", -2**31 + 2), "UseDefaultStiffForceGroups": ("use", True),
    "Temperature": ("temperature", 1000/3*KELVIN), "Friction": ("frictionCoeff", 2/3/PS),
    "RandomNumberSeed": ("seed", 2**31 - 1),
    "Beta": ("beta", 1/3), "Method": ("method", ZhangSkeelIntegrator.Newmark), "NewtonTolerance": ("tolerance", 1e-8/3),
    "ThermalizeStiffModes": ("thermalize", False),
    "Kick": ("kick", ImpulseIntegrator.Mollified), "ProjectedPeriod": ("period", 0.1/3*PS),
    "NumMicroSteps": ("number", 7), "UseDefaultNumMicroSteps": ("use", True),
    "PenalizedPeriod": ("period", 0.2/3*PS), "UseDefaultPenalizedPeriod": ("use", False),
    "BondInertia": ("inertia", 10/3*DALTON), "UseDefaultBondInertia": ("use", False),
    "MaxBlockSize": ("numPairs", 7),
    "UseBondedForces": ("use", False), "MetricCorrection": ("correct", False),
    "Compliance": ("compliance", 1e-7/3*COMPLIANCE), "VelocityCompliance": ("compliance", 1e-6/3*COMPLIANCE/PS),
    "Damping": ("damping", 0.02/3*PS), "DampingSteps": ("steps", 2/3), "UseDampingSteps": ("use", True),
    "AngularFrequency": ("frequency", 1e6/3/PS), "PhaseParameter": ("name", "theta"),
    "Filter": ("filter", HMMIntegrator.HalfBump), "MacroMethod": ("method", HMMIntegrator.SHAKE),
    "NumMicroStepsPerPeriod": ("number", 22), "NumPeriods": ("number", 12),
    "VibratedForceGroups": ("groups", -2**31 + 4), "UseDefaultVibratedForceGroups": ("use", True),
}
SOFT = {"compliance": 1e-7, "damping": 0.01}
CONSTRAINTS = {     # of SpookIntegrator, in a System of waters
    "Distance": {"particle1": 0, "particle2": 3, "distance": 0.31, **SOFT},
    "Position": {"particle": 3, "position": Vec3(0, 0, 0.31), **SOFT},
    "Holonomic": {"particles": [3, 0], "expression": "x1*y2 - 0.1", **SOFT},
    "Velocity": {"particles": [3], "coefficients": ["0", "0", "x1"], "rate": "sin(t)", "compliance": 1e-7},
}
PAIR = {"particle1": 0, "particle2": 2, "inertia": 10.0}


class Made(str):
    """The name of an object that a test makes."""


# The arguments of each method that has any, besides those; `Class.method` where another class's has others.
METHODS = {
    **{f"set{name}": {argument: value} for name, (argument, value) in SETTINGS.items()},
    **{f"add{kind}Constraint": arguments for kind, arguments in CONSTRAINTS.items()},
    **{f"set{kind}ConstraintParameters": {"index": 0, **arguments} for kind, arguments in CONSTRAINTS.items()},
    **{f"add{kind}": PAIR for kind in ("Pair", "BondInertia")},
    **{f"set{kind}Parameters": {"index": 0, **PAIR} for kind in ("Pair", "BondInertia")},
    **{f"get{kind}Parameters": {"index": 0} for kind in (
        "Pair", "PenalizedPair", "BondInertia", "InertialBond",
        "Constraint", *(f"{kind}Constraint" for kind in CONSTRAINTS))},
    "setSystemConstraintParameters": {"constraint": 0, **SOFT}, "getSystemConstraintParameters": {"constraint": 0},
    "step": {"steps": 1}, "setVelocitiesToTemperature": {"temperature": 300, "randomSeed": 1},
    "describeKernels": {"platformName": "CPU"}, "getPropagatedPositions": {"asNumpy": True},
    "cast": {"integrator": Made("integrator")}, "isinstance": {"integrator": Made("integrator")},
    "ConstraintPenalties.computeViolations": {"context": Made("context")},
    "computeMultipliers": {"context": Made("context")},
    "describeNextReport": {"simulation": Made("simulation")},
    "report": {"simulation": Made("simulation"), "state": None},
}
FUNCTIONS = {
    "ConstraintPenalties": {"system": Made("system"), "period": 0.02, "form": 0},
    "penalizeConstraints": {"system": Made("system"), "period": 0.02, "form": "squared"},
    "MultiplierReporter": {"penalties": Made("penalties"), "reportInterval": 2, "file": None, "sampleInterval": 1,
                           "append": False},
    "addPairsFromTopology": {
        "integrator": Made("integrator"), "topology": Made("topology"), "system": Made("system"),
        "positions": Made("positions"), "bondStiffness": 3e5, "angleStiffness": None, "atoms": range(6),
        "stiffness": "measured", "platform": openmm.Platform.getPlatform("Reference"), "bondInertia": 2},
    "examine": {"simulation": Made("simulation"), "temperature": 300, "bonds": None},
}


def methods_of(cls):
    """The names of a class's public methods."""
    return [name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))]


def arguments_of(name, method=None):
    """{argument: good value} of a class or function, or of a class's method."""
    cls = getattr(openmmstiff, name)
    if method is not None:
        return METHODS.get(f"{name}.{method}", METHODS.get(method, {}) if method != "computeViolations" else {})
    if cls in INTEGRATORS:
        return {argument: CONSTRUCTORS[argument] for argument in INTEGRATORS[cls].arguments}
    return FUNCTIONS[name]


def settings_of(cls):
    """{name: value} of the settings that a class has, without the switches to defaults, which these turn off."""
    methods = dir(cls)
    return {name: value for name, (_, value) in SETTINGS.items()
            if f"set{name}" in methods and name != "DampingSteps" and not name.startswith(("UseDefault", "UseDamp"))}
