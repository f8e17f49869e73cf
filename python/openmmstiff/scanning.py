"""How large a step a System allows: runs at growing steps by several integrators, compared at each step and at h = 0.

The error of an average is linear in h^2, so that straight lines through averages against h^2 lead to what a step of
zero would give: Coshic and Hummer, arXiv 2603.02383. Two integrators that sample the same distribution meet
there. Units are OpenMM's: nm, ps, kJ/mol, K.
"""

import contextlib
import json
import math
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
import openmm
from openmm import app, unit

from . import (ImpulseLangevinIntegrator, MassPenaltyIntegrator, MassPenaltyLangevinIntegrator,
               ZhangSkeelLangevinIntegrator, addPairsFromTopology)
from ._conversions import integer, number
from .sampling import (MIN_BLOCKS, Samples, blockedError, computeTemperature, correlationTime, countFreedom, sample,
                       separateForces)
from .tasks import countWorkers, runTasks

# Names on the command line: the class, its steps [fs], and those for a System with constraints.
INTEGRATORS = {
    "LangevinMiddle": (openmm.LangevinMiddleIntegrator, (0.5, 1, 1.5, 2), (1, 2, 3, 4)),
    "MassPenaltyLangevin": (MassPenaltyLangevinIntegrator, (2, 4, 6, 8), (2, 4, 6, 8)),
    "ZhangSkeelLangevin": (ZhangSkeelLangevinIntegrator, (0.5, 1, 2, 3), (0.5, 1, 2, 3)),
    "ImpulseLangevin": (ImpulseLangevinIntegrator, (2, 4, 5, 6), (2, 4, 5, 6)),
}
DEFAULT = ("LangevinMiddle", "MassPenaltyLangevin")
RESERVED = ("temperature", "potential")     # what is there besides the energies by name

EQUILIBRATION_STEPS = (0.001, 0.00025)      # ps; the second if the first fails, which with constraints is doubled
EQUILIBRATION_SHARE = 0.15                  # of the real time of all
EQUILIBRATION_TIME = 5.0                    # ps, at most, where the simulated time is given
MINIMIZER = 10.0, 200                       # kJ/mol/nm and iterations
SETTLING_SHARE = 0.2                        # of the time of a run
SETTLING_TIME = 1.0                         # ps, at least, but no more than half of the real time of a run
SETTLING_FRICTION = 20.0                    # 1/ps, or more: in the equilibration and the first half of the settling
BURST = 10                                  # steps between two looks at the clock
INTERVAL = 0.05                             # ps between samples, but at least a burst, and shorter in short runs
SAMPLES = 256                               # as many are wanted before the interval grows to that
HOT, FLUCTUATION = 1.5, 10.0                # a run fails beyond T*(HOT + FLUCTUATION*sqrt(2/freedom)) at once
MOST_OFF = 0.5                              # and with a mean that is off by more than this part of T
MOST_DRIFT = 3                              # errors, between the halves of a run
LONG_ENOUGH = 30                            # correlation times: shorter series do not tell their errors
WIDTH = 120                                 # characters, of the table
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")    # told apart by the colour-blind, too


@dataclass
class Line:
    """
    A straight line a + b*h^2 through averages, by least squares weighted with their errors.

    Attributes
    ----------
    intercept : float
        a, what a step of zero would give, in the unit of the averages
    error : float
        its standard error
    slope : float
        b [the same per fs^2]
    slopeError : float
        its standard error
    chiSquared : float
        chi^2 per degree of freedom: about 1 if the averages are on a line within their errors; NaN for two points
    points : int
        how many averages there were
    """

    intercept: float
    error: float
    slope: float
    slopeError: float
    chiSquared: float
    points: int


def fitLine(steps, values, errors):
    """
    Draw a straight line through values against the squares of the step sizes.

    Parameters
    ----------
    steps : array of shape (points,)
        the step sizes h [fs], at least two different ones
    values : array of shape (points,)
        averages, in any unit
    errors : array of shape (points,)
        their standard errors, which are to be positive

    Returns
    -------
    Line
        the line; a ValueError if the steps or the errors allow for none
    """
    steps, values, errors = (np.asarray(each, dtype=float) for each in (steps, values, errors))
    if len(np.unique(steps)) < 2:
        raise ValueError(f"fitLine: give at least two different steps, not {steps.tolist()}")
    if not (np.isfinite(errors) & (errors > 0)).all():
        raise ValueError(f"fitLine: errors must be positive, but are {errors.tolist()}")
    columns = np.stack((np.ones_like(steps), steps**2), axis=1)/errors[:, None]
    covariance = np.linalg.inv(columns.T @ columns)
    line = covariance @ columns.T @ (values/errors)
    squares, freedom = np.sum((values/errors - columns @ line)**2), len(steps) - 2
    return Line(*(float(value) for pair in zip(line, np.sqrt(np.diag(covariance))) for value in pair),
                float(squares/freedom) if freedom else math.nan, len(steps))


@dataclass
class Average:
    """
    The average of a series.

    Attributes
    ----------
    mean : float
        the mean
    error : float
        its standard error by blocking; NaN if there are fewer than 8 samples
    tau : float
        the integrated autocorrelation time [ps]; infinite if the series never changes
    known : bool
        whether the error can be told: at least 8 samples and 30 correlation times, and halves of the series that differ
        by 3 errors at most, so that there is no drift. Otherwise it is a lower bound
    """

    mean: float
    error: float
    tau: float
    known: bool


@dataclass
class Run:
    """
    A run of a scan.

    Attributes
    ----------
    integrator : str
        the name of the integrator
    step : float
        the step size [ps]
    samples : Samples or None
        what it has shown; None if it has failed
    failure : str
        why it has failed, or ""
    time : float
        how far it came, settling included [ps]
    pairs : int
        how many distances the mass penalty acts on; 0 for other integrators
    platform : str
        the platform of OpenMM that it ran on
    """

    integrator: str
    step: float
    samples: Samples | None = None
    failure: str = ""
    time: float = 0.0
    pairs: int = 0
    platform: str = ""

    @property
    def fs(self):
        """The step size [fs]."""
        return 1000*self.step

    def series(self, name):
        """
        Tell what was recorded.

        Parameters
        ----------
        name : str
            one of Scan.names

        Returns
        -------
        array of shape (samples,)
            temperatures [K] or energies [kJ/mol]. A ValueError if the run has failed
        """
        if self.samples is None:
            raise ValueError(f"{self.integrator} at {self.fs:g} fs has no averages, as it has failed: {self.failure}")
        return self.samples.energies[name] if name not in RESERVED else getattr(self.samples, name)

    def average(self, name):
        """
        Average a series, and take its error from it alone; see Scan.average().

        Parameters
        ----------
        name : str
            one of Scan.names

        Returns
        -------
        Average
            mean and error. A ValueError if the run has failed
        """
        series = self.series(name)
        if len(series) < MIN_BLOCKS:
            return Average(float(np.mean(series)), math.nan, math.nan, False)
        tau, error = correlationTime(series)[0], blockedError(series)
        halves = [series[:len(series)//2].mean(), series[len(series)//2:].mean()]
        # The difference of the halves has twice the error of the mean.
        steady = LONG_ENOUGH*tau <= len(series) and abs(halves[0] - halves[1]) <= MOST_DRIFT*2*error
        return Average(float(np.mean(series)), error, tau*self.samples.interval, bool(steady or tau == math.inf))


@dataclass
class Scan:
    """
    What scan() has found.

    Attributes
    ----------
    runs : list of Run
        the runs, in the order of integrators and steps
    temperature : float
        that of the heat bath [K]
    friction : float
        that of the heat bath [1/ps]
    particles : int
        how many particles the System has
    equilibration : float
        the simulated time before the runs [ps]
    notes : list of str
        what was not as it should be
    """

    runs: list
    temperature: float
    friction: float
    particles: int
    equilibration: float
    notes: list = field(default_factory=list)

    @property
    def integrators(self):
        """The names of the integrators, a list."""
        return list(dict.fromkeys(run.integrator for run in self.runs))

    @property
    def names(self):
        """
        What has averages, a list: "temperature", "potential", and the kinds of force if there are several whose
        energies change.
        """
        done = [run.samples.energies for run in self.runs if run.samples is not None]
        changing = [name for name in (done[0] if done else ()) if any(np.ptp(energies[name]) > 0 for energies in done)]
        return [*RESERVED, *(changing if len(changing) > 1 else [])]

    @property
    def reference(self):
        """
        The run that others are compared with: of the first integrator with a run that has not failed, that with the
        smallest step. None if all have failed.
        """
        done = [run for run in self.runs if run.samples is not None]
        return min(done, key=lambda run: (self.integrators.index(run.integrator), run.step), default=None)

    def average(self, name, run):
        """
        Average a series of a run. A short run does not tell its error, as it has seen too little; therefore this is at
        least what the longest run of the same integrator lets expect, which grows as the root of the time goes down
        until it is the standard deviation.

        Parameters
        ----------
        name : str
            what to average, one of `names`
        run : Run
            one of `runs`

        Returns
        -------
        Average
            mean and error. A ValueError if the run has failed
        """
        own = run.average(name)
        longest = max((each for each in self.runs if each.integrator == run.integrator and each.samples is not None),
                      key=lambda each: each.samples.steps*each.step)
        if longest is run or math.isnan(own.error):
            return own
        other = longest.average(name)
        ratio = longest.samples.steps*longest.step/(run.samples.steps*run.step)
        expected = min(other.error*math.sqrt(ratio), float(np.std(longest.series(name))))
        return Average(own.mean, float(np.fmax(own.error, expected)), own.tau, other.known)

    def extrapolate(self, name, integrator):
        """
        Draw a straight line through the averages of an integrator against h^2, which leads to h = 0.

        Parameters
        ----------
        name : str
            what to average, one of `names`
        integrator : str
            one of `integrators`

        Returns
        -------
        Line or None
            the line; None if fewer than two runs have averages with errors
        """
        self._check(name, integrator)
        found = [(run.fs, each.mean, each.error) for run in self.runs
                 if run.integrator == integrator and run.samples is not None
                 for each in [self.average(name, run)] if each.error > 0]
        return fitLine(*np.transpose(found)) if len({fs for fs, _, _ in found}) > 1 else None

    def compare(self, name, integrator):
        """
        Tell how far the intercepts of an integrator and of that of `reference` are apart. The error of a line whose
        chi^2 per degree of freedom is above 1 is multiplied by the root of that: there is more scatter than the errors
        say.

        Parameters
        ----------
        name : str
            what to compare, one of `names`
        integrator : str
            one of `integrators`

        Returns
        -------
        float
            the difference in its standard errors; NaN if there is no line
        """
        self._check(name, integrator)
        if self.reference is None:
            return math.nan
        line, other = (self.extrapolate(name, each) for each in (integrator, self.reference.integrator))
        if line is None or other is None:
            return math.nan
        errors = [each.error*math.sqrt(np.fmax(1, each.chiSquared)) for each in (line, other)]
        return (line.intercept - other.intercept)/math.hypot(*errors)

    def _check(self, name, integrator):
        if integrator not in self.integrators:
            raise ValueError(f"'{integrator}' is none of the integrators of this scan: {', '.join(self.integrators)}")
        if name not in self.names:
            raise ValueError(f"'{name}' has no averages in this scan; these have: {', '.join(self.names)}")

    def table(self):
        """
        Write the table.

        Returns
        -------
        str
            the runs and their averages with errors, then the intercepts at h = 0
        """
        return "\n".join([*self._describe(), "", *self._tabulate_runs(), *self._tabulate_averages(), *self._explain()])

    def printTable(self):
        """Print what table() writes."""
        print(self.table())

    def _describe(self):
        platforms = sorted({run.platform for run in self.runs if run.platform})
        return [f"{self.particles} particles, {self.temperature:g} K, friction {self.friction:g}/ps, "
                f"{' and '.join(platforms) or 'no'} platform, from the same state after {self.equilibration:.3g} ps"]

    def _tabulate_runs(self):
        rows = [["integrator", "step (fs)", "forces/ps", "ns/day", "time (ps)", ""]]
        for run in self.runs:
            rows.append([run.integrator, f"{run.fs:g}", f"{1/run.step:.0f}", *(
                ["", "", f"fails after {run.time:.3g} ps: {run.failure}"] if run.samples is None else
                [f"{run.samples.nsPerDay:.3g}", f"{run.samples.steps*run.step:.3g}",
                 f"{run.pairs} distances are slowed down" if run.pairs else ""])])
        room = WIDTH - len(_columns([row[:-1] + ["."] for row in rows])[0]) + 1
        return _columns([[*row[:-1], textwrap.shorten(row[-1], room, placeholder="...")] for row in rows])

    def _tabulate_averages(self):
        """Tables of all averages, with as many columns as there is room for."""
        if self.reference is None:
            return ["", "Every run has failed."]
        done = [run for run in self.runs if run.samples is not None]
        lines = {name: [self.extrapolate(name, each) for each in self.integrators] for name in self.names}
        extrapolated = [each for i, each in enumerate(self.integrators) if any(of[i] for of in lines.values())]
        heading = [["", ""], ["integrator", "step (fs)"]]
        left = [[run.integrator, f"{run.fs:g}"] for run in done] + \
            [[each, "h -> 0"] for each in extrapolated] + [[each, "chi^2/dof"] for each in extrapolated]
        columns = [self._column(name, done, lines[name], extrapolated) for name in self.names]
        result = []
        while columns:
            rows = [each.copy() for each in heading + left]
            while columns:
                wider = [row + [cell] for row, cell in zip(rows, columns[0])]
                if len(rows[0]) > 2 and max(map(len, _columns(wider))) > WIDTH:
                    break
                rows = wider
                columns.pop(0)
            text = _columns(rows)
            result += ["", *text[:2 + len(done)]]
            if extrapolated:
                result += ["", *text[2 + len(done):]]
        return result

    def _column(self, name, done, lines, extrapolated):
        """The cells of one column of averages."""
        averages = [self.average(name, run) for run in done]
        lines = dict(zip(self.integrators, lines))
        reference = self.average(name, self.reference)
        cells = [name.removesuffix("Force"), "(K)" if name == "temperature" else "(kJ/mol)"]
        for run, each in zip(done, averages):
            error = math.hypot(each.error, reference.error)
            apart = f" ({(each.mean - reference.mean)/error:+.1f})" if run is not self.reference and error > 0 else ""
            cells.append(_with_error(each.mean, each.error) + ("" if each.known else "*") + apart)
        for integrator in extrapolated:
            line, apart = lines[integrator], self.compare(name, integrator)
            mark = "" if all(each.known for run, each in zip(done, averages) if run.integrator == integrator) else "*"
            cells.append("-" if line is None else _with_error(line.intercept, line.error) + mark + (
                f" ({apart:+.1f})" if integrator != self.reference.integrator and math.isfinite(apart) else ""))
        for integrator in extrapolated:
            line = lines[integrator]
            cells.append("-" if line is None or math.isnan(line.chiSquared) else f"{line.chiSquared:.2g}")
        return cells

    def _explain(self):
        """What the table means, as far as it applies."""
        averages = [self.average(name, run) for run in self.runs if run.samples is not None for name in self.names]
        if not averages:
            return []
        first = self.reference.integrator
        text = ["+-: one standard error by blocking, at least that which the longest run of the integrator lets expect "
                "of a run so short; in brackets: the difference from the first row, in errors.",
                "forces/ps: evaluations of the forces."]
        if any(self.extrapolate(name, each) for name in self.names for each in self.integrators):
            text.append("h -> 0: where straight lines through the averages against h^2 lead"
                        + (f"; in brackets: the difference from {first}'s in errors, these times the root of chi^2/dof "
                           "where it is above 1" if len(self.integrators) > 1 else "") +
                        ". A chi^2/dof far above 1 says that the largest steps are too large for a straight line, or "
                        "that the runs are too short to forget their start.")
        else:
            text.append("With one step of an integrator there is no line that leads to h = 0.")
        if any(math.isnan(each.error) for each in averages):
            text.append(f"?: with fewer than {MIN_BLOCKS} samples errors are not known. Give more time.")
        if any(not each.known and not math.isnan(each.error) for each in averages):
            text.append(f"*: even the longest run of the integrator is shorter than {LONG_ENOUGH} correlation times or "
                        "drifts, so that the error is a lower bound and differences may seem significant that are not. "
                        "Give more time.")
        return ["", *(line for each in (*text, *self.notes) for line in _wrap(each))]

    def draw(self, path):
        """
        Draw the averages against h^2, with the straight lines and their intercepts at h = 0, a panel for each.

        Parameters
        ----------
        path : str or path
            the file; its name tells the format, such as .png or .pdf. An ImportError with the remedy if Matplotlib
            is not there, and a ValueError if every run has failed
        """
        if self.reference is None:
            raise ValueError("there is nothing to draw: every run has failed")
        try:
            from matplotlib.figure import Figure
            from matplotlib.lines import Line2D
        except ImportError as error:
            raise ImportError("the picture needs Matplotlib: pip install 'openmm-stiff[scan]'") from error
        integrators = [each for each in self.integrators
                       if any(run.samples is not None and run.integrator == each for run in self.runs)]
        across = min(3, len(self.names))
        down = -(-len(self.names)//across)
        figure = Figure(figsize=(max(6.5, 4.6*across), 3.1*down + 0.9), layout="constrained")
        parts = figure.subfigures(down, across, squeeze=False, wspace=0.03, hspace=0.04).ravel()
        for name, part in zip(self.names, parts):
            self._draw_panel(part, name, integrators)
        handles = [Line2D([], [], color=self._colour(each), marker="o", label=each) for each in integrators]
        handles.append(Line2D([], [], color="0.4", marker="D", markerfacecolor="white", linestyle="none",
                              label="extrapolated to h = 0"))
        figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
        figure.savefig(path, dpi=150)

    def _colour(self, integrator):
        return COLOURS[self.integrators.index(integrator) % len(COLOURS)]

    def _draw_panel(self, part, name, integrators):
        """One quantity: a pair of axes for each integrator, whose steps differ, with the same scale of values."""
        panels = part.subplots(1, len(integrators), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.0})[0]
        band = self.extrapolate(name, integrators[0])
        for panel, integrator in zip(panels, integrators):
            colour = self._colour(integrator)
            runs = [run for run in self.runs if run.integrator == integrator and run.samples is not None]
            squares = np.array([run.fs**2 for run in runs])
            averages = [self.average(name, run) for run in runs]
            failed = [run.fs**2 for run in self.runs if run.integrator == integrator and run.samples is None]
            largest = max([*squares, *failed])
            if band is not None:
                panel.axhspan(band.intercept - band.error, band.intercept + band.error, linewidth=0, alpha=0.18,
                              color=self._colour(integrators[0]), zorder=0)
            panel.axvline(0, color="0.75", linewidth=0.8, zorder=0)
            errors = np.nan_to_num([each.error for each in averages])
            panel.errorbar(squares, [each.mean for each in averages], errors, color=colour, fmt="o", markersize=5,
                           capsize=3, linewidth=1.2)
            line = self.extrapolate(name, integrator)
            if line is not None:
                ends = np.array([0, squares.max()])
                panel.plot(ends, line.intercept + line.slope*ends, color=colour, linewidth=1.2, zorder=1)
                panel.errorbar([0], [line.intercept], [line.error], color=colour, fmt="D", markersize=6, capsize=3,
                               markerfacecolor="white", linewidth=1.2)
            for square in failed:
                panel.text(square, 0.02, "fails", color=colour, fontsize="small", rotation=90, ha="center", va="bottom",
                           transform=panel.get_xaxis_transform())
            panel.set_xlim(-0.1*largest, 1.1*largest)
            # The smallest steps are close to 0: not each of them has room for a label.
            shown = [0.0]
            for square in sorted([*squares, *failed], reverse=True):
                if all(abs(square - other) > 0.09*largest for other in shown):
                    shown.append(square)
            panel.set_xticks(shown, [f"{math.sqrt(square):g}" for square in shown])
            panel.set_xticks([*squares, *failed], minor=True)
            panel.spines[["top", "right"]].set_visible(False)
            panel.tick_params(labelsize="small")
            if panel is not panels[0]:
                panel.spines["left"].set_visible(False)
                panel.tick_params(axis="y", left=False)
        panels[0].ticklabel_format(axis="y", useOffset=False)
        panels[0].set_ylabel("K" if name == "temperature" else "kJ/mol", fontsize="small")
        part.suptitle(name.removesuffix("Force"), fontsize="medium")
        part.supxlabel("h (fs), on a scale of h$^2$", fontsize="small")

    def save(self, path):
        """
        Write all numbers of the table and the picture as JSON; energies in kJ/mol, times in ps, temperatures in K.

        Parameters
        ----------
        path : str or path
            the file
        """
        runs = [{"integrator": run.integrator, "step": run.step, "failure": run.failure, "reached": run.time,
                 "pairs": run.pairs, "platform": run.platform, **({} if run.samples is None else {
                     "nsPerDay": run.samples.nsPerDay, "steps": run.samples.steps, "interval": run.samples.interval,
                     "averages": {name: vars(self.average(name, run)) for name in self.names}})} for run in self.runs]
        lines = {each: {name: None if line is None else {**vars(line), "apart": self.compare(name, each)}
                        for name in self.names for line in [self.extrapolate(name, each)]}
                 for each in self.integrators}
        settings = {name: getattr(self, name) for name in ("temperature", "friction", "particles", "equilibration",
                                                           "notes")}
        Path(path).write_text(json.dumps(_plain({**settings, "runs": runs, "extrapolated": lines}), indent=1) + "\n")


def _plain(value):
    """What JSON can say: there is no NaN nor infinity in it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _columns(rows):
    """Rows of cells as lines, the columns two spaces apart; the first is flush left, the next right, texts left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) if i == 1 else cell.ljust(width)
                      for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def _with_error(value, error):
    """The error with two digits."""
    digits = max(0, 1 - math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:.{digits}f}+-" + (f"{error:.{digits}f}" if error >= 0 else "?")


def _wrap(text):
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")


@dataclass
class _Task:
    """What a process needs for a run; `system` and `integrator` as XML."""

    name: str
    system: str
    topology: app.Topology
    positions: np.ndarray   # nm
    box: np.ndarray | None  # nm
    integrator: str
    step: float             # ps
    temperature: float      # K
    groups: dict
    platform: str | None
    properties: dict
    seed: int
    seconds: float | None   # of real time
    time: float | None      # ps
    progress: object = None

    def advanced(self, steps):
        if self.progress is not None:
            self.progress(steps)


def scan(system, topology, positions, integrators=DEFAULT, temperature=300, friction=1, steps=None, minutes=5,
         time=None, platform=None, properties=None, processes=1, scheduler=None, seed=1, progress=None):
    """
    Run a System at growing steps with several integrators, and compare temperatures and energies.

    All runs start from the same state: the positions are minimized, then equilibrated with LangevinMiddle at 1 fs (2 fs
    with constraints) and a friction of 20/ps. Velocities are drawn anew, and a fifth of each run is not counted.
    MassPenaltyLangevin, if it finds no bonded forces that it knows, gets the pairs of addPairsFromTopology(). A run
    that fails is a result, too.

    Parameters
    ----------
    system : openmm.System
        the System, which stays as it is: a copy has its forces in groups by their names. A ValueError if it cannot be
        copied through XML
    topology : openmm.app.Topology
        its Topology. Its box is taken, if it has one and the System is periodic, else that of the System
    positions : Quantity or array of shape (particles, 3)
        positions [nm]
    integrators : iterable of str, or dict of str to openmm.Integrator
        names in INTEGRATORS: class names without "Integrator". In place of a name a dict has an object of any class
        with a step size, which is copied through XML; its settings are kept but for step size, temperature and seed
    temperature : float or Quantity
        of the heat bath [K]
    friction : float or Quantity
        of the heat bath [1/ps]
    steps : list of float, or dict of str to list of float
        step sizes [fs], for all integrators or by their names; by default those in INTEGRATORS
    minutes : float
        the real time of all, which is divided evenly between the runs
    time : float or Quantity
        the simulated time of each run [ps], in place of minutes
    platform : str
        the name of OpenMM's platform; by default the fastest
    properties : dict of str to str
        properties of the platform, such as {"Precision": "mixed"}
    processes : int
        how many runs are made side by side; with 1 ns/day is that of a run alone
    scheduler : str
        the address of a Dask scheduler, whose workers make the runs, see openmmstiff.tasks.runTasks()
    seed : int
        of the random numbers, at least 1
    progress : callable
        is called with how much of the whole is done (from 0 to 1), and what is being done (a str)

    Returns
    -------
    Scan
        the runs, with methods for a table, a picture and what is expected at h = 0
    """
    temperature, friction = number("temperature", temperature, "K"), number("friction", friction, "1/ps")
    minutes = None if time is not None else number("minutes", minutes, "")
    time = None if time is None else number("time", time, "ps")
    for argument, value in ("temperature", temperature), ("friction", friction), ("minutes", minutes), ("time", time):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"scan: {argument} must be a positive number, but is {value:g}")
    for argument, value in ("processes", processes), ("seed", seed):
        if integer(argument, value) < 1:
            raise ValueError(f"scan: {argument} must be at least 1, but is {value}")
    constrained = system.getNumConstraints() > 0
    prototypes = _prototypes(integrators, temperature, friction)
    chosen = {name: _steps(name, steps, constrained) for name in prototypes}
    system, groups = _separated(system)
    box = topology.getPeriodicBoxVectors() if system.usesPeriodicBoundaryConditions() else None
    watch = _Progress(progress, minutes)
    common = {"system": openmm.XmlSerializer.serialize(system), "topology": topology, "temperature": temperature,
              "groups": groups, "platform": platform, "properties": dict(properties or {})}

    workers = countWorkers(scheduler) if scheduler else processes
    local = watch.advance if workers == 1 and not scheduler else None
    task = _Task("LangevinMiddle", positions=_positions(positions, system), seed=seed,
                 step=EQUILIBRATION_STEPS[0]*(2 if constrained else 1),
                 box=None if box is None else np.array(box.value_in_unit(unit.nanometer)), integrator="",
                 seconds=None if time is not None else 60*minutes*EQUILIBRATION_SHARE,
                 time=None if time is None else min(EQUILIBRATION_TIME, time/2), progress=local, **common)
    if time is not None:
        watch.expect(_count_steps(task.time, task.step),
                     *(_count_steps(_settling(time) + time, fs/1000) for each in chosen.values() for fs in each))
    watch.label("equilibration")
    (_, (start, box, equilibration, notes)), = runTasks(_equilibrate, [task], 1, scheduler, watch.look)
    watch.finish(0)

    kinds = [(name, fs/1000) for name in chosen for fs in chosen[name]]
    rounds = math.ceil(len(kinds)/min(workers, len(kinds)))
    left = None if time is not None else max(60*minutes - watch.elapsed, 30*minutes)/rounds
    tasks = [_Task(name, positions=start, box=box, integrator=prototypes[name], step=step, seed=seed + 1 + index,
                   seconds=left, time=time, progress=local, **common) for index, (name, step) in enumerate(kinds)]
    runs = [None]*len(tasks)
    watch.label(_label(tasks[0]) if local else f"{len(tasks)} runs")
    for index, run in runTasks(_make_run, tasks, processes, scheduler, watch.look):
        runs[index] = run
        watch.finish(1 + index)
        if local and index + 1 < len(tasks):
            watch.label(_label(tasks[index + 1]))
    return Scan(runs, temperature, friction, system.getNumParticles(), equilibration, notes)


def _label(task):
    return f"{task.name}, {1000*task.step:g} fs"


class _Progress:
    """Counts real time, or steps if these are given, and tells how much is done."""

    def __init__(self, tell, minutes):
        self.tell, self.minutes = tell, minutes
        self.begun, self.text = perf_counter(), ""
        self.parts, self.done, self.finished, self.ended = [], 0, 0, 0

    @property
    def elapsed(self):
        return perf_counter() - self.begun

    def expect(self, *parts):
        self.parts = parts

    def label(self, text):
        self.text = text
        self.look()

    def advance(self, steps):
        self.done += steps      # the count of the last interval may be rounded up
        if self.parts:
            self.done = min(self.done, self.parts[self.ended])
        self.look()

    def finish(self, part):
        if self.parts:
            self.finished += self.parts[part]
        self.done, self.ended = 0, self.ended + 1
        self.look()

    def look(self):
        if self.tell is not None:
            done = self.elapsed/(60*self.minutes) if self.minutes else (self.finished + self.done)/sum(self.parts)
            self.tell(min(1.0, done), self.text)


def _prototypes(integrators, temperature, friction):
    """Integrators as XML, by their names."""
    if isinstance(integrators, str):
        integrators = [integrators]
    if not isinstance(integrators, dict):
        integrators = dict.fromkeys(integrators)
    if not integrators:
        raise ValueError(f"scan: there are no integrators; choose from {', '.join(INTEGRATORS)}")
    prototypes = {}
    for name, integrator in integrators.items():
        if integrator is None and name not in INTEGRATORS:
            raise ValueError(f"scan: there is no integrator '{name}'; choose from {', '.join(INTEGRATORS)}, or pass an "
                             "Integrator by its name in a dict")
        if integrator is None:
            integrator = INTEGRATORS[name][0](temperature, friction, 0.001)
        elif hasattr(integrator, "setTemperature"):
            integrator = openmm.XmlSerializer.clone(integrator)
            integrator.setTemperature(temperature)
        prototypes[name] = openmm.XmlSerializer.serialize(integrator)
    return prototypes


def _steps(name, steps, constrained):
    """The steps of an integrator, a list in fs."""
    if isinstance(steps, dict):
        steps = steps.get(name)
    if steps is None:
        if name not in INTEGRATORS:
            raise ValueError(f"scan: give steps for '{name}': there are default ones only for {', '.join(INTEGRATORS)}")
        steps = INTEGRATORS[name][2 if constrained else 1]
    steps = [number("steps", step, "") for step in steps]
    if not steps or not all(0 < step < math.inf for step in steps):
        raise ValueError(f"scan: the steps of {name} must be positive numbers [fs], but are {steps}")
    return sorted(set(steps))


def _separated(system):
    """A copy of a System with its forces in groups by name, and these groups."""
    try:
        system = openmm.XmlSerializer.clone(system)
    except Exception as error:      # whatever a Force of somebody else's comes up with
        raise ValueError(f"scan: the System cannot be copied through XML: {error}. Forces that cannot be copied, such "
                         "as a PythonForce with a function that cannot be pickled, have to be changed or left out"
                         ) from error
    for force in system.getForces():
        if force.getName() in RESERVED:
            force.setName(f"{force.getName()} of {type(force).__name__}")
    groups = separateForces(system)
    if not groups:
        raise ValueError("scan: the System has no forces")
    return system, groups


def _positions(positions, system):
    if unit.is_quantity(positions):
        positions = positions.value_in_unit(unit.nanometer)
    positions = np.array(positions, dtype=float)
    if positions.shape != (system.getNumParticles(), 3):
        raise ValueError(f"scan: the System has {system.getNumParticles()} particles, but the positions are of shape "
                         f"{positions.shape}. Pass the structure that the System was made from, with all its particles")
    return positions


def _settling(time):
    """How long a run settles that is to be sampled for some time [ps]."""
    return max(SETTLING_SHARE*time, min(SETTLING_TIME, time))


def _count_steps(time, step):
    return max(1, round(time/step))


def _context(task, integrator):
    """A Context with positions and velocities; `integrator` has no Context yet."""
    system = openmm.XmlSerializer.deserialize(task.system)
    platform = [] if task.platform is None else [openmm.Platform.getPlatform(task.platform), task.properties]
    context = openmm.Context(system, integrator, *platform)
    if task.box is not None:
        context.setPeriodicBoxVectors(*task.box)
    context.setPositions(task.positions)
    context.computeVirtualSites()
    return context


class _Deadline(openmm.MinimizationReporter):
    """Stops a minimization."""

    def __init__(self, seconds):
        super().__init__()
        self.end = None if seconds is None else perf_counter() + seconds

    def report(self, iteration, x, grad, args):
        return self.end is not None and perf_counter() > self.end


def _equilibrate(task):
    """Minimize and equilibrate: returns positions and box [nm], the simulated time [ps], and notes."""
    begun, notes = perf_counter(), []
    for step in (task.step, EQUILIBRATION_STEPS[1]):
        integrator = openmm.LangevinMiddleIntegrator(task.temperature, SETTLING_FRICTION, step)
        integrator.setRandomNumberSeed(task.seed)
        context = _context(task, integrator)
        try:
            openmm.LocalEnergyMinimizer.minimize(context, *MINIMIZER,
                                                 _Deadline(None if task.seconds is None else task.seconds/2))
        except Exception as error:  # a potential may not be defined where the minimizer's first step leads
            notes.append(f"The minimization has failed ({_reason(error)}): the equilibration began at the positions "
                         "that were given.")
            context.setPositions(task.positions)
            context.computeVirtualSites()
            context.applyConstraints(1e-5)
        context.setVelocitiesToTemperature(task.temperature, task.seed)
        try:
            if task.seconds is None:
                _advance(context, task, steps=_count_steps(task.time, step))
            else:
                _advance(context, task, seconds=task.seconds - (perf_counter() - begun), least=BURST)
            state = context.getState(positions=True, energy=True)
            box = state.getPeriodicBoxVectors(asNumpy=True) if context.getSystem().usesPeriodicBoundaryConditions() \
                else None
            return (state.getPositions(asNumpy=True).value_in_unit(unit.nanometer),
                    None if box is None else np.array(box.value_in_unit(unit.nanometer)),
                    state.getTime().value_in_unit(unit.picosecond), notes)
        except (openmm.OpenMMException, FloatingPointError) as error:
            notes = [f"The equilibration has failed at {1000*step:g} fs: {_reason(error)}."]
    raise RuntimeError(f"scan: {notes[-1]} Check the positions and the forces, for instance by minimizing first")


def _make_run(task):
    """Make a run from equilibrated positions."""
    begun, context = perf_counter(), None
    run = Run(task.name, task.step)
    try:
        context = _begin(task)
        integrator = context.getIntegrator()
        run.platform = context.getPlatform().getName()
        if MassPenaltyIntegrator.isinstance(integrator):
            run.pairs = integrator.computeNumPenalizedPairs()
        run.samples = _run(context, task, begun)
    except (openmm.OpenMMException, FloatingPointError) as error:
        run.failure = _reason(error)
    if context is not None:
        run.time = context.getTime().value_in_unit(unit.picosecond)
    if run.samples is not None:
        mean = run.samples.temperature.mean()
        if abs(mean/task.temperature - 1) > MOST_OFF + math.sqrt(2/max(1, countFreedom(context.getSystem()))):
            run.samples, run.failure = None, f"the temperature is {mean:.0f} K on average"
    return run


def _begin(task):
    """The Context of a run."""
    def create(pairs):
        integrator = openmm.XmlSerializer.deserialize(task.integrator)
        integrator.setStepSize(task.step)
        if hasattr(integrator, "setRandomNumberSeed"):
            integrator.setRandomNumberSeed(task.seed)
        if pairs:
            addPairsFromTopology(integrator, task.topology, openmm.XmlSerializer.deserialize(task.system),
                                 task.positions)
        return _context(task, integrator)

    context = create(False)
    if MassPenaltyIntegrator.isinstance(context.getIntegrator()) and task.topology.getNumBonds() > 0 \
            and context.getIntegrator().computeNumPenalizedPairs() == 0:
        context = create(True)
    return context


def _run(context, task, begun):
    """Settle, and sample."""
    integrator = context.getIntegrator()
    context.setVelocitiesToTemperature(task.temperature, task.seed)
    # A method may begin with cold vibrations, which a high friction warms up; its own temperatures take its friction.
    bath = hasattr(integrator, "setFriction")
    friction = integrator.getFriction().value_in_unit(unit.picosecond**-1) if bath else 0.0
    for each in max(friction, SETTLING_FRICTION), friction:
        if bath:
            integrator.setFriction(each)
        if task.seconds is None:
            pace = _advance(context, task, steps=_count_steps(_settling(task.time)/2, task.step))
        else:
            pace = _advance(context, task, seconds=SETTLING_SHARE*task.seconds/2, most=task.seconds/4,
                            least=_count_steps(SETTLING_TIME/2, task.step))
    left = None if task.seconds is None else task.seconds - (perf_counter() - begun)
    expected = _count_steps(task.time, task.step) if left is None else max(0, left)/pace
    interval = max(BURST, min(round(INTERVAL/task.step), int(expected/SAMPLES)))
    interval = max(1, min(interval, int(expected/MIN_BLOCKS)))
    limit, freedom = _hottest(context.getSystem(), task.temperature), countFreedom(context.getSystem())

    def watch(state):
        found = computeTemperature(context, state, freedom)
        if found > limit:
            raise FloatingPointError(f"the temperature is {found:.3g} K")
        return {}

    count = {"seconds": left} if task.time is None else {"samples": max(1, round(expected/interval))}
    return sample(context, interval, groups=task.groups, observe=watch, progress=task.advanced, **count)


def _hottest(system, temperature):
    """The temperature [K] beyond which a run has failed; a few degrees of freedom fluctuate much."""
    return temperature*(HOT + FLUCTUATION*math.sqrt(2/max(1, countFreedom(system))))


def _advance(context, task, steps=None, seconds=None, least=0, most=math.inf):
    """
    Make so many steps, or as many as come in some real time, but at least `least` unless `most` is over. Returns the
    seconds a step.
    """
    integrator, system = context.getIntegrator(), context.getSystem()
    masses = np.array([system.getParticleMass(i)._value for i in range(system.getNumParticles())])
    most_kinetic = _hottest(system, task.temperature)*unit.MOLAR_GAS_CONSTANT_R.value_in_unit(
        unit.kilojoule_per_mole/unit.kelvin)*max(1, countFreedom(system))
    begun, done = perf_counter(), 0
    while done != steps:
        burst = BURST if steps is None else min(BURST, steps - done)
        integrator.step(burst)
        done += burst
        velocities = context.getState(velocities=True).getVelocities(asNumpy=True)._value
        kinetic = masses @ np.sum(velocities**2, axis=1)    # twice the energy; without that of other inertias
        if not kinetic <= most_kinetic:
            raise FloatingPointError(f"the velocities are {'too large' if np.isfinite(kinetic) else 'not finite'}")
        task.advanced(burst)
        elapsed = perf_counter() - begun
        if steps is None and (elapsed >= seconds and done >= least or elapsed >= most):
            break
    return (perf_counter() - begun)/done


def _reason(error):
    """The first sentence of an error, without what the row of the run says: integrator, step and time."""
    text = re.split(r"\.\s|\.$", " ".join(str(error).split()))[0]
    return re.sub(r"^\w+Integrator( with a step of \S+ fs)?: | after \S+ ps$", "", text)


def runCommand(options, fail):
    """
    Do what `python -m openmmstiff scan` is for.

    Parameters
    ----------
    options : argparse.Namespace
        the options of the command
    fail : callable
        is called with a text if they are wrong, and does not return

    Returns
    -------
    bool
        whether any run has succeeded
    """
    try:
        integrators, steps = _read_integrators(options)
        system, structure = _read_system(options.system), _read_structure(options.structure)
        options.output.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        fail(str(error))
    platform, _, precision = (options.platform or "").partition(":")
    try:
        with _bar() as progress:
            result = scan(system, structure.topology, structure.getPositions(asNumpy=True), integrators,
                          options.temperature, options.friction, steps, options.minutes, options.time,
                          platform or None, {"Precision": precision} if precision else None, options.processes,
                          options.scheduler, options.seed, progress)
    except (ImportError, OSError, ValueError) as error:
        fail(str(error))
    except (RuntimeError, openmm.OpenMMException) as error:
        print(f"scan: {str(error).removeprefix('scan: ')}", file=sys.stderr)
        return False
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return False
    result.printTable()
    print()
    result.save(options.output/"scan.json")
    print(f"All numbers: {options.output/'scan.json'}")
    if result.reference is not None:
        try:
            result.draw(options.output/"scan.png")
            print(f"Averages against the step: {options.output/'scan.png'}")
        except ImportError as error:
            print(f"No picture: {error}")
    return any(run.samples is not None for run in result.runs)


def _read_integrators(options):
    """The names, and their steps if these are given."""
    if options.integrators is None:
        return DEFAULT, options.steps
    steps = {}
    for text in options.integrators:
        name, colon, given = text.partition(":")
        try:
            steps[name] = [float(each) for each in given.split(",")] if colon else options.steps
        except ValueError:
            raise ValueError(f"argument --integrators: '{text}': give steps in fs as in {name}:2,4") from None
    return list(steps), steps


def _read_system(path):
    try:
        system = openmm.XmlSerializer.deserialize(path.read_text())
    except (openmm.OpenMMException, ValueError) as error:
        raise ValueError(f"'{path}' is not what XmlSerializer writes of a System: {error}") from error
    if not isinstance(system, openmm.System):
        raise ValueError(f"'{path}' has a {type(system).__name__}, not a System")
    return system


def _read_structure(path):
    read = app.PDBxFile if path.suffix.lower() in (".cif", ".mmcif", ".pdbx") else app.PDBFile
    try:
        return read(str(path))
    except OSError:
        raise
    except Exception as error:      # whatever a reader meets in a file of another kind
        raise ValueError(f"'{path}' cannot be read as a structure: {error}") from error


@contextlib.contextmanager
def _bar():
    """What shows progress: a bar, if tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield None
        return
    with tqdm(total=1.0, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}", leave=False,
              mininterval=0.5 if sys.stderr.isatty() else 30) as bar:
        def show(done, label):
            bar.set_description_str(label, refresh=False)
            bar.update(done - bar.n)
        yield show
