"""All that tests/python tries of what users run into: every bad value, odd System, saved state and workflow.

The claim on each of many thousand cases: it works and stays finite, or is refused by an error that says what is wrong.
"""
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from exam import Claim, Exam, Results, Settings, by_name, each

FILES = {"bad-values": "test_bad_values", "odd-Systems": "test_odd_systems", "saved-states": "test_bad_days",
         "workflows": "test_workflows"}
TESTS = Path(__file__).resolve().parents[2]/"python"


def run(name: str, settings: Settings) -> dict:
    """How many tests there are, each of many cases; and what is wrong. A worker that dies is one fault."""
    with TemporaryDirectory() as folder:
        report = Path(folder)/"report.xml"
        subprocess.run([sys.executable, "-m", "pytest", "--numprocesses", "1", "-m", "", f"--junitxml={report}",
                        TESTS/f"{FILES[name]}.py"], cwd=TESTS.parents[1], capture_output=True,
                       env={**os.environ, "SWEEP": str(min(1.0, settings.scale))})
        tests = list(ElementTree.parse(report).iter("testcase"))
    faults = [f"{test.get('name')}: {fault.get('message')}" for test in tests for fault in test
              if fault.tag in ("failure", "error")]
    return {"tests": len(tests), "faults": np.array(faults, dtype=str)}


def claims(results: Results, name: str) -> Iterator[Claim]:
    faults = results[name]["faults"]
    yield Claim("faults", len(faults), 0, 0, 0)
    for fault in faults:
        yield Claim.true(fault, False)


def report(results: Results) -> Iterator[Claim]:
    return each(results, partial(claims, results))


EXAM = Exam("misuse", "What users run into: bad values, odd Systems, saved states, changes in mid-run",
            by_name(run, FILES), report)
