"""The examples run, and find what they should, at a small size."""

import json
from pathlib import Path

import numpy as np
import openmm
import pytest

from conftest import energies_of, run_script

FOLDER = Path(__file__).parents[2]/"examples"
RUNS = {  # options, the figure, and what is printed
    "papers/tao_owhadi/double_pendulum": (["--time", "1"], "Largest over smallest, omega from 10 to 1000"),
    "papers/tao_owhadi/pendulum_chain": (["--time", "1", "--links", "3"], "Z&S"),
    "papers/tao_owhadi/dna": (["--time", "40", "--draws", "1"], "Z&S, h = 2"),
    "papers/tao_owhadi/magnetised_body": (["--time", "1"], "Z&S, b = 0.2"),
    "papers/tao_owhadi/water_clusters": (["--shorten", "100", "--replicas", "1", "--part", "multipliers"],
                                         "q, averages"),
    "papers/rod_ladder": (["--time", "0.5", "--links", "3", "--largest", "20"], "Slope in logarithms"),
    "papers/velocity_constraints": (["--halvings", "1"], "Lowest point of the skate"),
    "papers/inverted_pendulum": (["--steps", "10", "20"], "Largest errors of the angles"),
    "papers/paul_trap": (["--halvings", "1"], "corrected"),
    "true_dynamics": (["--waters", "194", "--time", "0.5", "--snapshots", "3"], "tau (ps)"),
}


def run_example(name, *options):
    """What it prints, which has no nan."""
    printed = run_script(FOLDER/f"{name}.py", *options).stdout
    assert "nan" not in printed
    return printed


@pytest.mark.parametrize("name", RUNS)
def test_example_runs_and_draws(name, tmp_path):
    options, printed = RUNS[name]
    assert printed in run_example(name, *options, "--output", tmp_path)
    assert (tmp_path/f"{Path(name).name}.png").stat().st_size > 10000


@pytest.mark.parametrize("system, methods, column", [("tip3p", ("settle:4", "rigid:10"), "rotation (%)"),
                                                     ("alanine", ("constrained:4", "rigid:10"), "methyl (ps)")])
def test_large_boxes_compare_methods(system, methods, column, tmp_path):
    """With the first as the reference."""
    record = tmp_path/"record.json"
    run_example("large_boxes", "--system", system, "--platform", "CPU", "--copies", "1", "--time", "4",
                "--equilibration", "0.1", "--methods", *methods, "--record", record)
    table = json.loads(record.read_text())["tables"][f"large-boxes-{system}"]
    reference, ours = (dict(zip(table["columns"], row)) for row in table["rows"])
    assert reference["nonbonded (%)"].startswith("0.00(") and reference[column] and ours[column]
    assert abs(float(ours["nonbonded (%)"].partition("(")[0])) < 3


def test_expensive_forces_compares_kinds_of_angles(tmp_path):
    assert "C1-C2-O" in run_example("expensive_forces", "--time", "1", "--seeds", "1", "--processes", "1", "--runs",
                                    "middle-2fs", "penalty-12fs", "--output", tmp_path)


def test_ase_molecules_compares_the_steps(tmp_path):
    options = ["--time", "1", "--molecules", "ethanol", "--copies", "2"]
    printed = run_example("ase_molecules", *options, "--output", tmp_path)
    assert "mass penalty, 12 fs" in printed
    row, = (line.split() for line in printed.splitlines() if line.startswith("C-H "))
    assert all(1.08 < float(value.partition("(")[0]) < 1.12 for value in row[1:3])


def test_ml_water_compares_the_steps(tmp_path):
    """In flexible TIP3P in place of a potential with weights: bonds of 0.0973 nm in liquid water, at 300 K."""
    options = ["--potential", "TIP3P", "--waters", "32", "--steps", "12", "--time", "6", "--reference-time", "3"]
    run_example("ml_water", *options, "--seeds", "1", "--output", tmp_path, "--record", tmp_path/"record.json")
    rows = json.loads((tmp_path/"record.json").read_text())["tables"]["ml-water"]["rows"]
    found = {name: [float(cell.partition("(")[0]) for cell in cells] for name, *cells in rows}
    assert found["O-H (nm)"] == pytest.approx(2*[0.0973], abs=2e-4)
    assert found["T (K)"] == pytest.approx(2*[300], abs=16)     # five errors, by blocking
    assert found["evaluations"] == [6000, 500]


def test_nested_energies_compares_with_direct_runs(tmp_path):
    options = ["--molecules", "ethanol", "--energies", "50", "--steps", "10", "--direct", "1", "--output", tmp_path]
    for _ in range(2):      # what has been done is not done again
        run_example("nested_energies", *options, "--record", tmp_path/"record.json")
    tables = json.loads((tmp_path/"record.json").read_text())["tables"]
    *torsions, energy = (dict(zip(table["columns"], row)) for table in [
        tables["nested-ethanol-GFN1-xTB-GFN2-xTB-independent"]] for row in table["rows"])
    assert len(torsions) <= 1       # of one that turns
    assert 0.3 < float(energy["spread (kT)"]) < 1.5 and energy["energies"] == "50"
    lengths = {row[0]: row[1:] for row in tables["nested-right-ethanol"]["rows"]}
    assert all(1.08 < float(cell.partition("(")[0]) < 1.12 for cell in lengths["C-H"])


def test_ase_molecules_measures_copies():
    """Bonds and angles of each copy are those that ASE measures."""
    from ase_molecules import geometry_of
    from common.molecules import build_atoms
    copies = [build_atoms("ethanol") for _ in range(3)]
    for seed, atoms in enumerate(copies):
        atoms.rattle(0.05, seed=seed)
    found = geometry_of(copies[0]).measure(np.array([atoms.positions for atoms in copies]))
    assert found["C-O"][:, 0] == pytest.approx([atoms.get_distance(1, 2) for atoms in copies])
    assert found["C-O-H"][:, 0] == pytest.approx([atoms.get_angle(1, 2, 8) for atoms in copies])


def test_martini_pairs_have_the_published_energies():
    """C6 and C12 of martini_v2.1.itp [kJ/mol nm^6 and nm^12], which have five digits."""
    from martini_cholesterol import CUTOFF, KINDS, make_forces
    levels = {("C1 C1", "SC1 C1", "SC3 C1"): (0.15091, 0.16267e-2),
              ("SC1 SC1", "SC1 SC3", "SC3 SC3", "SP1 SC3"): (0.066375, 0.41957e-3),
              ("SP1 SP1",): (0.085338, 0.53946e-3), ("SP1 SC1",): (0.051203, 0.32367e-3),
              ("SP1 C1",): (0.11642, 0.12549e-2)}
    for kinds, (c6, c12) in ((kinds, level) for alike, level in levels.items() for kinds in alike):
        system, pairs = openmm.System(), make_forces()["pairs"]
        system.addForce(pairs)
        for name in kinds.split():
            system.addParticle(72)
            pairs.addParticle(KINDS[name])
        system.setDefaultPeriodicBoxVectors((3, 0, 0), (0, 3, 0), (0, 0, 3))
        context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))
        for r in (0.45, 0.6, 1.05):
            context.setPositions([(0, 0, 0), (r, 0, 0)])
            found, _ = energies_of(context)
            expected = sum(sign*(c12/d**12 - c6/d**6) for sign, d in ((1, r), (-1, CUTOFF)))
            assert found == pytest.approx(expected, abs=3e-5*(c12/r**12 + c6/r**6))


def test_why_ccma_fails_on_martini_cholesterol():
    """It iterates with a constant inverse B of A = G M^-1 G^T, and converges if the radius of 1 - B A is below 1."""
    from martini_cholesterol import C1, C2, LENGTHS, MASSES, ROH, build_shape
    pairs = list(LENGTHS)

    def matrix(fold):
        """A with a unit diagonal, for a ring whose triangles are folded by an angle [degrees] along their edge, z."""
        shape, fold = build_shape(), np.radians(fold)
        shape[C1] = shape[C1] @ [[1, 0, 0], [np.sin(fold), np.cos(fold), 0], [0, 0, 1]]
        gradients = np.zeros((len(pairs), C2, 3))
        for gradient, (i, j) in zip(gradients, pairs):
            gradient[i] = (shape[i] - shape[j])/LENGTHS[i, j]
            gradient[j] = -gradient[i]
        masses = [mass or np.inf for mass in MASSES[:C2]]
        found = np.einsum("pai,qai,a->pq", gradients, gradients, np.reciprocal(masses))
        size = np.sqrt(np.diag(found))
        return found/np.outer(size, size)

    def radius(approximate, fold):
        return np.abs(np.linalg.eigvals(np.eye(len(pairs)) - np.linalg.solve(approximate, matrix(fold)))).max()

    # Constraints of different triangles with one bead in common: CCMA knows no angle between them.
    unknown = [[{ROH, C1} <= {*p, *q} and len({*p, *q}) == 3 for q in pairs] for p in pairs]
    assert np.sum(unknown) == 4
    assert radius(np.where(unknown, 0, matrix(0)), 0) == pytest.approx(1.49, abs=0.01)
    # Told the angles of the flat ring it manages small folds.
    assert radius(matrix(0), 35) < 1 < radius(matrix(0), 40)


def test_martini_cholesterol_holds_where_openmm_fails(tmp_path):
    options = ["--cholesterols", "8", "--butanes", "150", "--equilibration", "30", "--time", "30", "--steps", "30"]
    run_example("martini_cholesterol", *options, "--runs", "ccma", "penalty", "slow",
                "--record", tmp_path/"record.json")
    table = json.loads((tmp_path/"record.json").read_text())["tables"]["martini-cholesterol"]
    middle, *ours = (dict(zip(table["columns"], row)) for row in table["rows"])
    assert middle["integrator"] == "LangevinMiddle" and middle["T (K)"].startswith("fails")
    # The tolerance; and for 40 springs at 100 times, the shortest of 0.2719 nm, six times sqrt(kT/k) = 1.6 pm.
    for row, largest in zip(ours, (1e-5, 6*0.0016/0.2719), strict=True):
        assert float(row["deviation"]) < largest
        # 530 or 570 degrees of freedom fluctuate by 19 K, with a correlation time of 1/2 ps: an error of 3.5 K.
        assert abs(float(row["T (K)"].partition("(")[0]) - 310) < 5*3.5
