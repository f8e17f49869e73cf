"""The scoreboard's bounds and its choice of runs, and the force field that it distils for a rival."""

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
os.environ.setdefault("OMP_NUM_THREADS", "1")      # of tblite: more do not pay for a small molecule

import scoreboard  # noqa: E402
from common import proteins, scores  # noqa: E402
from common.observables import transitions, turns  # noqa: E402
from expensive_forces import Geometry  # noqa: E402
from common.xtb import MOLECULES, add_distilled  # noqa: E402

ROWS = json.loads((ROOT/"docs/measurements.json").read_text())["scoreboard"]
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


@pytest.mark.parametrize("name, kind, tolerance", [("nonbonded", "energy between molecules", 0.3),
                                                   ("bonds", "bonded energies", 1), ("rotation", "temperatures", 1)])
def test_a_bound_is_the_deviation_and_two_errors(name, kind, tolerance):
    """One that is beyond its tolerance by more than these is wrong, and none that can be within."""
    for value, error, wrong, within in ((0, 0.4, False, True), (0.7, 0.14, False, True), (1.3, 0.14, True, False),
                                        (0, 0.6, False, False), (0.7, 0.16, False, False), (1.3, 0.16, False, False)):
        for sign in 1, -1:
            each = step(**{name: (sign*value*tolerance, error*tolerance)})
            assert (scores.is_wrong(each), scores.is_within(each)) == (wrong, within)
    found = scores.bounds(step(**{name: (-0.61, 0.1)}))
    assert found.pop(kind) == f"0.9: {'' if name == 'nonbonded' else f'{name} '}-0.61(10)"     # 0.81, rounded up
    assert not any(found.values())      # nothing is said of what a System has not
    for unknown in {"deviations": {name: None}}, {"failure": "fails"}:
        assert not scores.is_within(unknown) and scores.is_wrong(unknown) == ("failure" in unknown)


def test_of_several_kinds_the_largest_bound_is_told_and_what_is_not_on_record():
    found = scores.bounds(step(bonds=(0.5, 0.1), angles=(0.2, 0.6), translation=(2, 0.2)))
    assert found == {"energy between molecules": "", "bonded energies": "1.4: angles +0.20(60)",
                     "temperatures": "2.4: translation +2.00(20)"}
    found = scores.bounds(step(bonds=(2, 0.1), angles=(0, 1.5)))["bonded energies"]
    assert found == "2.2: bonds +2.00(10)"      # what is wrong goes before
    found = scores.bounds({"deviations": {"nonbonded": None, "bonds": (0.02, 0.012), "angles": None}})
    assert found["energy between molecules"] == "not recorded"
    assert found["bonded energies"] == "4.4: bonds +2.0(12); others not recorded"


def test_no_step_above_a_wrong_one_is_taken():
    right, wrong, unknown = step(bonds=(0, 0.1)), step(bonds=(2, 0.1)), step(bonds=(0, 1.0))
    for steps, usable, largest in (
            ({"4": right, "8": right, "10": wrong, "12": right}, ["4", "8"], "8"),
            ({"8": wrong, "12": right}, [], None),
            ({"10": right, "8": unknown}, ["8", "10"], "10"), ({"8": right, "10": unknown}, ["8", "10"], "8"),
            ({"8": unknown, "10": unknown, "12": {"failure": "fails"}}, ["8", "10"], "10")):
        assert (list(scores.usable(steps)), scores.largest(steps)) == (usable, largest)


def test_the_table_has_each_step_up_to_the_first_wrong_one():
    lost, steps = {"failure": "lost"}, {"10": step(bonds=(2, 0.1)), "8": step(bonds=(0, 0.1)), "12": step(bonds=(3, 0))}
    rows = [{"system": "water", "method": "mass penalty", "steps": steps},
            {"system": "water", "method": "other", "steps": {"3": lost, "4": lost}}]
    assert scores.table(rows, {("water", "mass penalty", "8"): 0.01})["rows"] == [
        ["water", "mass penalty", "8", "", "0.2: bonds +0.00(10)", "", "reorientation 500(20), 5 s"],
        ["water", "", "10: wrong", "", "2.2: bonds +2.00(10)", "", "reorientation 500(20)"],
        ["water", "other", "3: fails", "", "", "", ""]]


def test_a_proteins_own_motion_is_told_apart_from_its_waters():
    found = {"reorientation": (500, 20), "methyl": (900, 200), "chi1": (4000, 3000)}
    assert scores.samples({"evaluations": found}, None) == "methyl 900(200); of its water: reorientation 500(20)"


def test_deviations_are_of_energies_from_the_reference_and_of_temperatures_from_the_bath():
    results = {("middle", 1): [found(0.001)], ("middle", 2): [found(0.002, energy=-40.3)], ("middle", 3): [],
               ("penalty", 8): [found(0.008, time=3.0), found(0.008, time=5.0)],
               ("penalty", 12): [found(0.012, temperature=297.6)],
               ("penalty", 14): [found(0.014, noise=10)]}
    middle, ours = scoreboard.judge(Subject(), results)
    assert not middle["ours"] and ours["ours"]
    assert list(scores.usable(middle["steps"])) == ["1"] and middle["steps"]["3"] == {"failure": "fails"}
    assert scores.bounds(middle["steps"]["2"])["energy between molecules"].endswith(": -0.75(3)")
    assert list(scores.usable(ours["steps"])) == ["8", "12", "14"] and scores.largest(ours["steps"]) == "8"
    assert ours["steps"]["12"]["deviations"]["rotation"] == pytest.approx((-0.008, 0.5/300), rel=0.2)
    # Samples of two seeds add up: 1/375 and 1/625 for an evaluation, whose scatter is the error.
    assert ours["steps"]["8"]["evaluations"]["reorientation"] == pytest.approx((468.75, 117.1875))
    own, other = (each["steps"][fs]["deviations"]["nonbonded"][1] for each, fs in ((middle, "1"), (ours, "12")))
    assert own == pytest.approx(2*other/2**0.5, rel=1e-6)       # a reference has to be twice as sure
    for others in {("middle", 1): []}, {("middle", 2): [found(0.002)]}, {}:
        *_, alone = scoreboard.judge(Subject(), {**others, ("penalty", 8): [found(0.008)]})
        assert scores.bounds(alone["steps"]["8"])["energy between molecules"] == "not recorded"    # without a reference


def test_runs_go_on_while_bounds_are_beyond_up_to_the_first_wrong_step(tmp_path):
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
    assert next_runs() == ["middle-2-0", "penalty-8-1"]         # beyond its tolerance: again
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


def test_the_picture_is_of_steps_that_their_own_rows_allow():
    """Eight bars at most; the rivals' at their largest steps, ours at no larger one than the same rule gives."""
    steps = {(row["system"], row["method"]): row["steps"] for row in ROWS}
    bars = [(scoreboard.SUBJECTS[name].label, bar) for name in scoreboard.DRAWN
            for bar in scoreboard.times_fewer(scoreboard.SUBJECTS[name], ROWS)]
    assert 5 <= len(bars) <= 8
    for system, bar in bars:
        for text, ours in (bar["label"], bar["ours"]), (bar["against"], False):
            method, fs = text.removesuffix(" fs").rsplit(", ", 1)
            largest = scores.largest(steps[system, method])
            assert float(fs) <= float(largest) if ours else fs == largest
    (system, bar), = [each for each in bars if "TIP3P" in each[0]]
    assert bar["against"] == "LangevinMiddle, SETTLE, 5 fs"


def test_the_readme_quotes_the_record(monkeypatch):
    """Each "so many times fewer evaluations" of it, and of its table, is one of what is compared, with a rival's step of
    practice or its largest."""
    quoted, known = re.findall(r"\| (\d+\.\d)(?:\(\d+\))?, |(\d+\.\d) times fewer",
                               (ROOT/"README.md").read_text()), set()
    quoted = [one or other for one, other in quoted]
    for subject in scoreboard.SUBJECTS.values():
        steps = {fs for row in ROWS if row["system"] == subject.label for fs in scores.usable(row["steps"])}
        compared = [(key, float(fs)) for key, _ in (*subject.shown, ("penalty", 0)) for fs in steps]
        monkeypatch.setattr(subject, "shown", compared, raising=False)
        known |= {f"{bar['fewer']:.1f}" for kind in subject.slow for base in (None, subject.practice[1])
                  for bar in scoreboard.times_fewer(subject, ROWS, base, kind)}
    assert len(quoted) >= 10 and set(quoted) <= known, set(quoted) - known


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
    scoreboard.draw(ROWS, tmp_path/"scoreboard.png")
    light, dark = (image.imread(tmp_path/f"{name}.png") for name in ("scoreboard", "scoreboard-dark"))
    assert light.shape == dark.shape and light[0, 0, :3].min() == 1 and dark[0, 0, :3].max() == 0   # their margins
