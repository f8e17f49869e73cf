"""What `make validate` stands on: verdicts, and runs that are kept, resumed and allowed to fail."""
import importlib.util
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app
from openmmstiff.sampling import computeTemperature

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


@pytest.fixture
def force_fields(exam):
    return importlib.import_module("exams.force_fields")


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
    two = [*options, "--runs", "cluster-drift", "cluster-drift-tight"]
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


def test_parts_of_a_protein_have_its_temperature_each(force_fields):
    """Flat rings, with their hydrogens, and the others; all together have what the thermometer says."""
    topology, create, positions = force_fields.villin("amber14-all.xml")
    system = create(constraints=app.HBonds)
    parts, atoms = force_fields.find_parts(topology, system), list(topology.atoms())
    names = {name: {atoms[i].name for i in parts["rings"] if atoms[i].residue.name == name} for name in ("PHE", "HIS")}
    assert names["PHE"] == {"CG", "CD1", "CD2", "CE1", "CE2", "CZ", "HD1", "HD2", "HE1", "HE2", "HZ"}
    assert names["HIS"] >= {"CG", "ND1", "CD2", "CE1", "NE2", "HD2", "HE1"}
    assert {atoms[i].residue.name for i in parts["rings"]} == {"PHE", "HIS", "TRP"}     # and not that of proline
    assert not parts["water"] and sorted(parts["rings"] + parts["others"]) == list(range(len(atoms)))
    observe = force_fields.observe_temperatures(system, {**parts, "all": list(range(len(atoms)))})
    simulation = app.Simulation(topology, system, openmm.LangevinMiddleIntegrator(300, 1, 0.002),
                                openmm.Platform.getPlatform("CPU"))
    simulation.context.setPositions(positions)
    simulation.minimizeEnergy(maxIterations=100)    # or the forces of half a step count
    found = []
    for seed in range(1, 201):
        simulation.context.setVelocitiesToTemperature(300, seed)
        state = simulation.context.getState(velocities=True, energy=True)
        found.append(observe(state))
        assert found[-1]["all"] == pytest.approx(computeTemperature(simulation.context, state), rel=1e-4)
    for part in "rings", "others":
        of = np.array([each[part] for each in found])
        assert abs(of.mean() - 300) < 4*of.std()/len(of)**0.5 < 10


def test_a_hot_ring_fails_the_exam_of_force_fields(force_fields, exam):
    """While the protein as a whole is warm enough; so do wrong energies, and a run that is lost."""
    noise = np.random.default_rng(1).normal(size=1000)
    right = {"rings": 300 + noise, "others": 300 + noise, "bonds": 100 + noise}
    lost = {"failure": "lost", "lost": 1.0}
    for wrong, failing in (({}, []), ({"rings": 320 + noise}, ["rings"]), ({"bonds": 105 + noise}, ["bonds"]),
                           (lost, ["runs to its end"])):
        result = exam.Result({"step": 10, force_fields.REFERENCE: right, "1": right, "5": lost if wrong is lost else
                              right | wrong})
        claims = list(force_fields.claims({"run": result}, "run"))
        assert len(claims) == (5 if wrong is lost else 8)
        failed = [claim.text for claim in claims if not claim.stands]
        assert len(failed) == len(failing) and all(text in found for text, found in zip(failing, failed))


def test_force_fields_tell_what_was_not_run(force_fields, exam, tmp_path, monkeypatch):
    """Without OpenMM's test systems; each row has its columns."""
    settings = exam.Settings(tmp_path, scale=0.001)
    monkeypatch.setenv(force_fields.FOLDER, str(tmp_path))
    assert len(force_fields.runs(settings)) == sum(len(case.constraints) for case in force_fields.CASES.values())
    monkeypatch.delenv(force_fields.FOLDER)
    calls = force_fields.runs(settings)
    assert "CHARMM36-villin-flexible" in calls and not any("Desmond" in name for name in calls)
    result = exam.Result(calls["GAFF-toluene-HBonds"]())
    table, *_ = force_fields.report({"GAFF-toluene-HBonds": result})
    assert all(len(row) == len(table.columns) for row in table.rows)
    toluene = [row for row in table.rows if row[0] == "GAFF, toluene" and row[1] == "HBonds"]
    assert [row[2] for row in toluene] == ["LangevinMiddle", "mass penalty, 1/ps", "mass penalty, 5/ps"]
    assert all("(" in cell for row in toluene for cell in row[7:10])
    assert all(force_fields.FOLDER in row[2] for row in table.rows if row[0] != "GAFF, toluene")
