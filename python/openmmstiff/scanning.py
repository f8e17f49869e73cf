"""How large a step a System allows: runs at growing steps by several integrators, compared at each step and at h = 0.

The error of an average is linear in h^2, so that straight lines through averages against h^2 lead to what a step of
zero would give: Coshic and Hummer, arXiv 2603.02383. Two integrators that sample the same distribution meet
there. Units are OpenMM's: nm, ps, kJ/mol, K.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex

import numpy as np
import openmm
from numpy.typing import ArrayLike
from openmm import app, unit

from . import ImpulseLangevinIntegrator, MassPenaltyLangevinIntegrator, ZhangSkeelLangevinIntegrator, _scan_report
from ._conversions import (Quantity, choice, coordinates, elements, find_platform, finite, instance, integer, is_atoms,
                           number, string)
from ._dynamics import members, require_fixed_step
from ._examination import advisedFriction, roundStep
from ._scan_runs import EQUILIBRATIONS, Task, advise, count_steps, equilibrate, make_run, settling_time
from ._topology import find_bonds
from .sampling import LONG_ENOUGH, MIN_BLOCKS, Samples, blockedError, correlationTime, separateForces
from .tasks import countWorkers, runTasks

if TYPE_CHECKING:
    from ase import Atoms

# Names on the command line.
INTEGRATORS = {
    "LangevinMiddle": openmm.LangevinMiddleIntegrator,
    "MassPenaltyLangevin": MassPenaltyLangevinIntegrator,
    "ZhangSkeelLangevin": ZhangSkeelLangevinIntegrator,
    "ImpulseLangevin": ImpulseLangevinIntegrator,
}
SHARES = 0.5, 0.75, 1                       # of the step that examine() recommends: the default steps
DEFAULT = ("LangevinMiddle", "MassPenaltyLangevin")
RESERVED = ("temperature", "potential")     # what has averages besides the energies by name
EQUILIBRATION_SHARE = 0.15                  # of the real time of all
EQUILIBRATION_TIME = 5.0                    # ps, at most, where the simulated time is given
MOST_DRIFT = 3                              # errors, between the halves of a run


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


def fitLine(steps: ArrayLike, values: ArrayLike, errors: ArrayLike) -> Line:
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
    line, covariance = np.polyfit(steps**2, values, 1, w=1/errors, cov="unscaled")
    squares, freedom = np.sum(((values - np.polyval(line, steps**2))/errors)**2), len(steps) - 2
    (slope, intercept), (slopeError, error) = line.tolist(), np.sqrt(np.diag(covariance)).tolist()
    return Line(intercept, error, slope, slopeError, float(squares/freedom) if freedom else math.nan, len(steps))


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
        whether the error can be told: at least 8 samples and 60 correlation times, and halves of the series that differ
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
    def fs(self) -> float:
        """The step size [fs]."""
        return 1000*self.step

    @property
    def _sampled(self):
        """The simulated time that averages are taken of [ps]."""
        return 0.0 if self.samples is None else self.samples.steps*self.step

    def series(self, name: str) -> np.ndarray:
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

    def average(self, name: str) -> Average:
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
        long = LONG_ENOUGH*tau <= len(series) or tau == math.inf
        assert self.samples is not None     # as series() has not raised an error
        return Average(float(np.mean(series)), error, tau*self.samples.interval, long and not self.drifts(name, error))

    def drifts(self, name: str, error: float) -> bool:
        """
        Tell whether the halves of a series differ by more than chance allows.

        Parameters
        ----------
        name : str
            one of Scan.names
        error : float
            the standard error of the mean; that of the difference of the halves is twice as large

        Returns
        -------
        bool
            whether they differ by more than 3 of these errors
        """
        series = self.series(name)
        half = len(series)//2
        return bool(abs(series[:half].mean() - series[half:].mean()) > MOST_DRIFT*2*error)


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

    runs: list[Run]
    temperature: float
    friction: float
    particles: int
    equilibration: float
    notes: list[str] = field(default_factory=list)

    @property
    def integrators(self) -> list[str]:
        """The names of the integrators, a list."""
        return list(dict.fromkeys(run.integrator for run in self.runs))

    @property
    def names(self) -> list[str]:
        """
        What has averages, a list: "temperature", "potential", and the kinds of force if there are several whose
        energies change.
        """
        done = [run.samples.energies for run in self.runs if run.samples is not None]
        changing = [name for name in (done[0] if done else ()) if any(np.ptp(energies[name]) > 0 for energies in done)]
        return [*RESERVED, *(changing if len(changing) > 1 else [])]

    @property
    def reference(self) -> Run | None:
        """
        The run that others are compared with: of the first integrator with a run that has not failed, that with the
        smallest step. None if all have failed.
        """
        done = [run for run in self.runs if run.samples is not None]
        return min(done, key=lambda run: (self.integrators.index(run.integrator), run.step), default=None)

    def average(self, name: str, run: Run) -> Average:
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
                      key=lambda each: each._sampled)
        if longest is run or math.isnan(own.error):
            return own
        other = longest.average(name)
        ratio = longest._sampled/run._sampled
        expected = min(other.error*math.sqrt(ratio), float(np.std(longest.series(name))))
        error = float(np.fmax(own.error, expected))
        return Average(own.mean, error, own.tau, other.known and not run.drifts(name, error))

    def extrapolate(self, name: str, integrator: str) -> Line | None:
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

    def compare(self, name: str, integrator: str) -> float:
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

    def verdict(self) -> str:
        """
        Say up to which step each integrator reproduces `reference`: averages that differ by at most 3 standard errors,
        at this step and all smaller ones.

        Returns
        -------
        str
            a sentence for each integrator. If no run is long enough for errors, how much longer they have to be
        """
        return _scan_report.judge(self)

    def table(self) -> str:
        """
        Write the table.

        Returns
        -------
        str
            the runs and their averages with errors, the intercepts at h = 0, and the verdict
        """
        return _scan_report.tabulate(self)

    def printTable(self) -> None:
        """Print what table() writes."""
        print(self.table())

    def draw(self, path: str | os.PathLike[str]) -> None:
        """
        Draw the averages against h^2, with the straight lines and their intercepts at h = 0, a panel for each.

        Parameters
        ----------
        path : str or path
            the file; its name tells the format, such as .png or .pdf. An ImportError with the remedy if Matplotlib
            is not there, and a ValueError if every run has failed
        """
        _scan_report.draw(self, path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write all numbers of the table and the picture as JSON; energies in kJ/mol, times in ps, temperatures in K.

        Parameters
        ----------
        path : str or path
            the file
        """
        _scan_report.save(self, path)


def scan(system: "openmm.System | Atoms", topology: app.Topology | None = None,
         positions: Quantity | ArrayLike | None = None,
         integrators: Iterable[str] | Mapping[str, openmm.Integrator] = DEFAULT,
         temperature: SupportsFloat | Quantity = 300, friction: SupportsFloat | Quantity | None = None,
         steps: Iterable[float] | Mapping[str, Iterable[float]] | None = None, minutes: float | None = 10,
         time: SupportsFloat | Quantity | None = None, platform: str | None = None,
         properties: Mapping[str, str] | None = None, processes: int = 1, scheduler: str | None = None, seed: int = 1,
         progress: Callable[[float, str], object] | None = None,
         bonds: Iterable[Sequence[SupportsIndex]] | None = None) -> Scan:
    """
    Run a System at growing steps with several integrators, and compare temperatures and energies.

    All runs start from the same state: the positions are minimized, then equilibrated with MassPenaltyLangevin at 4 fs,
    or with LangevinMiddle at 1 fs if that fails, at a friction of 20/ps. Velocities are drawn anew, and a fifth of each
    run is not counted. MassPenaltyLangevin gets the pairs of addPairsFromTopology() for the bonds of the Topology that
    are in no bonded force that it knows. A run that fails is a result, too.

    Parameters
    ----------
    system : openmm.System or ase.Atoms
        the System, which stays as it is: a copy has its forces in groups by their names. A ValueError if it cannot be
        copied through XML. Or Atoms with a calculator, which must be one that can be pickled
    topology : openmm.app.Topology
        its Topology. Its box is taken, if it has one and the System is periodic, else that of the System. None for
        Atoms
    positions : Quantity or array of shape (particles, 3)
        positions [nm]. None for Atoms
    integrators : iterable of str, or dict of str to openmm.Integrator
        names in INTEGRATORS: class names without "Integrator". In place of a name a dict has an object of any class
        with a step size, which is copied through XML; its settings are kept but for step size, temperature and seed
    temperature : float or Quantity
        of the thermostat [K]
    friction : float or Quantity
        of the thermostat [1/ps]; by default 1/ps, or 5/ps without a periodic box and for Atoms
    steps : list of float, or dict of str to list of float
        step sizes [fs], for all integrators or by their names; by default a half, three quarters and the whole of what
        examine() recommends
    minutes : float
        the real time of all, which is divided between the runs: so that each simulates the same time, or evenly if they
        are made side by side
    time : float or Quantity
        the simulated time of each run [ps], instead of minutes. A warning if it is below 30 divided by the friction, 60
        times that in which the kinetic energy forgets its past: errors then mean little
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
    bonds : iterable of pairs of int
        the bonds of Atoms, as MassPenaltyLangevin takes them; by default perceived ones

    Returns
    -------
    Scan
        the runs, with methods for a table, a picture and what is expected at h = 0
    """
    original, bonded, given = _parts(system, topology, positions, bonds)
    positive = partial(finite, positive=True)
    temperature = positive("scan: temperature", temperature, "K")
    friction = advisedFriction(original) if friction is None else positive("scan: friction", friction, "1/ps")
    minutes = None if time is not None else positive("scan: minutes", minutes, "")
    time = None if time is None else positive("scan: time", time, "ps")
    processes, seed = integer("scan: processes", processes, least=1), integer("scan: seed", seed, least=1)
    prototypes = _prototypes(integrators, temperature, friction)
    wanted: Any = steps
    if isinstance(wanted, Mapping):
        wanted = {name if name in prototypes else str(name).removesuffix("Integrator"): wanted[name] for name in wanted}
        for unknown in wanted.keys() - prototypes.keys():
            raise ValueError(f"scan: steps are given for '{unknown}', which is none of {', '.join(prototypes)}")
    elif wanted is not None:
        wanted = elements("scan: steps", wanted, "numbers [fs]")
    chosen: Any = {name: _steps(name, wanted) for name in prototypes}
    if time is not None and time < LONG_ENOUGH/(2*friction):
        warnings.warn(f"scan: runs of {time:g} ps are too short for errors that mean something: with a friction of "
                      f"{friction:g}/ps give at least {LONG_ENOUGH/(2*friction):g} ps", stacklevel=2)
    separated, groups = _separated(original)
    given = coordinates("scan: positions", given, [separated.getNumParticles()],
                        ". Pass the structure that the System was made from, with all its particles")
    box = bonded.getPeriodicBoxVectors() if separated.usesPeriodicBoundaryConditions() else None

    if not scheduler:   # whose workers may have other platforms
        _check_platform(platform, properties or {})
    workers = countWorkers(scheduler) if scheduler else processes
    local = workers == 1 and not scheduler      # this process makes all by itself
    watch = _Progress(progress, minutes)
    common = {"system": openmm.XmlSerializer.serialize(separated), "topology": bonded, "temperature": temperature,
              "groups": groups, "platform": platform, "properties": dict(properties or {}),
              "progress": watch.advance if local else None}
    task = Task("equilibration", positions=given, integrator="", seed=seed, step=EQUILIBRATIONS[0][1],
                box=None if box is None else np.array(box.value_in_unit(unit.nanometer)),
                seconds=None if minutes is None else 60*minutes*EQUILIBRATION_SHARE,
                time=None if time is None else min(EQUILIBRATION_TIME, time/2), **common)
    if time is not None:
        watch.steps = [count_steps(task.time, task.step)]
    watch.look()
    (_, (start, box, equilibration, notes)), = runTasks(equilibrate, [task], 1, scheduler, watch.look)
    watch.finish(0)
    if not all(chosen.values()):
        chosen = _advised(chosen, replace(task, positions=start, box=box, progress=None), scheduler, watch)
    kinds = [(name, fs/1000) for name in chosen for fs in chosen[name]]
    watch.labels += [f"{name}, {1000*step:g} fs" if local else f"{len(kinds)} runs" for name, step in kinds]
    if time is not None:
        watch.steps += [count_steps(settling_time(time) + time, step) for _, step in kinds]

    # One after the other, runs have the same simulated time, as far as steps cost the same; side by side the same time.
    rounds = math.ceil(len(kinds)/min(workers, len(kinds)))
    shares = [1/rounds if workers > 1 else 1/step/sum(1/each for _, each in kinds) for _, step in kinds]
    seconds = None if minutes is None else max(60*minutes - watch.elapsed, 30*minutes)
    tasks = [Task(name, positions=start, box=box, integrator=prototypes[name], step=step, time=time,
                  seed=(seed + index) % (2**31 - 1) + 1, seconds=None if seconds is None else seconds*share, **common)
             for index, ((name, step), share) in enumerate(zip(kinds, shares))]
    runs: list[Any] = [None]*len(tasks)
    for index, found in runTasks(make_run, tasks, processes, scheduler, watch.look):
        runs[index] = Run(*kinds[index], **found)
        watch.finish(1 + index)
    return Scan(runs, temperature, friction, separated.getNumParticles(), equilibration, notes)


class _Progress:
    """Tells how much is done, by real time or by steps, and what is being done. Parts are added as they are known."""

    def __init__(self, tell, minutes):
        self.tell, self.minutes, self.labels = tell, minutes, ["equilibration"]
        self.steps = []                         # of the parts, where the real time is not given
        self.told = 0.0
        self.begun = perf_counter()
        self.ended = self.done = self.made = 0  # parts; steps of these; steps of the part that is being made

    @property
    def elapsed(self):
        return perf_counter() - self.begun

    def advance(self, steps):
        self.made += steps
        self.look()

    def finish(self, part):
        self.done += self.steps[part] if self.steps else 0
        self.made, self.ended = 0, self.ended + 1
        self.look()

    def look(self):
        if self.tell is None:
            return
        current = min(self.ended, len(self.labels) - 1)
        if self.minutes:
            done = self.elapsed/(60*self.minutes)
        else:       # the last interval of a run may go beyond its steps
            done = (self.done + min(self.made, self.steps[current]))/sum(self.steps)
            if len(self.steps) == 1:            # the runs are not known yet
                done *= EQUILIBRATION_SHARE
        self.told = min(1.0, max(done, self.told))
        self.tell(self.told, self.labels[current])


def _parts(system, topology, positions, bonds) -> tuple[Any, Any, Any]:
    """System, Topology and positions, of Atoms, too."""
    if is_atoms(system) and topology is None and positions is None:
        from ._atoms import Molecules
        molecules = Molecules(system, bonds)
        return molecules.system, molecules.topology, molecules.start
    if bonds is not None:
        raise TypeError("scan: bonds are for Atoms of ASE; a System has them in its Topology")
    if is_atoms(system) or topology is None or positions is None:
        raise TypeError("scan: give the topology and the positions of a System, and neither with Atoms of ASE")
    find_bonds(topology, system)    # refuses what does not fit
    return system, topology, positions


def _check_platform(name, properties):
    """Say at once what would end each run."""
    if name is None and properties:
        raise ValueError("scan: properties are those of a platform: give one, too")
    known = () if name is None else find_platform("scan: platform", name).getPropertyNames()
    for each in properties:
        choice(f"scan: a property of {name}", each, known)
        string(f"scan: the property {each}", properties[each])


def _prototypes(integrators, temperature, friction):
    """Integrators as XML, by their names."""
    if isinstance(integrators, str) or not isinstance(integrators, Iterable):
        integrators = [integrators]
    names = list(integrators)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"scan: an integrator is named by a string, not {name!r}: pass names, or a dict of name to "
                            "Integrator")
    if not isinstance(integrators, Mapping):
        integrators = dict.fromkeys(name.removesuffix("Integrator") for name in names)
    if not integrators:
        raise ValueError(f"scan: there are no integrators; choose from {', '.join(INTEGRATORS)}")
    prototypes = {}
    for name, integrator in integrators.items():
        if integrator is None and name not in INTEGRATORS:
            raise ValueError(f"scan: there is no integrator '{name}'; choose from {', '.join(INTEGRATORS)}, or pass an "
                             "Integrator by its name in a dict")
        if integrator is None:
            integrator = INTEGRATORS[name](temperature, friction, 0.001)
        else:
            instance(f"scan: the integrator '{name}'", integrator, openmm.Integrator)
            require_fixed_step("scan", integrator)
            integrator = openmm.XmlSerializer.clone(integrator)
            for each in members(integrator):
                _check_groups(name, each)
                if hasattr(each, "setTemperature"):
                    each.setTemperature(temperature)
        prototypes[name] = openmm.XmlSerializer.serialize(integrator)
    return prototypes


def _check_groups(name, integrator):
    """Forces get other groups here, by their names: an integrator that tells them by groups would take other ones."""
    chosen = [each for each in ("getIntegrationForceGroups", "getStiffForceGroups", "getVibratedForceGroups")
              if hasattr(integrator, each) and getattr(integrator, each)() not in (0, -1, 2**32 - 1)]
    if chosen or isinstance(integrator, openmm.CustomIntegrator):
        raise ValueError(f"scan: the integrator '{name}' chooses forces by their groups, which are changed here to "
                         "tell energies apart. Pass one that takes all forces")


def _steps(name, steps):
    """The steps of an integrator, a list in fs; None if examine() is to say them."""
    if isinstance(steps, Mapping):
        steps = steps.get(name)
    if steps is None:
        if name not in INTEGRATORS:
            raise ValueError(f"scan: give steps for '{name}': there are default ones only for {', '.join(INTEGRATORS)}")
        return None
    steps = elements(f"scan: the steps of {name}", steps, "numbers [fs]", partial(number, symbol=""))
    if not steps or not all(0 < step < math.inf for step in steps):
        raise ValueError(f"scan: the steps of {name} must be positive numbers [fs], but are {steps}")
    return sorted(set(steps))


def _advised(chosen, task, scheduler, watch):
    """Steps for integrators that have none yet, by name in fs, from the equilibrated state of a Task."""
    try:
        (_, largest), = runTasks(advise, [task], 1, scheduler, watch.look)
    except ValueError as error:
        raise ValueError(f"scan: no steps are recommended ({error}): give some") from error
    for name in [name for name in chosen if chosen[name] is None]:
        if f"{name}Integrator" not in largest:
            raise ValueError(f"scan: examine() recommends no step of {name} for this System: give steps, or leave it "
                             "out")
        step = largest[f"{name}Integrator"]
        chosen[name] = sorted({1000*roundStep(share*step) for share in SHARES[:-1]} | {1000*step})
    return chosen


def _separated(system):
    """A copy of a System with its forces in groups by name, and these groups."""
    try:
        system = openmm.XmlSerializer.clone(system)
    except Exception as error:      # whatever a Force of somebody else's comes up with
        raise ValueError(f"scan: the System cannot be copied through XML: {error}. Forces that cannot be copied, such "
                         "as a PythonForce with a function that cannot be pickled, have to be changed or left out; a "
                         "calculator of ASE can often be pickled as long as it has not been used"
                         ) from error
    for force in system.getForces():
        if force.getName() in RESERVED:
            force.setName(f"{force.getName()} of {type(force).__name__}")
    groups = separateForces(system)
    if not groups:
        raise ValueError("scan: the System has no forces")
    return system, groups
