#!/usr/bin/env python
"""Validate the dynamics of ImpulseLangevinIntegrator on liquid TIP3P water: self-diffusion against SETTLE.

With the projected kick, molecules with flexible bonds and angles move as rigid ones do. The friction, the same for
both, slows diffusion down; with much less of it the heat of the projected kicks would not be carried off. The exit code
is 0 if every claim holds and 1 if not.
"""
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import openmm as mm
from openmm import app, unit
from openmmstiff import ImpulseIntegrator
from openmmstiff.sampling import blockedError, computeTemperature

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from observables import DIFFUSION_LAGS, diffusion  # noqa: E402
from options import OptionParser, add_box_options, add_run_options, progress_bar, run_program  # noqa: E402
from tip3p_water import TEMPERATURE, Run, impulse, langevin_middle  # noqa: E402
from water import advance, build_box, build_system, equilibrate  # noqa: E402

EQUILIBRATION_TIME = 5.0  # ps, of each geometry; then twice as long with the run's own integrator
SETTLING_FRICTION = 3.0   # 1/ps
FRAME_INTERVAL = 0.24     # ps
MOST_ERROR = 0.05         # of the difference, relative: beyond it the claim is undecided
TEMPERATURE_TOLERANCE = 0.01

RUNS = {
    "settle-2fs": Run("LangevinMiddle + SETTLE", "rigid", 0.002, langevin_middle, "settle-2fs"),
    "projected-4fs": Run("Projected impulse, flexible", "flexible", 0.004,
                         impulse(ImpulseIntegrator.Projected), "settle-2fs"),
}


@dataclass
class Diffusion:
    coefficient: float        # 1e-5 cm^2/s
    error: float
    temperature: np.ndarray   # K


def diffuse(name: str, options) -> Diffusion:
    run = RUNS[name]
    box = build_box(options.waters)
    common = {"temperature": TEMPERATURE, "platform": options.platform, "seed": options.seed}
    state = None
    for geometry in ["rigid"] if run.geometry == "rigid" else ["rigid", "flexible"]:
        state = equilibrate(box, geometry, EQUILIBRATION_TIME, start=state, **common)
    integrator = run.make(TEMPERATURE, SETTLING_FRICTION, run.step)
    integrator.setRandomNumberSeed(options.seed)
    simulation = app.Simulation(box.topology, build_system(box, run.geometry), integrator,
                                mm.Platform.getPlatform(options.platform))
    context = simulation.context
    context.setPositions(state.getPositions())
    context.setVelocitiesToTemperature(TEMPERATURE, options.seed)
    masses = np.array([context.getSystem().getParticleMass(i).value_in_unit(unit.dalton) for i in range(3)])
    steps, settling = round(FRAME_INTERVAL / run.step), round(EQUILIBRATION_TIME / run.step)
    frames = round(options.time / FRAME_INTERVAL)
    centres, temperatures = np.empty((frames, options.waters, 3)), np.empty(frames)
    with progress_bar(name, 2 * settling + steps * frames) as bar:
        advance(integrator, settling, bar.update)
        integrator.setFriction(options.friction)
        advance(integrator, settling, bar.update)
        for i in range(frames):
            advance(integrator, steps, bar.update)
            found = context.getState(positions=True, energy=True)
            positions = found.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
            centres[i] = np.einsum("a,maj->mj", masses / masses.sum(), positions.reshape(-1, 3, 3))
            temperatures[i] = computeTemperature(context, found)
    return Diffusion(*diffusion(centres, FRAME_INTERVAL), temperatures)


def main() -> int:
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=216)
    add_run_options(parser, time=400.0)
    options = parser.parse_args()
    if options.time < 2 * DIFFUSION_LAGS[1]:
        parser.error(f"argument --time: {options.time:g} ps: give at least {2 * DIFFUSION_LAGS[1]:g} ps, twice the "
                     "longest lag")
    print(f"{options.waters} TIP3P waters, friction {options.friction:g}/ps, {options.time:g} ps each, "
          f"{options.platform} platform\n\nintegrator                   step (fs)  D (1e-5 cm^2/s)  T (K)")
    results = {}
    for name, run in RUNS.items():
        results[name] = found = diffuse(name, options)
        print(f"{run.label:28} {1000 * run.step:9g}  {found.coefficient:6.2f} +- {found.error:.2f}   "
              f"{found.temperature.mean():.1f} +- {blockedError(found.temperature):.1f}", flush=True)
    reference, found = results["settle-2fs"], results["projected-4fs"]
    difference, error = found.coefficient - reference.coefficient, np.hypot(found.error, reference.error)
    if error > MOST_ERROR * reference.coefficient:
        verdicts = ["UNDECIDED, needs a longer --time"]
    else:
        verdicts = ["pass" if abs(difference) <= 3 * error else "FAIL"]
    print(f"\ndiffusion: difference {difference:.2f} +- {error:.2f}, at most 3 errors: {verdicts[0]}")
    off = abs(found.temperature.mean() / TEMPERATURE - 1)
    verdicts.append("pass" if off <= TEMPERATURE_TOLERANCE else "FAIL")
    print(f"temperature: off by {100 * off:.1f} %, tolerance {100 * TEMPERATURE_TOLERANCE:g} %: {verdicts[1]}")
    return 0 if verdicts == ["pass", "pass"] else 1


if __name__ == "__main__":
    run_program(main)
