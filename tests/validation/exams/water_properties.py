"""What people care for, at the recommended step against 0.5 fs: water's density over the temperature and its heat of
vaporization.

The density has no maximum here: TIP3P's lies at 182 K (Vega, Abascal, Conde and Aragones, Faraday Discuss. 141, 251,
2009), where the liquid moves too slowly for runs of this length.
"""
from collections.abc import Iterator
from functools import partial

import numpy as np
import openmm as mm
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import GAS_CONSTANT, blockedError

from exam import Claim, Exam, Results, Settings, each, mean_within, pair_claim
from common.observables import observe_density
from common.runs import remove_forces
from common.water import build_box, build_system
from water_runs import WATERS, equilibrated

EQUILIBRATION = 10.0                    # ps, flexible
TEMPERATURES = (260.0, 300.0, 340.0)    # K
ROOM = 300.0
PRESSURE = 1.0                          # bar
FRICTION = 2.0                          # 1/ps
INTEGRATORS = {"middle": (mm.LangevinMiddleIntegrator, 0.0005, 30.0),   # step and time, ps
               "masspenalty": (MassPenaltyLangevinIntegrator, 0.008, 200.0)}
BAROSTAT_INTERVAL = 0.024               # ps
SAMPLE_INTERVAL = 0.048
SETTLING = 5.0
GAS_TIME = 20.0


def make_liquid(name: str, temperature: float, settings: Settings) -> dict:
    """Density, g/cm^3, and potential energy, kJ/mol per water, at constant pressure."""
    make, step, ps = INTEGRATORS[name]
    system = build_system(build_box(WATERS), "flexible")
    barostat = mm.MonteCarloBarostat(PRESSURE, temperature, round(BAROSTAT_INTERVAL / step))
    barostat.setRandomNumberSeed(settings.seed)
    system.addForce(barostat)
    state = settings.shared(f"water-{temperature:g}K", partial(equilibrated, "flexible", settings, settings.seed,
                                                               temperature, EQUILIBRATION))
    context = settings.begin(system, make(temperature, FRICTION, step), state.getPositions(), temperature,
                             settings.seed)
    found = settings.sample(context, SETTLING, ps, SAMPLE_INTERVAL, 16, observe=observe_density(system))
    return {"density": found.observed["density"], "potential": found.potential / WATERS}


def make_gas(name: str, settings: Settings) -> dict:
    """Potential energy of molecules that do not see each other, kJ/mol per water."""
    make, step, _ = INTEGRATORS[name]
    system = build_system(build_box(WATERS), "flexible")
    remove_forces(system, lambda force: force.getName() not in ("HarmonicBondForce", "HarmonicAngleForce"))
    context = settings.begin(system, make(ROOM, FRICTION, step), build_box(WATERS).positions, ROOM, settings.seed)
    return {"potential": settings.sample(context, SETTLING, GAS_TIME, SAMPLE_INTERVAL, 16).potential / WATERS}


def runs(settings: Settings) -> dict[str, partial]:
    return {**{f"{name}-{temperature:g}K": partial(make_liquid, name, temperature, settings)
               for name in INTEGRATORS for temperature in TEMPERATURES},
            **{f"{name}-gas": partial(make_gas, name, settings) for name in INTEGRATORS}}


def heat_of_vaporization(results: Results, name: str) -> tuple[float, float]:
    """kJ/mol, with its error: the gas is ideal, and its volume much larger than the liquid's."""
    gas, liquid = (results[f"{name}-{phase}"]["potential"] for phase in ("gas", f"{ROOM:g}K"))
    return gas.mean() - liquid.mean() + GAS_CONSTANT * ROOM, float(np.hypot(blockedError(gas), blockedError(liquid)))


def expansion(results: Results, name: str) -> tuple[float, float]:
    """The coefficient of thermal expansion, 1e-4/K, from the coldest to the warmest, with its error."""
    cold, warm = (results[f"{name}-{temperature:g}K"]["density"] for temperature in
                  (TEMPERATURES[0], TEMPERATURES[-1]))
    scale = 1e4 / (TEMPERATURES[-1] - TEMPERATURES[0])
    return (scale * np.log(cold.mean() / warm.mean()),
            scale * float(np.hypot(blockedError(cold) / cold.mean(), blockedError(warm) / warm.mean())))


DERIVED = {"heat of vaporization, kJ/mol": (heat_of_vaporization, 0.25), "expansion, 1e-4/K": (expansion, 2.0)}


def claims(results: Results, name: str) -> Iterator[Claim]:
    phase = name.removeprefix("masspenalty-")
    reference, found = results[f"middle-{phase}"], results[name]
    for kind in found.keys() & {"density", "potential"}:
        yield mean_within(f"{kind}, {'g/cm^3' if kind == 'density' else 'kJ/mol'}", found[kind], reference[kind])


def derived_claims(results: Results, _: str) -> Iterator[Claim]:
    for text, (compute, tolerance) in DERIVED.items():
        yield pair_claim(text, compute(results, "masspenalty"), compute(results, "middle"), tolerance)


def report(results: Results) -> Iterator[Claim]:
    yield from each([name for name in results if name.startswith("masspenalty")], partial(claims, results))
    yield from each(["masspenalty"], partial(derived_claims, results))


EXAM = Exam("water-properties", "Density over the temperature, heat of vaporization: 8 fs against 0.5 fs", runs,
            report)
