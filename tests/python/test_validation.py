"""What `make validate` stands on: verdicts, and runs that are kept, resumed and allowed to fail."""
import importlib.util
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1]/"validation"


@pytest.fixture(scope="module")
def exam():
    """The module, without the folders of the exams and examples in the path of the other tests."""
    path = list(sys.path)
    spec = importlib.util.spec_from_file_location("exam", FOLDER/"exam.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["exam"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    del sys.modules["exam"]


def test_a_claim_holds_within_its_tolerance(exam):
    """If its error is large, it is undecided."""
    assert exam.Claim("", 1.05, 1, 0.02, 0.1).verdict == "pass"
    assert exam.Claim("", 1.15, 1, 0.02, 0.1).verdict == "FAIL"
    assert exam.Claim("", float("nan"), 1, 0.02, 0.1).verdict == "FAIL"
    claim = exam.Claim("", 1, 1, 0.06, 0.1)
    assert claim.verdict.startswith("UNDECIDED") and not claim.stands
    assert exam.Claim.within("", 1.17, 1, 0.06).stands
    assert not exam.Claim.within("", 1.19, 1, 0.06).stands
    assert exam.Claim.within("", 1.17, 1, 0.06, most_error=0.05).verdict.startswith("UNDECIDED")


def test_a_limit_is_strict(exam):
    """It fails when its figure moves, and when what it is a limit of begins to hold, each by more than two errors."""
    for value, verdict in (308, "limit, as stated"), (304, "MOVED"), (315, "MOVED"), (301, "HOLDS"):
        assert exam.limit(exam.Claim("", value, 300, 0.5, 3), 309, 2).verdict.startswith(verdict)
    assert exam.limit(exam.Claim("", 302.9, 300, 1, 3), 306, 1.5).stands
    assert not exam.limit(exam.Claim("", 309, 300, 4, 3), 309, 2).stands


def run(value):
    if value < 0:
        raise ValueError(f"{value} is negative\nand more")
    return {"value": value, "series": np.arange(3.0), "text": "a text"}


def take(exam, folder, limits, **values):
    """What an exam of some runs finds, and their results."""
    from common import runs

    def claims(results, name):
        yield exam.Claim("value", results[name]["value"], 1, 0.0, 0.5)

    calls = {name: partial(run, value) for name, value in values.items()}
    trial = exam.Exam("trial", "A trial", lambda settings: calls,
                      lambda results: exam.each(values, partial(claims, results)), limits)
    results = {}
    for name in trial.runs(exam.Settings(folder)):
        task = runs.Task(name, calls[name], folder/"trial"/f"{name}.npz")
        task.make()
        results[name] = exam.Result.load(task.path)
    return exam.Findings.of(trial, results).claims, results


def test_results_are_kept_and_a_run_that_fails_fails_its_claims_alone(exam, tmp_path):
    claims, results = take(exam, tmp_path, {}, one=1, bad=-1)
    one = results["one"]
    assert one["value"] == 1 and one["text"] == "a text" and (one["series"] == np.arange(3)).all()
    assert one["processor"] >= 0 and one["made"].count("-") == 2
    with pytest.raises(KeyError):
        one["nothing"]
    assert [claim.stands for claim in claims] == [True, False]
    assert results["bad"]["failure"] == "-1 is negative" and "-1 is negative" in claims[1].text


def test_limits_of_an_exam(exam, tmp_path):
    claims, _ = take(exam, tmp_path/"a", {("far", "value"): (9, 0.1)}, one=1, far=9)
    assert [claim.verdict for claim in claims] == ["pass", "limit, as stated"]
    claims, _ = take(exam, tmp_path/"b", {("gone", "value"): (9, 0.1)}, one=1)
    assert not claims[-1].stands      # a limit that nothing claims any more


def call_validation(*arguments):
    return subprocess.run([sys.executable, FOLDER, *arguments], text=True, capture_output=True,
                          env={**os.environ, "OPENMM_CPU_THREADS": "1"})


def test_validation_resumes_and_reports(tmp_path):
    """One run of an exam, then its report, which misses the others."""
    options = ["energy", "--scale", "0.001", "--output", tmp_path, "--processes", "1"]
    two = [*options, "--runs", "cluster-verlet-0.25fs", "cluster-verlet-0.5fs"]
    made = call_validation(*two)
    assert made.returncode == 0, made.stderr
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cluster-*.npz")}
    assert len(files) == 2
    again = call_validation(*two)
    assert "2 of 2 runs were made before" in again.stdout
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cluster-*.npz")}
    report = call_validation(*options, "--report")
    assert report.returncode == 1 and "Not run: energy." in report.stdout
    assert json.loads((tmp_path/"validation.json").read_text())["exams"] == []


def test_a_wrong_exam_or_run_is_an_error_that_lists_them(tmp_path):
    asked = call_validation("nothing")
    assert asked.returncode == 2 and "liquid-water" in asked.stderr
    asked = call_validation("energy", "--runs", "cluster-drift", "nothing", "--output", tmp_path)
    assert asked.returncode == 2 and "nothing" in asked.stderr and "cluster-drift" in asked.stderr
