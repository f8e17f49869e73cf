#!/usr/bin/env python
"""What biases the energies of flexible TIP3P water at 12 fs with the mass penalty: the step, or the inertias.

Runs of 216 waters: at 12 fs; at 6 fs with the inertias of 12 fs; and at 12 fs with twice the inertia of bonds. Energies
are per water, temperatures of its motions.

Results are kept in files: what has been done is not done again.
"""
import sys
from functools import partial
from pathlib import Path

import openmm as mm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import (OptionParser, add_output_option, add_record_option, add_repeat_options,  # noqa: E402
                            add_scale_option, run_program)
from common.runs import Settings, results_of  # noqa: E402
from common.tables import print_table, with_error  # noqa: E402
from scoreboard import Found, Method, Water, penalty, pool  # noqa: E402

STEP = 0.012            # ps
WATER = Water(216, evaluations=0)     # the length of runs is given
ENERGIES, MOTIONS = ("nonbonded", "bonds", "angles"), ("translation", "rotation", "vibration")


def with_inertias(step: float, bonds: float, temperature: float, friction: float, size: float) -> mm.Integrator:
    """At a step of `size` with the inertias of another step, and so many times its inertia of bonds."""
    integrator = penalty(temperature, friction, step)
    integrator.setPenalizedPeriod(integrator.getPenalizedPeriod())
    integrator.setBondInertia(bonds * integrator.getBondInertia())
    integrator.setStepSize(size)
    return integrator


# By name: the method with its step in fs.
WAYS = {
    "penalty": Method("mass penalty", penalty, (12,)),
    "half": Method("mass penalty, inertias of 12 fs", partial(with_inertias, STEP, 1), (6,)),
    "heavier": Method("mass penalty, twice the inertia of bonds", partial(with_inertias, STEP, 2), (12,)),
}
TIME = 720              # ps


def make(name: str, seed: int, settings: Settings) -> dict:
    method = WAYS[name]
    start = settings.shared("step-bias", lambda: WATER.start("flexible", settings.seed).getState(positions=True))
    return vars(WATER.run(method, method.steps[0] / 1000, settings.time(TIME), seed,
                          start.getPositions(asNumpy=True)._value))


def main():
    parser = OptionParser(__doc__)
    add_repeat_options(parser)
    add_scale_option(parser)
    add_output_option(parser)
    add_record_option(parser)
    options = parser.parse_args()
    settings = Settings((options.output / "step-bias").absolute(), scale=options.scale)
    made = results_of({f"{name}-{seed}": partial(make, name, seed, settings) for name in WAYS
                       for seed in range(1, options.seeds + 1)}, settings.folder, options.processes, options.report)
    rows = []
    for name, method in WAYS.items():
        runs = [result.into(Found) for key, result in made.items() if key.rpartition("-")[0] == name]
        if runs:
            energies = [pool([run.energies[kind] / WATER.waters for run in runs]) for kind in ENERGIES]
            motions = [pool([run.temperatures[kind] for run in runs]) for kind in MOTIONS]
            rows.append([method.label, f"{method.steps[0]:g}", f"{len(runs)}",
                         *(with_error(*each, 3) for each in energies), *(with_error(*each, 1) for each in motions)])
    print_table(["integrator", "step (fs)", "runs", *(f"{kind} (kJ/mol)" for kind in ENERGIES),
                 *(f"{kind} (K)" for kind in MOTIONS)], rows, options.record, "step-bias")


if __name__ == "__main__":
    run_program(main)
