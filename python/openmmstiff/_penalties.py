"""Penalties instead of constraints, and their multipliers."""

import os
from typing import Any, SupportsFloat, SupportsIndex, TextIO

import numpy
import openmm
from openmm import app, unit

from ._conversions import Quantity, boolean, choice, instance, integer
from .openmmstiff import ConstraintPenalties

FORMS = {"squared": ConstraintPenalties.Squared, "linear": ConstraintPenalties.Linear}


def penalizeConstraints(system: openmm.System, period: SupportsFloat | Quantity,
                        form: str = "squared") -> ConstraintPenalties:
    """
    Replace all constraints of a System, those of rigid waters too, by stiff springs.

    The springs are the penalties w^2/2 g^2 of Tao and Owhadi (2014, equation 7), one for each constraint g = 0. The
    integrators of the Zhang-Skeel family take them as stiff terms by themselves.

    Parameters
    ----------
    system : openmm.System
        the System, before a Context is created: its constraints are removed, and a Force with the penalties is added
    period : float or Quantity
        the period with which each pair of particles would vibrate on its own spring [ps]; it fixes the spring from
        the reduced mass of the pair
    form : str
        "squared" for g = r^2 - d^2, as in the paper, a CustomBondForce; "linear" for g = r - d, a HarmonicBondForce,
        which the impulse integrators take too

    Returns
    -------
    ConstraintPenalties
        what was done: each constraint with its spring, violations and multipliers. An OpenMMException if the System
        has no constraints
    """
    return ConstraintPenalties(system, period, FORMS[choice("form", form, FORMS)])


class MultiplierReporter:
    """
    Reports the Lagrange multipliers of penalized constraints, and how far these are violated.

    A multiplier is the average of -w^2 g over a window of time (Tao and Owhadi 2014, Theorem 1.2), the interval of the
    reports. It compares with SHAKE's: M a = F + lambda grad g. Append the reporter to `simulation.reporters`.

    Attributes
    ----------
    times : list of float
        the end of each window [ps]
    multipliers : list of array
        the averages of -w^2 g, one for each constraint: in kJ/mol/nm^2 for the form "squared", in kJ/mol/nm for
        "linear"
    violations : list of array
        the largest |g| in each window: in nm^2, or in nm
    """

    times: list[float]
    multipliers: list[numpy.ndarray]
    violations: list[numpy.ndarray]

    def __init__(self, penalties: ConstraintPenalties, reportInterval: SupportsIndex,
                 file: str | os.PathLike[str] | TextIO | None = None, sampleInterval: SupportsIndex = 1,
                 append: bool = False) -> None:
        """
        Parameters
        ----------
        penalties : ConstraintPenalties
            what penalizeConstraints() returned for the simulation's System
        reportInterval : int
            the length of a window, in time steps: a multiple of sampleInterval
        file : str, path or file
            where to write, besides keeping the values: a line of comma-separated values for each window, with the
            time, the largest violation, and the multiplier of each constraint
        sampleInterval : int
            the interval, in time steps, at which a window is sampled
        append : bool
            whether the file goes on from an earlier run: what it holds is kept, and the line with the names of the
            columns, which begins a new file, is left out
        """
        self._penalties = instance("penalties", penalties, ConstraintPenalties)
        constraints = [penalties.getConstraintParameters(i) for i in range(penalties.getNumConstraints())]
        self._stiffness = numpy.array([stiffness for _, _, _, stiffness in constraints])
        self._every = integer("sampleInterval", sampleInterval)
        self._window = integer("reportInterval", reportInterval)
        if self._every < 1 or self._window < 1 or self._window % self._every != 0:
            raise ValueError(f"reportInterval, {reportInterval}, must be a multiple of sampleInterval, "
                             f"{sampleInterval}, and both must be positive")
        append = boolean("append", append)
        if not (file is None or isinstance(file, (str, os.PathLike)) or hasattr(file, "write")):
            raise TypeError(f"file must be a path or an open file, not {file!r}")
        self._file: Any = open(file, "a" if append else "w") if isinstance(file, (str, os.PathLike)) else file
        self._opened = self._file is not file
        if self._file is not None and not append:
            print("time (ps),largest violation", *(f"lambda {i}-{j}" for i, j, _, _ in constraints), sep=",",
                  file=self._file)
        self._start_window()
        self.times, self.multipliers, self.violations = [], [], []

    def _start_window(self):
        self._samples, self._sum, self._largest = 0, 0.0, 0.0

    def describeNextReport(self, simulation: app.Simulation) -> dict[str, Any]:
        """Get when the next sample is due, and that it needs no State. Called by the Simulation."""
        return {"steps": self._every - simulation.currentStep % self._every, "periodic": None, "include": []}

    def report(self, simulation: app.Simulation, state: openmm.State) -> None:
        """Take a sample, and end the window if it is full. Called by the Simulation."""
        violations = self._penalties.computeViolations(simulation.context)
        self._sum = self._sum + violations
        self._largest = numpy.maximum(self._largest, numpy.abs(violations))
        self._samples += 1
        if self._samples * self._every < self._window:
            return
        self.times.append(simulation.context.getTime().value_in_unit(unit.picosecond))
        self.multipliers.append(-self._stiffness * self._sum / self._samples)
        self.violations.append(numpy.asarray(self._largest))
        self._start_window()
        if self._file is not None:
            print(f"{self.times[-1]:.10g}", f"{self.violations[-1].max():.6g}",
                  *(f"{value:.8g}" for value in self.multipliers[-1]), sep=",", file=self._file, flush=True)

    def __del__(self):
        if getattr(self, "_opened", False):
            self._file.close()
