"""What the README says to type works as it stands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import run_python

README = (Path(__file__).parents[2]/"README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def shortened(code, *changes):
    """The code with fewer steps; each change must have something to change."""
    for old, new in changes:
        assert old in code
        code = code.replace(old, new)
    return code


def test_first_script_runs_and_reports():
    script, = blocks("python")
    result = run_python(shortened(script, ("minimizeEnergy()", "minimizeEnergy(maxIterations=20)"),
                                  ("sys.stdout, 500", "sys.stdout, 10"), ("step(10000)", "step(40)")))
    assert result.returncode == 0, result.stderr
    names, *lines = result.stdout.splitlines()
    assert names.startswith('#"Time (ps)","Temperature (K)"') and len(lines) == 4
    time, temperature = map(float, lines[-1].split(",")[:2])
    assert time == pytest.approx(0.32)
    assert 150 < temperature < 400


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_cpp_program_compiles_and_runs(tmp_path):
    program, = blocks("cpp")
    commands = next(block for block in blocks("sh") if "g++" in block)
    (tmp_path/"bond.cpp").write_text(program)
    environment = {name: value for name, value in os.environ.items() if name != "OPENMM_PLUGIN_DIR"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    result = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, env=environment, capture_output=True, text=True,
                            timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout in ("CPU, 8 ps\n", "Reference, 8 ps\n")
