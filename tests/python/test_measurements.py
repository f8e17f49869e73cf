"""The tables of the handbook are those of docs/measurements.json."""
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {path: path.read_text() for path in (ROOT/"README.md", *sorted(ROOT.glob("docs/*.md")))}


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measurements = load(ROOT/"docs/measurements.py")
DATA = measurements.load()


def test_tables_of_the_pages_are_those_of_the_file():
    for page, text in PAGES.items():
        assert text == measurements.rewrite(text, DATA["tables"]), f"{page}: call python docs/measurements.py"


def test_each_measurement_says_what_repeats_it():
    """A script, a part of the validation or a command of the package that are there."""
    commands = {each["command"] for section in (DATA["scoreboard"], DATA["tables"].values()) for each in section
                if "command" in each}
    exams = {path.stem.replace("_", "-") for path in ROOT.glob("tests/validation/exams/*.py")}
    names = re.findall(r"<!-- table: (.*?)[;\n ]", "\n".join(PAGES.values()))
    assert commands and names
    for command in commands:
        exam = re.fullmatch(r"make validate EXAMS=([a-z-]+)", command)
        assert exam and exam[1] in exams or (ROOT/command.split()[0]).is_file() or (
            command.startswith("python -m openmmstiff ")), command
    for name in names:
        assert name in ("scoreboard", "validation") or re.fullmatch(
            r"\d{4}-\d\d-\d\d, \d+\.\d+\.\d+.*", DATA["tables"][name]["made"])


def test_validation_counts():
    """Of docs/validation.md and the README."""
    exams = DATA["validation"]["exams"]
    assert all(exam["hold"] == exam["claims"] for exam in exams)
    claims, limits = sum(exam["claims"] for exam in exams), sum(len(exam["limits"]) for exam in exams)
    for page in "README.md", "docs/validation.md":
        assert f"{claims} claims" in PAGES[ROOT/page] and f"{limits} limits" in PAGES[ROOT/page]


def test_a_recorded_table_is_shown(tmp_path, monkeypatch, capsys):
    """What a script prints with --record is what a page has, in the rows and columns that it chooses."""
    tables = pytest.importorskip("common.tables")
    path, script = tmp_path/"record.json", str(ROOT/"examples/mixed_ml.py")
    monkeypatch.setattr("sys.argv", [script, "--time", "4", "--processes", "2", "--record", str(path)])
    columns, rows = ["run", "integrator", "T (K)"], [["a", "one", tables.with_error(299.31, 1.68, 1)],
                                                     ["b", "two", "300(1)"], ["c", "two", ""]]
    tables.print_table(columns, iter(rows), path, "trial")
    tables.print_table(columns, iter(rows[:1]), path, "again")
    assert capsys.readouterr().out.count("one") == 2
    data = tables.read(path)
    assert data["tables"].keys() == {"trial", "again"} and data["tables"]["trial"]["rows"] == rows
    assert data["tables"]["trial"]["command"] == "examples/mixed_ml.py --time 4"
    text = "<!-- table: trial; integrator; T (K)\nrows: b; c; a -->\nold\n<!-- end -->"
    assert [line for line in measurements.rewrite(text, data["tables"]).splitlines() if line.startswith("|")] == [
        "| integrator | T (K) |", "| --- | --- |", "| two | 300(1) |", "| | |", "| one | 299.3(17) |"]


def test_a_validation_goes_into_the_file(tmp_path):
    """Tables that have a name; counts and the picture only of a whole one."""
    table = {"heading": "", "columns": ["run", "T (K)"], "rows": [["a", "300(1)"]]}
    exam = {"exam": "amoeba", "title": "", "made": "2030-01-02", "claims": [],
            "tables": [table | {"name": name} for name in ("amoeba", "")]}
    validation = {"date": "2030-01-02", "made with": "openmmstiff 0.9.0, OpenMM 9", "exams": [exam]}
    (tmp_path/"validation.json").write_text(json.dumps(validation))
    shutil.copy(ROOT/"docs/measurements.json", tmp_path)
    before = json.loads((tmp_path/"measurements.json").read_text())
    script = ROOT/"tests/validation/summary.py"
    subprocess.run([sys.executable, script, tmp_path/"validation.json", tmp_path], check=True)
    after = json.loads((tmp_path/"measurements.json").read_text())
    assert after["tables"].pop("amoeba") == {"command": "make validate EXAMS=amoeba", "made": "2030-01-02, 0.9.0",
                                             "columns": ["run", "T (K)"], "rows": [["a", "300(1)"]]}
    del before["tables"]["amoeba"]
    assert after == before
