#!/usr/bin/env python
"""Cost of a step of this package's integrators relative to one of OpenMM's.

Flexible TIP3P water with PME. All integrators start from the same equilibrated state and step in turn, in short bursts,
so that other load on the machine meets all alike; only the steps are timed.
"""
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from openmmstiff import ImpulseIntegrator, ImpulseLangevinIntegrator, ZhangSkeelLangevinIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import OptionParser, add_box_options, add_record_option, number, run_program  # noqa: E402
from common.runs import begin, configured  # noqa: E402
from common.tables import print_table  # noqa: E402
from tip3p_water import TEMPERATURE  # noqa: E402
from common.water import build_box, build_system, equilibrate  # noqa: E402

FRICTION = 1.0       # 1/ps
STEP = 0.001         # ps
MICRO_STEPS = 8


INTEGRATORS = {"LangevinMiddle": mm.LangevinMiddleIntegrator, "Z&Ss-Langevin": ZhangSkeelLangevinIntegrator,
               **{f"Impulse, {kick.lower()}": configured(
                   ImpulseLangevinIntegrator, Kick=getattr(ImpulseIntegrator, kick), NumMicroSteps=MICRO_STEPS)
                  for kick in ("Plain", "Projected", "Mollified")}}
Times = dict[str, np.ndarray]


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=895)
    parser.add_argument("--threads", type=number(int, 1), default=2, metavar="N",
                        help="threads of the CPU platform (default: %(default)s)")
    add_turn_options(parser)
    add_record_option(parser)
    options = parser.parse_args()

    box = build_box(options.waters)
    settings = {"temperature": TEMPERATURE, "platform": options.platform, "seed": options.seed}
    rigid = equilibrate(box, "rigid", 0.5, **settings)
    flexible = equilibrate(box, "flexible", 0.5, **settings, start=rigid)
    where = f"{options.platform} platform" + (f", {options.threads} threads" if options.platform == "CPU" else "")
    print(f"{options.waters} waters, {where}, {1000 * STEP:g} fs, {options.rounds} rounds of {options.steps} steps: "
          "median (quartiles)")
    seconds = measure(build_system(box, "flexible"), flexible, options)
    reference = next(iter(seconds))
    print_table(["flexible", "ms/step", f"ratio to {reference}"], [
        [name, quartiles(1000 * times), quartiles(times / seconds[reference])] for name, times in seconds.items()],
        options.record, "step-cost")


def measure(system: mm.System, state: mm.State, options) -> Times:
    """Seconds of a step in each round."""
    properties = {"Threads": str(options.threads)} if options.platform == "CPU" else {}
    integrators = {name: make(TEMPERATURE, FRICTION, STEP) for name, make in INTEGRATORS.items()}
    contexts = []  # keeps the Contexts alive
    for integrator in integrators.values():
        contexts.append(begin(system, integrator, state, options.platform, TEMPERATURE, options.seed,
                              properties=properties))
        integrator.step(2 * options.steps)  # warm-up
    return take_turns(integrators, options.rounds, options.steps)


def add_turn_options(parser: OptionParser):
    """--rounds and --steps, as take_turns() has them."""
    parser.add_argument("--rounds", type=number(int, 2), default=40, metavar="N",
                        help="number of bursts of each integrator (default: %(default)s)")
    parser.add_argument("--steps", type=number(int, 1), default=20, metavar="N",
                        help="steps of a burst (default: %(default)s)")


def take_turns(integrators: dict[str, mm.Integrator], rounds: int, steps: int,
               clock: Callable[[], float] = perf_counter) -> Times:
    """Seconds of a step in each round, in which each integrator makes a burst of steps."""
    seconds = {name: np.empty(rounds) for name in integrators}
    for i in range(rounds):
        for name in list(integrators) if i % 2 == 0 else reversed(integrators):  # none is always first
            begin = clock()
            integrators[name].step(steps)
            seconds[name][i] = (clock() - begin) / steps
    return seconds


def quartiles(values: np.ndarray) -> str:
    low, median, high = np.percentile(values, (25, 50, 75))
    return f"{median:.3f} ({low:.3f} .. {high:.3f})"


if __name__ == "__main__":
    run_program(main)
