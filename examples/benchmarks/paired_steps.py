#!/usr/bin/env python
"""Time of a step over that of the best of OpenMM's own, in one process: the processor's in one thread, that of a clock
in several, which wants an idle machine.

Two step in turn, in short bursts, so that other load on the machine meets both alike, and each round has a ratio.
The mass penalty at the rival's own step is what the integrator itself takes; the rest of a ratio is neighbour
lists, which are rebuilt the more often the further atoms move in a step.
"""
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import openmm as mm
from openmmstiff import ImpulseIntegrator, ImpulseLangevinIntegrator, ZhangSkeelLangevinIntegrator

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common.options import OptionParser, add_names_option, add_record_option, number, run_program  # noqa: E402
from common.runs import begin, configured  # noqa: E402
from common.tables import print_table  # noqa: E402
from scoreboard import SUBJECTS, TEMPERATURE, Liquid, Method  # noqa: E402

KICKS = "plain", "projected", "mollified"   # with 8 micro-steps
# Beside the methods of the scoreboard.
OTHERS = {"zhangskeel": Method("Zhang-Skeel", ZhangSkeelLangevinIntegrator, (1,)),
          **{kick: Method(f"impulse, {kick}", configured(ImpulseLangevinIntegrator, NumMicroSteps=8, Kick=getattr(
              ImpulseIntegrator, kick.capitalize())), (1,)) for kick in KICKS}}
# By method and step in fs, the rival first.
STEPS = {"tip3p": (("settle", 4), ("rigid", 4), ("rigid", 12), ("penalty", 12)),
         "tip3p-895": (("settle", 6), ("rigid", 6), ("rigid", 14), ("penalty", 14)),
         "villin": (("constrained", 4), ("rigid", 4), ("rigid", 10), ("penalty", 11)),
         "flexible": (("middle", 1), *((key, 1) for key in OTHERS))}
OF = {"flexible": "tip3p-895"}
EQUILIBRATION, WARM_UP = 300, 100      # steps: of 2 fs, and of each integrator's own
SEED = 1


def measure(name: str, threads: int, rounds: int, steps: int) -> Iterator[list[str]]:
    subject = SUBJECTS[OF.get(name, name)]
    assert isinstance(subject, Liquid)
    methods = [((subject.methods | OTHERS)[key], fs) for key, fs in STEPS[name]]
    starts: dict[str, mm.State] = {}
    contexts = []
    for method, fs in methods:
        if method.geometry not in starts:
            starts[method.geometry] = subject.start(method.geometry, SEED, EQUILIBRATION).getState(positions=True)
        integrator = method.make(TEMPERATURE, subject.friction, fs / 1000)
        positions = starts[method.geometry].getPositions(asNumpy=True)
        contexts.append(begin(subject.build(method), integrator, positions, subject.platform, TEMPERATURE, SEED,
                              properties={"Threads": str(threads)}))
        integrator.step(WARM_UP)
    rival, *others = (context.getIntegrator() for context in contexts)
    clock = process_time if threads == 1 else perf_counter
    times = [take_turns(rival, other, rounds, steps, clock) for other in others]
    milliseconds = f"{1000 * np.median([each[0] for each in times]):.3f}"
    ratios = ["1", *(quartiles(each[1] / each[0]) for each in times)]
    for (method, fs), ratio in zip(methods, ratios):
        yield [subject.label, method.label, f"{fs:g}", milliseconds, ratio]


def take_turns(one: mm.Integrator, other: mm.Integrator, rounds: int, steps: int,
               clock: Callable[[], float]) -> np.ndarray:
    """Seconds of a step of both, in each round; shape (2, rounds)."""
    seconds = np.empty((2, rounds))
    for i in range(rounds):
        for which in (0, 1) if i % 2 == 0 else (1, 0):      # none is always first
            begun = clock()
            (one, other)[which].step(steps)
            seconds[which, i] = (clock() - begun) / steps
    return seconds


def quartiles(values: np.ndarray) -> str:
    low, median, high = np.percentile(values, (25, 50, 75))
    return f"{median:.3f} ({low:.3f} .. {high:.3f})"


def main():
    parser = OptionParser(__doc__)
    add_names_option(parser, "--systems", STEPS)
    parser.add_argument("--threads", type=number(int, 1), default=1, metavar="N",
                        help="threads of the CPU platform (default: %(default)s)")
    parser.add_argument("--rounds", type=number(int, 2), default=40, metavar="N",
                        help="number of bursts of each integrator (default: %(default)s)")
    parser.add_argument("--steps", type=number(int, 1), default=20, metavar="N",
                        help="steps of a burst (default: %(default)s)")
    add_record_option(parser)
    options = parser.parse_args()
    print_table(["system", "integrator", "step (fs)", "the rival's step (ms)", "ratio to that: median (quartiles)"],
                (row for name in options.systems
                 for row in measure(name, options.threads, options.rounds, options.steps)),
                options.record, "paired-steps" if options.threads == 1 else f"paired-steps-{options.threads}")


if __name__ == "__main__":
    run_program(main)
