#!/usr/bin/env python
"""The chain of pendula of Tao and Owhadi (2014, section 4.2, figure 3): penalties at a coarse step against SHAKE.

Mass i of n hangs on mass i - 1 by a link of length sqrt 5 and starts from rest at (i, -2i); masses and gravity are 1.
Links are constraints of OpenMM, whose solver CCMA stands for SHAKE, or penalties omega^2/2 g^T g, g_i = r_i^2 - 5,
with omega = 20.

What differs from the paper:
- Gravity. The paper prints V = -sum y_i, by which the chain stands on its head; V = sum y_i is used, gravity along -y.
- The time of the figure is not in the text: it is t = 100 here.
- The pin is a particle without mass; for SHAKE it has the mass 1e12, because OpenMM refuses constraints to massless
  particles.
- Verlet on the penalties at h = 0.1/omega is added. It shows how much of the differences to SHAKE penalties make.
- The seconds are those of OpenMM's Reference platform against MATLAB of 2008: compare the ratios, if anything.

No chaos was met: from this start the chain of 10 swings regularly, and differences grow slowly and linearly (0.03
between SHAKE's two steps up to t = 400). So they are given for the whole time.
"""
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import pyplot

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from common.options import OptionParser, number, progress_bar, run_program  # noqa: E402
from common.papers import Trajectory, parse, save  # noqa: E402
from penalties import Method, swing  # noqa: E402

LENGTH = np.sqrt(5)
OMEGA, BETA = 20.0, 0.4
EARLY = 10.0  # differences are also given up to here
FRAME = 0.05  # time from one frame to the next
REPEATS = 10  # of each run, for its cost
MAX_LINKS = 100


METHODS = (Method("SHAKE", "SHAKE", 0.05, 8.1, "#fdae6b"),
           Method("SHAKE", "SHAKE", 0.025, 16.5, "#9ecae1"),
           Method("Z&S", "ThirdDerivatives", 0.05, 1.1, "#08306b"),
           Method("Verlet, penalties", "Verlet", 0.1 / OMEGA, 0, "#9467bd"))
PLOTTED = {1: 6, 0: 3, 2: 1}  # of METHODS, from the lowest: the widths of their lines
COMPARED, REFERENCE = 0, 1  # of METHODS: ratios of seconds, and differences


def run(method: Method, links: int, frames: int) -> tuple[Trajectory, float]:
    """A trajectory with frames every FRAME, and the seconds of further ones without them."""
    every = round(FRAME / method.step)
    steps = every * frames
    lengths = np.full(links, LENGTH)
    start = np.outer(np.arange(links + 1), (1.0, -2.0, 0.0))
    with progress_bar(f"{method.label} {method.step:g}", (1 + REPEATS) * steps) as bar:
        found = swing(method.name, lengths, start, method.step, steps, every, OMEGA, BETA, bar.update)
        seconds = min(swing(method.name, lengths, start, method.step, steps, steps, OMEGA, BETA, bar.update).seconds
                      for _ in range(REPEATS))
    return found, seconds


def difference(a: Trajectory, b: Trajectory) -> np.ndarray:
    """The largest of a coordinate of any mass, at every frame."""
    return np.abs(a.positions[:, 1:] - b.positions[:, 1:]).max(axis=(1, 2))


def print_table(links: int, found: Sequence[Trajectory], seconds: Sequence[float], frames: int):
    end = frames * FRAME
    early = min(EARLY, end)
    reference, shake = found[REFERENCE], METHODS[COMPARED]
    print(f"{links} links of length sqrt 5, omega = {OMEGA:g}, beta = {BETA:g}: largest difference of a coordinate to "
          f"SHAKE at h = {METHODS[REFERENCE].step:g},\nthe chain being {links * LENGTH:.1f} long; largest change of "
          f"the energy, which is {reference.energies[0]:g};\nseconds and their ratio to those of SHAKE at "
          f"h = {shake.step:g}, here and in the paper (10 links)\n")
    columns = "{:20}{:>7}{:>8}{:>11}{:>11}{:>10}{:>10}{:>8}{:>10}{:>8}"
    print(columns.format("method", "h", "steps", f"t <= {early:g}", f"t <= {end:g}", "energy", "seconds", "ratio",
                         "paper's", "ratio"))
    for method, trajectory, cost in zip(METHODS, found, seconds):
        change = np.abs(trajectory.energies - trajectory.energies[0]).max()
        if len(trajectory.times) <= frames:
            results = ["fails", f"t = {trajectory.times[-1]:.4g}", "", "", ""]
        else:
            differences = ["-", "-"]
            if trajectory is not reference and len(reference.times) > frames:
                apart = difference(trajectory, reference)
                differences = [f"{apart[trajectory.times < time + FRAME / 2].max():.2g}" for time in (early, end)]
            results = [*differences, f"{change:.1e}", f"{cost:.3g}", f"{cost / seconds[COMPARED]:.2f}"]
        paper = (method.paper_seconds, f"{method.paper_seconds / shake.paper_seconds:.2f}") \
            if method.paper_seconds else "--"
        print(columns.format(method.label, f"{method.step:g}", round(end / method.step), *results, *paper))
    print(f"Seconds: the least of {REPEATS} runs, OpenMM's Reference platform.")


def draw(links: int, found: Sequence[Trajectory], path: Path):
    """Coordinates of the middle and of the last mass, and differences to SHAKE at the fine step."""
    labels = [f"{method.label}, h = {method.step:g}" for method in METHODS]
    figure, panels = pyplot.subplot_mosaic([["x middle", "y middle"], ["x last", "y last"], ["apart", "apart"]],
                                           figsize=(12, 10), layout="constrained")
    for row, mass in ((" middle", (links + 1) // 2), (" last", links)):
        for axis, name in enumerate("xy"):
            for i, width in PLOTTED.items():
                panels[name + row].plot(found[i].times, found[i].positions[:, mass, axis], label=labels[i],
                                        color=METHODS[i].color, linewidth=width)
            panels[name + row].set(ylabel=f"{name}{mass}")
    for trajectory, method, label in zip(found, METHODS, labels):
        if trajectory is not found[REFERENCE] and len(trajectory.times) == len(found[REFERENCE].times):
            panels["apart"].semilogy(trajectory.times[1:], difference(trajectory, found[REFERENCE])[1:], label=label,
                                     color=method.color, linewidth=1)
    panels["apart"].set(title=f"Largest difference of a coordinate to SHAKE, h = {METHODS[REFERENCE].step:g}",
                        xlabel="time", ylabel="difference", ylim=(1e-5, None))
    panels["apart"].legend(frameon=False, loc="lower right", ncols=len(METHODS))
    figure.legend(*panels["x middle"].get_legend_handles_labels(), loc="outside upper center", ncols=len(PLOTTED),
                  frameon=False)
    save(figure, path)


def main():
    parser = OptionParser(__doc__)
    parser.add_argument("--links", type=number(int, 1, most=MAX_LINKS), default=10, metavar="N",
                        help="number of links and masses (default: %(default)s)")
    parser.add_argument("--time", type=number(float, 1), default=100.0, metavar="T",
                        help="time of the runs (default: %(default)s)")
    options = parse(parser)

    frames = round(options.time / FRAME)
    found, seconds = zip(*(run(method, options.links, frames) for method in METHODS))
    print_table(options.links, found, seconds, frames)
    draw(options.links, found, options.figure)


if __name__ == "__main__":
    run_program(main)
