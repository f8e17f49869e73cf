"""The tour, examples/tour.ipynb: it runs, finds what it says, and reads without being run."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2]/"examples"/"tour.ipynb"
LENGTH = "PICOSECONDS = 30"  # what the test shortens


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """What a cell has shown: text, pictures, bars."""
    return [output.get("name") or sorted(output.data) for output in cell.outputs]


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(TOUR, as_version=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The notebook run anew, in its folder, on 4 ps instead of 30."""
    notebook = nbformat.read(TOUR, as_version=4)
    first = code_cells(notebook)[0]
    assert LENGTH in first.source
    first.source = first.source.replace(LENGTH, "PICOSECONDS = 4")
    for cell in code_cells(notebook):
        cell.outputs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENMM_CPU_THREADS", "1")
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        patch.delenv("MPLBACKEND", raising=False)  # pictures go into the notebook
        NotebookClient(notebook, timeout=600, coalesce_streams=True,
                       resources={"metadata": {"path": TOUR.parent}}).execute()
    return notebook


def test_it_reads_without_being_run(kept):
    text = TOUR.read_text()
    assert len(text) < 600_000
    assert not re.search(r"/(home|tmp|root|usr|opt|var|work|Users)/", text)
    assert set(kept.metadata) == {"kernelspec", "language_info"}
    cells = code_cells(kept)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells[1:])  # all but the one with the length
    assert sum("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs) == 3


def test_it_shows_what_is_kept(kept, made):
    shown = [kinds(cell) for cell in code_cells(made)]
    assert shown == [kinds(cell) for cell in code_cells(kept)] and not any("stderr" in each for each in shown)


@pytest.mark.parametrize("which, scale", [("kept", 1), ("made", 2)])
def test_it_finds_what_it_says(which, scale, request):
    """Bounds for 30 ps, and twice as wide for 4."""
    text = "".join(output.text for cell in code_cells(request.getfixturevalue(which)) for output in cell.outputs
                   if output.output_type == "stream")
    # The lines of all tables, by their first cell; of two tables with the same the first counts.
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    found = {name: cells for name, *cells in reversed(lines) if cells}

    def number(row, column):
        return float(found[row][column].partition("+-")[0])

    water = {"SETTLE, 4 fs": -40.1, "projected impulse, 4 fs": -40.2, "flexible, 2 fs": -44.7,
             "mass penalty, 12 fs": -44.7}
    for name, nonbonded in water.items():
        assert number(name, 0) == pytest.approx(300, abs=8*scale)
        assert number(name, 1) == pytest.approx(nonbonded, abs=0.5*scale)
    for name, bonds, angles, length in (("flexible, 2 fs", 3.87, 1.84, 0.09733),
                                        ("mass penalty, 12 fs", 3.85, 1.83, 0.09733),
                                        ("projected impulse, 4 fs", 2.494, 1.247, 0.09583)):
        assert number(name, 2) == pytest.approx(bonds, abs=0.12*scale)
        assert number(name, 3) == pytest.approx(angles, abs=0.08*scale)
        assert number(name, 4) == pytest.approx(length, abs=1e-4*scale)
    steps = {name: number(name, 0) for name in ("LangevinMiddleIntegrator", "MassPenaltyLangevinIntegrator")}
    assert steps["LangevinMiddleIntegrator"] == 2 and steps["MassPenaltyLangevinIntegrator"] == pytest.approx(12, abs=1)

    assert "LangevinMiddleIntegrator, 3 fs" in text and "Particle coordinate is NaN" in text
    spring, spook = map(float, re.search(r"mean square: spring ([\d.]+), SPOOK ([\d.]+)", text).groups())
    assert spring < 0.015 and spook < 0.01
    for name in ("triangle, 1 degrees", "triangle, 0.1 degrees", "chair"):
        assert found[name][0].startswith("NaN")
        assert max(map(float, found[name][2:])) < 0.03
    assert float(found["chair"][1]) < 1e-9 and found["triangle, 0.1 degrees"][1] == "refused"
    assert max(float(found[name][0]) for name in ("triangle, 60 degrees", "triangle, 10 degrees")) < 1e-4
