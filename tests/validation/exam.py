"""What an exam of `make validate` is: independent runs, each kept in a file, and what is claimed of their results.

A module of the folder exams has one EXAM. Its runs are made by whichever process or machine, in any order; its report
looks at all of them. What is known not to hold is claimed as a limit(), with its figure: it fails when that moves.
"""
import importlib
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from openmmstiff.sampling import blockedError

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "examples")]

from common.runs import Result, RunFailed, Settings  # noqa: E402

logging.getLogger("pymbar").setLevel(logging.ERROR)    # it tells at each start that JAX is not there

@dataclass(frozen=True)
class Claim:
    """|value - expected| <= tolerance; undecided with an error of more than most_error, by default half of that."""
    text: str
    value: float
    expected: float
    error: float  # standard error of value - expected
    tolerance: float
    run: str = ""
    most_error: float | None = None

    @classmethod
    def within(cls, text: str, value: float, expected: float, error: float, errors: float = 3, run: str = "",
               most_error: float = np.inf) -> "Claim":
        """Equal for all that the error tells: the tolerance is so many of it."""
        return cls(text, value, expected, error, errors * error, run, most_error)

    @classmethod
    def true(cls, text: str, holds: bool, detail: str = "") -> "Claim":
        """A fact without a number."""
        return cls(f"{text}: {detail}" if detail else text, float(holds), 1.0, 0.0, 0.0)

    @classmethod
    def between(cls, text: str, value: float, least: float, most: float, error: float = 0.0,
                run: str = "") -> "Claim":
        return cls(text, value, (least + most) / 2, error, (most - least) / 2, run)

    @property
    def verdict(self) -> str:
        if not np.isfinite(self.value):
            return "FAIL"
        if self.error > (self.tolerance / 2 if self.most_error is None else self.most_error):
            return "UNDECIDED, needs a longer run"
        return "pass" if abs(self.value - self.expected) <= self.tolerance else "FAIL"

    @property
    def stands(self) -> bool:
        return self.verdict == "pass"


@dataclass(frozen=True)
class Limit(Claim):
    """A claim that is known not to hold, with its figure. It fails when it holds or the figure has moved, each by more
    than two errors tell."""
    stated: float = 0.0
    margin: float = 0.0

    @property
    def verdict(self) -> str:
        if abs(self.value - self.expected) + 2 * self.error <= self.tolerance:
            return "HOLDS, stated as a limit"
        if self.error > self.margin:
            return "UNDECIDED, needs a longer run"
        moved = not abs(self.value - self.stated) <= self.margin + 2 * self.error
        return f"MOVED from {self.stated:g} +- {self.margin:g}" if moved else "limit, as stated"

    @property
    def stands(self) -> bool:
        return self.verdict == "limit, as stated"


def limit(claim: Claim, value: float = 0.0, tolerance: float = 0.0) -> Limit:
    """The claim does not hold, and its figure is `value` within a tolerance."""
    return Limit(**asdict(claim), stated=value, margin=tolerance)


def pair_claim(text: str, value: tuple[float, float], reference: tuple[float, float], tolerance: float) -> Claim:
    """Two values, each with its error, are the same."""
    return Claim(text, value[0], reference[0], float(np.hypot(value[1], reference[1])), tolerance)


def mean_claim(text: str, series: np.ndarray, reference: np.ndarray, tolerance: float) -> Claim:
    """Two runs have the same mean of a time series."""
    value, expected = ((each.mean(), blockedError(each)) for each in (series, reference))
    return pair_claim(text, value, expected, tolerance)


def mean_within(text: str, series: np.ndarray, reference: np.ndarray, errors: float = 3) -> Claim:
    """Two runs have the same mean of a time series, for all that their errors tell."""
    return Claim.within(text, series.mean(), reference.mean(),
                        float(np.hypot(blockedError(series), blockedError(reference))), errors)


def bath_claim(text: str, series: np.ndarray, temperature: float, tolerance: float) -> Claim:
    """The mean of a series of temperatures is the bath's, with a relative tolerance."""
    return Claim(text, series.mean(), temperature, blockedError(series), tolerance * temperature)


@dataclass(frozen=True)
class Table:
    """What is shown beside the claims; with a name, it goes into docs/measurements.json."""
    heading: str
    columns: list[str]
    rows: list[list[str]]
    name: str = ""


Results = dict[str, Result]


@dataclass(frozen=True)
class Exam:
    """limits: of claims that are known not to hold, by run and text, the figure that they have and its tolerance."""
    name: str
    title: str
    runs: Callable[[Settings], dict[str, partial]]
    report: Callable[[Results], Iterable[Claim | Table]]
    limits: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    @property
    def script(self) -> Path:
        return Path(self.report.__code__.co_filename)


def each(names: Iterable[str], claims: Callable[[str], Iterable[Claim]]) -> Iterator[Claim]:
    """The claims on each run, with its name; where a run has failed, that in their place."""
    for name in names:
        try:
            found = list(claims(name))
        except RunFailed as failure:
            found = [Claim.true("runs to its end", False, str(failure))]
        for claim in found:
            yield replace(claim, run=name)


def by_name(make: Callable[[str, Settings], dict], names: Iterable[str]) -> Callable[[Settings], dict[str, partial]]:
    """Runs, one of each name."""
    return lambda settings: {name: partial(make, name, settings) for name in names}


def load_exams() -> dict[str, Exam]:
    """All exams by their names."""
    modules = (importlib.import_module(f"exams.{path.stem}") for path in sorted((HERE / "exams").glob("*.py")))
    exams = [module.EXAM for module in modules if hasattr(module, "EXAM")]
    return {exam.name: exam for exam in exams}


@dataclass
class Findings:
    """What an exam has shown."""
    exam: Exam
    claims: list[Claim] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    made: str = ""          # when the last of its runs was
    minutes: float = 0.0    # of a processor, all runs together

    @classmethod
    def of(cls, exam: Exam, results: Results) -> "Findings":
        found = cls(exam, made=max(result["made"] for result in results.values()),
                    minutes=sum(result["processor"] for result in results.values()) / 60)
        try:
            for item in exam.report(results):
                if isinstance(item, Table):
                    found.tables.append(item)
                elif (item.run, item.text) in exam.limits:
                    found.claims.append(limit(item, *exam.limits[item.run, item.text]))
                else:
                    found.claims.append(item)
        except RunFailed as failure:
            found.claims.append(Claim.true("all that the report needs was run", False, str(failure)))
        claimed = {(claim.run, claim.text) for claim in found.claims}
        found.claims += [Claim.true("is claimed", False, f"{text}, stated as a limit") for run, text in
                         exam.limits.keys() - claimed]
        return found
