"""The scoreboard's verdicts and its choice of runs, and the force field that it distils for a rival."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import openmm
import pytest
from matplotlib import image

mdtraj = pytest.importorskip("mdtraj")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT/"examples"))
os.environ.setdefault("OMP_NUM_THREADS", "1")      # of tblite: more do not pay for a small molecule

import scoreboard  # noqa: E402
from common import proteins, scores  # noqa: E402
from common.observables import transitions, turns  # noqa: E402
from expensive_forces import Geometry  # noqa: E402
from common.xtb import MOLECULES, add_distilled  # noqa: E402

RECORD = json.loads((ROOT/"docs/measurements.json").read_text())
ROWS, SECONDS = RECORD["scoreboard"], scores.step_seconds(RECORD["tables"])
METHODS = {"middle": scoreboard.Method("LangevinMiddle", scoreboard.middle, (1, 2, 3)),
           "penalty": scoreboard.Method("mass penalty", scoreboard.penalty, (8, 12, 14))}


def found(step, energy=-40.0, temperature=300.0, time=2.0, noise=1.0):
    """A run with errors of `noise` times 0.01 kJ/mol and 0.5 K, and an independent sample every `time` ps."""
    ups = np.random.default_rng(1).normal(size=400)
    ups -= ups.mean()
    return scoreboard.Found(step, {"nonbonded": energy + 0.2*noise*ups}, {"rotation": temperature + 10*noise*ups},
                            {"reorientation": (time, 0.1)}, {})


class Subject(scoreboard.Subject):
    label, methods, slow = "water", METHODS, ("reorientation",)


def step(**deviations):
    """A step of a record; deviations and their errors in per cent."""
    return {"deviations": {name: (value/100, error/100) for name, (value, error) in deviations.items()},
            "evaluations": {"reorientation": (500, 20)}}


@pytest.mark.parametrize("name, tolerance", [("nonbonded", 0.3), ("bonds", 1), ("rotation", 1)])
def test_two_errors_decide(name, tolerance):
    for value, error, verdict in ((0, 0.4, "right"), (0.7, 0.14, "right"), (1.0, 0, "right"), (1.3, 0.14, "wrong"),
                                  (0, 0.6, "undecided"), (0.7, 0.16, "undecided"), (1.3, 0.16, "undecided")):
        for sign in 1, -1:
            assert scores.verdict(step(**{name: (sign*value*tolerance, error*tolerance)})) == verdict
    assert scores.verdict({"deviations": {name: None}}) == "undecided"
    assert scores.verdict({"failure": "fails"}) == "wrong"


def test_a_step_is_right_only_if_all_smaller_ones_are():
    """No fault is hidden below a step that is right, and none that is undecided is called right."""
    right, wrong, undecided = step(bonds=(0, 0.1)), step(bonds=(2, 0.1)), step(bonds=(0, 1.0))
    assert scores.Reach.of({"4": right, "8": right, "10": wrong, "12": right}) == scores.Reach(8, [], 10)
    hidden = scores.Reach.of({"8": wrong, "12": right})
    assert (hidden.right, hidden.wrong, hidden.verdict(12)) == (None, 8, "wrong")
    assert scores.Reach.of({"10": right, "8": undecided}) == scores.Reach(None, [8, 10], None)     # 10 after 8
    assert scores.Reach.of({"8": right, "10": undecided, "12": wrong}).verdict(10) == "undecided"


def test_a_winner_at_the_end_of_its_grid_is_marked():
    def cells(at_8, at_10):
        row = {"system": "water", "method": "mass penalty", "steps": {"8": step(bonds=at_8), "10": step(bonds=at_10)}}
        whole = scores.table([row], {("water", "mass penalty", "8"): 0.01})
        return dict(zip(whole["columns"], whole["rows"][0]))

    assert cells((0, 0.1), (0, 0.1))["first wrong step (fs)"] == "none up to 10, the last that was run"
    found = cells((0, 0.1), (2, 0.1))
    assert (found["first wrong step (fs)"], found["right up to (fs)"]) == ("10: bonds +2.0(1) %", "8")
    assert found["evaluations for a sample, seconds"] == "at 8 fs: reorientation 500(20), 5 s"
    found = cells((0.8, 0.2), (2, 0.1))
    assert (found["right up to (fs)"], found["undecided (fs)"]) == ("none", "8")


def test_the_record_says_of_every_step_what_it_is():
    """Every table and picture of it goes by Reach, and what it calls right is right by the bare numbers, too."""
    for row in ROWS:
        reach = scores.Reach.of(row["steps"])
        for fs, each in row["steps"].items():
            if float(fs) <= (reach.right or 0):
                assert all(abs(value) + 2*error <= (0.003 if name == "nonbonded" else 0.01)
                           for name, (value, error) in each["deviations"].items()), (row["system"], row["method"], fs)


def test_deviations_are_of_energies_from_the_reference_and_of_temperatures_from_the_bath():
    results = {("middle", 1): [found(0.001)], ("middle", 2): [found(0.002, energy=-40.3)], ("middle", 3): [],
               ("penalty", 8): [found(0.008, time=3.0), found(0.008, time=5.0)],
               ("penalty", 12): [found(0.012, temperature=297.6)],
               ("penalty", 14): [found(0.014, noise=10)]}
    middle, ours = scoreboard.judge(Subject(), results)
    assert not middle["ours"] and ours["ours"]
    assert scores.Reach.of(middle["steps"]) == scores.Reach(1, [], 2)
    assert scores.faults(middle["steps"]["2"]) == "nonbonded -0.7(0) %" and middle["steps"]["3"] == {"failure": "fails"}
    assert scores.Reach.of(ours["steps"]) == scores.Reach(8, [12, 14], None)
    assert ours["steps"]["12"]["deviations"]["rotation"] == pytest.approx((-0.008, 0.5/300), rel=0.2)
    # Samples of two seeds add up: 1/375 and 1/625 for an evaluation, whose scatter is the error.
    assert ours["steps"]["8"]["evaluations"]["reorientation"] == pytest.approx((468.75, 117.1875))
    own, other = (each["steps"][fs]["deviations"]["nonbonded"][1] for each, fs in ((middle, "1"), (ours, "12")))
    assert own == pytest.approx(2*other/2**0.5, rel=1e-6)       # a reference has to be twice as sure
    for others in {("middle", 1): []}, {("middle", 2): [found(0.002)]}, {}:
        *_, alone = scoreboard.judge(Subject(), {**others, ("penalty", 8): [found(0.008)]})
        assert scores.verdict(alone["steps"]["8"]) == "undecided"      # without a reference


def test_runs_go_on_while_undecided_up_to_the_first_wrong_step(tmp_path):
    def task(name):
        return scoreboard.Task(name, None, tmp_path/f"{name}.npz")

    def save(name, **what):
        scoreboard.Result(what).save(tmp_path/f"{name}.npz")

    def next_runs():
        return [task.name for task in scoreboard.wanted(Subject(), tasks, 1, Subject.methods)]

    tasks = {(key, fs): [task(f"{key}-{fs}-{seed}") for seed in range(3)]
             for key, method in METHODS.items() for fs in method.steps}
    noisy = vars(found(0.008, noise=20))
    assert next_runs() == ["middle-1-0", "penalty-8-0"]
    save("middle-1-0", **vars(found(0.001)))
    save("penalty-8-0", **noisy)
    assert next_runs() == ["middle-2-0", "penalty-8-1"]         # undecided: again
    save("penalty-8-1", **noisy)
    assert next_runs() == ["middle-2-0", "penalty-8-2"]         # and up to the budget
    save("penalty-8-2", **noisy)
    save("middle-2-0", failure="lost")
    assert next_runs() == ["penalty-12-0"]                      # nothing of LangevinMiddle beyond


def test_a_report_of_no_runs_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["scoreboard.py", "--report", "--systems", "ethanol", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        scoreboard.main()
    assert "has no runs; make them without --report" in capsys.readouterr().err


def test_who_leaves_a_well_and_comes_back_has_made_no_transition():
    """Three methyl-like wells, whatever the angle of the first, noise that leaves them, and two that swap at +-180."""
    for first in 0.3, 2.0, np.pi:
        angles = np.repeat(first + np.radians([0, 120, 240, 240, 0, 0, 240]), 200)
        angles += 0.35*np.random.default_rng(1).normal(size=angles.size)
        series = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        assert transitions(np.stack([series, series[::-1]], axis=1), 3) == 8
        assert transitions(series[:200, None], 3) == 0


def test_torsions_of_a_protein_are_found_and_measured():
    villin = proteins.read_villin("vacuum")
    found, names = proteins.torsions(villin.topology), [atom.name for atom in villin.topology.atoms()]
    assert [len(found[kind]) for kind in ("psi", "chi1", "methyl")] == [34, 29, 17]
    assert {tuple(names[i] for i in atoms) for atoms in found["psi"]} == {("N", "CA", "C", "N")}
    x = np.array(villin.positions.value_in_unit(openmm.unit.nanometer))
    cosines, sines = turns(x, found["psi"]).T
    whole = mdtraj.Trajectory(x, mdtraj.Topology.from_openmm(villin.topology))
    expected, = mdtraj.compute_dihedrals(whole, found["psi"])
    assert np.arctan2(sines, cosines) == pytest.approx(expected, abs=1e-4)


def test_a_distilled_force_field_leaves_the_force_and_takes_most_of_it():
    pytest.importorskip("tblite")
    molecule = MOLECULES["ethanol"]
    system, reference = molecule.build_system(), openmm.Platform.getPlatform("Reference")
    start = molecule.relax(system, 300, 1)
    whole = openmm.Context(openmm.XmlSerializer.clone(system), openmm.VerletIntegrator(0.001), reference)
    add_distilled(system, start, Geometry(molecule), 1, snapshots=30)
    split = openmm.Context(system, openmm.VerletIntegrator(0.001), reference)
    start.getIntegrator().step(100)
    positions = start.getState(positions=True).getPositions()
    forces = []
    for context, groups in (whole, {0}), (split, {0, 1}), (split, {0}):
        context.setPositions(positions)
        forces.append(context.getState(forces=True, groups=groups).getForces(asNumpy=True)._value)
    all_of_it, sum_of_both, rest = forces
    assert np.abs(sum_of_both - all_of_it).max() < 1e-6*np.abs(all_of_it).max()
    assert np.linalg.norm(rest) < 0.35*np.linalg.norm(all_of_it)


def test_the_readme_quotes_the_record():
    """Each "so many times fewer evaluations, or less time" of its first screen is one of the picture's."""
    readme = (ROOT/"README.md").read_text()
    shown = [bar for subject in scoreboard.SUBJECTS.values() for bar in scoreboard.times_fewer(subject, ROWS, SECONDS)]
    known = {f"{bar[kind]:.1f}" for bar in shown for kind in ("fewer", "faster")}
    quoted = re.findall(r"(\d+\.\d) times (?:fewer|less)", readme)
    assert len(quoted) >= 4 and set(quoted) <= known


def test_what_is_recorded_replaces_the_steps_that_were_run(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(ROOT/"examples/scoreboard.py"), "--systems", "tip3p"])
    shutil.copy(ROOT/"docs/measurements.json", tmp_path)
    first, *others = ROWS
    fs, *kept = first["steps"]
    rows = scoreboard.record(tmp_path/"measurements.json", [
        {**first, "steps": {fs: {"failure": "fails"}, "0.1": step(bonds=(0, 1))}}, {**first, "method": "new"}])
    assert list(rows[0]["steps"]) == ["0.1", fs, *kept] and rows[0]["steps"][fs]["failure"] == "fails"
    assert rows[0]["steps"][fs]["made"][:2] == "20" and rows[0]["command"] == "examples/scoreboard.py --systems tip3p"
    assert [row for row in rows[1:] if row["method"] != "new"] == others
    before, after = ([row["system"] for row in found].count(first["system"]) for found in (ROWS, rows))
    assert after == before + 1


def test_the_picture_of_the_readme_is_drawn_from_these_figures(tmp_path):
    scoreboard.draw(ROWS, tmp_path/"scoreboard.png", SECONDS)
    light, dark = (image.imread(tmp_path/f"{name}.png") for name in ("scoreboard", "scoreboard-dark"))
    assert light.shape == dark.shape and light[0, 0, :3].min() == 1 and dark[0, 0, :3].max() == 0   # their margins
