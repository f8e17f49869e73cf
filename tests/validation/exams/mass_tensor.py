"""The inertia of bonds: the largest step of models of water, without it, with the default, and with heavy hydrogens.

The criterion, for LangevinMiddle and SETTLE as well: no nonbonded, bond or angle energy differs by more than 0.3 % from
that of a small step, and no temperature of translation, rotation or vibration by more than 1 % from the bath's, unless
by less than two standard errors. The scoreboard's longer runs decide.
"""
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import openmm as mm
from openmmstiff import MassPenaltyLangevinIntegrator

from exam import Claim, Exam, Result, Results, Settings, Table
from common.observables import diffusion, reorientation
from common.runs import configured
from common.tables import mean_with_error, with_error
from common.water_sampling import Samples, steps_per_sample
from scoreboard import Found, deviations
from tip3p_water import Run
from common.water import HEAVY_HYDROGEN
from water_runs import WATERS, make_run

FRICTION = 1.0      # 1/ps
ENERGY_TOLERANCE, TEMPERATURE_TOLERANCE, ERRORS = 0.003, 0.01, 2
PS = 100.0
ENERGIES = {"nonbonded": "nonbonded", "bonds": "bond_energy", "angles": "angle_energy"}
COLUMNS = ["run", "liquid", "integrator", "nonbonded energy at this step (kJ/mol)", "D (1e-5 cm²/s), tau (ps)",
           "largest step (fs)"]
MOTIONS = {"translation": "centre_temperature", "rotation": "rotation_temperature", "vibration": "internal_temperature"}


class Liquid(NamedTuple):
    model: str
    geometry: str
    reference: float            # fs, of LangevinMiddle
    goal: float                 # fs, a step of the default that meets the criterion
    steps: dict[str, tuple[float, ...]]     # fs, by the names of WAYS


class Way(NamedTuple):
    label: str
    make: object
    hydrogen_mass: float | None = None


without = configured(MassPenaltyLangevinIntegrator, BondInertia=0)
WAYS = {"middle": Way("LangevinMiddle", mm.LangevinMiddleIntegrator),
        "without": Way("mass penalty, no inertia of bonds", without),
        "default": Way("mass penalty", MassPenaltyLangevinIntegrator),
        "heavy": Way("mass penalty, no inertia of bonds, H of 4 dalton", without, HEAVY_HYDROGEN)}
FLEXIBLE = {"middle": (1, 2, 2.5), "without": (4, 6, 8), "default": (6, 8, 10, 12, 14, 16), "heavy": (8, 10, 12)}
# OpenMM leaves the hydrogens of rigid water as they are.
RIGID = {"middle": (2, 4, 6, 8), "without": (4, 6, 8), "default": (6, 8, 10, 12, 14)}
LIQUIDS = {
    "TIP3P, flexible": Liquid("tip3p", "flexible", 1, 14, FLEXIBLE),
    "TIP3P, rigid": Liquid("tip3p", "rigid", 2, 12, RIGID),
    "SPC/E, rigid": Liquid("spce", "rigid", 2, 12, RIGID),
    "TIP4P-Ew, rigid": Liquid("tip4pew", "rigid", 2, 10, RIGID),
    "OPC, rigid": Liquid("opc", "rigid", 2, 10, RIGID),
}


def name_of(liquid: str, way: str, fs: float) -> str:
    return f"{liquid} {way} {fs:g} fs".replace(", ", "-").replace("/", "").replace(" ", "-")


def make(liquid: str, way: str, fs: float, settings: Settings) -> dict:
    of, by = LIQUIDS[liquid], WAYS[way]
    run = Run(by.label, of.geometry, fs / 1000, by.make, hydrogen_mass=by.hydrogen_mass)
    return make_run(run, FRICTION, settings.seed, PS, settings, of.model, motion=True)


def runs(settings: Settings) -> dict[str, partial]:
    return {name_of(liquid, way, fs): partial(make, liquid, way, fs, settings)
            for liquid, of in LIQUIDS.items() for way, steps in of.steps.items() for fs in steps}


def judged(run: Samples) -> Found:
    """The energies that are there, and the temperatures of the motions that are."""
    series = {text: getattr(run, name) for text, name in (ENERGIES | MOTIONS).items()}
    return Found(run.step, {text: series[text] for text in ENERGIES if series[text].any()},
                 {text: series[text] for text in MOTIONS if np.isfinite(series[text]).all()}, {}, {})


def fault_of(found: Result, reference: Samples) -> str:
    """What does not meet the criterion, or an empty text."""
    if "failure" in found:
        return "fails"
    faults = []
    for name, (value, error) in deviations([judged(found.into(Samples))], [judged(reference)]).items():
        if abs(value) > max(TEMPERATURE_TOLERANCE if name in MOTIONS else ENERGY_TOLERANCE, ERRORS * error):
            faults.append(f"{name} {'+' if value > 0 else ''}{with_error(100 * value, 100 * error, 1)} %")
    return ", ".join(faults)


def averages(found: Result) -> tuple[str, str]:
    """The nonbonded energy; diffusion coefficient and time of reorientation."""
    run = found.into(Samples)
    interval = steps_per_sample(run.step) * run.step
    return (mean_with_error(run.nonbonded, 2),
            f"{diffusion(run.centres, interval)[0]:.2f}, {reorientation(run.dipoles, interval)[0]:.2f}")


def largest_row(results: Results, liquid: str, way: str, faults: dict[float, str]) -> list[str]:
    """Of the largest step that is right, if there is one, and what is wrong at the next."""
    step = max((fs for fs in faults if not faults[fs]), default=None)
    wrong = next((f"{faults[fs]} at {fs:g}" for fs in sorted(faults) if fs > (step or 0)), "")
    energy, moving = averages(results[name_of(liquid, way, step)]) if step else ("", "")
    settle = " with SETTLE" if way == "middle" and LIQUIDS[liquid].geometry == "rigid" else ""
    return [f"{liquid}: {way}", liquid, WAYS[way].label + settle, energy, moving,
            "; ".join(part for part in (f"{step:g}" if step else "none", wrong) if part)]


def report(results: Results) -> Iterator[Claim | Table]:
    largest = []
    for liquid, of in LIQUIDS.items():
        reference = results[name_of(liquid, "middle", of.reference)].into(Samples)
        faults = {way: {fs: fault_of(results[name_of(liquid, way, fs)], reference) for fs in steps}
                  for way, steps in of.steps.items()}
        largest += [largest_row(results, liquid, way, found) for way, found in faults.items()]
        fault = faults["default"][of.goal]
        yield Claim.true(f"{liquid}: the default meets the criterion at {of.goal:g} fs", not fault, fault)
    yield Table(f"The largest step that meets the criterion; {WATERS} waters, friction {FRICTION:g}/ps, {PS:g} ps",
                COLUMNS, largest, "mass-tensor")


EXAM = Exam("mass-tensor", "The inertia of bonds: the largest steps in water", runs, report)
