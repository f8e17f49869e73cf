"""The scoreboard's criterion and its choice of steps, and the force field that it distils for a rival."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import openmm
import pytest

pytest.importorskip("mdtraj")
ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT/"examples"))
os.environ.setdefault("OMP_NUM_THREADS", "1")      # of tblite: more do not pay for a small molecule

import scoreboard  # noqa: E402
from expensive_forces import Geometry  # noqa: E402
from common.xtb import MOLECULES, add_distilled  # noqa: E402

ROWS = json.loads((ROOT/"docs/measurements.json").read_text())["scoreboard"]
METHODS = {"middle": scoreboard.Method("LangevinMiddle", scoreboard.middle, (1, 2, 3)),
           "penalty": scoreboard.Method("mass penalty", scoreboard.penalty, (8, 12, 14))}


def found(step, energy=-40.0, temperature=300.0, time=2.0):
    """A run with errors of 0.02 kJ/mol and 0.5 K, and an independent sample every `time` ps."""
    noise = np.random.default_rng(1).normal(size=400)
    noise -= noise.mean()
    return scoreboard.Found(step, 0.01, {"nonbonded": energy + 0.4*noise}, {"rotation": temperature + 10*noise},
                            {"reorientation": (time, 0.1)}, {})


class Subject(scoreboard.Subject):
    label, methods, slow = "water", METHODS, ("reorientation",)


def test_each_method_is_taken_at_its_largest_step_that_is_right():
    results = {("middle", 1): [found(0.001)], ("middle", 2): [found(0.002, energy=-40.1)], ("middle", 3): [],
               ("penalty", 8): [found(0.008, time=3.0), found(0.008, time=5.0)],
               ("penalty", 12): [found(0.012, temperature=297.5, time=4.0), found(0.012, time=8.0)],
               ("penalty", 14): [found(0.014, energy=-39.8, temperature=304.0)]}
    middle, ours = scoreboard.judge(Subject(), results)
    assert (middle["step"], middle["ours"], middle["wrong"]) == (2, False, {"3": "fails"})
    assert middle["evaluations"]["reorientation"] == pytest.approx((1000, 50))
    assert (ours["step"], ours["ours"], ours["wrong"]) == (12, True, {"14": "nonbonded +0.5(1) %, rotation +1.3(2) %"})
    assert ours["evaluations"]["reorientation"] == pytest.approx((500, 1000/6))     # the scatter of two seeds
    assert ours["seconds"] == 0.01


def test_nothing_is_right_without_a_reference(capsys):
    """Nor does the table or the picture need a rival or a right step."""
    first, ours = scoreboard.judge(Subject(), {("middle", 1): [], ("penalty", 8): [found(0.008)]})
    assert first["wrong"] == {"1": "fails"} and ours["wrong"] == {"8": "no reference"}
    assert (first["step"], ours["step"]) == (None, None)
    scoreboard.print_rows([first, ours])
    assert "1 fs: fails" in capsys.readouterr().out
    _, right = scoreboard.judge(Subject(), {("middle", 1): [found(0.001)], ("penalty", 8): [found(0.008)]})
    scoreboard.print_rows([first, right])
    assert "250(12)  nan" in capsys.readouterr().out


def test_a_report_of_no_runs_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["scoreboard.py", "--report", "--systems", "ethanol", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        scoreboard.main()
    assert "has no runs that are right; make them without --report" in capsys.readouterr().err


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


def test_the_readme_quotes_the_scoreboard():
    counts = {f"{value:.0f}({error:.0f}) at {row['step']:g} fs" for row in ROWS
              for value, error in row.get("evaluations", {}).values()}
    readme = (ROOT/"README.md").read_text()
    table = readme[readme.index("| | `LangevinMiddleIntegrator`, flexible |"):].split("\n\n")[0]
    quoted = re.findall(r"\d+\(\d+\) at \d+ fs", table)
    assert len(quoted) >= 7 and set(quoted) <= counts


def test_what_is_recorded_replaces_the_rows_of_its_system(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", [str(ROOT/"examples/scoreboard.py"), "--systems", "tip3p"])
    shutil.copy(ROOT/"docs/measurements.json", tmp_path)
    row = {"system": ROWS[0]["system"], "method": "new"}
    others = [each for each in ROWS if each["system"] != row["system"]]
    first, *rest = scoreboard.record(tmp_path/"measurements.json", [row])
    assert rest == others and row.items() <= first.items()
    assert first["command"] == "examples/scoreboard.py --systems tip3p"
    assert json.loads((tmp_path/"measurements.json").read_text())["scoreboard"] == [first, *rest]


def test_the_picture_of_the_readme_is_drawn_from_these_figures(tmp_path):
    scoreboard.draw(ROWS, tmp_path/"scoreboard.png")
    assert (tmp_path/"scoreboard.png").stat().st_size > 10000
