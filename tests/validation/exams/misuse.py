"""The whole sweep of what users run into (tests/sweep): every bad value, odd System, saved state and workflow.

The claim on each of some 40,000 cases: it works and stays finite, or is refused by an error that says what is wrong.
"""
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from exam import Claim, Exam, Results, Settings, Table, each

sys.path.append(str(Path(__file__).resolve().parents[2] / "sweep"))

from sweep import PARTS, Sweep  # noqa: E402


def run(part: str, settings: Settings) -> dict:
    """How many cases were refused, accepted, or showed a fault; and the faults."""
    sweep, counts, faults = Sweep(), Counter(), []
    for name in PARTS[part][2]:
        for case, kind, text in sweep.run(part, name, min(1.0, settings.scale)):
            counts[kind] += 1
            if kind == "fault":
                faults.append(f"{case.platform} {case.what}: {text}")
    sweep.end()
    return {"faults": np.array(faults, dtype=str), **{kind: counts[kind] for kind in ("accepted", "refused")}}


def runs(settings: Settings) -> dict[str, partial]:
    return {PARTS[part][0].replace(" ", "-"): partial(run, part, settings) for part in PARTS}


def claims(results: Results, name: str) -> Iterator[Claim]:
    faults = results[name]["faults"]
    yield Claim("faults", len(faults), 0, 0, 0)
    for fault in faults:
        yield Claim.true(fault, False)


def report(results: Results) -> Iterator[Claim | Table]:
    yield Table("", ["cases", "accepted", "refused", "faults"], [
        [name, *(str(result[kind]) for kind in ("accepted", "refused")), str(len(result["faults"]))]
        for name, result in results.items() if "failure" not in result])
    yield from each(results, partial(claims, results))


EXAM = Exam("misuse", "What users run into: bad values, odd Systems, saved states, changes in mid-run", runs, report)
