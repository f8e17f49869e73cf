"""What the validations of water share: making runs, keeping them in files, checking claims on them."""
import fcntl
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import openmm as mm
from openmmstiff.sampling import blockedError
from openmmstiff.tasks import runTasks

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from observables import rdf_p_value  # noqa: E402
from options import OptionParser, choice, number, progress_bar  # noqa: E402
from sampling import Samples, number_of_steps, sample  # noqa: E402
from tip3p_water import TEMPERATURE, Run, make_simulation  # noqa: E402
from water import EQUILIBRATION_STEP, advance, build_box, equilibrate, start_geometry  # noqa: E402

EQUILIBRATION_TIME = 5.0  # ps, of each geometry; then once more with the run's own integrator
P_VALUE = 0.01            # radial distributions that differ more than by this chance are different


class Saved(Protocol):
    """A run's result: an interruption leaves no file or the whole of it."""

    def save(self, path: Path):
        ...


Kept = TypeVar("Kept", bound=Saved)


def make_run(name: str, run: Run, seed: int, friction: float, options, **recorded) -> Samples:
    """Equilibrate and sample; `recorded` says what else sampling.sample() is to record."""
    box = build_box(options.waters)
    start = start_geometry(run.geometry)
    geometries = ["rigid"] if start == "rigid" else ["rigid", "flexible"]
    settling = round(EQUILIBRATION_TIME / run.step)
    steps = sum(round(EQUILIBRATION_TIME / EQUILIBRATION_STEP[geometry]) for geometry in geometries)
    steps += settling + number_of_steps(options.time, run.step)
    with progress_bar(name, steps, leave=True) as bar:
        state = None
        for geometry in geometries:
            state = equilibrate(box, geometry, EQUILIBRATION_TIME, temperature=TEMPERATURE,
                                platform=options.platform, seed=seed, progress=bar.update, start=state)
        simulation = make_simulation(box, run, friction, seed, options.platform)
        simulation.context.setPositions(state.getPositions())
        simulation.context.setVelocitiesToTemperature(TEMPERATURE, seed)
        advance(simulation.integrator, settling, bar.update)
        return sample(simulation, options.time, bar.update, **recorded)


def add_file_options(parser: OptionParser, names: Iterable[str]):
    """What validate() needs: options.run, options.report, options.output, options.processes, options.scheduler."""
    parser.add_argument("--run", type=choice(names), nargs="+", metavar="NAME",
                        help=f"make these runs only, without a report: {', '.join(names)}")
    parser.add_argument("--report", action="store_true", help="check the claims on the runs made so far")
    parser.add_argument("--output", type=Path, default=Path("validation"), metavar="FOLDER",
                        help="folder of the results; delete it to begin anew (default: %(default)s)")
    parser.add_argument("--processes", type=number(int, 1), default=1, metavar="N",
                        help="runs side by side, which then share the processors (default: %(default)s)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="make the runs on the workers of this Dask scheduler, such as tcp://host:8786, which see "
                             "the same files")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Other processes that want to make the same file wait; the lock of one that dies is gone."""
    with open(f"{file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def save_run(task: tuple[Callable[[str, Path], Saved], str, Path]) -> str:
    """Make a run and write its file, in whichever process; how it has failed, or an empty text."""
    make, name, file = task
    try:
        make(name, file.parent).save(file)
    except (FloatingPointError, mm.OpenMMException) as error:
        return str(error)
    return ""


def validate(parser: OptionParser, options, folder: str, title: str, names: Iterable[str],
             make: Callable[[str, Path], Kept], load: Callable[[Path], Kept],
             check: Callable[[dict[str, Kept]], bool]) -> int:
    """Make the runs that are missing, keep them in files, and check the claims on them; the exit code of the program.

    folder: the files' folder in options.output, the same for the same settings.
    make, load: a run's result by its name (and the folder), or from its file. Processes are given `make`: it has to be
    a function of a module, or functools.partial of one.
    """
    if options.run and options.report:
        parser.error("--run and --report: give one of them")
    path = options.output / folder
    parser.make_folder(path)
    files = {name: path / f"{name}.npz" for name in names}
    wanted = [] if options.report else list(options.run or names)
    for name in wanted:
        if files[name].exists():
            print(f"{files[name]}: done before")
    missing = [name for name in dict.fromkeys(wanted) if not files[name].exists()]
    complete = True
    for index, failure in make_files([(make, name, files[name].absolute()) for name in missing], options):
        if failure:
            print(f"{missing[index]}: {failure}", file=sys.stderr)
            complete = False
    if options.run:
        return 0 if complete else 1
    print(f"{title}\n")
    return 0 if check({name: load(file) for name, file in files.items() if file.exists()}) else 1


def make_files(tasks: list, options) -> Iterator[tuple[int, str]]:
    """What save_run() returns for each task, with its index. Runs of other processes share one bar."""
    if options.processes == 1 and not options.scheduler:
        yield from runTasks(save_run, tasks)
        return
    with progress_bar("runs", len(tasks), leave=True) as bar:
        os.environ["TQDM_DISABLE"] = "1"
        try:
            for done in runTasks(save_run, tasks, options.processes, options.scheduler, lambda: bar.update(0)):
                bar.update()
                yield done
        finally:
            del os.environ["TQDM_DISABLE"]


@dataclass
class Claim:
    """|value - expected| <= tolerance. With an error of more than half the tolerance it is undecided."""
    text: str
    value: float
    expected: float
    error: float  # standard error of value - expected
    tolerance: float

    @property
    def verdict(self) -> str:
        if self.error > self.tolerance / 2:
            return "UNDECIDED, needs a longer --time"
        return "pass" if abs(self.value - self.expected) <= self.tolerance else "FAIL"


def mean_claim(text: str, series: np.ndarray, reference: np.ndarray, tolerance: float) -> Claim:
    """Two runs have the same mean of a time series."""
    return Claim(text, series.mean(), reference.mean(), np.hypot(blockedError(series), blockedError(reference)),
                 tolerance)


def temperature_claim(text: str, series: np.ndarray, tolerance: float) -> Claim:
    """The mean of a series is TEMPERATURE, with a relative tolerance."""
    return Claim(text, series.mean(), TEMPERATURE, blockedError(series), tolerance * TEMPERATURE)


def bond_length_claims(run: Samples, reference: Samples, variance_tolerance: float) -> list[Claim]:
    """Mean (within 2e-5 nm) and variance (relative tolerance) of the O-H length."""
    length, reference_length = run.bond_length, reference.bond_length
    variance, reference_variance = run.bond_variance, reference.bond_variance
    return [Claim("O-H length, mean, nm", length[0], reference_length[0],
                  np.hypot(length[1], reference_length[1]), 2e-5),
            Claim("O-H length, variance, nm^2", variance[0], reference_variance[0],
                  np.hypot(variance[1], reference_variance[1]), variance_tolerance * reference_variance[0])]


class Report:
    """Prints claims with their verdicts, and counts those."""

    def __init__(self):
        self.verdicts = []

    def heading(self, name: str, reference: str, results: dict[str, Samples]) -> bool:
        """Introduce the claims on a run; False if it or its reference is missing."""
        missing = [needed for needed in (reference, name) if needed not in results]
        print(f"\n{name} against {reference}" + (f": NOT RUN: {', '.join(missing)}" if missing else ""))
        self.verdicts.extend("NOT RUN" for _ in missing)
        return not missing

    def check(self, claims: Iterable[Claim]):
        for claim in claims:
            print(f"  {claim.text:35} {claim.value:10.5g} {claim.expected:10.5g}   difference "
                  f"{claim.value - claim.expected:9.2g} +- {claim.error:7.2g}, "
                  f"tolerance {claim.tolerance:7.2g}   {claim.verdict}")
            self.verdicts.append(claim.verdict)

    def check_rdf(self, what: str, kinds: tuple[str, ...], rdf: np.ndarray, reference: np.ndarray):
        for pair, g, g_ref in zip(kinds, rdf, reference):
            p = rdf_p_value(g, g_ref)
            self.verdicts.append("pass" if p > P_VALUE else "FAIL")
            print(f"  {f'{pair} {what}, chance to differ so':45} {p:10.3g}   at least {P_VALUE:g}   "
                  f"{self.verdicts[-1]}")

    def finish(self) -> bool:
        """Print the count; True if all claims hold."""
        passed = self.verdicts.count("pass")
        print(f"\n{passed} of {len(self.verdicts)} claims hold")
        return passed == len(self.verdicts)
