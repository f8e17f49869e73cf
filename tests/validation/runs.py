"""What the validations of water share: making runs, keeping them in files, checking claims on them."""
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import openmm as mm

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from observables import blocked_error, rdf_p_value  # noqa: E402
from options import OptionParser, choice, progress_bar  # noqa: E402
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
    """What validate() needs: options.run, options.report, options.output."""
    parser.add_argument("--run", type=choice(names), nargs="+", metavar="NAME",
                        help=f"make these runs only, without a report: {', '.join(names)}")
    parser.add_argument("--report", action="store_true", help="check the claims on the runs made so far")
    parser.add_argument("--output", type=Path, default=Path("validation"), metavar="FOLDER",
                        help="folder of the results; delete it to begin anew (default: %(default)s)")


def validate(parser: OptionParser, options, folder: str, title: str, names: Iterable[str],
             make: Callable[[str, Path], Kept], load: Callable[[Path], Kept],
             check: Callable[[dict[str, Kept]], bool]) -> int:
    """Make the runs that are missing, keep them in files, and check the claims on them; the exit code of the program.

    folder: the files' folder in options.output, the same for the same settings.
    make, load: a run's result by its name (and the folder), or from its file.
    """
    if options.run and options.report:
        parser.error("--run and --report: give one of them")
    path = options.output / folder
    parser.make_folder(path)
    files = {name: path / f"{name}.npz" for name in names}
    complete = True
    for name in () if options.report else options.run or names:
        if files[name].exists():
            print(f"{files[name]}: done before")
            continue
        try:
            make(name, path).save(files[name])
        except (FloatingPointError, mm.OpenMMException) as error:
            print(f"{name}: {error}", file=sys.stderr)
            complete = False
    if options.run:
        return 0 if complete else 1
    print(f"{title}\n")
    return 0 if check({name: load(file) for name, file in files.items() if file.exists()}) else 1


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
    return Claim(text, series.mean(), reference.mean(), np.hypot(blocked_error(series), blocked_error(reference)),
                 tolerance)


def temperature_claim(text: str, series: np.ndarray, tolerance: float) -> Claim:
    """The mean of a series is TEMPERATURE, with a relative tolerance."""
    return Claim(text, series.mean(), TEMPERATURE, blocked_error(series), tolerance * TEMPERATURE)


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
