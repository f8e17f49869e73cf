"""The inertia of bonds: the largest step of models of water, without it, with the default, and with heavy hydrogens.

The criterion is the scoreboard's, but with two errors, for LangevinMiddle and SETTLE as well: nonbonded, bond and angle
energies, and the temperatures of translation, rotation and vibration.
"""
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import openmm as mm
from openmmstiff import MassPenaltyLangevinIntegrator
from openmmstiff.sampling import blockedError

from exam import Claim, Exam, Result, Results, Settings, Table
from common.observables import diffusion, reorientation
from common.water_sampling import Samples, steps_per_sample
from scoreboard import Found, find_fault
from tip3p_water import Run, langevin_middle, mass_penalty
from common.water import HEAVY_HYDROGEN
from water_runs import WATERS, make_run

ERRORS = 2
FRICTION = 1.0      # 1/ps
PS = 100.0
ENERGIES = {"nonbonded": "nonbonded", "bonds": "bond_energy", "angles": "angle_energy"}
MOTIONS = {"translation": "centre_temperature", "rotation": "rotation_temperature", "vibration": "internal_temperature"}


def without(temperature: float, friction: float, step: float) -> mm.Integrator:
    integrator = MassPenaltyLangevinIntegrator(temperature, friction, step)
    integrator.setBondInertia(0)
    return integrator


@dataclass(frozen=True)
class Liquid:
    model: str
    geometry: str
    reference: float            # fs, of LangevinMiddle
    goal: float                 # fs, a step of the default that meets the criterion
    steps: dict[str, tuple[float, ...]]     # fs, by the names of WAYS


@dataclass(frozen=True)
class Way:
    label: str
    make: object
    hydrogen_mass: float | None = None


WAYS = {"middle": Way("LangevinMiddle", langevin_middle), "without": Way("mass penalty, no inertia of bonds", without),
        "default": Way("mass penalty", mass_penalty),
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


def all_runs() -> Iterator[tuple[str, str, str, float]]:
    for liquid, of in LIQUIDS.items():
        for way, steps in of.steps.items():
            for fs in steps:
                yield name_of(liquid, way, fs), liquid, way, fs


def make(liquid: str, way: str, fs: float, settings: Settings) -> dict:
    of, by = LIQUIDS[liquid], WAYS[way]
    run = Run(by.label, of.geometry, fs / 1000, by.make, hydrogen_mass=by.hydrogen_mass)
    return make_run(run, FRICTION, settings.seed, PS, settings, of.model, motion=True)


def runs(settings: Settings) -> dict[str, partial]:
    return {name: partial(make, liquid, way, fs, settings) for name, liquid, way, fs in all_runs()}


def judged(run: Samples) -> Found:
    """The energies that are there, and the temperatures of the motions that are."""
    series = {text: getattr(run, name) for text, name in (ENERGIES | MOTIONS).items()}
    return Found(run.step, 0, {text: series[text] for text in ENERGIES if series[text].any()},
                 {text: series[text] for text in MOTIONS if np.isfinite(series[text]).all()}, {}, {})


def fault_of(found: Result, reference: Samples) -> str:
    """What does not meet the criterion, or an empty text."""
    runs = [] if "failure" in found else [judged(found.into(Samples))]
    return find_fault(runs, [judged(reference)], ERRORS)


def row(found: Result, reference: Samples) -> list[str]:
    fault = fault_of(found, reference)
    if "failure" in found:
        return [*["-"] * 4, fault]
    run = found.into(Samples)
    temperatures = ", ".join(f"{series.mean():.1f}({blockedError(series):.1f})" for series in
                             (getattr(run, name) for name in MOTIONS.values()) if np.isfinite(series).all())
    interval = steps_per_sample(run.step) * run.step
    return [f"{run.nonbonded.mean():.2f}({blockedError(run.nonbonded):.2f})", temperatures,
            f"{diffusion(run.centres, interval)[0]:.2f}", f"{reorientation(run.dipoles, interval)[0]:.2f}",
            fault or "holds"]


def report(results: Results) -> Iterator[Claim | Table]:
    largest = []
    for liquid, of in LIQUIDS.items():
        reference = results[name_of(liquid, "middle", of.reference)].into(Samples)
        faults = {(way, fs): fault_of(results[name_of(liquid, way, fs)], reference)
                  for way, steps in of.steps.items() for fs in steps}
        yield Table(f"{liquid}: {WATERS} waters, friction {FRICTION:g}/ps, {PS:g} ps",
                    ["integrator", "h, fs", "nonbonded, kJ/mol", "T of translation, rotation, vibration, K",
                     "D, 1e-5 cm^2/s", "tau, ps", "criterion"],
                    [[WAYS[way].label, f"{fs:g}", *row(results[name_of(liquid, way, fs)], reference)]
                     for way, fs in faults])
        steps = {way: max((fs for fs in of.steps.get(way, ()) if not faults[way, fs]), default=0) for way in WAYS}
        largest.append([liquid, *(f"{step:g}" if step else "-" for step in steps.values())])
        yield Claim.true(f"{liquid}: the default meets the criterion at {of.goal:g} fs", not faults["default", of.goal],
                         faults["default", of.goal])
    yield Table("The largest step that meets the criterion, fs", ["liquid", *(way.label for way in WAYS.values())],
                largest)


EXAM = Exam("mass-tensor", "The inertia of bonds: the largest steps in water", runs, report)
