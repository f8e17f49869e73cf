"""What the scripts that repeat the experiments of papers share: runs, exact motions, tables and figures.

Numbers are the papers', in consistent units: 1 stands for OpenMM's nm, ps and dalton.
"""
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import openmm as mm
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from common import tables
from common.options import OptionParser, add_output_option, number
from common.runs import total_energy


@dataclass
class Trajectory:
    """Frames, the first of them the start."""
    times: np.ndarray       # shape (frames,)
    positions: np.ndarray   # shape (frames, particles, 3)
    velocities: np.ndarray  # the same
    energies: np.ndarray    # total, shape (frames,)
    observed: np.ndarray    # shape (frames - 1, ...)
    seconds: float          # of the steps, without the sampling


def make_context(system: mm.System, integrator: mm.Integrator, positions: np.ndarray,
                 velocities: np.ndarray | None = None, platform: str = "Reference") -> mm.Context:
    """At rest without velocities."""
    context = mm.Context(system, integrator, mm.Platform.getPlatform(platform))
    context.setPositions(positions)
    context.setVelocities(np.zeros_like(positions) if velocities is None else velocities)
    return context


def simulate(system: mm.System, integrator: mm.Integrator, positions: np.ndarray, steps: int, every: int = 1,
             velocities: np.ndarray | None = None, observe: Callable[[], Any] | None = None,
             platform: str = "Reference") -> Trajectory:
    """Run, and look at the start and every so many steps. A run that fails ends there."""
    context = make_context(system, integrator, positions, velocities, platform)
    frames, observed, seconds = [], [], 0.0
    for frame in range(steps // every + 1):
        if frame > 0:
            begin = perf_counter()
            try:
                integrator.step(every)
            except mm.OpenMMException:
                break
            seconds += perf_counter() - begin
            if observe:
                observed.append(observe())
        state = context.getState(positions=True, velocities=True, energy=True)
        frames.append((state.getTime()._value, state.getPositions(asNumpy=True)._value,
                       state.getVelocities(asNumpy=True)._value, total_energy(state)))
    times, x, v, energies = (np.array(column) for column in zip(*frames))
    return Trajectory(times, x, v, energies, np.array(observed), seconds)


def verlet(step: float, omega: float = 0, constrained: bool = True) -> mm.CustomIntegrator:
    """Velocity Verlet, RATTLE if constrained: velocities belong to the positions' times, unlike VerletIntegrator's.

    With omega, forces have the parameter theta, a phase that grows at this rate.
    """
    integrator = mm.CustomIntegrator(step)
    integrator.addGlobalVariable("advance", omega * step)
    integrator.addPerDofVariable("free", 0)
    integrator.addComputePerDof("v", "v+dt/2*f/m")
    integrator.addComputePerDof("x", "x+dt*v")
    if constrained:
        integrator.addComputePerDof("free", "x")
        integrator.addConstrainPositions()
    if omega:
        integrator.addComputeGlobal("theta", "theta+advance")
    integrator.addComputePerDof("v", "v+dt/2*f/m+(x-free)/dt" if constrained else "v+dt/2*f/m")
    if constrained:
        integrator.addConstrainVelocities()
        integrator.setConstraintTolerance(1e-12)
    return integrator


def solve(rates: Callable[[float, np.ndarray], Any], start: Sequence[float] | np.ndarray, end: float,
          tolerance: float = 1e-12) -> Callable[[Any], np.ndarray]:
    """The solution of an ordinary differential equation as a function of time from 0 to `end`."""
    return solve_ivp(rates, (0, end), start, method="DOP853", rtol=tolerance, atol=tolerance, dense_output=True).sol


def slope(x: Iterable[float], y: Iterable[Any]) -> np.ndarray:
    """Of the logarithm of y, or of each column of y, over that of x."""
    return np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0]


def print_table(title: str, columns: str | Iterable[str], rows: Iterable[Sequence[Any]]):
    """Columns are headings (or a text of them with bars between) with formats, such as "energy:.2f"; texts in rows
    are printed as they are."""
    headings, _, formats = zip(*(column.strip().partition(":") for column in
                                 (columns.split("|") if isinstance(columns, str) else columns)))
    print(f"\n{title}\n")
    tables.print_table(list(headings), [[value if isinstance(value, str) else format(value, spec)
                                         for value, spec in zip(row, formats)] for row in rows])


def parse(parser: OptionParser, time: float = 0, least: float = 1):
    """The options; `figure` of them is the path of the figure, which has the name of the script, in a folder. With a
    default, `time` is an option, too."""
    if time:
        parser.add_argument("--time", type=number(float, least), default=time, metavar="T",
                            help="simulated time of each run (default: %(default)s)")
    name = f"{Path(sys.argv[0]).stem}.png"
    add_output_option(parser, name)
    options = parser.parse_args()
    parser.make_folder(options.output)
    options.figure = options.output / name
    return options


@contextmanager
def panels(path: Path, rows: int, columns: int) -> Iterator[Sequence[Axes]]:
    """Of a figure, from the upper left on: when they have been drawn, legends are added and the figure is saved."""
    figure, grid = pyplot.subplots(rows, columns, figsize=(5.5 * columns, 4.4 * rows), layout="constrained",
                                   squeeze=False)
    yield list(grid.flat)
    for panel in grid.flat:
        if panel.get_legend() is None and panel.get_legend_handles_labels()[1]:
            panel.legend(frameon=False, fontsize="small")
    save(figure, path)


def save(figure: Figure, path: Path):
    figure.savefig(path, dpi=150)
    print(f"\nFigure: {path}")


def draw_slope(panel: Axes, x: Sequence[float], factor: float, order: int):
    """A line of this slope over logarithmic axes."""
    ends = np.array((x[0], x[-1]), dtype=float)
    panel.loglog(ends, factor * ends ** order, {1: "k-.", 2: "k:"}[abs(order)], linewidth=0.8, label=f"slope {order}")
