"""OpenMMTools' test systems: each integrator at the step that its page recommends, or the error that refuses it.

The claims: a run ends, and its kinetic temperature is the bath's. The steps are those of the integrators' pages for
water and for molecules with hydrogens; for the rest, of which they say nothing, the largest of those that were tried
and hold. What a class of openmmtools.testsystems is not used for is said beside it.
"""
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import openmm as mm
from openmm import unit
from openmmstiff import ZhangSkeelLangevinIntegrator, penalizeConstraints
from openmmstiff.sampling import countFreedom, sample

from exam import Claim, Exam, Results, Settings, each
from recommended import FRICTION, LABELS, TEMPERATURE, make_integrator, temperature_claim

SPRING_PERIOD = 0.004               # ps, of the springs that replace constraints
TOLERANCE = 0.015                   # of the temperature, at the recommended steps
ERROR = 0.01                        # of the temperature, that runs are long enough for
LARGEST_ERROR = 0.05                # of the temperature, that tells anything
MOST_STEPS, LEAST_TIME = 50_000, 6.0   # of a run; ps
SETTLING = 4.0                      # ps, of small Systems
INTERVAL = 0.05                     # ps between samples, or a step
LARGE_STEPS = 100                   # of Systems that take too long for a temperature

REFUSED = "Remove the constraints of this molecule"
# Of each kind of Systems the steps (fs) of the methods that are for it. Impulses and SPOOK are not where nothing is
# stiff, or no constraints are; the rest is said beside.
KINDS = {
    "flexible water": {"middle": 1, "masspenalty": 8, "zhangskeel": 2, "impulse": 4},
    "rigid water": {"middle": 2, "masspenalty": 8, "zhangskeel": 2, "spook": 2},
    # Springs may fail where water has no charges or soft cores.
    "rigid water, changed": {"middle": 2, "masspenalty": 8, "spook": 2},
    "rigid water, more sites": {"middle": 2, "masspenalty": 6, "spook": 2},
    "flexible": {"middle": 1, "masspenalty": 6, "zhangskeel": 2, "impulse": 4},
    # The Zhang-Skeel and impulse methods are tried, and have to refuse.
    "constrained": {"middle": 2, "masspenalty": 6, "spook": 1, "zhangskeel": 2, "impulse": 4},
    "constrained, large": {"middle": 2, "masspenalty": 6},      # the others: as AlanineDipeptideVacuum
    "points": {"middle": 10, "masspenalty": 10},
    "ions": {"middle": 2, "masspenalty": 2},
    "springs": {"middle": 4, "masspenalty": 8, "zhangskeel": 4, "impulse": 2},
    "rods": {"middle": 4, "masspenalty": 4, "spook": 1},
}
REFUSING = {("constrained", "zhangskeel"), ("constrained", "impulse")}


@dataclass(frozen=True)
class Case:
    """A class of openmmtools.testsystems with its arguments."""
    kind: str
    cls: str
    arguments: dict = field(default_factory=dict)
    large: bool = False     # a temperature takes too long, or ions to find each other: does it run?


SMALL_BOX = {"box_edge": 2.0 * unit.nanometer, "cutoff": 0.9 * unit.nanometer}
UNCONSTRAINED = {"constraints": None}


def cases(kind: str, *names: str, large: bool = False, label: str = "", **arguments) -> dict[str, Case]:
    return {name + label: Case(kind, name, arguments, large) for name in names}


CASES = {
    **cases("points", "CustomExternalForcesTestSystem", "HarmonicOscillator", "PowerOscillator",
            "HarmonicOscillatorArray", "LennardJonesPair", "LennardJonesCluster", "LennardJonesFluid",
            "LennardJonesGrid", "CustomLennardJonesFluidMixture", "WCAFluid", "DoubleWellDimer_WCAFluid",
            "DoubleWellChain_WCAFluid", "IdealGas"),
    **cases("ions", "SodiumChlorideCrystal", "CustomGBForceSystem", large=True),
    **cases("springs", "Diatom", "DiatomicFluid", "DipolarFluid"),
    **cases("rods", "Diatom", label=", constrained", constraint=True),
    **cases("rods", "ConstrainedDiatomicFluid", "ConstrainedDipolarFluid", "ConstraintCoupledHarmonicOscillator"),
    **cases("flexible water", "FlexibleWaterBox", "FlexibleDischargedWaterBox", **SMALL_BOX),
    **cases("flexible water", "WaterCluster", label=", flexible", constrained=False),
    **cases("rigid water", "WaterCluster"),
    **cases("rigid water", "WaterBox", **SMALL_BOX),
    **cases("rigid water, changed", "DischargedWaterBox", "DischargedWaterBoxHsites", "AlchemicalWaterBox",
            **SMALL_BOX),
    **cases("rigid water, more sites", "FourSiteWaterBox", "FiveSiteWaterBox", **SMALL_BOX),
    **cases("flexible", "AlanineDipeptideVacuum", "AlanineDipeptideImplicit", "TolueneVacuum", "MethanolBox",
            label=", flexible", **UNCONSTRAINED),
    **cases("constrained", "AlanineDipeptideVacuum", "AlchemicalAlanineDipeptide", "AlanineDipeptideImplicit",
            "TolueneVacuum", "TolueneImplicitOBC2", "TolueneImplicitGBn2", "HostGuestVacuum", "HostGuestImplicitOBC2",
            "MethanolBox", "MolecularIdealGas"),
    **cases("constrained, large", "AlanineDipeptideExplicit", "HostGuestExplicit", "DNADodecamerExplicit",
            "DHFRExplicit", "SrcImplicit", large=True),
}
# The same Systems, or like them; and those that are left out.
SAME = {"DiatomicFluid": ["UnconstrainedDiatomicFluid"], "DipolarFluid": ["UnconstrainedDipolarFluid"],
        "LennardJonesFluid": ["LennardJonesFluidTruncated", "LennardJonesFluidSwitched"],
        "FlexibleWaterBox": ["FlexibleReactionFieldWaterBox", "FlexiblePMEWaterBox"], "WaterBox": ["PMEWaterBox"],
        "TolueneImplicitGBn2": ["TolueneImplicit", "TolueneImplicitHCT", "TolueneImplicitOBC1", "TolueneImplicitGBn"],
        "HostGuestImplicitOBC2": ["HostGuestImplicit", "HostGuestImplicitHCT", "HostGuestImplicitOBC1",
                                  "HostGuestImplicitGBn", "HostGuestImplicitGBn2"]}
LEFT_OUT = {"LysozymeImplicit": "2,621 atoms in a CustomGBForce without a cutoff: too slow on a processor",
            "GiantFlexibleWaterBox": "12,255 atoms, like FlexibleWaterBox",
            "GiantFlexibleDischargedWaterBox": "like FlexibleDischargedWaterBox",
            "SrcExplicit": "56,627 atoms", "SrcExplicitReactionField": "56,627 atoms",
            "AMOEBAIonBox": "a step takes too long with AMOEBA on a processor",
            "AMOEBAProteinBox": "24,316 atoms with AMOEBA"}


def derived_classes(cls: type) -> Iterator[type]:
    for derived in cls.__subclasses__():
        yield derived
        yield from derived_classes(derived)


def list_names() -> dict:
    """The names of all test systems that OpenMMTools has."""
    from openmmtools import testsystems
    return {"names": np.array(sorted(cls.__name__ for cls in derived_classes(testsystems.TestSystem)))}


def put_springs(system: mm.System, integrator: ZhangSkeelLangevinIntegrator):
    """Springs instead of the constraints, which stay as cold as constraints are."""
    penalizeConstraints(system, SPRING_PERIOD)
    integrator.setThermalizeStiffModes(False)


def make(name: str, method: str, settings: Settings) -> dict:
    """The temperature in time; for a large System whatever there is after a few steps."""
    from openmmtools import testsystems
    case = CASES[name]
    built = getattr(testsystems, case.cls)(**case.arguments)
    system = built.system
    step = KINDS[case.kind][method] / 1000
    seed = 1000 * settings.seed + 10 * list(CASES).index(name) + list(LABELS).index(method)
    integrator = make_integrator(method, system, step, seed)
    if method == "zhangskeel" and case.kind == "rigid water":
        put_springs(system, integrator)
    context = settings.begin(system, integrator, built.positions, TEMPERATURE, seed, 50 if case.large else 200)
    freedom = countFreedom(system)
    time = LARGE_STEPS * step if case.large else max(LEAST_TIME, 2 / (ERROR**2 * freedom * FRICTION))
    steps = min(settings.steps(time, step), MOST_STEPS)
    interval = max(1, round(INTERVAL / step))
    integrator.step(1 if case.large else settings.steps(SETTLING, step))
    samples = sample(context, interval, max(1, steps // interval))
    return {"step": 1000 * step, "atoms": system.getNumParticles(), "temperature": samples.temperature}


def attempt(name: str, method: str, settings: Settings) -> dict:
    """What is said where an integrator refuses a System."""
    try:
        make(name, method, settings)
    except mm.OpenMMException as error:
        return {"refused": str(error).split("\n")[0]}
    return {"refused": ""}


def run_name(name: str, method: str) -> str:
    return f"{name.replace(', ', '-')}-{method}"


def runs(settings: Settings) -> dict[str, partial]:
    return {"names": partial(list_names)} | {
        run_name(name, method): partial(attempt if (case.kind, method) in REFUSING else make, name, method, settings)
        for name, case in CASES.items() for method in KINDS[case.kind]}


def claims(results: Results, case: Case, method: str, run: str) -> Iterator[Claim]:
    if (case.kind, method) in REFUSING:
        refused = results[run]["refused"]
        yield Claim.true("is refused, with the remedy", REFUSED in refused, refused)
        return
    series = results[run]["temperature"]
    if case.large:
        yield Claim.true("runs, with finite energies", bool(np.isfinite(series).all()))
        return
    yield temperature_claim("temperature, K", series, TOLERANCE, LARGEST_ERROR)


def report(results: Results) -> Iterator[Claim]:
    known = {case.cls for case in CASES.values()} | set(LEFT_OUT) | {name for same in SAME.values() for name in same}
    base = {"WaterBox", "TestSystem"}
    unsorted = set(results["names"]["names"]) ^ (known | base) - base
    yield Claim.true("each test system is used, or there is a reason", not unsorted - base, ", ".join(sorted(unsorted)))
    for name, case in CASES.items():
        for method in KINDS[case.kind]:
            run = run_name(name, method)
            yield from each([run], partial(claims, results, case, method))


EXAM = Exam("openmmtools", "OpenMMTools' test systems, each integrator at its recommended step", runs, report)
