#!/usr/bin/env python
"""Cost of a step of ZhangSkeelLangevinIntegrator relative to one of LangevinMiddleIntegrator.

Flexible TIP3P water with PME. Both integrators start from the same equilibrated state and step in turn, in
short bursts, so that other load on the machine meets both alike; only the steps are timed.
"""
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm as mm
from openmmstiff import ZhangSkeelLangevinIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from options import OptionParser, add_box_options, number, run_program  # noqa: E402
from water import build_box, build_system, equilibrate  # noqa: E402

TEMPERATURE = 300.0  # K
FRICTION = 1.0       # 1/ps
STEP = 0.001         # ps


def main():
    parser = OptionParser(__doc__)
    add_box_options(parser, waters=895)
    parser.add_argument("--threads", type=number(int, 1), default=2, metavar="N",
                        help="threads of the CPU platform (default: %(default)s)")
    parser.add_argument("--rounds", type=number(int, 2), default=40, metavar="N",
                        help="number of bursts of each integrator (default: %(default)s)")
    parser.add_argument("--steps", type=number(int, 1), default=20, metavar="N",
                        help="steps of a burst (default: %(default)s)")
    options = parser.parse_args()

    box = build_box(options.waters)
    settings = {"temperature": TEMPERATURE, "platform": options.platform, "seed": options.seed}
    state = equilibrate(box, "rigid", 0.5, **settings)
    state = equilibrate(box, "flexible", 0.5, **settings, start=state)
    integrators = (ZhangSkeelLangevinIntegrator(TEMPERATURE, FRICTION, STEP),
                   mm.LangevinMiddleIntegrator(TEMPERATURE, FRICTION, STEP))
    system = build_system(box, "flexible")
    properties = {"Threads": str(options.threads)} if options.platform == "CPU" else {}
    contexts = []  # keeps the Contexts alive
    for integrator in integrators:
        integrator.setRandomNumberSeed(options.seed)
        contexts.append(mm.Context(system, integrator, mm.Platform.getPlatform(options.platform), properties))
        contexts[-1].setState(state)
        integrator.step(2 * options.steps)  # warm-up

    seconds = np.empty((options.rounds, 2))
    for i in range(options.rounds):
        for which in (0, 1) if i % 2 == 0 else (1, 0):  # neither is always first
            begin = perf_counter()
            integrators[which].step(options.steps)
            seconds[i, which] = (perf_counter() - begin) / options.steps

    where = f"{options.platform} platform" + (f", {options.threads} threads" if properties else "")
    print(f"{options.waters} flexible waters, {where}, {1000 * STEP:g} fs, "
          f"{options.rounds} rounds of {options.steps} steps: median (quartiles)")
    for which, integrator in enumerate(integrators):
        print(f"{type(integrator).__name__:30}{quartiles(1000 * seconds[:, which])} ms/step")
    print(f"{'ratio':30}{quartiles(seconds[:, 0] / seconds[:, 1])}")


def quartiles(values: np.ndarray) -> str:
    low, median, high = np.percentile(values, (25, 50, 75))
    return f"{median:.3f} ({low:.3f} .. {high:.3f})"


if __name__ == "__main__":
    run_program(main)
