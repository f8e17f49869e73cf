#!/usr/bin/env python
"""The chain of pendula of Tao and Owhadi (2014, section 4.2, figure 3): penalties at a coarse step against SHAKE.

Mass i of n hangs on mass i - 1 by a link of length sqrt 5 and starts from rest at (i, -2i); masses and gravity are 1.
Links are constraints of OpenMM, whose solver CCMA stands for SHAKE, or penalties omega^2/2 g^T g, g_i = r_i^2 - 5.
What differs from the paper is what differs for the double pendulum, in double_pendulum.py. The time of the figure is
not in the text: it is t = 100 here. From this start the chain of 10 swings regularly, without chaos.
"""
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, number, run_program  # noqa: E402
from common.papers import panels, parse  # noqa: E402
from penalties import BETA, OMEGA, Method, print_comparison, swing_all  # noqa: E402

LENGTH, FRAME, EARLY = np.sqrt(5), 0.05, 10.0
METHODS = (Method("SHAKE", "SHAKE", 0.05, "#fdae6b"),
           Method("SHAKE", "SHAKE", 0.025, "#9ecae1"),
           Method("Z&S", "ThirdDerivatives", 0.05, "#08306b"),
           Method("Verlet, penalties", "Verlet", 0.1 / OMEGA, "#9467bd"))
REFERENCE = 1


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--links", type=number(int, 1, most=100), default=10, metavar="N",
                        help="number of links and masses (default: %(default)s)")
    options = parse(parser, time=100.0)
    start = np.outer(np.arange(options.links + 1), (1.0, -2.0, 0.0))
    runs = swing_all(METHODS, np.full(options.links, LENGTH), start, FRAME, options.time)
    exact = runs[REFERENCE].positions
    apart = [np.abs(run.positions - exact[:len(run.times)]).max(axis=(1, 2)) for run in runs]
    print_comparison(f"{options.links} links, {options.links * LENGTH:.1f} long, omega = {OMEGA:g}, beta = {BETA:g}:\n"
                     f"largest difference of a coordinate to {METHODS[REFERENCE].whole_label}", METHODS, runs, apart,
                     (min(EARLY, options.time), options.time))
    with panels(options.figure, 2, 1) as (over_time, difference):
        for i, (method, run) in enumerate(zip(METHODS, runs)):
            over_time.plot(run.times, run.positions[:, -1, 0], label=method.whole_label, color=method.color,
                           linewidth=4 if i == REFERENCE else 1)
            if i != REFERENCE:
                difference.semilogy(run.times[1:], apart[i][1:], label=method.whole_label, color=method.color)
        over_time.set(title="x of the last mass", xlabel="time", ylabel="x")
        difference.set(title=f"Largest difference of a coordinate to {METHODS[REFERENCE].whole_label}", xlabel="time",
                       ylabel="difference")


if __name__ == "__main__":
    run_program(main)
